"""Tables of results in Markdown."""

from collections.abc import Mapping, Sequence

import numpy as np

from dlbjax.experiments.measures import curves, paired
from dlbjax.results.result import Result


def final_regret(results: Mapping[str, Result], reference: str) -> str:
    """Expected regret after the last round, one row per policy and combination of hyper-parameters.

    Args:
      results: results by name.
      reference: label of the curve with which the others are compared, run by run.
    """
    found = curves(results)
    rows = []
    for label, curve in found.items():
        final = curve.final
        std = final.std(ddof=1) if len(final) > 1 else np.nan
        low, median, high = np.quantile(final, [0.1, 0.5, 0.9])
        more, half = paired(final, found[reference].final)
        compared = "" if label == reference else f"{more:+,.0f} ± {half:,.0f}"
        rows.append(
            [
                label, f"{final.mean():,.1f}", f"{std:,.1f}", f"{std / len(final) ** 0.5:,.1f}",
                f"{low:,.1f}", f"{median:,.1f}", f"{high:,.1f}", compared, f"{curve.pace:.2f}",
            ]
        )  # fmt: skip
    first = next(iter(found.values()))
    return (
        f"Expected regret after {first.rounds[-1]:,} rounds, {len(first.final)} runs. The interval of "
        "the difference, taken run by run, is 95 %. Pace is what a round of the last tenth loses over "
        "what a round from 40 to 50 % loses: 1 is linear growth.\n\n"
        + markdown(
            ["policy", "mean", "std", "standard error", "10 %", "median", "90 %",
             f"more than {reference}", "pace"], rows,
        )
    )  # fmt: skip


def timing(results: Mapping[str, Result]) -> str:
    """Core seconds of each policy, compilation included."""
    rows = []
    for name, result in results.items():
        seconds = float(result.config["execution"]["core seconds"])
        runs = len(result.labels()) * len(result.seeds)
        rows.append([name, f"{runs}", f"{seconds:.1f}", f"{seconds / runs:.3f}"])
    horizon = next(iter(results.values())).rounds[-1]
    return f"Seconds of one core for {horizon:,} rounds, with compilation.\n\n" + markdown(
        ["policy", "runs", "seconds", "seconds per run"], rows
    )


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
