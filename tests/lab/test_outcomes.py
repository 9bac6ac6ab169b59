"""What the views show, against `simulate`, plain loops and the script that is taken away."""

import csv
import io
import runpy

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.lab.computation import Ticket
from dlbjax.lab.outcomes import Computer
from dlbjax.lab.script import script_of
from dlbjax.lab.settings import InputError, Learner, Settings, State
from dlbjax.lab.sources import problem_of
from dlbjax.lab.tables import final_table, regret_csv

SMALL = Settings(
    rounds=1000, runs=8, learners=(Learner("dynlin_ucb", rho_bar=0.3), Learner("lin_ucb", lam=2.0))
)
GIVEN = dlb.problems.real_world()


def outcome(state, computer=None):
    ticket = Ticket(lambda ticket: False)
    ticket.begin()
    return (computer or Computer(GIVEN)).compute(state, ticket)


def test_the_script_repeats_every_curve_to_the_last_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = Settings(source="given", sigma=0.07, budget=1.3, x1=0.1, memory=0.9, rounds=1000, runs=8,
                     learners=(Learner("dynlin_ucb", scale=0.5),))  # fmt: skip
    state = State(SMALL, kept=other, log_regret=True, measure="offline")
    (tmp_path / "copied.py").write_text(script_of(state, GIVEN), "utf-8")
    again = runpy.run_path(str(tmp_path / "copied.py"))["all_results"]
    plt.close("all")
    curves = outcome(state).content
    assert (
        [curve.label for curve in curves]
        == list(again)
        == ["DynLin-UCB", "Lin-UCB", "DynLin-UCB (kept)"]
    )
    for curve in curves:
        for kind in ("expected", "offline", "realised"):
            np.testing.assert_array_equal(
                curve.result.regret(kind), again[curve.label].regret(kind)
            )
    rows = list(csv.DictReader(io.StringIO(regret_csv(curves))))
    last = [row for row in rows if row["policy"] == "Lin-UCB" and row["measure"] == "offline"][-1]
    assert float(last["mean"]) == again["Lin-UCB"].summary("offline").mean[-1]
    assert len(final_table(curves)) == 3
    assert (tmp_path / "regret.png").stat().st_size > 1000


def test_only_what_is_new_is_simulated():
    computer = Computer()
    assert outcome(State(SMALL), computer).simulated == 2 * 8 * 1000
    assert outcome(State(SMALL, measure="offline"), computer).simulated == 0
    moved = State(SMALL).change(learners=(Learner("dynlin_ucb", rho_bar=0.4), SMALL.learners[1]))
    assert outcome(moved, computer).simulated == 8 * 1000


def test_shares_count_what_was_played():
    state = State(SMALL, view="vertices", subject="lin_ucb")
    found = outcome(state).content
    problem = problem_of(SMALL)
    policy = dlb.lin_ucb(dlb.Bounds.of(problem), lam=2.0)
    played = dlb.simulate(problem, policy, 1000, 8, record="actions").actions
    ends = found.rounds.tolist()
    for c, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        for k in range(len(problem.actions)):
            assert found.shares[k, c] == np.mean(played[:, begin:end] == k)


def test_one_run_follows_its_system():
    state = State(SMALL, view="run", run=3).change(x1=0.2)
    run = outcome(state).content
    problem = problem_of(state.settings)
    system, vertices = problem.system, problem.actions.vertices
    z = np.array(system.x1)
    for t in range(1000):
        np.testing.assert_allclose(run.shadow[t], z, atol=1e-12)
        z = system.A @ z + system.B @ vertices[run.actions[t]]
    settled = run.rewards - run.states @ system.omega - vertices[run.actions] @ system.theta
    assert 0.5 < settled.std() / 0.01 < 1.5  # the reward's own noise
    changes = np.flatnonzero(np.diff(run.actions)) + 2  # rounds, from 1, that play something new
    assert len(changes) > 10
    assert set(changes) <= set(run.epochs.tolist())


def test_no_policy_gives_an_empty_picture():
    nothing = Settings(learners=(), rounds=1000)
    assert outcome(State(nothing)).content == []
    assert outcome(State(nothing, view="vertices")).content is None


def test_what_a_policy_cannot_do_is_said_beside_it():
    for view in ("regret", "vertices"):
        delayed = Settings(source="delayed", rounds=1000, learners=(Learner("dynlin_ucb"),))
        with pytest.raises(InputError, match="rho_bar above 0") as rejected:
            outcome(State(delayed, view=view))
        assert rejected.value.field == "dynlin_ucb"
    with pytest.raises(InputError, match="up to 400 000 rounds"):
        outcome(State(Settings(rounds=10**6), view="run"))
