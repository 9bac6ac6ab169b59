"""The plan of a call: policies that can advance together, and their tables, made on the host."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax.common.arrays import Array, short
from dlbjax.engine.noise import NoiseLaw, innovations_law, plain_law
from dlbjax.engine.segments import Segments, cut, expand, expand_rounds, round_by_round
from dlbjax.engine.settings import Settings
from dlbjax.engine.step import Gains, Maps, Moment, Tables
from dlbjax.model.problem import Problem
from dlbjax.model.system import System, settled
from dlbjax.policies.base import (
    Epoch,
    Policy,
    PolicyGrid,
    Schedule,
    check_policy,
    make_schedule,
    plan_epochs,
)  # fmt: skip

BLOCK = 256  # segments whose random numbers are drawn together


class Steps(NamedTuple):
    """Consecutive segments, BLOCK at a time: every leaf is (blocks, BLOCK, …)."""

    map: np.ndarray  # row of the maps
    gain: np.ndarray  # row of the gains
    moment: Moment
    number: np.ndarray | None = None  # of the segment, −1 where a place is left empty
    given: Array | None = None  # (blocks, BLOCK, m, runs) noise to replay


class Group(NamedTuple):
    """Policies of a grid that share their epochs and their program, and the tables of their pass."""

    policies: list[Policy]
    schedules: list[Schedule]
    places: list[int]  # where each of them stands in the grid
    segments: Segments  # as runs of equal ones
    single_rounds: bool  # whether a step is a round, to record or replay every one
    law: NoiseLaw
    lengths: np.ndarray  # of segments, one row of the maps each
    tables: Tables

    @property
    def arms(self) -> np.ndarray:
        """(K, d) the actions that the policies choose among."""
        return np.asarray(self.tables.arms)

    @property
    def size(self) -> int:
        """How many segments there are, the steps of the scan."""
        return int(self.segments.repeats.sum())

    def completed(self, segments: int) -> int:
        """Rounds of the first so many segments; −1 where there are not so many."""
        if not 0 <= segments <= self.size:
            return -1
        repeats = self.segments.repeats
        length = np.minimum(self.segments.length, 1) if self.single_rounds else self.segments.length
        return int(np.sum(length * np.clip(segments - np.cumsum(repeats) + repeats, 0, repeats)))

    def steps(self, first: int, blocks: int, waste: int, together: int = 1) -> tuple[Steps, int]:
        """Segments from `first` on, as many as fit into some blocks, and how many those are.

        Those that report nothing write the row `waste`. Where several are taken together, one that reports
        is the last of its turn: the places after it are left empty.
        """
        numbers = np.arange(first, min(first + blocks * BLOCK, self.size))
        if self.single_rounds:
            segments = expand_rounds(self.segments, numbers)
            noise = np.where(segments.length > 0, 0, 1)
        else:
            segments, run, place = expand(self.segments, numbers)
            noise = self.law.row(run, place)
        places = _places(segments.slot >= 0, together)
        places = places[: np.searchsorted(places, blocks * BLOCK)]
        segments = Segments(*(column[: len(places)] for column in segments))
        epoch = Epoch(segments.epoch, segments.epoch_start, segments.epoch_length)
        plan = plan_epochs(self.policies, self.schedules, epoch)

        def shaped(column: np.ndarray, fill: Any) -> np.ndarray:
            whole = np.full((blocks * BLOCK, *column.shape[1:]), fill, column.dtype)
            whole[places] = column[: len(places)]
            return whole.reshape(blocks, BLOCK, *column.shape[1:])

        def counted(column: np.ndarray, fill: int) -> np.ndarray:
            return shaped(column.astype(np.int32), fill)

        moment = Moment(
            length=counted(segments.length, 0),
            starts=shaped(segments.starts.astype(bool), False),
            ends=shaped(segments.ends.astype(bool), False),
            slot=counted(np.where(segments.slot < 0, waste, segments.slot), waste),
            epoch=counted(segments.epoch, 1),
            start=counted(segments.epoch_start, 0),
            epoch_length=counted(segments.epoch_length, 1),
            plan=jax.tree.map(lambda leaf: shaped(np.asarray(leaf), 0), plan),
        )
        steps = Steps(
            map=counted(np.searchsorted(self.lengths, segments.length), 0),
            gain=counted(
                noise, len(self.law.g)
            ),  # past the last row: the padding of the tables, zero
            moment=moment,
            number=counted(numbers, -1) if together > 1 else None,
        )
        return steps, len(places)


def _places(reports: np.ndarray, together: int) -> np.ndarray:
    """Where segments go, so that after one that reports the next goes to a multiple of `together`."""
    lasts = np.flatnonzero(reports)
    runs = np.diff(lasts, prepend=-1)  # segments up to a report
    empty = np.cumsum(-runs % together)
    return (
        np.arange(len(reports)) + np.r_[0, empty][np.searchsorted(lasts, np.arange(len(reports)))]
    )


def as_grid(policy: Any) -> PolicyGrid:
    """A grid of policies, of one point if it is a single one; checked."""
    if isinstance(policy, Policy):
        policy = PolicyGrid({}, [policy])
    if not isinstance(policy, PolicyGrid):
        raise ValueError(
            "policy must be a dlbjax.Policy, a PolicyGrid, or a mapping from names to them; got "
            f"{type(policy).__name__}"
        )
    axes, policies = policy
    if not isinstance(axes, Mapping) or not all(np.ndim(values) == 1 for values in axes.values()):
        raise ValueError(f"axes of the grid must map names to lists of values; got {short(axes)}")
    if not isinstance(policies, Sequence):
        raise ValueError(f"policies of the grid must be a list of them; got {short(policies)}")
    size = int(np.prod([len(values) for values in axes.values()], dtype=int))
    if size == 0:
        raise ValueError("the grid must hold at least one policy; got none")
    if size != len(policies):
        raise ValueError(f"the grid's axes make {size} points, but it holds {len(policies)}")
    for each in policies:
        check_policy(each)
    return policy


def make_groups(problem: Problem, grid: PolicyGrid, settings: Settings) -> list[Group]:
    """The grid's policies, those that can advance side by side together."""
    schedules = [make_schedule(p, settings.horizon, problem.actions) for p in grid.policies]
    together: list[list[int]] = []
    for place, (policy, schedule) in enumerate(zip(grid.policies, schedules, strict=True)):
        _check_float32(policy, schedule, settings)
        for places in together:
            if _alike(grid.policies[places[0]], schedules[places[0]], policy, schedule):
                places.append(place)
                break
        else:
            together.append([place])
    return [
        _group(problem, [grid.policies[i] for i in places], [schedules[i] for i in places], places, settings)
        for places in together
    ]  # fmt: skip


def _group(
    problem: Problem, policies: list[Policy], schedules: list[Schedule], places: list[int],
    settings: Settings,
) -> Group:  # fmt: skip
    system, observed, epochs = problem.system, policies[0].feedback, schedules[0].epochs
    segments = cut(epochs, settings.rounds)
    replayed = settings.noise is not None
    single_rounds = replayed or bool({"rewards", "states"} & set(settings.record))
    if single_rounds:
        segments = round_by_round(segments)
        law = plain_law(system, segments, given=replayed)
        lengths = np.array([0, 1])
    else:
        if np.all(epochs.lengths == 1) and "last" in observed:
            observed = ("last",)  # the sum over one round is known with it
        law = innovations_law(system, segments, observed)
        lengths = np.unique(np.r_[0, segments.length])
    arms = np.asarray(schedules[0].arms)
    tables = _tables(problem, arms, lengths, law)
    return Group(policies, schedules, places, segments, single_rounds, law, lengths, tables)


def _check_float32(policy: Policy, schedule: Schedule, settings: Settings) -> None:
    decisions, most = int(schedule.epochs.counts.sum()), schedule.float32
    if settings.dtype == np.float32 and most is not None and decisions > most:
        raise ValueError(
            f"policy {policy.name!r} needs dtype float64 for {decisions} decisions: beyond {most} the "
            "differences that it decides by are smaller than what float32 resolves"
        )


def _alike(one: Policy, one_schedule: Schedule, other: Policy, other_schedule: Schedule) -> bool:
    """Whether two policies differ in their numbers only, and share their epochs."""

    def program(policy: Policy) -> tuple[Any, ...]:
        return policy.init, policy.act, policy.update, policy.feedback, policy.uniforms

    return (
        program(one) == program(other)
        and one_schedule.epochs.same(other_schedule.epochs)
        and np.array_equal(np.asarray(one_schedule.arms), np.asarray(other_schedule.arms))
        and (one_schedule.plan is None) == (other_schedule.plan is None)
    )


@np.errstate(over="ignore", invalid="ignore")  # what overflows shows in the regret
def _tables(problem: Problem, arms: np.ndarray, lengths: np.ndarray, law: NoiseLaw) -> Tables:
    """The tables of a pass, float64. The noise law's last row, for padding, is zero."""
    system = problem.system
    maps = [_maps(system, int(length)) for length in lengths]
    return Tables(
        maps=Maps(*(_padded(np.stack(column), 64) for column in zip(*maps, strict=True))),
        gains=Gains(_padded(law.K, 8192), _padded(law.g, 8192), _padded(law.k, 8192)),
        transient=settled(system.A.T, system.omega),
        x1=system.x1,
        arms=arms,
        gaps=problem.optimal_value - arms @ system.h,
    )


def _maps(system: System, length: int) -> Maps:
    """The maps for one length, from powers of one matrix on (z, u, Σy)."""
    n, d = system.n, system.d
    if length == 0:
        return Maps(np.eye(n), np.zeros((n, d)), *[np.zeros(n), np.zeros(d)] * 2)
    round = np.block(
        [
            [system.A, system.B, np.zeros((n, 1))],
            [np.zeros((d, n)), np.eye(d), np.zeros((d, 1))],
            [system.omega[None], system.theta[None], np.ones((1, 1))],
        ]
    )
    before = np.linalg.matrix_power(round, length - 1)
    after = round @ before
    last = np.r_[system.omega, system.theta, 0.0] @ before
    return Maps(
        power=after[:n, :n],
        response=after[:n, n : n + d],
        last_state=last[:n],
        last_action=last[n : n + d],
        sum_state=after[-1, :n],
        sum_action=after[-1, n : n + d],
    )


def _padded(table: np.ndarray, least: int) -> np.ndarray:
    """The table with rows of zeros up to a power of two, so that its size rarely changes.

    Other values of ρ̄ or σ then reuse the compiled program.
    """
    rows = max(least, 1 << len(table).bit_length())
    return np.concatenate([table, np.zeros((rows - len(table), *table.shape[1:]))])
