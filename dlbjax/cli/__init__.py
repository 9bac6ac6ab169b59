"""The `dlbjax` command."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import jax

import dlbjax
from dlbjax.cli import fit, lab, plan, reproduce, run, sweep
from dlbjax.common.hints import printable
from dlbjax.engine.interrupts import interrupts


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command and return the exit code."""
    args = None  # until the command line has been parsed, which Ctrl-C may interrupt, too
    try:
        with interrupts():
            args = _parser().parse_args(arguments)
            return args.run(args)
    except (ValueError, OSError, ArithmeticError, MemoryError) as error:
        message = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"dlbjax: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        keeps = getattr(args, "keeps", False) or getattr(args, "checkpoint", None) is not None
        kept = "; finished work is kept" if keeps else ""
        print(f"dlbjax: interrupted{kept}", file=sys.stderr)
        return 130


def entry() -> None:
    """The console script: `main` with a compilation cache on disk."""
    config: Any = jax.config  # whose options are attributes in newer versions only
    if config.jax_compilation_cache_dir is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(cache / "dlbjax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    sys.exit(main())


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, as all commands do."""

    def error(self, message: str) -> NoReturn:
        """Print the error and where to find help, and exit with code 2."""
        self.exit(2, f"dlbjax: {' '.join(message.split())} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="dlbjax", description="A laboratory for Dynamical Linear Bandits."
    )
    parser.add_argument("--version", action="version", version=f"dlbjax {dlbjax.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reproduce.add_to(commands)
    run.add_to(commands)
    sweep.add_to(commands)
    fit.add_to(commands)
    plan.add_to(commands)
    lab.add_to(commands)
    return parser
