"""The numbers of all runs as vectors, and what of them a loop carries."""

import jax
import jax.numpy as jnp

from dlbjax.engine.vectors import kept_numbers, pack_vectors, unpack_vectors


def test_vectors_survive_packing():
    with jax.enable_x64(True):
        dtypes = ["float32", "int32", "float64", "bool", "float32", "uint32", "float64", "float64"]
        vectors = [jnp.arange(i, i + 4).astype(dtype) for i, dtype in enumerate(dtypes)]
        vectors[0] = jnp.array([jnp.nan, -0.0, jnp.inf, 1e-45], jnp.float32)
        packed = pack_vectors(vectors)
        unpacked = unpack_vectors(packed, [vector.dtype for vector in vectors])
    assert [each.dtype for each in packed] == 3 * ["complex64"] + 2 * ["complex128"]
    for one, other in zip(unpacked, vectors, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def vectors(count):
    return [jnp.full(2, float(i)) for i in range(count)]


def test_a_symmetric_matrix_is_carried_once():
    diagonal, off, other = vectors(3)
    first = [diagonal, off, off, diagonal]  # V ← V + u uᵀ

    def step(V):
        product = other * other  # u₁u₂, the same object in both places
        return [V[0] + other, V[1] + product, V[2] + product, V[3] + product]

    def same_object(V):
        out = step(V)
        return [out[0], out[1], out[1] if V[1] is V[2] else out[2], out[3]]

    kept = kept_numbers(first, same_object)
    assert sorted(kept.places) == [0, 1, 3]  # the diagonal starts equal, and does not stay so
    assert kept.source[1] == kept.source[2]
    after = same_object(first)
    assert kept.all(kept.of(after), first)[2] is after[1]


def test_what_never_changes_is_not_carried():
    x, y, z = vectors(3)
    kept = kept_numbers([x, y, z], lambda state: [state[0] + 1, state[1], state[0]])
    assert sorted(kept.places) == [0, 2]
    assert kept.source[1] is None
    assert kept.all(kept.of([z, z, x]), [x, y, z])[1] is y


def test_equality_that_ends_later_is_found():
    """Equal at first and after one step, since it takes a step to pass on: x ← x + 1, y ← x, z ← y."""
    (x,) = vectors(1)
    kept = kept_numbers([x, x, x], lambda state: [state[0] + 1, state[0], state[1]])
    assert sorted(kept.places) == [0, 1, 2]
