"""The paper's claims: each verdict follows the curves it is about."""

import sys
from copy import deepcopy

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.experiments import claims, report
from tests.experiments.shapes import Shape, compared, discounted, over_rho_bar, shaped

AT_STUCK = 0.03125  # what u° = (0.5, 1, 0) loses a round on the synthetic problem
# On the real-world problem: u*, another vertex, the expert.
AT_BEST, AT_VERTEX, AT_EXPERT = 0.0, 0.0727019907, 0.2157091107

SUBLINEAR = [Shape(10, 0.5), Shape(20, 0.5)]
BLIND = {name: [Shape(500)] for name in ("AR2", "Exp3", "Batch-Exp3")}


def linear(total, loss=AT_STUCK, spread=0.2):
    return [Shape(total, 1.0, spread, loss)] * 2


# All that the paper says of these curves is true.
TRUE = {
    "figure1": {
        "DynLin-UCB": SUBLINEAR, "Lin-UCB": linear(200), "D-Lin-UCB": linear(205), **BLIND
    },
    "vertices-6": {
        "DynLin-UCB": SUBLINEAR, "Lin-UCB": linear(200), "D-Lin-UCB": linear(205), **BLIND
    },
    "discounting": [Shape(total) for total in (600, 500, 400, 300, 250, 200)],
    "figure2": [
        Shape(300), Shape(50, 0.5), Shape(40, 0.5), Shape(10, 0.5), Shape(20, 0.5), Shape(200)
    ],
    "figure3": {
        "DynLin-UCB": SUBLINEAR, "Lin-UCB": linear(200, AT_VERTEX),
        "D-Lin-UCB": linear(205, AT_VERTEX),
        **{name: [Shape(500, loss=AT_VERTEX)] for name in ("AR2", "Exp3", "Batch-Exp3")},
        "expert": [Shape(400, loss=AT_EXPERT)],
    },
    "noise-0.001": {
        "DynLin-UCB": SUBLINEAR, "Lin-UCB": linear(800), "D-Lin-UCB": linear(700), **BLIND
    },
    "noise-0.1": {
        "DynLin-UCB": [Shape(11, 0.5), Shape(20, 0.5)], "Lin-UCB": [Shape(5, 0.5)] * 2,
        "D-Lin-UCB": [Shape(6, 0.5)] * 2, **BLIND,
    },
}  # fmt: skip


def results(changes=(), seconds=None):
    """Results of the true curves, some of them changed: {(experiment, place…): shape}."""
    shapes = deepcopy(TRUE)
    for (*path, last), shape in dict(changes).items():
        at = shapes
        for step in path:
            at = at[step]
        at[last] = shape
    made = {
        "discounting": lambda s: dlb.Results({"D-Lin-UCB": discounted(s)}),
        "figure2": over_rho_bar,
    }
    plain = {name: made.get(name, compared)(several) for name, several in shapes.items()}
    if seconds:
        plain["figure1"] = compared(shapes["figure1"], seconds)
    return plain


def found(changes=(), **options):
    """Claims by what the paper says; those about the changed experiments, if there are any."""
    given = results(changes, **options)
    changed = {experiment for experiment, *_ in changes}
    checks = [check for needs, check in claims.CHECKS if not changed or needs & changed]
    return {claim.says: claim for check in checks for claim in check(given)}


def change(experiment, name, *shapes):
    """Other shapes for the curves of a policy, in order."""
    return {(experiment, name, i): shape for i, shape in enumerate(shapes)}


FLAT, STEEP = Shape(200, 0.5, 0.2, AT_STUCK), Shape(10, 1.0)
HALF_THERE = (AT_STUCK, 0.25) * 10
ALL_BLIND_LOW = {("figure1", name, 0): Shape(49) for name in ("AR2", "Exp3", "Batch-Exp3")}

# Start of what the paper says, what is changed, and the verdict then.
CASES = [
    ("Exp3 and Batch-Exp3 suffer", change("figure1", "AR2", Shape(49)), "partly"),
    ("Exp3 and Batch-Exp3 suffer", ALL_BLIND_LOW, "no"),
    ("all versions of Lin-UCB", change("figure1", "D-Lin-UCB", FLAT, FLAT), "partly"),
    (
        "all versions of Lin-UCB",
        change("figure1", "D-Lin-UCB", FLAT, FLAT) | change("figure1", "Lin-UCB", FLAT, FLAT),
        "no",
    ),
    ("D-Lin-UCB is best", {("discounting", 3): Shape(100)}, "yes"),
    ("D-Lin-UCB is best", {("discounting", 2): Shape(100)}, "no"),
    ("D-Lin-UCB with γ close to 1", change("figure1", "Lin-UCB", Shape(228)), "partly"),
    ("D-Lin-UCB with γ close to 1", change("figure1", "Lin-UCB", Shape(227), Shape(185)), "yes"),
    ("D-Lin-UCB with γ close to 1", change("figure1", "Lin-UCB", Shape(228), Shape(184)), "no"),
    ("with λ = log T both commit", change("figure1", "Lin-UCB", Shape(200, 1, 0.2, 0.25)), "partly"),
    (
        "with λ = log T both commit",
        change("figure1", "Lin-UCB", Shape(200, 1, 0.2, HALF_THERE))
        | change("figure1", "D-Lin-UCB", Shape(200, 1, 0.2, AT_STUCK * 1.02)),
        "no",
    ),
    (
        "with λ = log T both commit",
        change("figure1", "Lin-UCB", Shape(200, 1, 0.2, AT_STUCK * 1.009)),
        "yes",
    ),
    ("Lin-UCB and D-Lin-UCB have a relevant", change("figure1", "Lin-UCB", Shape(200)), "partly"),
    (
        "Lin-UCB and D-Lin-UCB have a relevant",
        change("figure1", "DynLin-UCB", Shape(10, 0.5, 0.02)),
        "partly",
    ),
    (
        "Lin-UCB and D-Lin-UCB have a relevant",
        change("figure1", "DynLin-UCB", Shape(10, 0.5, 0.02), Shape(20, 0.5, 0.02))
        | change("figure1", "Lin-UCB", Shape(200))
        | change("figure1", "D-Lin-UCB", Shape(200)),
        "no",
    ),
    ("DynLin-UCB has the smaller", change("figure1", "DynLin-UCB", STEEP), "partly"),
    ("DynLin-UCB has the smaller", change("figure1", "AR2", Shape(19)), "partly"),
    (
        "DynLin-UCB has the smaller",
        change("figure1", "DynLin-UCB", STEEP, Shape(20)) | change("figure1", "AR2", Shape(19)),
        "no",
    ),
    ("the same with the six", change("vertices-6", "Lin-UCB", Shape(200, 1, 0.2, HALF_THERE)), "no"),
    ("λ = log T has a notable", {("figure1", "DynLin-UCB", 1): Shape(11.2, 0.5)}, "yes"),
    ("λ = log T has a notable", {("figure1", "DynLin-UCB", 1): Shape(10.8, 0.5)}, "no"),
    ("ρ̄ = 2ρ(A)", {("figure2", 4): Shape(9, 0.5)}, "partly"),
    ("ρ̄ = 2ρ(A)", {("figure2", 4): Shape(201, 0.5)}, "partly"),
    ("ρ̄ = 2ρ(A)", {("figure2", 3): Shape(250), ("figure2", 4): Shape(220)}, "no"),
    ("an overestimate slows", {("figure2", 4): Shape(20)}, "partly"),
    ("an overestimate slows", {("figure2", 4): Shape(20), ("figure2", 3): Shape(10)}, "no"),
    ("ρ̄ = 0.1 and 0.05", {("figure2", 1): Shape(50)}, "partly"),
    ("ρ̄ = 0.1 and 0.05", {("figure2", 1): Shape(50), ("figure2", 2): Shape(40)}, "no"),
    ("ρ̄ = 0:", {("figure2", 0): Shape(300, 0.5)}, "no"),
    (
        "no algorithm except",
        change("figure3", "Exp3", Shape(500, 0.5, loss=AT_VERTEX)),
        "partly",
    ),
    ("no algorithm except", change("figure3", "Exp3", Shape(500, loss=AT_BEST)), "partly"),
    ("no algorithm except", change("figure3", "Exp3", Shape(500, 0.5, loss=AT_BEST)), "no"),
    ("the others commit at once", change("figure3", "AR2", Shape(500, loss=0.1)), "partly"),
    (
        "the others commit at once",
        {("figure3", name, i): Shape(500, loss=0.1)
         for name in TRUE["figure3"] for i in range(len(TRUE["figure3"][name]))},
        "no",
    ),
    ("DynLin-UCB tends", change("figure3", "DynLin-UCB", STEEP), "partly"),
    ("DynLin-UCB tends", change("figure3", "DynLin-UCB", STEEP, STEEP), "no"),
    ("λ = log T performs best", change("figure3", "AR2", Shape(9, loss=AT_VERTEX)), "partly"),
    ("λ = log T performs best", change("figure3", "DynLin-UCB", Shape(30, 0.5)), "partly"),
    ("λ = log T performs best", change("figure3", "DynLin-UCB", Shape(300, 0.5)), "no"),
    ("DynLin-UCB performs almost", change("noise-0.1", "DynLin-UCB", Shape(12.6, 0.5)), "partly"),
    ("DynLin-UCB performs almost", change("noise-0.1", "DynLin-UCB", Shape(11)), "partly"),
    (
        "DynLin-UCB performs almost",
        change("noise-0.1", "DynLin-UCB", Shape(20), STEEP)
        | change("noise-0.001", "DynLin-UCB", STEEP, STEEP)
        | change("figure1", "DynLin-UCB", STEEP, STEEP),
        "no",
    ),
    (
        "the regret of Lin-UCB and D-Lin-UCB differs",
        {(n, "Lin-UCB", 0): Shape(total) for n, total in
         (("figure1", 100), ("noise-0.001", 190), ("noise-0.1", 150))},
        "partly",
    ),
    (
        "the regret of Lin-UCB and D-Lin-UCB differs",
        {(n, p, 0): Shape(100) for n in ("figure1", "noise-0.001", "noise-0.1")
         for p in ("Lin-UCB", "D-Lin-UCB")},
        "no",
    ),
    ("with σ = 0.001", change("noise-0.001", "Lin-UCB", FLAT), "partly"),
    (
        "with σ = 0.001",
        change("noise-0.001", "Lin-UCB", FLAT, FLAT) | change("noise-0.001", "D-Lin-UCB", FLAT, FLAT),
        "no",
    ),
    ("with σ = 0.1", change("noise-0.1", "Lin-UCB", Shape(12, 0.5)), "partly"),
    ("with σ = 0.1", change("noise-0.1", "Lin-UCB", Shape(5)), "partly"),
    (
        "with σ = 0.1",
        change("noise-0.1", "Lin-UCB", Shape(5), Shape(12, 0.5))
        | change("noise-0.1", "D-Lin-UCB", Shape(12, 0.5), Shape(6)),
        "no",
    ),
    ("Exp3, Batch-Exp3 and AR2", change("noise-0.1", "Batch-Exp3", Shape(500, 0.5)), "partly"),
    (
        "Exp3, Batch-Exp3 and AR2",
        {(n, p, 0): Shape(49) for n in ("figure1", "noise-0.001", "noise-0.1") for p in BLIND},
        "no",
    ),
]  # fmt: skip
FIXED = {  # what no simulation changes
    "h = (0.56, 0.5, 0.11)": "no",
    "u° = (0.5, 1, 0) is the myopic": "no",
    "ρ(A) = 0.67": "yes",
    "the human expert is suboptimal": "yes",
    "the expert prefers": "no",
}
TIMING = "the time of DynLin-UCB"


def the(start, claimed):
    """The one claim that starts so."""
    (claim,) = (claim for says, claim in claimed.items() if says.startswith(start))
    return claim


def test_what_is_true_of_the_curves_holds():
    claimed = found()
    for start, holds in FIXED.items():
        assert the(start, claimed).holds == holds
    others = [c for c in claimed.values() if not c.says.startswith(tuple(FIXED))]
    assert {claim.says: claim.holds for claim in others} == {c.says: "yes" for c in others}


@pytest.mark.parametrize(("start", "changes", "holds"), CASES)
def test_a_verdict_follows_the_curves(start, changes, holds):
    assert the(start, found(changes)).holds == holds


def test_every_claim_is_tested():
    starts = {start for start, *_ in CASES} | {*FIXED, TIMING}
    claimed = found()
    assert {the(start, claimed).says for start in starts} == set(claimed)


@pytest.mark.parametrize(
    ("seconds", "holds"),
    [({"DynLin-UCB": 1.9, "Lin-UCB": 2.0}, "yes"), ({"DynLin-UCB": 2.1, "Lin-UCB": 2.0}, "no")],
)
def test_the_time_is_per_run(seconds, holds):
    claim = the(TIMING, found(seconds=seconds))
    assert claim.holds == holds
    assert f"{seconds['DynLin-UCB'] / 40:.3f} and {seconds['Lin-UCB'] / 40:.3f}" in claim.measured


def test_the_time_of_one_run_does_not_depend_on_how_many_there_are():
    given = results()
    given["figure1"]["Lin-UCB"] = shaped([Shape(200)], name="Lin-UCB", seconds=0.6)
    (claim,) = claims.timing_claims(given)
    assert "0.025 and 0.030" in claim.measured
    assert claim.holds == "yes"


@pytest.mark.parametrize(
    ("start", "changes", "numbers"),
    [
        ("Exp3 and Batch-Exp3 suffer", change("figure1", "AR2", Shape(1234)),
         ["Exp3 500", "AR2 1,234", "DynLin-UCB 10"]),
        ("all versions of Lin-UCB", change("figure1", "Lin-UCB", FLAT),
         ["Lin-UCB, λ=log T pace 0.69", "Lin-UCB, λ=1 pace 1.00"]),
        ("D-Lin-UCB is best", {}, ["γ=0.99 600", "γ=1−1e-06 250", "γ=1−1e-09 200"]),
        ("with λ = log T both commit", change("figure1", "Lin-UCB", Shape(200, loss=HALF_THERE)),
         ["50% of the runs of Lin-UCB and 100%"]),
        ("Lin-UCB and D-Lin-UCB have a relevant", {}, ["20% and 20%", "0.0% and 0.0%"]),
        ("λ = log T has a notable", {}, ["10 ± 0 more", "2.0 times"]),
        ("no algorithm except", change("figure3", "Exp3", Shape(5, loss=(AT_BEST, 0.1) * 10)),
         ["at most 50% of the runs", "none"]),
        ("the others commit at once", change("figure3", "AR2", Shape(5, loss=(AT_VERTEX, 0.1) * 10)),
         ["AR2 50%", "expert 100%"]),
        ("h = (0.56", {}, ["h = (0.312, 0.5, 0.111)", "J* = 0.66", "(0.562, 0.5, 0.111)", "0.81"]),
    ],
)  # fmt: skip
def test_measurements_are_shown(start, changes, numbers):
    measured = the(start, found(changes)).measured
    for text in numbers:
        assert text in measured


BETWEEN = pytest.param(0.2154)


@pytest.mark.parametrize("loss", [AT_VERTEX, AT_EXPERT, 0.2151213315, 0.2166136532, BETWEEN])
def test_no_run_ends_in_two_places(loss):
    """The expert and two of the vertices lose nearly the same."""
    claim = the("the others commit", found(change("figure3", "AR2", Shape(500, loss=loss))))
    assert "AR2 100%" in claim.measured


def test_who_ends_at_the_optimum_does_not_commit_to_a_suboptimal_solution():
    others = {k: v for k, v in TRUE["figure3"].items() if k != "DynLin-UCB"}
    changes = {
        ("figure3", name, i): Shape(500, loss=AT_BEST)
        for name, shapes in others.items() for i in range(len(shapes))
    }  # fmt: skip
    assert the("the others commit", found(changes)).holds == "no"


def problem(A, omega, theta):
    system = dlb.System(A, np.diag([0.45, 0.0, 0.1]), omega, theta)
    return dlb.Problem(system, dlb.actions.budget(0.0, np.ones(3), total=1.5))


A = np.diag([0.2, 0.0, 0.1])


@pytest.mark.parametrize(
    ("start", "name", "replacement", "holds"),
    [
        # With ω₁ = 1.8 the printed B gives h₁ = 0.25 · 1.8 / 0.8.
        ("h = (0.56", "synthetic", lambda: problem(A, [1.8, 0, 0.1], [0, 0.5, 0.1]), "yes"),
        ("u° = (0.5, 1, 0) is", "synthetic", lambda: problem(A, [1, 0, 0.1], [0.3, 0.5, 0]), "yes"),
        ("ρ(A) = 0.67", "real_world", lambda: problem(A, [1, 0, 0.1], [0, 0.5, 0.1]), "no"),
        ("the human expert is", "expert", lambda p: dlb.constant(p.optimal_action), "no"),
        ("the expert prefers", "expert", lambda p: dlb.constant(p.myopic_action), "yes"),
    ],
)
def test_claims_about_problems_follow_the_problems(start, name, replacement, holds, monkeypatch):
    monkeypatch.setattr(claims, name, replacement)
    assert the(start, found()).holds == holds


def rows(text):
    header, _, *body = text.partition("\n\n")[2].splitlines()
    assert header == "| section | the paper says | measured here | holds | why not |"
    split = [[cell.strip() for cell in row.strip("|").split("|")] for row in body]
    assert {len(row) for row in split} <= {5}
    return split


def test_the_table_holds_all_claims_and_why_they_fail():
    changes = change("figure1", "AR2", Shape(49)) | change("figure1", "Lin-UCB", FLAT, FLAT)
    given = results(changes)
    claimed = [claim for _, check in claims.CHECKS for claim in check(given)]
    shown = rows(claims.table(given))
    assert [tuple(row[:4]) for row in shown] == [claim[:4] for claim in claimed]
    for row, claim in zip(shown, claimed, strict=True):
        assert row[4] == ("" if row[3] == "yes" else claim.why)
    assert {row[3] for row in shown} == {"yes", "partly", "no"}
    for row in shown:
        assert bool(row[4]) == (row[3] != "yes"), row[1]


@pytest.mark.parametrize(
    ("names", "checks"),
    [
        (["figure1"], ["synthetic_problem", "comparison_claims", "timing_claims"]),
        (["figure2"], ["sensitivity_claims"]),
        (["figure3"], ["real_world_claims"]),
        (["discounting"], ["discounting_claims"]),
        (["noise-0.001", "figure1", "noise-0.1"],
         ["synthetic_problem", "comparison_claims", "noise_claims", "timing_claims"]),
        (["noise-0.001"], []),
    ],
)  # fmt: skip
def test_the_table_holds_what_the_experiments_can_check(names, checks):
    given = {name: found_ for name, found_ in results().items() if name in names}
    expected = [claim.says for check in checks for claim in getattr(claims, check)(given)]
    text = claims.table(given)
    assert [row[1] for row in rows(text)] == expected
    assert text.startswith("Mean expected regret of 20 runs of 1,000 rounds.")


def test_checks_need_experiments_that_exist():
    needed = set().union(*(needs for needs, _ in claims.CHECKS))
    assert needed == {
        name for name in report.EXPERIMENTS if not name.startswith(("tight", "adaptive"))
    }


def axes(policies):
    """The grid of every policy, or of every policy's result; none has none."""
    return {
        name: {axis: list(values) for axis, values in getattr(one, "axes", {}).items()}
        for name, one in policies.items()
    }


def test_the_curves_are_laid_out_as_the_experiments_are(monkeypatch):
    for name in ("comparison", "sensitivity"):
        module = sys.modules[f"dlbjax.experiments.{name}"]
        monkeypatch.setattr(module, "simulate", lambda problem, policies, *_, **__: policies)
    for name, made in results().items():
        real = report.EXPERIMENTS[name](horizon=1000, seeds=20)
        real = real if name != "discounting" else {real.policies[0].name: real}
        assert list(real) == list(made)
        assert axes(real) == axes(made)
