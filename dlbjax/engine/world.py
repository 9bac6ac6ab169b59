"""Preparing a pass on the host: maps over segments, noise law, and the steps of a stretch."""

from typing import Any

import jax
import numpy as np

from dlbjax.engine.noise import NoiseLaw
from dlbjax.engine.scan import BLOCK, Gains, Maps, Moment, Steps, World
from dlbjax.engine.segments import Segments, expand, expand_rounds
from dlbjax.policies.policy import Epoch, Policy
from dlbjax.problem import Problem
from dlbjax.system import System


def distinct_lengths(runs: Segments, single_rounds: bool) -> np.ndarray:
    """The lengths that occur, 0 first."""
    return np.array([0, 1]) if single_rounds else np.unique(np.r_[0, runs.length])


@np.errstate(over="ignore", invalid="ignore")  # what overflows shows in the regret
def build_world(problem: Problem, arms: np.ndarray, lengths: np.ndarray, law: NoiseLaw) -> World:
    """Tables for a pass, float64. The noise law's last row, for padding, is zero."""
    system = problem.system
    maps = [_maps(system, int(length)) for length in lengths]
    return World(
        maps=Maps(*(_padded(np.stack(column), 64) for column in zip(*maps, strict=True))),
        gains=Gains(_padded(law.K, 8192), _padded(law.g, 8192), _padded(law.k, 8192)),
        transient=np.linalg.solve((np.eye(system.n) - system.A).T, system.omega),
        x1=system.x1,
        arms=arms,
        gaps=problem.optimal_value - arms @ problem.h,
    )


def build_steps(
    runs: Segments, law: NoiseLaw, lengths: np.ndarray, policies: list[Policy], horizon: int,
    arms: np.ndarray, first: int, blocks: int, slots: int, single_rounds: bool,
) -> Steps:  # fmt: skip
    """Segments first..first+blocks·BLOCK−1 with all that depends on time only, for one call."""
    total = int(runs.repeats.sum())
    numbers = np.arange(first, min(first + blocks * BLOCK, total))
    if single_rounds:
        segments = expand_rounds(runs, numbers)
        noise = np.where(segments.length > 0, 0, 1)
    else:
        segments, run, place = expand(runs, numbers)
        noise = law.row(run, place)
    epoch = Epoch(segments.epoch, segments.epoch_start, segments.epoch_length)
    plan = plan_ahead(policies, horizon, arms, epoch)

    def shaped(column: np.ndarray, fill: Any) -> np.ndarray:
        padding = np.full((blocks * BLOCK - len(column), *column.shape[1:]), fill, column.dtype)
        padded = np.concatenate([column, padding])
        return padded.reshape(blocks, BLOCK, *column.shape[1:])

    def counted(column: np.ndarray, fill: int) -> np.ndarray:
        return shaped(column.astype(np.int32), fill)

    moment = Moment(
        length=counted(segments.length, 0),
        starts=shaped(segments.starts.astype(bool), False),
        ends=shaped(segments.ends.astype(bool), False),
        slot=counted(np.where(segments.slot < 0, slots, segments.slot), slots),
        index=counted(segments.epoch, 1),
        start=counted(segments.epoch_start, 0),
        epoch_length=counted(segments.epoch_length, 1),
        plan=jax.tree.map(lambda leaf: shaped(np.asarray(leaf), 0), plan),
    )
    return Steps(
        map=counted(np.searchsorted(lengths, segments.length), 0),
        gain=counted(noise, len(law.g)),  # past the last row: the padding of the tables, zero
        moment=moment,
    )


def plan_ahead(policies: list[Policy], horizon: int, arms: np.ndarray, epoch: Epoch) -> Any:
    """What the policies plan for some epochs, leaves (epochs, …, policies)."""
    plans = [None if p.plan is None else p.plan(horizon, arms, epoch) for p in policies]
    for policy, plan in zip(policies, plans, strict=True):
        for leaf in jax.tree.leaves(plan):
            if np.shape(leaf)[:1] != epoch.index.shape:
                raise ValueError(
                    f"plan of policy {policy.name!r} must give one entry for each of the "
                    f"{len(epoch.index)} epochs it is asked for; got shape {np.shape(leaf)}"
                )
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=-1), *plans)


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
