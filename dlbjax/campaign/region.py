"""Where to look for allocations: near what was played, and within limits."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from dlbjax.campaign.model import Model
from dlbjax.common.arrays import Number, real_array, real_number
from dlbjax.model.actions import ActionSet, budget, finite

_NEARBY = 0.3  # share by which a channel may differ from the current allocation


class Region(NamedTuple):
    """Allocations to choose from.

    Attributes:
      actions: the corners of the region.
      current: (d,) the allocation to compare with.
      warnings: what is doubtful about the region.
    """

    actions: ActionSet
    current: np.ndarray
    warnings: tuple[str, ...]


def region(
    model: Model, *, total: float | None = None, low: Number | None = None,
    high: Number | None = None, current: Number | None = None, nearby: float | None = _NEARBY,
) -> Region:  # fmt: skip
    """The allocations within limits, near the current one, and jointly inside the data.

    Each channel stays within a share of its current spend (which is first scaled to the total, if one is
    given), and the allocation within the convex hull of what was played in a round: corners beyond it are
    pulled towards the current allocation.

    Args:
      model: the fitted model.
      total: most spend in a round; the model's by default.
      low: least spend on each channel; the model's by default.
      high: most spend on each channel; the model's by default.
      current: (d,) the current allocation; by default the log's mean.
      nearby: share by which a channel may differ from its current spend; None for all within the limits.
    """
    d = len(model.channels)
    low = model.low if low is None else _limits("low", low, d)
    high = model.high if high is None else _limits("high", high, d)
    current = model.current if current is None else _limits("current", current, d)
    least = np.minimum(np.minimum(low, 0.0), model.history.spend.min(axis=0, initial=0.0))
    if (current < least).any():
        raise ValueError(
            f"current must be spend on each channel, >= {least.tolist()}; got {current.tolist()}"
        )
    budgeted = model.total if total is None else float(real_number("total", total))
    if nearby is None:
        actions = budget(low, high, budgeted)
        return Region(actions, current, _outside(actions.vertices, model))
    nearby = float(real_number("nearby", nearby, at_least=0.0))
    spent = current.sum()
    centre = current * (
        budgeted / spent if spent > 0 and (total is not None or spent > budgeted) else 1
    )
    centre = np.clip(centre, low, high)
    least, most = (np.clip(centre * share, low, high) for share in (1 - nearby, 1 + nearby))
    corners = budget(least, most, budgeted).vertices
    if not _inside(centre, model.history.spend):
        text = (
            "the allocation around which to look was never played, nor a mixture of such that were: what is "
            "expected of it is an extrapolation"
        )
        return Region(finite(corners), current, (text,))
    reach = np.array([_reach(centre, corner, model.history.spend) for corner in corners])
    points = centre + reach[:, None] * (corners - centre)
    scale = np.abs(points).max() or 1.0
    distinct = np.unique(np.round(points / scale, 9), axis=0, return_index=True)[1]
    return Region(finite(points[np.sort(distinct)]), current, ())


def _limits(name: str, value: Number, d: int) -> np.ndarray:
    return np.broadcast_to(real_array(name, value, () if np.ndim(value) == 0 else (d,)), d)


def _outside(vertices: np.ndarray, model: Model) -> tuple[str, ...]:
    beyond = sum(not _inside(vertex, model.history.spend) for vertex in vertices)
    if beyond == 0:
        return ()
    return (
        f"{beyond} of {len(vertices)} corners lie outside what was ever played in a round, jointly over the "
        "channels: what is expected of them is an extrapolation",
    )


def _inside(point: np.ndarray, played: np.ndarray) -> bool:
    """Whether a point is in the convex hull of the rows."""
    return _reach(point, point, played) is not None if len(played) else False


def _reach(centre: np.ndarray, corner: np.ndarray, played: np.ndarray) -> float | None:
    """The largest s ≤ 1 with centre + s(corner − centre) in the convex hull of the rows; None without any.

    A linear program in s and the weights w ≥ 0 of the rows, Σw = 1, in units of each channel's largest.
    """
    unit = np.maximum(np.abs(played).max(axis=0), np.abs(centre)) + 1e-300
    T = len(played)
    equal = np.vstack(
        [
            np.column_stack([(played / unit).T, -(corner - centre) / unit]),
            np.append(np.ones(T), 0.0),
        ]
    )
    found = linprog(
        np.append(np.zeros(T), -1.0), A_eq=equal, b_eq=np.append(centre / unit, 1.0),
        bounds=[(0, None)] * T + [(0, 1)],
    )  # fmt: skip
    return float(found.x[-1]) if found.status == 0 else None
