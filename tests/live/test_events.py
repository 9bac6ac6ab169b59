"""What happens in life: every event is learnt from by its rule, and replayed exactly, also after kill −9."""

import json
import multiprocessing
import random
import signal
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from tests.live import campaign
from tests.live.test_agent import assert_same
from tests.live.test_journal import chain_again, forge

ACTIONS = dlb.actions.budget(0, [2.0, 3.0], 4.0)
POINTS = dlb.actions.finite(np.random.default_rng(9).uniform(0, 2, (50, 2)))


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    monkeypatch.setattr("dlbjax.live.journal.SYNCHRONOUS", "OFF")


# --- a policy that learns from vectors, and a plain loop that does the same ------------------------


def init(params, vertices, key):
    return jnp.eye(3, dtype=vertices.dtype), jnp.zeros(3, vertices.dtype)


def act(params, vertices, state, epoch):
    """Anything else that was learnt gives another vertex."""
    h = jnp.linalg.solve(*state)
    return jnp.floor(len(vertices) * jnp.mod(100 * (h[0] + 2 * h[1] + 3 * h[2]), 1)).astype(
        jnp.int32
    )


def update(params, state, feedback):
    V, b = state
    f = jnp.concatenate([jnp.ones_like(feedback.vector[:1]), feedback.vector])
    y = (feedback.total / feedback.length.astype(f.dtype) + feedback.last) / 2
    return V + jnp.outer(f, f), b + f * y


SENSITIVE = dlb.Policy(init, act, update, vectors=True, name="sensitive")


def decided(epochs, spend, rewards):
    """The vertex of the epoch after the given ones, whose rounds were as given."""
    V, b = np.eye(3), np.zeros(3)
    for length, end in zip(epochs, np.cumsum(epochs), strict=True):
        seen = [y for y in rewards[end - length : end] if y is not None]
        if seen:
            f = np.r_[1, np.mean(spend[end - length : end], axis=0)]
            V, b = V + np.outer(f, f), b + f * (np.mean(seen) + seen[-1]) / 2
    h = np.linalg.solve(V, b)
    return POINTS.vertices[int(len(POINTS) * (100 * (h @ [1, 2, 3]) % 1))]


@pytest.mark.parametrize("epochs", [[1, 3, 2, 1, 4, 2, 3, 1, 2, 2, 4, 3, 2, 1], [1] * 300])
def test_learns_from_actual_spend_missing_rewards_and_corrections(epochs):
    rng, T = np.random.default_rng(3), sum(epochs)
    agent = dlb.Agent(SENSITIVE._replace(epochs=epochs), POINTS, T)
    starts = np.cumsum([0, *epochs])
    spend, rewards, current, changed = [], [], None, 0
    for place in range(T):
        if place in starts:
            current = decided(epochs[: list(starts).index(place)], spend, rewards)
        np.testing.assert_array_equal(agent.ask(), current)
        actual = current + rng.uniform(-0.5, 0.5, 2) if rng.random() < 0.5 else None
        rewards.append(None if rng.random() < 0.3 else float(rng.normal() + current @ [0.1, 0.2]))
        spend.append(current if actual is None else actual)
        agent.tell(rewards[-1], spend=actual)
        if rng.random() < 12 / T:
            late = int(rng.integers(len(rewards)))
            rewards[late] = None if rng.random() < 0.3 else float(rng.normal())
            spend[late] = rng.uniform(0, 2, 2)
            agent.correct(late + 1, rewards[late], spend[late])
            changed += 1
    assert changed > 5
    history = agent.history()
    np.testing.assert_array_equal(history.spend, spend)
    np.testing.assert_array_equal(history.rewards, [np.nan if y is None else y for y in rewards])


def test_a_change_starts_from_all_rounds_so_far():
    """As if the policy had been there from the first round; a new channel was not used before."""
    actions = dlb.actions.budget(0, [1.0, 2.0, 1.5], 3.0)
    agent = dlb.Agent(dlb.constant([1.0, 1.0]), ACTIONS, 12, channels=("a", "b"))
    rng, spend, rewards = np.random.default_rng(0), [], []
    for _ in range(12):
        agent.ask()
        spend.append(rng.uniform(0, 2, 2))
        rewards.append(float(rng.normal()))
        agent.tell(rewards[-1], spend[-1])
    policy = dlb.lin_ucb(dlb.Bounds(1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 0.5, 0.1), lam=0.5, delta=0.1)
    agent.change(policy, actions, 40, channels=("b", "a", "c"))
    past = np.column_stack([np.array(spend)[:, ::-1], np.zeros(12)])
    V, b = 0.5 * np.eye(3) + past.T @ past, past.T @ rewards
    h = np.linalg.solve(V, b)
    width = np.sqrt(np.einsum("ki,ij,kj->k", actions.vertices, np.linalg.inv(V), actions.vertices))
    # Lin-UCB's radius after 12 rounds, by its formula
    c2, noise = 1 + 1 / 0.5, 0.1**2 * (1 + 1 / 0.75)
    beta = c2 * np.sqrt(0.5) + np.sqrt(
        2 * noise * (np.log(10) + 1.5 * np.log(1 + 12 * 16 / (3 * 0.5)))
    )
    np.testing.assert_array_equal(
        agent.ask(), actions.vertices[np.argmax(actions.vertices @ h + beta * width)]
    )
    np.testing.assert_array_equal(agent.history().spend, past)


def test_a_policy_of_vertices_starts_anew_at_a_change_and_skips_what_it_cannot_use():
    """UCB1 plays every vertex once: those whose reward it could not use are played again."""
    policy = dlb.ucb1(dlb.Bounds(1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 0.5, 0.1))
    agent = dlb.Agent(policy, ACTIONS, 100)
    vertices = ACTIONS.vertices
    for reward, spend in [(0.0, None), (None, None), (0.0, 0.9 * vertices[1]), (0.0, vertices[1])]:
        np.testing.assert_array_equal(agent.ask(), vertices[min(agent.told, 1)])
        agent.tell(reward, spend)
    np.testing.assert_array_equal(agent.ask(), vertices[2])
    agent.tell(0.0)
    agent.change(horizon=200)
    for vertex in vertices:
        np.testing.assert_array_equal(agent.ask(), vertex)
        agent.tell(0.0)


def test_batch_exp3_takes_the_mean_of_what_was_observed():
    policy = dlb.batch_exp3(dlb.Bounds.of(campaign.PROBLEM, 0.7))
    one, other = (dlb.Agent(policy, campaign.PROBLEM.actions, 400, 3) for _ in range(2))
    for place in range(300):
        np.testing.assert_array_equal(one.ask(), other.ask())
        y = float(np.sin(place // 8))  # the same throughout a batch, so that a part has its mean
        one.tell(y)
        other.tell(None if place % 8 in (0, 7) else y)
    assert len(np.unique(one.history().allocations, axis=0)) > 3


def test_spend_moves_by_no_more_than_the_limit():
    limit = np.array([0.5, 0.25])
    agent = dlb.Agent(dlb.constant([2.0, 2.0]), ACTIONS, 20, current=[0.0, 1.5], max_change=limit)
    spend = [np.array([0.0, 1.5])]
    for _ in range(6):
        spend.append(agent.ask())
        agent.tell(1.0)
    np.testing.assert_allclose(
        spend, [[0, 1.5], [0.5, 1.625], [1, 1.75], [1.5, 1.875], [2, 2], [2, 2], [2, 2]], atol=1e-12
    )
    agent.ask()
    agent.tell(1.0, spend=[1.0, 2.0])  # the limit counts from what was spent
    np.testing.assert_allclose(agent.ask(), [1.5, 2.0])


def test_a_limit_for_any_channel_holds_for_new_ones():
    """Counted from what was spent last, not from what was spent before the campaign."""
    actions = dlb.actions.budget([0, 0, 2.0], [2.0, 3.0, 3.0], 5.0)
    limits = {"current": [1, 1], "max_change": 0.5}
    agent = dlb.Agent(dlb.dynlin_ucb_adaptive(), ACTIONS, 20, channels=("a", "b"), **limits)
    agent.ask()
    agent.tell(1.0, [1.5, 0.75])
    agent.change(actions=actions, channels=("b", "a", "c"))
    moved = np.abs(agent.ask() - [0.75, 1.5, 0.0])
    assert moved.max() == pytest.approx(0.5)
    agent.tell(1.0)
    agent.change(max_change=[0.5, 0.5, 0.2])
    with pytest.raises(ValueError, match="max_change has a limit for each of the channels so far"):
        agent.change(channels=("a", "b", "c"))


def test_without_what_was_spent_before_the_first_allocation_is_free():
    agent = dlb.Agent(dlb.constant([2.0, 2.0]), ACTIONS, 20, max_change=0.1)
    np.testing.assert_array_equal(agent.ask(), [2.0, 2.0])


# --- what is rejected -----------------------------------------------------------------------------


@pytest.fixture
def agent():
    agent = dlb.Agent(SENSITIVE, ACTIONS, 20, channels=("a", "b"))
    agent.ask()
    agent.tell(1.0)
    return agent


WRONG = {
    "spend must have shape": lambda agent: agent.ask() is None or agent.tell(1.0, [1.0]),
    "the largest spend must be <= 1e": lambda agent: (
        agent.ask() is None or agent.tell(1, [1, 1e200])
    ),
    "spend must be finite": lambda agent: agent.ask() is None or agent.tell(1.0, [1.0, np.nan]),
    "spend must hold numbers": lambda agent: agent.ask() is None or agent.tell(1.0, [True, False]),
    "round must be a whole number from 1 to 1": lambda agent: agent.correct(2, 1.0),
    "reward must be finite.*tell None": lambda agent: agent.correct(1, np.inf),
    "reward must be a number": lambda agent: agent.correct(1, True),
    "horizon must be a whole number": lambda agent: agent.change(horizon=1),
    "channels must keep 'a'": lambda agent: agent.change(channels=("b", "c")),
    "channels must be 2 distinct names": lambda agent: agent.change(channels=("a", "b", "c")),
    "actions must come from": lambda agent: agent.change(actions=np.eye(2)),
    "policy must be a dlbjax.Policy": lambda agent: agent.change("ucb1"),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_events_are_named_and_change_nothing(agent, message):
    before = agent._now.decision
    with pytest.raises(ValueError, match=message):
        WRONG[message](agent)
    assert agent._now.decision is before
    np.testing.assert_array_equal(agent.history().rewards, [1.0])


def test_order_of_events(agent):
    agent.ask()
    with pytest.raises(RuntimeError, match="round 2 has been asked for; tell its reward, or None"):
        agent.change(horizon=30)
    with pytest.raises(RuntimeError, match="no round has been told yet"):
        dlb.Agent(SENSITIVE, ACTIONS, 20).correct(1, 1.0)
    unnamed = dlb.Agent(dlb.constant([1.0, 1.0]), ACTIONS, 20)
    with pytest.raises(
        ValueError, match="channels must be named to change their number from 2 to 3"
    ):
        unnamed.change(dlb.constant([0.0] * 3), dlb.actions.hypercube(3))


@pytest.mark.parametrize("name", ["batch_exp3", "dynlin_ucb_adaptive", "exp3"])
def test_rewards_that_would_overflow_are_rejected_before_they_are_written(tmp_path, name):
    """Those that are accepted, however large, leave sums and squares that the policies can go on with."""
    bounds = dlb.Bounds.of(campaign.PROBLEM, 0.7)
    policy = {
        "batch_exp3": lambda: dlb.batch_exp3(bounds), "exp3": lambda: dlb.exp3(bounds),
        "dynlin_ucb_adaptive": dlb.dynlin_ucb_adaptive,
    }[name]()  # fmt: skip
    with dlb.Agent(policy, campaign.PROBLEM.actions, 50, path=tmp_path / "a") as agent:
        for number in range(20):
            agent.ask()
            with pytest.raises(ValueError, match=r"reward must be .*<= 1e\+150; got 1e\+308"):
                agent.tell(1e308)
            agent.tell((-1) ** number * 1e150)
        with pytest.raises(ValueError, match=r"reward must be .*; got -1e\+308"):
            agent.correct(3, -1e308)
        agent.correct(3, 1.0)
    with dlb.Agent(policy, campaign.PROBLEM.actions, 50, path=tmp_path / "a") as again:
        assert_same(again, agent)


FORGED = {
    "round told twice": "INSERT INTO events SELECT 6, round, event, data, 0 FROM events WHERE number = 5",
    "round not told": "UPDATE events SET round = 3 WHERE number > 3",
    "asked twice": "UPDATE events SET event = 'ask', data = '{\"allocation\": [0.0, 0.0]}' WHERE number = 3",
    "told before asked": "UPDATE events SET number = number + 10 WHERE number = 2",
    "NaN": "UPDATE events SET data = '{\"reward\": NaN}' WHERE number = 3",
    "infinity": "UPDATE events SET data = '{\"reward\": 1e999}' WHERE number = 3",
    "true": "UPDATE events SET data = '{\"reward\": true}' WHERE number = 3",
    "text": 'UPDATE events SET data = \'{"reward": "1"}\' WHERE number = 3',
    "no reward": "UPDATE events SET data = '{}' WHERE number = 3",
    "short allocation": "UPDATE events SET data = '{\"allocation\": [0.0]}' WHERE number = 2",
    "unknown event": "UPDATE events SET event = 'sell' WHERE number = 3",
    "no beginning": "UPDATE events SET event = 'change' WHERE number = 1",
    "empty": "DELETE FROM events",
}


@pytest.mark.parametrize("statement", FORGED.values(), ids=FORGED)
def test_rounds_that_make_no_sense_are_noticed_whatever_their_checksums(tmp_path, statement):
    path = tmp_path / "a"
    with dlb.Agent(dlb.constant([0.0, 0.0]), ACTIONS, 9, path=path) as agent:
        for _ in range(2):
            agent.ask()
            agent.tell(1.0)
    forge(path, statement)
    with sqlite3.connect(path) as database:  # numbers without gaps
        numbers = [row[0] for row in database.execute("SELECT number FROM events ORDER BY number")]
        for new, old in enumerate(numbers, 1):
            database.execute("UPDATE events SET number = ? WHERE number = ?", (new, old))
    database.close()
    chain_again(path)
    with pytest.raises(ValueError, match="a is damaged"):
        dlb.Agent(dlb.constant([0.0, 0.0]), ACTIONS, 9, path=path)


def test_a_journal_of_version_0_1_can_be_told_again(tmp_path):
    problem, old = dlb.problems.synthetic(), Path(__file__).parent / "version_0_1.jsonl"
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem))
    with pytest.raises(ValueError, match=r"is a journal of dlbjax 0\.1, which was text"):
        dlb.Agent(policy, problem.actions, 20, path=old)
    lines = [json.loads(line) for line in old.read_text().splitlines()]
    agent = dlb.Agent(policy, problem.actions, 20)
    for line in lines:
        if "allocation" in line:
            np.testing.assert_array_equal(agent.ask(), line["allocation"])
        elif "reward" in line:
            agent.tell(line["reward"])
    assert agent.told == 8


# --- replayed exactly -----------------------------------------------------------------------------


def test_every_event_is_replayed_exactly(tmp_path):
    """Opened again after every event of a rarer kind, and now and then."""
    path, (kept, _) = tmp_path / "a", campaign.lively()
    again, _ = campaign.lively(path)
    for number, (name, _) in enumerate(campaign.EVENTS):
        campaign.happen(kept, number)
        campaign.happen(again, number)
        if name == "change" or number % 37 < 2 or (name == "correct" and number % 3 == 0):
            again.close()
            again, done = campaign.lively(path)
            assert done == number + 1
            assert_same(again, kept)
    again.close()
    allocations = kept.history().allocations
    assert len(np.unique(allocations, axis=0)) >= 8
    assert allocations[150:, 0].max() == 0  # the channel that was given up
    assert np.abs(np.diff(allocations[251:], axis=0)).max() < 2.5 * 1.2 + 1  # spend may differ


@pytest.mark.slow
def test_killed_at_any_time_it_loses_nothing(tmp_path):
    path, kills = tmp_path / "campaign.db", 5
    rng, done = random.Random(0), 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([campaign.__name__])
    for attempt in range(kills + 1):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=campaign.play, args=(path, sender))
        child.start()
        sender.close()
        at_start = receiver.recv()
        assert done <= at_start <= done + 1  # the last event may have been written unacknowledged
        done = at_start
        with suppress(EOFError):
            for _ in range(rng.randint(0, 130) if attempt < kills else len(campaign.EVENTS)):
                done = receiver.recv()
            child.kill()
            while True:
                done = receiver.recv()
        child.join()
        assert child.exitcode == (-signal.SIGKILL if attempt < kills else 0)
    assert done == len(campaign.EVENTS)
    kept, _ = campaign.lively()
    for number in range(len(campaign.EVENTS)):
        campaign.happen(kept, number)
    again, _ = campaign.lively(path)
    assert_same(again, kept)
    again.close()


def test_time_to_resume_does_not_grow_with_the_square_of_the_rounds(tmp_path):
    """The campaign is one that was simulated."""
    path, horizon = tmp_path / "a", 30_000
    result = dlb.simulate(
        campaign.PROBLEM, campaign.POLICY, horizon, seeds=[campaign.SEED], rounds=[horizon],
        record=("actions", "rewards"),
    )  # fmt: skip
    allocations = campaign.PROBLEM.actions.vertices[result.actions[0]].tolist()
    campaign.begin(path, horizon).close()
    rows = []
    for number, played in enumerate(zip(allocations, result.rewards[0].tolist(), strict=True), 1):
        for kind, name, value in zip(
            ("ask", "tell"), ("allocation", "reward"), played, strict=True
        ):
            rows.append((len(rows) + 2, number, kind, json.dumps({name: value}), 0))
    with sqlite3.connect(path) as database:
        database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    chain_again(path)
    begin = time.process_time()  # of all threads; other work on the machine does not count
    with campaign.begin(path, horizon) as agent:
        assert time.process_time() - begin < 20  # minutes if every round looks at all before it
        assert agent.told == horizon
