"""`--policy`, and the help on what can be said there."""

import argparse
import inspect
import textwrap

from dlbjax import specs


def add_policies(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the option."""
    parser.add_argument(
        "--policy", metavar="SPEC", action="append", required=required, default=[],
        help="NAME[:key=value,…], see below; give it again for each further policy",
    )  # fmt: skip


def help_on_policies() -> str:
    """All policies and their keys."""
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
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "    ") -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)
