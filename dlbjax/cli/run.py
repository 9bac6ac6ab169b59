"""`dlbjax run`: run policies on a problem and print their regret."""

import argparse
import json
from pathlib import Path

import numpy as np

import dlbjax
from dlbjax.cli import specs
from dlbjax.cli.arguments import (
    Commands,
    add_checkpoint_every,
    add_size,
    check_distinct,
    check_writable,
)
from dlbjax.cli.policies import add_policies, help_on_policies
from dlbjax.cli.tables import QUANTILES, points, statistics, table_of
from dlbjax.results.result import REGRETS, Results

_EXAMPLES = """\
examples:
  dlbjax run synthetic --policy dynlin_ucb --policy lin_ucb
  dlbjax run real_world:sigma=0.1 --policy 'dynlin_ucb:rho_bar=[0.7,0.8,0.9]' --out runs.npz
  dlbjax run mine.toml --policy dynlin_ucb:lam=5 --policy myopic --horizon 1e6 --json
  dlbjax run synthetic --policy lin_ucb --horizon 1e7 --seeds 500 --checkpoint long.checkpoint
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "run",
        help="run policies on a problem and print their regret",
        description="Run policies on a problem and print their expected regret after the last round:\n"
        "mean, standard deviation, standard error and quantiles over runs.",
        epilog=f"{help_on_policies()}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "problem", metavar="PROBLEM",
        help="synthetic or real_world, with :sigma=… for other noise, or a .json or .toml file",
    )  # fmt: skip
    add_policies(parser, required=True)
    add_size(parser, horizon=100_000, seeds=20)
    add_checkpoint_every(parser)
    parser.add_argument(
        "--out", type=Path, help=".npz file for the regret over time, for dlbjax.load"
    )
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE",
        help="save the state of all runs to this file, and continue from it if it exists",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, with all kinds of regret"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.out is not None:
        check_writable("--out", args.out, ".npz")
        if args.checkpoint is not None and args.checkpoint.absolute() == args.out.absolute():
            raise ValueError("--out and --checkpoint must be different files")
    check_distinct("policy", args.policy)
    with np.errstate(all="ignore"):  # overflow raises an error that names its cause
        problem = specs.problem_from(args.problem)
        policies = {text: specs.policy_from(text, problem) for text in args.policy}
        results = dlbjax.simulate(
            problem, policies, args.horizon, args.seeds, dtype=args.dtype,
            checkpoint=args.checkpoint, checkpoint_every=args.checkpoint_every,
        )  # fmt: skip
    if args.out is not None:
        results.save(args.out)
    if args.json:
        print(_json(args, results))
    else:
        print(f"expected regret after {args.horizon} rounds, {args.seeds} runs")
        print(table_of(results))
    return 0


def _json(args: argparse.Namespace, results: Results) -> str:
    policies = []
    for text, result in results.items():
        summaries = {kind: result.summary(kind, QUANTILES) for kind in REGRETS}
        for _, hyperparameters, place in points(result):
            final = {kind: statistics(summary, place) for kind, summary in summaries.items()}
            policies.append({"label": text, "hyperparameters": hyperparameters, **final})
    report = {
        "problem": args.problem,
        "horizon": args.horizon,
        "seeds": args.seeds,
        "dtype": args.dtype,
        "version": dlbjax.__version__,
        "policies": policies,
    }
    return json.dumps(report, indent=2, allow_nan=False)
