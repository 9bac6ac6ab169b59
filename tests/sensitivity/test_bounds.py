"""Gradients of the theory's bounds against differences of their formulas in plain NumPy."""

import jax
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax import theory
from dlbjax.model import powers
from tests.sensitivity.oracles import differences, world

D, ROUNDS, HORIZON = 3, 1000, 20
NAMES = ("Theta", "Omega", "B", "U", "X", "Phi", "rho", "sigma")


def package(p):
    bounds = dlb.Bounds(**{name: p[name] for name in NAMES})
    lam, delta = p["lam"], p["delta"]
    given = (bounds, lam, delta, D, ROUNDS)
    return {
        "radius": theory.confidence_radius(bounds, lam, delta, ROUNDS, p["V"]),
        "printed radius": theory.confidence_radius(
            bounds, lam, delta, ROUNDS, p["V"], printed=True
        ),
        "beta": theory.beta(*given),
        "offline": theory.offline_regret_bound(*given),
        "gap": theory.gap_regret_bound(*given, p["gap"]),
        "expected": theory.expected_regret_bound(*given),
        "difference": theory.regret_difference(bounds),
        "difference from x1": theory.regret_difference(bounds, p["x1"]),
        "constant gap": theory.constant_gap(bounds, HORIZON, p["x1"]),
        "lower": theory.lower_bound(D, p["rho"], ROUNDS),
    }


def by_hand(p):
    Theta, Omega, B, U, X, Phi, rho, sigma = (p[name] for name in NAMES)
    lam, delta, d, T = p["lam"], p["delta"], D, ROUNDS
    transient = Omega * Phi * (U * B / (1 - rho) + X)
    c2 = Theta + Omega * B * Phi / (1 - rho)
    variance = sigma**2 * (1 + Omega**2 * Phi**2 / (1 - rho**2))

    def radius(t, log_ratio, printed=False):
        steps, share = U / np.sqrt(lam) * np.log(np.e * (t + 1)), delta
        bias = transient * steps
        if not printed:
            share = delta / 2
            a, b = np.pi**2 / 6 - 1, 1.8750965086316874  # −2ζ'(2)
            tails = 2 * (a * np.log(2 * a / share) + b) / (1 - rho**2)
            bias = transient / rho * min(steps, np.pi / np.sqrt(6))
            bias = bias + Omega * Phi * sigma * np.sqrt(tails)
        noise = np.sqrt(2 * variance * (np.log(1 / share) + log_ratio / 2))
        return bias + c2 * np.sqrt(lam) + noise

    def largest(t):
        return d * np.log(1 + t * U**2 / (d * lam))

    V_ratio = np.log(np.linalg.det(p["V"]) / lam**d)
    width = max(radius(T - 1, largest(T - 1)), c2 * U)
    squares = 8 * width**2 * largest(T) * (1 + np.log(T) / np.log(1 / rho))
    offline = np.sqrt(T * squares)
    apart = Omega * Phi * (B * U / (1 - rho) ** 2 + X / (1 - rho))
    late = Omega * Phi * (1 - rho**HORIZON) / (HORIZON * (1 - rho))
    return {
        "radius": radius(T, V_ratio),
        "printed radius": radius(T, V_ratio, printed=True),
        "beta": radius(T, largest(T)),
        "offline": offline,
        "gap": squares / p["gap"],
        "expected": offline + delta * T * 2 * c2 * U + apart,
        "difference": apart,
        "difference from x1": Omega * Phi * (B * U / (1 - rho) ** 2 + p["x1"] / (1 - rho)),
        "constant gap": late * (B * U / (1 - rho) + p["x1"]),
        "lower": d * np.sqrt(T / (512 * np.e * (1 - rho))),
    }


def gradients(function, names):
    """One compiled program for the gradients of all of a dictionary's numbers."""

    def of_each(p):
        return {name: jax.grad(lambda q: function(q)[name])(p) for name in names}  # noqa: B023

    return jax.jit(of_each)


BOUNDS = (
    "radius", "printed radius", "beta", "offline", "gap", "expected", "difference",
    "difference from x1", "constant gap", "lower",
)  # fmt: skip
GRADIENTS = gradients(package, BOUNDS)


@pytest.mark.parametrize("seed", range(10))
def test_gradients_of_every_bound_equal_differences(seed):
    rng = np.random.default_rng(seed)
    p = dict(zip(NAMES, rng.uniform(0.3, 2.0, size=8), strict=True))
    root = rng.normal(size=(D, D))
    p |= {"rho": rng.uniform(0.2, 0.8), "lam": rng.uniform(0.5, 10), "delta": 0.05, "gap": 0.3}
    p |= {"x1": 0.7, "V": 3 * np.eye(D) + root @ root.T}
    with jax.enable_x64(True):
        exact = GRADIENTS({key: np.asarray(value) for key, value in p.items()})
    for (bound, by), numeric in differences(by_hand, p).items():
        np.testing.assert_allclose(
            exact[bound][by], numeric, rtol=1e-6, atol=1e-9 * max(1, np.abs(numeric).max()),
            err_msg=f"{bound} by {by}",
        )  # fmt: skip


def norm2(M):
    return np.sqrt(np.linalg.eigvalsh(M.T @ M).max())


def tightest(w, U):
    """The tightest bounds, with ‖A^τ‖ρ̄^{−τ} looked at for every τ < 60."""
    power, Phi = np.eye(len(w["A"])), 1.0
    for _ in range(60):
        power = power @ w["A"] / w["rho_bar"]
        Phi = max(Phi, norm2(power))
    B, rho = norm2(w["B"]), w["rho_bar"]
    return {
        "Theta": np.sqrt((w["theta"] ** 2).sum()),
        "Omega": np.sqrt((w["omega"] ** 2).sum()),
        "B": B,
        "U": U,
        "X": Phi * (np.sqrt((w["x1"] ** 2).sum()) + B * U / (1 - rho)),
        "Phi": Phi,
        "rho": rho,
        "sigma": max(w["reward_noise"], np.sqrt(norm2(w["state_noise"]))),
    }


BOUNDS_OF = ("Phi", "sigma", "expected")


@pytest.mark.slow
def test_gradients_through_bounds_of_a_problem(monkeypatch):
    """One compiled program for ten systems; in it fewer powers are looked at, which is enough."""
    monkeypatch.setattr(powers, "_DOUBLINGS", powers._DENSE.bit_length() - 1)
    actions = dlb.actions.budget(0.0, np.ones(3), 1.5)
    settings = {"lam": 2.0, "delta": 0.05, "gap": 0.3, "x1": 0.7, "V": 3 * np.eye(D)}

    def ours(w):
        system = dlb.System(**{key: w[key] for key in w if key != "rho_bar"})
        problem = dlb.Problem(system, actions)
        bounds = dlb.Bounds.of(problem, w["rho_bar"])
        expected = theory.expected_regret_bound(bounds, 2.0, 0.05, D, ROUNDS)
        return {"Phi": bounds.Phi, "sigma": bounds.sigma, "expected": expected}

    def theirs(w):
        bounds = tightest(w, np.sqrt(1.25))  # the norm of (1, ½, 0)
        return {name: (bounds | by_hand(bounds | settings))[name] for name in BOUNDS_OF}

    slopes = gradients(ours, BOUNDS_OF)
    attained = 0
    for seed in range(10):
        w, _ = world(seed)
        noise = np.diag([0.2, 0.3, 0.5]) + 0.01
        w |= {"state_noise": noise, "reward_noise": np.array(0.1), "rho_bar": np.array(0.85)}
        attained += tightest(w, 1.0)["Phi"] > 1.01
        with jax.enable_x64(True):
            exact = slopes(w)
        for (bound, by), numeric in differences(theirs, w).items():
            np.testing.assert_allclose(
                exact[bound][by], numeric, rtol=1e-6, atol=1e-8 * max(1, np.abs(numeric).max()),
                err_msg=f"{bound} by {by}, seed {seed}",
            )  # fmt: skip
    assert attained >= 5  # elsewhere Φ̄ = 1, which is flat


def test_a_common_sigma_counts_once():
    """It is the largest deviation of the state's and of the reward's noise at the same time."""
    problem = dlb.problems.real_world()
    s = problem.system

    def bound(sigma):
        system = dlb.System(s.A, s.B, s.omega, s.theta, sigma)
        return theory.beta(dlb.Bounds.of(dlb.Problem(system, problem.actions)), 1.0, 0.1, 3, 100)

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(bound))(0.3)
    np.testing.assert_allclose(slope, (bound(0.3 + 1e-4) - bound(0.3 - 1e-4)) / 2e-4, rtol=1e-8)


def test_without_noise_the_radius_has_derivatives():
    """σ̄ = 0 is inside a root, but where σ enters the radius is linear."""
    values = {"Theta": 0.3, "Omega": 1.5, "B": 0.7, "U": 1.2, "X": 2.0, "Phi": 1.4, "rho": 0.6}
    p = values | {
        "sigma": 0.0,
        "lam": 2.0,
        "delta": 0.05,
        "gap": 0.3,
        "x1": 0.7,
        "V": 3 * np.eye(D),
    }
    with jax.enable_x64(True):
        exact = GRADIENTS({key: np.asarray(value) for key, value in p.items()})
    noisy = by_hand(p | {"sigma": 1e-3})["radius"] - by_hand(p)["radius"]
    np.testing.assert_allclose(exact["radius"]["sigma"], noisy / 1e-3, rtol=1e-9)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.device_get(jax.tree.leaves(exact)))
