"""`dlbjax sweep`: run policies on problems into a store."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

import dlbjax
from dlbjax.cli import specs
from dlbjax.cli.arguments import Commands, add_size, check_distinct, count
from dlbjax.cli.policies import add_policies, help_on_policies
from dlbjax.cli.tables import table_of
from dlbjax.common.hints import optional, show

_EXAMPLES = """\
examples:
  dlbjax sweep runs.zarr --problem 'synthetic:sigma=[0.01,0.1]' --policy dynlin_ucb \\
      --policy 'lin_ucb:lam=[1,10]' --horizon 1e5 --seeds 1000 --workers 4
  dlbjax sweep runs.zarr       print what the store holds, and how far a running sweep is
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sweep",
        help="run policies on problems into a store that can be extended",
        description="Run every policy on every problem, in batches, into a store, and print its content.\n"
        "Runs in the store are not computed again, whether a sweep was killed or is extended.\n"
        "Without --problem and --policy, only print.",
        epilog=f"{help_on_policies()}\n\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "store", metavar="STORE", help="a folder, or an address such as s3://bucket/runs.zarr"
    )
    parser.add_argument(
        "--problem", metavar="PROBLEM", action="append", default=[],
        help="as for dlbjax run, also with lists of numbers; repeat it for several problems",
    )  # fmt: skip
    add_policies(parser, required=False)
    add_size(parser, horizon=100_000, seeds=20)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cluster", metavar="ADDRESS", help="address of a running Dask scheduler")
    where.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="start N processes of one core each on this machine",
    )
    parser.add_argument(
        "--repair", action="store_true", help="compute anew what is damaged in the store"
    )
    parser.set_defaults(run=_sweep, keeps=True)


def _sweep(args: argparse.Namespace) -> int:
    if bool(args.problem) != bool(args.policy):
        raise ValueError(
            "a sweep needs at least one --problem and one --policy; add the missing option"
        )
    check_distinct("problem", args.problem)
    check_distinct("policy", args.policy)
    if args.problem:
        problems = {text: specs.problem_grid_from(text) for text in args.problem}
        policies = {text: partial(specs.policy_from, text) for text in args.policy}
        with np.errstate(all="ignore"), _executor(args) as executor:
            dlbjax.sweep(
                problems, policies, args.horizon, args.seeds, args.store,
                executor=executor, dtype=args.dtype, repair=args.repair,
            )  # fmt: skip
    _print(dlbjax.Store(args.store))
    return 0


def _executor(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """A client of the cluster that was asked for, None for this process."""
    if args.cluster is None and args.workers is None:
        return nullcontext()
    client = optional("distributed", "sweeps").Client
    if args.cluster is not None:
        return client(args.cluster)
    return client(
        n_workers=args.workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )


def _print(store: dlbjax.Store) -> None:
    show(store)
    for series in store.series():
        if seeds := len(store.complete(series)):
            last = store.result(series.problem, series.policy, [series.horizon])
            show(f"\n{series.problem}: expected regret after {series.horizon} rounds, {seeds} runs")
            show(table_of({"": last}))
