import jax
import numpy as np
import pytest

from dlbjax import Bounds, problems
from dlbjax.model.powers import power_bound, spectral_radius


def stable(seed, n, radius=0.9):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A * (radius / np.abs(np.linalg.eigvals(A)).max())


def in_random_basis(J, seed=0):
    basis = np.random.default_rng(seed).standard_normal(np.shape(J))
    return basis @ J @ np.linalg.inv(basis)


def rotation(radius, angle):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def blocks(*parts):
    n = sum(len(part) for part in parts)
    out, at = np.zeros((n, n)), 0
    for part in parts:
        out[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return out


def brute_force(A, rho_bar, powers=3000):
    X, P, largest = np.asarray(A) / rho_bar, np.eye(len(A)), 1.0
    for _ in range(powers):
        P = P @ X
        largest = max(largest, np.sqrt(np.linalg.eigvalsh(P.T @ P).max()))
    return largest


@pytest.mark.parametrize(
    ("A", "rho"),
    [
        ([[0.3]], 0.3),
        ([[-0.7, 0], [0, 0.2]], 0.7),
        (rotation(0.6, 1.0), 0.6),
        ([[0.0, 5.0], [0.0, 0.0]], 0.0),
        (in_random_basis(np.diag([0.1, -0.8, 0.5])), 0.8),
    ],
)
def test_spectral_radius_is_the_largest_modulus(A, rho):
    assert spectral_radius(np.array(A)) == pytest.approx(rho, abs=1e-12)


@pytest.mark.parametrize("n", range(1, 7))
def test_phi_of_a_symmetric_matrix_is_one(n):
    A = stable(n, n)
    A = 0.3 * (A + A.T)
    assert power_bound(A, spectral_radius(A)) == pytest.approx(1.0, abs=1e-9)


def test_phi_of_zero_is_one():
    assert power_bound(np.zeros((3, 3)), 0.0) == 1.0
    assert power_bound(np.zeros((3, 3)), 0.5) == 1.0


JORDAN_2 = [[0.5, 1.0], [0.0, 0.5]]
JORDAN_3 = [[-0.6, 1.0, 0.0], [0.0, -0.6, 1.0], [0.0, 0.0, -0.6]]
ROTATING_JORDAN = blocks(rotation(0.7, 1.0), rotation(0.7, 1.0)) + np.eye(4, k=2)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "J",
    [
        JORDAN_2,
        JORDAN_3,
        ROTATING_JORDAN,
        blocks(JORDAN_2, [[0.3]]),
        np.eye(2, k=1),
        np.eye(3, k=1),
    ],
    ids=["2", "3", "rotating", "with a smaller eigenvalue", "nilpotent 2", "nilpotent 3"],
)
def test_phi_of_a_matrix_defective_at_its_radius_is_infinite(J, seed):
    for A in (np.array(J), in_random_basis(J, seed)):
        assert power_bound(A, spectral_radius(A)) == np.inf


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_delay_has_closed_form_bound_above_its_radius(n):
    A = 2.0 * np.eye(n, k=1)  # ‖A^τ‖ = 2^τ below τ = n, then 0
    assert power_bound(A, 0.5) == pytest.approx(4.0 ** (n - 1))
    assert power_bound(A, 4.0) == 1.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("radius", [0.6, 0.9])
def test_phi_of_a_matrix_defective_below_its_radius_is_finite(seed, radius):
    A = in_random_basis(blocks(JORDAN_2, [[radius]]), seed)
    Phi = power_bound(A, radius)
    assert 1.0 < Phi < np.inf
    assert Phi == pytest.approx(brute_force(A, radius), rel=5e-3)
    assert power_bound(A, radius + 0.01) == pytest.approx(brute_force(A, radius + 0.01), rel=1e-9)


@pytest.mark.parametrize("angle", [0.1, 1.0, np.sqrt(2), 3.0])
@pytest.mark.parametrize("skew", [1.5, 4.0, 30.0])
def test_phi_of_a_skewed_rotation_is_the_supremum_over_phases(angle, skew):
    # S R(φ) S⁻¹ with S = diag(s, 1): the largest norm over all phases is s, at φ = π/2.
    S = np.diag([skew, 1.0])
    A = S @ rotation(0.8, angle) @ np.linalg.inv(S)
    assert power_bound(A, 0.8) == pytest.approx(skew, rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("above", [0.0, 1e-9, 1e-7, 1e-4])
def test_phi_of_a_rotating_matrix_is_no_smaller_than_any_power(seed, above):
    """The search leaves out most powers beyond the 1024th, and the largest may be among them."""
    rng = np.random.default_rng(seed)
    J = blocks(rotation(0.9, rng.uniform(0.2, 2.9)), [[0.5]])
    A = in_random_basis(J, seed)
    rate = spectral_radius(A) * (1 + above)
    powers = (A / rate)[None]
    while len(powers) < 2**15:
        powers = np.concatenate([powers, powers @ powers[-1]])
    largest = np.linalg.norm(powers, 2, axis=(1, 2)).max()
    assert largest * (1 - 1e-12) <= power_bound(A, rate) <= largest * (1 + 1e-5)


@pytest.mark.parametrize("pairs", [1, 2, 3])
@pytest.mark.parametrize("real", [(), (0.8,), (-0.8,)], ids=["", "+", "-"])
def test_phi_is_bounded_over_all_phases(pairs, real):
    rng = np.random.default_rng(pairs)
    angles = rng.uniform(0.1, 3.0, pairs)
    basis = rng.standard_normal((2 * pairs + len(real),) * 2)
    inverse = np.linalg.inv(basis)
    found = power_bound(
        basis @ blocks(*(rotation(0.8, a) for a in angles), *([[r]] for r in real)) @ inverse, 0.8
    )
    turned = [
        blocks(*(rotation(1.0, a) for a in phases), *([[np.sign(r) ** k]] for r in real))
        for k in (0, 1) for phases in rng.uniform(0, 2 * np.pi, (20_000, pairs))
    ]  # fmt: skip
    largest = np.linalg.norm(basis @ np.array(turned) @ inverse, 2, axis=(1, 2)).max()
    assert largest <= found <= largest * {1: 1 + 1e-5, 2: 1.02, 3: 2.0}[pairs]


def test_phi_of_a_periodic_skewed_rotation_sees_its_own_phases_only():
    S = np.diag([4.0, 1.0])
    A = S @ rotation(0.8, 2 * np.pi / 3) @ np.linalg.inv(S)
    expected = np.linalg.norm(S @ rotation(1.0, 2 * np.pi / 3) @ np.linalg.inv(S), 2)
    assert power_bound(A, 0.8) == pytest.approx(expected, rel=1e-9)
    assert expected < 3.6
    A = in_random_basis(blocks(rotation(0.8, 2 * np.pi / 3), [[0.3]]))
    assert power_bound(A, 0.8) == pytest.approx(brute_force(A, 0.8, 600), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_phi_of_two_skewed_rotations_is_the_supremum_over_phases(seed):
    basis = np.random.default_rng(seed).standard_normal((4, 4))
    phases = np.linspace(0, 2 * np.pi, 129)[:-1]
    every = [
        basis @ blocks(rotation(1.0, a), rotation(1.0, b)) @ np.linalg.inv(basis)
        for a in phases
        for b in phases
    ]
    expected = np.linalg.norm(every, 2, axis=(1, 2)).max()
    A = basis @ blocks(rotation(0.9, 1.0), rotation(0.9, np.sqrt(3))) @ np.linalg.inv(basis)
    assert power_bound(A, 0.9) == pytest.approx(expected, rel=5e-3)


def test_late_maxima_are_found():
    # Two nearly equal eigenvalues in a bad basis: the norm peaks after thousands of rounds.
    A = np.array([[0.999, 1.0], [0.0, 0.9992]])
    expected = max(
        np.linalg.norm([[p, (q - p) / 0.0002], [0.0, q]], 2)
        for tau in range(0, 40000)
        for p, q in [((0.999 / 0.9993) ** tau, (0.9992 / 0.9993) ** tau)]
    )
    assert power_bound(A, 0.9993) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("seed", range(4))
def test_bound_equals_brute_force_at_and_above_the_radius(n, seed):
    A = stable(10 * n + seed, n)
    assert power_bound(A, 0.95) == pytest.approx(brute_force(A, 0.95), rel=1e-9)
    rho = spectral_radius(A)
    assert power_bound(A, rho) == pytest.approx(brute_force(A, rho), rel=5e-3)


@pytest.mark.parametrize(
    "A",
    [stable(32, 3), in_random_basis(np.diag([0.9, 0.5, 0.1]), 3)],
    ids=["attained early", "attained in the limit"],
)
def test_phi_is_accurate_where_one_real_eigenvalue_dominates(A):
    # (A/λ)^τ tends to the spectral projector: nothing new after a few hundred powers.
    assert power_bound(A, spectral_radius(A)) == pytest.approx(
        brute_force(A, spectral_radius(A), 500), rel=1e-6
    )


def test_bound_is_infinite_below_the_radius():
    assert power_bound(np.diag([0.5, 0.1]), 0.49) == np.inf


@pytest.mark.parametrize("seed", range(4))
def test_bound_decreases_in_rho_bar_and_never_below_one(seed):
    A = stable(seed, 4, radius=0.5)
    bounds = [power_bound(A, rate) for rate in np.linspace(0.5 + 1e-9, 0.99, 30)]
    assert np.all(np.diff(bounds) <= 1e-12)
    assert bounds[0] > bounds[-1] >= 1.0
    assert power_bound(A, 1e3) == 1.0


@pytest.mark.parametrize("tiny", [1e-8, 1e-150, 1e-300, 1e-307])
def test_tiny_matrices_neither_under_nor_overflow(tiny):
    A = stable(3, 3)
    expected = power_bound(A, 0.9)
    assert power_bound(A * tiny, 0.9 * tiny) == pytest.approx(expected, rel=1e-6)
    assert power_bound(A, tiny) == np.inf
    assert power_bound(A, 1e-310) == np.inf


def test_real_world_constants():
    system = problems.real_world().system
    assert system.rho == pytest.approx(0.667, abs=5e-4)
    assert system.phi == pytest.approx(2.78, abs=5e-3)
    assert system.phi_at(0.9) == pytest.approx(1.08, abs=5e-3)
    assert system.phi_at(system.rho) == system.phi
    assert system.phi_at(0.6) == np.inf


def test_tracing_gives_the_same_numbers():
    A = stable(1, 3, radius=0.7)
    rates = np.array([0.72, 0.8, 0.95, 50.0])
    with jax.enable_x64(True):
        assert float(jax.jit(spectral_radius)(A)) == pytest.approx(0.7)
        np.testing.assert_allclose(
            jax.jit(jax.vmap(lambda rate: power_bound(A, rate)))(rates),
            [power_bound(A, rate) for rate in rates],
        )


@pytest.mark.parametrize(
    ("A", "rate", "expected"),
    [
        (np.diag([0.5, 0.1]), 0.2, np.inf),
        (np.zeros((2, 2)), 0.0, 1.0),
        (np.eye(2, k=1), 0.0, np.inf),
    ],
    ids=["below the radius", "zero", "nilpotent"],
)
def test_tracing_gives_the_same_limits(A, rate, expected):
    with jax.enable_x64(True):
        assert float(jax.jit(power_bound)(A, rate)) == expected


def test_tracing_accounts_for_the_phases_of_a_complex_pair():
    # Of nearly a third of a turn, the powers evaluated come no closer than 3e-5 to the supremum.
    A = in_random_basis(blocks(rotation(0.8, 2 * np.pi / 3 + 1e-7), [[0.3]]), 4)
    rho = spectral_radius(A)
    with jax.enable_x64(True):
        both = jax.jit(
            jax.value_and_grad(lambda A, factor: power_bound(A, factor * spectral_radius(A)))
        )
        traced, _ = both(A, 1.0)
        _, slope = both(A, 1.01)
    assert float(traced) == pytest.approx(power_bound(A, rho), rel=1e-6)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("transform", [jax.jit, jax.grad])
def test_single_precision_is_rejected_under_a_transformation(transform):
    """Where it was silently wrong: Φ of the real-world system came out as 248 instead of 2.78."""
    A = np.array([[0.3, -0.5], [0.5, 0.3]])
    with jax.enable_x64(False), pytest.raises(ValueError, match="enable_x64"):
        transform(lambda A: power_bound(A, spectral_radius(A)))(jax.numpy.asarray(A))


def test_bounds_are_rejected_in_single_precision_under_vmap():
    problem = problems.real_world()
    with jax.enable_x64(False), pytest.raises(ValueError, match="enable_x64"):
        jax.vmap(lambda rate: Bounds.of(problem, rate).X)(jax.numpy.array([0.7, 0.8]))
    with jax.enable_x64(True):
        found = jax.vmap(lambda rate: Bounds.of(problem, rate).X)(np.array([0.7, 0.8]))
    np.testing.assert_allclose(found, Bounds.of(problem, [0.7, 0.8]).X, rtol=1e-9)
