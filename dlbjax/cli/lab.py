"""`dlbjax lab`: serve the interactive page."""

import argparse
from pathlib import Path

from dlbjax.cli.arguments import Commands
from dlbjax.common.hints import optional
from dlbjax.model.files import read_problem


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "lab",
        help="serve an interactive page: drag a parameter, watch the regret",
        description="Serve the lab to browsers on this machine until Ctrl-C, and open one.\n"
        "Needs the extra lab.",
        epilog="examples:\n  dlbjax lab\n  dlbjax lab mine.toml --port 8000 --no-browser\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "problem", nargs="?", type=Path, metavar="PROBLEM.toml",
        help="a .toml or .json file, offered beside the built-in problems",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=0, help="port to serve on (default any that is free)"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    given = None if args.problem is None else read_problem(args.problem)
    try:
        optional("panel", "lab")
    except ImportError as error:
        raise ValueError(str(error)) from None
    from dlbjax.lab.server import serve

    serve(given, "" if args.problem is None else args.problem.name, args.port, not args.no_browser)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) < 2**16:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from 0 to 65535; got {text!r:.60}"
        )
    return int(text)
