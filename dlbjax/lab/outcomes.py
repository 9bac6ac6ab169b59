"""What the views show, computed: regret, shares of vertices, one run, the system's numbers."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dlbjax.engine.settings import check_settings
from dlbjax.engine.simulate import make_entry, run_together
from dlbjax.lab.computation import Ticket
from dlbjax.lab.settings import InputError, Learner, Settings, State
from dlbjax.lab.sources import problem_of
from dlbjax.model.problem import Problem
from dlbjax.policies.base import make_schedule
from dlbjax.results.result import Result
from dlbjax.sensitivity import of as sensitivity_of

MOST_ACTIONS = 10**7  # that are recorded, of all runs, for the shares of the vertices
MOST_NUMBERS = 2 * 10**6  # that are recorded of one run
_MOST_ENTRIES = 1000  # of a system whose sensitivities are shown

Key = tuple[Settings, Learner, str]  # settings without their learners, one of them, what is kept


class Curve(NamedTuple):
    """Regret of a policy."""

    learner: Learner
    kept: bool  # for comparison
    result: Result

    @property
    def label(self) -> str:
        """As in the legend."""
        return self.learner.label + (" (kept)" if self.kept else "")


class Shares(NamedTuple):
    """How often each vertex is played, of all runs, between a reporting round and the one before."""

    learner: Learner
    rounds: np.ndarray  # (C,)
    shares: np.ndarray  # (K, C)
    runs: int


class Run(NamedTuple):
    """One run of a policy, round by round."""

    learner: Learner
    seed: int
    states: np.ndarray  # (T, n)
    shadow: np.ndarray  # (T, n) the state without its noise, under the same actions
    rewards: np.ndarray  # (T,)
    actions: np.ndarray  # (T,) vertices
    epochs: np.ndarray  # first rounds of the epochs, counted from 1


class Outcome(NamedTuple):
    """All that a picture needs."""

    state: State
    problem: Problem
    content: Any  # by the state's view: curves, Shares, Run, None, Sensitivity; None or [] without a policy
    simulated: int  # rounds of all runs, for this picture


class Computer:
    """Computes outcomes, and keeps what the last of them needed."""

    def __init__(self, given: Problem | None = None) -> None:
        self._given = given
        self._kept: dict[Key, Any] = {}

    def compute(self, state: State, ticket: Ticket) -> Outcome:
        """The outcome for a state of the page."""
        problem = problem_of(state.settings, self._given)
        content: Any = None
        if state.view == "regret":
            content = self._curves(state, ticket)
        elif state.view in ("vertices", "run") and state.settings.learners:
            learner = state.settings.learner(state.subject) or state.settings.learners[0]
            make = self._shares if state.view == "vertices" else self._run
            content = make(state, problem, learner, ticket)
        elif state.view == "sensitivity":
            n, d = problem.system.n, problem.system.d
            if n * (n + d) > _MOST_ENTRIES:
                raise InputError("", f"sensitivities are shown for up to {_MOST_ENTRIES} entries")
            content = sensitivity_of(problem)
        return Outcome(state, problem, content, ticket.done)

    def _curves(self, state: State, ticket: Ticket) -> list[Curve]:
        found: dict[Key, Any] = {}
        curves = []
        for settings in (state.settings, state.kept):
            if settings is None:
                continue
            keys = {each: (_alone(settings), each, "") for each in settings.learners}
            missing = [each for each, key in keys.items() if key not in self._kept]
            if missing:
                problem = problem_of(settings, self._given)
                results = _simulate(problem, settings, missing, ticket)
                self._kept |= {
                    keys[each]: result for each, result in zip(missing, results, strict=True)
                }
            found |= {key: self._kept[key] for key in keys.values()}
            kept = settings is state.kept
            curves += [Curve(each, kept, found[key]) for each, key in keys.items()]
        self._kept = found
        return curves

    def _shares(self, state: State, problem: Problem, learner: Learner, ticket: Ticket) -> Shares:
        settings = state.settings
        key = (_alone(settings), learner, "vertices")
        if key not in self._kept:
            runs = max(1, min(settings.runs, MOST_ACTIONS // settings.rounds))
            result = _simulate(problem, settings, [learner], ticket, ("actions",), np.arange(runs))[
                0
            ]
            assert result.actions is not None
            shares = _shares(result.actions, result.rounds, len(problem.actions))
            self._kept = {key: Shares(learner, result.rounds, shares, runs)}
        return self._kept[key]

    def _run(self, state: State, problem: Problem, learner: Learner, ticket: Ticket) -> Run:
        settings, system = state.settings, problem.system
        most = MOST_NUMBERS // (system.n + 2)
        if settings.rounds > most:
            raise InputError(
                "rounds",
                f"one run in detail can have up to {most:,} rounds here; choose fewer".replace(
                    ",", " "
                ),
            )
        key = (_alone(settings), learner, f"run {state.run}")
        if key not in self._kept:
            record = ("actions", "rewards", "states")
            result = _simulate(problem, settings, [learner], ticket, record, np.array([state.run]))[
                0
            ]
            assert result.actions is not None
            assert result.rewards is not None
            assert result.states is not None
            actions = result.actions[0]
            epochs = make_schedule(learner.make(problem), settings.rounds, problem.actions).epochs
            ends = np.cumsum(np.repeat(epochs.lengths, epochs.counts))
            self._kept = {
                key: Run(
                    learner, state.run, result.states[0], _shadow(problem, actions), result.rewards[0],
                    actions, np.r_[1, ends[ends < settings.rounds] + 1],
                )
            }  # fmt: skip
        return self._kept[key]


def _alone(settings: Settings) -> Settings:
    return replace(settings, learners=())


def _simulate(
    problem: Problem, settings: Settings, learners: list[Learner], ticket: Ticket,
    record: tuple[str, ...] = (), seeds: np.ndarray | None = None,
) -> list[Result]:  # fmt: skip
    """The same numbers as `dlbjax.simulate`, with ticks."""
    asked = check_settings(
        problem.system.n, settings.rounds, settings.runs if seeds is None else seeds, None, record, None,
        np.float64, None, None, None,
    )  # fmt: skip
    ticket.expect(settings.rounds * len(asked.seeds) * len(learners))
    entries = []
    for learner in learners:
        policy = learner.make(problem)
        try:
            entries.append(make_entry(problem, learner.label, policy, asked))
        except ValueError as error:
            raise InputError(learner.policy, str(error)) from None
        ticket.check()
    return run_together(entries, asked, ticket.tick, None, 0.0)


def _shares(actions: np.ndarray, rounds: np.ndarray, K: int) -> np.ndarray:
    """(K, C) of actions (runs, T); a row without any vertex, −1, counts for none."""
    cells = np.repeat(np.arange(len(rounds)), np.diff(np.r_[0, rounds])) * (K + 1) + 1
    size = len(rounds) * (K + 1)
    counts = np.sum([np.bincount(cells + played, minlength=size) for played in actions], axis=0)
    table = counts.reshape(len(rounds), K + 1)
    return (table / table.sum(axis=1, keepdims=True))[:, 1:].T


def _shadow(problem: Problem, actions: np.ndarray) -> np.ndarray:
    """(T, n) z_1 = x_1, z_{t+1} = A z_t + B u_t."""
    system = problem.system
    moved = problem.actions.vertices @ system.B.T
    found = np.empty((len(actions), system.n))
    z = np.array(system.x1)
    for t, action in enumerate(actions):
        found[t] = z
        z = system.A @ z + moved[action]
    return found
