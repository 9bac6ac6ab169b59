"""`python -m dlbjax.cli`."""

from dlbjax.cli import entry

entry()
