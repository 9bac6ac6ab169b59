"""`dlbjax run`: policies against a problem, from the command line."""

import argparse
import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dlbjax
from dlbjax import specs
from dlbjax.cli.arguments import check_writable, count
from dlbjax.result import REGRETS, Result, Results, Summary

_QUANTILES = (0.1, 0.5, 0.9)

_EXAMPLES = """\
examples:
  dlbjax run synthetic --policy dynlin_ucb --policy lin_ucb
  dlbjax run real_world:sigma=0.1 --policy 'dynlin_ucb:rho_bar=[0.7,0.8,0.9]' --out runs.npz
  dlbjax run mine.toml --policy dynlin_ucb:lam=5 --policy myopic --horizon 1e6 --json
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's commands."""
    parser = commands.add_parser(
        "run",
        help="run policies on a problem and print their regret",
        description="Run policies on a problem and print their expected regret after the last round:\n"
        "mean, standard deviation, standard error and quantiles over runs.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "problem", metavar="PROBLEM",
        help="synthetic or real_world, with :sigma=… for another noise, or a .json or .toml file",
    )  # fmt: skip
    parser.add_argument(
        "--policy", metavar="SPEC", action="append", required=True,
        help="NAME[:key=value,…], see below; give it again for each further policy",
    )  # fmt: skip
    parser.add_argument("--horizon", type=count, default=100_000, help="rounds (default 100000)")
    parser.add_argument("--seeds", type=count, default=20, help="runs (default 20)")
    parser.add_argument(
        "--dtype", choices=("float64", "float32"), default="float64", help="(default float64)"
    )
    parser.add_argument(
        "--out", type=Path, help=".npz file for the regret over time; dlbjax.load reads it"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object, with all kinds of regret"
    )
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.out is not None:
        check_writable("--out", args.out, ".npz")
    for text in args.policy:
        if args.policy.count(text) > 1:
            raise ValueError(f"policy {text!r:.60} is given twice; leave one out")
    with np.errstate(all="ignore"):  # what overflows is refused by name; no need to warn as well
        problem = specs.problem_from(args.problem)
        policies = {text: specs.policy_from(text, problem) for text in args.policy}
        results = dlbjax.simulate(problem, policies, args.horizon, args.seeds, dtype=args.dtype)
    if args.out is not None:
        results.save(args.out)
    print(_json(args, results) if args.json else _table(args, results))
    return 0


def _points(result: Result) -> Iterator[tuple[str, dict[str, float], tuple[int, ...]]]:
    """Label, hyper-parameters and index of every point of a result's grid."""
    shape = tuple(len(values) for values in result.axes.values())
    for label, place in zip(result.labels(), np.ndindex(shape), strict=True):
        point = zip(result.axes.items(), place, strict=True)
        yield label, {name: values[i].item() for (name, values), i in point}, place


def _table(args: argparse.Namespace, results: Results) -> str:
    lines = [f"expected regret after {args.horizon} rounds, {args.seeds} runs"]
    heads = ["mean", "std", "std error", *(f"{q:.0%}" for q in _QUANTILES)]
    lines.append("".join(f"{head:>12}" for head in heads) + "  policy")
    for result in results.values():
        summary = result.summary("expected", _QUANTILES)
        for label, _, place in _points(result):
            row = _statistics(summary, place)
            numbers = [row["mean"], row["std"], row["standard_error"], *row["quantiles"].values()]
            cells = ["-" if number is None else f"{number:.6g}" for number in numbers]
            lines.append("".join(f"{cell:>12}" for cell in cells) + f"  {label}")
    return "\n".join(lines)


def _json(args: argparse.Namespace, results: Results) -> str:
    policies = []
    for text, result in results.items():
        summaries = {kind: result.summary(kind, _QUANTILES) for kind in REGRETS}
        for _, hyperparameters, place in _points(result):
            final = {kind: _statistics(summary, place) for kind, summary in summaries.items()}
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


def _statistics(summary: Summary, place: tuple[int, ...]) -> dict[str, Any]:
    """Statistics after the last round; None where one run has no spread."""

    def number(values: np.ndarray) -> float | None:
        value = float(values[(*place, -1)])
        return value if np.isfinite(value) else None

    return {
        "mean": number(summary.mean),
        "std": number(summary.std),
        "standard_error": number(summary.standard_error),
        "quantiles": {
            str(q): number(values) for q, values in zip(_QUANTILES, summary.quantiles, strict=True)
        },
    }


def _epilog() -> str:
    lines = ["policies and their keys:"]
    for name, make in specs.POLICIES.items():
        about = (inspect.getdoc(make) or "").partition("\n")[0]
        keys = ", ".join(specs.own_keys(make)) or "none"
        lines += [f"  {name}", *_wrapped(about), *_wrapped(f"keys: {keys}")]
    told = [name for name, make in specs.POLICIES.items() if "rho_bar" in specs.policy_keys(make)]
    lines += [
        "",
        *_wrapped(
            f"{', '.join(told)} are told the tightest bounds that hold. To tell them others, add "
            f"{', '.join(specs.BOUNDS_KEYS)}; rho_bar changes Phi and X with it.",
            "  ",
        ),
        *_wrapped(
            "A value is a number or a list in brackets. A list runs every value in it, unless the "
            "argument is a list itself (action, epochs, beta).",
            "  ",
        ),
    ]
    return "\n".join([*lines, "", _EXAMPLES])


def _wrapped(text: str, indent: str = "    ") -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)
