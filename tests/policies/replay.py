"""Playing a policy under given noise, and the random numbers a run is known to use."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry_2x32

import dlbjax as dlb
from dlbjax.policies.base import make_schedule

PROBLEMS = {"synthetic": dlb.problems.synthetic, "real_world": dlb.problems.real_world}


def rescheduled(policy, change):
    """The policy with another schedule: `change` of its own."""
    return policy._replace(prepare=lambda *given: change(policy.prepare(*given)))


def fields_of(bounds) -> dict:
    return {name: float(getattr(bounds, name)) for name in type(bounds).__dataclass_fields__}


def noise_for(problem, runs: int, horizon: int, seed: int = 0) -> dlb.Noise:
    rng = np.random.default_rng(seed)
    scale = problem.system.reward_noise
    return dlb.Noise(
        rng.normal(0, scale, (runs, horizon, problem.system.n)),
        rng.normal(0, scale, (runs, horizon)),
    )


def key_of(seed: int, stream: int):
    """Stream 1 of a run is for its decisions, 2 for the start of its policy."""
    return jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), stream)


def uniforms_of(seed: int, horizon: int) -> np.ndarray:
    """Number t is that of a decision made at round t (from 0): 52 bits, halfway between two steps."""
    counters = jnp.asarray(np.r_[np.arange(horizon), np.zeros(horizon)], jnp.uint32)
    words = np.asarray(threefry_2x32(jax.random.key_data(key_of(seed, 1)), counters), np.uint64)
    high, low = words[:horizon], words[horizon:]
    mantissa = (high << np.uint64(20)) | (low >> np.uint64(12))
    return mantissa.astype(np.float64) * 2.0**-52 + 2.0**-53


def order_of(seed: int, K: int) -> np.ndarray:
    return np.asarray(jax.random.permutation(key_of(seed, 2), K))


def assert_agrees(problem, policy, noise, loop) -> np.ndarray:
    """Plays as `loop(seed, eps, eta)` does, round by round; returns the actions (runs, T)."""
    runs, horizon = noise.reward.shape
    result = dlb.simulate(
        problem, policy, horizon, noise=noise, record=("actions", "rewards"), rounds=[horizon]
    )
    for seed in range(runs):
        run = loop(seed, noise.state[seed], noise.reward[seed])
        np.testing.assert_array_equal(result.actions[seed], run.actions)
        np.testing.assert_allclose(result.rewards[seed], run.rewards, rtol=1e-9, atol=1e-9)
    return result.actions


def start_of(problem, policy, horizon: int, dtype):
    """The policy's params, vertices and first state as the engine makes them, for one run."""
    params = make_schedule(policy, horizon, problem.actions).params
    dtypes = {"f": dtype, "i": np.int32}
    params = jax.tree.map(lambda x: jnp.asarray(x, dtypes[np.asarray(x).dtype.kind]), params)
    vertices = jnp.asarray(problem.actions.vertices, dtype)
    return params, vertices, policy.init(params, vertices, key_of(0, 2))


def decisions_along(problem, policy, actions, rewards, dtype) -> np.ndarray:
    """What a policy that decides every round would play at each round of a given history (T,)."""
    T = len(actions)
    start = np.arange(T, dtype=np.int32)
    epochs = dlb.Epoch(start + 1, start, np.ones_like(start))
    with jax.enable_x64(dtype == np.float64):
        params, vertices, state = start_of(problem, policy, T, dtype)
        schedule = make_schedule(policy, T, problem.actions)
        if schedule.plan is not None:
            plan = schedule.plan(epochs)
            epochs = epochs._replace(plan=jax.tree.map(lambda x: np.asarray(x, dtype), plan))

        def one_round(state, inputs):
            epoch, action, reward = inputs
            chosen = policy.act(params, vertices, state, epoch)
            seen = dlb.Feedback(action, vertices[action], reward, reward, epoch.length)
            return policy.update(params, state, seen), chosen

        history = (epochs, np.asarray(actions, np.int32), np.asarray(rewards, dtype))
        return np.asarray(jax.lax.scan(one_round, state, history)[1])
