"""Which entries of a system move J* and the choice of u*, and by how much."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from dlbjax.common.arrays import is_traced, whole_number
from dlbjax.model.problem import Problem, ties
from dlbjax.sensitivity.exact import Parameters, value_derivatives
from dlbjax.sensitivity.moves import moves

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Vertex:
    """A vertex, with the derivatives of its own J(u).

    Attributes:
      index: its number among the vertices.
      action: (d,) the vertex itself.
      derivatives: ∂J(u)/∂x for every entry x of A, B, ω, θ.
    """

    index: int
    action: np.ndarray
    derivatives: Parameters


class Entry(NamedTuple):
    """One entry x of the system, and how J* depends on it.

    Attributes:
      name: such as "A[0,1]".
      value: x.
      derivative: ∂J*/∂x.
      elasticity: x/J*·∂J*/∂x.
    """

    name: str
    value: float
    derivative: float
    elasticity: float


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Derivatives of J* and of the margin of u*; see `of`.

    Attributes:
      problem: the bandit.
      value: J*.
      derivatives: ∂J*/∂x for every entry x of A, B, ω, θ; at a kink those of the first best vertex.
      margin: J* minus the value of the best vertex that does not tie; infinite if all do.
      margin_derivatives: ∂margin/∂x, for the first of `runners_up`.
      ties: the vertices that attain J*. If there are several, J* has a kink; see `below` and `above`.
      runners_up: the best of the others; several mean a kink of the margin.
      falls, rises: by how much each entry can fall or rise, alone, before another vertex is better
        than u*. Exact, not to first order; infinite where it never happens, or not before A is
        unstable.
    """

    problem: Problem
    value: float
    derivatives: Parameters
    margin: float
    margin_derivatives: Parameters
    ties: tuple[Vertex, ...]
    runners_up: tuple[Vertex, ...]
    falls: Parameters
    rises: Parameters

    @property
    def elasticities(self) -> Parameters:
        """x/J*·∂J*/∂x: per cent by which J* grows if x grows by one per cent. NaN where J* = 0."""
        scale = self.value if self.value != 0 else np.nan
        values = _values(self.problem)
        return _each(lambda slope, x: slope * x / scale + 0.0, self.derivatives, values)

    @property
    def below(self) -> Parameters:
        """∂J*/∂x where x falls: the smallest derivative of the tied vertices."""
        return _each(lambda *slopes: np.min(slopes, axis=0), *(v.derivatives for v in self.ties))

    @property
    def above(self) -> Parameters:
        """∂J*/∂x where x rises: the largest derivative of the tied vertices."""
        return _each(lambda *slopes: np.max(slopes, axis=0), *(v.derivatives for v in self.ties))

    def largest(self, k: int = 5) -> list[Entry]:
        """The k entries with the largest elasticities, in absolute terms; see also `steepest`.

        Where J* = 0 there are no elasticities, and the derivatives decide.
        """
        k = whole_number("k", k, at_least=1)
        entries = self._entries()
        if self.value == 0:
            return sorted(entries, key=lambda entry: -abs(entry.derivative))[:k]
        return sorted(entries, key=lambda e: (-abs(e.elasticity), -abs(e.derivative)))[:k]

    def steepest(self, field: str) -> Entry:
        """The entry of "A", "B", "omega" or "theta" with the largest derivative, in absolute terms.

        An entry that is zero has no elasticity, but may have a derivative.
        """
        if field not in Parameters._fields:
            raise ValueError(f"field must be one of {', '.join(Parameters._fields)}; got {field!r}")
        entries = [entry for entry in self._entries() if entry.name.startswith(f"{field}[")]
        return max(entries, key=lambda entry: abs(entry.derivative))

    def plot(self) -> "Figure":
        """Draw the elasticities as heat maps; see `dlbjax.sensitivity.pictures.elasticities`."""
        from dlbjax.sensitivity import pictures

        return pictures.elasticities(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _entries(self) -> list[Entry]:
        values = _named(_values(self.problem))
        slopes, elasticities = _named(self.derivatives), _named(self.elasticities)
        return [Entry(name, x, slopes[name], elasticities[name]) for name, x in values.items()]

    def _lines(self) -> Iterator[str]:
        yield f"J* = {self.value:.6g} at u* = {_shown(self.ties[0])}"
        if self.runners_up:
            yield f"next is {_shown(*self.runners_up)}, worse by {self.margin:.4g}"
        yield (
            f"{'entry':<10}{'value':>10}{'dJ*/dx':>10}{'elasticity':>12}"
            f"{'may fall by':>13}{'rise by':>10}"
        )
        falls, rises = _named(self.falls), _named(self.rises)
        for name, value, slope, elasticity in self.largest(8):
            yield (
                f"{name:<10}{value:>10.4g}{slope:>10.4g}{elasticity:>12.4g}"
                f"{falls[name]:>13.4g}{rises[name]:>10.4g}"
            )
        steepest = [self.steepest(field) for field in Parameters._fields]
        shown = ", ".join(f"{entry.name} ({entry.derivative:.4g})" for entry in steepest)
        yield f"of each, these move J* most per unit: {shown}"
        if len(self.ties) > 1:
            yield f"a kink: u* ties with {_shown(*self.ties[1:])}"
            yield from self._kinks()

    def _kinks(self) -> Iterator[str]:
        yield f"{'entry':<10}{'dJ*/dx falling':>20}{'rising':>10}"
        above = _named(self.above)
        for name, below in _named(self.below).items():
            if not np.isclose(below, above[name], rtol=1e-9, atol=1e-12):
                yield f"{name:<10}{below:>20.4g}{above[name]:>10.4g}"


def of(problem: Problem) -> Sensitivity:
    """How J* and the choice of u* depend on every entry of A, B, ω and θ.

    >>> import dlbjax as dlb
    >>> sensitivity = dlb.sensitivity.of(dlb.problems.synthetic())
    >>> print(sensitivity)
    J* = 0.8125 at u* = (1, 0.5, 0)
    next is (0.5, 1, 0), worse by 0.03125
    entry          value    dJ*/dx  elasticity  may fall by   rise by
    B[0,0]          0.45      1.25      0.6923         0.05       inf
    omega[0]           1    0.5625      0.6923       0.1111       inf
    theta[1]         0.5       0.5      0.3077       0.3889    0.0625
    A[0,0]           0.2    0.7031      0.1731          0.1       inf
    theta[0]           0         1           0       0.0625       inf
    B[0,1]             0     0.625           0       0.3111      0.05
    B[2,0]             0    0.1111           0       0.5625       inf
    A[2,0]             0    0.0625           0            1       inf
    of each, these move J* most per unit: A[0,0] (0.7031), B[0,0] (1.25), omega[0] (0.5625), theta[0] (1)
    >>> sensitivity.largest(1)[0].name
    'B[0,0]'
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a dlbjax.Problem; got {type(problem).__name__}")
    if is_traced(problem.system, problem.actions.vertices):
        raise ValueError(
            "sensitivity.of needs concrete numbers, and JAX is tracing this problem; differentiate "
            "sensitivity.optimal_value, margin, steady_state or horizon_value instead"
        )
    best = np.asarray(ties(problem.values))
    second = ties(problem.values, among=~best)
    tied, runners_up = _vertices(problem, best), _vertices(problem, np.asarray(second))
    slopes = tied[0].derivatives
    rivals = runners_up[0] if runners_up else tied[0]
    falls, rises = moves(problem, np.where(best, 0.0, problem.gaps))
    return Sensitivity(
        problem,
        value=float(problem.optimal_value),
        derivatives=slopes,
        margin=float(problem.gaps[rivals.index]) if runners_up else np.inf,
        margin_derivatives=_each(np.subtract, slopes, rivals.derivatives),
        ties=tied,
        runners_up=runners_up,
        falls=falls,
        rises=rises,
    )


def _vertices(problem: Problem, chosen: np.ndarray) -> tuple[Vertex, ...]:
    vertices = problem.actions.vertices
    return tuple(
        Vertex(int(i), vertices[i], value_derivatives(problem.system, vertices[i]))
        for i in np.flatnonzero(chosen)
    )


def _values(problem: Problem) -> Parameters:
    system = problem.system
    return Parameters(system.A, system.B, system.omega, system.theta)


def _each(function: Callable[..., np.ndarray], *parameters: Parameters) -> Parameters:
    return jax.tree.map(function, *parameters)


def _named(parameters: Parameters) -> dict[str, float]:
    return {
        f"{field}[{','.join(map(str, place))}]": float(values[place]) + 0.0  # no −0
        for field, values in zip(Parameters._fields, parameters, strict=True)
        for place in np.ndindex(values.shape)
    }


def _shown(*vertices: Vertex) -> str:
    shown = [f"({', '.join(f'{u:.4g}' for u in vertex.action)})" for vertex in vertices]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more
