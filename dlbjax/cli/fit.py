"""`dlbjax fit`: from a table of spend and results to a model."""

import argparse
import warnings
from pathlib import Path
from typing import Any

from dlbjax.cli.arguments import check_writable, numbers, order

_EPILOG = """\
The file has a row for each round (day, week) and names its columns in the first line. An empty reward is a
missing one. The model holds a system with its noise and how sure its effects are, and the limits within which
to spend: by default nothing up to the most that each channel had in the log, and its mean total per round.

examples:
  dlbjax fit spend.csv --actions fb,google,bing --reward conversions --date day --out model.json
  dlbjax fit spend.csv --actions fb,google --reward sales --budget 1500 --high 1000,800 --out model.json
then:
  dlbjax plan model.json --horizon 30 --report plan.html
  dlbjax run model.json --policy dynlin_ucb_tight --policy lin_ucb
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's commands."""
    parser = commands.add_parser(
        "fit",
        help="identify a system from logged actions and rewards",
        description="Identify a system from a CSV file of actions and rewards, and write it as a model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, metavar="FILE.csv", help="a row for each round")
    parser.add_argument(
        "--actions", required=True, metavar="COLUMN,…", help="columns of what was done"
    )
    parser.add_argument(
        "--reward", required=True, metavar="COLUMN", help="column of what came of it"
    )
    parser.add_argument(
        "--date", metavar="COLUMN", help="column of dates, to order rows and find gaps"
    )
    parser.add_argument(
        "--order", type=order, default="auto", help="number of hidden states (default auto)"
    )
    parser.add_argument("--budget", type=float, help="most to spend in a round, on all channels")
    parser.add_argument(
        "--low", type=numbers, default=0.0, help="least of each channel (default 0)"
    )
    parser.add_argument(
        "--high", type=numbers, help="most of each channel (default that of the log)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.json", help="file to write"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from dlbjax.campaign import Model, read_log
    from dlbjax.identification import identify

    check_writable("--out", args.out, ".json")
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UserWarning)
        columns = [name.strip() for name in args.actions.split(",")]
        log = read_log(args.data, columns, args.reward, args.date)
        try:
            fit = identify(log.actions, log.rewards, args.order, channels=columns)
        except ValueError as error:
            raise ValueError(f"{args.data}: {error}") from error
    model = Model.of(fit, log, low=args.low, high=args.high, total=args.budget)
    model.save(args.out)
    print(fit)
    for doubt in doubts:
        if str(doubt.message) not in fit.warnings:  # those are in the summary
            print(f"  warning     {doubt.message}")
    print(f"{args.out}")
    return 0
