"""How far fits, plans and agents can be trusted, on simulated truths.

    python benchmarks/decisions.py
    python benchmarks/decisions.py --campaigns 100 --systems 0 --agents 0

Campaigns: two or three channels of different memories, trend, season of 52 weeks and a price, 104 to 208
rounds, R² of 0.7. Coverage of the 95 % intervals of h; how often a recommended allocation that claims to be
better with 95 % is better; the error on the last fifth relative to ridge regression on lagged spend, trend,
season and price. Systems: random ones of order 3, 500 and 730 rounds of random actions and 500 of actions
that follow the last reward; coverage with the order chosen. Agents: 52 rounds after a campaign, started from
its fit, within 30 % of the usual spend.

Repetition i has seed 1000 + i: smaller seeds were used to choose how to fit and how agents learn. Every
repetition is a line of the store, so that an interrupted call goes on where it ended; lines of other code are
ignored. Prints a Markdown table, with standard errors over repetitions.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from tqdm import tqdm

import dlbjax as dlb
from dlbjax.campaign import Log, Model, choose
from dlbjax.common.digest import digest_text

FIRST = 1000  # seed
SURE = 1.96
CALENDAR = {"trend": True, "season": 52}
WEEKS = 52


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=1000)
    parser.add_argument("--systems", type=int, default=100)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--store", type=Path, default=Path("results/decisions.jsonl"))
    args = parser.parse_args()
    studies = {campaigns: args.campaigns, systems: args.systems, agents: args.agents}
    codes = {study: identity(study) for study in studies}
    found = {code: {} for code in codes.values()}
    if args.store.exists():
        for line in args.store.read_text().splitlines():
            row = json.loads(line)
            found.get(row["code"], {})[row["seed"]] = row["found"]
    args.store.parent.mkdir(parents=True, exist_ok=True)
    with args.store.open("a") as store:
        for study, repetitions in studies.items():
            rows = found[codes[study]]
            left = [seed for seed in range(FIRST, FIRST + repetitions) if seed not in rows]
            for seed in tqdm(left, desc=study.__name__, file=sys.stderr):
                rows[seed] = study(seed)
                row = {"code": codes[study], "seed": seed, "found": rows[seed]}
                print(json.dumps(row), file=store, flush=True)
    print("| measured | found | repetitions |\n| --- | --- | --- |")
    for study, repetitions in studies.items():
        rows = found[codes[study]].items()
        rows = [row for seed, row in rows if FIRST <= seed < FIRST + repetitions]
        for name in rows[0] if rows else ():
            print_row(name, [row[name] for row in rows if row[name] is not None])


def identity(study):
    """A digest of the code on which the numbers of a study depend."""
    package, here = Path(dlb.__file__).parent, Path(__file__)
    parts = ("identification", "campaign", "model")
    files = [path for part in parts for path in sorted((package / part).glob("*.py"))]
    if study is agents:
        files += [
            path for part in ("live", "policies") for path in sorted((package / part).glob("*.py"))
        ]
    else:
        files.remove(package / "identification" / "prior.py")
    text = "".join(path.read_text(encoding="utf-8") for path in [*files, here])
    return digest_text(study.__name__ + text)


def print_row(name, found):
    """Mean and standard error over repetitions, of which each may have several values."""
    means = np.array([np.mean(value) for value in found])
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    print(f"| {name} | {means.mean():.3f} ± {error:.3f} | {len(means)} |")


def campaigns(seed):
    spend, price, rewards, h = campaign(np.random.default_rng(seed))[:4]
    fit = dlb.identify(spend, rewards, controls=price, **CALENDAR)
    log = Log([spend], [rewards], tuple(f"c{i}" for i in range(len(h))), "sales")
    choice = choose(Model.of(fit, log), 1)
    best = choice.options[0]
    gain = h @ (best.allocation - choice.current.allocation)
    cut = int(0.8 * len(rewards))
    part = dlb.identify(spend[:cut], rewards[:cut], controls=price[:cut], **CALENDAR)
    off = rewards[cut:] - predicted(part, spend[cut:], price[cut:])
    off_ridge = rewards[cut:] - ridge(spend, price, rewards, cut)
    return {
        "campaigns: h covered": np.mean(np.abs(fit.h - h) < SURE * fit.h_std),
        "campaigns: claims to be better than now with 95 %": float(best.better >= 0.95),
        "campaigns: is better where it claims so": float(gain > 0) if best.better >= 0.95 else None,
        "campaigns: held-out error over that of ridge": np.sqrt(np.mean(off**2) / np.mean(off_ridge**2)),
    }  # fmt: skip


def systems(seed):
    covered = {}
    for name, rounds, feedback in (
        ("random actions", 500, 0.0), ("random actions", 730, 0.0), ("feedback", 500, 0.1)
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        system = random_system(rng)
        fit = dlb.identify(*played(system, rounds, feedback, rng))
        key = f"systems: h covered, {name}, {rounds} rounds"
        covered[key] = np.mean(np.abs(fit.h - system.h) < SURE * fit.h_std)
    return covered


def agents(seed):
    """A year after a campaign, with its season, trend and prices: expected effect of the spend."""
    spend, price, rewards, h, memory, noise, later = campaign(np.random.default_rng(seed))
    fit = dlb.identify(spend, rewards, controls=price, **CALENDAR)
    usual = spend.mean(axis=0)
    actions = dlb.actions.budget(0.7 * usual, 1.3 * usual, usual.sum())
    constant = actions.vertices[np.argmax(actions.vertices @ fit.h)]
    rng, level, prices = np.random.default_rng([seed, 1]), *later
    agent = dlb.Agent(dlb.knowledge_gradient(fit.prior(WEEKS, prices)), actions, WEEKS)
    before, played_so_far = spend.tolist(), []
    for week in range(WEEKS):
        played_so_far.append(agent.ask())
        brought = effects([*before, *played_so_far], h, memory)[-1]
        agent.tell(level[week] + brought + noise * rng.normal())
    quo, fitted, ours = (
        effects([*before, *plan], h, memory)[-WEEKS:].sum()
        for plan in ([usual] * WEEKS, [constant] * WEEKS, played_so_far)
    )
    return {
        "agents: over the fitted constant, % of the status quo's effect": 100
        * (ours - fitted)
        / quo,
        "agents: over the status quo, % of its effect": 100 * (ours - quo) / quo,
        "agents: at least the status quo": float(ours >= quo),
        "agents: the fitted constant at least the status quo": float(fitted >= quo),
    }


def effects(spend, h, memory):
    """What spend brings in every round, with all that is carried over."""
    carried, found = np.zeros(len(h)), []
    for u in spend:
        carried = memory * carried + u
        found.append((1 - memory) * h @ carried)
    return np.array(found)


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


def campaign(rng):
    """Spend, price, rewards, h, memories, noise, and level and prices of the next 52 rounds."""
    rounds, d = 26 * int(rng.integers(4, 9)), int(rng.integers(2, 4))
    t = np.arange(rounds + WEEKS)
    phase = rng.uniform(0, 6)
    season = np.sin(2 * np.pi * t / 52 + phase)
    spend = rng.gamma(3.0, 30.0, size=(rounds, d)) * np.exp(0.2 * season[:rounds, None])
    price = rng.uniform(1, 2, size=rounds)
    memory, effect = rng.uniform(0.1, 0.7, size=d), rng.uniform(0.2, 2.0, size=d)
    h = effect / (1 - memory)
    driven = effects(spend, h, memory)
    unit, slope = driven.std(), rng.normal()
    noise_drawn = rng.normal(size=rounds)
    prices = np.r_[price, rng.uniform(1, 2, size=WEEKS)]
    level = unit * (season - 0.5 * prices + slope * t / rounds)
    known = driven + level[:rounds]
    noise = known.std() * np.sqrt(0.3 / 0.7)
    rewards = 5 * unit + known + noise * noise_drawn
    return spend, price, rewards, h, memory, noise, (5 * unit + level[rounds:], prices[rounds:])


def predicted(fit, spend, price):
    """Rewards of the rounds after the fit, without looking at any of them."""
    level = fit.baseline + fit.controls.ahead(len(spend), price)
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
