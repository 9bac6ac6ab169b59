"""Logged data: reading and checking it, and the units in which it is fitted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.common.arrays import real_array, short
from dlbjax.identification.model import StateSpace

_FEWEST = 10  # rounds
_SIZES = (1e-100, 1e100)  # of spreads and of values: their squares and ratios do not overflow
_COLLINEAR = 1e-7  # share of a joint spread that still counts as a direction of its own
_LONG_GAP = 0.1  # share of an episode

# One array, or a list with one array for each episode.
Episodes: TypeAlias = ArrayLike | Sequence[ArrayLike]


@dataclass(frozen=True, eq=False)
class Samples:
    """Logged data of all episodes, one episode after another.

    Attributes:
      actions: (N, d) actions.
      rewards: (N, m) rewards, NaN where missing.
      lengths: number of rounds of each episode.
      controls: (N, q) columns with an immediate effect only, which nobody chooses.
    """

    actions: np.ndarray
    rewards: np.ndarray
    lengths: tuple[int, ...]
    controls: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if len(self.controls) == 0:
            object.__setattr__(self, "controls", np.zeros((len(self.actions), 0)))

    @property
    def inputs(self) -> np.ndarray:
        """(N, d + q) actions and controls."""
        return np.concatenate([self.actions, self.controls], axis=1)

    @property
    def d(self) -> int:
        """Number of action coordinates."""
        return self.actions.shape[1]

    @property
    def m(self) -> int:
        """Number of outputs."""
        return self.rewards.shape[1]

    @property
    def missing(self) -> int:
        """Number of missing rewards."""
        return int(np.isnan(self.rewards).sum())

    @property
    def starts(self) -> np.ndarray:
        """(E,) index of the first round of every episode."""
        return np.cumsum([0, *self.lengths[:-1]])

    def episodes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Actions and rewards, episode by episode."""
        for first, length in zip(self.starts, self.lengths, strict=True):
            yield self.actions[first : first + length], self.rewards[first : first + length]


class Units(NamedTuple):
    """Units of the fit: (v − v_mean)/v_scale for actions and controls v, and (y − y_mean)/y_scale.

    Attributes:
      v_mean: (d + q,) offset of the actions and controls.
      v_scale: (d + q,) their unit.
      y_mean: (m,) offset of the rewards.
      y_scale: (m,) unit of the rewards.
    """

    v_mean: np.ndarray
    v_scale: np.ndarray
    y_mean: np.ndarray
    y_scale: np.ndarray

    @classmethod
    def of(cls, samples: Samples, intercept: bool, scale: bool) -> "Units":
        """Units in which samples are centred if `intercept`, and have spread 1 if `scale`."""
        v, y = samples.inputs, samples.rewards
        v_mean = v.mean(axis=0) if intercept else np.zeros(v.shape[1])
        y_mean = np.nanmean(y, axis=0) if intercept else np.zeros(samples.m)
        if not scale:
            return cls(v_mean, np.ones(v.shape[1]), y_mean, np.ones(samples.m))
        v_scale = np.sqrt(np.mean((v - v_mean) ** 2, axis=0))
        y_scale = np.sqrt(np.nanmean((y - y_mean) ** 2, axis=0))
        return cls(v_mean, v_scale, y_mean, y_scale)

    def apply(self, samples: Samples) -> Samples:
        """The samples in these units."""
        inputs = (samples.inputs - self.v_mean) / self.v_scale
        actions, controls = np.split(inputs, [samples.d], axis=1)
        rewards = (samples.rewards - self.y_mean) / self.y_scale
        return Samples(actions, rewards, samples.lengths, controls)

    def undo(self, model: StateSpace, x: np.ndarray) -> tuple[StateSpace, np.ndarray]:
        """A model of the scaled samples and its states (…, n), in the samples' original units."""
        B = model.B / self.v_scale
        C = self.y_scale[:, None] * model.C
        D = self.y_scale[:, None] * model.D / self.v_scale
        # Centring the actions shifts the state by the mean action's steady state.
        shift = np.linalg.solve(np.eye(len(model.A)) - model.A, B @ self.v_mean)
        c = self.y_mean + self.y_scale * model.c - C @ shift - D @ self.v_mean
        R = self.y_scale[:, None] * model.R * self.y_scale
        return StateSpace(model.A, B, C, D, c, model.Q, R), x + shift

    def effects(self, value: np.ndarray, d: int) -> np.ndarray:
        """Map from c and h of the scaled samples to baseline and h of ⟨value, y⟩.

        Its shape is (1 + d + q, m + m(d + q)); h of a control is its effect, and the baseline is the level
        without actions and with every control at its mean.
        """
        worth = value * self.y_scale
        to_h = np.kron(worth, np.diag(1 / self.v_scale))
        to_baseline = np.concatenate([worth, -self.v_mean[:d] @ to_h[:d]])
        return np.vstack([to_baseline, np.hstack([np.zeros((len(to_h), len(worth))), to_h])])


def read_samples(actions: Episodes, rewards: Episodes, controls: Episodes | None = None) -> Samples:
    """Actions (T, d), rewards (T,) or (T, m) and controls (T, q), or lists of them, checked and joined."""
    several = False
    if isinstance(actions, list | tuple) and actions and _dimensions(actions[0]) == 2:
        several = True
        if not (isinstance(rewards, list | tuple) and len(rewards) == len(actions)):
            count = len(rewards) if isinstance(rewards, list | tuple) else "one array"
            raise ValueError(
                f"actions are {len(actions)} episodes, so rewards must be a list of as many arrays; "
                f"got {count}"
            )
        pairs = enumerate(zip(actions, rewards, strict=True))
        read = [_episode(u, y, f" of episode {i}") for i, (u, y) in pairs]
    else:
        read = [_episode(actions, rewards, "")]
    for i, (u, y) in enumerate(read):
        if u.shape[1] != read[0][0].shape[1] or y.shape[1] != read[0][1].shape[1]:
            raise ValueError(
                f"episode {i} has {u.shape[1]} action and {y.shape[1]} reward columns, episode 0 has "
                f"{read[0][0].shape[1]} and {read[0][1].shape[1]}; they must agree"
            )
    lengths = tuple(len(u) for u, _ in read)
    return Samples(
        np.concatenate([u for u, _ in read]),
        np.concatenate([y for _, y in read]),
        lengths,
        _controls(controls, lengths, several),
    )


def check_samples(
    samples: Samples,
    intercept: bool,
    channels: Sequence[str] | None = None,
    controls: Sequence[str] | None = None,
) -> list[str]:
    """Raise a ValueError where the data determine no system; otherwise return warnings."""
    y = samples.rewards
    if len(y) < _FEWEST:
        raise ValueError(
            f"there are {len(y)} rounds, too few for any system; give {_FEWEST} or more"
        )
    names = [f"u[{i}]" for i in range(samples.d)] if channels is None else list(channels)
    if len(names) != samples.d:
        raise ValueError(f"channels must name {samples.d} columns of actions; got {len(names)}")
    for k in range(samples.m):
        name = "rewards" if samples.m == 1 else f"column {k} of rewards"
        seen = y[~np.isnan(y[:, k]), k]
        if len(seen) == 0:
            raise ValueError(f"{name}: every value is missing (NaN); there is nothing to fit")
        if np.ptp(seen) == 0:
            raise ValueError(
                f"{name}: every value is {seen[0]:g}; a constant holds no information on the system"
            )
    _check_sizes(np.concatenate([samples.inputs, y], axis=1))
    _check_outputs(y)
    names += (
        [f"control {i}" for i in range(samples.controls.shape[1])] if controls is None else controls
    )
    _check_columns(samples.inputs, intercept, names)
    warnings = []
    for i, (_, rewards) in enumerate(samples.episodes()):
        first, length = _longest_gap(np.isnan(rewards).any(axis=1))
        if length > max(10, _LONG_GAP * len(rewards)):
            warnings.append(
                f"rewards {first} to {first + length - 1} of episode {i} are missing in a row "
                f"({length} of {len(rewards)}), so that the state there is known from the actions "
                "only; if the system was interrupted, pass the rounds before and after as two episodes"
            )
    return warnings


def _episode(actions: Any, rewards: Any, which: str) -> tuple[np.ndarray, np.ndarray]:
    if _dimensions(actions) == 1:
        raise ValueError(
            f"actions{which} must have shape (T, d), one row per round; got one dimension. Write a "
            "single channel as actions[:, None]"
        )
    u = np.asarray(real_array(f"actions{which}", actions, (None, None)))
    try:
        y = np.asarray(rewards)
        if y.dtype.kind not in "iufb":
            raise TypeError
        y = np.array(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"rewards{which} must hold real numbers in shape (T,) or (T, m), NaN where missing; "
            f"got {short(rewards)}"
        ) from None
    if y.ndim not in (1, 2):
        raise ValueError(f"rewards{which} must have shape (T,) or (T, m); got shape {y.shape}")
    y = y[:, None] if y.ndim == 1 else y
    if len(y) != len(u):
        raise ValueError(
            f"actions{which} have {len(u)} rows and rewards {len(y)}; row t of both is round t"
        )
    if 0 in u.shape or 0 in y.shape:
        raise ValueError(f"actions and rewards{which} must not be empty; got {u.shape}, {y.shape}")
    if np.isinf(y).any():
        t, k = np.argwhere(np.isinf(y))[0]
        raise ValueError(
            f"rewards{which} must be finite, or NaN where missing; got {y[t, k]} at round {t}"
        )
    return u, y


def _controls(controls: Any, lengths: tuple[int, ...], several: bool) -> np.ndarray:
    """(N, q) controls of all episodes."""
    if controls is None:
        return np.zeros((sum(lengths), 0))
    if several and not isinstance(controls, list | tuple):
        raise ValueError(
            f"controls must be a list with one array for each of the {len(lengths)} episodes; got "
            f"{short(controls)}"
        )
    parts = list(controls) if several else [controls]
    if len(parts) != len(lengths):
        raise ValueError(
            f"controls must be a list with one array for each of the {len(lengths)} episodes; got "
            f"{len(parts)}"
        )
    read = []
    for i, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        name = f"controls of episode {i}" if several else "controls"
        column = np.asarray(
            real_array(name, part, (None, None) if _dimensions(part) != 1 else (None,))
        )
        read.append(column.reshape(len(column), -1))
        if len(column) != length or read[-1].shape[1] != read[0].shape[1]:
            raise ValueError(
                f"{name} must have {length} rows, one for each round, and as many columns in every episode; "
                f"got shape {column.shape}"
            )
    return np.concatenate(read)


def _dimensions(value: Any) -> int | None:
    try:
        return np.ndim(value)
    except ValueError:  # rows of different lengths
        return None


def _check_sizes(values: np.ndarray) -> None:
    """Reject columns whose squares are no longer numbers."""
    least, most = _SIZES
    spread = np.nanmax(values, axis=0) / 2 - np.nanmin(values, axis=0) / 2
    largest = np.nanmax(np.abs(values), axis=0)
    for i in np.flatnonzero((largest > most) | ((spread > 0) & (spread < least))):
        raise ValueError(
            f"values up to {largest[i]:g} with a spread of {2 * spread[i]:g} are beyond what can be squared; "
            "give actions, controls and rewards in other units"
        )


def _check_outputs(y: np.ndarray) -> None:
    """Reject collinear outputs, whose noise has no density."""
    known = y[~np.isnan(y).any(axis=1)]
    if y.shape[1] > 1 and len(known) > y.shape[1]:
        apart = (known - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-300)
        if np.linalg.eigvalsh(apart.T @ apart / len(apart))[0] < _COLLINEAR:
            raise ValueError(
                "columns of rewards are collinear: one of them can be computed from the others; leave it out"
            )


def _check_columns(v: np.ndarray, intercept: bool, names: list[str]) -> None:
    """Reject linearly dependent actions and controls; a baseline counts as a constant column."""
    spread = np.ptp(v, axis=0)
    constant = np.flatnonzero((spread == 0) & (intercept | ~v.any(axis=0)))
    if len(constant):
        raise ValueError(
            f"{names[constant[0]]} never changes (it is always {v[0, constant[0]]:g}), so that its effect "
            "cannot be separated from the baseline; leave it out"
        )
    centred = v - v.mean(axis=0) if intercept else v
    size = np.sqrt((centred**2).sum(axis=0))
    values, vectors = np.linalg.eigh((centred / size).T @ (centred / size))
    if values[0] < _COLLINEAR:
        weights = vectors[:, 0] / size
        weights = weights / np.abs(weights).max()
        involved = np.flatnonzero(np.abs(weights) > 1e-3)
        total = " + ".join(f"{weights[i]:.3g}·{names[i]}" for i in involved).replace("+ -", "− ")
        known = "constant" if intercept else "zero"
        raise ValueError(
            f"{', '.join(names[i] for i in involved)} are collinear: {total} is {known}. "
            "Their effects cannot be separated; leave one of them out"
        )


def _longest_gap(missing: np.ndarray) -> tuple[int, int]:
    """Start and length of the longest gap."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], missing, [0]])))
    if len(edges) == 0:
        return 0, 0
    first, length = edges[::2], edges[1::2] - edges[::2]
    longest = int(length.argmax())
    return int(first[longest]), int(length[longest])
