"""Decay of the powers of a stable matrix: ρ(A), Φ(A) and Φ̄(ρ̄)."""

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from dlbjax.common.arrays import Array, Number, is_traced, namespace

_DENSE = 1024  # every power up to this one is evaluated
_SPARSE = 64  # then this many between consecutive powers of two
_DOUBLINGS = 30  # up to τ = 2^30; beyond, the rounding of ρ shows in ρ^τ
_INFINITE = 1e6  # with rounding, a defective matrix reaches at least this
_ON_CIRCLE = 1e-6  # relative distance to |z| = ρ̄ of eigenvalues that do not decay within the search
_PHASES = {1: 4096, 2: 128}  # evaluated phases of each complex pair, by the number of pairs


def spectral_radius(A: Array) -> Number:
    """ρ(A) = max |eigenvalue|."""
    xp = namespace(A)
    radius = xp.max(xp.abs(xp.linalg.eigvals(A)))
    return radius if is_traced(A) else float(radius)


def power_bound(A: Array, rho_bar: Number) -> Number:
    """sup_{τ≥0} ‖A^τ‖₂ ρ̄^{−τ}.

    The matrix is divided by ρ̄ before it is raised to powers, so nothing under- or overflows. Every
    τ ≤ 1024 is evaluated, then 64 values between consecutive powers of two and, around the largest of
    them, those left out. Once ‖(A/ρ̄)^N‖₂ ≤ 1 the supremum over all τ is attained by some τ ≤ N (norms
    are submultiplicative), and the search ends.

    Where complex eigenvalues have modulus ρ̄, the powers do not settle but rotate for ever, and the
    supremum over τ > 1024 is bounded by that over all phases of the rotation. A phase that is off by at
    most δ leaves at least cos δ of the norm, so a grid of phases gives a bound that is never too small,
    and too large by less than 10⁻⁶ for one complex pair and 10⁻³ for two; for more, norms are added.

    Infinity means that the powers outgrow every multiple of ρ̄^τ: ρ̄ < ρ(A), a nilpotent A ≠ 0 at
    ρ̄ = 0, or a Jordan block on the circle |z| = ρ̄. Double precision cannot distinguish such a block
    from a matrix whose supremum is about 10⁷, so values beyond 10⁶ count as infinite.

    Under a JAX transformation it needs double precision: in single precision the rounding of ρ̄ alone
    moves ρ̄^τ by orders of magnitude. The phases of one complex pair are accounted for there, with the
    derivative of the largest power evaluated.

    >>> import numpy as np
    >>> float(power_bound(np.diag([0.2, 0.0, 0.1]), 0.2))
    1.0
    >>> power_bound(np.array([[0.0, 3.0], [0.0, 0.0]]), 0.5)   # a delay: finite for every ρ̄ > 0
    6.0
    >>> power_bound(np.array([[0.0, 3.0], [0.0, 0.0]]), 0.0)
    inf
    """
    if is_traced(A, rho_bar):
        return _traced_power_bound(A, rho_bar)
    if rho_bar == 0.0:
        return float(np.inf) if np.any(A) else 1.0
    largest, at = 1.0, (0, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        X = np.asarray(A / rho_bar)
        for number, powers in enumerate(_power_stacks(X)):
            norms = _norms(powers) if np.all(np.isfinite(powers)) else np.array([np.inf])
            if norms.max() > largest:
                largest, at = float(norms.max()), (number, int(norms.argmax()))
            if largest > _INFINITE:
                return float(np.inf)
            if norms.min() <= 1.0 + 1e-12:
                break
            if len(norms) > 1 and norms.max() <= (1 + 1e-9) * norms.min():
                break  # the powers tend to a projection
    if number < _DENSE.bit_length():
        return largest  # no power was left out
    return max(largest, _between(X, *at), _over_phases(X))


def _between(X: np.ndarray, number: int, index: int) -> float:
    """The largest norm among the powers that the search left out next to the largest it found."""
    doublings = number - _DENSE.bit_length()
    if doublings < 0:
        return 1.0
    stride = _DENSE // _SPARSE * 2**doublings
    tau, largest = stride * (_SPARSE + 1 + index), 1.0
    while stride > 1:
        step = max(stride // 32, 1)
        first = tau - 32 * step
        powers, further = [np.linalg.matrix_power(X, first)], np.linalg.matrix_power(X, step)
        for _ in range(64):
            powers.append(powers[-1] @ further)
        norms = _norms(np.stack(powers))
        largest = max(largest, float(norms.max()))
        tau, stride = first + step * int(norms.argmax()), step
    return largest


def _over_phases(X: np.ndarray) -> float:
    """A bound on ‖X^τ‖ for large τ where complex eigenvalues on the unit circle keep it rotating.

    X^τ tends to Σ_j z_j^τ P_j over the eigenvalues z_j on the circle, with P_j their projections. If all
    z_j are roots of unity of a small order, the search has seen all of it, and 0 is returned.
    """
    values, left, right = scipy.linalg.eig(X, left=True)
    on_circle = np.abs(np.abs(values) - 1) <= _ON_CIRCLE
    phases = np.angle(values[on_circle])
    orders = np.arange(1, _DENSE + 1)
    if np.any(np.all(np.abs(np.exp(1j * np.outer(orders, phases)) - 1) < 1e-9, axis=1)):
        return 0.0
    sides = zip(values[on_circle], left[:, on_circle].T, right[:, on_circle].T, strict=True)
    parts = [(z, np.outer(v, w.conj()) / (w.conj() @ v)) for z, w, v in sides]
    fixed = [P.real for z, P in parts if z.imag == 0]
    pairs = [2 * P for z, P in parts if z.imag > 0]  # each with its conjugate
    # An eigenvalue −1 alternates while the pairs pass through all phases.
    signs = [(1.0, -1.0) if z.real < 0 else (1.0,) for z, _ in parts if z.imag == 0]
    starts = [
        sum((s * P for s, P in zip(choice, fixed, strict=True)), np.zeros_like(X))
        for choice in itertools.product(*signs)
    ]
    count = _PHASES.get(len(pairs))
    if count is None:
        return float(sum(np.linalg.norm(P, 2) for P in fixed + pairs))
    angles = np.exp(2j * np.pi * np.arange(count) / count)
    rotated = [(angles[:, None, None] * P).real for P in pairs]
    sums = np.stack(starts)
    for turn in rotated:
        sums = (sums[:, None] + turn).reshape(-1, *X.shape)
    return float(_norms(sums).max() / np.cos(np.pi / count))


def _traced_power_bound(A: Array, rho_bar: Number) -> Number:
    if jnp.result_type(A, rho_bar) != jnp.float64:
        raise ValueError(
            "sup ‖A^τ‖ρ̄^{−τ} (Φ, and with it Bounds.of) cannot be computed in single precision under jit, "
            "vmap or grad: the rounding of ρ̄ is raised to powers of 10⁹. Call it within "
            "`with jax.enable_x64(True):`, or set jax.config.update('jax_enable_x64', True) first"
        )
    rate = jnp.where(rho_bar == 0.0, 1.0, rho_bar)
    X = A / rate
    stacks = list(_power_stacks(X))
    every = _norms(jnp.concatenate(stacks))
    largest = jnp.maximum(1.0, jnp.max(jnp.where(jnp.isnan(every), jnp.inf, every)))
    late = stacks[-(_DOUBLINGS - 20) - 1][-1]  # X^(2^20): nothing is left but what rotates
    rotating = jax.lax.stop_gradient(_over_phases_of_a_pair(X, late) / largest)
    largest = largest * jnp.where(rotating > 1, rotating, 1.0)
    largest = jnp.where(largest > _INFINITE, jnp.inf, largest)
    return jnp.where(rho_bar == 0.0, jnp.where(jnp.any(A != 0), jnp.inf, 1.0), largest)


def _over_phases_of_a_pair(X: Array, late: Array) -> Array:
    """The same as `_over_phases` under a transformation, for one complex pair; otherwise 0.

    Of a late power C and the one after it follow all phases: cos ψ·C + sin ψ·S, where
    X·C = cos φ·C + sin φ·S for the angle φ of the pair.
    """
    values = jnp.linalg.eigvals(X)
    on_circle = jnp.abs(jnp.abs(values) - 1) <= 1e-9  # others have decayed, or will not be seen
    phi = jnp.max(jnp.where(on_circle, jnp.angle(values), 0.0))
    turns = np.arange(1.0, _DENSE + 1) * phi
    is_periodic = jnp.any(jnp.hypot(jnp.cos(turns) - 1, jnp.sin(turns)) < 1e-9)
    sine = jnp.where(jnp.sin(phi) == 0, 1.0, jnp.sin(phi))
    S = (X @ late - jnp.cos(phi) * late) / sine
    psi = 2 * np.pi * np.arange(_PHASES[1])[:, None, None] / _PHASES[1]
    turned = np.cos(psi) * late + np.sin(psi) * S
    bound = jnp.max(_norms(turned)) / np.cos(np.pi / _PHASES[1])
    is_one_pair = (jnp.sum(on_circle) == 2) & (phi > 0) & (phi < np.pi) & ~is_periodic
    return jnp.where(is_one_pair & jnp.isfinite(bound), bound, 0.0)


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
