"""Values of a problem as pure functions of its system and the vertices of its action set.

All of them go through `jax.grad`, `jax.vmap` and `jax.jit`. A maximum over vertices has, by the envelope
theorem, the derivatives of the maximiser held fixed. Where several vertices tie (within 1e-12, relative)
it has a kink, and the derivatives here are those of the first of them; `dlbjax.sensitivity.of` reports all.
"""

from typing import NamedTuple

from dlbjax.common.arrays import Array, Number, namespace, real_array, whole_number
from dlbjax.model.actions import ActionSet
from dlbjax.model.problem import Problem
from dlbjax.model.system import System, check_system, settled
from dlbjax.theory import optimal_average, smallest_gap


class Parameters(NamedTuple):
    """A number for every entry of A, B, ω and θ.

    Attributes:
      A: (n, n).
      B: (n, d).
      omega: (n,).
      theta: (d,).
    """

    A: Array
    B: Array
    omega: Array
    theta: Array


def value_derivatives(system: System, action: Array) -> Parameters:
    """Derivatives of J(u) = ⟨h,u⟩ for a fixed action.

    With w = (I−A)⁻ᵀω and x̄ = (I−A)⁻¹Bu:

        ∂J/∂A = w x̄ᵀ,   ∂J/∂B = w uᵀ,   ∂J/∂ω = x̄,   ∂J/∂θ = u

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> value_derivatives(problem.system, problem.optimal_action).A[0].round(4)
    array([0.7031, 0.    , 0.    ])
    """
    action = real_array("action", action, (check_system(system).d,))
    xp = namespace(system, action)
    state, worth = system.steady_state(action), state_worth(system)
    return Parameters(xp.outer(worth, state), xp.outer(worth, action), state, action)


def optimal_value(system: System, vertices: Array) -> Number:
    """J* = max ⟨h,u⟩ over vertices (K, d).

    >>> import jax
    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> with jax.enable_x64(True):
    ...     slopes = jax.grad(optimal_value)(problem.system, problem.actions.vertices)
    >>> slopes.theta.tolist()                                       # u* itself
    [1.0, 0.5, 0.0]
    """
    return _problem(system, vertices).optimal_value


def margin(system: System, vertices: Array) -> Number:
    """J* − J(v) for the best vertex v that does not tie with u*; see `theory.smallest_gap`."""
    return smallest_gap(_problem(system, vertices))


def steady_state(system: System, vertices: Array) -> Array:
    """x̄(u*) = (I−A)⁻¹Bu*, (n,), where the state settles under the best action.

    It jumps where u* changes; the derivatives are those with u* held fixed.
    """
    best = _problem(system, vertices).optimal_action
    return system.steady_state(best)


def horizon_value(system: System, vertices: Array, horizon: int) -> Number:
    """J_H of u* played forever: its average reward over the first H rounds, from x₁.

    J* + ⟨ω, (I−A)⁻¹(I−A^H)(x₁−x̄(u*))⟩/H

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> value = horizon_value(problem.system, problem.actions.vertices, 2)
    >>> float(round(value, 4))                                      # 0.25, then 0.45 more
    0.475
    """
    horizon = whole_number("horizon", horizon, at_least=1)
    problem = _problem(system, vertices)
    apart = system.x1 - system.steady_state(problem.optimal_action)
    xp = namespace(system, vertices)
    forgotten = apart - xp.linalg.matrix_power(system.A, horizon) @ apart
    return problem.optimal_value + state_worth(system) @ forgotten / horizon


def planned_value(system: System, vertices: Array, horizon: int) -> Number:
    """J*_H, the average reward of the best plan over H rounds; see `theory.optimal_average`."""
    return optimal_average(_problem(system, vertices), horizon)


def state_worth(system: System) -> Array:
    """(I−A)⁻ᵀω, (n,): reward of one unit of each state, in this round and all that follow."""
    return settled(system.A.T, system.omega)


def _problem(system: System, vertices: Array) -> Problem:
    check_system(system)
    vertices = real_array("vertices", vertices, (None, None))
    if len(vertices) == 0:
        raise ValueError("vertices must hold at least one action; got none")
    return Problem(system, ActionSet(vertices))  # type: ignore[arg-type]  # JAX's under jit
