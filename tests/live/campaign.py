"""A campaign whose events depend on the round only, for a process that may be killed."""

import sqlite3

import numpy as np

import dlbjax as dlb

ROUNDS, SEED = 1000, 5
PROBLEM = dlb.problems.synthetic(sigma=0.2)
POLICY = dlb.exp3(dlb.Bounds.of(PROBLEM, 0.7), gamma=0.2)


def begin(path=None, horizon=ROUNDS, **options) -> dlb.Agent:
    return dlb.Agent(POLICY, PROBLEM.actions, horizon, SEED, path=path, **options)


def reward_of(number: int, allocation: np.ndarray) -> float:
    return float(np.sin(0.1 * number**2) + allocation @ [0.3, 0.5, 0.1])


def rounds(agent: dlb.Agent, until: int):
    """Play up to a round; yields number and allocation of each after its reward has been told."""
    while agent.told < until:
        number, allocation = agent.told + 1, agent.ask()
        agent.tell(reward_of(number, allocation))
        yield number, allocation


# --- a campaign in which everything happens -------------------------------------------------------

LIVELY = 300  # rounds
BEGIN = {
    "policy": dlb.dynlin_ucb_adaptive(), "actions": dlb.actions.budget(0, [8.0, 4.0], 10.0),
    "horizon": 100, "channels": ["tv", "web"],
}  # fmt: skip
CHANGES = {  # before a round
    61: {"actions": dlb.actions.budget(0, [6.0, 4.0], 7.0)},
    101: {"horizon": LIVELY},
    151: {
        "actions": dlb.actions.budget(0, [0.0, 4.0, 3.0], 6.0), "channels": ["tv", "web", "radio"]
    },
    201: {"policy": dlb.lin_ucb(dlb.Bounds(1.0, 1.0, 1.0, 10.0, 10.0, 1.0, 0.5, 1.0))},
    251: {"max_change": 2.5},
}  # fmt: skip


def events() -> list[tuple]:
    """All that happens after the beginning, in order: name of the method and arguments."""
    found = []
    for number in range(1, LIVELY + 1):
        if number in CHANGES:
            found.append(("change", CHANGES[number]))
        found += [("ask", {}), ("tell", {})]
        if number % 13 == 0:
            found.append(("correct", {"round": number - 4, "reward": 6.0 + number / 100}))
        if number % 47 == 0:
            spend = [1.0] * (2 if number <= 150 else 3)
            reward = None if number % 2 else 4.0
            found.append(("correct", {"round": 1 + number // 2, "reward": reward, "spend": spend}))
    return found


EVENTS = events()


def lively(path=None) -> tuple[dlb.Agent, int]:
    """An agent, begun or continued, and the number of events that happened."""
    done, now = 0, dict(BEGIN)
    if path is not None and path.exists():
        with sqlite3.connect(path) as database:
            done = database.execute("SELECT count(*) FROM events").fetchone()[0] - 1
        database.close()
    for name, given in EVENTS[:done]:
        if name == "change":
            now |= given
    return dlb.Agent(**now, seed=SEED, path=path), done


def happen(agent: dlb.Agent, number: int) -> None:
    """An event; some rewards are missing, and some spend differs from the allocation."""
    name, given = EVENTS[number]
    if name == "tell":
        rng, allocation = np.random.default_rng(agent.told), agent.ask()
        spend = np.round(allocation * rng.uniform(0.8, 1.2, len(allocation)), 2)
        reward = 5.0 + allocation[:2] @ [0.3, 0.5] + rng.standard_normal()
        place = agent.told + 1
        given = {
            "reward": None if place % 11 == 0 else reward,
            "spend": spend if place % 7 in (0, 1, 2) else None,
        }
    getattr(agent, name)(**given)


def play(path, sender) -> None:
    """Let everything happen; sends the number of events that did."""
    agent, done = lively(path)
    with agent:
        sender.send(done)
        for number in range(done, len(EVENTS)):
            happen(agent, number)
            sender.send(number + 1)
