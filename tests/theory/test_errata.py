"""What is wrong in the paper, shown in numbers; notebooks/errata.md says which test shows what."""

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import epoch_lengths, random_stable


def epoch_ends(seed):
    """Recorded rewards at the ends of epochs, and all that the decompositions are made of."""
    rng = np.random.default_rng(seed)
    T, n = 60, 3
    system = dlb.System(
        A=random_stable(rng, n, 0.8), B=rng.normal(size=(n, 3)), omega=rng.normal(size=n),
        theta=rng.normal(size=3), sigma=0.5, x1=rng.normal(size=n),
    )  # fmt: skip
    problem = dlb.Problem(system, dlb.actions.finite(rng.normal(size=(10, 3))))
    noise = dlb.Noise(rng.normal(size=(1, T, n)), rng.normal(size=(1, T)))
    run = dlb.simulate(
        problem, dlb.dynlin_ucb(dlb.Bounds.of(problem)), T, noise=noise,
        record=("actions", "rewards", "states"),
    )  # fmt: skip
    played = problem.actions.vertices[run.actions[0]]
    z = [system.x1]  # the state without noise
    for u in played:
        z.append(system.A @ z[-1] + system.B @ u)
    last = -1
    for length in epoch_lengths(round(float(system.rho), 12), T):
        first, last = last + 1, last + length
        if last >= T:
            return
        yield system, length - 1, first, last, played, run, np.array(z), noise


@pytest.mark.parametrize("seed", range(5))
def test_the_reward_at_the_end_of_an_epoch_decomposes_as_derived(seed):
    """y = ⟨h,u⟩ + g + ν + ξ, each as notebooks/derivation.md defines it."""
    power = np.linalg.matrix_power
    for s, H, first, last, played, run, z, noise in epoch_ends(seed):
        u, x, eps = played[last], run.states[0], noise.state[0]
        g = s.omega @ power(s.A, H) @ (z[first] - s.steady_state(u))
        nu = s.omega @ power(s.A, H + 1) @ (x[first - 1] - z[first - 1]) if first else 0.0
        steps = range(1, H + 2 if first else H + 1)  # there is no noise before the first round
        xi = noise.reward[0, last] + sum(s.omega @ power(s.A, k - 1) @ eps[last - k] for k in steps)
        assert abs(s.h @ u + g + nu + xi - run.rewards[0, last]) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_the_printed_decomposition_does_not_hold(seed):
    """It takes the state from a round that still played the action before."""
    power, off = np.linalg.matrix_power, []
    for s, H, first, last, played, run, _, noise in epoch_ends(seed):
        if first:
            eps, steps = noise.state[0], range(1, H + 2)
            xi = noise.reward[0, last] + sum(
                s.omega @ power(s.A, k - 1) @ eps[last - k] for k in steps
            )
            settled = s.cumulative_markov(0, H + 1) @ played[last]
            carried = s.omega @ power(s.A, H + 1) @ run.states[0, first - 1]
            off.append(abs(settled + carried + xi - run.rewards[0, last]))
    assert max(off) > 0.1


def test_the_noise_of_an_epoch_is_not_centred_given_its_first_rewards():
    """Corr(ξ, y of the round before) where the proof has E[ξ | F] = 0; ±0.01 is ten deviations."""
    rng = np.random.default_rng(0)
    eps, eta = rng.normal(size=(3, 1_000_000)), rng.normal(size=(2, 1_000_000))
    before = eta[0] + eps[0]  # A = 0.9, ω = 1, u = 0: an epoch of two rounds after x = 0
    last = eta[1] + eps[1] + 0.9 * eps[0]
    assert abs(np.corrcoef(before, last)[0, 1] - 0.9 / np.sqrt(2 * 2.81)) < 0.01


def test_steady_rewards_contain_b():
    """The lemma's proof has ω(I − A)⁻¹u for the state's part of J(u)."""
    s = dlb.problems.synthetic().system
    u = np.array([1.0, 0.5, 0.0])
    x = np.zeros(3)
    for _ in range(100):
        x = s.A @ x + s.B @ u
    settled = s.omega @ x + s.theta @ u
    resolvent = s.omega @ np.linalg.inv(np.eye(3) - s.A)
    assert settled == pytest.approx(s.theta @ u + resolvent @ s.B @ u, abs=1e-12)
    assert abs(settled - (s.theta @ u + resolvent @ u)) > 0.5


def test_the_logarithm_of_d_lin_ucb():
    """10.3 with T = 10⁶ and γ → 1 at λ = log T, U² = 1.25, d = 3, and 24.1 with a factor t in it."""
    problem, T = dlb.problems.synthetic(), 10**6
    bounds = dlb.Bounds.of(problem)
    policy = dlb.d_lin_ucb(bounds, gamma=1 - 1e-12)
    epoch = dlb.Epoch(np.array([T]), np.array([T]), np.array([1]))
    width = policy.prepare(T, problem.actions.vertices).plan(epoch)[0] - bounds.c2 * np.sqrt(
        np.log(T)
    )
    logarithm = (width**2 / (2 * bounds.noise_variance) - np.log(T)) / (3 / 2)
    assert logarithm == pytest.approx(10.3, abs=0.05)
    assert logarithm + np.log(T) == pytest.approx(24.1, abs=0.05)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.99])
def test_the_constant_of_the_lower_bound_needs_its_condition_on_t(rho):
    """(1 − ε̃)² ≥ ½ from T = 1.46/(1−ρ) on, and not much before."""

    def kept(T):
        return (1 - 1 / np.sqrt(8 * T * (1 - rho))) ** 2

    assert kept(1.46 / (1 - rho)) >= 0.5 > kept(1.45 / (1 - rho))
