"""A campaign whose rewards depend on round and allocation only, for a process that may be killed."""

import numpy as np

import dlbjax as dlb

ROUNDS, SEED = 1000, 5
PROBLEM = dlb.problems.synthetic(sigma=0.2)
POLICY = dlb.exp3(dlb.Bounds.of(PROBLEM, 0.7), gamma=0.2)


def begin(path=None, horizon=ROUNDS) -> dlb.Agent:
    return dlb.Agent(POLICY, PROBLEM.actions, horizon, SEED, path=path)


def reward_of(number: int, allocation: np.ndarray) -> float:
    return float(np.sin(0.1 * number**2) + allocation @ [0.3, 0.5, 0.1])


def rounds(agent: dlb.Agent, until: int):
    """Play up to a round; yields number and allocation of each after its reward has been told."""
    while agent.told < until:
        number, allocation = agent.told + 1, agent.ask()
        agent.tell(reward_of(number, allocation))
        yield number, allocation


def play(path, sender) -> None:
    """Play to the end; sends the number of rounds whose rewards have been told."""
    with begin(path) as agent:
        sender.send(agent.told)
        for number, _ in rounds(agent, ROUNDS):
            sender.send(number)
