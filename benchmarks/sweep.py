"""Memory over a sweep of 100 000 runs, and what checkpoints cost: part of `make bench`.

Writes sweep.json and memory.png.
"""

import argparse
import json
import resource
import shutil
import tempfile
import threading
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import dlbjax as dlb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    report = {"checkpoints": checkpoints(args.repeats), "sweep": memory(args)}
    (args.out / "sweep.json").write_text(json.dumps(report, indent=1))
    draw(report["sweep"], args.out / "memory.png")


def checkpoints(repeats: int) -> dict[str, float]:
    """A call of some minutes of work with checkpoints every 30 s and without, in turn."""
    problem = dlb.problems.synthetic()
    policy = dlb.lin_ucb(dlb.Bounds.of(problem))
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        dlb.simulate(problem, policy, 10_000, 1024)  # compiles
        for i in range(2 * repeats):
            kept = bool(i % 2)
            path = Path(folder) / f"{i}.checkpoint" if kept else None
            begin = time.perf_counter()
            dlb.simulate(problem, policy, 1_000_000, 1024, checkpoint=path)
            times[kept].append(time.perf_counter() - begin)
    plain, kept = min(times[False]), min(times[True])
    print(f"1024 runs of Lin-UCB, T = 10⁶: {plain:.1f} s, with checkpoints {kept:.1f} s "
          f"({kept / plain - 1:+.1%})", flush=True)  # fmt: skip
    return {"plain seconds": times[False], "with checkpoints": times[True]}


def memory(args: argparse.Namespace) -> dict[str, list[float]]:
    """Resident memory, and runs in the store, twice a second."""
    problem = dlb.problems.synthetic()
    folder = Path(tempfile.mkdtemp())
    times, resident, runs = [], [], []
    over = threading.Event()
    begin = time.perf_counter()

    def watch() -> None:
        while not over.wait(0.5):
            times.append(time.perf_counter() - begin)
            resident.append(resident_memory())
            names = [path.name.split("-") for path in folder.glob("synthetic-*/[0-9]*.npz")]
            runs.append(sum(int(last) - int(first) + 1 for first, last, _ in names))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        store = dlb.sweep(
            {"synthetic": problem}, {"DynLin-UCB": dlb.dynlin_ucb(dlb.Bounds.of(problem))},
            args.horizon, args.seeds, folder,
        )  # fmt: skip
    finally:
        over.set()
        watcher.join()
    seconds = time.perf_counter() - begin
    result = store.result(rounds=[args.horizon])
    summary = result.summary()
    on_disk = sum(path.stat().st_size for path in folder.rglob("*.npz")) / 1e6
    shutil.rmtree(folder)
    half = len(resident) // 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(result.seeds)} runs, T = {args.horizon}: {seconds:.0f} s; largest memory "
          f"{max(resident[:half]):.0f} MB in the first half, {max(resident[half:]):.0f} MB in the second, "
          f"{peak:.0f} MB at all; {on_disk:.0f} MB on the disk; mean expected regret "
          f"{summary.mean[-1]:.3f} ± {summary.standard_error[-1]:.3f}", flush=True)  # fmt: skip
    return {"seconds": times, "MB": resident, "runs": runs}


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
