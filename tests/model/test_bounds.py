import jax
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.model.bounds import check

PROBLEMS = {"synthetic": dlb.problems.synthetic, "real_world": dlb.problems.real_world}
RADIUS = {"synthetic": 0.2, "real_world": 0.66689}


def norm(matrix):
    return np.sqrt(np.linalg.eigvalsh(np.atleast_2d(matrix) @ np.atleast_2d(matrix).T).max())


def largest_ratio(A, rho_bar):
    """sup ‖A^τ‖ρ̄^{−τ} over the first 300 powers."""
    return max(norm(np.linalg.matrix_power(A / rho_bar, tau)) for tau in range(300))


def by_hand(problem, rho, Phi, x1=0.0):
    s = problem.system
    U, B, Omega, Theta = np.sqrt(1.25), norm(s.B), norm(s.omega), norm(s.theta)
    X = Phi * (x1 + B * U / (1 - rho))
    return {
        "U": U,
        "B": B,
        "Omega": Omega,
        "Theta": Theta,
        "X": X,
        "Phi": Phi,
        "rho": rho,
        "sigma": 0.01,
        "c1": U * Omega * Phi * (U * B / (1 - rho) + X),
        "c2": Theta + Omega * B * Phi / (1 - rho),
        "noise_variance": 0.01**2 * (1 + Omega**2 * Phi**2 / (1 - rho**2)),
    }


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("rho_bar", [0.0, 0.1, 0.5, 0.7, 0.9, 0.99])
def test_constants_are_the_papers_with_phi_at_above_the_radius_and_phi_below(name, rho_bar):
    problem = PROBLEMS[name]()
    # At ρ(A) the supremum is a limit over phases: the package's own Φ, checked in test_powers.
    above = rho_bar > RADIUS[name]
    Phi = largest_ratio(problem.system.A, rho_bar) if above else problem.system.phi
    bounds = dlb.Bounds.of(problem, rho_bar)
    for field, expected in by_hand(problem, rho_bar, Phi).items():
        assert getattr(bounds, field) == pytest.approx(expected, rel=1e-9), field


@pytest.mark.parametrize("name", PROBLEMS)
def test_rho_bar_is_the_radius_by_default(name):
    problem = PROBLEMS[name]()
    bounds = dlb.Bounds.of(problem)
    assert bounds.rho == pytest.approx(RADIUS[name], abs=1e-5)
    assert bounds.Phi == problem.system.phi


def test_real_world_phi_bar():
    problem = dlb.problems.real_world()
    assert dlb.Bounds.of(problem).Phi == pytest.approx(2.78, abs=5e-3)
    assert dlb.Bounds.of(problem, 0.9).Phi == pytest.approx(1.08, abs=5e-3)
    assert dlb.Bounds.of(problem, 0.3).Phi == pytest.approx(2.78, abs=5e-3)


@pytest.mark.parametrize("offset", [-1e-12, 0.0, 1e-12])
def test_rounding_of_the_radius_decides_nothing(offset):
    problem = dlb.problems.real_world()
    Phi = dlb.Bounds.of(problem, problem.system.rho * (1 + offset)).Phi
    assert Phi == pytest.approx(problem.system.phi, rel=1e-2)


def test_many_rates_give_arrays():
    problem, rates = dlb.problems.real_world(), [0.3, 0.7, 0.9]
    bounds = dlb.Bounds.of(problem, rates)
    one_by_one = [dlb.Bounds.of(problem, rate) for rate in rates]
    for field in ("Phi", "rho", "X", "c1", "c2", "noise_variance"):
        np.testing.assert_allclose(getattr(bounds, field), [getattr(b, field) for b in one_by_one])
    assert isinstance(one_by_one[0].Phi, float)
    assert dlb.Bounds.of(problem, np.full((2, 3), 0.7)).X.shape == (2, 3)


def test_c2_bounds_h():
    for make in PROBLEMS.values():
        problem = make()
        assert np.linalg.norm(problem.h) <= dlb.Bounds.of(problem).c2


def test_initial_state_enters_x():
    s = dlb.problems.real_world().system
    moved = dlb.System(s.A, s.B, s.omega, s.theta, 0.01, x1=[3.0, 0.0, 4.0])
    problem = dlb.Problem(moved, dlb.problems.real_world().actions)
    Phi = largest_ratio(s.A, 0.8)
    bounds = dlb.Bounds.of(problem, 0.8)
    expected = by_hand(problem, 0.8, Phi, x1=5.0)
    for name in ("X", "c1"):
        assert getattr(bounds, name) == pytest.approx(expected[name], rel=1e-9)


@pytest.mark.parametrize(
    ("noise", "sigma"),
    [
        ({"sigma": 0.3}, 0.3),
        ({"state_noise": [0.1, 0.5], "reward_noise": 0.2}, 0.5),
        ({"state_noise": [0.1, 0.2], "reward_noise": 0.7}, 0.7),
        ({"state_noise": [[2.0, 1.0], [1.0, 2.0]]}, np.sqrt(3.0)),
        ({}, 0.0),
    ],
)
def test_sigma_is_the_largest_deviation_in_any_direction(noise, sigma):
    system = dlb.System([[0.5, 0], [0, 0.1]], np.eye(2), [1, 1], [0, 0], **noise)
    bounds = dlb.Bounds.of(dlb.Problem(system, dlb.actions.simplex(2)))
    assert bounds.sigma == pytest.approx(sigma)


def test_replace_changes_the_named_fields_only():
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    other = bounds.replace(X=2.0, U=1.0)
    assert (other.X, other.U) == (2.0, 1.0)
    assert (other.B, other.Phi, other.rho) == (bounds.B, bounds.Phi, bounds.rho)
    assert bounds.X != 2.0
    with pytest.raises(ValueError, match=r"^Bounds has no field 'Y'; its fields are Theta, Omega"):
        bounds.replace(Y=1.0)


@pytest.mark.parametrize("rho_bar", [-0.1, 1.0, 2.0, [0.5, 1.0]])
def test_rates_outside_the_unit_interval_are_rejected(rho_bar):
    with pytest.raises(
        ValueError, match=r"^rho_bar must satisfy 0 <= rho_bar < 1; got (-0.1|1|2)$"
    ):
        dlb.Bounds.of(dlb.problems.synthetic(), rho_bar)


@pytest.mark.parametrize(
    "rho_bar",
    [
        "high",
        np.nan,
        [0.5, None],
        [[0.1], [0.2, 0.3]],
    ],
)
def test_rates_that_are_not_numbers_are_rejected(rho_bar):
    with pytest.raises(ValueError, match=r"^rho_bar must"):
        dlb.Bounds.of(dlb.problems.synthetic(), rho_bar)


@pytest.mark.parametrize(
    ("A", "rejected", "accepted"),
    [
        ([[0.0, 3.0], [0.0, 0.0]], [None, 0.0], 0.5),  # a delay
        ([[0.5, 3.0], [0.0, 0.5]], [None, 0.5, 0.3], 0.6),  # defective at its radius
    ],
)
def test_powers_without_a_bound_are_rejected_with_advice(A, rejected, accepted):
    problem = dlb.Problem(dlb.System(A, np.eye(2), [1, 1], [0, 0]), dlb.actions.simplex(2))
    for rho_bar in rejected:
        with pytest.raises(ValueError, match=rf"infinite.*pass a rho_bar above {A[0][0]:g} to"):
            dlb.Bounds.of(problem, rho_bar)
    expected = largest_ratio(np.array(A), accepted)
    assert dlb.Bounds.of(problem, accepted).Phi == pytest.approx(expected, rel=1e-9)


def test_zero_dynamics_at_rate_zero_are_fine():
    problem = dlb.Problem(dlb.System([[0.0]], [[1, 1]], [1], [0, 0]), dlb.actions.simplex(2))
    assert (dlb.Bounds.of(problem).Phi, dlb.Bounds.of(problem).rho) == (1.0, 0.0)


def test_bounds_trace_in_the_rate():
    problem = dlb.problems.real_world()
    names = ("Phi", "rho", "X", "sigma", "U", "c1", "c2", "noise_variance")

    def numbers(rate):
        bounds = dlb.Bounds.of(problem, rate)
        return {name: getattr(bounds, name) for name in names}

    with jax.enable_x64(True):
        traced = jax.jit(numbers)(0.8)
    for name, expected in numbers(0.8).items():
        assert float(traced[name]) == pytest.approx(expected, rel=1e-9), name


def test_bounds_traced_below_the_radius_use_phi():
    problem = dlb.problems.real_world()
    with jax.enable_x64(True):
        traced = jax.jit(lambda rate: dlb.Bounds.of(problem, rate).Phi)(0.3)
    assert float(traced) == pytest.approx(dlb.Bounds.of(problem, 0.3).Phi)


def test_bounds_are_a_pytree():
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    doubled = jax.tree.map(lambda leaf: 2 * leaf, bounds)
    assert (doubled.X, doubled.rho) == (2 * bounds.X, 2 * bounds.rho)
    assert len(jax.tree.leaves(bounds)) == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": -1.0}, r"^X must be >= 0; got -1"),
        ({"Theta": np.nan}, r"^Theta must be finite; got nan"),
        ({"U": "big"}, r"^U must hold real numbers .*'big'"),
        ({"Phi": [1.0, 2.0]}, r"^Phi must have shape \(\) \(a single number\); got shape \(2,\)"),
        ({"rho": 1.0}, r"^rho \(ρ̄\) must be below 1; got 1"),
    ],
)
def test_check_names_the_wrong_field(change, message):
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    assert check(bounds) is bounds
    with pytest.raises(ValueError, match=message):
        check(bounds.replace(**change))


def test_check_rejects_other_types():
    with pytest.raises(ValueError, match=r"^bounds must be a dlbjax\.Bounds; got dict"):
        check({"X": 1.0})


def test_an_empty_list_of_rates_is_rejected():
    with pytest.raises(ValueError, match=r"^rho_bar must hold at least one rate; got shape"):
        dlb.Bounds.of(dlb.problems.synthetic(), [])


def test_bounds_that_overflow_are_rejected():
    system = dlb.System(A=[[0.5]], B=[[1.0]], omega=[1e200], theta=[1.0])
    with pytest.raises(ValueError, match=r"^Omega of the tightest bounds must be finite; got inf"):
        dlb.Bounds.of(dlb.Problem(system, dlb.actions.hypercube(1)))


def test_repr_is_rounded_and_survives_tracing():
    bounds = dlb.Bounds.of(dlb.problems.synthetic())
    assert repr(bounds).startswith(
        "Bounds(Theta=0.5099, Omega=1.005, B=0.45, U=1.118, X=0.6289, Phi=1"
    )
    assert "rho=[0.5, 0.7]" in repr(bounds.replace(rho=np.array([0.5, 0.7])))
    assert jax.eval_shape(lambda b: [repr(b), b.X][1], bounds).shape == ()
