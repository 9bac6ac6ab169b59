"""dlbjax's identification against other packages on the same data.

Needs nfoursid (N4SID) and control (the eigensystem realisation algorithm, ERA, here on Markov
parameters that its own least squares estimates). All are told the order. Prints a Markdown table: the
median over seeds of the relative error of h, of the error of a free run over new actions relative to
the spread of the rewards, both without noise, and of the seconds of a fit once compiled.
"""

import argparse
import time
import warnings

import control
import numpy as np
import pandas as pd
from nfoursid.nfoursid import NFourSID

import dlbjax as dlb

ORDER = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1000, 20_000])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    print("| actions | rounds | method | error of h | free run | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, play in (("random", at_random), ("feedback", by_feedback)):
        for rounds in args.rounds:
            for method, fit in METHODS.items():
                fit(*play(rounds, seed=0))  # compiles
                found = [errors(fit, *play(rounds, seed)) for seed in range(args.seeds)]
                h, free, seconds = np.median(found, axis=0)
                print(f"| {name} | {rounds} | {method} | {h:.2%} | {free:.2%} | {seconds:.2f} |")


def errors(fit, actions, rewards):
    before = time.perf_counter()
    system = fit(actions, rewards)
    seconds = time.perf_counter() - before
    truth = dlb.problems.real_world().system
    h = system[3] + system[2] @ np.linalg.solve(np.eye(ORDER) - system[0], system[1])
    fresh = np.random.default_rng(10**6).uniform(size=(2000, truth.d))
    expected = free_run((truth.A, truth.B, truth.omega, truth.theta), fresh)
    off = free_run(system, fresh) - expected
    return (
        np.linalg.norm(h - truth.h) / np.linalg.norm(truth.h),
        off.std() / expected.std(),
        seconds,
    )


def free_run(system, actions):
    A, B, C, D = system
    x, rewards = np.zeros(len(A)), []
    for u in actions:
        rewards.append(C @ x + D @ u)
        x = A @ x + B @ u
    return np.array(rewards)


def at_random(rounds, seed):
    """Uniform actions, σ = 0.01."""
    rng = np.random.default_rng(seed)
    return played(dlb.problems.real_world(0.01).system, rounds, rng, np.zeros(3), rng.uniform)


def by_feedback(rounds, seed):
    """Actions that follow the last reward, σ = 0.1."""
    rng = np.random.default_rng(seed)
    gain = np.array([1.5, -1.0, 0.5])

    def dither(size):
        return 0.2 * rng.normal(size=size)

    return played(dlb.problems.real_world(0.1).system, rounds, rng, gain, dither)


def played(system, rounds, rng, gain, dither):
    actions, rewards = dither(size=(rounds, system.d)), np.zeros(rounds)
    x, sigma = np.zeros(system.n), system.reward_noise
    for t in range(rounds):
        actions[t] += gain * rewards[t - 1]
        rewards[t] = system.omega @ x + system.theta @ actions[t] + sigma * rng.normal()
        x = system.A @ x + system.B @ actions[t] + sigma * rng.normal(size=system.n)
    return actions, rewards


def by_dlbjax(actions, rewards, **options):
    system = dlb.identify(actions, rewards, ORDER, intercept=False, **options).system
    return system.A, system.B, system.omega, system.theta


def by_nfoursid(actions, rewards):
    inputs = [f"u{i}" for i in range(actions.shape[1])]
    frame = pd.DataFrame(np.c_[actions, rewards], columns=[*inputs, "y"])
    identifier = NFourSID(frame, output_columns=["y"], input_columns=inputs, num_block_rows=10)
    identifier.subspace_identification()
    found, _ = identifier.system_identification(rank=ORDER)
    return found.a, found.b, found.c[0], found.d[0]


def by_era(actions, rewards, lags=20):
    response = control.markov(rewards[None], actions.T, lags, truncate=True, dt=True)
    found, _ = control.eigensys_realization(response, ORDER, m=lags // 2 - 1, n=lags // 2 - 1)
    return found.A, found.B, found.C[0], found.D[0]


METHODS = {
    "dlbjax": by_dlbjax,
    "dlbjax, no refinement": lambda u, y: by_dlbjax(u, y, refine=False),
    "nfoursid": by_nfoursid,
    "control (ERA)": by_era,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
