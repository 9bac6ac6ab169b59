"""Ridge regression keeps its precision over a million observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.policies import ridge


def observations(form, vertices, actions, rewards, lam):
    """What a form of the regression predicts after some observations."""

    def observe(state, seen):
        action, reward = seen
        vector = vertices[action]
        one = jnp.ones((), jnp.int32)
        return state.observe(dlb.Feedback(action, vector, reward, None, one, None, vertices)), None

    start = form.start(jnp.asarray(lam, vertices.dtype), vertices)
    state, _ = jax.jit(lambda: jax.lax.scan(observe, start, (actions, rewards)))()
    return state, state.predict(vertices)


@pytest.mark.parametrize(
    ("form", "double", "digits"),
    [(ridge.Gram, False, 3e-7), (ridge.Gram, True, 1e-10), (ridge.ByVertex, True, 1e-9)],
)
def test_no_drift_in_a_million_observations(form, double, digits):
    """Terms that are no multiples of the last place of a sum near 10⁵."""
    count, vertices = 10**6, np.array([[0.3, 0.7], [0.6, 0.1]])
    actions = np.arange(count) % 3 // 2  # two of three play the first vertex
    with jax.enable_x64(double):
        rewards = jnp.full(count, 0.8123)
        _, (estimate, width) = observations(
            form, jnp.asarray(vertices), jnp.asarray(actions, jnp.int32), rewards, 1.0
        )
    counts = np.bincount(actions)
    V = np.eye(2) + (vertices.T * counts) @ vertices
    h = np.linalg.solve(V, 0.8123 * counts @ vertices)
    np.testing.assert_allclose(estimate, vertices @ h, rtol=digits)
    expected = np.sqrt(np.einsum("ki,ij,kj->k", vertices, np.linalg.inv(V), vertices))
    np.testing.assert_allclose(width, expected, rtol=digits)


@pytest.mark.parametrize("units", [1.0, 1e3])
def test_both_forms_agree_with_least_squares(units):
    rng = np.random.default_rng(0)
    vertices = units * rng.uniform(size=(40, 5))
    actions, rewards = rng.integers(40, size=300), rng.normal(size=300)
    played, lam = vertices[actions], 2.0
    V = lam * np.eye(5) + played.T @ played
    squares = np.einsum("ki,ij,kj->k", vertices, np.linalg.inv(V), vertices)
    with jax.enable_x64(True):
        given = jnp.asarray(vertices), jnp.asarray(actions, jnp.int32), jnp.asarray(rewards)
        for form in (ridge.Gram, ridge.ByVertex):
            state, (estimate, width) = observations(form, *given, lam)
            np.testing.assert_allclose(
                estimate, vertices @ np.linalg.solve(V, rewards @ played), atol=1e-7
            )
            np.testing.assert_allclose(width**2, squares, atol=1e-15 * units**2 / lam + 1e-12)
            np.testing.assert_allclose(state.square_of(given[0][3]), squares[3], rtol=1e-4)


def test_no_width_vanishes_by_rounding():
    """λ is 10⁻¹⁵ of the squared actions, and every vertex was played."""
    rng = np.random.default_rng(0)
    vertices = 1e7 * rng.uniform(size=(40, 5))
    with jax.enable_x64(True):
        given = jnp.asarray(vertices), jnp.arange(40, dtype=jnp.int32), jnp.zeros(40)
        state, (_, width) = observations(ridge.ByVertex, *given, 0.1)
        assert bool(jnp.all(state.square > 0))
        assert bool(jnp.all(jnp.isfinite(width)))


@pytest.mark.parametrize("d", [1, 3, 8, 9, 16])
def test_inverse(d):
    """Written out for a few dimensions, by whole matrices for more; mapped over runs."""
    root = np.random.default_rng(d).normal(size=(5, d, d + 2))
    matrices = root @ np.swapaxes(root, 1, 2)
    with jax.enable_x64(True):
        inverses = np.asarray(jax.vmap(dlb.small.inverse, out_axes=-1)(jnp.asarray(matrices)))
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(inverses[..., i] @ matrix, np.eye(d), atol=1e-7)


def budget_problem(units):
    """Ten channels with equal limits, whose effects differ."""
    system = dlb.System(
        [[0.1]], np.full((1, 10), 1 / units), [1.0], np.linspace(1, 2, 10) / units, sigma=1.0
    )
    return dlb.Problem(system, dlb.actions.budget(0.0, [units] * 10, total=5 * units))


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.dynlin_ucb_tight, dlb.lin_ucb, dlb.d_lin_ucb])
def test_units_of_the_actions_do_not_matter(make):
    """Actions times a power of two, and λ times its square, give the same actions to the bit."""
    actions = []
    for units in (1.0, 2.0**20):
        problem = budget_problem(units)
        policy = make(dlb.Bounds.of(problem), lam=units**2)
        actions.append(dlb.simulate(problem, policy, 300, 2, record="actions").actions)
    np.testing.assert_array_equal(*actions)
    assert len(np.unique(actions[0])) > 10


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.dynlin_ucb_tight, dlb.lin_ucb, dlb.d_lin_ucb])
def test_actions_in_the_millions_are_fine(make):
    """λ = log T is next to nothing beside squares of 10¹⁴; every choice is still one of a vertex."""
    problem = budget_problem(1e7)
    result = dlb.simulate(problem, make(dlb.Bounds.of(problem)), 300, 3, record="actions")
    assert np.isfinite(result.expected_regret).all()
    assert result.actions.max() < len(problem.actions)
    assert len(np.unique(result.actions)) >= 10


def test_tight_default_of_lambda_is_relative_to_the_actions():
    actions = []
    for units in (1.0, 2.0**20):
        problem = budget_problem(units)
        policy = dlb.dynlin_ucb_tight(dlb.Bounds.of(problem))
        actions.append(dlb.simulate(problem, policy, 300, 2, record="actions").actions)
    np.testing.assert_array_equal(*actions)


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.dynlin_ucb_tight, dlb.lin_ucb, dlb.d_lin_ucb])
def test_one_round_is_a_horizon(make):
    problem = dlb.problems.synthetic()
    assert dlb.simulate(problem, make(dlb.Bounds.of(problem)), 1).offline_regret.shape == (1, 1)


@pytest.mark.parametrize("make", [dlb.dynlin_ucb, dlb.lin_ucb, dlb.d_lin_ucb])
def test_a_radius_that_overflows_is_refused(make):
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem).replace(U=1e200)
    with pytest.raises(ValueError, match=r"UCB' cannot be run: its plan is not finite"):
        dlb.simulate(problem, make(bounds, lam=1e-10), 10)


@pytest.mark.parametrize("wrong", [[1.0, [2.0]], [None], [], ["1"], [[1.0]]])
def test_a_list_of_something_else_is_refused_by_name(wrong):
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    with pytest.raises(ValueError, match=r"^lam must be a number or a list of numbers; got"):
        dlb.lin_ucb(bounds, lam=wrong)
    with pytest.raises(ValueError, match="X"):
        dlb.lin_ucb(bounds.replace(X=wrong))


@pytest.mark.parametrize(
    "make",
    [dlb.lin_ucb, dlb.d_lin_ucb, dlb.dynlin_ucb, dlb.dynlin_ucb_tight, dlb.thompson_sampling],
)
def test_a_lambda_that_rounding_would_swallow_is_rejected_before_anything_runs(make):
    """In units in which actions are 10⁶ times as large, λ must be 10¹² times as large."""
    problem = dlb.problems.synthetic()
    large = dlb.actions.finite(1e6 * problem.actions.vertices)
    for actions, least in [(problem.actions, 1.25e-14), (large, 1.25e-2)]:
        bounds = dlb.Bounds.of(dlb.Problem(problem.system, actions))
        make(bounds, lam=1.01 * least).prepare(100, actions.vertices)
        with pytest.raises(ValueError, match=r"lam must be at least (1.3e-14|0.013) for"):
            make(bounds, lam=0.99 * least).prepare(100, actions.vertices)
