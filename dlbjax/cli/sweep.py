"""`dlbjax sweep`: run policies on problems into a store."""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

import dlbjax
from dlbjax.cli import specs
from dlbjax.cli.arguments import Commands, add_checkpoint_every, add_size, check_distinct
from dlbjax.cli.policies import add_policies, help_on_policies
from dlbjax.cli.tables import table_of

_EXAMPLES = """\
examples:
  dlbjax sweep runs --problem synthetic --problem synthetic:sigma=0.1 --policy dynlin_ucb \\
      --policy 'lin_ucb:lam=[1,10]' --horizon 1e5 --seeds 1000
  dlbjax sweep runs            print what the store holds
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sweep",
        help="run policies on problems into a folder that can be extended",
        description="Run every policy on every problem, in batches, into a folder, and print its content.\n"
        "Runs in the folder are not computed again, whether a sweep was killed or is extended.\n"
        "To divide the work, start the same command on several machines that share the folder.\n"
        "Without --problem and --policy, only print.",
        epilog=f"{help_on_policies()}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("store", metavar="FOLDER", type=Path, help="folder of the store")
    parser.add_argument(
        "--problem", metavar="PROBLEM", action="append", default=[],
        help="as for dlbjax run; repeat it for several problems",
    )  # fmt: skip
    add_policies(parser, required=False)
    add_size(parser, horizon=100_000, seeds=20)
    add_checkpoint_every(parser)
    parser.set_defaults(run=_sweep, keeps=True)


def _sweep(args: argparse.Namespace) -> int:
    if bool(args.problem) != bool(args.policy):
        raise ValueError(
            "a sweep needs at least one --problem and one --policy; add the missing option"
        )
    check_distinct("problem", args.problem)
    check_distinct("policy", args.policy)
    if args.problem:
        with np.errstate(all="ignore"):  # overflow raises an error that names its cause
            dlbjax.sweep(
                {text: specs.problem_from(text) for text in args.problem},
                {text: partial(specs.policy_from, text) for text in args.policy},
                args.horizon, args.seeds, args.store,
                dtype=args.dtype, checkpoint_every=args.checkpoint_every,
            )  # fmt: skip
    _print(dlbjax.Store(args.store))
    return 0


def _print(store: dlbjax.Store) -> None:
    print(store)
    for series in store.series():
        if seeds := len(store.complete(series)):
            last = series.rounds[-1:]
            print(f"\n{series.problem}: expected regret after {last[0]} rounds, {seeds} runs")
            print(table_of({"": store.result(series.problem, series.policy, last.tolist())}))
