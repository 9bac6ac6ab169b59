"""One run of a policy, decision by decision, with rewards that come from outside."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array
from dlbjax._digest import NEARLY, digest
from dlbjax.actions import ActionSet
from dlbjax.engine import random, scan
from dlbjax.engine.passes import cast_leaf, refuse_nan, traced_part
from dlbjax.engine.segments import cut, expand
from dlbjax.engine.world import plan_ahead
from dlbjax.epochs import as_epochs
from dlbjax.policies.policy import Epoch, Feedback, Policy, params_of

BLOCK = 256  # decisions that are planned together

_cast = partial(cast_leaf, dtype=np.dtype(np.float64))


class Seen(NamedTuple):
    """The rewards since a decision, as policies observe them."""

    last: float = 0.0
    total: float = 0.0

    def add(self, reward: float) -> "Seen":
        """One reward more."""
        return Seen(reward, self.total + reward)


class Carry(NamedTuple):
    """A run while a decision is held, as arrays of one lane."""

    policy: Any  # the policy's state when it decided
    action: Array  # (1,) the arm that it chose
    epoch: Epoch  # for which it is held


class Decision(NamedTuple):
    """What is played, and for how long."""

    number: int  # of its epoch, from 1
    end: int  # rounds completed when the next decision is due
    action: int  # the arm
    carry: Carry


class Decisions:
    """The decisions of a policy, each made when the rewards of those before are known.

    They are those of a simulated run with that seed which records its rewards and reports the last round
    only: params, plan and random
    numbers are the same, in float64. One compiled loop makes a single decision as it makes a thousand,
    so that a run which is replayed is the same to the last bit.
    """

    def __init__(self, policy: Policy, actions: ActionSet, horizon: int, seed: int):
        self.arms = actions.vertices if policy.arms is None else np.array(policy.arms, np.float64)
        self._policy, self._horizon, self._seed = policy, horizon, seed
        self._functions = traced_part(policy)
        self._params = params_of(policy, horizon, self.arms)
        self._epochs = as_epochs(policy.epochs, horizon)
        self._segments = cut(self._epochs, np.array([horizon]))
        self._count = int(self._segments.repeats.sum()) - 1  # the last segment is a report
        with _alone():
            self._lanes = scan.Lanes(
                key=jax.vmap(partial(jax.random.key, impl="threefry2x32"))(np.array([seed])),
                configuration=jnp.zeros(1, jnp.int32),
                params=jax.tree.map(lambda leaf: jnp.asarray(_cast(leaf)[..., None]), self._params),
            )
            self._arms = jnp.asarray(self.arms)
            self._planned = 0, self._plan(0)
            self._start = _start(self._functions, self._lanes, self._arms, self._planned[1])
        self.fingerprint = self._fingerprint()

    def after(self, decision: Decision, seen: Seen) -> Decision:
        """The decision that follows another and its rewards."""
        return self._make(decision.number, decision.carry, [seen])[0]

    def replay(self, rewards: Sequence[float]) -> tuple[Decision, Seen, np.ndarray]:
        """All decisions of the rounds whose rewards are given, and of the one after them.

        Returns:
          The decision that is held then, its rewards so far, and the arm of every round.
        """
        rounds = min(len(rewards) + 1, self._horizon)
        starts = self._epoch(np.arange(min(rounds, self._count))).start
        starts = starts[starts < rounds]
        known = [reduce(Seen.add, rewards[i:j], Seen()) for i, j in pairwise(starts)]
        decision, actions = self._make(0, self._start, [Seen(), *known])
        held = reduce(Seen.add, rewards[starts[-1] :], Seen())
        return decision, held, np.repeat(actions, np.diff(starts, append=rounds))

    def _make(self, number: int, carry: Carry, seen: Sequence[Seen]) -> tuple[Decision, np.ndarray]:
        """The decisions after number `number`, one for each entry of what was seen before it."""
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
                    self._functions, self._lanes, self._arms, self._planned[1], rewards,
                    np.int32(place), np.int32(place + len(now)), carry,
                )  # fmt: skip
                chosen.append(np.asarray(actions)[place : place + len(now)])
                number += len(now)
        actions = np.concatenate(chosen)
        epoch = self._epoch(np.array([number - 1]))
        self._refuse(actions, carry, int(epoch.start[0]))
        end = int(epoch.start[0] + epoch.length[0])
        return Decision(number, end, int(actions[-1]), carry), actions

    def _refuse(self, actions: np.ndarray, carry: Carry, rounds: int) -> None:
        refuse_nan(self._policy, carry.policy, np.array([self._seed]), rounds)
        wrong = actions[(actions < 0) | (actions >= len(self.arms))]
        if len(wrong):
            raise ValueError(
                f"policy {self._policy.name!r} chose action {wrong[0]}; its act must return the index of "
                f"one of {len(self.arms)}, counted from 0"
            )

    def _fingerprint(self) -> dict[str, str]:
        """What tells the numbers of a run from those of another."""
        ends = [0, (self._count - 1) // BLOCK]
        parts = {
            "actions": self.arms,
            "params": self._params,
            "epochs": self._epochs,
            "plans": [self._plan(block).plan for block in ends],
        }
        return {name: digest(part, NEARLY) for name, part in parts.items()}

    def _epoch(self, numbers: np.ndarray) -> Epoch:
        found, *_ = expand(self._segments, numbers)
        return Epoch(found.epoch, found.epoch_start, found.epoch_length)

    def _plan(self, block: int) -> Epoch:
        """A block of epochs. A plan is always made for whole blocks, lest rounding depend on which part."""
        first = block * BLOCK
        epoch = self._epoch(np.arange(first, min(first + BLOCK, self._count)))
        plan = plan_ahead([self._policy], self._horizon, self.arms, epoch)
        missing = BLOCK - len(epoch.index)

        def padded(column: np.ndarray) -> np.ndarray:
            return _cast(np.pad(column, [(0, missing)] + [(0, 0)] * (column.ndim - 1)))

        return jax.tree.map(padded, epoch._replace(plan=plan))


@contextmanager
def _alone() -> Iterator[None]:
    """JAX's settings for a single run: in float64, on the CPU."""
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),  # a trailing axis of lanes relies on it
        jax.default_device(jax.local_devices(backend="cpu")[0]),
    ):
        yield


@partial(jax.jit, static_argnums=0)
def _start(policy: Policy, lanes: scan.Lanes, arms: Array, epochs: Epoch) -> Carry:
    learner = scan.over_lanes(policy)
    return Carry(
        policy=learner.init(lanes.params, arms[..., None], scan.stream(lanes, 2)),
        action=jnp.zeros(1, jnp.int32),
        epoch=jax.tree.map(lambda column: column[0], epochs),
    )


@partial(jax.jit, static_argnums=0)
def _advance(
    policy: Policy, lanes: scan.Lanes, arms: Array, epochs: Epoch, rewards: Array, first: Array,
    end: Array, carry: Carry,
) -> tuple[Carry, Array]:  # fmt: skip
    """Learn from what was seen before each of the epochs first..end−1, and decide for it."""
    learner = scan.over_lanes(policy)
    key = jax.random.key_data(scan.stream(lanes, 1)).T

    def step(i: Array, before: tuple[Carry, Array]) -> tuple[Carry, Array]:
        carry, actions = before
        last, total = rewards[i, 0, None], rewards[i, 1, None]
        feedback = Feedback(
            carry.action,
            arms.T[:, carry.action],
            last if "last" in policy.feedback else None,
            total if "total" in policy.feedback else None,
            carry.epoch.length,
            carry.epoch.plan,
            arms[..., None],
        )
        learned = learner.update(lanes.params, carry.policy, feedback)
        scan.check_state(learned, carry.policy)
        epoch = jax.tree.map(lambda column: column[i], epochs)
        state = jax.tree.map(
            lambda new, old: jnp.where(epoch.index > 1, new.astype(old.dtype), old),
            learned, carry.policy,
        )  # fmt: skip
        # A run that records its rewards counts rounds, and so do its random numbers.
        uniforms = random.uniforms(key, epoch.start, 1, policy.uniforms, arms.dtype)[0]
        chosen = learner.act(
            lanes.params, arms[..., None], state, epoch._replace(uniforms=uniforms)
        )
        action = jnp.broadcast_to(jnp.asarray(chosen, jnp.int32), (1,))
        return Carry(state, action, epoch), actions.at[i].set(action[0])

    return jax.lax.fori_loop(first, end, step, (carry, jnp.zeros(BLOCK, jnp.int32)))
