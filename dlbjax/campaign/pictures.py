"""Pictures of a model and a choice for people who own a budget."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from dlbjax.campaign.choice import Choice
from dlbjax.campaign.model import Model
from dlbjax.campaign.readable import amount, chance, date_ahead, span
from dlbjax.results.plot import COLOURS
from dlbjax.theory import predicted_rewards

_SURE = 1.96  # standard errors to either side of a 95 % interval
_SHOWN = 156  # rounds of history


def history(model: Model) -> Figure:
    """Fitted against actual rewards, and the contribution of each channel over time."""
    past = [part[-_SHOWN:] for part in model.history]
    _, rewards, level, carried, channels = past
    rounds = np.arange(-len(rewards) + 1, 1)
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(9.6, 6.0), sharex=True, layout="constrained"
    )
    top.plot(rounds, rewards, ".", ms=4, color="black", label="actual")
    top.plot(rounds, level + carried + channels.sum(axis=1), color=COLOURS[0], label="fitted")
    top.set_title(f"{model.reward}: fitted against actual", fontsize="medium")
    bottom.plot(rounds, level, color="grey", lw=1, label="baseline, trend, season, controls")
    for i, name in enumerate(model.channels):
        bottom.plot(rounds, channels[:, i], color=COLOURS[i % 8], label=name)
    bottom.axhline(0, color="black", lw=0.8)
    bottom.set_title("What each channel contributed", fontsize="medium")
    dates = model.fit.get("last_round"), model.fit.get("step_days")
    if model.fit.get("episodes") == 1 and None not in dates:
        bottom.xaxis.set_major_formatter(lambda value, _: date_ahead(*dates, round(value)))
    else:  # after gaps or with several regions, rows are not one round apart
        bottom.set_xlabel("rows before the last of the log")
    for ax in (top, bottom):
        _readable(ax.yaxis)
        ax.set_ylabel(f"{model.reward} per {_unit(model)}")
        ax.legend(frameon=False, fontsize="small", ncols=4, loc="upper left")
        ax.margins(y=0.25)
    return figure


def effects(model: Model) -> Figure:
    """Immediate and total effect of a unit on each channel, and its effect by round."""
    system, names = model.system, model.channels
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    std = np.sqrt(np.diag(model.h_covariance))
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
    right.set(
        xlabel=f"{_unit(model)}s after it was spent", ylabel=f"{model.reward} so far, per unit"
    )
    right.set_title("When it comes in", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    for ax in (left, right):
        _readable(ax.yaxis)
    return figure


def options(model: Model, choice: Choice, most: int = 6) -> Figure:
    """What the best constant allocations bring more than the current one."""
    shown = choice.options[:most][::-1]
    figure, ax = plt.subplots(figsize=(9.6, 1.2 + 0.5 * len(shown)), layout="constrained")
    place = np.arange(len(shown))
    ax.errorbar(
        [option.gain for option in shown], place, xerr=[_SURE * o.gain_std for o in shown], fmt="o",
        capsize=3, color=COLOURS[0],
    )  # fmt: skip
    ax.axvline(0, color="black", lw=0.8)
    labels = [
        f"{_named(model, option.allocation)}\nbetter with {chance(option.better)}"
        for option in shown
    ]
    ax.set_yticks(place, labels, fontsize="small")
    ax.set_ylim(-0.6, len(shown) - 0.4)
    _readable(ax.xaxis)
    ax.set_xlabel(
        f"{model.reward} per {_unit(model)} more than now, once settled (bar: 95 % interval)"
    )
    ax.set_title("Other allocations against the current one", fontsize="medium")
    return figure


def outlook(model: Model, choice: Choice) -> Figure:
    """The plan, and its expected reward round by round."""
    plan = choice.plan
    rounds = np.arange(1, len(plan) + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    left.stackplot(
        rounds, plan.T, labels=model.channels, step="mid",
        colors=[COLOURS[i % 8] for i in range(len(model.channels))], alpha=0.8,
    )  # fmt: skip
    unit = _unit(model)
    left.set(xlabel=f"{unit} from now", ylabel=f"spend per {unit}", xlim=(1, max(len(plan), 2)))
    left.set_title("The plan", fontsize="medium")
    left.legend(frameon=False, fontsize="small", loc="lower left")
    for label, actions, style in (
        ("the plan", plan, "-"),
        ("as now", np.tile(choice.current.allocation, (len(plan), 1)), "--"),
        ("spending nothing", np.zeros_like(plan), ":"),
    ):
        right.plot(
            rounds, choice.level + predicted_rewards(choice.problem, actions), style,
            color=COLOURS[0] if style == "-" else "black", label=label,
        )  # fmt: skip
    right.set(xlabel=f"{unit} from now", ylabel=f"expected {model.reward} per {unit}")
    right.set_title("What it is expected to bring", fontsize="medium")
    right.legend(frameon=False, fontsize="small")
    for ax in (left, right):
        _readable(ax.yaxis)
    return figure


def _unit(model: Model) -> str:
    return span(model.fit.get("step_days"))


def _readable(axis: Axis) -> None:
    axis.set_major_formatter(lambda value, _: amount(value))


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
        f"{name} {amount(spend)}" for name, spend in zip(model.channels, allocation, strict=True)
    )
