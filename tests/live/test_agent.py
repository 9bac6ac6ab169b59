"""The agent: decides as the simulator does, survives crashes, and rejects files of other campaigns."""

import json
import sqlite3
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.live.journal import Journal
from tests.live import campaign
from tests.policies.replay import noise_for
from tests.policies.test_contract import OWN, POLICIES, T

RUNS = 3


def random_init(params, vertices, key):
    return jax.random.uniform(key, (len(vertices),), vertices.dtype)


def random_act(params, vertices, state, epoch):
    return jnp.argmax(state + epoch.uniforms[1] * params["weight"] + epoch.plan)


def random_update(params, state, feedback):
    played = jnp.arange(len(feedback.vertices), dtype=jnp.int32) == feedback.action
    mean = feedback.total / feedback.length.astype(feedback.total.dtype)
    return state - jnp.where(played, mean + feedback.vector.sum(), 0.01 * feedback.plan)


def scheduled(epochs, horizon, vertices):
    return dlb.Schedule(
        epochs, {"weight": np.arange(10.0)},
        plan=lambda epoch: np.sin(np.outer(epoch.start, np.arange(10))),
    )  # fmt: skip


def random_policy(epochs):
    """A policy that uses all there is: its key, random numbers, a plan, feedback of an epoch."""
    return dlb.Policy(
        random_init, random_act, random_update, feedback=("total",), uniforms=2,
        prepare=partial(scheduled, epochs),
    )  # fmt: skip


EVERY = POLICIES | {"own, random": lambda p: random_policy([1, 3] * 20)}


@pytest.fixture(scope="module")
def problem():
    return dlb.problems.synthetic(sigma=0.2)


@pytest.mark.parametrize("name", EVERY)
def test_decides_as_the_simulator_does(problem, name):
    assert_simulated(problem, EVERY[name](problem), T)


def test_decides_as_the_simulator_does_over_many_decisions(problem):
    assert_simulated(problem, random_policy(1), horizon=600)


def assert_simulated(problem, policy, horizon):
    """The agent plays what the simulator plays, given its rewards."""
    result = dlb.simulate(
        problem, policy, horizon, noise=noise_for(problem, RUNS, horizon),
        record=("actions", "rewards"), rounds=[horizon],
    )  # fmt: skip
    for seed in range(RUNS):
        agent = dlb.Agent(policy, problem.actions, horizon, seed)
        played = []
        for reward in result.rewards[seed]:
            played.append(problem.actions.index(agent.ask()))
            agent.tell(reward)
        np.testing.assert_array_equal(played, result.actions[seed])


@pytest.fixture
def _unsynced(monkeypatch):
    """Does not wait for the disk, where a test is not about power cuts."""
    monkeypatch.setattr("dlbjax.live.journal.SYNCHRONOUS", "OFF")


@pytest.mark.usefixtures("_unsynced")
@pytest.mark.parametrize(
    "name",
    ["dynlin_ucb", "batch_exp3", "ar2, restarts", "constant", "own, list of epochs", "own, random"],
)
def test_resumed_at_every_round_it_is_the_same(problem, name, tmp_path):
    policy = EVERY[name](problem)
    agent = dlb.Agent(policy, problem.actions, T, 1)
    for t, reward in enumerate(np.random.default_rng(0).normal(size=T)):
        with dlb.Agent(policy, problem.actions, T, 1, path=tmp_path / "a") as again:
            assert (again.told, again.waiting) == (t, False)
            np.testing.assert_array_equal(again.ask(), agent.ask())
        with dlb.Agent(policy, problem.actions, T, 1, path=tmp_path / "a") as again:
            assert (again.told, again.waiting) == (t, True)
            again.tell(reward)
        agent.tell(reward)
        assert_same(again, agent)
    with dlb.Agent(policy, problem.actions, T, 1, path=tmp_path / "a") as again:
        assert (again.told, again.waiting) == (T, False)
        assert_same(again, agent)


def assert_same(one, other):
    """To the last bit, in what is seen and what is not."""
    for now in (one._now, other._now):  # what an interrupted call may have left does not count
        del now.record.rewards[now.told :], now.record.spend[now.told :]
        del now.record.allocations[now.told + now.waiting :], now.chosen[now.decision.number :]
    jax.tree.map(
        np.testing.assert_array_equal,
        one._now._replace(mark=0, stage=0),
        other._now._replace(mark=0, stage=0),
    )


@pytest.mark.usefixtures("_unsynced")
@pytest.mark.parametrize("stop", [255, 256, 257, 700])
def test_resumed_after_many_decisions_it_is_the_same(tmp_path, stop):
    with campaign.begin(tmp_path / "a") as agent:
        before = [a for _, a in campaign.rounds(agent, stop)]
    agent = campaign.begin()
    np.testing.assert_array_equal(before, [a for _, a in campaign.rounds(agent, stop)])
    with campaign.begin(tmp_path / "a") as again:
        assert_same(again, agent)
        after = [a for _, a in campaign.rounds(again, 800)]
    assert len(np.unique(after, axis=0)) > 5
    np.testing.assert_array_equal(after, [a for _, a in campaign.rounds(agent, 800)])
    assert_same(again, agent)


# --- what it rejects ------------------------------------------------------------------------------


@pytest.fixture
def agent(problem):
    return dlb.Agent(OWN, problem.actions, 3)


def test_asked_twice_it_returns_the_same(agent, tmp_path):
    first = agent.ask()
    first[:] = 7.0  # a copy, which the caller may change
    np.testing.assert_array_equal(agent.ask(), [0, 0, 0])
    with campaign.begin(tmp_path / "a") as kept:
        kept.ask()
        kept.ask()
    assert len(events(tmp_path / "a")) == 2


def test_order_of_calls(agent):
    with pytest.raises(RuntimeError, match="all 0 allocations have been told; call ask"):
        agent.tell(1.0)
    for _ in range(3):
        agent.ask()
        agent.tell(1.0)
    with pytest.raises(
        RuntimeError, match="all 3 rounds have been played; call change with a longer"
    ):
        agent.ask()
    with pytest.raises(RuntimeError, match="all 3 allocations have been told"):
        agent.tell(1.0)


NO_REWARDS = [
    np.nan,
    np.inf,
    "1",
    [1.0],
    np.ones(3),
    1j,
    10**400,
    True,
    np.bool_(0),
    jnp.array(True),
]


@pytest.mark.parametrize("reward", NO_REWARDS)
def test_invalid_rewards_are_rejected(tmp_path, reward):
    with campaign.begin(tmp_path / "a") as agent:
        agent.ask()
        with pytest.raises(ValueError, match=r"^reward must .*None"):
            agent.tell(reward)
        assert (agent.told, agent.waiting) == (0, True)
    assert len(events(tmp_path / "a")) == 2


@pytest.mark.parametrize("reward", [1, np.float32(1), np.array(1.0), jnp.float32(1), 1.0])
def test_numbers_of_any_type_are_rewards(agent, reward):
    agent.ask()
    agent.tell(reward)
    assert agent.told == 1


def test_a_reward_that_could_not_be_written_can_be_told_again(tmp_path, monkeypatch):
    append = Journal.append

    def interrupted(journal, mark, event):
        append(journal, mark, event)
        raise KeyboardInterrupt

    with campaign.begin(tmp_path / "a") as agent:
        agent.ask()
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                agent.tell(123.0)
        assert (agent.told, agent.waiting) == (0, True)
        agent.tell(0.5)
    with campaign.begin(tmp_path / "a") as again:
        assert_same(again, agent)
        assert again.history().rewards == [0.5]


def worse(params, vertices, state, epoch):
    return jnp.argmin(state[0])


OTHERS = {
    "begun with policy='policy' instead of 'mine'": {"policy": OWN._replace(name="mine")},
    "begun with other params": {"policy": OWN._replace(params={"optimism": 0.71})},
    "begun with other epochs": {"policy": OWN._replace(epochs=[1, 2] * 3)},
    "begun with other plans": {
        "policy": OWN._replace(
            prepare=lambda *_: dlb.Schedule(params=OWN.params, plan=lambda epoch: epoch.index)
        )
    },
    "begun with other actions": {"actions": dlb.actions.budget(0.0, [1, 1, 1], 1.4)},
    "begun with horizon=6 instead of 7": {"horizon": 7},
    "begun with seed=0 instead of 1": {"seed": 1},
    r"begun with channels=\['a', 'b', 'c'\] instead of \['a', 'c', 'b'\]": {
        "channels": ("a", "c", "b")
    },
    "begun with units='EUR' instead of 'USD'": {"units": "USD"},
    r"begun with current=None instead of \[0.0, 1.0, 0.0\]": {"current": (0, 1, 0)},
    r"begun with max_change=None instead of \[2.0, 2.0, 2.0\]": {
        "max_change": 2,
        "policy": OWN._replace(vectors=True),
    },
    "in round 2 the policy given here plays something else": {"policy": OWN._replace(act=worse)},
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_campaign_is_rejected_and_left_unchanged(tmp_path, problem, message):
    path = tmp_path / "a"
    arguments = {
        "policy": OWN, "actions": problem.actions, "horizon": 6, "channels": ("a", "b", "c"),
        "units": "EUR", "path": path,
    }  # fmt: skip
    with dlb.Agent(**arguments) as agent:
        for reward in (1.0, 0.5, 0.2):
            agent.ask()
            agent.tell(reward)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match=f"a holds another campaign.*{message}"):
        dlb.Agent(**(arguments | OTHERS[message]))
    assert path.read_bytes() == kept
    with dlb.Agent(**arguments) as again:
        assert_same(again, agent)  # which shows that the lock was released, too


def test_a_file_in_use_is_rejected(tmp_path):
    with campaign.begin(tmp_path / "a"), pytest.raises(BlockingIOError, match="a is in use by"):
        campaign.begin(tmp_path / "a")
    with campaign.begin(tmp_path / "a") as agent:
        pass
    with pytest.raises(RuntimeError, match="a was closed; open it again to continue"):
        agent.ask()


def nan_update(params, state, feedback):
    return state[0] * jnp.nan, state[1]


WRONG = {
    "policy must be a single one; got a grid of 2": {
        "policy": dlb.lin_ucb(dlb.Bounds.of(dlb.problems.synthetic()), lam=[1.0, 2.0])
    },
    "policy must be a dlbjax.Policy; got str": {"policy": "ucb1"},
    "actions must come from dlbjax.actions": {"actions": np.eye(3)},
    "horizon must be a whole number": {"horizon": 0},
    "seed must be a whole number": {"seed": -1},
    "channels must be 3 distinct names": {"channels": ("a", "b")},
    "channels must be 3 distinct names, .* got 'abc'": {"channels": "abc"},
    "channels must be 3 distinct names.*'a', 'a', 'b'": {"channels": ("a", "a", "b")},
    "units must be text": {"units": 3},
    "current must have shape": {"current": (1, 2)},
    "max_change must be > 0": {"policy": dlb.constant([0, 0, 0]), "max_change": (1, 0, 1)},
    "policy 'policy' learns about its vertices only": {"max_change": 1},
    "a finite list has nothing between": {
        "actions": dlb.actions.finite(np.eye(3)),
        "max_change": 1,
    },
    "vectors of a policy must be True or False": {"policy": OWN._replace(vectors=1)},
    "which is not in the problem's action set": {"policy": dlb.constant([9.0, 9.0, 9.0])},
    "feedback must be a tuple": {"policy": OWN._replace(feedback="last")},
    "chose action 10; its act must return the index of one of 10": {
        "policy": OWN._replace(act=lambda params, vertices, state, epoch: 10)
    },
    "chose action -1": {"policy": OWN._replace(act=lambda params, vertices, state, epoch: -1)},
    "must return a state of the structure": {
        "policy": OWN._replace(update=lambda params, state, feedback: ())
    },
    "config in the schedule of policy 'policy' must be fit for JSON": {
        "policy": OWN._replace(
            prepare=lambda *_: dlb.Schedule(params=OWN.params, config={"a": {1}})
        )
    },
    "beta must hold a value for every epoch": {
        "policy": dlb.dynlin_ucb(dlb.Bounds.of(dlb.problems.synthetic()), beta=[1.0, 1.0])
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_named_and_leave_no_file(tmp_path, problem, message):
    arguments = {"policy": OWN, "actions": problem.actions, "horizon": 6, "path": tmp_path / "a"}
    with pytest.raises(ValueError, match=message):
        dlb.Agent(**(arguments | WRONG[message]))
    assert not (tmp_path / "a").exists()


def test_a_policy_whose_state_becomes_nan_is_named(tmp_path, problem):
    policy = OWN._replace(update=nan_update)
    with dlb.Agent(policy, problem.actions, 6, path=tmp_path / "a") as agent:
        agent.ask()
        with pytest.raises(FloatingPointError, match="state of policy 'policy' became NaN"):
            agent.tell(1.0)
        assert (agent.told, agent.waiting) == (0, True)


# --- what it shows --------------------------------------------------------------------------------


def test_shows_names_and_units(problem):
    budget = dlb.actions.budget([0, 1000, 250], [1e6, 2e6, 1e6], total=1.5e6)
    channels = ("facebook", "google", "bing")
    policy = dlb.constant([0, 1234567.5, 250], name="plan")
    agent = dlb.Agent(policy, budget, 365, channels=channels, units="EUR per day")
    assert str(agent) == "plan, 0 of 365 rounds told"
    agent.ask()
    assert str(agent) == (
        "plan, 0 of 365 rounds told; round 1 plays facebook 0, google 1234567.5, bing 250 EUR per day"
    )


def test_the_file_can_be_read_by_anyone(tmp_path):
    with campaign.begin(tmp_path / "a") as agent:
        ((_, allocation),) = campaign.rounds(agent, 1)
    begin, asked, told = events(tmp_path / "a")
    assert begin["event"] == "begin"
    assert begin["policy"] == "Exp3"
    assert begin["config"]["gamma"] == 0.2
    assert begin["versions"]["dlbjax"] == dlb.__version__
    assert asked == {"round": 1, "event": "ask", "allocation": allocation.tolist()}
    assert told == {"round": 1, "event": "tell", "reward": campaign.reward_of(1, allocation)}


def test_exports_its_events_as_text(tmp_path, agent):
    with campaign.begin(tmp_path / "a") as kept:
        list(campaign.rounds(kept, 2))
        kept.export(tmp_path / "text")
    lines = (tmp_path / "text").read_text().splitlines()
    assert list(map(json.loads, lines)) == events(tmp_path / "a")
    with pytest.raises(RuntimeError, match="this campaign has no file; pass path"):
        agent.export(tmp_path / "text")


def events(path):
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT round, event, data FROM events ORDER BY number").fetchall()
    database.close()
    return [{"round": r, "event": event, **json.loads(data)} for r, event, data in rows]


def test_leaves_jax_as_it_was(agent):
    before = dict(jax.config.values)
    agent.ask()
    agent.tell(1.0)
    assert dict(jax.config.values) == before
    assert jnp.zeros(1).dtype == jnp.float32
