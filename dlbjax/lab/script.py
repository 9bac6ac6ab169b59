"""Copy as Python: the script that computes and draws what the page shows, to the last bit."""

import numpy as np

from dlbjax.lab.settings import OFFERS, Settings, State
from dlbjax.lab.sources import budget_set, limits_of, problem_of
from dlbjax.model.actions import ActionSet
from dlbjax.model.problem import Problem
from dlbjax.model.system import System

BAND = "quantiles"  # of the picture


def script_of(state: State, given: Problem | None = None) -> str:
    """The script for a state of the page.

    >>> print(script_of(State()).splitlines()[0])
    import dlbjax as dlb
    """
    lines = ["import dlbjax as dlb", "", *_section(state.settings, given, "")]
    curves = "results"
    if state.kept is not None:
        lines += ["", "# Kept for comparison.", *_section(state.kept, given, "kept_")]
        renamed = '{f"{name} (kept)": result for name, result in kept_results.items()}'
        curves = "all_results"
        lines += ["", f"all_results = dlb.Results(results | {renamed})"]
    lines += [
        "",
        f"for name, result in {curves}.items():",
        f'    print(name, result.summary("{state.measure}").mean[-1])',
    ]
    x, y = ("log" if axis else "linear" for axis in (state.log_rounds, state.log_regret))
    lines += [
        f'ax = {curves}.plot("{state.measure}", band="{BAND}", scale=("{x}", "{y}"))',
        'ax.figure.savefig("regret.png")',
    ]
    return "\n".join(lines) + "\n"


def _section(settings: Settings, given: Problem | None, prefix: str) -> list[str]:
    """Problem, policies and results of some settings."""
    problem = problem_of(settings, given)
    lines = [f"{prefix}system = dlb.System("]
    lines += [f"    {name}={value!r}," for name, value in _arguments(problem.system).items()]
    lines += [")", f"{prefix}actions = {_actions(problem.actions)}"]
    lines += [f"{prefix}problem = dlb.Problem({prefix}system, {prefix}actions)"]
    lines += [f"{prefix}policies = {{"]
    for learner in settings.learners:
        offer, first = OFFERS[learner.policy], []
        if offer.takes == "problem":
            first = [f"{prefix}problem"]
        elif offer.takes == "bounds":
            rho = "" if learner.rho_bar is None else f", rho_bar={learner.rho_bar!r}"
            first = [f"dlb.Bounds.of({prefix}problem{rho})"]
        arguments = first + [
            f"{name}={value!r}" for name, value in learner.arguments(problem).items()
        ]
        lines.append(f'    "{learner.label}": dlb.{learner.policy}({", ".join(arguments)}),')
    size = f"horizon={settings.rounds:_}, seeds={settings.runs}"
    return [
        *lines,
        "}",
        f"{prefix}results = dlb.simulate({prefix}problem, {prefix}policies, {size})",
    ]


def _arguments(system: System) -> dict[str, object]:
    """Arguments that make the system again, bit by bit; one σ where that is all there is."""
    arguments: dict[str, object] = {
        name: getattr(system, name).tolist() for name in ("A", "B", "omega", "theta")
    }
    sigma = float(system.reward_noise)
    if np.array_equal(system.state_noise, np.diag(np.full(system.n, sigma) ** 2)):
        arguments["sigma"] = sigma
    else:
        arguments |= {"state_noise": system.state_noise.tolist(), "reward_noise": sigma}
    if np.any(system.x1):
        arguments["x1"] = system.x1.tolist()
    return arguments


def _actions(actions: ActionSet) -> str:
    limits = limits_of(actions)
    if limits is not None and np.array_equal(budget_set(limits).vertices, actions.vertices):
        low, high = list(limits.low), list(limits.high)
        return f"dlb.actions.budget({low}, {high}, total={limits.total!r})"
    if not actions.convex:
        return f"dlb.actions.finite({actions.vertices.tolist()})"
    return f"dlb.ActionSet(dlb.actions.finite({actions.vertices.tolist()}).vertices, convex=True)"
