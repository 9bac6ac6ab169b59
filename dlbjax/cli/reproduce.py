"""`dlbjax reproduce`: the paper's experiments, from the command line."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from dlbjax.cli.arguments import add_size

_ABOUT = {
    "figure1": "all algorithms on the synthetic problem, and D-Lin-UCB with several discounts",
    "figure2": "DynLin-UCB told five values of rho_bar, and Lin-UCB",
    "figure3": "all algorithms and the human expert on the system identified from real data",
    "noise": "the synthetic problem with sigma = 0.001, 0.01 and 0.1",
    "tight": "beyond the paper: dynlin_ucb_tight over lam, extra rounds, rho_bar, loose bounds",
}
_EPILOG = """\
figures:
{figures}
  all      all of them (default)

For each: .png and .pdf, a table (.md) and the results (.npz, which dlbjax.load reads). In the end
claims.md, what the paper says beside what was measured. Experiments whose results of the same size
are in the folder already are not run again, so that a command that was interrupted goes on where it
was.

examples:
  dlbjax reproduce
  dlbjax reproduce figure2 --horizon 1e5 --seeds 20 --out small
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's commands."""
    figures = "\n".join(f"  {name:8} {about}" for name, about in _ABOUT.items())
    parser = commands.add_parser(
        "reproduce",
        help="run the paper's experiments and draw its figures",
        description="Run the paper's experiments, at its own size unless told otherwise, and write "
        "figures, tables\nand a comparison with what the paper says.",
        epilog=_EPILOG.format(figures=figures),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "figure", nargs="?", choices=(*_ABOUT, "all"), default="all", help="(default all)"
    )
    add_size(parser, horizon=1_000_000, seeds=50)
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="folder (default results)"
    )
    parser.add_argument("--again", action="store_true", help="run what is there already, too")
    parser.set_defaults(run=_reproduce, keeps=True)


def _reproduce(args: argparse.Namespace) -> int:
    from dlbjax.experiments import report

    try:  # before minutes are spent on what goes there
        args.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=args.out):
            pass
    except OSError as error:
        raise ValueError(f"--out {str(args.out)!r} cannot be written: {error.strerror}") from error
    size = report.Size(args.horizon, args.seeds, args.dtype)
    figures = list(_ABOUT) if args.figure == "all" else [args.figure]
    for path in report.reproduce(figures, args.out, size, args.again):
        print(path, flush=True)
    return 0
