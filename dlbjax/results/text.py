"""Results as a few lines of text, and the same as HTML."""

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

from dlbjax.common.hints import printable

_SHOWN = 10  # policies, or points of a grid


def of_result(result: Any) -> str:
    """What was run, and the mean expected regret in the end ± its standard error."""
    points = int(np.prod([len(values) for values in result.axes.values()], dtype=int))
    axes = "".join(f" × {len(values)} {name}" for name, values in result.axes.items())
    names = ("actions", "rewards", "states", "policy_state")
    recorded = [name for name in names if getattr(result, name) is not None]
    lines = [
        f"Result of {result.name}: {len(result.seeds)} seeds{axes}, {result.rounds[-1]} rounds, "
        f"{len(result.rounds)} reports" + (f", with {', '.join(recorded)}" if recorded else "")
    ]
    final = result.expected_regret[..., -1].reshape(points, -1)
    for label, runs in list(zip(result.labels(), final, strict=True))[:_SHOWN]:
        error = runs.std(ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else np.nan
        lines.append(f"  {label}: expected regret {_mean_and_error(runs.mean(), error)}")
    if points > _SHOWN:
        lines.append(f"  and {points - _SHOWN} more")
    return "\n".join(map(printable, lines))


def of_results(results: Mapping[str, Any]) -> str:
    """The first of several results."""
    parts = [of_result(result) for result in list(results.values())[:_SHOWN]]
    more = [f"and {len(results) - _SHOWN} more"] if len(results) > _SHOWN else []
    return "\n".join([f"Results of {len(results)} policies", *parts, *more])


def of_summary(summary: Any) -> str:
    """What a summary holds, and its last report."""
    last, errors = summary.mean[..., -1], summary.standard_error[..., -1]
    points = f"{last.size} points of a grid {last.shape}, " if last.ndim else ""
    shown = (
        _mean_and_error(last.item(), errors.item())
        if last.size == 1
        else f"from {last.min():.6g} to {last.max():.6g}"
    )
    return (
        f"Summary of {points}{summary.mean.shape[-1]} reports\n  mean in the last one {shown}\n"
        f"  {len(summary.quantiles)} quantiles"
    )


def as_html(text: str) -> str:
    """The text for a notebook."""
    return f"<pre>{html.escape(text)}</pre>"


def _mean_and_error(mean: float, error: float) -> str:
    return f"{mean:.6g}" + ("" if np.isnan(error) else f" ± {error:.2g}")
