"""A pass: the runs of policies that share their epochs, prepared on the host and carried through."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax._arrays import Array
from dlbjax.engine import scan
from dlbjax.engine.noise import NoiseLaw, innovations_law, plain_law
from dlbjax.engine.segments import Segments, cut, round_by_round
from dlbjax.engine.settings import Noise, Settings
from dlbjax.engine.world import build_steps, build_world, distinct_lengths, plan_ahead
from dlbjax.epochs import Epochs
from dlbjax.policies.policy import Epoch, Policy, params_of
from dlbjax.problem import Problem

WIDTH = 8  # lanes come in multiples of this, so that each is computed by the same instructions


class Pass(NamedTuple):
    """Policies with one epoch table, and the tables that carry them through the rounds."""

    policies: list[Policy]
    places: list[int]  # where each of them stands in the grid
    arms: np.ndarray
    runs: Segments
    single_rounds: bool
    law: NoiseLaw
    lengths: np.ndarray
    world: scan.World

    @property
    def segments(self) -> int:
        """Steps of the scan."""
        return int(self.runs.repeats.sum())


def prepare(
    problem: Problem, policies: list[Policy], places: list[int], epochs: Epochs, settings: Settings
) -> Pass:
    """Everything about the pass that does not depend on the seeds."""
    policy = policies[0]
    arms = problem.actions.vertices if policy.arms is None else policy.arms
    runs = cut(epochs, settings.rounds)
    single_rounds = settings.noise is not None or bool({"rewards", "states"} & set(settings.record))
    if single_rounds:
        runs = round_by_round(runs)
        law = plain_law(problem.system, runs, given=settings.noise is not None)
    else:
        observed = policy.feedback
        if np.all(epochs.lengths == 1) and "last" in observed:
            observed = ("last",)  # the sum over one round is known with it
        law = innovations_law(problem.system, runs, observed)
    ends = np.array([0, -1])  # a plan that cannot be made is refused before anything compiles
    epoch = Epoch(runs.epoch[ends], runs.epoch_start[ends], runs.epoch_length[ends])
    plan_ahead(policies, settings.horizon, arms, epoch)
    lengths = distinct_lengths(runs, single_rounds)
    world = build_world(problem, arms, lengths, law)
    return Pass(policies, places, arms, runs, single_rounds, law, lengths, world)


def run(
    pass_: Pass, settings: Settings, numbers: np.ndarray, device: Any, tick: Callable[[int], None]
) -> dict[str, Any]:
    """Carry some runs through the horizon on one device.

    Args:
      pass_: the prepared pass.
      settings: what was asked for.
      numbers: which runs, counted over policies and, within each, over seeds.
      device: where.
      tick: called with a number of rounds, over all runs, whenever they are done. What it raises
        ends the run.

    Returns:
      "regrets" (runs, C, 3) and, by name, what is recorded: leaves (runs, T, …), and (runs, …) of the
      policy's state in the end.
    """
    padded = np.r_[numbers, np.full(-len(numbers) % WIDTH, numbers[-1])]
    place, seed = np.divmod(padded, len(settings.seeds))
    functions = traced_part(pass_.policies[0])
    cast = partial(cast_leaf, dtype=settings.dtype)
    params = [params_of(p, settings.horizon, pass_.arms) for p in pass_.policies]
    with (
        jax.enable_x64(settings.dtype == np.float64),
        jax.numpy_rank_promotion("allow"),  # a trailing axis of lanes relies on it
        jax.numpy_dtype_promotion(settings.promotion),
        jax.default_device(device),
    ):
        world = jax.device_put(jax.tree.map(cast, pass_.world))
        lanes = scan.Lanes(
            key=jax.vmap(partial(jax.random.key, impl="threefry2x32"))(settings.seeds[seed]),
            configuration=jax.device_put(place.astype(np.int32)),
            params=jax.tree.map(
                lambda *leaves: np.moveaxis(cast(np.stack(leaves))[place], 0, -1), *params
            ),
        )
        with _compiling:
            carry = _start(functions, len(settings.rounds), world, lanes)
        every_round = tuple(name for name in settings.record if name != "policy")
        recorded: dict[str, list[np.ndarray]] = {name: [] for name in every_round}
        handed_over = 0  # rounds being computed while the next stretch is prepared
        for steps, rounds, first in _stretches(pass_, settings, seed):
            jax.block_until_ready(carry.reports)
            tick(handed_over)
            with _compiling:  # returns as soon as the work is handed over
                carry, seen = _advanced(
                    functions, every_round, device, world, lanes, carry, steps, first
                )
            handed_over = int(rounds.sum()) * len(numbers)
            for name, values in seen.items():
                flat = np.asarray(values).reshape(-1, *values.shape[2:])[: len(rounds)]
                recorded[name].append(np.repeat(flat, rounds, axis=0)[..., : len(numbers)])
        jax.block_until_ready(carry.reports)
        tick(handed_over)
        refuse_nan(pass_.policies[0], carry.policy, settings.seeds[seed])
        reports = np.asarray(carry.reports)[:-1, :, : len(numbers)]
    out = {"regrets": reports.astype(np.float64)}
    out |= {name: np.concatenate(parts) for name, parts in recorded.items()}
    if "policy" in settings.record:
        out["policy"] = jax.tree.map(
            lambda leaf: np.asarray(leaf)[..., : len(numbers)], carry.policy
        )
    return jax.tree.map(lambda leaf: np.moveaxis(leaf, -1, 0), out)


def _stretches(
    pass_: Pass, settings: Settings, seed: np.ndarray
) -> Iterator[tuple[scan.Steps, np.ndarray, int]]:
    """The steps of each call, the rounds of each of its segments, and the number of its first."""
    blocks = settings.chunk or (1 if pass_.segments <= scan.BLOCK else 16)
    cast = partial(cast_leaf, dtype=settings.dtype)
    done = 0
    for first in range(0, pass_.segments, blocks * scan.BLOCK):
        steps = build_steps(
            pass_.runs, pass_.law, pass_.lengths, pass_.policies, settings.horizon, pass_.arms,
            first, blocks, len(settings.rounds), pass_.single_rounds,
        )  # fmt: skip
        rounds = steps.moment.length.reshape(-1)[: pass_.segments - first]
        if settings.noise is not None:
            steps = steps._replace(given=_given(settings.noise, steps.moment.length, done, seed))
        yield jax.tree.map(cast, steps), rounds, first
        done += int(rounds.sum())


def _given(noise: Noise, length: np.ndarray, done: int, seed: np.ndarray) -> np.ndarray:
    """Replayed noise for the rounds of a stretch, (blocks, BLOCK, n + 1, lanes)."""
    flat = length.reshape(-1)
    t = done + np.cumsum(flat) - flat
    t = np.minimum(t, noise.reward.shape[1] - 1)  # segments of no rounds use none of it
    both = np.concatenate([noise.state[seed][:, t], noise.reward[seed][:, t, None]], axis=-1)
    return np.moveaxis(both, 0, -1).reshape(*length.shape, -1, len(seed))


def refuse_nan(policy: Policy, state: Any, seeds: np.ndarray) -> None:
    """A NaN in a policy's state spoils its decisions but need not show in the regret."""
    for leaf in map(np.asarray, jax.tree.leaves(state)):
        if leaf.dtype.kind == "f" and np.isnan(leaf).any():
            lane = int(np.argwhere(np.isnan(leaf))[0, -1])
            raise FloatingPointError(
                f"the state of policy {policy.name!r} became NaN for seed {seeds[lane]}; look for a "
                "division by zero or an overflow in its update"
            )


def traced_part(policy: Policy) -> Policy:
    """What of a policy is compiled in: its functions, and not its numbers."""
    return Policy(
        policy.init, policy.act, policy.update,
        feedback=policy.feedback, uniforms=policy.uniforms, lanes=policy.lanes,
    )  # fmt: skip


def cast_leaf(array: Array, dtype: np.dtype) -> np.ndarray:
    """Floats in the dtype of a run, whole numbers in 32 bits."""
    array = np.asarray(array)
    if array.dtype.kind == "f":
        return array.astype(dtype)
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


_compiling = threading.Lock()  # so that workers do not compile the same program side by side


@partial(jax.jit, static_argnums=(0, 1))
def _start(policy: Policy, reports: int, world: scan.World, lanes: scan.Lanes) -> scan.Carry:
    return scan.start(policy, world, lanes, reports)


_refused: set[Any] = set()  # what XLA would not compile in one piece


def _advanced(
    policy: Policy, record: tuple[str, ...], device: Any, world: scan.World, lanes: scan.Lanes,
    *rest: Any,
) -> tuple[scan.Carry, dict[str, Array]]:  # fmt: skip
    program = (policy, record, lanes.configuration.shape, world.gaps.dtype)
    if device.platform == "cpu" and program not in _refused:
        try:
            return _advance(policy, record, True, world, lanes, *rest)
        except jax.errors.JaxRuntimeError as error:
            if "UNIMPLEMENTED" not in str(error):
                raise
            _refused.add(program)
    return _advance(policy, record, False, world, lanes, *rest)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=(5,))
def _advance(
    policy: Policy, record: tuple[str, ...], one_piece: bool, world: scan.World, lanes: scan.Lanes,
    carry: scan.Carry, steps: scan.Steps, first: Array,
) -> tuple[scan.Carry, dict[str, Array]]:  # fmt: skip
    return scan.advance(policy, record, one_piece, world, lanes, carry, steps, first)
