"""A sweep of 100 000 runs: time, memory, disk, and what a second worker gives: part of `make bench`.

Writes sweep.json, sweep.md and memory.png.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import dlbjax as dlb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="*", default=["checkpoints", "sweep", "workers"])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "sweep.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    for part in args.parts:
        report[part] = {"checkpoints": checkpoints, "sweep": memory, "workers": workers}[part](args)
        path.write_text(json.dumps(report, indent=1))
    if "sweep" in report:
        draw(report["sweep"]["course"], args.out / "memory.png")
    if {"sweep", "workers"} <= set(report):
        (args.out / "sweep.md").write_text(table(report["sweep"], report["workers"]))


def checkpoints(args: argparse.Namespace) -> dict[str, list[float]]:
    """A call of some minutes of work with checkpoints every 30 s and without, in turn."""
    problem = dlb.problems.synthetic()
    policy = dlb.lin_ucb(dlb.Bounds.of(problem))
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        dlb.simulate(problem, policy, 10_000, 1024)  # compiles
        for i in range(2 * args.repeats):
            kept = bool(i % 2)
            path = Path(folder) / f"{i}.checkpoint" if kept else None
            begin = time.perf_counter()
            dlb.simulate(problem, policy, 1_000_000, 1024, checkpoint=path)
            times[kept].append(time.perf_counter() - begin)
    plain, kept = min(times[False]), min(times[True])
    print(f"1024 runs of Lin-UCB, T = 10⁶: {plain:.1f} s, with checkpoints {kept:.1f} s "
          f"({kept / plain - 1:+.1%})", flush=True)  # fmt: skip
    return {"plain seconds": times[False], "with checkpoints": times[True]}


def memory(args: argparse.Namespace) -> dict[str, Any]:
    """Time of a sweep in this process, its resident memory, and the runs in its store."""
    folder = Path(tempfile.mkdtemp())
    times, resident, runs = [], [], []
    over = threading.Event()
    begin = time.perf_counter()

    def watch() -> None:
        while not over.wait(0.5):
            times.append(time.perf_counter() - begin)
            resident.append(resident_memory())
            blocks = len(list(folder.glob("synthetic/DynLin-UCB/complete/c/*")))
            runs.append(min(256 * blocks, args.seeds))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        store = sweep(args.horizon, args.seeds, folder)
    finally:
        over.set()
        watcher.join()
    seconds = time.perf_counter() - begin
    summary = store.result(rounds=[args.horizon]).summary()
    on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    shutil.rmtree(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.seeds} runs, T = {args.horizon}: {seconds:.0f} s; largest memory {peak:.0f} MB, "
          f"{on_disk:.0f} MB on the disk; mean expected regret {summary.mean[-1]:.3f} ± "
          f"{summary.standard_error[-1]:.3f}", flush=True)  # fmt: skip
    return {"runs": args.seeds, "horizon": args.horizon, "seconds": seconds, "MB": peak, "disk": on_disk,
            "course": {"seconds": times, "MB": resident, "runs": runs}}  # fmt: skip


def workers(args: argparse.Namespace) -> dict[str, Any]:
    """Time with one and with two Dask workers, each a process of one thread bound to its own core."""
    import distributed

    times = []
    warm_up()  # what the driver traces
    cores = sorted(os.sched_getaffinity(0))[:2]
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None) as cluster:
        for count in (1, 2):
            started = [start_worker(cluster.scheduler_address, core) for core in cores[:count]]
            with distributed.Client(cluster) as client, tempfile.TemporaryDirectory() as folder:
                client.wait_for_workers(count)
                client.run(warm_up)  # compiles the program
                begin = time.perf_counter()
                sweep(args.horizon, args.seeds // 4, folder, client)
                times.append(time.perf_counter() - begin)
            for process in started:
                process.terminate()
                process.wait()
    one, two = times
    print(f"{args.seeds // 4} runs, T = {args.horizon}: {one:.1f} s with one worker of one core, {two:.1f} s "
          f"with two: {one / two:.2f} times as fast", flush=True)  # fmt: skip
    return {"runs": args.seeds // 4, "horizon": args.horizon, "seconds": times}


def table(alone: dict[str, Any], shared: dict[str, Any]) -> str:
    one, two = shared["seconds"]
    rows = {
        "DynLin-UCB on the synthetic problem": "measured",
        "---": "---",
        f"{alone['runs']:,} runs, T = {alone['horizon']:,}, in one process": f"{alone['seconds']:.0f} s",
        "its largest memory": f"{alone['MB']:.0f} MB",
        "its store": f"{alone['disk']:.0f} MB",
        f"{shared['runs']:,} runs, T = {shared['horizon']:,}, one Dask worker of one core": f"{one:.1f} s",
        "the same, two such workers": f"{two:.1f} s, {one / two:.2f} times as fast",
    }
    return "".join(f"| {left} | {right} |\n" for left, right in rows.items())


def start_worker(address: str, core: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny"]
    bound = ["taskset", "--cpu-list", str(core), *command, "--no-dashboard"]
    return subprocess.Popen(bound, stderr=subprocess.DEVNULL)


def warm_up() -> None:
    problem = dlb.problems.synthetic()
    dlb.simulate(problem, dlb.dynlin_ucb(dlb.Bounds.of(problem)), 100_000, 512)


def sweep(horizon: int, seeds: int, folder: str | Path, executor=None) -> dlb.Store:
    problem = dlb.problems.synthetic()
    policies = {"DynLin-UCB": dlb.dynlin_ucb(dlb.Bounds.of(problem))}
    return dlb.sweep({"synthetic": problem}, policies, horizon, seeds, folder, executor=executor)


def resident_memory() -> float:
    """Of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def draw(sweep: dict[str, list[float]], path: Path) -> None:
    figure, (above, below) = plt.subplots(2, figsize=(6.4, 4), sharex=True, layout="constrained")
    above.plot(sweep["seconds"], sweep["MB"])
    above.set(ylabel="resident memory [MB]", ylim=(0, None))
    above.set_title("A sweep of 100 000 runs of DynLin-UCB, T = 10⁵", fontsize="medium")
    below.step(sweep["seconds"], sweep["runs"], where="post")
    below.set(xlabel="time [s]", ylabel="runs in the store", ylim=(0, None))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
