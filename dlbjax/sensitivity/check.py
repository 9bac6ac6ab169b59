"""How far the relaxed gradient is from the true policy's, entry by entry.

The relaxation is biased, and nothing in a relaxed run says by how much. `check_gradient` takes the slope of
the true policy's mean regret in the same entries, by differences, and compares. Do not trust the relaxation
unchecked

- where the horizon is so short that the policy has hardly begun to learn: with regret still linear the first
  decisions are all there is, and the soft choice makes them differently;
- on systems other than those it was measured on (see `relaxed`);
- in a single entry: errors are largest where the slope is small next to that of other entries.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dlbjax.common.arrays import Array, instance_of, strings
from dlbjax.common.hints import hint
from dlbjax.model.actions import finite
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.model.system import System
from dlbjax.policies.dynlin_ucb import dynlin_ucb
from dlbjax.sensitivity.differences import regret_slope
from dlbjax.sensitivity.relaxation import Parameters
from dlbjax.sensitivity.relaxed import relaxed_gradient

Place: TypeAlias = tuple[int, ...]
_STEPS = (0.02, 0.05, 0.1, 0.2)  # relative to an entry,
_SMALL = 0.1  # or to this share of the largest, where it is smaller
_NEAR = 0.25  # relative error up to which a slope counts as confirmed
_SURE = 3.0  # standard errors


class GradientCheck(NamedTuple):
    """Relaxed slopes of mean regret next to the true policy's.

    Attributes:
      entries: their names, such as "lam" and "A[0,0]".
      relaxed: (entries,) slopes of `relaxed_gradient`.
      relaxed_error: their standard errors over runs.
      true: (entries,) slopes of the true policy, by `regret_slope`.
      true_error: their standard errors over runs.
    """

    entries: tuple[str, ...]
    relaxed: np.ndarray
    relaxed_error: np.ndarray
    true: np.ndarray
    true_error: np.ndarray

    @property
    def noise(self) -> np.ndarray:
        """Three standard errors of the difference."""
        return _SURE * np.hypot(self.relaxed_error, self.true_error)

    @property
    def confirmed(self) -> np.ndarray:
        """Which slopes are within 25 % of the true one, as far as the noise allows to say so."""
        return np.abs(self.relaxed - self.true) + self.noise <= _NEAR * np.abs(self.true)

    @property
    def contradicted(self) -> np.ndarray:
        """Which slopes are off by more than 25 % beyond the noise. Neither: more seeds would tell."""
        return np.abs(self.relaxed - self.true) - self.noise > _NEAR * np.abs(self.true)

    def __str__(self) -> str:
        lines = [f"{'entry':<12}{'relaxed':>12}{'true':>12}{'±':>10}"]
        for name, *numbers, good, bad in zip(
            self.entries, self.relaxed, self.true, self.noise, self.confirmed, self.contradicted,
            strict=True,
        ):  # fmt: skip
            verdict = "confirmed" if good else "contradicted" if bad else "undecided"
            one, other, noise = numbers
            lines.append(f"{name:<12}{one:>12.4g}{other:>12.4g}{noise:>10.2g}  {verdict}")
        return "\n".join(lines)


def check_gradient(
    parameters: Parameters,
    vertices: Array,
    bounds: Bounds,
    *,
    horizon: int,
    entries: Sequence[str] = ("lam", "scale"),
    seeds: int = 1000,
    relaxed_seeds: int = 64,
    temperature: float = 1.0,
    delta: float | None = None,
) -> GradientCheck:
    """`relaxed_gradient` next to `regret_slope` in the same entries.

    The true policy is played at steps of 2, 5, 10 and 20 % on both sides of every entry (of a tenth of the
    array's largest, where that is more), and the largest step that no smaller one contradicts is taken.

    Measured on four random systems (n = 3, d = 2, ρ̄ = 0.6, T = 2000, 400 runs, ten entries each): none of the
    relaxed slopes is contradicted on three of them, four on the fourth, where the largest is 1.9 times the
    true one.

    Args:
      parameters: as for `relaxed_gradient`.
      vertices: as for `relaxed_gradient`.
      bounds: as for `relaxed_gradient`.
      horizon: rounds T.
      entries: which: "lam", "scale", and entries of the system, such as "A[0,1]" or "theta[0]".
      seeds: runs of the true policy at every step.
      relaxed_seeds: runs of the relaxed policy.
      temperature: of the soft choice.
      delta: confidence δ, 1/T by default.

    >>> import dlbjax as dlb, numpy as np
    >>> problem = dlb.problems.synthetic()
    >>> check = check_gradient(
    ...     Parameters(problem.system, lam=np.log(1000)), problem.actions.vertices,
    ...     dlb.Bounds.of(problem), horizon=1000, entries=["scale"], seeds=64, relaxed_seeds=8,
    ... )
    >>> check.confirmed.tolist()
    [True]
    """
    instance_of("parameters", parameters, Parameters, "Parameters(system, lam, scale)")
    names = strings("entries", list(entries) if isinstance(entries, tuple) else entries)
    gradient = relaxed_gradient(
        parameters, vertices, bounds, horizon=horizon, seeds=relaxed_seeds, temperature=temperature,
        delta=delta,
    )  # fmt: skip
    actions, places = finite(vertices), _places(parameters.system)
    slopes, errors, true = [], [], []
    for name in names:
        if name not in places:
            raise ValueError(f"there is no entry {name!r}{hint(name, places)}")
        field, place = places[name]
        array = np.asarray(_field(parameters, field), np.float64)
        unit = max(abs(array[place]), _SMALL * np.abs(array).max()) or _SMALL

        def at(x: float, field: str = field, place: Place = place) -> Any:
            system, lam, scale = _moved(parameters, field, place, x)
            return Problem(system, actions), dynlin_ucb(bounds, lam, delta, scale=scale)

        steps = [unit * step for step in _STEPS]
        true.append(regret_slope(at, float(array[place]), steps, horizon, seeds))
        slopes.append(_field(gradient.slope, field)[place])
        errors.append(_field(gradient.standard_error, field)[place])
    return GradientCheck(
        tuple(names), np.array(slopes), np.array(errors),
        true=np.array([each.slope for each in true]),
        true_error=np.array([each.standard_error for each in true]),
    )  # fmt: skip


def _places(system: System) -> dict[str, tuple[str, Place]]:
    """Field and index of every entry, by its name."""
    found: dict[str, tuple[str, Place]] = {"lam": ("lam", ()), "scale": ("scale", ())}
    for field in ("A", "B", "omega", "theta"):
        for place in np.ndindex(getattr(system, field).shape):
            found[f"{field}[{','.join(map(str, place))}]"] = field, place
    return found


def _field(parameters: Parameters, field: str) -> Any:
    return getattr(parameters if field in ("lam", "scale") else parameters.system, field)


def _moved(parameters: Parameters, field: str, place: Place, value: float) -> Parameters:
    """The parameters with another value of one entry."""
    array = np.array(_field(parameters, field), np.float64)
    array[place] = value
    if field in ("lam", "scale"):
        return Parameters(**(parameters._asdict() | {field: value}))
    arrays = {name: getattr(parameters.system, name) for name in System.__dataclass_fields__}
    return parameters._replace(system=System(**(arrays | {field: array})))
