"""The processes of a `jax.distributed` job: which seeds each computes, and how all get all results."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from dlbjax.engine.settings import Noise, Settings
from dlbjax.results.result import REGRETS, Result

_BY_SEED = (*(f"{kind}_regret" for kind in REGRETS), "actions", "rewards", "states", "policy_state")


def share(settings: Settings) -> Settings:
    """The settings for the seeds of this process: equal shares, the last filled up with its last seed."""
    hosts, count = jax.process_count(), len(settings.seeds)
    if hosts == 1:
        return settings
    size = -(-count // hosts)
    mine = np.minimum(np.arange(size) + size * jax.process_index(), count - 1)
    noise = settings.noise and Noise(settings.noise.state[mine], settings.noise.reward[mine])
    return settings._replace(seeds=settings.seeds[mine], noise=noise)


def own(path: Path) -> Path:
    """Where this process keeps what is its own."""
    hosts = jax.process_count()
    if hosts == 1:
        return path
    return path.with_name(f"{path.name}.{jax.process_index()}-of-{hosts}")


def gather(results: list[Result], settings: Settings) -> list[Result]:
    """The results for all seeds, from those that each process has for its share."""
    if jax.process_count() == 1:
        return results
    with jax.enable_x64(True):
        everywhere = process_allgather([_arrays(result) for result in results])
    return [_joined(*pair, settings.seeds) for pair in zip(results, everywhere, strict=True)]


def _arrays(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in _BY_SEED}


def _joined(result: Result, everywhere: dict[str, Any], seeds: np.ndarray) -> Result:
    """A result with the arrays of all processes, leaves (hosts, axes…, share, …)."""
    axis = len(result.axes)

    def join(leaf: np.ndarray) -> np.ndarray:
        return np.concatenate(list(leaf), axis=axis).take(np.arange(len(seeds)), axis)

    return replace(result, seeds=seeds, **jax.tree.map(join, everywhere))
