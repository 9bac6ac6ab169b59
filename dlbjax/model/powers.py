"""Decay of the powers of a stable matrix: ρ(A), Φ(A) and Φ̄(ρ̄)."""

from collections.abc import Iterator

import numpy as np

from dlbjax.common.arrays import Array, Number, is_traced, namespace

_DENSE = 1024  # every power up to this one is evaluated
_SPARSE = 64  # then this many between consecutive powers of two
_DOUBLINGS = 30  # up to τ = 2^30; beyond, the rounding of ρ shows in ρ^τ
_INFINITE = 1e6  # with rounding, a defective matrix reaches at least this


def spectral_radius(A: Array) -> Number:
    """ρ(A) = max |eigenvalue|."""
    xp = namespace(A)
    radius = xp.max(xp.abs(xp.linalg.eigvals(A)))
    return radius if is_traced(A) else float(radius)


def power_bound(A: Array, rho_bar: Number) -> Number:
    """sup_{τ≥0} ‖A^τ‖₂ ρ̄^{−τ}.

    The matrix is divided by ρ̄ before it is raised to powers, so nothing under- or overflows. Every
    τ ≤ 1024 is evaluated, then 64 values between consecutive powers of two. Once ‖(A/ρ̄)^N‖₂ ≤ 1 the
    supremum over all τ is attained by some τ ≤ N (norms are submultiplicative), and the search ends.

    Infinity means that the powers outgrow every multiple of ρ̄^τ: ρ̄ < ρ(A), a nilpotent A ≠ 0 at
    ρ̄ = 0, or a Jordan block on the circle |z| = ρ̄. Double precision cannot distinguish such a block
    from a matrix whose supremum is about 10⁷, so values beyond 10⁶ count as infinite.

    >>> import numpy as np
    >>> float(power_bound(np.diag([0.2, 0.0, 0.1]), 0.2))
    1.0
    >>> power_bound(np.array([[0.0, 3.0], [0.0, 0.0]]), 0.5)   # a delay: finite for every ρ̄ > 0
    6.0
    >>> power_bound(np.array([[0.0, 3.0], [0.0, 0.0]]), 0.0)
    inf
    """
    if is_traced(A, rho_bar):
        xp = namespace(A, rho_bar)
        rate = xp.where(rho_bar == 0.0, 1.0, rho_bar)
        every = _norms(xp.concatenate(list(_power_stacks(A / rate))))
        largest = xp.maximum(1.0, xp.max(xp.where(xp.isnan(every), xp.inf, every)))
        largest = xp.where(largest > _INFINITE, xp.inf, largest)
        return xp.where(rho_bar == 0.0, xp.where(xp.any(A != 0), xp.inf, 1.0), largest)
    if rho_bar == 0.0:
        return float(np.inf) if np.any(A) else 1.0
    largest = 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for powers in _power_stacks(A / rho_bar):
            norms = _norms(powers) if np.all(np.isfinite(powers)) else np.array([np.inf])
            largest = max(largest, float(norms.max()))
            if largest > _INFINITE:
                return float(np.inf)
            if norms.min() <= 1.0 + 1e-12:
                break
            if len(norms) > 1 and norms.max() <= (1 + 1e-9) * norms.min():
                break  # the powers tend to a projection
    return largest


def _power_stacks(X: Array) -> Iterator[Array]:
    """Yield stacks of powers of X: 1, 2, 3..4, 5..8, ... densely, then with growing strides."""
    xp = namespace(X)
    stack = X[None]
    yield stack
    while len(stack) < _DENSE:
        new = stack @ stack[-1]
        yield new
        stack = xp.concatenate([stack, new])
    last = stack[-1]
    strided = stack[_DENSE // _SPARSE - 1 :: _DENSE // _SPARSE]
    for _ in range(_DENSE.bit_length() - 1, _DOUBLINGS):
        new = strided @ last
        yield new
        strided = xp.concatenate([strided, new])[1::2]
        last = new[-1]


def _norms(stack: Array) -> Array:
    return namespace(stack).linalg.norm(stack, 2, axis=(1, 2))
