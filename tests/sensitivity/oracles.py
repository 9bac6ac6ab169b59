"""What the package differentiates, once more in plain NumPy, and differences of it."""

from itertools import product

import numpy as np
from scipy.optimize import linprog

from tests.oracles import random_stable

HORIZON = 4


def world(seed, n=3, d=3, K=6, rho=0.8):
    """Arrays of a random system and its vertices, with u* best by a margin in every round."""
    rng = np.random.default_rng(seed)
    while True:
        w = {
            "A": random_stable(rng, n, rho), "B": rng.normal(size=(n, d)),
            "omega": rng.normal(size=n), "theta": rng.normal(size=d), "x1": rng.normal(size=n),
        }  # fmt: skip
        vertices = rng.uniform(size=(K, d))
        values = np.sort([steady_reward(w) @ v for v in vertices])
        plans = np.sort(plan_values(w, vertices))
        if (
            values[-1] - values[-2] > 0.05 < values[-2] - values[-3]
            and plans[-1] - plans[-2] > 1e-3
        ):
            return w, vertices


def steady_reward(w):
    """h, as a sum of impulse responses."""
    h, state = w["theta"].copy(), w["B"].copy()
    for _ in range(400):
        h = h + w["omega"] @ state
        state = w["A"] @ state
    return h


def settled(w, u):
    x = np.zeros(len(w["A"]))
    for _ in range(400):
        x = w["A"] @ x + w["B"] @ u
    return x


def average(w, actions):
    """J_H of actions (…, H, d), round by round."""
    x = np.broadcast_to(w["x1"], (*actions.shape[:-2], len(w["x1"])))
    total = 0.0
    for t in range(actions.shape[-2]):
        u = actions[..., t, :]
        total = total + x @ w["omega"] + u @ w["theta"]
        x = x @ w["A"].T + u @ w["B"].T
    return total / actions.shape[-2]


def plan_values(w, vertices):
    """J_H of every plan there is."""
    plans = np.array(list(product(range(len(vertices)), repeat=HORIZON)))
    return average(w, vertices[plans])


def quantities(w, vertices):
    h = steady_reward(w)
    values = vertices @ h
    order = np.argsort(-values)
    best = vertices[order[0]]
    return {
        "h": h,
        "J*": values[order[0]],
        "margin": values[order[0]] - values[order[1]],
        "state": settled(w, best),
        "J_H": average(w, np.tile(best, (HORIZON, 1))),
        "J*_H": plan_values(w, vertices).max(),
    }


def differences(function, w, step=1e-4):
    """Derivatives of a dictionary of numbers by every entry of w: fourth-order central differences."""
    found = {}
    for name in w:
        columns = []
        for place in np.ndindex(np.shape(w[name])):
            at = {}
            for k in (-2, -1, 1, 2):
                moved = {key: np.array(value, float) for key, value in w.items()}
                moved[name][place] += k * step
                at[k] = function(moved)
            columns.append(
                {
                    q: (8 * (at[1][q] - at[-1][q]) - (at[2][q] - at[-2][q])) / (12 * step)
                    for q in at[1]
                }
            )
        for q in columns[0]:
            slopes = np.stack([np.asarray(column[q]) for column in columns], axis=-1)
            found[q, name] = slopes.reshape(slopes.shape[:-1] + np.shape(w[name]))
    return found


def best_value(h, G, g, A_eq=None, b_eq=None):
    """J* by a linear program, minus infinity where the set is empty."""
    answer = linprog(-h, G, g, A_eq, b_eq, bounds=(None, None))
    return -np.inf if answer.status == 2 else -answer.fun
