"""A pass: the runs of policies that share their epochs, prepared on the host and carried through."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
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


class Progress(NamedTuple):
    """Some runs of a pass, part of the way, in arrays of the host."""

    runs: np.ndarray  # which, counted over policies and, within each, over seeds
    segments: int  # completed
    rounds: int  # completed
    carry: list[np.ndarray]  # leaves of the scan's carry, (…, runs)
    recorded: dict[str, np.ndarray]  # (rounds, …, runs)


Edge = Callable[[int, int, Callable[[], Progress]], None]


def run(
    pass_: Pass, settings: Settings, numbers: np.ndarray, device: Any, edge: Edge,
    progress: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Carry some runs through the horizon on one device.

    Args:
      pass_: the prepared pass.
      settings: what was asked for.
      numbers: which runs, counted over policies and, within each, over seeds.
      device: where.
      edge: called between two calls of the compiled program with the rounds completed since the last
        time, over all runs; the segments completed in all; and a function that gives their progress.
        What it raises ends the run.
      progress: how far the runs are; at the start by default.

    Returns:
      "regrets" (runs, C, 3) and, by name, what is recorded: leaves (runs, T, …), and (runs, …) of the
      policy's state in the end.
    """
    policy, seeds = traced_part(pass_.policies[0]), settings.seeds[numbers % len(settings.seeds)]
    every_round = recorded_every_round(settings)
    with tracing_like(settings), jax.default_device(device):
        world = jax.device_put(cast_tree(pass_.world, settings.dtype))
        lanes = make_lanes(pass_, settings, numbers)
        count = len(settings.rounds)
        if progress is None:
            done = 0
            recorded: dict[str, list[np.ndarray]] = {name: [] for name in every_round}
            with _compiling:
                carry = _start(policy, count, world, lanes)
        else:
            done = progress.rounds
            recorded = {name: [progress.recorded[name]] for name in every_round}
            carry = _restored(
                progress, jax.eval_shape(partial(_start, policy, count), world, lanes)
            )

        def so_far(segments: int, rounds: int, carry: scan.Carry) -> Progress:
            kept = [np.asarray(leaf)[..., : len(numbers)] for leaf in jax.tree.leaves(carry)]
            leaves = [leaf.copy() for leaf in kept]  # its memory is about to be used again
            seen = {name: np.concatenate(parts) for name, parts in recorded.items()}
            return Progress(numbers, segments, rounds, leaves, seen)

        def arrive(segments: int, rounds: int, since: int) -> None:
            jax.block_until_ready(carry.reports)
            refuse_nan(pass_.policies[0], carry.policy, seeds, rounds)
            edge(since * len(numbers), segments, partial(so_far, segments, rounds, carry))

        first, before = 0 if progress is None else progress.segments, done
        for steps, rounds in _stretches(pass_, settings, numbers, first, done):
            arrive(first, done, done - before)  # while the next stretch is prepared, this computes
            with _compiling:  # returns as soon as the work is handed over
                carry, seen = _advance(policy, every_round, world, lanes, carry, steps, first)
            first, before, done = first + len(rounds), done, done + int(rounds.sum())
            for name, values in seen.items():
                flat = np.asarray(values).reshape(-1, *values.shape[2:])[: len(rounds)]
                recorded[name].append(np.repeat(flat, rounds, axis=0)[..., : len(numbers)])
        arrive(first, done, done - before)
        reports = np.asarray(carry.reports)[:-1, :, : len(numbers)]
        out: dict[str, Any] = {"regrets": reports.astype(np.float64)}
        out |= {name: np.concatenate(parts) for name, parts in recorded.items()}
        if "policy" in settings.record:
            out["policy"] = jax.tree.map(
                lambda leaf: np.asarray(leaf)[..., : len(numbers)], carry.policy
            )
    return jax.tree.map(lambda leaf: np.moveaxis(leaf, -1, 0), out)


def recorded_every_round(settings: Settings) -> tuple[str, ...]:
    """What is recorded, except for what there is only in the end."""
    return tuple(name for name in settings.record if name != "policy")


@contextmanager
def tracing_like(settings: Settings) -> Iterator[None]:
    """JAX's settings under which a pass is traced, in whatever thread."""
    with (
        jax.enable_x64(settings.dtype == np.float64),
        jax.numpy_rank_promotion("allow"),  # a trailing axis of lanes relies on it
        jax.numpy_dtype_promotion(settings.promotion),
    ):
        yield


def make_lanes(pass_: Pass, settings: Settings, numbers: np.ndarray) -> scan.Lanes:
    """The lanes of some runs, filled up to a multiple of WIDTH with the last of them."""
    place, seed = np.divmod(_padded(numbers), len(settings.seeds))
    params = [params_of(p, settings.horizon, pass_.arms) for p in pass_.policies]
    return scan.Lanes(
        key=jax.vmap(partial(jax.random.key, impl="threefry2x32"))(settings.seeds[seed]),
        configuration=jax.device_put(place.astype(np.int32)),
        params=jax.tree.map(
            lambda *leaves: np.moveaxis(cast_leaf(np.stack(leaves), settings.dtype)[place], 0, -1),
            *params,
        ),
    )


def _padded(array: np.ndarray) -> np.ndarray:
    """An array (…, runs) with its last run repeated up to a multiple of WIDTH."""
    missing = -array.shape[-1] % WIDTH
    return np.concatenate([array, np.repeat(array[..., -1:], missing, axis=-1)], axis=-1)


def _restored(progress: Progress, expected: Any) -> scan.Carry:
    """The carry that was saved, if it is one of this pass."""
    leaves, structure = jax.tree.flatten(expected)
    padded = [_padded(leaf) for leaf in progress.carry]
    if [(leaf.shape, leaf.dtype) for leaf in padded] != [(e.shape, e.dtype) for e in leaves]:
        raise ValueError("the checkpoint holds arrays that do not fit these runs; remove it")
    return jax.tree.unflatten(structure, [jnp.array(leaf) for leaf in padded])


def _stretches(
    pass_: Pass, settings: Settings, numbers: np.ndarray, first: int, done: int
) -> Iterator[tuple[scan.Steps, np.ndarray]]:
    """The steps of each call, and the rounds of each of its segments, from a segment on."""
    blocks = settings.chunk or (1 if pass_.segments <= scan.BLOCK else 16)
    seed = _padded(numbers) % len(settings.seeds)
    for begin in range(first, pass_.segments, blocks * scan.BLOCK):
        steps = build_steps(
            pass_.runs, pass_.law, pass_.lengths, pass_.policies, settings.horizon, pass_.arms,
            begin, blocks, len(settings.rounds), pass_.single_rounds,
        )  # fmt: skip
        rounds = steps.moment.length.reshape(-1)[: pass_.segments - begin]
        if settings.noise is not None:
            steps = steps._replace(given=_given(settings.noise, steps.moment.length, done, seed))
        yield cast_tree(steps, settings.dtype), rounds
        done += int(rounds.sum())


def _given(noise: Noise, length: np.ndarray, done: int, seed: np.ndarray) -> np.ndarray:
    """Replayed noise for the rounds of a stretch, (blocks, BLOCK, n + 1, lanes)."""
    flat = length.reshape(-1)
    t = done + np.cumsum(flat) - flat
    t = np.minimum(t, noise.reward.shape[1] - 1)  # segments of no rounds use none of it
    both = np.concatenate([noise.state[seed][:, t], noise.reward[seed][:, t, None]], axis=-1)
    return np.moveaxis(both, 0, -1).reshape(*length.shape, -1, len(seed))


def refuse_nan(policy: Policy, state: Any, seeds: np.ndarray, rounds: int) -> None:
    """A NaN in a policy's state spoils its decisions but need not show in the regret."""
    for leaf in map(np.asarray, jax.tree.leaves(state)):
        if leaf.dtype.kind == "f" and np.isnan(leaf[..., : len(seeds)]).any():
            lane = int(np.argwhere(np.isnan(leaf))[0, -1])
            raise FloatingPointError(
                f"the state of policy {policy.name!r} became NaN for seed {seeds[lane]} by round "
                f"{rounds}; look for a division by zero or an overflow in its update"
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
        try:
            with np.errstate(over="raise"):
                return array.astype(dtype)
        except FloatingPointError:
            raise ValueError(
                "a number of the problem or of a policy is beyond float32; use dtype float64, or other "
                "units"
            ) from None
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


def cast_tree(tree: Any, dtype: np.dtype) -> Any:
    """`cast_leaf` for all leaves."""
    return jax.tree.map(partial(cast_leaf, dtype=dtype), tree)


_compiling = threading.Lock()  # so that workers do not compile the same program side by side


@partial(jax.jit, static_argnums=(0, 1))
def _start(policy: Policy, reports: int, world: scan.World, lanes: scan.Lanes) -> scan.Carry:
    return scan.start(policy, world, lanes, reports)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(4,))
def _advance(
    policy: Policy, record: tuple[str, ...], world: scan.World, lanes: scan.Lanes,
    carry: scan.Carry, steps: scan.Steps, first: Array,
) -> tuple[scan.Carry, dict[str, Array]]:  # fmt: skip
    return scan.advance(policy, record, world, lanes, carry, steps, first)
