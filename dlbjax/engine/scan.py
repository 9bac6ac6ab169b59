"""The compiled pass: one scan step per segment, all runs side by side in the trailing axis.

Everything here is a pure function of arrays. The functions of a policy are written for one run and
mapped over the lanes (runs) inside the scan's body, so that arrays are (…, lanes) throughout.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax._arrays import Array
from dlbjax._small import Sum, dot, matvec
from dlbjax.engine import random
from dlbjax.policies.policy import Epoch, Feedback, Policy

BLOCK = 256  # segments whose random numbers are drawn together


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

    key: Array  # (lanes,) made from the seeds
    configuration: Array  # (lanes,) which of the group's policies each run follows
    params: Any  # pytree of (…, lanes)


class Moment(NamedTuple):
    """Where in the run a segment is: the same for all lanes."""

    length: Array  # rounds of the segment
    starts: Array  # whether an epoch starts
    ends: Array  # whether one ends
    slot: Array  # row of the reports to write
    index: Array  # number of the epoch
    start: Array  # rounds completed before it
    epoch_length: Array  # its rounds
    plan: Any  # what the policies planned for it, leaves (…, configurations)


class Steps(NamedTuple):
    """A stretch of segments, BLOCK at a time: every leaf is (blocks, BLOCK, …)."""

    map: Array  # row of the maps over a segment of that length
    gain: Array  # row of the gains
    moment: Moment
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
    return Carry(
        policy=over_lanes(policy).init(lanes.params, world.arms[..., None], stream(lanes, 2)),
        action=jnp.zeros(count, jnp.int32),
        shadow=jnp.tile(world.x1[:, None], (1, count)),
        disturbance=jnp.zeros((world.x1.shape[0], count), dtype),
        offline=Sum.of(jnp.zeros(count, dtype)),
        noise=Sum.of(jnp.zeros(count, dtype)),
        total=jnp.zeros(count, dtype),
        reports=jnp.zeros((reports + 1, 3, count), dtype),
    )


def advance(
    policy: Policy, record: tuple[str, ...], world: World, lanes: Lanes, carry: Carry,
    steps: Steps, first: Array,
) -> tuple[Carry, dict[str, Array]]:  # fmt: skip
    """Run all lanes through a stretch of segments; returns the carry and what is recorded."""
    m = world.gains.g.shape[1]
    dtype = world.gaps.dtype
    noise_key, policy_key = (jax.random.key_data(stream(lanes, i)).T for i in (0, 1))

    def block(before: tuple[Carry, Array], steps: Steps) -> tuple[tuple[Carry, Array], Any]:
        carry, number = before
        noise = steps.given
        if noise is None:
            noise = random.normals(noise_key, number, BLOCK, m, dtype)
        uniforms = random.uniforms(policy_key, number, BLOCK, policy.uniforms, dtype)
        maps = jax.tree.map(lambda table: table[steps.map], world.maps)
        gains = jax.tree.map(lambda table: table[steps.gain], world.gains)
        rows, unpack = _pack((maps, gains, steps.moment), dtype)

        def segment(carry: Carry, inputs: Any) -> tuple[Carry, dict[str, Array]]:
            rows, e, uniforms = inputs
            maps, gains, now = unpack(rows)
            return _segment(policy, record, world, lanes, carry, maps, gains, now, e, uniforms)

        carry, seen = jax.lax.scan(segment, carry, (rows, noise, uniforms))
        return (carry, number + BLOCK), seen

    (carry, _), seen = jax.lax.scan(block, (carry, first), steps)
    return carry, seen


def constants(program: Any) -> list[Array]:
    """Arrays that are part of a program, those of its inner programs included."""
    found = list(getattr(program, "consts", []))
    for inner in inner_programs(getattr(program, "jaxpr", program)):
        found += constants(inner)
    return found


def inner_programs(jaxpr: Any) -> Iterator[Any]:
    """The programs that operations of a program run: bodies of loops, branches, calls."""
    for equation in jaxpr.eqns:
        values = list(equation.params.values())
        for value in jax.tree.leaves(values, is_leaf=lambda value: hasattr(value, "jaxpr")):
            if hasattr(getattr(value, "jaxpr", value), "eqns"):
                yield value


def stream(lanes: Lanes, number: int) -> Array:
    """Keys of the lanes for one of the uses a run has for random numbers."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(lanes.key)


def _pack(tree: Any, dtype: Any) -> tuple[tuple[Array, Array], Any]:
    """A pytree of (BLOCK, …) arrays as two, of floats and of whole numbers, and what unpacks a row.

    A scan slices each array it runs over once a step: two slices instead of twenty.
    """
    leaves, structure = jax.tree.flatten(tree)
    shapes = [leaf.shape[1:] for leaf in leaves]
    dtypes = [leaf.dtype for leaf in leaves]
    is_float = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def packed(kind: bool, dtype: Any) -> Array:
        flat = [leaf.reshape(BLOCK, -1).astype(dtype)
                for leaf, this in zip(leaves, is_float, strict=True) if this is kind]  # fmt: skip
        return jnp.concatenate(flat, axis=1)

    def unpack(rows: tuple[Array, Array]) -> Any:
        used = {True: 0, False: 0}
        parts = []
        for shape, dtype, kind in zip(shapes, dtypes, is_float, strict=True):
            first, size = used[kind], math.prod(shape)
            row = rows[0 if kind else 1][first : first + size]
            parts.append(row.reshape(shape).astype(dtype))
            used[kind] = first + size
        return jax.tree.unflatten(structure, parts)

    return (packed(True, dtype), packed(False, jnp.int32)), unpack


def over_lanes(policy: Policy) -> Policy:
    """The policy with functions of all lanes at once."""
    if policy.lanes:
        return policy
    over = partial(jax.vmap, out_axes=-1)

    def init(params: Any, arms: Array, keys: Array) -> Any:
        return over(policy.init, in_axes=(-1, None, 0))(params, arms[..., 0], keys)

    def act(params: Any, arms: Array, state: Any, epoch: Epoch) -> Array:
        axes = Epoch(None, None, None, -1, -1)
        return over(policy.act, in_axes=(-1, None, -1, axes))(params, arms[..., 0], state, epoch)

    def update(params: Any, state: Any, feedback: Feedback) -> Any:
        feedback = feedback._replace(vertices=feedback.vertices[..., 0])
        axes = Feedback(-1, -1, -1, -1, None, -1, None)
        return over(policy.update, in_axes=(-1, -1, axes))(params, state, feedback)

    return policy._replace(init=init, act=act, update=update)


def check_state(updated: Any, state: Any) -> None:
    """Refuse an `update` whose answer is not a state like the one `init` made."""
    was, now = (
        jax.tree.map(lambda leaf: "×".join(map(str, (1, *leaf.shape[:-1]))), tree)
        for tree in (state, updated)
    )
    if was != now:
        raise ValueError(
            "the policy's update must return a state of the structure and shapes that init made, "
            f"{was}; got {now}"
        )
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(updated), strict=True):
        if not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise ValueError(
                f"the policy's init made {old.dtype} numbers, its update returns {new.dtype}"
            )


def _segment(
    policy: Policy, record: tuple[str, ...], world: World, lanes: Lanes, carry: Carry, maps: Maps,
    gains: Gains, now: Moment, e: Array, uniforms: Array,
) -> tuple[Carry, dict[str, Array]]:  # fmt: skip
    """All runs through one segment."""
    maps, gains = jax.tree.map(lambda shared: shared[..., None], (maps, gains))
    arms, transient = world.arms[..., None], world.transient[:, None]
    learner = over_lanes(policy)
    z, w = carry.shadow, carry.disturbance

    plan = jax.tree.map(lambda leaf: leaf[..., lanes.configuration], now.plan)
    epoch = Epoch(now.index, now.start, now.epoch_length, plan, uniforms)
    chosen = learner.act(lanes.params, arms, carry.policy, epoch)
    action = jnp.where(now.starts, jnp.asarray(chosen, jnp.int32), carry.action)
    u = world.arms.T[:, action]

    last = dot(maps.last_state, z + w) + dot(maps.last_action, u) + dot(gains.g, e)
    noise_sum = dot(maps.sum_state, w) + dot(gains.k, e)
    total = None
    if "total" in policy.feedback:
        before = jnp.where(now.starts, 0, carry.total)
        total = before + dot(maps.sum_state, z) + dot(maps.sum_action, u) + noise_sum
    feedback = Feedback(
        action, u, last if "last" in policy.feedback else None, total, now.epoch_length, plan, arms
    )
    updated = learner.update(lanes.params, carry.policy, feedback)
    check_state(updated, carry.policy)

    # An index that is no arm's makes the regret NaN, which is refused in the end.
    gap = jnp.where((action >= 0) & (action < world.gaps.shape[0]), world.gaps[action], jnp.nan)
    offline = carry.offline.add(gap * now.length.astype(gap.dtype))
    noise = carry.noise.add(noise_sum)
    shadow = matvec(maps.power, z) + matvec(maps.response, u)
    expected = offline.value + dot(transient, shadow - world.x1[:, None])
    regrets = jnp.stack([expected - noise.value, expected, offline.value])
    carry = Carry(
        policy=jax.tree.map(
            lambda new, old: jnp.where(now.ends, new.astype(old.dtype), old), updated, carry.policy
        ),
        action=action,
        shadow=shadow,
        disturbance=matvec(maps.power, w) + matvec(gains.K, e),
        offline=offline,
        noise=noise,
        total=carry.total if total is None else total,
        # Not `.at[].set`, which becomes a scatter and takes as long as the rest of the step.
        reports=jax.lax.dynamic_update_index_in_dim(carry.reports, regrets, now.slot, 0),
    )
    seen = {"actions": action, "rewards": last, "states": z + w}
    return carry, {name: seen[name] for name in record}
