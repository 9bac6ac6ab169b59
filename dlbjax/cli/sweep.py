"""`dlbjax sweep`: many problems, policies and seeds into a store, from the command line."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dlbjax
from dlbjax import specs
from dlbjax.cli.arguments import add_checkpoint_every, add_size, refuse_repeated
from dlbjax.cli.policies import add_policies, help_on_policies
from dlbjax.cli.tables import table_of

_EXAMPLES = """\
examples:
  dlbjax sweep runs --problem synthetic --problem synthetic:sigma=0.1 --policy dynlin_ucb \\
      --policy 'lin_ucb:lam=[1,10]' --horizon 1e5 --seeds 1000
  dlbjax sweep runs            what is there by now
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's commands."""
    parser = commands.add_parser(
        "sweep",
        help="run policies on problems into a folder that can grow",
        description="Run every policy on every problem, in batches, into a folder; then print what is in "
        "it.\nRuns that are there already are not computed again, whether a sweep was killed or asks for "
        "more.\nStart the same command several times, on machines that share the folder, to divide the "
        "work.\nWithout --problem and --policy it only prints.",
        epilog=f"{help_on_policies()}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("store", metavar="FOLDER", type=Path, help="where the results are kept")
    parser.add_argument(
        "--problem", metavar="PROBLEM", action="append", default=[],
        help="as for dlbjax run; give it again for each further problem",
    )  # fmt: skip
    add_policies(parser, required=False)
    add_size(parser, horizon=100_000, seeds=20)
    add_checkpoint_every(parser)
    parser.set_defaults(run=_sweep, keeps=True)


def _sweep(args: argparse.Namespace) -> int:
    if bool(args.problem) != bool(args.policy):
        raise ValueError("a sweep needs at least one --problem and one --policy")
    refuse_repeated("problem", args.problem)
    refuse_repeated("policy", args.policy)
    if args.problem:
        with np.errstate(
            all="ignore"
        ):  # what overflows is refused by name; no need to warn as well
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
