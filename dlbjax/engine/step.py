"""All runs through one segment: decide, play, observe, learn.

Pure functions. The policy's are of one run and are mapped over the runs; the system plays all of them at
once, one column each. With Z the noise-free shadow states, driven by the actions U, and W = X − Z what
the noise adds, a segment of L rounds is

    y_last = ωᵀA^{L−1}(Z + W) + h^{[0,L−1]}ᵀU + noise,      Z ← A^L Z + Σ_{k<L} A^k B U,

and W and the noise follow the recursion of `engine.noise`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.engine.keys import hide_keys, show_keys
from dlbjax.engine.mapping import over_runs
from dlbjax.policies.base import Epoch, Feedback, Policy
from dlbjax.policies.small import Sum, matmul


class Maps(NamedTuple):
    """The noise-free system over a segment of L rounds; in a table, one row per length."""

    power: Array  # (n, n) A^L
    response: Array  # (n, d) Σ_{k<L} A^k B
    last_state: Array  # (n,) (A^{L−1})ᵀω, from the state at the start to the last reward
    last_action: Array  # (d,) h^{[0,L−1]}, from the action to the last reward
    sum_state: Array  # (n,) Σ_{k<L} (A^k)ᵀω, from the state to the sum of rewards
    sum_action: Array  # (d,) Σ_{k<L} h^{[0,k]}, from the action to the sum of rewards


class Gains(NamedTuple):
    """How a segment's m normals enter (see `engine.noise`); in a table, one row per kind."""

    K: Array  # (n, m) the predicted state
    g: Array  # (m,) the last reward
    k: Array  # (m,) the sum of rewards


class Tables(NamedTuple):
    """What all runs of a pass share."""

    maps: Maps
    gains: Gains
    transient: Array  # (n,) (I − A)⁻ᵀω, from the shadow state to expected minus offline regret
    x1: Array  # (n,) initial state
    arms: Array  # (K, d) actions to choose among
    gaps: Array  # (K,) J* − J(u) of each


class Runs(NamedTuple):
    """What distinguishes the runs of a pass, but for their random numbers."""

    configuration: Array  # (runs,) which of the group's policies each follows
    params: Any  # that policy's params, leaves (…, runs)


class Moment(NamedTuple):
    """Where in the run a segment is: the same for all runs."""

    length: Array  # rounds of the segment
    starts: Array  # whether an epoch starts with it
    ends: Array  # whether one ends with it
    slot: Array  # row of the reports to write after it
    epoch: Array  # number of the epoch
    start: Array  # rounds completed before the epoch
    epoch_length: Array  # rounds of the epoch
    plan: Any  # what the policies planned for the epoch, leaves (…, configurations)


class Carry(NamedTuple):
    """The state of all runs between two segments; leaves (…, runs)."""

    policy: Any  # the policy's own state, its typed keys as numbers
    action: Array  # (runs,) arm being played
    shadow: Array  # (n, runs) Z
    disturbance: Array  # (n, runs) Ŵ, what is known of the noise's part of the state
    offline: Sum  # (runs,) Σ (J* − J(u_t))
    noise: Sum  # (runs,) Σ v_t, as far as known
    total: Array  # (runs,) sum of rewards since the epoch began


class Added(NamedTuple):
    """What the noise adds to what a segment shows."""

    state: Array  # (n, runs) Ŵ before it
    last: Array  # (runs,) to its last reward, besides what that state adds
    total: Array  # (runs,) to the sum of its rewards


def start(policy: Policy, tables: Tables, runs: Runs, keys: Array, over: Any = over_runs) -> Carry:
    """All runs before their first round; `over` as in `step`."""
    count = len(runs.configuration)

    def init(own: tuple[Any, Array], arms: Array) -> Any:
        return initial(policy, own[0], arms, own[1])

    zeros = jnp.zeros(count, tables.gaps.dtype)
    return Carry(
        policy=over(init, (runs.params, keys), tables.arms),
        action=jnp.zeros(count, jnp.int32),
        shadow=jnp.tile(tables.x1[:, None], (1, count)),
        disturbance=jnp.zeros((len(tables.x1), count), tables.gaps.dtype),
        offline=Sum.of(zeros),
        noise=Sum.of(zeros),
        total=zeros,
    )


def step(
    policy: Policy, tables: Tables, maps: Maps, gains: Gains, now: Moment, runs: Runs,
    carry: Carry, E: Array, uniforms: Array, over: Any = over_runs,
) -> tuple[Carry, dict[str, Any]]:  # fmt: skip
    """All runs through one segment: their carry, and what may be recorded.

    E is (m, runs) normals, `uniforms` (policy.uniforms, runs); `over` maps a function of one run, as
    `over_runs` does.
    """
    chex.assert_shape(E, (len(gains.g), len(runs.configuration)))
    W, noise, added = disturb(maps, gains, carry.disturbance, carry.noise, E)
    after, seen = play(policy, tables, maps, now, runs, carry, added, uniforms, over)
    return after._replace(disturbance=W, noise=noise), seen


def disturb(maps: Maps, gains: Gains, W: Array, noise: Sum, E: Array) -> tuple[Array, Sum, Added]:
    """Ŵ and Σ v_t after a segment, which no action changes, and what they add to its rewards."""
    added = Added(W, row(gains.g, E), row(maps.sum_state, W) + row(gains.k, E))
    return matmul(maps.power, W) + matmul(gains.K, E), noise.add(added.total), added


def play(
    policy: Policy, tables: Tables, maps: Maps, now: Moment, runs: Runs, carry: Carry, added: Added,
    uniforms: Array, over: Any = over_runs,
) -> tuple[Carry, dict[str, Any]]:  # fmt: skip
    """Decide, play, observe and learn, given what the noise adds."""
    Z, W = carry.shadow, added.state
    chex.assert_shape([Z, W], (len(tables.x1), len(runs.configuration)))

    plan = jax.tree.map(lambda leaf: leaf[..., runs.configuration], now.plan)

    def choose(own: tuple[Any, Any, Any, Array], shared: tuple[Array, Moment]) -> Array:
        (params, state, plan, uniforms), (arms, now) = own, shared
        epoch = Epoch(now.epoch, now.start, now.epoch_length, plan, uniforms)
        return decide(policy, params, arms, state, epoch)

    chosen = over(
        choose, (runs.params, carry.policy, plan, uniforms), (tables.arms, now._replace(plan=None))
    )
    action = jnp.where(now.starts, chosen, carry.action)
    U = tables.arms.T[:, action]

    last = row(maps.last_state, Z + W) + row(maps.last_action, U) + added.last
    total = carry.total
    if "total" in policy.feedback:
        before = jnp.where(now.starts, 0, carry.total)
        total = before + row(maps.sum_state, Z) + row(maps.sum_action, U) + added.total

    def observe(own: tuple[Any, Any, Feedback], shared: tuple[Array, Array]) -> Any:
        (params, state, feedback), (length, arms) = own, shared
        return learn(policy, params, state, feedback._replace(length=length, vertices=arms))

    feedback = Feedback(action, U, last, total, None, plan)  # type: ignore[arg-type]
    learned = over(observe, (runs.params, carry.policy, feedback), (now.epoch_length, tables.arms))

    # An index that is no arm's makes the regret NaN, which is rejected in the end.
    gap = jnp.where((action >= 0) & (action < len(tables.gaps)), tables.gaps[action], jnp.nan)
    after = carry._replace(
        policy=jax.tree.map(lambda new, old: jnp.where(now.ends, new, old), learned, carry.policy),
        action=action,
        shadow=matmul(maps.power, Z) + matmul(maps.response, U),
        offline=carry.offline.add(gap * now.length.astype(gap.dtype)),
        total=total,
    )
    return after, {"actions": action, "rewards": last, "states": Z + W}


def regrets(tables: Tables, carry: Carry) -> jax.Array:
    """Realised, expected and offline regret, (3, runs)."""
    offline, noise = carry.offline.value, carry.noise.value
    expected = offline + row(tables.transient, carry.shadow - tables.x1[:, None])
    return jnp.stack([expected - noise, expected, offline])


def alone(function: Callable[[Any, Any], Any], own: Any, shared: Any) -> Any:
    """`over_runs` of a single run, as its own function: nothing is mapped."""
    answer = function(jax.tree.map(lambda leaf: leaf[..., 0], own), shared)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], answer)


def row(weights: Array, columns: Array) -> Array:
    """wᵀX, (runs,), for w (a,) and X (a, runs)."""
    # A reduction, because XLA computes sums written out anew for everything that uses them.
    return jnp.sum(weights[:, None] * columns, axis=0)


def initial(policy: Policy, params: Any, arms: Array, key: Array) -> Any:
    """The policy's first state, its typed keys as numbers."""
    with _explained(policy, "init"):
        return jax.tree.map(jnp.asarray, hide_keys(policy.init(params, arms, key)))


def decide(policy: Policy, params: Any, arms: Array, state: Any, epoch: Epoch) -> Array:
    """The index of the arm that the policy plays in an epoch."""
    with _explained(policy, "act"):
        chosen = jnp.asarray(policy.act(params, arms, show_keys(state), epoch))
    if chosen.shape != () or not jnp.issubdtype(chosen.dtype, jnp.integer):
        raise ValueError(
            f"act of policy {policy.name!r} must return the index of one vertex, a whole number; got "
            f"shape {chosen.shape} of {chosen.dtype}. To play a vector, list it in `arms` of a Schedule"
        )
    return chosen.astype(jnp.int32)


def learn(policy: Policy, params: Any, state: Any, feedback: Feedback) -> Any:
    """The policy's state after an epoch of which it observes what it asks for."""
    seen: dict[str, Any] = {name: None for name in ("last", "total") if name not in policy.feedback}
    before = show_keys(state)
    with _explained(policy, "update"):
        updated = policy.update(params, before, feedback._replace(**seen))
    was, now = (jax.tree.map(lambda leaf: f"{jnp.shape(leaf)}", tree) for tree in (before, updated))
    if was != now:
        raise ValueError(
            f"update of policy {policy.name!r} must return a state of the structure and shapes that init "
            f"made, {was}; got {now}"
        )

    def same_dtype(new: Array, old: Array) -> Array:
        new = jnp.asarray(new)
        if not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise ValueError(
                f"init of policy {policy.name!r} made {old.dtype} numbers, its update returns {new.dtype}"
            )
        return new.astype(old.dtype)

    return jax.tree.map(same_dtype, hide_keys(updated), state)


@contextmanager
def _explained(policy: Policy, function: str) -> Iterator[None]:
    """Errors that JAX raises in the user's function, with what to do."""
    where = f"{function} of policy {policy.name!r}"
    try:
        yield
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise ValueError(
            f"{where} uses a number of the run where Python or NumPy must know it (an `if`, `int`, "
            "`float`, a NumPy function); use jnp.where, jax.lax.cond and jax.numpy there"
        ) from error
    except (TypeError, AttributeError) as error:
        missing = {"last", "total"} - set(policy.feedback)
        if function == "update" and missing and "NoneType" in str(error):
            raise ValueError(
                f"{where} uses feedback that the policy does not observe; add "
                f"{' or '.join(sorted(missing))} to its `feedback`, now {policy.feedback}"
            ) from error
        raise
