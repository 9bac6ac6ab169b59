"""One run of a policy, decision by decision, with rewards from outside."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.common.digest import NEARLY, digest
from dlbjax.common.processes import check_not_forked
from dlbjax.engine import prng
from dlbjax.engine.run import cast_leaf, check_state, traced_part
from dlbjax.engine.segments import cut, expand
from dlbjax.engine.step import decide, initial, learn
from dlbjax.live.rounds import Outcomes
from dlbjax.model.actions import ActionSet
from dlbjax.policies.base import Epoch, Feedback, Policy, make_schedule, plan_epochs

BLOCK = 256  # epochs that are planned together

_cast = partial(cast_leaf, dtype=np.dtype(np.float64))


class Fixed(NamedTuple):
    """What does not change during a run."""

    params: Any
    arms: jax.Array  # (K, d)
    init_key: jax.Array  # typed
    uniforms_key: jax.Array  # (2,)
    first: jax.Array  # rounds before those that the policy counts
    vectors: jax.Array  # whether the policy learns from any vector
    gaps: jax.Array  # whether it learns from epochs without a reward


class Carry(NamedTuple):
    """The state of a run during an epoch."""

    policy: Any  # the policy's state when it decided
    action: Array  # index of the arm that it chose
    epoch: Epoch


class Decision(NamedTuple):
    """What a policy plays in an epoch."""

    number: int  # of the epoch, from 1
    start: int  # rounds completed before the epoch
    end: int  # rounds completed when it ends
    action: int  # index of the arm
    carry: Carry
    blocks: tuple[Carry, ...]  # those from which the blocks of epochs up to this one begin


class Seen(NamedTuple):
    """What a policy observes of the epoch before each of some others, one row each."""

    outcomes: Outcomes
    nearest: np.ndarray  # the arm nearest to what was spent
    chosen: (
        np.ndarray
    )  # the arm that the policy chose; −1 for the one that it chooses in this replay


class Decisions:
    """The decisions of a policy in one run, each made when what happened before it is known.

    They are those of a simulated run with the same seed that records its rewards and reports the last
    round only: schedule and random numbers are the same, in float64. One compiled loop makes one decision
    or a thousand, so that a replayed run is the same to the last bit.

    Attributes:
      first: rounds of the campaign before the first that the policy counts.
      arms: (K, d) the actions to choose among.
      config: the policy's arguments, as its schedule describes them.
      fingerprint: the identity of the run's numbers, by part.
    """

    def __init__(self, policy: Policy, actions: ActionSet, horizon: int, seed: int, first: int = 0):
        check_not_forked()
        self._policy, self._rounds, self._seed = policy, horizon - first, seed
        self.first = first
        self._schedule = make_schedule(policy, self._rounds, actions)
        self.arms = np.asarray(self._schedule.arms)
        self._index = {arm.tobytes(): i for i, arm in reversed(list(enumerate(self.arms + 0.0)))}
        self.config = dict(self._schedule.config)
        self._segments = cut(self._schedule.epochs, np.array([self._rounds]))
        self._count = int(self._segments.repeats.sum()) - 1  # the last segment is a report
        with _alone():
            key = jax.random.key(seed, impl="threefry2x32")
            self._fixed = Fixed(
                params=jax.tree.map(lambda leaf: jnp.asarray(_cast(leaf)), self._schedule.params),
                arms=jnp.asarray(self.arms),
                init_key=jax.random.fold_in(key, 2),
                uniforms_key=jax.random.key_data(jax.random.fold_in(key, 1)),
                first=jnp.asarray(np.int32(first)),
                vectors=jnp.asarray(policy.vectors),
                gaps=jnp.asarray(policy.gaps),
            )
            self._planned = 0, self._plan(0)
            self._start = _start(traced_part(policy), self._fixed, self._planned[1])
        self.fingerprint = self._fingerprint()
        nothing = Outcomes(np.zeros(1, bool), np.zeros(1), np.zeros(1), self.arms[:1])
        self.initial = self._make(0, self._start, self._seen(nothing, [-1]), ())[0]

    def after(
        self,
        decision: Decision,
        told: int,
        rewards: Sequence[float],
        spend: Sequence[Sequence[float]],
    ) -> tuple[Decision, np.ndarray]:
        """The decision of the round after those told, and the arms of all epochs decided on the way.

        Args:
          decision: the one of an earlier round, or of this.
          told: rounds of the campaign that are known.
          rewards: of each of these rounds; NaN where missing.
          spend: (d,) of each of these rounds.
        """
        told = min(told - self.first, self._rounds - 1)
        if told < decision.end:
            return decision, np.zeros(0, int)
        steps = min(told - decision.start + 1, self._count - decision.number + 1)
        starts = self._starts(decision.number - 1, decision.number - 1 + steps)
        starts = starts[starts <= told]
        outcomes = self._outcomes(starts, rewards, spend)
        seen = self._seen(outcomes, [decision.action] + [-1] * (len(starts) - 2))
        return self._make(decision.number, decision.carry, seen, decision.blocks)

    def corrected(
        self, decision: Decision, round_: int, chosen: Sequence[int], rewards: Sequence[float],
        spend: Sequence[Sequence[float]],
    ) -> Decision:  # fmt: skip
        """The decision of the same epoch, if a round had been told otherwise.

        Args:
          decision: the current one.
          round_: number of the round in the campaign, from 0.
          chosen: arms of all epochs before the current one.
          rewards: of every round that is known; NaN where missing.
          spend: (d,) of every round that is known.
        """
        if not 0 <= round_ - self.first < decision.start:
            return decision
        starts = self._starts(0, decision.number)
        changed = int(
            np.searchsorted(starts, round_ - self.first, side="right")
        )  # learnt before it
        block = changed // BLOCK
        before = max(block * BLOCK - 1, 0)
        seen = self._seen(self._outcomes(starts[before:], rewards, spend), chosen[before:])
        if block == 0:  # before the first epoch there is nothing to learn
            seen = jax.tree.map(lambda column: np.concatenate([column[:1], column]), seen)
        return self._make(block * BLOCK, decision.blocks[block], seen, decision.blocks[:block])[0]

    def arms_of(self, chosen: Sequence[int], first: int, end: int) -> np.ndarray:
        """The arms of the campaign's rounds first..end−1, given those of all epochs."""
        starts = self._starts(0, min(len(chosen), self._count))
        rounds = np.arange(first, end) - self.first
        return np.asarray(chosen)[np.searchsorted(starts, rounds, side="right") - 1]

    def _starts(self, first: int, end: int) -> np.ndarray:
        return np.asarray(self._epoch(np.arange(first, end)).start)

    def _outcomes(
        self, starts: np.ndarray, rewards: Sequence[float], spend: Sequence[Sequence[float]]
    ) -> Outcomes:
        """Of the epochs that start at all but the last of the given rounds, and end at the next."""
        starts = starts + self.first
        return Outcomes.of(starts[:-1], starts[1:], rewards, spend)

    def _seen(self, outcomes: Outcomes, chosen: Sequence[int]) -> Seen:
        vectors = outcomes.vector + 0.0  # no −0
        nearest = [self._index.get(vector.tobytes(), -1) for vector in vectors]
        for i in np.flatnonzero(np.array(nearest) < 0):
            nearest[i] = int(np.argmin(np.abs((self.arms - vectors[i]) / self._sides).max(axis=1)))
        return Seen(outcomes, np.array(nearest), np.array(chosen))

    @cached_property
    def _sides(self) -> np.ndarray:
        sides = np.ptp(self.arms, axis=0)
        return np.where(sides > 0, sides, 1.0)

    def _make(
        self, number: int, carry: Carry, seen: Seen, blocks: tuple[Carry, ...]
    ) -> tuple[Decision, np.ndarray]:
        """The decisions of the epochs after `number`, given what was seen of the epoch before each."""
        check_not_forked()
        chosen = []
        done, count = 0, len(seen.chosen)
        with _alone():
            while done < count:
                block, place = divmod(number, BLOCK)
                if place == 0:
                    blocks = (*blocks, carry)
                part = slice(done, min(done + BLOCK - place, count))
                size = part.stop - part.start

                def padded(
                    column: np.ndarray, part: slice = part, place: int = place
                ) -> np.ndarray:
                    rows = np.zeros((BLOCK, *column.shape[1:]), column.dtype)
                    rows[place : place + part.stop - part.start] = column[part]
                    return _cast(rows)

                if self._planned[0] != block:
                    self._planned = block, self._plan(block)
                carry, actions = _advance(
                    traced_part(self._policy), self._fixed, self._planned[1],
                    jax.tree.map(padded, seen), np.int32(place), np.int32(place + size), carry,
                )  # fmt: skip
                chosen.append(np.asarray(actions)[place : place + size])
                number, done = number + size, part.stop
        actions = np.concatenate(chosen)
        epoch = self._epoch(np.array([number - 1]))
        start = int(epoch.start[0])
        self._check(actions, carry, start)
        end = start + int(epoch.length[0])
        return Decision(number, start, end, int(actions[-1]), carry, blocks), actions

    def _check(self, actions: np.ndarray, carry: Carry, rounds: int) -> None:
        leaves = [np.asarray(leaf)[..., None] for leaf in jax.tree.leaves(carry.policy)]
        check_state(self._policy, leaves, np.array([self._seed]), rounds)
        wrong = actions[(actions < 0) | (actions >= len(self.arms))]
        if len(wrong):
            raise ValueError(
                f"policy {self._policy.name!r} chose action {wrong[0]}; its act must return the index of "
                f"one of {len(self.arms)}, counted from 0"
            )

    def _fingerprint(self) -> dict[str, str]:
        ends = [0, (self._count - 1) // BLOCK]
        parts = {
            "actions": self.arms,
            "params": self._schedule.params,
            "epochs": self._schedule.epochs,
            # (BLOCK, …, 1), the shape that they had when the format of journals was fixed
            "plans": [jax.tree.map(lambda a: a[..., None], self._plan(i).plan) for i in ends],
        }
        return {name: digest(part, NEARLY) for name, part in parts.items()}

    def _epoch(self, numbers: np.ndarray) -> Epoch:
        found, *_ = expand(self._segments, numbers)
        return Epoch(found.epoch, found.epoch_start, found.epoch_length)

    def _plan(self, block: int) -> Epoch:
        """A block of epochs; plans are made for whole blocks only, so that rounding is always the same."""
        first = block * BLOCK
        epoch = self._epoch(np.arange(first, min(first + BLOCK, self._count)))
        plan = plan_epochs([self._policy], [self._schedule], epoch)
        plan = jax.tree.map(lambda leaf: leaf[..., 0], plan)
        missing = BLOCK - len(epoch.index)

        def padded(column: np.ndarray) -> np.ndarray:
            return _cast(np.pad(column, [(0, missing)] + [(0, 0)] * (column.ndim - 1)))

        return jax.tree.map(padded, epoch._replace(plan=plan))


@contextmanager
def _alone() -> Iterator[None]:
    """JAX's settings for one run: float64, on the CPU."""
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),  # users' policies may rely on it
        jax.default_device(jax.local_devices(backend="cpu")[0]),
    ):
        yield


@partial(jax.jit, static_argnums=0)
def _start(policy: Policy, fixed: Fixed, epochs: Epoch) -> Carry:
    return Carry(
        policy=initial(policy, fixed.params, fixed.arms, fixed.init_key),
        action=jnp.zeros((), jnp.int32),
        epoch=jax.tree.map(lambda column: column[0], epochs),
    )


@partial(jax.jit, static_argnums=0)
def _advance(
    policy: Policy, fixed: Fixed, epochs: Epoch, seen: Seen, first: jax.Array, end: jax.Array,
    carry: Carry,
) -> tuple[Carry, jax.Array]:  # fmt: skip
    """Before each of the epochs first..end−1, learn from the one before, and decide."""
    params, arms = fixed.params, fixed.arms

    def step(i: jax.Array, before: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array]:
        (state, action, last), actions = before
        (observed, reward, total, vector), nearest, chosen = jax.tree.map(lambda a: a[i], seen)
        action = jnp.where(chosen >= 0, chosen, action)
        as_chosen = jnp.all(vector == arms[action])
        action = jnp.where(as_chosen, action, nearest)
        feedback = Feedback(action, vector, reward, total, last.length, last.plan, arms)
        learned = learn(policy, params, state, feedback)
        epoch = jax.tree.map(lambda column: column[i], epochs)
        usable = (epoch.index > 1) & (observed | fixed.gaps) & (as_chosen | fixed.vectors)
        state = jax.tree.map(lambda new, old: jnp.where(usable, new, old), learned, state)
        # In a simulated run that records its rewards, the random numbers are counted by rounds.
        uniforms = prng.uniforms(
            fixed.uniforms_key[:, None], fixed.first + epoch.start, 1, policy.uniforms, arms.dtype
        )
        action = decide(policy, params, arms, state, epoch._replace(uniforms=uniforms[0, :, 0]))
        return Carry(state, action, epoch), actions.at[i].set(action)

    return jax.lax.fori_loop(first, end, step, (carry, jnp.zeros(BLOCK, jnp.int32)))
