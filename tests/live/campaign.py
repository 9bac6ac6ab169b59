"""A campaign whose rewards depend on round and allocation only; run as a program, it can be killed."""

import sys

import numpy as np

import dlbjax as dlb

ROUNDS = 1000


def begin(path=None, horizon=ROUNDS) -> dlb.Agent:
    problem = dlb.problems.synthetic(sigma=0.2)
    policy = dlb.exp3(dlb.Bounds.of(problem, 0.7), gamma=0.2)
    return dlb.Agent(policy, problem.actions, horizon, seed=5, path=path)


def reward_of(number: int, allocation: np.ndarray) -> float:
    return float(np.sin(0.1 * number**2) + allocation @ [0.3, 0.5, 0.1])


def rounds(agent: dlb.Agent, until: int):
    """Plays up to a round; yields number and allocation of each once its reward has been told."""
    while agent.told < until:
        number, allocation = agent.told + 1, agent.ask()
        agent.tell(reward_of(number, allocation))
        yield number, allocation


if __name__ == "__main__":
    with begin(sys.argv[1]) as agent:
        print("told", agent.told, flush=True)
        for number, _ in rounds(agent, ROUNDS):
            print("told", number, flush=True)
