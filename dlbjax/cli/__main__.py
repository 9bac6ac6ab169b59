"""Run the command line with `python -m dlbjax.cli`."""

from dlbjax.cli import entry

entry()
