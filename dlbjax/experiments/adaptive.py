"""Beyond the paper: `dynlin_ucb_adaptive`, which is given nothing, beside policies that are.

On the paper's problems, on those that AR-UCB and LARL were made for, and on the random family of
`experiments.family`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from dlbjax.engine.simulate import simulate
from dlbjax.experiments.family import family, traits
from dlbjax.experiments.tightness import enlarged
from dlbjax.model.actions import finite
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.model.problems import autoregressive, real_world, synthetic
from dlbjax.model.system import System
from dlbjax.policies import (
    ar_ucb,
    dynlin_ucb,
    dynlin_ucb_adaptive,
    dynlin_ucb_tight,
    explore_then_commit,
    larl,
    thompson_sampling,
)  # fmt: skip
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.policies.dynlin_ucb_adaptive import FACTOR, FIRST_PHASE, GROWTH, epoch_lengths
from dlbjax.results.result import Result, Results
from dlbjax.results.selection import concat

OURS, TIGHT, PAPER = "DynLin-UCB adaptive", "DynLin-UCB tight", "DynLin-UCB"
# What each must be given, beyond the actions.
GIVEN = {
    OURS: "nothing",
    TIGHT: "ρ̄, σ, Θ, Ω, B, Φ̄, X, T",
    f"{TIGHT}, bounds × 2": "the same, each twice as large",
    PAPER: "ρ̄, σ, Θ, Ω, B, Φ̄, X, T",
    "Thompson sampling": "ρ̄, σ, Ω, Φ̄",
    "Explore T^⅔, commit": "T, how many lags",
    "Explore 500, commit": "how long, how many lags",
    "AR-UCB": "order, σ, bound on rewards, T",
    "LARL": "how many lags",
}
RATES, COEFFICIENTS = (0.5, 0.45, 0.3, 0.1), (0.4, 0.2)  # of the autoregression


def latent_autoregressive() -> Problem:
    """The vertices' rewards RATES, all moved by one autoregression that no action moves."""
    n, d = len(COEFFICIENTS), len(RATES)
    A = np.vstack([COEFFICIENTS, np.eye(n - 1, n)])
    newest = np.eye(n)[0]
    system = System(A, np.zeros((n, d)), newest, RATES, state_noise=0.1 * newest, reward_noise=0.1)
    return Problem(system, finite(np.eye(d)))


PROBLEMS = {
    "synthetic, σ = 0.01": lambda: synthetic(0.01),
    "real-world, σ = 0.01": lambda: real_world(0.01),
    "synthetic, σ = 0.1": lambda: synthetic(0.1),
    "autoregressive, σ = 0.1": lambda: autoregressive(RATES, COEFFICIENTS, 0.1),
    "latent autoregressive, σ = 0.1": latent_autoregressive,
}
# Policies that run on the problem they were made for only.
MADE_FOR = {
    "AR-UCB": "autoregressive, σ = 0.1",
    "LARL": "latent autoregressive, σ = 0.1",
}
BASELINE = 50.0
# A gap counts as resolvable where it exceeds this many standard errors of a mean over the horizon, times
# √log T, and twice what transients add at the length of epochs in the oldest data that are still in use.
CLEAR = 10.0


def on_problems(horizon: int = 1_000_000, seeds: int = 50, **options: Any) -> Results:
    """All policies on the paper's problems and on two autoregressions, as "policy: problem"."""
    found = {}
    for name, make in PROBLEMS.items():
        problem = make()
        policies = _policies(problem)
        sigma = problem.system.state_noise[0, 0] ** 0.5
        own = {"AR-UCB": ar_ucb(len(COEFFICIENTS), max(RATES), sigma), "LARL": larl(1)}
        policies |= {policy: own[policy] for policy in own if MADE_FOR[policy] == name}
        results = simulate(problem, policies, horizon, seeds, **options)
        found.update({f"{policy}: {name}": result for policy, result in results.items()})
    return Results(found)


def on_family(horizon: int = 100_000, seeds: int = 16, **options: Any) -> Results:
    """All policies on every problem of the family, an axis "system"; the last ones have a baseline.

    Args:
      horizon: number of rounds.
      seeds: runs on each problem; with 16 there are 200 problems and 20 with a baseline, with fewer fewer.
      **options: passed to `simulate`.
    """
    rounds = np.unique(np.linspace(0, horizon, 11)[1:].round().astype(int)).tolist()
    parts = {}
    for i, problem in enumerate(tqdm(members(seeds), desc="random systems", delay=2, disable=None)):
        parts[i] = simulate(
            problem, _policies(problem), horizon, seeds, rounds=rounds, progress=False, **options
        )
    return Results({name: _compact(result) for name, result in concat(parts, "system").items()})


def members(seeds: int) -> list[Problem]:
    """The problems of `on_family`."""
    return [*family(plain(seeds)), *family(-(-5 * seeds // 4), seed=1, baseline=BASELINE)]


def plain(seeds: int) -> int:
    """How many problems of `on_family` have no baseline."""
    return 25 * seeds // 2


def resolvable(problem: Problem, horizon: int) -> bool:
    """Whether the best vertex exceeds the second by what a horizon allows to see; see `CLEAR`."""
    found = traits(problem, oldest_length(problem, horizon))
    noise = CLEAR * found.noise * np.sqrt(np.log(horizon) / horizon)
    return found.gap > noise + 2 * found.transient


def oldest_length(problem: Problem, horizon: int) -> int:
    """Rounds of the epochs at the beginning of the data that the policy still uses at the horizon."""
    table = epoch_lengths(GROWTH, horizon)
    lengths = np.repeat(table.lengths, table.counts)
    vertices = problem.actions.vertices
    end, before = FIRST_PHASE * (1 + int(np.linalg.matrix_rank(vertices - vertices[0]))), 0
    while FACTOR * end < len(lengths):
        end, before = int(FACTOR * end), end
    return int(lengths[before])


def still_linear(result: Result, problems: Sequence[Problem]) -> np.ndarray:
    """(systems, seeds) Which runs lose nearly the smallest gap in every round of the last tenth."""
    gaps = np.array([traits(problem, 0).gap for problem in problems])[:, None]
    last, before = result.rounds[-1], result.rounds[-2]
    lost = (result.offline_regret[..., -1] - result.offline_regret[..., -2]) / (last - before)
    return lost > 0.9 * gaps


def _policies(problem: Problem) -> dict[str, Policy | PolicyGrid]:
    bounds = Bounds.of(problem)
    return {
        OURS: dynlin_ucb_adaptive(),
        TIGHT: dynlin_ucb_tight(bounds),
        f"{TIGHT}, bounds × 2": dynlin_ucb_tight(enlarged(bounds, 2.0)),
        PAPER: dynlin_ucb(bounds),
        "Thompson sampling": thompson_sampling(bounds),
        "Explore T^⅔, commit": explore_then_commit(),
        "Explore 500, commit": explore_then_commit(500),
    }


def _compact(result: Result) -> Result:
    """With the config of the computation only: the problems follow from the code."""
    parts = result.config["parts"]
    seconds = sum(part["execution"]["core seconds"] for part in parts)
    kept = {key: parts[0][key] for key in ("versions", "source", "dtype")}
    return replace(result, config=kept | {"execution": {"core seconds": seconds}})
