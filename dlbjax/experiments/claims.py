"""The paper's claims about its simulations (Section 5 and its appendix), checked against results.

Every verdict is computed from results by these rules; no number is typed in:

- Regret is *linear* if its pace (see `measures.Curve.pace`) is at least 0.95, *sublinear* if less.
- A run *ends at* an action if over the last tenth of the rounds it loses what that action loses, to
  within 1 % of the smallest loss of a suboptimal vertex.
- Two mean regrets are *comparable* if they differ by at most a tenth of the larger.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dlbjax.experiments.measures import Curve, curves, paired
from dlbjax.experiments.tables import markdown
from dlbjax.model.problem import Problem
from dlbjax.model.problems import real_world, synthetic
from dlbjax.model.system import System
from dlbjax.policies.base import make_schedule
from dlbjax.policies.expert import expert
from dlbjax.results.result import Results

LINEAR = 0.95
STUCK = (0.5, 1.0, 0.0)  # u° of the paper


class Claim(NamedTuple):
    """A claim of the paper and its verdict.

    Attributes:
      section: section of the paper.
      says: the claim.
      measured: the measurements behind the verdict.
      holds: "yes", "partly" or "no".
      why: the reason, if it does not hold.
    """

    section: str
    says: str
    measured: str
    holds: str
    why: str = ""


def table(results: Mapping[str, Results]) -> str:
    """A Markdown table of all claims that the given experiments can check.

    Args:
      results: results by name of the experiment; see `report.EXPERIMENTS`.
    """
    found = [c for needs, check in CHECKS if needs <= results.keys() for c in check(results)]
    first = next(iter(next(iter(results.values())).values()))
    rows = [[c.section, c.says, c.measured, c.holds, "" if c.holds == "yes" else c.why]
            for c in found]  # fmt: skip
    return (
        f"Mean expected regret of {len(first.seeds)} runs of {first.rounds[-1]:,} rounds. Pace is what "
        "a round of the last tenth loses over what a round from 40 to 50 % loses; at 0.95 or more "
        "regret is called linear. A run ends at an action if over the last tenth it loses what that "
        "action loses.\n\n"
        + markdown(["section", "the paper says", "measured here", "holds", "why not"], rows)
    )


def synthetic_problem(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.1, the synthetic problem."""
    problem = synthetic()
    system = problem.system
    B = np.diag([0.25, 0.0, 0.1])  # as printed
    printed = Problem(System(system.A, B, system.omega, system.theta), problem.actions)
    myopic = problem.myopic_action
    return [
        Claim(
            "5.1", "h = (0.56, 0.5, 0.11), u* = (1, 0.5, 0), J* = 0.81",
            f"with the printed B₁₁ = 0.25 h = {_vector(printed.h)}, u* = "
            f"{_vector(printed.optimal_action)}, J* = {printed.optimal_value:.2f}; with B₁₁ = 0.45 "
            f"{_vector(problem.h)}, {_vector(problem.optimal_action)}, {problem.optimal_value:.2f}",
            _verdict(np.allclose(printed.h, (0.56, 0.5, 0.11), atol=0.005)),
            "B₁₁ is a misprint; 0.45 gives everything else the paper states and is used here",
        ),
        Claim(
            "5.1", "u° = (0.5, 1, 0) is the myopic action",
            f"argmax ⟨θ,u⟩ is {_vector(myopic)}, worth J = {myopic @ problem.h:.3f}; u° is worth "
            f"{np.dot(STUCK, problem.h):.3f}",
            _verdict(np.allclose(myopic, STUCK)),
            "u° is where learners end that take every reward at face value",
        ),
    ]  # fmt: skip


def comparison_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.1, comparison with bandit baselines."""
    problem, found = synthetic(), curves(results["figure1"])
    ours, ours_1 = _both("DynLin-UCB", found)
    lin, lin_1 = _both("Lin-UCB", found)
    d_lin, d_lin_1 = _both("D-Lin-UCB", found)
    linear = [lin, lin_1, d_lin, d_lin_1]
    stuck = [_ends_at(c, problem, STUCK) for c in (lin, d_lin)]
    others = [c for label, c in found.items() if not label.startswith("DynLin-UCB")]
    return [
        Claim(
            "5.1", "Exp3 and Batch-Exp3 suffer a significantly large regret, and so does AR2",
            _regrets(found[name] for name in ("Exp3", "Batch-Exp3", "AR2"))
            + f"; DynLin-UCB {_mean(ours):,.0f}",
            _verdict(*(_mean(found[n]) > 5 * _mean(ours) for n in ("Exp3", "Batch-Exp3", "AR2"))),
            "less than five times that of DynLin-UCB",
        ),
        Claim(
            "5.1", "all versions of Lin-UCB and D-Lin-UCB suffer linear regret", _paces(linear),
            _verdict(*(c.pace >= LINEAR for c in linear)), "see the paces",
        ),
        Claim(
            "5.1", "D-Lin-UCB with γ close to 1 behaves like Lin-UCB",
            _regrets([d_lin, lin, d_lin_1, lin_1]),
            _verdict(_comparable(d_lin, lin), _comparable(d_lin_1, lin_1)),
            "some of the means are more than a tenth apart",
        ),
        Claim(
            "5.1", "with λ = log T both commit to u° = (0.5, 1, 0), J° = 0.78",
            f"{stuck[0]:.0%} of the runs of Lin-UCB and {stuck[1]:.0%} of those of D-Lin-UCB end there",
            _verdict(*(share >= 0.95 for share in stuck)), "the others end elsewhere",
        ),
        Claim(
            "5.1", "Lin-UCB and D-Lin-UCB have a relevant variance, that of DynLin-UCB is negligible",
            f"std over mean: {_spread(lin):.0%} and {_spread(d_lin):.0%}, DynLin-UCB "
            f"{_spread(ours):.1%} and {_spread(ours_1):.1%}",
            _verdict(*(_spread(c) >= 0.1 for c in (lin, d_lin)),
                     *(_spread(c) < 0.01 for c in (ours, ours_1))),
            "a tenth counts as relevant, a hundredth as negligible",
        ),
        Claim(
            "5.1", "DynLin-UCB has the smaller, sublinear regret in both versions",
            f"{_regrets([ours, ours_1])}; {_paces([ours, ours_1])}; the least of the others "
            f"{min(map(_mean, others)):,.0f}",
            _verdict(ours.pace < LINEAR, ours_1.pace < LINEAR,
                     max(_mean(ours), _mean(ours_1)) < min(map(_mean, others))),
            "see the means and paces",
        ),
        Claim(
            "5.1", "λ = log T has a notable advantage over λ = 1", _difference(ours_1, ours),
            _verdict(_mean(ours_1) > 1.1 * _mean(ours)), "less than a tenth",
        ),
    ]  # fmt: skip


def sensitivity_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.1, sensitivity to the choice of ρ̄."""
    of_paper = ("DynLin-UCB", "Lin-UCB")
    found = curves({name: results["figure2"][name] for name in of_paper})
    zero, *low, true, double, lin = found.values()
    return [
        Claim(
            "5.1", "ρ̄ = 2ρ(A): a larger regret, still sublinear and below that of Lin-UCB",
            f"{_regrets([double, true, lin])}; {_paces([double])}",
            _verdict(_mean(double) > _mean(true), double.pace < LINEAR, _mean(double) < _mean(lin)),
            "see the figures",
        ),
        Claim(
            "5.1", "an overestimate slows convergence but does not change the rate",
            _paces([true, double]), _verdict(true.pace < LINEAR, double.pace < LINEAR),
            "see the paces",
        ),
        Claim(
            "5.1", "ρ̄ = 0.1 and 0.05: the regret stays sublinear", _paces(low),
            _verdict(*(c.pace < LINEAR for c in low)), "see the paces",
        ),
        Claim(
            "5.1", "ρ̄ = 0: the regret almost degenerates to linear",
            f"{_regrets([zero])}, {_paces([zero])}", _verdict(zero.pace >= LINEAR), "see the pace",
        ),
    ]  # fmt: skip


def real_world_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.2, the system identified from real data."""
    problem, found = real_world(), curves(results["figure3"])
    ours, ours_1 = _both("DynLin-UCB", found)
    others = {label: c for label, c in found.items() if not label.startswith("DynLin-UCB")}
    there = max(_ends_at(c, problem, problem.optimal_action) for c in others.values())
    slowing = [c for c in others.values() if c.pace < LINEAR]
    (manual,) = _arms(problem)
    theta = problem.system.theta
    possible = problem.myopic_action @ theta
    return [
        Claim("5.2", "ρ(A) = 0.67", f"{problem.system.rho:.3f}",
              _verdict(round(float(problem.system.rho), 2) == 0.67)),
        Claim(
            "5.2", "no algorithm except DynLin-UCB converges to the optimal choice",
            f"at most {there:.0%} of the runs of any other end at u*; sublinear all the same: "
            f"{_paces(slowing) or 'none'}",
            _verdict(there < 0.05, not slowing),
            "these do not reach u* either within the horizon, but lose less and less. The released "
            "program credits most of a batch of Batch-Exp3 to the arm before, and with λ = log T never "
            "discounts in D-Lin-UCB",
        ),
        Claim(
            "5.2", "the others commit at once to a suboptimal solution",
            f"share of runs that end at one suboptimal action: {_committed(others, problem)}",
            _verdict(*(share >= 0.9 for share in _shares(others, problem).values())),
            "not all of them commit: Exp3 and Batch-Exp3 draw their arms at random, AR2 goes on "
            "alternating, and some runs change their action late",
        ),
        Claim(
            "5.2", "DynLin-UCB tends to the optimal policy with λ = 1 and with λ = log T",
            f"{_paces([ours, ours_1])}; lost per round in the last tenth "
            f"{ours.late_rate.mean():.3f} and {ours_1.late_rate.mean():.3f}",
            _verdict(ours.pace < LINEAR, ours_1.pace < LINEAR), "see the paces",
        ),
        Claim(
            "5.2", "λ = log T performs best",
            f"{_regrets([ours, ours_1])}; the least of the others "
            f"{min(map(_mean, others.values())):,.0f}",
            _verdict(_mean(ours) < _mean(ours_1), _mean(ours) < min(map(_mean, others.values()))),
            "another is better at this horizon",
        ),
        Claim(
            "5.2", "the human expert is suboptimal",
            f"{_vector(manual)} loses {problem.optimal_value - manual @ problem.h:.3f} a round",
            _verdict(manual @ problem.h < problem.optimal_value),
        ),
        Claim(
            "5.2", "the expert prefers what maximises the instantaneous effect",
            f"⟨θ,u⟩ = {manual @ theta:.3f} of a possible {possible:.3f}",
            _verdict(manual @ theta > 0.9 * possible),
            "most of it goes to Bing, whose immediate effect is the least",
        ),
    ]  # fmt: skip


def noise_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Appendix E.3, other levels of noise."""
    quiet, usual, loud = (curves(results[n]) for n in ("noise-0.001", "figure1", "noise-0.1"))
    ours = [_both("DynLin-UCB", found) for found in (quiet, usual, loud)]
    linear = ("Lin-UCB", "D-Lin-UCB")
    means = [_mean(pair[0]) for pair in ours]
    loud_linear = [c for name in linear for c in _both(name, loud)]
    quiet_linear = [c for name in linear for c in _both(name, quiet)]
    blind = [found[n] for found in (quiet, usual, loud) for n in ("Exp3", "Batch-Exp3", "AR2")]
    per_sigma = [[_mean(_both(name, found)[0]) for found in (quiet, usual, loud)]
                 for name in linear]  # fmt: skip
    return [
        Claim(
            "E.3", "DynLin-UCB performs almost the same at every σ, and is always sublinear",
            "σ = 0.001, 0.01, 0.1: " + ", ".join(f"{mean:,.0f}" for mean in means)
            + f" with λ = log T; the largest pace is {max(c.pace for p in ours for c in p):.2f}",
            _verdict(max(means) < 1.25 * min(means), *(c.pace < LINEAR for p in ours for c in p)),
            "see the means and the pace",
        ),
        Claim(
            "E.3", "the regret of Lin-UCB and D-Lin-UCB differs with σ",
            "; ".join(f"{name} " + ", ".join(f"{mean:,.0f}" for mean in row)
                      for name, row in zip(linear, per_sigma, strict=True)),
            _verdict(*(max(row) > 2 * min(row) for row in per_sigma)), "less than twofold",
        ),
        Claim(
            "E.3", "with σ = 0.001 they do not converge, regret is linear", _paces(quiet_linear),
            _verdict(*(c.pace >= LINEAR for c in quiet_linear)),
            "where forgetting helps, the runs change from a bad vertex to u° and keep that pace from "
            "then on",
        ),
        Claim(
            "E.3", "with σ = 0.1 they converge very quickly", _paces(loud_linear)
            + f"; {_regrets(loud_linear)}",
            _verdict(*(c.pace < LINEAR and _mean(c) < means[2] for c in loud_linear)),
            "not all have a falling pace and less regret than DynLin-UCB; some runs with λ = 1 end at u°",
        ),
        Claim(
            "E.3", "Exp3, Batch-Exp3 and AR2 have large linear regret at every σ",
            "σ = 0.001, 0.01, 0.1: "
            + ", ".join(f"{c.label} {_mean(c):,.0f} (pace {c.pace:.2f})" for c in blind),
            _verdict(*(c.pace >= LINEAR and _mean(c) > 5 * means[1] for c in blind)),
            "the regret of Batch-Exp3 is large but slows down: fed with the mean of exactly its own "
            "batch it learns, which the released program, crediting most of a batch to the arm before, "
            "does not",
        ),
    ]  # fmt: skip


def timing_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Appendix E.4, computation time."""
    found = results["figure1"]

    def seconds(name: str) -> float:
        result = found[name]
        runs = len(result.labels()) * len(result.seeds)
        return float(result.config["execution"]["core seconds"]) / runs

    return [
        Claim(
            "E.4", "the time of DynLin-UCB is bounded by that of Lin-UCB",
            f"seconds of one core per run: {seconds('DynLin-UCB'):.3f} and {seconds('Lin-UCB'):.3f}; "
            "the paper has 110 s for DynLin-UCB",
            _verdict(seconds("DynLin-UCB") <= seconds("Lin-UCB")), "compilation is included",
        )
    ]  # fmt: skip


def discounting_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.1: the choice of D-Lin-UCB's discount."""
    discounts = list(curves(results["discounting"]).values())
    best = min(discounts, key=_mean)
    return [
        Claim(
            "5.1", "D-Lin-UCB is best with γ close to 1", _regrets(discounts),
            _verdict(best in discounts[-3:]), f"the best is {best.label}",
        )
    ]  # fmt: skip


def vertices_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Section 5.1 again, with the six vertices that the authors' program uses instead of all ten."""
    problem = synthetic()
    ten, six = (_both("Lin-UCB", curves(results[name]))[0] for name in ("figure1", "vertices-6"))
    stuck = [_ends_at(curve, problem, STUCK) for curve in (ten, six)]
    best = _ends_at(six, problem, tuple(problem.optimal_action))
    return [
        Claim(
            "5.1", "the same with the six vertices that spend the whole budget, as in the released program",
            f"Lin-UCB, λ=log T: {stuck[1]:.1%} of runs end at u° and {best:.1%} at u*, {_mean(six):,.0f}; "
            f"with all ten vertices {stuck[0]:.1%} end at u°, {_mean(ten):,.0f}",
            _verdict(stuck[1] >= 0.95), "which vertices are offered decides where it ends",
        ),
    ]  # fmt: skip


CHECKS: tuple[tuple[set[str], Callable[[Mapping[str, Results]], list[Claim]]], ...] = (
    ({"figure1"}, synthetic_problem),
    ({"figure1"}, comparison_claims),
    ({"discounting"}, discounting_claims),
    ({"figure1", "vertices-6"}, vertices_claims),
    ({"figure2"}, sensitivity_claims),
    ({"figure3"}, real_world_claims),
    ({"noise-0.001", "figure1", "noise-0.1"}, noise_claims),
    ({"figure1"}, timing_claims),
)


def _verdict(*facts: bool) -> str:
    return "yes" if all(facts) else "partly" if any(facts) else "no"


def _both(name: str, found: Mapping[str, Curve]) -> tuple[Curve, Curve]:
    return found[f"{name}, λ=log T"], found[f"{name}, λ=1"]


def _mean(curve: Curve) -> float:
    return float(curve.final.mean())


def _spread(curve: Curve) -> float:
    return float(curve.final.std() / curve.final.mean())


def _comparable(one: Curve, other: Curve) -> bool:
    return abs(_mean(one) - _mean(other)) <= 0.1 * max(_mean(one), _mean(other))


def _ends_at(curve: Curve, problem: Problem, action: ArrayLike) -> float:
    """Share of runs that end at the action."""
    loss = problem.optimal_value - np.asarray(action) @ problem.h
    least = np.min(problem.gaps[problem.gaps > 1e-12])
    return float(np.mean(np.abs(curve.late_rate - loss) <= 0.01 * least))


def _shares(found: Mapping[str, Curve], problem: Problem) -> dict[str, float]:
    """Share of runs that end at a suboptimal vertex or at the expert's action."""
    played = np.r_[problem.actions.vertices, _arms(problem)]
    losses = problem.optimal_value - played @ problem.h
    least = np.min(problem.gaps[problem.gaps > 1e-12])
    shares = {}
    for label, curve in found.items():
        apart = np.abs(curve.late_rate[:, None] - losses[losses > 1e-12])
        shares[label] = float(np.mean(np.any(apart <= 0.01 * least, axis=1)))
    return shares


def _committed(found: Mapping[str, Curve], problem: Problem) -> str:
    return ", ".join(f"{label} {share:.0%}" for label, share in _shares(found, problem).items())


def _regrets(found: Iterable[Curve]) -> str:
    return ", ".join(f"{c.label} {_mean(c):,.0f}" for c in found)


def _paces(found: Iterable[Curve]) -> str:
    return ", ".join(f"{c.label} pace {c.pace:.2f}" for c in found)


def _difference(one: Curve, other: Curve) -> str:
    more, half = paired(one.final, other.final)
    return (
        f"{more:,.0f} ± {half:,.0f} more with λ = 1 (95 %), {_mean(one) / _mean(other):.1f} times"
    )


def _vector(values: ArrayLike) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in np.asarray(values)) + ")"


def _arms(problem: Problem) -> np.ndarray:
    """(1, d) The allocation of the expert."""
    schedule = make_schedule(expert(problem), 1, problem.actions)
    return np.asarray(schedule.arms)
