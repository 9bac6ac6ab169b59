"""A function of one run with every number of a run as a vector: what `jax.vmap` gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from dlbjax.engine.spelled import Spelled, TooLongError
from dlbjax.engine.vectors import (
    from_vectors,
    to_vectors,
)
from tests.engine.test_mapping import FUNCTIONS as OF_MAPPING

RUNS = 5

FUNCTIONS = OF_MAPPING | {
    "several outputs of what is known": lambda own, shared: threefry_2x32(
        (jnp.uint32(1), jnp.uint32(2)), jnp.stack(2 * [0 * own["index"]]).astype(jnp.uint32)
    ),
    "an entry at an index beyond": lambda own, shared: (
        own["vector"].at[own["index"] + 2].get(mode="fill"),
        own["vector"].at[own["index"] + 2].get(mode="clip"),
    ),
    "a window": lambda own, shared: jax.lax.dynamic_slice(own["matrix"], (own["index"], 1), (2, 2)),
    "a window that is set": lambda own, shared: jax.lax.dynamic_update_slice(
        own["matrix"], shared["matrix"][:2, :2], (own["index"], 0)
    ),
    "rows of a matrix": lambda own, shared: own["matrix"][jnp.stack([own["index"], 1 - own["index"]])],
    "entries that are added to": lambda own, shared: (
        own["matrix"].at[own["index"]].add(own["vector"]),
        jnp.sign(own["vector"]).astype(int).at[own["index"]].add(1),
        own["vector"].at[own["index"] + 2].set(9.0, mode="drop"),
        own["vector"].at[jnp.stack([own["index"], own["index"]])].add(1.0),
    ),
    "an inverse": lambda own, shared: jnp.linalg.inv(own["matrix"]),
    "a determinant": lambda own, shared: jnp.linalg.slogdet(own["matrix"]),
    "a Cholesky factor": lambda own, shared: jnp.linalg.cholesky(
        own["matrix"] @ own["matrix"].T + jnp.eye(3)
    ),
    "triangular systems": lambda own, shared: tuple(
        jax.lax.linalg.triangular_solve(
            own["matrix"] + 3 * jnp.eye(3), own["matrix"],
            left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit,
        )
        for left in (True, False) for lower in (True, False)
        for transposed in (True, False) for unit in (True, False)
    ),
    "products of matrices": lambda own, shared: jnp.einsum(
        "ij,kj,k->i", own["matrix"], shared["matrix"], own["vector"]
    ),
    "a product of stacks": lambda own, shared: jnp.stack([own["matrix"]] * 2)
    @ jnp.stack([shared["matrix"]] * 2),
    "reductions": lambda own, shared: (
        jnp.max(own["matrix"], axis=1), jnp.prod(own["matrix"]), jnp.any(own["matrix"] > 0, axis=0),
        jnp.argmin(own["matrix"], axis=0), jnp.cumprod(own["matrix"], axis=1),
        jax.lax.cummax(own["vector"], reverse=True),
    ),
    "the first NaN": lambda own, shared: jnp.argmax(own["vector"].at[1].set(jnp.nan)),
    "shapes": lambda own, shared: (
        jnp.pad(own["matrix"], ((1, 0), (0, 2)), constant_values=7.0), jnp.flip(own["matrix"], 1),
        own["matrix"].T.reshape(-1)[::2], jnp.tile(own["vector"], 2), jnp.roll(own["vector"], 1),
        jnp.concatenate([own["matrix"], shared["matrix"]]), jnp.unstack(own["matrix"], axis=1),
        jnp.split(own["matrix"], [1], axis=1),
    ),
    "several branches": lambda own, shared: jax.lax.switch(
        own["index"], [jnp.sin, jnp.cos, jnp.tanh], own["vector"]
    ),
    "a loop that collects": lambda own, shared: jax.lax.scan(
        lambda total, x: (total + x, total * x), own["number"], own["vector"], reverse=True
    ),
}  # fmt: skip
ON_ARRAYS = {"sums and searches": {"sort"}, "random numbers": {"random_seed", "random_bits"}}


def numbers():
    rng = np.random.default_rng(0)
    own = {
        "number": jnp.asarray(rng.normal(size=RUNS), jnp.float32),
        "vector": jnp.asarray(rng.normal(size=(3, RUNS)), jnp.float32),
        "matrix": jnp.asarray(rng.normal(size=(3, 3, RUNS)), jnp.float32),
        "index": jnp.asarray([0, 1, 2, 1, 0], jnp.int32),
    }
    shared = {
        "vector": jnp.asarray(rng.normal(size=3), jnp.float32),
        "matrix": jnp.asarray(rng.normal(size=(3, 3)), jnp.float32),
    }
    of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), own)
    return own, shared, of_one


@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_what_vmap_gives(name):
    own, shared, of_one = numbers()
    function, on_arrays = FUNCTIONS[name], []

    @jax.jit
    def spelled(own, shared):
        speller = Spelled(function, of_one, shared)
        vectors = speller(to_vectors(own))
        on_arrays.append(speller.on_arrays)
        return from_vectors(vectors, speller.answer, RUNS)

    found = spelled(own, shared)
    expected = jax.vmap(function, (-1, None), -1)(own, shared)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected
    )
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    assert on_arrays[0] == ON_ARRAYS.get(name, set())


def test_what_is_too_long_is_not_spelled_out():
    own, shared, of_one = numbers()
    spelled = Spelled(lambda own, shared: own["matrix"] @ own["matrix"], of_one, shared)
    spelled(to_vectors(own), most=42)
    assert spelled.operations == 42  # 3 of 27 products and 18 sums are of the same numbers
    with pytest.raises(TooLongError):
        spelled(to_vectors(own), most=41)


def test_what_is_known_is_not_computed():
    """0·x, 1·x, x + 0, x − 0, x/1, a choice between equals, and what was computed before."""
    own, _, of_one = numbers()
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)

    def function(own, shared):
        x = own["vector"]
        return (
            zero * x, x * one, zero + x, x - zero, x / one, zero - x, one / x,
            jnp.where(x > 0, zero, np.float32(0)), x * own["number"] + own["number"] * x,
        )  # fmt: skip

    spelled = Spelled(function, of_one, ())
    found = from_vectors(spelled(to_vectors(own)), spelled.answer, RUNS)
    expected = jax.vmap(function, (-1, None), -1)(own, ())
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert spelled.operations == 3 * (1 + 1 + 1 + 2)  # the sixth, seventh, comparison, last two


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9])
def test_every_entry_can_be_looked_up(count):
    """One choice for each bit of the index, also where the number of entries is no power of two."""
    own = {
        "table": jnp.asarray(np.random.default_rng(0).normal(size=(count, count)), jnp.float32),
        "index": jnp.arange(count),
    }
    of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), own)
    spelled = Spelled(lambda own, shared: own["table"][own["index"]], of_one, ())
    (found,) = spelled(to_vectors(own))
    np.testing.assert_array_equal(found, np.diag(own["table"]))
    bits = (count - 1).bit_length()
    assert spelled.operations <= (count - 1) + 2 * bits + 4  # choices, bits, the index in its range
