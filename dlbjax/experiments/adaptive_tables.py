"""Tables of the study of `dynlin_ucb_adaptive`, in Markdown."""

import numpy as np

from dlbjax.experiments import tables
from dlbjax.experiments.adaptive import (
    CLEAR,
    GIVEN,
    OURS,
    PAPER,
    PROBLEMS,
    TIGHT,
    members,
    oldest_length,
    plain,
    resolvable,
    still_linear,
)  # fmt: skip
from dlbjax.experiments.family import traits
from dlbjax.results.result import Results

WORST = 10


def everything(on_problems: Results, on_family: Results) -> str:
    """All tables, from what `adaptive.on_problems` and `adaptive.on_family` return."""
    parts = {
        "On problems of the paper, and those of AR-UCB and LARL": single(on_problems),
        "On random systems": distribution(on_family),
        "Where it is worst": worst(on_family),
        "Time": tables.timing(on_family),
    }
    return "\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


def single(results: Results) -> str:
    """Mean regret of every policy on every problem."""
    rows = []
    for policy, given in GIVEN.items():
        cells = []
        for problem in PROBLEMS:
            result = results.get(f"{policy}: {problem}")
            if result is None:
                cells.append("–")
                continue
            final = result.expected_regret[:, -1]
            cells.append(f"{final.mean():,.1f} ± {final.std() / len(final) ** 0.5:,.1f}")
        rows.append([policy, given, *cells])
    first = next(iter(results.values()))
    return (
        f"Mean expected regret of {len(first.seeds)} runs of {first.rounds[-1]:,} rounds ± its error.\n\n"
        + tables.markdown(["policy", "must be given", *PROBLEMS], rows)
    )


def distribution(results: Results) -> str:
    """Quantiles over systems of every policy's mean regret, and the share of runs still linear."""
    first = next(iter(results.values()))
    horizon, seeds, count = int(first.rounds[-1]), len(first.seeds), plain(len(first.seeds))
    problems = members(seeds)
    clear = np.array([resolvable(problem, horizon) for problem in problems])[:count]
    paper = _means(results, PAPER)[:count]
    rows = []
    for policy in results:
        mean, raised = np.split(_means(results, policy), [count])
        linear = still_linear(results[policy], problems)[:count]
        among = f"{linear[clear].mean():.2%}" if clear.any() else "–"
        rows.append(
            [
                policy, GIVEN[policy], *(f"{q:,.0f}" for q in np.quantile(mean, [0.5, 0.9, 1])),
                f"{np.sum(mean < paper)}", among, f"{linear.mean():.1%}", f"{np.median(raised):,.0f}",
            ]
        )  # fmt: skip
    losing = np.flatnonzero(_means(results, OURS)[:count] > paper)
    return (
        f"Mean expected regret of {seeds} runs of {horizon:,} rounds on each of {count} systems, and on "
        f"{len(problems) - count} with a baseline, which the paper's model does not have.\n\n"
        + tables.markdown(
            ["policy", "must be given", "median", "90 %", "worst", "better than the paper's on",
             "still linear where resolvable", "still linear", "median with a baseline"], rows,
        )
        + "\nA run is still linear if a round of the last tenth loses 0.9 of the smallest gap Δ or more. "
        f"A gap is resolvable if Δ > {CLEAR:g}·s√(log T/T) + 2b, where s² is rewards' long-run variance "
        "and b the largest transient left after an epoch as long as those at the beginning of the data that "
        f"the adaptive policy still uses at T: so on {clear.sum()} of the systems.\n\n"
        f"Systems on which the adaptive policy is worse than the paper's DynLin-UCB: "
        f"{', '.join(map(str, losing)) or 'none'}.\n"
    )  # fmt: skip


def worst(results: Results) -> str:
    """The systems with the largest regret, and what makes them hard."""
    first = next(iter(results.values()))
    horizon, seeds = int(first.rounds[-1]), len(first.seeds)
    problems, ours = members(seeds), _means(results, OURS)[: plain(seeds)]
    rows = []
    for i in np.argsort(-ours)[:WORST]:
        problem = problems[i]
        found = traits(problem, oldest_length(problem, horizon))
        needed = 8 * found.noise**2 * np.log(horizon) / found.gap**2
        shape = f"{problem.system.n}, {problem.system.d}"
        regrets = (f"{_means(results, name)[i]:,.0f}" for name in (OURS, TIGHT, PAPER))
        rows.append(
            [f"{i}", shape, f"{found.rho:.2f}", f"{found.phi:.3g}", f"{found.noise:.2g}",
             f"{found.gap:.2g}", f"{found.transient:.1g}", f"{needed:,.0f}", *regrets]
        )  # fmt: skip
    return (
        "Rounds needed are 8s²·log T/Δ², about what it takes to tell the second-best vertex from the best by "
        "the mean of settled rewards: where they exceed T, or b exceeds Δ, nothing can be expected.\n\n"
        + tables.markdown(
            ["system", "n, d", "ρ", "Φ", "s", "Δ", "b", "rounds needed", OURS, TIGHT, PAPER], rows
        )
    )


def _means(results: Results, policy: str) -> np.ndarray:
    return results[policy].expected_regret[..., -1].mean(axis=-1)
