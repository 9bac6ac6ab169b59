"""How far fits and plans can be trusted, on simulated truths.

    python benchmarks/decisions.py orders --repetitions 200 --first 0
    python benchmarks/decisions.py campaigns --repetitions 1000 --first 0

`orders`: coverage of the 95 % intervals of h on random systems of order 3, with the order chosen and with the
true one: 500 and 730 rounds of random actions, and 500 of actions that follow the last reward.
`campaigns`: two or three channels of different memories, trend, season of 52 weeks and a price, 104 to 208
rounds, R² of 0.7: coverage of h, how often a recommended allocation that claims to be better with 95 % is
better, and the error on the last fifth relative to ridge regression on lagged spend, trend, season and price.
Repetition i has seed `first` + i. Standard errors of shares are √(p(1−p)/n) over repetitions.
"""

import argparse
import itertools
import warnings

import numpy as np

import dlbjax as dlb
from dlbjax.campaign import Log, Model, choose

SURE = 1.96


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("orders", "campaigns"))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.repetitions)
    (orders if args.study == "orders" else campaigns)(seeds)


def share(name, found):
    found = np.asarray(found, dtype=float)
    per_run = found.mean(axis=-1) if found.ndim == 2 else found
    error = per_run.std() / np.sqrt(max(len(per_run), 1))
    print(f"{name:60} {found.mean():.3f} ± {error:.3f}  ({len(per_run)} repetitions)", flush=True)


def partly(seeds, every=10):
    """The seeds, and whether to print the shares found so far after each."""
    return ((seed, i % every == 0 or i == len(seeds)) for i, seed in enumerate(seeds, 1))


def orders(seeds):
    played_ways = (("open loop", 500, 0.0), ("open loop", 730, 0.0), ("closed loop", 500, 0.1))
    covered = {}
    for seed, show in partly(seeds):
        for (name, rounds, feedback), order in itertools.product(played_ways, ("auto", 3)):
            rng = np.random.default_rng(seed)
            system = random_system(rng)
            actions, rewards = played(system, rounds, feedback, rng)
            fit = dlb.identify(actions, rewards, order)
            found = covered.setdefault(f"covered, {name}, {rounds} rounds, order {order}", [])
            found.append(np.abs(fit.h - system.h) < SURE * fit.h_std)
        if show:
            for name, found in covered.items():
                share(name, found)


def random_system(rng, n=3, d=2):
    A = rng.normal(size=(n, n))
    A *= rng.uniform(0.5, 0.9) / np.abs(np.linalg.eigvals(A)).max()
    B, omega, theta = rng.normal(size=(n, d)), rng.normal(size=n), rng.normal(size=d)
    quiet = dlb.System(A, B, omega, theta)
    spread = played(quiet, 500, 0.0, np.random.default_rng(0))[1].std()
    return dlb.System(A, B, omega, theta, sigma=0.3 * spread)


def played(system, rounds, feedback, rng):
    actions, rewards = rng.uniform(size=(rounds, system.d)), np.zeros(rounds)
    x, root = np.zeros(system.n), np.sqrt(np.diag(system.state_noise))
    for t in range(rounds):
        actions[t] += feedback * rewards[t - 1] / (1 + abs(rewards[t - 1]))
        noise = system.reward_noise * rng.normal()
        rewards[t] = system.omega @ x + system.theta @ actions[t] + noise
        x = system.A @ x + system.B @ actions[t] + root * rng.normal(size=system.n)
    return actions, rewards


def campaigns(seeds):
    covered, claims, errors = [], [], []
    for seed, show in partly(seeds):
        spend, price, rewards, h = campaign(np.random.default_rng(seed))
        options = {"trend": True, "season": 52}
        fit = dlb.identify(spend, rewards, controls=price, **options)
        covered.append(float(np.mean(np.abs(fit.h - h) < SURE * fit.h_std)))
        log = Log([spend], [rewards], tuple(f"c{i}" for i in range(len(h))), "sales")
        choice = choose(Model.of(fit, log), 1)
        best = choice.options[0]
        if best.better >= 0.95:
            claims.append(h @ (best.allocation - choice.current.allocation) > 0)
        cut = int(0.8 * len(rewards))
        part = dlb.identify(spend[:cut], rewards[:cut], controls=price[:cut], **options)
        ours = rewards[cut:] - predicted(part, spend[cut:], price[cut:])
        theirs = rewards[cut:] - ridge(spend, price, rewards, cut)
        errors.append((np.sqrt(np.mean(ours**2)), np.sqrt(np.mean(theirs**2))))
        if show:
            share("covered, campaigns", covered)
            if claims:
                share("better where better with 95 % is claimed", claims)
            ours, theirs = np.array(errors).T
            share("held-out error, relative to ridge", ours / theirs)
            print(f"mean held-out error over that of ridge: {ours.mean() / theirs.mean():.3f}")


def campaign(rng):
    """Spend, price, rewards and h."""
    rounds, d = 26 * int(rng.integers(4, 9)), int(rng.integers(2, 4))
    t = np.arange(rounds)
    season = np.sin(2 * np.pi * t / 52 + rng.uniform(0, 6))
    spend = rng.gamma(3.0, 30.0, size=(rounds, d)) * np.exp(0.2 * season[:, None])
    price = rng.uniform(1, 2, size=rounds)
    memory, effect = rng.uniform(0.1, 0.7, size=d), rng.uniform(0.2, 2.0, size=d)
    carried, driven = np.zeros(d), np.zeros(rounds)
    for s in range(rounds):
        carried = memory * carried + spend[s]
        driven[s] = effect @ carried
    unit = driven.std()
    known = driven + unit * (season - 0.5 * price + rng.normal() * t / rounds)
    noise = known.std() * np.sqrt(0.3 / 0.7)
    rewards = 5 * unit + known + noise * rng.normal(size=rounds)
    return spend, price, rewards, effect / (1 - memory)


def predicted(fit, spend, price):
    """Rewards of the rounds after the fit, without looking at any of them."""
    price_effect, price_mean = fit.controls.effects[-1], fit.controls.means[-1]
    level = fit.baseline + fit.controls.ahead(len(spend)) + price_effect * (price - price_mean)
    system, x, driven = fit.system, fit.state, []
    for u in spend:
        driven.append(system.omega @ x + system.theta @ u)
        x = system.A @ x + system.B @ u
    return level + np.array(driven)


def ridge(spend, price, rewards, cut, lags=4):
    """Predictions by ridge regression, its penalty chosen on the last fifth of what is fitted."""
    t = np.arange(len(spend))
    waves = [f(2 * np.pi * k * t / 52) for k in (1, 2) for f in (np.sin, np.cos)]
    past = [
        np.vstack([np.repeat(spend[:1], s, axis=0), spend[: len(spend) - s]])
        for s in range(lags + 1)
    ]
    table = np.column_stack([*past, t, *waves, price])
    table = (table - table[:cut].mean(axis=0)) / table[:cut].std(axis=0)

    def fitted(penalty, first, last):
        X, y = table[:first], rewards[:first]
        weights = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ (y - y.mean()))
        return y.mean() + table[first:last] @ weights

    inner = int(0.8 * cut)
    penalties = 10.0 ** np.arange(-2, 4)
    off = [np.sum((rewards[inner:cut] - fitted(p, inner, cut)) ** 2) for p in penalties]
    return fitted(penalties[int(np.argmin(off))], cut, len(rewards))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
