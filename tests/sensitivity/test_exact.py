"""Gradients of what a problem is worth against differences of plain NumPy loops."""

import jax
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax import sensitivity
from dlbjax.model.problem import best_index
from tests.sensitivity.oracles import HORIZON, differences, quantities, world

FIELDS = ("A", "B", "omega", "theta", "x1")


def package(system, vertices):
    return {
        "h": system.h,
        "J*": sensitivity.optimal_value(system, vertices),
        "margin": sensitivity.margin(system, vertices),
        "state": sensitivity.steady_state(system, vertices),
        "J_H": sensitivity.horizon_value(system, vertices, HORIZON),
        "J*_H": sensitivity.planned_value(system, vertices, HORIZON),
    }


COMPILED = jax.jit(package)
JACOBIANS = jax.jit(jax.jacrev(package))


@pytest.mark.parametrize("seed", range(10))
def test_gradients_equal_differences(seed):
    w, vertices = world(seed)
    system = dlb.System(**w)
    with jax.enable_x64(True):
        exact = JACOBIANS(system, vertices)
    for (quantity, field), numeric in differences(lambda v: quantities(v, vertices), w).items():
        np.testing.assert_allclose(
            getattr(exact[quantity], field), numeric, rtol=1e-6,
            atol=1e-9 * max(1, np.abs(numeric).max()), err_msg=f"{quantity} by {field}",
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_values_on_the_host_and_compiled(seed):
    w, vertices = world(seed)
    system = dlb.System(**w)
    with jax.enable_x64(True):
        compiled = COMPILED(system, vertices)
    for quantity, expected in quantities(w, vertices).items():
        host = package(system, vertices)[quantity]
        assert not isinstance(host, jax.Array)
        np.testing.assert_allclose(host, expected, rtol=1e-12, err_msg=quantity)
        np.testing.assert_allclose(compiled[quantity], expected, rtol=1e-12, err_msg=quantity)


@pytest.mark.parametrize("quantity", ["J*", "margin"])
def test_a_batch_of_systems_equals_a_loop(quantity):
    worlds = [world(seed) for seed in range(10)]
    systems = [dlb.System(**w) for w, _ in worlds]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *systems)
    function = {"J*": sensitivity.optimal_value, "margin": sensitivity.margin}[quantity]
    with jax.enable_x64(True):
        many = jax.vmap(jax.grad(function))(batch, np.stack([vertices for _, vertices in worlds]))
        for i, (system, (_, vertices)) in enumerate(zip(systems, worlds, strict=True)):
            alone = JACOBIANS(system, vertices)[quantity]
            for field in FIELDS:
                np.testing.assert_allclose(
                    getattr(many, field)[i], getattr(alone, field), rtol=1e-9, atol=1e-12
                )


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_of_a_fixed_action_in_closed_form(seed):
    w, vertices = world(seed)
    system = dlb.System(**w)
    best = vertices[np.argmax(vertices @ system.h)]
    closed = sensitivity.value_derivatives(system, best)
    with jax.enable_x64(True):
        traced = JACOBIANS(system, vertices)["J*"]
    for field in closed._fields:
        np.testing.assert_allclose(
            getattr(closed, field), getattr(traced, field), rtol=1e-10, atol=1e-12
        )


TIED = dlb.System(0.5 * np.eye(3), np.eye(3), np.ones(3), np.zeros(3))


def test_at_a_tie_the_gradient_is_that_of_the_first_vertex():
    """An average of the tied ones would be (½, ½, 0, …)."""
    vertices = np.concatenate([np.eye(3), 0.5 * np.eye(3)])
    with jax.enable_x64(True):
        for order in ([0, 1, 2, 3, 4, 5], [3, 2, 5, 0, 4, 1]):
            slopes = JACOBIANS(TIED, vertices[order])
            first = vertices[order][next(i for i in range(6) if vertices[order][i].max() == 1)]
            np.testing.assert_allclose(slopes["J*"].theta, first, rtol=1e-12)
            np.testing.assert_allclose(slopes["state"].B[0, 0], 2 * first, rtol=1e-12)
            second = next(v for v in vertices[order] if v.max() == 0.5)
            np.testing.assert_allclose(slopes["margin"].theta, first - second, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_ties_are_relative_to_the_size_of_rewards(scale):
    system = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [scale, scale * (1 - 1e-14)])
    assert best_index(np.eye(2)[::-1] @ system.h) == 0
    apart = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [scale, scale * (1 - 1e-6)])
    assert sensitivity.margin(apart, np.eye(2)[::-1]) == pytest.approx(1e-6 * scale)


def test_where_all_tie_the_margin_is_infinite_and_flat():
    vertices = np.tile(np.eye(3), (2, 1))
    with jax.enable_x64(True):
        assert COMPILED(TIED, vertices)["margin"] == np.inf
        slopes = JACOBIANS(TIED, vertices)["margin"]
    assert not any(np.any(leaf) for leaf in jax.device_get(jax.tree.leaves(slopes)))
    with pytest.raises(ValueError, match="no gap"):
        sensitivity.margin(TIED, vertices)


def test_theory_of_a_traced_problem_is_that_on_the_host():
    problem = dlb.problems.real_world()
    plan = dlb.theory.optimal_plan(problem, 9)

    @jax.jit
    def traced(system):
        inside = dlb.Problem(system, problem.actions)
        return (
            inside.optimal_action, inside.optimal_value, inside.gaps,
            dlb.theory.optimal_plan(inside, 9), dlb.theory.predicted_rewards(inside, plan),
            dlb.theory.optimal_average(inside, 9), dlb.theory.smallest_gap(inside),
        )  # fmt: skip

    with jax.enable_x64(True):
        found = traced(problem.system)
    expected = (
        problem.optimal_action, problem.optimal_value, problem.gaps, plan,
        dlb.theory.predicted_rewards(problem, plan), dlb.theory.optimal_average(problem, 9),
        dlb.theory.smallest_gap(problem),
    )  # fmt: skip
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_rewards_can_be_differentiated_by_the_actions():
    problem = dlb.problems.real_world()
    actions = np.random.default_rng(0).uniform(size=(4, 3))
    with jax.enable_x64(True):
        slopes = jax.grad(lambda u: dlb.theory.average_reward(problem, u))(actions)
    expected = [problem.system.cumulative_markov(0, 3 - t) / 4 for t in range(4)]
    np.testing.assert_allclose(slopes, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: sensitivity.optimal_value(s, np.eye(2)), "actions have 2 coordinates"),
        (lambda s: sensitivity.optimal_value(s, np.ones(3)), r"vertices must have shape"),
        (
            lambda s: sensitivity.optimal_value(s, np.ones((0, 3))),
            "vertices must hold at least one",
        ),
        (lambda s: sensitivity.optimal_value(None, np.eye(3)), "system must be a dlbjax.System"),
        (lambda s: sensitivity.horizon_value(s, np.eye(3), 0), "horizon must be"),
        (lambda s: sensitivity.planned_value(s, np.eye(3), 0), "horizon must be"),
        (lambda s: sensitivity.value_derivatives(s, [1.0]), "action must have shape"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(TIED)
