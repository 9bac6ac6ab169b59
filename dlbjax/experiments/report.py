"""Running an experiment and writing what it shows: result file, figure, table."""

from pathlib import Path

import matplotlib

from dlbjax import plot
from dlbjax._files import write_atomically
from dlbjax.experiments.sensitivity import sensitivity


def figure2(out: Path, horizon: int, seeds: int) -> list[Path]:
    """Sensitivity to ρ̄: figure2.npz, figure2.png and figure2.pdf; prints the final regrets."""
    result = sensitivity(horizon, seeds)
    result.save(out / "figure2.npz")
    summary = result.summary("offline")
    print(f"offline regret after {horizon} rounds, {seeds} runs")
    for i, label in enumerate(result.labels()):
        mean, error = summary.mean[i, -1], summary.standard_error[i, -1]
        print(f"  {label:24s} {mean:10.1f} ± {error:.1f} (standard error)")
    matplotlib.use("Agg")
    axes = plot.regret(
        {"DynLin-UCB": result}, "offline", title="Synthetic problem, ρ(A) = 0.2, λ = log T"
    )
    return [out / "figure2.npz", *save_figure(axes.figure, out / "figure2")]


def save_figure(figure: "matplotlib.figure.Figure", stem: Path) -> list[Path]:
    """Write a figure as PNG and as PDF."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    for path in paths:
        with write_atomically(path) as file:
            figure.savefig(file, format=path.suffix[1:], dpi=160)
    return paths
