"""`dlbjax fit`: identify a model from a CSV file of actions and rewards."""

import argparse
import warnings
from pathlib import Path

from dlbjax.campaign import Model, read_log
from dlbjax.cli.arguments import Commands, check_writable, count, numbers, order
from dlbjax.common.hints import show
from dlbjax.identification import identify

_EPILOG = """\
The file has one row per round (day, week) and names its columns in the first line. An empty reward is
missing. The model holds a system with its noise, standard errors of its effects, and limits on spending: by
default each channel from 0 to its maximum in the log, and all together the log's mean total per round.

examples:
  dlbjax fit spend.csv --actions fb,google,bing --reward conversions --date day --out model.json
  dlbjax fit spend.csv --actions fb,google --reward sales --controls price --trend --season 52 --signs 1 \
    --out model.json
  dlbjax fit spend.csv --actions fb,google --reward sales --budget 1500 --high 1000,800 --out model.json
then:
  dlbjax plan model.json --horizon 30 --report plan.html
  dlbjax run model.json --policy dynlin_ucb_tight --policy lin_ucb
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fit",
        help="identify a system from logged actions and rewards",
        description="Identify a system from a CSV file of actions and rewards, and write it as a model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, metavar="FILE.csv", help="one row per round")
    parser.add_argument(
        "--actions", required=True, metavar="COLUMN,…", help="columns of the actions"
    )
    parser.add_argument("--reward", required=True, metavar="COLUMN", help="column of the reward")
    parser.add_argument(
        "--date", metavar="COLUMN", help="column of dates, to sort rows and find gaps"
    )
    parser.add_argument(
        "--decimal", choices=(".", ","), help="decimal sign (default: as the numbers show)"
    )
    parser.add_argument(
        "--thousands", metavar="SIGN", help="sign between thousands (default: as the numbers show)"
    )
    parser.add_argument(
        "--controls", metavar="COLUMN,…", help="columns that nobody chooses: prices, holidays"
    )
    parser.add_argument("--trend", action="store_true", help="fit a linear trend")
    parser.add_argument("--season", type=float, metavar="ROUNDS", help="fit a season: 52 for weeks")
    parser.add_argument(
        "--harmonics", type=count, default=2, help="sines and cosines of the season (default 2)"
    )
    parser.add_argument(
        "--region", metavar="COLUMN", help="column of regions, each with a baseline of its own"
    )
    parser.add_argument(
        "--signs", type=numbers,
        help="1, -1 or 0 for each channel, or one for all: possible signs of effects, to warn of others",
    )  # fmt: skip
    parser.add_argument(
        "--order", type=order, default="auto", help="number of hidden states (default auto)"
    )
    parser.add_argument("--budget", type=float, help="maximum total per round")
    parser.add_argument(
        "--low", type=numbers, default=0.0, help="minimum of each channel (default 0)"
    )
    parser.add_argument(
        "--high", type=numbers, help="maximum of each channel (default that of the log)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MODEL.json", help="file to write"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    check_writable("--out", args.out, ".json")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        columns = [name.strip() for name in args.actions.split(",")]
        log = read_log(
            args.data,
            columns,
            args.reward,
            args.date,
            controls=[name.strip() for name in (args.controls or "").split(",") if name],
            region=args.region,
            decimal=args.decimal,
            thousands=args.thousands,
        )
        try:
            fit = identify(
                log.actions, log.rewards, args.order, controls=log.controls, trend=args.trend,
                season=args.season, harmonics=args.harmonics, first_rounds=log.first_rounds,
                groups=log.groups, signs=args.signs, channels=columns,
                control_names=log.control_names or None,
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f"{args.data}: {error}") from error
    model = Model.of(fit, log, low=args.low, high=args.high, total=args.budget)
    model.save(args.out)
    show(fit)
    for warning in caught:
        if str(warning.message) not in fit.warnings:  # the summary has those
            show(f"  warning     {warning.message}")
    print(args.out)
    return 0
