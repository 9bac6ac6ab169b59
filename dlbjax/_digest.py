"""Short names for numbers, to tell whether a file belongs to them."""

import hashlib
from typing import Any

import jax
import numpy as np

NEARLY = 9  # digits of what was computed: another version of NumPy may change the last ones


def digest(tree: Any, digits: int | None = None) -> str:
    """A short name for the numbers in a pytree: for all of their bits, or for some digits of floats.

    >>> digest([1.0, 2.0]) == digest([1.0, 2.0 + 1e-12])
    False
    >>> digest([1.0, 2.0], NEARLY) == digest([1.0, 2.0 + 1e-12], NEARLY)
    True
    """
    parts = []
    for leaf in map(np.asarray, jax.tree.leaves(tree)):
        if digits is None:
            numbers = [leaf.dtype.str, hashlib.sha256(leaf.tobytes()).hexdigest()]
        elif leaf.dtype.kind == "f":
            numbers = [f"{x + 0.0:.{digits}g}" for x in leaf.ravel().tolist()]
        else:
            numbers = [str(int(x)) for x in leaf.ravel().tolist()]
        parts.append((leaf.shape, numbers))
    return digest_text(repr(parts))


def digest_text(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
