"""Action for action against traces of the authors' released program (see golden/README.md)."""

from pathlib import Path

import numpy as np
import pytest

import dlbjax as dlb
from tests.oracles import epoch_lengths, radius

T = 20_000
LAMBDA = {"lam1": 1.0, "lamlogT": np.log(T)}
SIGMA = {"sigma001": 0.01, "sigma01": 0.1}


@pytest.fixture(scope="module")
def traces():
    with np.load(Path(__file__).parent / "golden" / "reference_traces.npz") as file:
        return dict(file)


def set_up(traces, name):
    """The problem as the authors ran it, the bounds of their agents, and λ."""
    _, sigma, _, lam = name.split("_")
    sigma = SIGMA[sigma]
    problem = dlb.Problem(
        dlb.problems.synthetic(sigma).system, dlb.actions.finite(traces["vertices"])
    )
    U = np.linalg.norm(traces["vertices"], axis=1).max()
    bounds = dlb.Bounds(
        Theta=np.hypot(0.5, 0.1), Omega=np.hypot(1, 0.1), B=0.45, U=U, X=U / 0.8, Phi=1.0, rho=0.2,
        sigma=sigma,
    )  # fmt: skip
    r = np.random.RandomState(1)
    state = r.normal(0, sigma, (2, T, 3))
    noise = dlb.Noise(state, r.normal(0, sigma, (2, T, 3)).sum(axis=-1))
    return problem, bounds, noise, LAMBDA[lam]


def assert_replays(problem, make, noise, trace):
    """`make(first)` is the policy; each run has its own first action, so its own policy."""
    for run in range(2):
        alone = dlb.Noise(noise.state[run : run + 1], noise.reward[run : run + 1])
        result = dlb.simulate(problem, make(trace[run, 0]), T, noise=alone, record="actions")
        np.testing.assert_array_equal(result.actions[0], trace[run])


@pytest.mark.parametrize(
    "name", ["synthetic_sigma001_dynlinucb_lam1", "synthetic_sigma01_dynlinucb_lamlogT"]
)
def test_dynlin_ucb_plays_what_the_authors_program_played(traces, name):
    problem, bounds, noise, lam = set_up(traces, name)
    epochs = [2, *epoch_lengths(0.2, T)[1:]]

    def make(first):
        return dlb.dynlin_ucb(bounds, lam, 1 / T, epochs=epochs, first=int(first))

    assert_replays(problem, make, noise, traces[name])


def test_lin_ucb_plays_what_the_authors_program_played(traces):
    name = "synthetic_sigma01_linucb_lamlogT"
    problem, bounds, noise, lam = set_up(traces, name)
    beta = [radius(vars(bounds), lam, 1 / T, 3, s, bias=False) for s in range(T)]

    def make(first):
        return dlb.dynlin_ucb(bounds, lam, epochs=1, beta=beta, first=int(first))

    assert_replays(problem, make, noise, traces[name])


def test_every_trace_is_replayed(traces):
    assert sorted(traces) == [
        "synthetic_sigma001_dynlinucb_lam1",
        "synthetic_sigma01_dynlinucb_lamlogT",
        "synthetic_sigma01_linucb_lamlogT",
        "vertices",
    ]
