"""A function of one run over all runs: what `jax.vmap` gives, with the runs last throughout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlbjax.engine.mapping import over_runs

RUNS = 5

FUNCTIONS = {
    "a number of a run and a vector of it": lambda own, shared: own["number"] * own["vector"],
    "a vector of a run and one of all": lambda own, shared: own["vector"] + shared["vector"],
    "an outer product": lambda own, shared: own["vector"][:, None] * own["vector"][None],
    "a choice by a number of a run": lambda own, shared: jnp.where(
        own["number"] > 0, own["vector"], shared["vector"]
    ),
    "an entry at an index of a run": lambda own, shared: own["vector"][own["index"]],
    "a row of what all share": lambda own, shared: shared["matrix"][own["index"]],
    "an entry that is set": lambda own, shared: own["vector"].at[own["index"]].set(0.0),
    "a shared matrix and a vector": lambda own, shared: shared["matrix"] @ own["vector"],
    "a vector and a shared matrix": lambda own, shared: own["vector"] @ shared["matrix"],
    "a product within a run": lambda own, shared: own["vector"] @ own["vector"],
    "a solution": lambda own, shared: jnp.linalg.solve(
        4 * jnp.eye(3) + shared["matrix"] * own["number"], own["vector"]
    ),
    "sums and searches": lambda own, shared: (
        jnp.cumsum(own["vector"]), jnp.argmax(own["vector"]), jnp.sort(own["vector"])
    ),
    "a function with a derivative of its own": lambda own, shared: jax.nn.relu(own["vector"]),
    "a loop": lambda own, shared: jax.lax.fori_loop(
        0, 3, lambda _, x: x * own["number"] + shared["vector"], own["vector"]
    ),
    "a branch": lambda own, shared: jax.lax.cond(
        own["number"] > 0, jnp.sin, jnp.cos, own["vector"]
    ),
    "random numbers": lambda own, shared: jax.random.normal(jax.random.key(own["index"]), (2,)),
    "what all runs share": lambda own, shared: (shared["matrix"], 1.0, own["index"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_what_vmap_gives(name):
    rng = np.random.default_rng(0)
    own = {
        "number": jnp.asarray(rng.normal(size=RUNS), jnp.float32),
        "vector": jnp.asarray(rng.normal(size=(3, RUNS)), jnp.float32),
        "index": jnp.asarray(rng.integers(3, size=RUNS), jnp.int32),
    }
    shared = {
        "vector": jnp.asarray(rng.normal(size=3), jnp.float32),
        "matrix": jnp.asarray(rng.normal(size=(3, 3)), jnp.float32),
    }
    function = FUNCTIONS[name]
    found = jax.jit(lambda own, shared: over_runs(function, own, shared))(own, shared)
    expected = jax.vmap(function, (-1, None), -1)(own, shared)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, expected
    )
    assert jax.tree.structure(found) == jax.tree.structure(expected)


def test_no_operation_puts_the_runs_in_front():
    """Whatever is computed on the way keeps the axis of the runs last."""

    def function(own, shared):
        index = own["estimate"] + own["radius"] * jnp.sqrt(own["square"])
        best = jnp.max(index)
        return jnp.min(jnp.where(index >= best, shared, 99.0))

    own = {
        "estimate": jnp.zeros((7, RUNS)), "square": jnp.ones((7, RUNS)), "radius": jnp.ones(RUNS)
    }  # fmt: skip
    program = jax.make_jaxpr(lambda own: over_runs(function, own, jnp.arange(7.0)))(own)
    shapes = {var.aval.shape for equation in program.jaxpr.eqns for var in equation.outvars}
    assert (7, RUNS) in shapes
    assert (RUNS, 7) not in shapes
    assert "transpose" not in str(program)
