"""Random numbers of a run: number i of a stream is a function of the stream's key and of i.

Drawing is the floor under a pass's time, so it is one fused kernel: Threefry-2x32 (Salmon et al.,
2011) turns (key, counter) into 64 bits, and a rational function turns those into a normal. The bits
are those of JAX's own generator, whose lowering on CPUs loops over rounds through memory and inverts
the error function by three polynomials; `make bench` compares the two.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

# √2·erf⁻¹(x)/x as a ratio of polynomials in w = −log(1−x²), lowest power first. Fitted for
# 0 ≤ w ≤ 36.8, that is up to 8.3 standard deviations; relative error below 4·10⁻¹².
_NUMERATOR = (
    1.2533141373177774, 0.606306372334761, 0.16783518007785908, 0.03218577977575721,
    0.004586433345247632, 0.000497656001518673, 4.1389100240732815e-05, 2.6719255430752006e-06,
    1.437659275194147e-07, 3.6101941284573854e-09, 1.5881077507668894e-11,
)  # fmt: skip
_DENOMINATOR = (
    1.0, 0.22196310593536497, 0.06277125521617138, 0.008989315961768614, 0.0012173220938484746,
    0.00010611736952851018, 8.163232745262812e-06, 4.6221277854221356e-07, 1.9350650388901973e-08,
    2.2286832201423188e-10, 2.496113066034492e-13,
)  # fmt: skip


def normals(key: Array, first: Array, count: int, width: int, dtype: np.dtype) -> Array:
    """Standard normals number first..first+count−1 of every run, (count, width, runs).

    Args:
      key: (2, runs) uint32, one key per run.
      first: number of the first, or of each.
      count: how many.
      width: normals for each number.
      dtype: float64 (up to 8.3 standard deviations) or float32 (up to 6.3).
    """
    high, low = _bits(key, first, count, width)
    p = _open_unit(high, low, dtype)
    if dtype == np.float32:  # p is the probability of the two tails, and a spare bit the sign
        x, beyond = jnp.where(low & 1 == 0, 1 - p, p - 1), p * (2 - p)
    else:
        x = 2 * p - 1
        beyond = (1 - x) * (1 + x)
    w = -jnp.log(beyond)
    return x * _polynomial(_NUMERATOR, w) / _polynomial(_DENOMINATOR, w)


def uniforms(key: Array, first: Array, count: int, width: int, dtype: np.dtype) -> Array:
    """Numbers in (0, 1) of every run, (count, width, runs); see `normals`."""
    return _open_unit(*_bits(key, first, count, width), dtype)


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds: 64 bits from a key and a counter of 64 bits each."""
    keys = (*key, key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation))
            y = x ^ y
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x, y


def _bits(key: Array, first: Array, count: int, width: int) -> tuple[Array, Array]:
    shape = (count, width, key.shape[1])
    if first.ndim:
        number = jnp.broadcast_to(first.astype(jnp.uint32)[:, None, None], shape)
    else:
        number = first.astype(jnp.uint32) + jax.lax.broadcasted_iota(jnp.uint32, shape, 0)
    place = jax.lax.broadcasted_iota(jnp.uint32, shape, 1)
    words = jnp.broadcast_to(key[:, None, None, :], (2, *shape))
    return threefry((words[0], words[1]), (number, place))


def _open_unit(high: Array, low: Array, dtype: np.dtype) -> Array:
    """A number in (0, 1): 52 bits in float64, 32 in float32 as far as they fit."""
    if dtype == np.float32:
        return high.astype(jnp.float32) * np.float32(2**-32) + np.float32(2**-33)
    mantissa = (high.astype(jnp.uint64) << jnp.uint64(20)) | (low >> jnp.uint32(12)).astype(
        jnp.uint64
    )
    between_one_and_two = mantissa | jnp.uint64(0x3FF0000000000000)
    one = 1 - 2**-53  # half a step less, so that 0 is not reached
    return jax.lax.bitcast_convert_type(between_one_and_two, jnp.float64) - one


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
