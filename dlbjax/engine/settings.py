"""What `simulate` is asked for, checked before anything is prepared."""

from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax.common.arrays import Array, real_array, short, whole_number
from dlbjax.policies.epochs import LONGEST

_RECORDABLE = ("actions", "rewards", "states", "policy")
_MOST_RUNS = 10**8  # of which the seeds alone take 0.8 GB


class Noise(NamedTuple):
    """Noise to replay instead of drawing it.

    Attributes:
      state: (runs, T, n) ε_t, which moves the state after round t.
      reward: (runs, T) η_t.
    """

    state: Array
    reward: Array


class Spelling(NamedTuple):
    """How the step is spelled out."""

    segments: int  # in a kernel
    kernels: int  # in a turn of the loop, which reports in the end
    arms: tuple[tuple[float, ...], ...] = ()  # compiled in, since reading them would take longer

    @property
    def turn(self) -> int:
        """Segments in a turn of the loop; BLOCK is a multiple of them."""
        return max(self.segments * self.kernels, 1)

    @property
    def noise(self) -> int:
        """Segments in a kernel that only advances the noise."""
        return min(self.turn, 16)


MAPPED = Spelling(0, 0)  # not spelled out


class Settings(NamedTuple):
    """What `simulate` was asked for, checked."""

    horizon: int
    seeds: np.ndarray
    rounds: np.ndarray
    noise: Noise | None
    record: tuple[str, ...]
    dtype: np.dtype
    batch: int | None
    chunk: int | None
    devices: list[Any] | None
    promotion: Any  # JAX's rule for mixed dtypes in the calling thread, for the workers
    spelling: Spelling | None = None  # by default it is chosen


def check_settings(
    n: int, horizon: Any, seeds: Any, noise: Any, record: Any, rounds: Any, dtype: Any,
    batch: Any, chunk: Any, devices: Any,
) -> Settings:  # fmt: skip
    """The arguments of `simulate` in their final form, or a ValueError naming the wrong one."""
    horizon = whole_number("horizon", horizon, at_least=1, at_most=LONGEST)
    noise = _check_noise(noise, horizon, n)
    config: Any = jax.config  # whose options are attributes in newer versions only
    return Settings(
        horizon=horizon,
        seeds=_seeds(seeds, noise),
        rounds=_reporting_rounds(rounds, horizon),
        noise=noise,
        record=_check_record(record),
        dtype=_check_dtype(dtype),
        batch=None if batch is None else whole_number("batch", batch, at_least=1),
        chunk=None if chunk is None else whole_number("chunk", chunk, at_least=1, at_most=2**12),
        devices=_check_devices(devices),
        promotion=config.jax_numpy_dtype_promotion,
    )


def _seeds(seeds: Any, noise: Noise | None) -> np.ndarray:
    runs = None if noise is None else len(noise.reward)
    if seeds is None:
        return np.arange(runs or 1)
    if isinstance(seeds, int | float | np.number):
        count = whole_number("seeds", seeds, at_least=1)
        if count > _MOST_RUNS:
            raise ValueError(f"seeds must ask for at most {_MOST_RUNS} runs; got {short(seeds)}")
        chosen = np.arange(count)
    else:
        chosen = _whole_numbers("seeds", seeds)
        if len(np.unique(chosen)) < len(chosen):
            raise ValueError("seeds must be distinct: a repeated seed repeats its run")
        if chosen.min() < 0 or chosen.max() > LONGEST:
            raise ValueError(
                f"seeds must lie from 0 to {LONGEST}; got {chosen.min()}..{chosen.max()}"
            )
    if runs is not None and len(chosen) != runs:
        raise ValueError(
            f"noise is for {runs} runs, but seeds asks for {len(chosen)}; leave seeds out"
        )
    return chosen


def _whole_numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(list(values))
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of whole numbers; got {short(values)}")
    return array.astype(np.int64)


def _reporting_rounds(rounds: Any, horizon: int) -> np.ndarray:
    if rounds is None:
        linear = np.ceil(np.linspace(0, horizon, 201)[1:])
        logarithmic = np.round(np.geomspace(1, horizon, 101))
        return np.unique(np.r_[linear, logarithmic].astype(np.int64))
    chosen = _whole_numbers("rounds", rounds)
    if np.any(np.diff(chosen) <= 0) or chosen[0] < 1 or chosen[-1] > horizon:
        raise ValueError(f"rounds must increase strictly within 1..{horizon}; got {short(rounds)}")
    return np.union1d(chosen, horizon)


def _check_noise(noise: Noise | None, horizon: int, n: int) -> Noise | None:
    if noise is None:
        return None
    if not isinstance(noise, Noise):
        raise ValueError(f"noise must be a dlbjax.Noise; got {type(noise).__name__}")
    reward = real_array("noise.reward", noise.reward, (None, horizon))
    if len(reward) == 0:
        raise ValueError("noise.reward must hold at least one run; got none")
    return Noise(real_array("noise.state", noise.state, (len(reward), horizon, n)), reward)


def _check_record(record: Any) -> tuple[str, ...]:
    names = (record,) if isinstance(record, str) else record
    known = isinstance(names, list | tuple | set) and all(
        isinstance(name, str) and name in _RECORDABLE for name in names
    )
    if not known:
        raise ValueError(f"record must name some of {', '.join(_RECORDABLE)}; got {short(record)}")
    return tuple(name for name in _RECORDABLE if name in names)


def _check_devices(devices: Any) -> list[Any] | None:
    if devices is None:
        return None
    if not isinstance(devices, list | tuple) or not devices or not all(map(_is_device, devices)):
        raise ValueError(
            f"devices must be a list of JAX devices, as jax.devices() gives; got {short(devices)}"
        )
    return list(devices)


def _is_device(device: Any) -> bool:
    return isinstance(device, jax.Device)


def _check_dtype(dtype: Any) -> np.dtype:
    try:
        chosen = np.dtype(dtype)
    except (TypeError, ValueError):
        chosen = np.dtype(object)
    if chosen not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {short(dtype)}")
    return chosen
