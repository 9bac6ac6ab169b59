"""Pictures of a model and a choice for people who own a budget."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dlbjax.campaign.choice import Choice
from dlbjax.campaign.model import Model
from dlbjax.results.plot import COLOURS
from dlbjax.theory import predicted_rewards

_SURE = 1.96  # standard errors to either side of a 95 % interval


def effects(model: Model) -> Figure:
    """Immediate and total effect of a unit on each channel, and its effect by round."""
    system, names = model.system, model.channels
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    std = np.sqrt(np.diag(model.covariance)[1:])
    place = np.arange(system.d)
    left.bar(place - 0.2, system.theta, 0.38, color=COLOURS[5], label="at once")
    left.bar(
        place + 0.2, system.h, 0.38, yerr=_SURE * std, capsize=3, color=COLOURS[0],
        label="in all (bar: 95 % interval)",
    )  # fmt: skip
    left.axhline(0, color="black", lw=0.8)
    left.set_xticks(place, names)
    left.margins(y=0.25)  # room for the legend
    left.set_ylabel(f"{model.reward} per unit spent")
    left.set_title("What one more unit earns", fontsize="medium")
    left.legend(frameon=False, fontsize="small")
    rounds = _settling(model)
    for i, name in enumerate(names):
        earned = [system.cumulative_markov(0, lag)[i] for lag in range(rounds + 1)]
        right.plot(range(rounds + 1), earned, "-o", ms=3, color=COLOURS[i % 8], label=name)
    right.axhline(0, color="black", lw=0.8)
    right.set(xlabel="rounds after it was spent", ylabel=f"{model.reward} so far, per unit")
    right.set_title("When it comes in", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


def options(model: Model, choice: Choice, most: int = 6) -> Figure:
    """The best constant allocations: expected reward, and probability that each is the best."""
    shown = choice.options[:most][::-1]
    figure, ax = plt.subplots(figsize=(9.6, 0.9 + 0.5 * len(shown)), layout="constrained")
    place = np.arange(len(shown))
    mean = np.array([option.reward for option in shown])
    ax.barh(
        place, mean, xerr=[_SURE * option.std for option in shown], capsize=3,
        color=[COLOURS[0] if i == len(shown) - 1 else COLOURS[5] for i in place],
    )  # fmt: skip
    ax.set_yticks(place, [_named(model, option.allocation) for option in shown], fontsize="small")
    for i, option in enumerate(shown):
        ax.annotate(
            f"best with {option.probability:.0%}", (0, i), xytext=(6, 0), va="center", color="white",
            textcoords="offset points", fontsize="small",
        )  # fmt: skip
    ax.set_xlabel(f"{model.reward} per round once settled (bar: 95 % interval)")
    ax.set_title("The best constant allocations", fontsize="medium")
    return figure


def outlook(model: Model, choice: Choice) -> Figure:
    """The plan, and its expected reward round by round."""
    plan = choice.plan
    rounds = np.arange(1, len(plan) + 1)
    constant = np.tile(choice.problem.optimal_action, (len(plan), 1))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    left.stackplot(
        rounds, plan.T, labels=model.channels, step="mid",
        colors=[COLOURS[i % 8] for i in range(len(model.channels))], alpha=0.8,
    )  # fmt: skip
    left.set(xlabel="round from now", ylabel="spend per round", xlim=(1, max(len(plan), 2)))
    left.set_title("The plan", fontsize="medium")
    left.legend(frameon=False, fontsize="small", loc="lower left")
    for label, actions, style in (
        ("the plan", plan, "-"),
        ("best constant allocation", constant, "--"),
        ("spending nothing", np.zeros_like(plan), ":"),
    ):
        right.plot(
            rounds, model.baseline + predicted_rewards(choice.problem, actions), style,
            color=COLOURS[0] if style == "-" else "black", label=label,
        )  # fmt: skip
    right.set(xlabel="round from now", ylabel=f"expected {model.reward} per round")
    right.set_title("What it is expected to bring", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    return figure


def _settling(model: Model) -> int:
    """Rounds after which less than a hundredth of the effect is still to come, at most 60."""
    system = model.system
    for lag in range(1, 60):
        rest = np.abs(system.cumulative_markov(lag + 1)).max()
        if rest < 0.01 * np.abs(system.h).max():
            return lag
    return 60


def _named(model: Model, allocation: np.ndarray) -> str:
    return ", ".join(
        f"{name} {spend:.4g}" for name, spend in zip(model.channels, allocation, strict=True)
    )
