"""Tables of the lab: final regret, sensitivities, bounds as curves, and what is taken away as CSV."""

import csv
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dlbjax.lab.outcomes import Curve
from dlbjax.lab.settings import Learner, State
from dlbjax.lab.views import table_names
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.results.result import REGRETS
from dlbjax.sensitivity import Sensitivity
from dlbjax.theory import lower_bound, offline_regret_bound

_QUANTILES = (0.1, 0.5, 0.9)


def final_table(curves: Sequence[Curve]) -> pd.DataFrame | None:
    """Regret after the last round: mean ± standard error of every measure, and quantiles."""
    rows = []
    for curve in curves:
        row: dict[str, object] = {"policy": curve.label, "runs": len(curve.result.seeds)}
        for kind in ("expected", "offline", "realised"):
            summary = curve.result.summary(kind, _QUANTILES)
            mean, error = float(summary.mean[-1]), float(summary.standard_error[-1])
            row[kind] = f"{_number(mean)} ± {_number(0 if error < 1e-9 * abs(mean) else error)}"
            if kind == "expected":
                row["10 % / 50 % / 90 %"] = " / ".join(map(_number, summary.quantiles[:, -1]))
        rows.append(row)
    return pd.DataFrame(rows) if rows else None


def regret_csv(curves: Sequence[Curve]) -> str:
    """Every curve at every reporting round, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["policy", "measure", "round", "mean", "standard error", "q10", "q50", "q90"])
    for curve in curves:
        for kind in REGRETS:
            summary = curve.result.summary(kind, _QUANTILES)
            columns = (summary.mean, summary.standard_error, *summary.quantiles)
            for t, *numbers in zip(curve.result.rounds.tolist(), *columns, strict=True):
                writer.writerow(
                    [curve.label, kind, t, *(repr(float(number)) for number in numbers)]
                )
    return text.getvalue()


def overlays_of(curves: Sequence[Curve], problem: Problem, state: State) -> dict[str, np.ndarray]:
    """Bounds at the rounds of the first curve, for the first DynLin-UCB there is."""
    rounds, T, d = curves[0].result.rounds, state.settings.rounds, problem.actions.d
    learner = state.settings.learner("dynlin_ucb") or Learner("dynlin_ucb")
    bounds = Bounds.of(problem, learner.rho_bar)
    lam = np.log(T) if learner.lam is None else learner.lam
    found = {
        "upper bound as printed": offline_regret_bound(bounds, lam, 1 / T, d, rounds, printed=True),
        "upper bound, corrected β": offline_regret_bound(bounds, lam, 1 / T, d, rounds),
    }
    if bounds.rho > 0:
        found["lower bound, hard instances"] = lower_bound(d, bounds.rho, rounds)
    return {name: np.asarray(values) for name, values in found.items()}


def sensitivity_table(sensitivity: Sensitivity) -> pd.DataFrame:
    """The entries that move J* most, and how far each may move before another vertex is best."""
    system = sensitivity.problem.system
    across, down = table_names(system)
    corner = {
        "A": (0, 0),
        "B": (0, system.n),
        "omega": (system.n, 0),
        "theta": (system.n, system.n),
    }
    rows = []
    for entry in sensitivity.largest(8):
        field, _, place = entry.name.rstrip("]").partition("[")
        at = tuple(map(int, place.split(",")))
        column = at[0] if field == "omega" else at[-1]  # ω and θ are the last row of the table
        row = 0 if field in ("omega", "theta") else at[0]
        first_row, first_column = corner[field]
        rows.append({
            "effect of": across[first_column + column], "on": down[first_row + row],
            "value": f"{entry.value:.4g}", "∂J*/∂value": f"{entry.derivative:.4g}",
            "% of J* per %": f"{entry.elasticity:.4g}",
            "u* stays if it falls by": _distance(getattr(sensitivity.falls, field)[at]),
            "or rises by": _distance(getattr(sensitivity.rises, field)[at]),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _number(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _distance(number: float) -> str:
    return "any amount" if np.isinf(number) else f"{number:.4g}"
