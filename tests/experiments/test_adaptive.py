"""The study of dynlin_ucb_adaptive: its problems, criteria, tables and figure."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

import dlbjax as dlb
from dlbjax.experiments import adaptive, adaptive_tables, family
from dlbjax.experiments.adaptive_figure import adaptive_figure
from tests.experiments.shapes import Shape, shaped

SMALL = {"horizon": 200, "seeds": 1}


def single(**size):
    """Results like those of `on_problems`."""
    return dlb.Results(
        {
            f"{policy}: {problem}": shaped([Shape(10.0 + i)], None, policy, **size)
            for i, policy in enumerate(adaptive.GIVEN)
            for problem in adaptive.PROBLEMS
            if adaptive.MADE_FOR.get(policy, problem) == problem
        }
    )


def over_family(horizon=200, seeds=1, losing=(), **size):
    """Results like those of `on_family`; ours is worse than the paper's on the systems named."""
    count = len(adaptive.members(seeds))

    def totals(policy):
        ours = policy == adaptive.OURS
        return [Shape(50.0 if ours and i not in losing else 100.0 + ours) for i in range(count)]

    names = [name for name in adaptive.GIVEN if name not in adaptive.MADE_FOR]
    axes = {"system": np.arange(count)}
    return dlb.Results(
        {n: shaped(totals(n), axes, n, horizon=horizon, seeds=seeds, **size) for n in names}
    )


def test_the_family_is_as_wide_as_it_says():
    problems = family.family(80)
    systems = [problem.system for problem in problems]
    assert {(s.n, s.d) for s in systems} == set(family.SHAPES)
    found = [family.traits(problem, rounds=10) for problem in problems]
    np.testing.assert_allclose([np.linalg.norm(s.h) for s in systems[:1]], 1.0, rtol=0.5)
    assert 0.9 < max(t.rho for t in found) < 0.97
    assert max(t.phi for t in found) > 20
    assert min(t.gap for t in found) < 0.01
    assert sum(np.any(s.x1 != 0) for s in systems) in range(25, 56)
    eigenvalues = [np.linalg.eigvals(s.A) for s in systems]
    top = np.array([values[np.argmax(np.abs(values))] for values in eigenvalues])
    assert np.any(np.abs(top.imag) > 0.1)
    assert np.any(top.real < -0.1)
    noises = np.array([s.reward_noise for s in systems])
    assert noises.max() / noises.min() > 300


def test_a_baseline_only_raises_all_rewards():
    (problem,) = family.family(1, seed=3, baseline=7.0)
    assert problem.system.d == 5
    np.testing.assert_array_equal(problem.actions.vertices[:, -1], 1.0)
    assert problem.values.min() > 4.0


def test_traits_against_a_simulated_system():
    problem = family.family(1, seed=4)[0]
    system, found = problem.system, family.traits(problem, rounds=3)
    most = 0.0
    for v in problem.actions.vertices:
        for u in problem.actions.vertices:
            x = system.steady_state(v) - system.steady_state(u)
            for _ in range(3):
                x = system.A @ x
            most = max(most, abs(system.omega @ x))
    assert found.transient == pytest.approx(most)
    # the variance of the mean of many rewards, by adding up autocovariances
    P = np.zeros_like(system.A)
    for _ in range(2000):
        P = system.A @ P @ system.A.T + system.state_noise
    total, power = system.omega @ P @ system.omega + system.reward_noise**2, np.eye(system.n)
    for _ in range(2000):
        power = power @ system.A
        total += 2 * system.omega @ power @ P @ system.omega
    assert found.noise**2 == pytest.approx(total)
    values = np.sort(problem.values)
    assert found.gap == pytest.approx(values[-1] - values[-2])


def test_what_counts_as_resolvable_and_as_linear():
    clear = dlb.problems.synthetic(sigma=0.01)
    assert adaptive.resolvable(clear, 100_000)
    assert not adaptive.resolvable(dlb.problems.synthetic(sigma=1.0), 1000)
    slow = dlb.System(0.999 * np.eye(3), np.eye(3), np.ones(3) / 1000, [0, 0.01, 0.0], 1e-6)
    assert not adaptive.resolvable(dlb.Problem(slow, clear.actions), 100_000)
    gap = 0.03125  # of the synthetic problem
    result = shaped([Shape(1.0, loss=(gap, 0.5 * gap))], {"system": [0]}, seeds=2)
    assert adaptive.still_linear(result, [clear]).tolist() == [[True, False]]


def test_tables_say_where_it_loses():
    text = adaptive_tables.everything(single(**SMALL), over_family(losing=(3, 7)))
    assert "worse than the paper's DynLin-UCB: 3, 7." in text
    assert "worse than the paper's DynLin-UCB: none." in adaptive_tables.everything(
        single(**SMALL), over_family()
    )
    count = adaptive.plain(1)
    row = next(line for line in text.splitlines() if line.startswith("| DynLin-UCB adaptive"))
    assert row.split(" | ")[1] == "nothing"
    assert f"| {count - 2} |" in text
    assert "| – | – | – | 17.0 ± 0.0 |" in text  # AR-UCB has one problem


def test_the_figure_has_every_policy():
    figure = adaptive_figure(single(**SMALL), over_family())
    _, middle, right = figure.axes
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list(adaptive.GIVEN)
    assert len(middle.lines) == len(adaptive.GIVEN) - 2
    assert len(right.lines) == 3
    plt.close(figure)


@pytest.mark.slow
def test_the_study_runs(monkeypatch):
    """With systems of the synthetic problem's shape, for which all is compiled already."""
    monkeypatch.setattr(family, "SHAPES", ((3, 3),))
    monkeypatch.setattr(family, "RAISED_SHAPES", ((3, 3),))
    results = adaptive.on_family(horizon=200, seeds=1)
    assert list(results) == [name for name in adaptive.GIVEN if name not in adaptive.MADE_FOR]
    ours = results[adaptive.OURS]
    assert ours.expected_regret.shape == (12 + 2, 1, 10)
    assert ours.config["execution"]["core seconds"] > 0
