"""The compiled pass: one scan step per segment, all runs side by side in the trailing axis.

Everything here is a pure function of arrays. The functions of a policy are written for one run and
mapped over the lanes (runs) inside the scan's body, so that arrays are (…, lanes) throughout.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dlbjax._arrays import Array
from dlbjax.policies.policy import Epoch, Feedback, Policy

BLOCK = 256  # segments whose random numbers are drawn together; part of what a seed means


class Sum(NamedTuple):
    """A compensated running sum: exact to rounding of the result, in float32 too."""

    value: Array
    error: Array

    def add(self, term: Array) -> "Sum":
        """Neumaier's variant of Kahan's summation."""
        value = self.value + term
        larger = jnp.abs(self.value) >= jnp.abs(term)
        lost = jnp.where(larger, (self.value - value) + term, (term - value) + self.value)
        return Sum(value, self.error + lost)

    @property
    def result(self) -> Array:
        """The sum."""
        return self.value + self.error


class Maps(NamedTuple):
    """The noise-free system over a segment of L rounds; in a table, one row per length."""

    power: Array  # (n, n) A^L
    response: Array  # (n, d) Σ_{k<L} A^k B
    last_state: Array  # (n,) (A^{L−1})ᵀω, from the state at the start to the last reward
    last_action: Array  # (d,) h^{[0,L−1]}, from the action to the last reward
    sum_state: Array  # (n,) Σ_{k<L} (A^k)ᵀω, from the state to the sum of rewards
    sum_action: Array  # (d,) Σ_{k<L} h^{[0,k]}, from the action to the sum of rewards


class Gains(NamedTuple):
    """How a segment's m normals enter (see engine.noise); in a table, one row per kind."""

    K: Array  # (n, m) the predicted state
    g: Array  # (m,) the last reward
    k: Array  # (m,) the sum of rewards


class World(NamedTuple):
    """What all lanes share."""

    maps: Maps
    gains: Gains
    transient: Array  # (n,) (I − A)⁻ᵀω, from the shadow state to expected minus offline regret
    x1: Array  # (n,) initial state
    arms: Array  # (K, d) actions to choose among
    gaps: Array  # (K,) J* − J(u) of each


class Lanes(NamedTuple):
    """What distinguishes the runs."""

    noise_key: Array  # (lanes,)
    policy_key: Array  # (lanes,)
    configuration: Array  # (lanes,) which of the group's policies each run follows
    params: Any  # pytree of (…, lanes)


class Steps(NamedTuple):
    """A stretch of segments, BLOCK at a time: every leaf is (blocks, BLOCK, …)."""

    length: Array
    map: Array  # row of the maps over a segment of that length
    noise: Array  # row of the noise law
    starts: Array
    ends: Array
    slot: Array
    index: Array
    start: Array
    epoch_length: Array
    plan: Any  # leaves (blocks, BLOCK, …, configurations)
    given: Array = None  # (blocks, BLOCK, m, lanes) noise to replay instead of drawing it


class Carry(NamedTuple):
    """The state of all runs between two segments."""

    policy: Any  # the policy's own state
    action: Array  # (lanes,) arm being played
    shadow: Array  # (n, lanes) z
    disturbance: Array  # (n, lanes) ŵ, what is known of the noise's part of the state
    offline: Sum  # Σ (J* − J(u_t))
    noise: Sum  # Σ v_t, as far as known
    total: Array  # (lanes,) sum of rewards since the epoch began
    reports: Array  # (C + 1, 3, lanes) realised, expected and offline regret; the last row is waste


def start(policy: Policy, world: World, lanes: Lanes, reports: int) -> Carry:
    """Every run before its first round."""
    count = lanes.configuration.shape[0]
    dtype = world.gaps.dtype
    zeros = jnp.zeros(count, dtype)
    init = jax.vmap(policy.init, in_axes=(-1, None, 0), out_axes=-1)
    states = jax.tree.map(jnp.asarray, init(lanes.params, world.arms, lanes.policy_key))
    return Carry(
        policy=states,
        action=jnp.zeros(count, jnp.int32),
        shadow=jnp.tile(world.x1[:, None], (1, count)),
        disturbance=jnp.zeros((world.x1.shape[0], count), dtype),
        offline=Sum(zeros, zeros),
        noise=Sum(zeros, zeros),
        total=zeros,
        reports=jnp.zeros((reports + 1, 3, count), dtype),
    )


def advance(
    policy: Policy, record: tuple[str, ...], world: World, lanes: Lanes, carry: Carry,
    steps: Steps, first_block: Array,
) -> tuple[Carry, dict[str, Array]]:  # fmt: skip
    """Run all lanes through a stretch of segments; returns the carry and what is recorded."""
    m = world.gains.g.shape[1]
    dtype = world.gaps.dtype

    def block(before: tuple[Carry, Array], steps: Steps) -> tuple[tuple[Carry, Array], Any]:
        carry, number = before
        noise = steps.given
        if noise is None:
            noise = _draw(jax.random.normal, lanes.noise_key, number, (BLOCK, m), dtype)
        uniforms = _draw(
            jax.random.uniform, lanes.policy_key, number, (BLOCK, policy.uniforms), dtype
        )
        inputs = (steps._replace(given=None), noise, uniforms)
        segment = partial(_segment, policy, record, world, lanes)
        carry, seen = jax.lax.scan(segment, carry, inputs)
        return (carry, number + 1), seen

    (carry, _), seen = jax.lax.scan(block, (carry, first_block), steps)
    return carry, seen


def _draw(sampler: Any, keys: Array, block: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Random numbers of a block, (…shape, lanes), from each lane's own key and the block's number."""
    return jax.vmap(lambda key: sampler(jax.random.fold_in(key, block), shape, dtype), out_axes=-1)(
        keys
    )


def _segment(
    policy: Policy, record: tuple[str, ...], world: World, lanes: Lanes, carry: Carry, inputs: Any
) -> tuple[Carry, dict[str, Array]]:
    step, noise, uniforms = inputs
    # What depends on time only is looked up once, not per lane.
    maps = jax.tree.map(lambda table: table[step.map], world.maps)
    gains = jax.tree.map(lambda table: table[step.noise], world.gains)
    plan = jax.tree.map(lambda leaf: leaf[..., lanes.configuration], step.plan)
    lane = partial(_lane_segment, policy, record, world, maps, gains, step._replace(plan=None))
    reports = carry.reports
    carry, regrets, seen = jax.vmap(lane, in_axes=-1, out_axes=-1)(
        carry._replace(reports=None), lanes.params, plan, noise, uniforms
    )
    # Not `.at[].set`, which becomes a scatter and took as long as the rest of the step.
    reports = jax.lax.dynamic_update_index_in_dim(reports, regrets, step.slot, 0)
    return carry._replace(reports=reports), seen


def _lane_segment(
    policy: Policy, record: tuple[str, ...], world: World, maps: Maps, gains: Gains, step: Steps,
    carry: Carry, params: Any, plan: Any, e: Array, uniforms: Array,
) -> tuple[Carry, Array, dict[str, Array]]:  # fmt: skip
    """One run through one segment."""
    epoch = Epoch(step.index, step.start, step.epoch_length, plan, uniforms)
    chosen = jnp.asarray(policy.act(params, world.arms, carry.policy, epoch), jnp.int32)
    action = jnp.where(step.starts, chosen, carry.action)
    u = world.arms[action]
    z, w = carry.shadow, carry.disturbance

    last = maps.last_state @ (z + w) + maps.last_action @ u + gains.g @ e
    noise_sum = maps.sum_state @ w + gains.k @ e
    total = None
    if "total" in policy.feedback:
        before = jnp.where(step.starts, 0, carry.total)
        total = before + maps.sum_state @ z + maps.sum_action @ u + noise_sum
    feedback = Feedback(
        action, u, last if "last" in policy.feedback else None, total, step.epoch_length
    )
    updated = policy.update(params, carry.policy, feedback)

    carry = carry._replace(
        policy=jax.tree.map(lambda new, old: jnp.where(step.ends, new, old), updated, carry.policy),
        action=action,
        shadow=maps.power @ z + maps.response @ u,
        disturbance=maps.power @ w + gains.K @ e,
        offline=carry.offline.add(world.gaps[action] * step.length.astype(world.gaps.dtype)),
        noise=carry.noise.add(noise_sum),
        total=carry.total if total is None else total,
    )
    offline = carry.offline.result
    expected = offline + world.transient @ (carry.shadow - world.x1)
    realised = expected - carry.noise.result
    seen = {"actions": action, "rewards": last, "states": z + w}
    return carry, jnp.stack([realised, expected, offline]), {name: seen[name] for name in record}
