"""Results with regret curves of a chosen shape, laid out as the experiments lay out theirs."""

from typing import NamedTuple

import numpy as np

import dlbjax as dlb
from dlbjax.engine import identity

NAMES = ("DynLin-UCB", "Lin-UCB", "D-Lin-UCB", "AR2", "Exp3", "Batch-Exp3")
OURS = "DynLin-UCB tight (ours)"
FORGETTING = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-9)


class Shape(NamedTuple):
    """The regret of a policy with one set of hyper-parameters."""

    total: float  # mean expected regret after the last round
    power: float = 1.0  # it grows as T^power
    spread: float = 0.0  # population std over mean
    loss: float | tuple[float, ...] = 0.5  # offline regret per round, of all runs or of each


def shaped(shapes, axes=None, name="policy", horizon=1000, seeds=20, seconds=1.0, dtype="float64"):
    """A result with one curve per shape; half of the runs lie above the mean, half below."""
    spread = np.r_[np.geomspace(1, horizon, 49), np.linspace(0, horizon, 101)[1:]]
    rounds = np.unique(spread.round().astype(int))
    sign = np.where(np.arange(seeds) % 2, 1.0, -1.0)[:, None]
    expected = [s.total * (rounds / horizon) ** s.power * (1 + s.spread * sign) for s in shapes]
    offline = [np.broadcast_to(s.loss, seeds)[:, None] * rounds for s in shapes]
    axes = axes or {}
    grid = tuple(len(values) for values in axes.values())
    expected, offline = (np.reshape(r, (*grid, seeds, len(rounds))) for r in (expected, offline))
    config = {
        "execution": {"core seconds": seconds}, "dtype": dtype,
        "versions": identity.versions(), "source": identity.source(),
    }  # fmt: skip
    return dlb.Result(
        rounds, expected + 1, expected, offline, seeds=np.arange(seeds),
        axes={k: np.asarray(v) for k, v in axes.items()}, name=name, config=config,
    )  # fmt: skip


def compared(shapes, seconds=None, horizon=1000, **size):
    """Results like those of `comparison`; where there are two shapes, λ is log T and 1."""
    paper = {name: several for name, several in shapes.items() if name != "expert"}
    shapes = paper | {OURS: [Shape(1.0, 0.1)]} | shapes
    return dlb.Results(
        {
            name: shaped(
                several, {"lam": [np.log(horizon), 1.0]} if len(several) == 2 else None, name,
                horizon, seconds=(seconds or {}).get(name, 1.0), **size,
            )
            for name, several in shapes.items()
        }
    )  # fmt: skip


def discounted(shapes, **size):
    """A result like that of `discounting`."""
    return shaped(shapes, {"gamma": [1 - f for f in FORGETTING]}, "D-Lin-UCB", **size)


def over_rho_bar(shapes, **size):
    """Results like those of `sensitivity`: DynLin-UCB with five ρ̄, and Lin-UCB."""
    *ours, lin = shapes
    return dlb.Results(
        {
            "DynLin-UCB": shaped(
                ours, {"rho_bar": [0.0, 0.05, 0.1, 0.2, 0.4]}, "DynLin-UCB", **size
            ),
            "Lin-UCB": shaped([lin], None, "Lin-UCB", **size),
            OURS: shaped([Shape(1.0, 0.1)] * 2, {"rho_bar": [0.2, 0.4]}, OURS, **size),
        }
    )


def tightened(shape, **size):
    """Results like those of `tightness`, all of one shape."""
    axes = {
        "over λ": {"lam": [1e-4, 1e-3, 1e-2, 0.1, 1.0]},
        "over q": {"extra": [0, 1]},
        "over ρ̄": {"rho_bar": [0.2, 0.4]},
        "over ρ̄, paper's": {"rho_bar": [0.2, 0.4]},
        "over looseness": {"looseness": [1.0, 2.0]},
    }
    return dlb.Results(
        {
            name: shaped([shape] * len(*axis.values()), axis, "DynLin-UCB tight", **size)
            for name, axis in axes.items()
        }
    )
