"""Tables of final regret for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dlbjax.results.result import Result, Summary

QUANTILES = (0.1, 0.5, 0.9)


def points(result: Result) -> Iterator[tuple[str, dict[str, float], tuple[int, ...]]]:
    """Label, hyper-parameters and index of every point of a result's grid."""
    shape = tuple(len(values) for values in result.axes.values())
    for label, place in zip(result.labels(), np.ndindex(shape), strict=True):
        point = zip(result.axes.items(), place, strict=True)
        yield label, {name: values[i].item() for (name, values), i in point}, place


def table_of(results: Mapping[str, Result]) -> str:
    """Mean, spread and quantiles of the final expected regret, one line per point of every grid."""
    heads = ["mean", "std", "std error", *(f"{q:.0%}" for q in QUANTILES)]
    lines = ["".join(f"{head:>12}" for head in heads) + "  policy"]
    for result in results.values():
        summary = result.summary("expected", QUANTILES)
        for label, _, place in points(result):
            row = statistics(summary, place)
            numbers = [row["mean"], row["std"], row["standard_error"], *row["quantiles"].values()]
            cells = ["-" if number is None else f"{number:.6g}" for number in numbers]
            lines.append("".join(f"{cell:>12}" for cell in cells) + f"  {label}")
    return "\n".join(lines)


def statistics(summary: Summary, place: tuple[int, ...]) -> dict[str, Any]:
    """Statistics after the last round; None for the spread of a single run."""

    def number(values: np.ndarray) -> float | None:
        value = float(values[(*place, -1)])
        return value if np.isfinite(value) else None

    return {
        "mean": number(summary.mean),
        "std": number(summary.std),
        "standard_error": number(summary.standard_error),
        "quantiles": {
            str(q): number(values) for q, values in zip(QUANTILES, summary.quantiles, strict=True)
        },
    }
