"""The law of the noise that reaches the rewards, one step per segment.

Write x_t = z_t + w_t with z the noise-free shadow state, driven by the actions, and w what the noise
adds. Then

    y_t = ⟨ω,z_t⟩ + ⟨θ,u_t⟩ + v_t,      v_t = ⟨ω,w_t⟩ + η_t,      w_{t+1} = A w_t + ε_t,   w_1 = 0,

and v does not depend on what is played. For Gaussian noise its law is therefore known before the
run: over a segment, what the policy gets to see of v, and the sums of v that are reported, are a
linear function of a predicted state ŵ plus a few independent standard normals e,

    v_last = ⟨(A^{L−1})ᵀω, ŵ⟩ + g·e,    Σv = ⟨Σ_{k<L}(A^k)ᵀω, ŵ⟩ + k·e,    ŵ' = A^L ŵ + K e.

This is the innovations form of the Kalman filter, started from P = 0 because x₁ is known, at the rate
of segments instead of rounds. It is exact, and it draws one normal for every number observed however
many rounds and state coordinates lie in between. The plain form, one round a step with e = (ε, η), is
the same recursion with other coefficients: it serves for replayed noise and where every state counts.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dlbjax.engine.segments import Segments
from dlbjax.model.system import System


class NoiseLaw(NamedTuple):
    """Coefficients of the noise recursion, one row per kind of segment.

    Attributes:
      K: (J, n, m) effect of the normals on the predicted state.
      g: (J, m) on the segment's last reward.
      k: (J, m) on the segment's sum of rewards.
      first, settled, steps: for each run of segments, the row of its first segment, the row at which
        the coefficients have settled, and after how many segments they have.
    """

    K: np.ndarray
    g: np.ndarray
    k: np.ndarray
    first: np.ndarray
    settled: np.ndarray
    steps: np.ndarray

    def row(self, run: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Row of the table for segments given by their run and their place in it."""
        return np.where(place < self.steps[run], self.first[run] + place, self.settled[run])


@np.errstate(over="ignore", invalid="ignore")  # what overflows is rejected by name
def innovations_law(system: System, runs: Segments, observed: tuple[str, ...]) -> NoiseLaw:
    """The exact law of what is observed at the ends of epochs and of the sums that are reported.

    Args:
      system: the system.
      runs: segments of the pass, as runs.
      observed: which of "last" (the epoch's last reward) and "total" (the sum) the policy sees.
    """
    kinds = list(
        zip(runs.length.tolist(), runs.ends.tolist(), (runs.slot >= 0).tolist(), strict=True)
    )
    predict = {kind: _prediction(system, kind[0]) for kind in set(kinds)}
    columns = {kind: _observed(system.n, kind, observed) for kind in set(kinds)}
    rows: list[np.ndarray] = []
    fixed: dict[tuple[int, int, bool], tuple[int, np.ndarray]] = {}  # settled kinds: row and P
    P = np.zeros((system.n + 1, system.n + 1))  # of ζ = (w, S) with S the sum of v so far
    where = []
    for kind, count in zip(kinds, runs.repeats.tolist(), strict=True):
        first, row = len(rows), -1
        for place in range(count):
            joint = predict[kind](P)
            if not np.isfinite(joint).all():
                raise ValueError(
                    "the noise of the rewards overflows: state_noise, reward_noise and omega are too large "
                    "together; choose other units"
                )
            gain = _gain(joint, columns[kind], max(1, len(observed)))
            after = (joint - gain @ gain.T)[:-1, :-1]
            tolerance = _tolerance(joint)
            if kind in fixed and _same(fixed[kind][1], P, tolerance):
                row = fixed[kind][0]
            else:
                rows.append(gain)
                if not kind[2] and _same(
                    after, P, tolerance
                ):  # a report depends on the sum's variance
                    row = len(rows) - 1
                    fixed[kind] = (row, P)
            if row >= 0:  # from here on nothing changes but the variance of the sum
                after[-1, -1] = P[-1, -1] + (count - place) * (after[-1, -1] - P[-1, -1])
                P = after
                break
            P = after
        where.append((first, row, place if row >= 0 else count))
    table = np.array(rows)
    n = system.n
    return NoiseLaw(table[:, :n], table[:, n + 1], table[:, n], *np.array(where).T)


def plain_law(system: System, runs: Segments, given: bool) -> NoiseLaw:
    """One round a step with e = (ε, η): given as they are, or drawn as standard normals."""
    n = system.n
    K = np.zeros((2, n, n + 1))
    K[0, :, :n] = np.eye(n) if given else _root(np.asarray(system.state_noise))
    g = np.zeros((2, n + 1))
    g[0, n] = 1.0 if given else system.reward_noise
    row = np.where(runs.length > 0, 0, 1)  # row 1 is for a report, in which nothing happens
    return NoiseLaw(K, g, g, row, row, np.zeros_like(row))


def _prediction(system: System, length: int) -> Callable[[np.ndarray], np.ndarray]:
    """P ↦ joint covariance of (ζ at the end, v at the last round), for a segment of that length."""
    n = system.n
    if length == 0:
        keep = np.eye(n + 2)[:, : n + 1]
        return lambda P: keep @ P @ keep.T
    # One round: ζ_{t+1} = F ζ_t + (ε_t, η_t).
    F = np.block([[system.A, np.zeros((n, 1))], [system.omega[None], np.ones((1, 1))]])
    Q = np.zeros((n + 1, n + 1))
    Q[:n, :n], Q[n, n] = system.state_noise, system.reward_noise**2
    F_before, Q_before = np.eye(n + 1), np.zeros_like(Q)  # of all rounds but the last
    F_power, Q_power = F, Q  # of 1, 2, 4, ... rounds
    rounds = length - 1
    while rounds:
        if rounds & 1:
            F_before, Q_before = F_power @ F_before, F_power @ Q_before @ F_power.T + Q_power
        F_power, Q_power = F_power @ F_power, F_power @ Q_power @ F_power.T + Q_power
        rounds >>= 1
    last = np.concatenate([F, np.r_[system.omega, 0.0][None]])
    enters = np.concatenate([np.eye(n + 1), np.eye(n + 1)[n:]])
    F_all = last @ F_before
    Q_all = last @ Q_before @ last.T + enters @ Q @ enters.T
    return lambda P: F_all @ P @ F_all.T + Q_all


def _observed(n: int, kind: tuple[int, int, bool], observed: tuple[str, ...]) -> list[int]:
    """Which coordinates of (w, S, v) become known when a segment of this kind is over."""
    _, ends, reports = kind
    if reports:
        return [n]
    return [{"last": n + 1, "total": n}[name] for name in observed] if ends else []


def _gain(joint: np.ndarray, known: list[int], m: int) -> np.ndarray:
    """C with (…) = mean + C e: the joint's columns of what is known, times a whitening of it."""
    gain = np.zeros((len(joint), m))
    if len(known) == 1:
        variance = joint[known[0], known[0]]
        if variance > 0:
            gain[:, 0] = joint[:, known[0]] / np.sqrt(variance)
    elif known:
        covariance = joint[np.ix_(known, known)]
        scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        scale[scale == 0] = 1.0
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        kept = values > 1e-12  # singular where the sum is the last reward, or nothing is random
        whitening = (vectors[:, kept] / np.sqrt(values[kept])) / scale[:, None]
        gain[:, : kept.sum()] = joint[:, known] @ whitening
    return gain


def _tolerance(joint: np.ndarray) -> np.ndarray:
    """What covariances of (w, S) may differ by to be the same to rounding; that of S may differ."""
    variance = joint.diagonal()[:-1].copy()
    variance[-1] = joint[-1, -1]  # S is measured against v, as its own variance grows without end
    std = np.sqrt(np.maximum(variance, 0.0))
    tolerance = 1e-12 * std[:, None] * std
    tolerance[-1, -1] = np.inf
    return tolerance


def _same(P: np.ndarray, other: np.ndarray, tolerance: np.ndarray) -> bool:
    """Whether two covariances agree."""
    return not (np.abs(P - other) > tolerance).any()


def _root(covariance: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
