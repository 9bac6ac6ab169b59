"""Random numbers: the bits are Threefry's, the normals are normal, far into the tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import special, stats

from dlbjax.engine import prng

KEY = np.array([[1, 7, 2**32 - 1], [5, 0, 123456789]], dtype=np.uint32)


def draw(sampler, dtype, first=3, count=4, width=2, key=KEY):
    with jax.enable_x64(dtype == np.float64):
        return np.asarray(
            sampler(jnp.asarray(key), jnp.asarray(first, jnp.int32), count, width, np.dtype(dtype))
        )


def test_bits_are_those_of_jax():
    key = jnp.asarray(KEY)
    high, low = prng._bits(key, jnp.int32(3), 4, 2)
    for lane in range(3):
        for i in range(4):
            for j in range(2):
                theirs = threefry_2x32(key[:, lane], jnp.array([3 + i, j], jnp.uint32))
                assert (high[i, j, lane], low[i, j, lane]) == (theirs[0], theirs[1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sampler", [prng.normals, prng.uniforms])
def test_a_number_depends_on_its_key_and_its_place_only(sampler, dtype):
    everything = draw(sampler, dtype, first=0, count=8)
    np.testing.assert_array_equal(draw(sampler, dtype, first=3, count=4), everything[3:7])
    np.testing.assert_array_equal(draw(sampler, dtype, first=[6, 0], count=2), everything[[6, 0]])
    np.testing.assert_array_equal(draw(sampler, dtype, 0, 8, key=KEY[:, 1:2]), everything[..., 1:2])
    assert len(np.unique(everything)) == everything.size


@pytest.mark.parametrize(
    ("dtype", "digits", "farthest"), [(np.float64, 5e-12, 8.1), (np.float32, 5e-6, 6.2)]
)
def test_normals_are_the_quantiles_of_their_bits(monkeypatch, dtype, digits, farthest):
    """From the largest number that can be drawn to the smallest, in both tails."""
    powers = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    bits = np.unique(np.r_[powers, ~powers, powers | np.uint64(1), np.uint64(0)])
    high, low = (bits >> np.uint64(32)).astype(np.uint32), bits.astype(np.uint32)
    shape = (len(bits), 1, 1)
    monkeypatch.setattr(prng, "_bits", lambda *_: (high.reshape(shape), low.reshape(shape)))
    got = draw(prng.normals, dtype).ravel().astype(np.float64)
    if dtype == np.float64:
        p = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        want = np.where(p < 0.5, special.ndtri(p), -special.ndtri(1 - p))
    else:  # the lowest bit is the sign, the high word the probability of both tails
        p = (high.astype(np.float64) + 0.5) * 2.0**-32
        want = np.where(low % 2 == 0, 1, -1) * -special.ndtri(p.astype(np.float32) / 2)
    np.testing.assert_allclose(got, want, rtol=digits, atol=digits)
    assert got.max() > farthest
    assert got.min() < -farthest


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_million_normals_look_normal(dtype):
    """Kolmogorov-Smirnov, tail counts and serial correlation; 4·10⁻⁶ false alarms, fixed seed."""
    key = np.asarray(jax.random.key_data(jax.vmap(jax.random.key)(np.arange(100)))).T
    z = draw(prng.normals, dtype, first=0, count=5000, width=2, key=key).astype(np.float64)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    beyond = int((np.abs(z) > 4).sum())
    assert stats.binomtest(beyond, z.size, 2 * stats.norm.sf(4)).pvalue > 1e-6
    for pair in ((z[:-1], z[1:]), (z[:, 0], z[:, 1]), (z[..., :-1], z[..., 1:])):
        one, other = (part.ravel() for part in pair)
        assert abs(np.mean(one * other)) * np.sqrt(one.size) < stats.norm.isf(5e-7)


def test_uniforms_stay_inside_the_unit_interval():
    for dtype in (np.float64, np.float32):
        u = draw(prng.uniforms, dtype, count=20_000)
        assert u.dtype == dtype
        assert u.min() > 0
        assert u.max() < 1
        assert stats.kstest(u.ravel().astype(float), "uniform").pvalue > 1e-6
