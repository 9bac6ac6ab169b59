import jax
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.model import powers

GOOD = {"A": [[0.5, 0.1], [0.0, 0.2]], "B": np.eye(2, 3), "omega": [1, 2], "theta": [3, 4, 5]}


def random_system(seed, n, d, radius=0.8, **more):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    draw = rng.standard_normal
    return dlb.System(A, draw((n, d)), draw(n), draw(d), **more)


def impulse_response(system, length):
    """Noise-free rewards after one unit of each action coordinate at time 0, by simulation."""
    response = np.zeros((length, system.d))
    for i in range(system.d):
        x = np.zeros(system.n)
        for t in range(length):
            u = np.eye(system.d)[i] * (t == 0)
            response[t, i] = system.omega @ x + system.theta @ u
            x = system.A @ x + system.B @ u
    return response


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (4, 2), (6, 5)])
def test_markov_parameters_are_the_impulse_response(n, d):
    system = random_system(n, n, d)
    assert (system.n, system.d) == (n, d)
    expected = impulse_response(system, 30)
    for lag in range(30):
        np.testing.assert_allclose(system.markov(lag), expected[lag], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("first", [0, 1, 2, 5])
@pytest.mark.parametrize("last", [0, 1, 4, 5, 20, None])
def test_cumulative_markov_parameters_are_sums(first, last):
    system = random_system(7, 3, 2)
    response = impulse_response(system, 400)
    expected = response[first : None if last is None else last + 1].sum(0)
    np.testing.assert_allclose(system.cumulative_markov(first, last), expected, atol=1e-12)


def test_h_value_and_steady_state_are_where_a_constant_action_leads():
    system = random_system(3, 4, 3)
    action = np.array([0.3, -1.0, 2.0])
    x = np.zeros(4)
    for _ in range(500):
        x = system.A @ x + system.B @ action
    reward = system.omega @ x + system.theta @ action
    np.testing.assert_allclose(system.steady_state(action), x, rtol=1e-10)
    np.testing.assert_allclose(system.value(action), reward, rtol=1e-10)
    np.testing.assert_allclose(system.h @ action, reward, rtol=1e-10)
    np.testing.assert_allclose(system.h, impulse_response(system, 400).sum(0), rtol=1e-10)


@pytest.mark.parametrize(
    ("A", "v"),
    [
        ([[0.999999, 0.0], [8.186065969299592e16, 0.57]], [1.0, 1e75]),  # wrong without scaled rows
        ([[-0.9999, 0.0], [-1.1878247332937508, 0.49995]], [0.0, 1e-12]),  # without refinement
    ],
)
def test_every_entry_settles_to_its_last_digits(A, v):
    first = v[0] / (1 - A[0][0])
    second = (v[1] + A[1][0] * first) / (1 - A[1][1])
    found = dlb.System(A, np.eye(2), [1, 1], [0, 0]).steady_state(v)
    np.testing.assert_allclose(found, [first, second], rtol=1e-15, atol=0)


def test_scaled_rows_do_not_overflow():
    system = dlb.System([[0.0, 1e43], [0.0, 0.0]], np.eye(2), [1, 1], [0, 0])
    np.testing.assert_array_equal(system.steady_state([1e-300, 0.0]), [1e-300, 0.0])


def test_value_takes_many_actions_at_once():
    system = random_system(3, 2, 3)
    actions = np.random.default_rng(0).standard_normal((5, 3))
    expected = [system.value(action) for action in actions]
    np.testing.assert_allclose(system.value(actions), expected, rtol=1e-12)


@pytest.mark.parametrize("call", [lambda s: s.markov(-1), lambda s: s.cumulative_markov(-1, 3)])
def test_a_negative_lag_is_rejected(call):
    with pytest.raises(ValueError, match=r"lag|first"):
        call(dlb.System(**GOOD))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.ones((2, 3))}, r"^A must be square and not empty; got shape \(2, 3\)"),
        ({"A": np.ones((0, 0))}, r"^A must be square and not empty; got shape \(0, 0\)"),
        ({"A": [0.5, 0.5]}, r"^A must have shape \(any, any\); got shape \(2,\)"),
        ({"A": 0.5}, r"^A must have shape \(any, any\); got shape \(\)"),
        ({"A": [[0.5, np.nan], [0, 0]]}, r"^A must be finite; got nan at index \(0, 1\)"),
        ({"A": [["a", "b"], ["c", "d"]]}, r"^A must hold real numbers in shape .*'a'"),
        ({"A": [[0.5, 0.1], [0.1]]}, r"^A must hold real numbers in shape"),
        ({"A": [[0.5j, 0], [0, 0]]}, r"^A must hold real numbers in shape .*0\.5j"),
        ({"A": None}, r"^A must hold real numbers in shape .*None"),
        ({"A": [[1.0, 0], [0, 0.5]]}, r"^A must be stable, spectral radius below 1; got 1\. "),
        ({"A": [[0.5, 0], [0, -1.25]]}, r"^A must be stable, .*; got 1\.25\. Rescale A"),
        ({"A": [[0, 2], [-2, 0]]}, r"^A must be stable, .*; got 2\. "),
        ({"B": np.ones((3, 3))}, r"^B must have shape \(2, any\); got shape \(3, 3\)"),
        ({"B": np.ones(2)}, r"^B must have shape \(2, any\); got shape \(2,\)"),
        ({"B": np.ones((2, 0))}, r"^B must have at least one column .*; got none"),
        ({"B": [[1, 2, 3], [4, -np.inf, 6]]}, r"^B must be finite; got -inf at index \(1, 1\)"),
        ({"omega": [1, 2, 3]}, r"^omega must have shape \(2,\); got shape \(3,\)"),
        ({"omega": [[1, 2]]}, r"^omega must have shape \(2,\); got shape \(1, 2\)"),
        ({"omega": [1, np.nan]}, r"^omega must be finite; got nan at index \(1,\)"),
        ({"omega": "ab"}, r"^omega must hold real numbers in shape \(2,\); got 'ab'"),
        ({"theta": [1, 2]}, r"^theta must have shape \(3,\); got shape \(2,\)"),
        ({"theta": [np.inf, 2, 3]}, r"^theta must be finite; got inf at index \(0,\)"),
        ({"theta": [1j, 2, 3]}, r"^theta must hold real numbers"),
        ({"x1": [1, 2, 3]}, r"^x1 must have shape \(2,\); got shape \(3,\)"),
        ({"x1": [1, np.nan]}, r"^x1 must be finite; got nan at index \(1,\)"),
        ({"sigma": -0.1}, r"^sigma must be >= 0\.0; got -0\.1"),
        ({"sigma": np.nan}, r"^sigma must be finite; got nan$"),
        ({"sigma": [0.1, 0.2]}, r"^sigma must have shape \(\) \(a single number\); got shape"),
        ({"sigma": "low"}, r"^sigma must hold real numbers .*'low'"),
        ({"reward_noise": -1}, r"^reward_noise must be >= 0\.0; got -1"),
        ({"reward_noise": [1]}, r"^reward_noise must have shape \(\)"),
        ({"state_noise": -0.5}, r"^state_noise must be >= 0; got -0\.5"),
        ({"state_noise": [0.1, -0.2]}, r"^state_noise must be >= 0; got -0\.2"),
        ({"state_noise": [0.1, 0.2, 0.3]}, r"^state_noise must have shape \(2,\); got shape \(3"),
        ({"state_noise": np.eye(3)}, r"^state_noise must have shape \(2, 2\); got shape \(3, 3\)"),
        ({"state_noise": np.ones((2, 2, 2))}, r"^state_noise must have shape \(2,\); got"),
        ({"state_noise": [[1, 0.5], [0.4, 1]]}, r"^state_noise must be a symmetric covariance"),
        ({"state_noise": [[1, 2], [2, 1]]}, r"^state_noise must be positive semi-.*value is -1$"),
        ({"state_noise": [[1e-9, 0], [0, -1e-12]]}, r"^state_noise must be positive semi-def"),
        ({"state_noise": [[1, np.nan], [0, 1]]}, r"^state_noise must be finite; got nan"),
        ({"state_noise": "loud"}, r"^state_noise must hold real numbers .*'loud'"),
        ({"state_noise": [[1, 2], [3]]}, r"^state_noise must"),
    ],
)
def test_bad_input_is_rejected_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        dlb.System(**GOOD | change)


@pytest.mark.parametrize(
    ("noise", "covariance", "reward"),
    [
        ({}, np.zeros((2, 2)), 0.0),
        ({"sigma": 0.1}, np.diag([0.01, 0.01]), 0.1),
        ({"sigma": 0.1, "state_noise": 0.0}, np.zeros((2, 2)), 0.1),
        ({"sigma": 0.1, "reward_noise": 0.0}, np.diag([0.01, 0.01]), 0.0),
        ({"state_noise": 0.2, "reward_noise": 0.3}, np.diag([0.04, 0.04]), 0.3),
        ({"state_noise": [0.2, 0.3]}, np.diag([0.04, 0.09]), 0.0),
        ({"state_noise": [[1.0, 0.5], [0.5, 2.0]]}, [[1.0, 0.5], [0.5, 2.0]], 0.0),
        ({"state_noise": [[1, 1], [1, 1]]}, np.ones((2, 2)), 0.0),
        ({"state_noise": np.zeros((2, 2)), "sigma": 1}, np.zeros((2, 2)), 1.0),
    ],
)
def test_noise_becomes_a_covariance_and_a_deviation(noise, covariance, reward):
    system = dlb.System(**GOOD, **noise)
    np.testing.assert_allclose(system.state_noise, covariance, rtol=1e-15)
    assert system.state_noise.shape == (2, 2)
    assert system.reward_noise == reward


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_rounding_in_a_covariance_is_forgiven(scale):
    root = np.random.default_rng(0).standard_normal((2, 1)) * scale
    covariance = root @ root.T
    covariance[0, 1] *= 1 + 1e-15
    dlb.System(**GOOD, state_noise=covariance)


def test_initial_state_is_zero_unless_given():
    np.testing.assert_array_equal(dlb.System(**GOOD).x1, [0, 0])
    np.testing.assert_array_equal(dlb.System(**GOOD, x1=[1, 2]).x1, [1, 2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_float64_copies(dtype):
    A = np.array([[0.5, 0.1], [0.0, 0.2]], dtype=dtype)
    system = dlb.System(**GOOD | {"A": A})
    A[0, 0] = 9
    assert system.A[0, 0] == 0.5
    assert {system.A.dtype, system.theta.dtype, system.h.dtype} == {np.dtype(np.float64)}
    with pytest.raises(AttributeError):
        system.A = A


@pytest.mark.parametrize(
    "field",
    [
        "A",
        "B",
        "omega",
        "theta",
        "x1",
        "state_noise",
    ],
)
def test_arrays_are_read_only(field):
    with pytest.raises(ValueError, match="read-only"):
        getattr(dlb.System(**GOOD, sigma=0.1), field)[...] = 0.0


def test_system_is_a_pytree():
    system = random_system(1, 3, 2, sigma=0.1, reward_noise=0.5, x1=np.ones(3))
    leaves, structure = jax.tree.flatten(system)
    assert len(leaves) == 7
    doubled = jax.tree.map(lambda leaf: 2 * leaf, system)
    again = jax.tree.unflatten(structure, leaves)
    for name in ("A", "B", "omega", "theta", "state_noise", "reward_noise", "x1"):
        np.testing.assert_array_equal(getattr(again, name), getattr(system, name))
        np.testing.assert_array_equal(getattr(doubled, name), 2 * getattr(system, name))


def test_a_system_goes_through_jit_as_an_argument():
    system = random_system(1, 3, 2)
    np.testing.assert_allclose(jax.jit(lambda s: s.h)(system), system.h, rtol=1e-4)
    np.testing.assert_allclose(
        jax.jit(lambda A: dlb.System(A, system.B, system.omega, system.theta).h)(system.A),
        system.h,
        rtol=1e-4,
    )


@pytest.mark.parametrize("noise", [0.3, [0.3, 0.4], [[1.0, 0.5], [0.5, 2.0]]])
def test_traced_noise_becomes_the_same_covariance(noise):
    expected = dlb.System(**GOOD, state_noise=noise).state_noise
    traced = jax.jit(lambda s: dlb.System(**GOOD, state_noise=s).state_noise)(np.array(noise))
    np.testing.assert_allclose(traced, expected, rtol=1e-6)


def fields_of(system):
    return {name: getattr(system, name) for name in ("A", "B", "omega", "theta")}


def numeric_gradient(function, fields, name, step=1e-5):
    gradient = np.zeros_like(fields[name])
    for i in np.ndindex(gradient.shape):
        ends = []
        for sign in (1, -1):
            moved = {key: value.copy() for key, value in fields.items()}
            moved[name][i] += sign * step
            ends.append(function(dlb.System(**moved)))
        gradient[i] = (ends[0] - ends[1]) / (2 * step)
    return gradient


LINEAR = {  # polynomial or rational in A, linear in the rest
    "h": lambda s: (s.h**2).sum(),
    "finite sum": lambda s: (s.cumulative_markov(0, 3) ** 2).sum(),
    "late sum": lambda s: (s.cumulative_markov(2, 6) ** 2).sum(),
    "tail": lambda s: (s.cumulative_markov(3) ** 2).sum(),
    "markov": lambda s: (s.markov(4) ** 2).sum(),
    "steady state": lambda s: (s.steady_state(np.arange(1.0, s.d + 1)) ** 2).sum(),
    "value": lambda s: s.value(np.arange(1.0, s.d + 1)),
}
DECAY = {  # functions of A alone; for these systems one small power attains Φ, by a margin
    "rho": lambda s: s.rho,
    "phi": lambda s: s.phi,
    "phi_at": lambda s: s.phi_at(0.85),
}


@pytest.mark.parametrize("field", ["A", "B", "omega", "theta"])
@pytest.mark.parametrize("quantity", LINEAR)
@pytest.mark.parametrize(("n", "d"), [(1, 2), (3, 1), (4, 4)])
def test_gradients_equal_central_differences(quantity, field, n, d):
    function, fields = LINEAR[quantity], fields_of(random_system(10 * n + d, n, d, radius=0.7))
    with jax.enable_x64(True):
        exact = jax.grad(lambda value: function(dlb.System(**fields | {field: value})))
        np.testing.assert_allclose(
            exact(fields[field]),
            numeric_gradient(function, fields, field),
            rtol=1e-6,
            atol=1e-7,
        )


FULL = powers._DOUBLINGS  # compiling the whole search takes seconds for each n: once is enough


@pytest.mark.parametrize("quantity", DECAY)
@pytest.mark.parametrize(("seed", "n", "doublings"), [(9, 2, 11), (29, 4, FULL)])
def test_gradients_of_decay_equal_central_differences(monkeypatch, quantity, seed, n, doublings):
    monkeypatch.setattr(powers, "_DOUBLINGS", doublings)
    function, fields = DECAY[quantity], fields_of(random_system(seed, n, 1, radius=0.7))
    system = dlb.System(**fields)
    if quantity != "rho":
        assert function(system) > 1.01  # not the flat part at τ = 0
    with jax.enable_x64(True):
        exact = jax.jit(jax.grad(lambda A: function(dlb.System(**fields | {"A": A}))))(fields["A"])
    numeric = numeric_gradient(function, fields, "A")
    assert np.abs(numeric).max() > 0.1
    np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


def test_gradient_of_phi_at_in_rho_bar_equals_central_differences(monkeypatch):
    monkeypatch.setattr(powers, "_DOUBLINGS", 11)
    system = random_system(9, 3, 1, radius=0.7)
    with jax.enable_x64(True):
        exact = jax.jit(jax.grad(system.phi_at))(0.75)
    numeric = (system.phi_at(0.75 + 1e-6) - system.phi_at(0.75 - 1e-6)) / 2e-6
    assert numeric < -0.1
    np.testing.assert_allclose(exact, numeric, rtol=1e-6)


def test_repr_survives_placeholders_and_tracing():
    system = dlb.System([[0.5]], [[1.0, 0.0]], [1.0], [0.0, 3.0], sigma=0.1)
    assert repr(system).startswith(
        "System(A=[[0.5]], B=[[1, 0]], omega=[1], theta=[0, 3], state_noise"
    )
    assert max(map(len, repr(system).splitlines())) <= 100
    assert "A=None" in repr(jax.tree.map(lambda _: None, system))
    assert jax.eval_shape(lambda s: [repr(s), s.A][1], system).shape == (1, 1)


def test_lists_may_hold_traced_numbers():
    h = jax.jit(lambda rate: dlb.System([[rate, 0.0], [0.0, 0.5]], np.eye(2), [1, 1], [0, 0]).h)
    np.testing.assert_allclose(h(0.75), [4.0, 2.0], rtol=1e-6)
