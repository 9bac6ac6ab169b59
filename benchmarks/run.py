"""dlbjax against what one would write instead, and how its cost grows: `make bench`.

Everything is timed in one process on all cores, dlbjax and its peers one after the other, each after
a first call that compiles. Horizons differ from part to part, so that all of it takes a quarter of an hour.
Writes results.json, table.md and three figures.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax

if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", os.cpu_count())

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator
from peers import numba_loop, numpy_loop, recursive_numba_loop

import dlbjax as dlb
from dlbjax.engine import prng
from dlbjax.engine.plan import BLOCK
from dlbjax.policies.base import make_schedule

PROBLEMS = {"synthetic": dlb.problems.synthetic, "real-world": dlb.problems.real_world}
NUMPY_RUNS = 16
FLOAT32_ROUNDS = 100_000  # of Lin-UCB, which rejects more in float32
POLICIES = {"DynLin-UCB": dlb.dynlin_ucb, "Lin-UCB": dlb.lin_ucb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--horizon", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        print(peak_memory_here(*map(int, args.memory_of.split(","))))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine()}
    for part in args.parts:
        begin = time.perf_counter()
        report[part] = PARTS[part](args)
        print(f"{part}: {time.perf_counter() - begin:.0f} s", flush=True)
        (args.out / "results.json").write_text(json.dumps(report, indent=1))
        (args.out / "table.md").write_text(table(report))
    print(table(report))
    draw(report, args.out)


def machine() -> dict:
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("dlbjax", "jax", "numba", "numpy")},
    }


def seconds(call, repeats: int, warm=None) -> tuple[float, object]:
    """Median time of a call, after one (or a shorter one) that compiles, and what it returned."""
    (warm or call)()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times)), answer


def against_peers(args) -> list[dict]:
    """Both policies on both problems of the paper, against loops in Numba and NumPy."""
    rows = []
    for problem in PROBLEMS:
        for policy in POLICIES:
            rows += against_peers_on(problem, policy, args)
    return rows


def against_peers_on(problem_name: str, policy_name: str, args) -> list[dict]:
    problem = PROBLEMS[problem_name]()
    horizon = min(
        args.horizon // 4, args.horizon if policy_name == "DynLin-UCB" else FLOAT32_ROUNDS
    )
    policy, peer = contestants(problem, policy_name, horizon)
    lengths = peer[1]

    short = min(horizon, 10_000)
    begin = time.perf_counter()
    theirs = np.array([numpy_loop(*peer, short, seed) for seed in range(NUMPY_RUNS)])
    numpy_time = (time.perf_counter() - begin) / NUMPY_RUNS
    ours = dlb.simulate(problem, policy, short, 256, progress=False).realised_regret[:, -1]
    numpy_apart = standard_errors_apart(ours, theirs, f"{policy_name} on {problem_name}, NumPy")
    rows = []
    for runs in args.runs:
        repeats = args.repeats if runs <= 256 else 1
        numba_time, theirs = seconds(
            lambda runs=runs: recursive_numba_loop(*peer, horizon, runs),
            1,
            lambda runs=runs: recursive_numba_loop(*peer, 10, runs),
        )
        for dtype in ("float64", "float32"):

            def simulate(horizon=horizon, runs=runs, dtype=dtype):
                return dlb.simulate(problem, policy, horizon, runs, dtype=dtype, progress=False)

            time_, ours = seconds(simulate, repeats, lambda: simulate(min(horizon, 20_000)))
            final = ours.realised_regret[:, -1]
            apart = standard_errors_apart(final, theirs, f"{policy_name} on {problem_name}, Numba")
            own, library = draw_time(len(lengths), runs, dtype, repeats)
            rows.append(
                {
                    "problem": problem_name,
                    "policy": policy_name,
                    "runs": runs,
                    "horizon": horizon,
                    "dtype": dtype,
                    "ns per round": 1e9 * time_ / runs / horizon,
                    "Numba, ns per round": 1e9 * numba_time / runs / horizon,
                    "NumPy, ns per round": 1e9 * numpy_time / short,
                    "drawing its normals, ns per round": 1e9 * own / runs / horizon,
                    "jax.random.normal, ns per round": 1e9 * library / runs / horizon,
                    "mean regret": final.mean(),
                    "Numba's mean regret": theirs.mean(),
                    "standard errors apart": apart,
                    "standard errors apart, NumPy": numpy_apart,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def contestants(problem: dlb.Problem, policy_name: str, horizon: int) -> tuple:
    """A policy, and the arguments with which the loops do the same: problem, epochs, β of each, λ."""
    policy = POLICIES[policy_name](dlb.Bounds.of(problem), np.log(horizon), 1 / horizon)
    schedule = make_schedule(policy, horizon, problem.actions)
    epochs = schedule.epochs
    lengths = np.repeat(epochs.lengths, epochs.counts)
    starts = np.r_[0, np.cumsum(lengths)[:-1]]
    betas = schedule.plan(dlb.Epoch(np.arange(1, len(lengths) + 1), starts, lengths))
    return policy, (problem, lengths, betas, np.log(horizon))


def side_by_side(problem: dlb.Problem, policy_name: str, horizon: int, runs: int, args) -> dict:
    """ns per round and run of dlbjax and of the recursive Numba loop, in turns; medians."""
    policy, peer = contestants(problem, policy_name, horizon)
    calls = {
        "dlbjax": lambda: dlb.simulate(problem, policy, horizon, runs, progress=False),
        "Numba, recursive": lambda: recursive_numba_loop(*peer, horizon, runs),
    }
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(args.repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(1e9 * (time.perf_counter() - begin) / runs / horizon)
    spread = {f"{name}, spread": float(np.ptp(ns) / np.median(ns)) for name, ns in times.items()}
    return {name: float(np.median(ns)) for name, ns in times.items()} | spread


def channels(args) -> list[dict]:
    """The cost of a budget over more and more channels, 256 runs; d² + 1 vertices."""
    rows = []
    for d in (2, 3, 4, 6, 8, 10, 12):
        problem = budget_problem(d)
        for policy in POLICIES:
            horizon = args.horizon // (4 if policy == "DynLin-UCB" else 20)  # about equal times
            row = {
                "policy": policy,
                "channels": d,
                "vertices": len(problem.actions),
                "horizon": horizon,
            }
            row |= side_by_side(problem, policy, horizon, 256, args)
            short = args.horizon // 400  # the plain loop takes ten times as long at ten channels
            _, peer = contestants(problem, policy, short)
            row["Numba"] = 1e9 / 256 / short * seconds(
                lambda peer=peer, short=short: numba_loop(*peer, short, 256), 1
            )[0]  # fmt: skip
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def action_sets(args) -> list[dict]:
    """The cost on sets with many vertices, 256 runs."""
    sets = {
        "budget over 16 channels": dlb.actions.budget(0.0, [1.0] * 16, total=1.5),
        "simplex in 16 dimensions": dlb.actions.simplex(16),
        "cube in 10 dimensions": dlb.actions.hypercube(10),
        "cube in 12 dimensions": dlb.actions.hypercube(12),
    }
    rows = []
    for name, actions in sets.items():
        problem = random_problem(np.random.default_rng(0), 3, actions)
        for policy in POLICIES:
            horizon = args.horizon // (50 if policy == "DynLin-UCB" else 1000)
            row = {"policy": policy, "set": name, "vertices": len(actions), "channels": actions.d,
                   "horizon": horizon}  # fmt: skip
            rows.append(row | side_by_side(problem, policy, horizon, 256, args))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def few_runs(args) -> list[dict]:
    """The cost on the synthetic problem with few runs side by side."""
    rows = []
    for runs in (8, 16, 32, 50, 64, 128, 256):
        for policy in POLICIES:
            horizon = args.horizon // (1 if policy == "DynLin-UCB" else 4)
            row = {"policy": policy, "runs": runs, "horizon": horizon}
            row |= side_by_side(dlb.problems.synthetic(), policy, horizon, runs, args)
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def budget_problem(d: int, n: int = 3) -> dlb.Problem:
    """A random system whose actions share a budget of 1.5, at most 1 for each channel."""
    actions = dlb.actions.budget(0.0, [1.0] * d, total=1.5)
    return random_problem(np.random.default_rng(d), n, actions)


def random_problem(rng, n: int, actions: dlb.ActionSet) -> dlb.Problem:
    """A random system with ρ(A) = 0.5 over a set of actions."""
    A, d = rng.normal(size=(n, n)), actions.d
    A *= 0.5 / max(abs(np.linalg.eigvals(A)))
    B, omega, theta = rng.normal(size=(n, d)) / n, rng.normal(size=n) / n, rng.normal(size=d)
    return dlb.Problem(dlb.System(A, B, omega, theta, sigma=0.01), actions)


def standard_errors_apart(ours: np.ndarray, theirs: np.ndarray, what: str) -> float:
    """How far the mean regrets are apart, refusing what chance does not explain.

    The 24 comparisons with Numba raise a false alarm with a chance of 2·10⁻⁴, the 4 with NumPy, of
    which there are few runs, with one of 2·10⁻³ (t distribution).
    """
    error = np.hypot(*(r.std(ddof=1) / len(r) ** 0.5 for r in (ours, theirs)))
    apart = float(abs(ours.mean() - theirs.mean()) / error)
    if apart > 4.5:
        raise SystemExit(f"{what}: mean regrets are {apart:.1f} standard errors apart")
    return apart


def draw_time(count: int, runs: int, dtype: str, repeats: int) -> tuple[float, float]:
    """Seconds to only draw `count` normals for every run: with dlbjax's sampler and with JAX's."""
    cores = os.cpu_count()
    blocks = np.arange(-(-count // BLOCK))

    def own(key):
        words = jax.random.key_data(key).T

        def block(total, number):
            draws = prng.normals(words, number * BLOCK, BLOCK, 1, np.dtype(dtype))
            return total + draws[:, 0].sum(axis=0), None

        return jax.lax.scan(block, jax.numpy.zeros(len(key), dtype), blocks)[0]

    def library(key):
        def block(total, number):
            draws = jax.vmap(
                lambda k: jax.random.normal(jax.random.fold_in(k, number), (BLOCK,), dtype),
                out_axes=-1,
            )(key)
            return total + draws.sum(axis=0), None

        return jax.lax.scan(block, jax.numpy.zeros(len(key), dtype), blocks)[0]

    def on_all_cores(sampler) -> float:
        def part(_):
            with jax.enable_x64(dtype == "float64"):
                return sampler(keys).block_until_ready()

        with ThreadPoolExecutor(cores) as pool:
            return seconds(lambda: list(pool.map(part, range(cores))), repeats)[0]

    with jax.enable_x64(dtype == "float64"):
        keys = jax.vmap(jax.random.key)(np.arange(runs // cores))
    return on_all_cores(jax.jit(own)), on_all_cores(jax.jit(library))


def devices(args) -> list[dict]:
    """The same work on one and on all CPU devices."""
    problem = dlb.problems.synthetic()
    rows = []
    for policy_name, make in POLICIES.items():
        policy = make(dlb.Bounds.of(problem))
        horizon = args.horizon // (1 if policy_name == "DynLin-UCB" else 5)
        for count in sorted({1, len(jax.devices())}):
            used = jax.devices()[:count]
            time_, _ = seconds(
                lambda policy=policy, used=used, horizon=horizon: dlb.simulate(
                    problem, policy, horizon, 256, devices=used, progress=False
                ),
                args.repeats,
            )
            row = {"policy": policy_name, "horizon": horizon, "devices": count, "seconds": time_}
            rows.append(row)
    return rows


def compilation(args) -> list[dict]:
    """Seconds of the first call at a new shape, and of one with other numbers of the same shape."""
    rows = []
    for policy_name, make in POLICIES.items():
        times = []
        for sigma, rho_bar, lam, shift in ((0.01, 0.2, 1.0, 0), (0.02, 0.3, 2.0, 999)):
            problem = dlb.problems.synthetic(sigma)
            policy = make(dlb.Bounds.of(problem, rho_bar), lam=lam)
            begin = time.perf_counter()
            dlb.simulate(problem, policy, 20_000, np.arange(264) + shift, progress=False)
            times.append(time.perf_counter() - begin)
        rows.append({"policy": policy_name, "first call": times[0], "other numbers": times[1]})
    return rows


def growth(args) -> list[dict]:
    """Cost per run and round as one thing at a time grows from a base case."""
    rng = np.random.default_rng(0)
    base = {"horizon": args.horizon // 100, "runs": 256, "n": 3, "d": 3, "vertices": 10}
    cases = [("horizon", [args.horizon // 100, args.horizon // 10, args.horizon]),
             ("n", [1, 2, 4, 8, 16]), ("vertices", [10, 100, 1000, 4000])]  # fmt: skip
    rows = []
    for axis, values in cases:
        for value in values:
            size = {**base, axis: value}
            vertices = rng.uniform(size=(size["vertices"], size["d"]))
            problem = random_problem(rng, size["n"], dlb.actions.finite(vertices))
            for policy_name, make in POLICIES.items():
                policy = make(dlb.Bounds.of(problem))
                time_, _ = seconds(
                    lambda problem=problem, policy=policy, size=size: dlb.simulate(
                        problem, policy, size["horizon"], size["runs"], progress=False
                    ),
                    1,
                )
                cost = 1e9 * time_ / size["runs"] / size["horizon"]
                rows.append({"axis": axis, "value": value, "policy": policy_name, "ns": cost})
    return rows


def figure1(args) -> list[dict]:
    """Seconds of the whole command for the ten curves of Figure 1: its first call, and one with what that
    compiled.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dlbjax.cli", "reproduce", "figure1", "--again",
                   "--horizon", str(args.horizon), "--out", folder]  # fmt: skip
        environment = os.environ | {
            "JAX_COMPILATION_CACHE_DIR": f"{folder}/cache",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        }
        for compiled in (False, True):
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            seconds = time.perf_counter() - begin
            found = dlb.load(Path(folder, "figure1.npz"))
            cores = {name: r.config["execution"]["core seconds"] for name, r in found.items()}
            rows.append({"compiled before": compiled, "seconds": seconds, "core seconds": cores})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def memory(args) -> list[dict]:
    """Peak memory of a process that runs 5 values of ρ̄ × 50 seeds, at two horizons."""
    rows = []
    for horizon in (args.horizon // 10, args.horizon):
        answer = subprocess.run(
            [sys.executable, __file__, "--memory-of", f"{horizon},50"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        rows.append({"horizon": horizon, "peak MB": float(answer.stdout)})
    return rows


def peak_memory_here(horizon: int, seeds: int) -> float:
    from dlbjax.experiments import sensitivity

    sensitivity(horizon, seeds, progress=False)
    # Not getrusage, which may count the process this one was forked from.
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024


def table(report: dict) -> str:
    host = report["machine"]
    text = [
        f"{host['cores']} cores, {host['processor']}, Python {host['python']}, JAX {host['jax']}, "
        f"Numba {host['numba']}; ns are per round and run, in float64 unless said otherwise. Calls of dlbjax "
        "and of the loops take turns: medians, and ± half of the spread of all calls.\n"
    ]

    def rows(part: str, *heads: str, line) -> None:
        if part in report:
            lines = [" | ".join(line(row)) for row in report[part]]
            text.append("\n".join(f"| {x} |" for x in (" | ".join(heads), " | ".join(["---"] * len(heads)),
                                                       *lines)) + "\n")  # fmt: skip

    def both(r: dict) -> list[str]:
        return [f"{r[name]:.1f} (± {r[f'{name}, spread'] / 2:.0%})"
                for name in ("dlbjax", "Numba, recursive")]  # fmt: skip

    def rounds(r: dict) -> str:
        return f"{r['policy']}, {r['horizon']:,} rounds"

    rows(
        "against peers", "problem", "policy", "runs", "dtype", "ns", "against NumPy",
        "against the recursive Numba loop", "time over that of drawing its normals with jax.random",
        "with its own sampler",
        line=lambda r: [
            r["problem"], rounds(r), str(r["runs"]), r["dtype"], f"{r['ns per round']:.2f}",
            f"{r['NumPy, ns per round'] / r['ns per round']:.0f}×",
            f"{r['Numba, ns per round'] / r['ns per round']:.2f}×",
            f"{r['ns per round'] / r['jax.random.normal, ns per round']:.2f}",
            f"{r['ns per round'] / r['drawing its normals, ns per round']:.2f}",
        ],
    )  # fmt: skip
    rows(
        "channels", "channels (vertices), 256 runs", "policy", "dlbjax, ns", "recursive Numba loop",
        "plain Numba loop", "dlbjax against the better loop",
        line=lambda r: [
            f"{r['channels']} ({r['vertices']})", rounds(r), *both(r), f"{r['Numba']:.1f}",
            f"{min(r['Numba, recursive'], r['Numba']) / r['dlbjax']:.2f}×",
        ],
    )  # fmt: skip
    rows(
        "action sets", "set (vertices), 256 runs", "policy", "dlbjax, ns", "recursive Numba loop", "ratio",
        line=lambda r: [
            f"{r['set']} ({r['vertices']})", rounds(r), *both(r),
            f"{r['Numba, recursive'] / r['dlbjax']:.2f}×",
        ],
    )  # fmt: skip
    rows(
        "few runs", "runs, synthetic problem", "policy", "dlbjax, ns", "recursive Numba loop", "ratio",
        line=lambda r: [
            str(r["runs"]), rounds(r), *both(r), f"{r['Numba, recursive'] / r['dlbjax']:.2f}×"
        ],
    )  # fmt: skip
    rows(
        "figure 1", "`dlbjax reproduce figure1`", "seconds", "core seconds of each policy",
        line=lambda r: [
            "with what an earlier call compiled" if r["compiled before"] else "first call",
            f"{r['seconds']:.1f}",
            ", ".join(f"{name} {value:.1f}" for name, value in r["core seconds"].items()),
        ],
    )  # fmt: skip
    rows(
        "devices", "policy, 256 runs", "devices", "seconds",
        line=lambda r: [rounds(r), str(r["devices"]), f"{r['seconds']:.2f}"],
    )  # fmt: skip
    rows(
        "compilation", "policy", "first call", "other seeds, σ, λ, ρ̄",
        line=lambda r: [r["policy"], f"{r['first call']:.2f} s", f"{r['other numbers']:.2f} s"],
    )  # fmt: skip
    rows(
        "memory", "rounds, 5 ρ̄ × 50 seeds", "peak memory",
        line=lambda r: [str(r["horizon"]), f"{r['peak MB']:.0f} MB"],
    )  # fmt: skip
    return "\n".join(text)


def draw(report: dict, out: Path) -> None:
    if "growth" in report:
        draw_growth(report, out)
    if {"channels", "few runs"} <= set(report):
        draw_sizes(report, out)
    if "against peers" in report:
        draw_peers(report, out)


def draw_growth(report: dict, out: Path) -> None:
    names = list(dict.fromkeys(r["axis"] for r in report["growth"]))
    figure, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 3), layout="constrained")
    for ax, axis in zip(axes, names, strict=True):
        for policy, marker in zip(POLICIES, "os", strict=True):
            rows = [r for r in report["growth"] if (r["axis"], r["policy"]) == (axis, policy)]
            ax.loglog(
                [r["value"] for r in rows], [r["ns"] for r in rows], marker + "-", label=policy
            )
        ax.set(xlabel=axis, ylabel="ns per round and run")
        ax.set_xticks([r["value"] for r in rows], [f"{r['value']:g}" for r in rows], size="x-small")
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(out / "growth.png", dpi=150)


def draw_sizes(report: dict, out: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
    for ax, (what, key) in zip(
        axes, {"channels": "channels", "few runs": "runs"}.items(), strict=True
    ):
        for policy, marker in zip(POLICIES, "os", strict=True):
            rows = [r for r in report[what] if r["policy"] == policy]
            place = [r[key] for r in rows]
            (line,) = ax.loglog(place, [r["dlbjax"] for r in rows], marker + "-", label=policy)
            ax.loglog(
                place, [r["Numba, recursive"] for r in rows], marker + "--",
                color=line.get_color(), alpha=0.6, label=f"{policy}, Numba loop",
            )  # fmt: skip
        ax.set_xticks(place, [str(p) for p in place])
        ax.minorticks_off()
        ax.set(xlabel=key)
        ax.grid(alpha=0.3)
    axes[0].set(ylabel="ns per round and run", title="a budget over d channels, 256 runs")
    axes[1].set(title="the synthetic problem, d = 3")
    axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(out / "sizes.png", dpi=150)


def draw_peers(report: dict, out: Path) -> None:
    rows = [r for r in report["against peers"] if r["dtype"] == "float64" and r["runs"] == 256]
    rows = rows or [r for r in report["against peers"] if r["dtype"] == "float64"]
    figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    place = np.arange(len(rows))
    bars = {"NumPy loop": "NumPy, ns per round", "Numba, all cores": "Numba, ns per round",
            "dlbjax, all cores": "ns per round",
            "only drawing its normals": "drawing its normals, ns per round"}  # fmt: skip
    for i, (label, key) in enumerate(bars.items()):
        ax.bar(place + 0.2 * i - 0.3, [r[key] for r in rows], 0.2, label=label)
    ax.set_xticks(place, [f"{r['policy']}\n{r['problem']}" for r in rows])
    ax.set(yscale="log", ylabel="ns per round and run")
    ax.set_title(f"float64, {rows[0]['runs']} runs side by side", fontsize="medium")
    ax.legend(frameon=False, fontsize="small")
    figure.savefig(out / "peers.png", dpi=150)


PARTS = {
    "compilation": compilation,  # before others compile the same shapes
    "channels": channels,
    "action sets": action_sets,
    "few runs": few_runs,
    "figure 1": figure1,
    "against peers": against_peers,
    "devices": devices,
    "growth": growth,
    "memory": memory,
}

if __name__ == "__main__":
    main()
