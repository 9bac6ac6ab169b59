"""One run of a policy, decision by decision, with rewards from outside."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from itertools import pairwise
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
from dlbjax.model.actions import ActionSet
from dlbjax.policies.base import Epoch, Feedback, Policy, make_schedule, plan_epochs

BLOCK = 256  # epochs that are planned together

_cast = partial(cast_leaf, dtype=np.dtype(np.float64))


class Seen(NamedTuple):
    """The rewards since a decision, as policies observe them."""

    last: float = 0.0
    total: float = 0.0

    def add(self, reward: float) -> "Seen":
        """With one more reward."""
        return Seen(reward, self.total + reward)


class Fixed(NamedTuple):
    """What does not change during a run."""

    params: Any
    arms: jax.Array  # (K, d)
    init_key: jax.Array  # typed
    uniforms_key: jax.Array  # (2,)


class Carry(NamedTuple):
    """The state of a run during an epoch."""

    policy: Any  # the policy's state when it decided
    action: Array  # index of the arm that it chose
    epoch: Epoch


class Decision(NamedTuple):
    """What a policy plays in an epoch."""

    number: int  # of the epoch, from 1
    end: int  # rounds completed when the epoch ends
    action: int  # index of the arm
    carry: Carry


class Decisions:
    """The decisions of a policy in one run, each made when the rewards before it are known.

    They are those of a simulated run with the same seed that records its rewards and reports the last
    round only: schedule and random numbers are the same, in float64. One compiled loop makes one decision
    or a thousand, so that a replayed run is the same to the last bit.

    Attributes:
      arms: (K, d) the actions to choose among.
      config: the policy's arguments, as its schedule describes them.
      fingerprint: the identity of the run's numbers, by part.
    """

    def __init__(self, policy: Policy, actions: ActionSet, horizon: int, seed: int):
        check_not_forked()
        self._policy, self._horizon, self._seed = policy, horizon, seed
        self._schedule = make_schedule(policy, horizon, actions)
        self.arms = np.asarray(self._schedule.arms)
        self.config = dict(self._schedule.config)
        self._segments = cut(self._schedule.epochs, np.array([horizon]))
        self._count = int(self._segments.repeats.sum()) - 1  # the last segment is a report
        with _alone():
            key = jax.random.key(seed, impl="threefry2x32")
            self._fixed = Fixed(
                params=jax.tree.map(lambda leaf: jnp.asarray(_cast(leaf)), self._schedule.params),
                arms=jnp.asarray(self.arms),
                init_key=jax.random.fold_in(key, 2),
                uniforms_key=jax.random.key_data(jax.random.fold_in(key, 1)),
            )
            self._planned = 0, self._plan(0)
            self._start = _start(traced_part(policy), self._fixed, self._planned[1])
        self.fingerprint = self._fingerprint()

    def after(self, decision: Decision, seen: Seen) -> Decision:
        """The decision after another, given the rewards seen in its epoch."""
        return self._make(decision.number, decision.carry, [seen])[0]

    def replay(self, rewards: Sequence[float]) -> tuple[Decision, Seen, np.ndarray]:
        """All decisions of the rounds with the given rewards, and of the round after them.

        Returns:
          The last decision, the rewards seen in its epoch so far, and the arm of every round.
        """
        rounds = min(len(rewards) + 1, self._horizon)
        starts = np.asarray(self._epoch(np.arange(min(rounds, self._count))).start)
        starts = starts[starts < rounds]
        known = [reduce(Seen.add, rewards[i:j], Seen()) for i, j in pairwise(starts)]
        decision, actions = self._make(0, self._start, [Seen(), *known])
        current = reduce(Seen.add, rewards[int(starts[-1]) :], Seen())
        return decision, current, np.repeat(actions, np.diff(starts, append=rounds))

    def _make(self, number: int, carry: Carry, seen: Sequence[Seen]) -> tuple[Decision, np.ndarray]:
        """The decisions of the epochs after `number`, given what was seen in the epoch before each."""
        check_not_forked()
        chosen = []
        rest = np.array(seen)
        with _alone():
            while len(rest):
                block, place = divmod(number, BLOCK)
                now, rest = np.split(rest, [BLOCK - place])
                rewards = np.zeros((BLOCK, 2))
                rewards[place : place + len(now)] = now
                if self._planned[0] != block:
                    self._planned = block, self._plan(block)
                carry, actions = _advance(
                    traced_part(self._policy), self._fixed, self._planned[1], rewards,
                    np.int32(place), np.int32(place + len(now)), carry,
                )  # fmt: skip
                chosen.append(np.asarray(actions)[place : place + len(now)])
                number += len(now)
        actions = np.concatenate(chosen)
        epoch = self._epoch(np.array([number - 1]))
        self._check(actions, carry, int(epoch.start[0]))
        end = int(epoch.start[0] + epoch.length[0])
        return Decision(number, end, int(actions[-1]), carry), actions

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
    policy: Policy, fixed: Fixed, epochs: Epoch, rewards: jax.Array, first: jax.Array,
    end: jax.Array, carry: Carry,
) -> tuple[Carry, jax.Array]:  # fmt: skip
    """Before each of the epochs first..end−1, learn from the rewards of the one before, and decide."""
    params, arms = fixed.params, fixed.arms

    def step(i: jax.Array, before: tuple[Carry, jax.Array]) -> tuple[Carry, jax.Array]:
        (state, action, last), actions = before
        feedback = Feedback(
            action, arms[action], rewards[i, 0], rewards[i, 1], last.length, last.plan, arms
        )
        learned = learn(policy, params, state, feedback)
        epoch = jax.tree.map(lambda column: column[i], epochs)
        state = jax.tree.map(lambda new, old: jnp.where(epoch.index > 1, new, old), learned, state)
        # In a simulated run that records its rewards, the random numbers are counted by rounds.
        uniforms = prng.uniforms(
            fixed.uniforms_key[:, None], epoch.start, 1, policy.uniforms, arms.dtype
        )
        action = decide(policy, params, arms, state, epoch._replace(uniforms=uniforms[0, :, 0]))
        return Carry(state, action, epoch), actions.at[i].set(action)

    return jax.lax.fori_loop(first, end, step, (carry, jnp.zeros(BLOCK, jnp.int32)))
