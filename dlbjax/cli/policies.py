"""The option `--policy` and its help."""

import argparse
import inspect
import textwrap

from dlbjax.cli import specs


def add_policies(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add --policy."""
    parser.add_argument(
        "--policy", metavar="SPEC", action="append", required=required, default=[],
        help="NAME[:key=value,…], see below; repeat it for several policies",
    )  # fmt: skip


def help_on_policies() -> str:
    """Help on all policies and their keys."""
    lines = ["policies and their keys:"]
    for name, make in specs.POLICIES.items():
        about = (inspect.getdoc(make) or "").partition("\n")[0]
        keys = ", ".join(specs.own_keys(make)) or "none"
        lines += [f"  {name}", *_wrapped(about), *_wrapped(f"keys: {keys}")]
    with_bounds = [
        name for name, make in specs.POLICIES.items() if "rho_bar" in specs.policy_keys(make)
    ]
    lines += [
        "",
        *_wrapped(
            f"{', '.join(with_bounds)} are given the tightest valid bounds. Further keys replace them: "
            f"{', '.join(specs.BOUNDS_KEYS)}; rho_bar changes Phi and X as well.",
            "  ",
        ),
        *_wrapped(
            "A value is a number or a list in brackets. The policy runs with every value of a list, "
            "unless the argument itself is a list (action, epochs, beta).",
            "  ",
        ),
    ]
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "    ") -> list[str]:
    return textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)
