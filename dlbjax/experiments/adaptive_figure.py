"""The figure of the study of `dynlin_ucb_adaptive`."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dlbjax.experiments.adaptive import GIVEN, MADE_FOR, OURS, PAPER, PROBLEMS, TIGHT, plain
from dlbjax.results import plot
from dlbjax.results.result import Results


def adaptive_figure(on_problems: Results, on_family: Results) -> Figure:
    """Plot regret on single problems, its distribution over random systems, and ours against others'."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    colours = dict(zip(GIVEN, [*plot.COLOURS, "#7F3B08"], strict=True))
    first, single = next(iter(on_family.values())), next(iter(on_problems.values()))

    for policy, colour in colours.items():
        found = {i: on_problems.get(f"{policy}: {name}") for i, name in enumerate(PROBLEMS)}
        final = {i: r.expected_regret[:, -1].mean() for i, r in found.items() if r is not None}
        marker = "D" if policy in MADE_FOR else "o"
        left.plot(list(final), list(final.values()), marker, color=colour, label=policy, ms=6)
    left.set(
        yscale="log", title=f"Single problems, {single.rounds[-1]:,} rounds",
        ylabel="Mean expected regret (units of reward)", xlim=(-0.5, len(PROBLEMS) - 0.5),
    )  # fmt: skip
    names = [name.replace("latent ", "latent\n").replace(", ", "\n") for name in PROBLEMS]
    left.set_xticks(range(len(PROBLEMS)), names, fontsize="small")

    count = plain(len(first.seeds))
    means = {
        name: result.expected_regret[:count, :, -1].mean(axis=-1)
        for name, result in on_family.items()
    }
    for name, mean in means.items():
        middle.step(
            np.sort(mean), np.arange(1, count + 1) / count, color=colours[name], where="post"
        )
    middle.set(
        xscale="log", xlabel="Mean expected regret (units of reward)", ylabel="Share of systems with less",
        title=f"{count} random systems, {first.rounds[-1]:,} rounds", ylim=(0, 1.02),
    )  # fmt: skip

    for name in (TIGHT, PAPER):
        right.plot(means[name], means[OURS], ".", color=colours[name])
    ends = [min(m.min() for m in means.values()) / 2, 2 * max(m.max() for m in means.values())]
    right.plot(ends, ends, ":", color="grey", lw=1)
    right.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="Others, given exact bounds",
        ylabel=OURS, title="The same, system by system",
    )  # fmt: skip
    for ax in (left, middle, right):
        ax.grid(alpha=0.3)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    return figure
