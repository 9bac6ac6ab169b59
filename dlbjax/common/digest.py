"""Digests of numbers and text, which identify what a file was computed from."""

import hashlib
from typing import Any

import jax
import numpy as np

NEARLY = 9  # digits of computed numbers: another version of NumPy may change the last ones


def digest(tree: Any, digits: int | None = None) -> str:
    """Digest of the numbers in a pytree, by all of their bits or by the leading `digits` of floats.

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
    """The first 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
