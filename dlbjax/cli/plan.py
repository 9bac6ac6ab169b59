"""`dlbjax plan`: choose allocations with a model."""

import argparse
import json
from itertools import groupby
from pathlib import Path

import numpy as np

from dlbjax.campaign import Choice, Model, choose, read_model
from dlbjax.campaign.choice import CONSTANT, rehearse
from dlbjax.cli.arguments import Commands, check_writable, count
from dlbjax.common.files import write_atomically
from dlbjax.results.result import Results

_EPILOG = """\
examples:
  dlbjax plan model.json --horizon 30
  dlbjax plan model.json --budget 2000 --horizon 30 --report plan.html
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan",
        help="choose allocations with a model written by `dlbjax fit`",
        description="The best constant allocation with its uncertainty, the best plan over a horizon from\n"
        "today's estimated state, and how much learning from scratch loses on the fitted system.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, metavar="MODEL.json", help="written by dlbjax fit")
    parser.add_argument("--horizon", type=count, default=30, help="rounds to plan (default 30)")
    parser.add_argument(
        "--budget", type=float, help="maximum total per round (default that of the model)"
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
    choice = choose(model, args.horizon, args.budget)
    rehearsal = rehearse(choice.problem, args.rehearse)
    if args.report is not None:
        import matplotlib

        matplotlib.use("Agg")
        from dlbjax.campaign.page import report

        with write_atomically(args.report) as file:
            file.write(report(model, choice, rehearsal).encode())
    print((_json if args.json else _text)(model, choice, rehearsal))
    return 0


def _text(model: Model, choice: Choice, rehearsal: Results) -> str:
    first = next(iter(rehearsal.values()))
    rounds, runs = first.rounds[-1], len(first.seeds)
    lines = [f"best constant allocations, {model.reward} per round once settled:"]
    heads = [*model.channels, "expected", "std error", "best with"]
    lines.append("".join(f"{head:>12.11}" for head in heads))
    for option in choice.options[:5]:
        cells = [*(f"{share:.5g}" for share in option.allocation), f"{option.reward:.5g}"]
        cells += [f"{option.std:.2g}", f"{option.probability:.1%}"]
        lines.append("".join(f"{cell:>12}" for cell in cells))
    lines += ["", f"best plan over {len(choice.plan)} rounds from today's state:"]
    lines.append("".join(f"{head:>12.11}" for head in ("rounds", *model.channels)))
    for begin, end, allocation in _stretches(choice.plan):
        when = f"{begin}" if begin == end else f"{begin}-{end}"
        lines.append("".join(f"{c:>12}" for c in (when, *(f"{x:.5g}" for x in allocation))))
    lines += [
        f"expected {model.reward} in all: {choice.plan_reward:.6g} with the plan, "
        f"{choice.constant_reward:.6g} with the best constant allocation, "
        f"{choice.baseline_reward:.6g} without spend",
        "",
        f"{model.reward} lost against it over {rounds} rounds by learning from scratch, mean of {runs} runs:",
    ]
    lines += [f"{lost:>12.5g}  {name}" for name, lost in _lost(rehearsal).items()]
    return "\n".join(lines)


def _json(model: Model, choice: Choice, rehearsal: Results) -> str:
    content = {
        "channels": model.channels,
        "reward": model.reward,
        "allocations": [
            {"allocation": o.allocation.tolist(), "reward": o.reward, "standard_error": o.std,
             "probability_best": o.probability} for o in choice.options
        ],
        "plan": choice.plan.tolist(),
        "plan_reward": choice.plan_reward,
        "constant_reward": choice.constant_reward,
        "baseline_reward": choice.baseline_reward,
        "lost_by_learning": _lost(rehearsal),
    }  # fmt: skip
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
