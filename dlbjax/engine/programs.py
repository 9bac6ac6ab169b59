"""Compiled programs, of which a process keeps the latest only."""

import threading
from collections.abc import Callable, Hashable
from functools import lru_cache, partial, wraps
from typing import Any

import jax

_MOST = 128  # programs of a function: an experiment goes through dozens of shapes again and again

# CPUs with registers of eight float64 use half of them unless asked to; the numbers are the same. Others
# ignore it.
_OPTIONS = {"xla_cpu_prefer_vector_width": 512}


def compiled(
    function: Callable[..., Any], *, static: int = 0, donate: tuple[int, ...] = (), most: int = _MOST
) -> Callable[..., Any]:  # fmt: skip
    """`jax.jit` for a function whose arguments come in many shapes.

    JAX keeps thousands of programs of a function, and one of `simulate` takes 12 MB: 500 calls of
    differing shapes would take 6 GB. Here those of the last shapes are kept, others are compiled anew.

    Args:
      function: of positional arguments.
      static: how many of the first arguments are compiled in.
      donate: arguments whose memory may be reused.
      most: shapes whose programs are kept.

    >>> traced = []
    >>> double = compiled(lambda x: traced.append(x.shape) or 2 * x, most=1)
    >>> import numpy as np
    >>> for size in (1, 1, 2, 1):
    ...     _ = double(np.ones(size))
    >>> traced
    [(1,), (2,), (1,)]
    """

    @lru_cache(maxsize=most)
    def program(signature: Hashable) -> Any:
        # JAX forgets the programs of a function that does not exist any more.
        fresh = partial(function)
        return jax.jit(
            fresh, static_argnums=range(static), donate_argnums=donate, compiler_options=_OPTIONS
        )

    lock = threading.Lock()  # two threads share a program

    @wraps(function)
    def call(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments[static:])
        shapes = tuple((getattr(x, "shape", ()), getattr(x, "dtype", type(x))) for x in leaves)
        with lock:
            chosen = program((arguments[:static], structure, shapes))
        return chosen(*arguments)

    return call
