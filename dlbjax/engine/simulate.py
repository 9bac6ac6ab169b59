"""`simulate`: all seeds and hyper-parameters of a policy in compiled passes over the rounds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm.auto import tqdm

from dlbjax._arrays import real_number
from dlbjax._files import as_path
from dlbjax.engine import fingerprint, hosts
from dlbjax.engine.checkpoint import Checkpoint
from dlbjax.engine.passes import Pass, prepare
from dlbjax.engine.peers import Watch
from dlbjax.engine.settings import Noise, Settings, check_settings
from dlbjax.engine.workers import carry_out
from dlbjax.epochs import Epochs, as_epochs
from dlbjax.policies.policy import Policy, PolicyGrid, check_policy, params_of
from dlbjax.problem import Problem, check_problem
from dlbjax.result import Result, Results


def simulate(
    problem: Problem,
    policy: Policy | PolicyGrid | Mapping[str, Policy | PolicyGrid],
    horizon: int,
    seeds: int | Sequence[int] | None = None,
    *,
    noise: Noise | None = None,
    record: Sequence[str] = (),
    rounds: Sequence[int] | None = None,
    dtype: Any = np.float64,
    batch: int | None = None,
    chunk: int | None = None,
    devices: Sequence[Any] | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
) -> Any:
    """Run a policy, or several, against a problem and report the regret.

    All runs of a policy, over seeds and over its hyper-parameters, advance side by side in one
    compiled program; those whose epochs differ (other values of ρ̄) go through it one group after
    another, so that none waits for the epochs of another. A run's numbers depend on its seed, the
    problem, the policy, the horizon, the reporting rounds and the dtype, and on nothing else: not on
    the other runs, on `batch`, on `chunk` or on the devices.

    Args:
      problem: the bandit.
      policy: a policy, a grid of them, or several by name.
      horizon: number of rounds T.
      seeds: how many runs (seeds 0, 1, …), or the seeds themselves. 1 by default; with `noise`, one
        for each run that is given.
      noise: noise to replay.
      record: what to keep of every round: any of "actions" (indices of vertices, −1 for an action
        that is none), "rewards", "states". Costs memory in proportion to the horizon. Rewards and
        states make the pass go round by round, which changes a seed's path though not its law.
        "policy" keeps the state in which each run's policy ended.
      rounds: rounds after which the regret is reported; by default about 300, spread over the linear
        and the logarithmic axis. The horizon is always among them. They are part of what a seed
        means: other reporting rounds give another path of the same law.
      dtype: float64, or float32 for speed on a GPU.
      batch: most runs to advance together; by default as many as suit the device.
      chunk: blocks of 256 steps per call of the compiled program.
      devices: JAX devices to spread the runs over, one worker each. By default all local ones, and
        on a CPU one worker per core. `result.config["execution"]` says what was picked, and so does
        the logger "dlbjax" at level INFO.
      progress: show a progress bar; by default where standard error is a terminal and the call is
        not over within two seconds.
      checkpoint: a file for the state of all runs, replaced now and then and in the end. Where there
        is one, the call goes on from there, on whatever number of devices, and ends with the same
        numbers; one of another call, or a damaged one, is refused and left alone. Remove it when
        you have saved the result. Under `jax.distributed` each process adds its number to the name.
      checkpoint_every: seconds between two writes of it; longer where writing takes long.

    Returns:
      A `Result`; for several policies `Results`, which maps each name to its `Result`.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.clairvoyant(problem), horizon=1000, seeds=4)
    >>> result.realised_regret.shape[0], float(result.offline_regret.max())
    (4, 0.0)
    """
    check_problem(problem)
    named = dict(policy) if isinstance(policy, Mapping) else {"": policy}
    if not named or not all(isinstance(name, str) for name in named):
        raise ValueError(
            f"policy must map at least one name, a string, to a policy; got {list(named)}"
        )
    settings = check_settings(
        problem.system.n, horizon, seeds, noise, record, rounds, dtype, batch, chunk, devices
    )
    every = real_number("checkpoint_every", checkpoint_every, at_least=0.0)
    entries = [make_entry(problem, name, p) for name, p in named.items()]
    here = hosts.share(settings)
    own = None if checkpoint is None else hosts.own(as_path("checkpoint", checkpoint))
    with Watch(own) as others, progress_bar(entries, here, progress) as bar:

        def tick(rounds: int) -> None:
            others.check()
            bar.update(rounds)

        results = run_together(entries, here, tick, own, every)
        results = hosts.gather(results, settings, others)
    together = Results(zip(named, results, strict=True))
    return together if isinstance(policy, Mapping) else results[0]


class Entry(NamedTuple):
    """A policy, or a grid of them, on a problem."""

    problem: Problem
    label: str
    grid: PolicyGrid


def make_entry(problem: Problem, label: str, policy: Any) -> Entry:
    """An entry, checked."""
    grid = as_grid(policy)
    for each in grid.policies:
        check_policy(each, problem.actions)
    return Entry(problem, label or grid.policies[0].name, grid)


def progress_bar(entries: list[Entry], settings: Settings, shown: bool | None) -> tqdm:
    """A bar over all rounds of all runs."""
    runs = len(settings.seeds) * sum(len(entry.grid.policies) for entry in entries)
    return tqdm(
        total=settings.horizon * runs, unit=" rounds", unit_scale=True, delay=0 if shown else 2,
        disable=None if shown is None else not shown,
        desc=", ".join(entry.label for entry in entries),
    )  # fmt: skip


def run_together(
    entries: list[Entry], settings: Settings, tick: Callable[[int], None],
    checkpoint: Path | None, checkpoint_every: float,
) -> list[Result]:  # fmt: skip
    """The result of each entry, all of them computed side by side, in this process."""
    passes = [make_passes(entry.problem, entry.grid, settings) for entry in entries]
    everything = [pass_ for group in passes for pass_ in group]
    kept = None
    if checkpoint is not None:
        told = fingerprint.of_call([e.problem for e in entries], passes, settings)
        kept = Checkpoint(checkpoint, told, checkpoint_every)
    done, execution = carry_out(everything, settings, tick, kept)
    by_pass = iter(zip(everything, done, execution, strict=True))
    return [
        _result(entry, [next(by_pass) for _ in group], settings)
        for entry, group in zip(entries, passes, strict=True)
    ]


def as_grid(policy: Any) -> PolicyGrid:
    """A grid of policies, of one point if it is a single one."""
    if isinstance(policy, Policy):
        return PolicyGrid({}, [policy])
    if not isinstance(policy, PolicyGrid):
        raise ValueError(
            "policy must be a dlbjax.Policy, a PolicyGrid, or a mapping from names to them; got "
            f"{type(policy).__name__}"
        )
    axes, policies = policy
    if not isinstance(axes, Mapping) or not all(np.ndim(values) == 1 for values in axes.values()):
        raise ValueError(f"axes of the grid must map names to lists of values; got {axes!r:.60}")
    if not isinstance(policies, Sequence):
        raise ValueError(f"policies of the grid must be a list of them; got {policies!r:.60}")
    size = int(np.prod([len(values) for values in axes.values()], dtype=int))
    if size == 0:
        raise ValueError("the grid must hold at least one policy; got none")
    if size != len(policies):
        raise ValueError(f"the grid's axes make {size} points, but it holds {len(policies)}")
    return policy


def make_passes(problem: Problem, grid: PolicyGrid, settings: Settings) -> list[Pass]:
    """The grid's policies, those that can advance side by side together."""
    groups: list[tuple[Epochs, list[int]]] = []
    for place, policy in enumerate(grid.policies):
        epochs = as_epochs(policy.epochs, settings.horizon)
        _refuse_too_long_for_float32(policy, epochs, settings)
        for known, places in groups:
            if known.same(epochs) and _alike(grid.policies[places[0]], policy):
                places.append(place)
                break
        else:
            groups.append((epochs, [place]))
    return [
        prepare(problem, [grid.policies[i] for i in places], places, epochs, settings)
        for epochs, places in groups
    ]


def _refuse_too_long_for_float32(policy: Policy, epochs: Epochs, settings: Settings) -> None:
    decisions = int(epochs.counts.sum())
    if settings.dtype == np.float32 and policy.float32 is not None and decisions > policy.float32:
        raise ValueError(
            f"policy {policy.name!r} needs dtype float64 for {decisions} decisions: beyond {policy.float32} "
            "the differences that it decides by are smaller than what float32 resolves"
        )


def _alike(one: Policy, other: Policy) -> bool:
    """Whether two policies differ in their numbers only."""
    return (
        one[:3] == other[:3]
        and (one.feedback, one.uniforms, one.lanes) == (other.feedback, other.uniforms, other.lanes)
        and _same_arms(one.arms, other.arms)
        and (one.plan is None) == (other.plan is None)
    )


def _same_arms(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _result(
    entry: Entry, done: list[tuple[Pass, Any, dict[str, Any]]], settings: Settings
) -> Result:
    problem, label, grid = entry
    shape = tuple(len(values) for values in grid.axes.values())
    order = np.argsort(np.concatenate([pass_.places for pass_, *_ in done]))
    whole = jax.tree.map(
        lambda *leaves: np.concatenate(leaves)[order], *(parts for _, parts, _ in done)
    )
    _refuse_non_finite(whole, grid, settings)
    if "actions" in whole:
        arms = {place: pass_.arms for pass_, *_ in done for place in pass_.places}
        whole["actions"] = np.stack(
            [_vertices(problem, arms[i])[played] for i, played in enumerate(whole["actions"])]
        )
    whole = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), whole)
    regrets = np.moveaxis(whole.pop("regrets"), -1, 0)
    if "policy" in whole:
        whole["policy_state"] = whole.pop("policy")
    execution = done[0][2] | {"core seconds": sum(spent["core seconds"] for *_, spent in done)}
    realised, expected, offline = regrets
    return Result(
        settings.rounds, realised, expected, offline, seeds=settings.seeds, axes=dict(grid.axes),
        name=label, **whole,
        config=describe(problem, grid, settings) | {"execution": execution},
    )  # fmt: skip


def _vertices(problem: Problem, arms: np.ndarray) -> np.ndarray:
    """Which vertex of the problem each arm is, −1 for none."""
    index = np.array([problem.actions.index(arm) for arm in arms])
    return index.astype(np.int16 if len(problem.actions) < 2**15 else np.int32)


def _refuse_non_finite(whole: dict[str, Any], grid: PolicyGrid, settings: Settings) -> None:
    """Refuse regret (policies, seeds, C, 3) or recorded numbers (policies, seeds, T, …) that are not."""
    for name, rounds in (("regrets", settings.rounds), ("rewards", None), ("states", None)):
        if name not in whole or np.isfinite(whole[name]).all():
            continue
        place, run, t, *_ = np.argwhere(~np.isfinite(whole[name]))[0]
        what = "regret" if name == "regrets" else f"recorded {name[:-1]}"
        raise FloatingPointError(
            f"the {what} of policy {grid.policies[place].name!r} (number {place} of its grid) is not "
            f"finite for seed {settings.seeds[run]} by round {t + 1 if rounds is None else rounds[t]}; look "
            "for a division by zero or an overflow in the policy, an index that is no vertex's, or a "
            "system whose state overflows"
        )


def describe(problem: Problem, grid: PolicyGrid, settings: Settings) -> dict[str, Any]:
    """What made the result, as JSON can hold it."""
    system = problem.system
    return {
        "versions": fingerprint.versions(),
        "problem": {
            "system": {
                name: np.asarray(getattr(system, name)).tolist()
                for name in type(system).__dataclass_fields__
            },
            "vertices": problem.actions.vertices.tolist(),
        },
        "policies": [_describe(problem, policy, settings.horizon) for policy in grid.policies],
        "horizon": settings.horizon,
        "dtype": settings.dtype.name,
        "noise": "drawn" if settings.noise is None else "replayed",
    }


def _describe(problem: Problem, policy: Policy, horizon: int) -> dict[str, Any]:
    arms = problem.actions.vertices if policy.arms is None else policy.arms
    params = params_of(policy, horizon, arms)
    named = params._asdict() if hasattr(params, "_asdict") else {}
    return {
        "name": policy.name,
        "params": {key: np.asarray(value).tolist() for key, value in named.items()},
        **(policy.config or {}),
    }
