"""`dlbjax plan`: choose allocations with a model."""

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from dlbjax.campaign import Choice, Model, Option, choose, read_model
from dlbjax.campaign.choice import CONSTANT, rehearse
from dlbjax.cli.arguments import Commands, check_writable, count, numbers
from dlbjax.common.files import write_atomically
from dlbjax.common.hints import printable, show
from dlbjax.results.result import Results

_EPILOG = """\
examples:
  dlbjax plan model.json --horizon 30
  dlbjax plan model.json --budget 2000 --horizon 30 --report plan.html
  dlbjax plan model.json --low 100,0 --high 800,500 --change 50
By default each channel stays within 30 % of its current spend, and all of them jointly inside what was
played; --corners considers everything within the limits.
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan",
        help="choose allocations with a model written by `dlbjax fit`",
        description="What the current allocation brings, what the best one near it brings, how surely it is\n"
        "better, and the best plan over a horizon from today's estimated state.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="written by dlbjax fit")
    parser.add_argument("--horizon", type=count, default=30, help="rounds to plan (default 30)")
    parser.add_argument(
        "--budget", type=float, help="maximum total per round (default that of the model)"
    )
    parser.add_argument("--low", type=numbers, help="minimum of each channel (default the model's)")
    parser.add_argument(
        "--high", type=numbers, help="maximum of each channel (default the model's)"
    )
    parser.add_argument(
        "--change", type=numbers, help="largest change of each channel from one round to the next"
    )
    parser.add_argument(
        "--current", type=numbers, help="current spend on each channel (default the log's mean)"
    )
    parser.add_argument(
        "--nearby", type=float, default=0.3, metavar="SHARE",
        help="share by which a channel may differ from its current spend (default 0.3)",
    )  # fmt: skip
    parser.add_argument(
        "--corners", action="store_true", help="consider every allocation within the limits"
    )
    parser.add_argument(
        "--rehearse", type=count, default=1000, metavar="ROUNDS",
        help="rounds over which to simulate learning algorithms (default 1000)",
    )  # fmt: skip
    parser.add_argument(
        "--report", type=Path, metavar="FILE.html", help="write a page with figures"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    if args.report is not None:
        check_writable("--report", args.report, ".html")
    model = read_model(args.model)
    choice = choose(
        model, args.horizon, args.budget, low=args.low, high=args.high, change=args.change,
        current=args.current, nearby=None if args.corners else args.nearby,
    )  # fmt: skip
    try:
        lost = _lost(rehearse(choice.problem, args.rehearse))
    except ValueError as error:  # the plan stands without it
        lost = {}
        print(f"no rehearsal: {printable(str(error))}", file=sys.stderr)
    if args.report is not None:
        import matplotlib

        matplotlib.use("Agg")
        from dlbjax.campaign.page import report

        with write_atomically(args.report) as file:
            file.write(report(model, choice).encode())
    show((_json if args.json else _text)(model, choice, lost, args.rehearse))
    return 0


def _text(model: Model, choice: Choice, lost: dict[str, float], rounds: int) -> str:
    now, best = choice.current, choice.options[0]
    lines = [
        f"{model.reward} per round once settled, and how much more than now (± standard error):"
    ]
    heads = [*model.channels, "expected", "more", "±", "better", "best"]
    lines.append("".join(f"{head:>12.11}" for head in heads))
    lines.append(_row([*now.allocation, now.reward]) + "   (now)")
    for option in choice.options[:5]:
        chances = f"{option.better:>12.1%}{option.probability:>12.1%}"
        lines.append(
            _row([*option.allocation, option.reward, option.gain, option.gain_std]) + chances
        )
    low, high = best.gain - 1.96 * best.gain_std, best.gain + 1.96 * best.gain_std
    lines += [
        f"recommended: the first of these, {best.gain:+.4g} per round (95 % interval {low:+.4g} to "
        f"{high:+.4g}), better than now with {best.better:.1%}",
        "",
        f"best plan over {len(choice.plan)} rounds from today's state:",
    ]
    lines.append("".join(f"{head:>12.11}" for head in ("rounds", *model.channels)))
    for begin, end, allocation in _stretches(choice.plan):
        when = f"{begin}" if begin == end else f"{begin}-{end}"
        lines.append(f"{when:>12}" + _row(allocation))
    lines.append(
        f"expected {model.reward} in all: {choice.plan_reward:.6g} with the plan, "
        f"{choice.constant_reward:.6g} with the recommended allocation, {choice.current_reward:.6g} as now, "
        f"{choice.baseline_reward:.6g} without spend"
    )
    if lost:
        lines += [
            "",
            f"{model.reward} lost over {rounds} rounds by learning from scratch, mean of 20 runs:",
            *(f"{amount:>12.5g}  {name}" for name, amount in lost.items()),
        ]
    return "\n".join([*lines, *(f"warning: {text}" for text in choice.warnings)])


def _row(numbers: Iterable[float]) -> str:
    return "".join(f"{number:>12.5g}" for number in numbers)


def _json(model: Model, choice: Choice, lost: dict[str, float], rounds: int) -> str:
    def told(option: Option) -> dict[str, Any]:
        return {
            "allocation": option.allocation.tolist(), "reward": option.reward,
            "standard_error": option.std, "gain": option.gain,
            "gain_standard_error": option.gain_std, "probability_better": option.better,
        }  # fmt: skip

    content = {
        "channels": model.channels,
        "reward": model.reward,
        "current": told(choice.current),
        "allocations": [told(o) | {"probability_best": o.probability} for o in choice.options],
        "plan": choice.plan.tolist(),
        "plan_reward": choice.plan_reward,
        "constant_reward": choice.constant_reward,
        "current_reward": choice.current_reward,
        "baseline_reward": choice.baseline_reward,
        "lost_by_learning": lost,
        "rehearsed_rounds": rounds,
        "warnings": choice.warnings,
    }
    return json.dumps(content, indent=2, allow_nan=False)


def _lost(rehearsal: Results) -> dict[str, float]:
    """How much less each learner earns than the best constant allocation, both from today's state."""
    final = {name: float(result.summary().mean[-1]) for name, result in rehearsal.items()}
    best = final.pop(CONSTANT)
    return {name: regret - best for name, regret in final.items()}


def _stretches(plan: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
    """First round, last round and allocation of every stretch with one allocation."""
    found = []
    for _, rows in groupby(enumerate(plan, 1), key=lambda row: row[1].tolist()):
        stretch = list(rows)
        found.append((stretch[0][0], stretch[-1][0], stretch[0][1]))
    return found
