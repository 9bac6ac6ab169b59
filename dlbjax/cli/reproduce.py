"""`dlbjax reproduce`: run the paper's experiments."""

import argparse
import tempfile
from pathlib import Path

from dlbjax.cli.arguments import Commands, add_size

_ABOUT = {
    "figure1": "all algorithms on the synthetic problem",
    "figure2": "DynLin-UCB with five values of rho_bar, and Lin-UCB",
    "figure3": "all algorithms and the human expert on the system identified from real data",
    "variants": "Figure 1 with the released program's six vertices, D-Lin-UCB with several discounts",
    "noise": "the synthetic problem with sigma = 0.001, 0.01 and 0.1",
    "tight": "beyond the paper: dynlin_ucb_tight over lam, extra rounds, rho_bar, loose bounds",
    "adaptive": "beyond the paper: dynlin_ucb_adaptive and later algorithms, on 200 random systems too",
}
_EPILOG = """\
figures:
{figures}
  all      all of them (default)

Each writes the figure (.png, .pdf), a table (.md) and its results (.npz, for dlbjax.load). Figures show
expected regret, and with -offline in their name offline regret, as the paper does. claims.md compares the
paper's claims with all results in the folder. Results of the same code and size are reused, so that an
interrupted command continues.

examples:
  dlbjax reproduce
  dlbjax reproduce figure2 --horizon 1e5 --seeds 20 --out small
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    figures = "\n".join(f"  {name:8} {about}" for name, about in _ABOUT.items())
    parser = commands.add_parser(
        "reproduce",
        help="run the paper's experiments and draw its figures",
        description="Run the paper's experiments, by default at full size, and write figures, tables and a\n"
        "comparison with the paper's claims.",
        epilog=_EPILOG.format(figures=figures),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "figure", nargs="?", choices=(*_ABOUT, "all"), default="all", help="(default all)"
    )
    add_size(parser, horizon=1_000_000, seeds=50)
    parser.add_argument(
        "--out", type=Path, default=Path("results"), help="folder to write (default results)"
    )
    parser.add_argument(
        "--again", action="store_true", help="run experiments again instead of reusing results"
    )
    parser.set_defaults(run=_reproduce, keeps=True)


def _reproduce(args: argparse.Namespace) -> int:
    from dlbjax.experiments import report

    try:  # before minutes are spent on its content
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
