"""Forked processes: JAX's threads do not exist in them, and whatever waits for one waits for ever."""

import os
from typing import Any

import jax

_jax_was_used = False
_is_forked = False


def check_not_forked() -> None:
    """Raise a RuntimeError in a process that was forked after JAX had computed something."""
    if _is_forked:
        raise RuntimeError(
            "this process was forked from one that had already used JAX, whose threads a fork does not "
            "copy: it would wait for ever. Start processes with multiprocessing.get_context('spawn') (or "
            "'forkserver'), or fork before anything is computed"
        )


def _note_use(*_: Any, **__: Any) -> None:
    global _jax_was_used
    _jax_was_used = True


def _note_fork() -> None:
    global _is_forked
    _is_forked = _jax_was_used


# JAX says when it traces and compiles, which comes before all that it computes.
jax.monitoring.register_event_duration_secs_listener(_note_use)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
