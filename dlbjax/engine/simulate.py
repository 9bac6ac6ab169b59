"""`simulate`: all seeds and hyper-parameters of a policy in compiled passes over the rounds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import jax
import numpy as np
from tqdm.auto import tqdm

from dlbjax.common.arrays import is_traced, real_number
from dlbjax.common.files import as_path
from dlbjax.common.processes import check_not_forked
from dlbjax.engine import hosts, identity
from dlbjax.engine.checkpoint import Checkpoint
from dlbjax.engine.interrupts import interrupts
from dlbjax.engine.keys import KeyData
from dlbjax.engine.plan import Group, as_grid, make_groups
from dlbjax.engine.pool import compute
from dlbjax.engine.settings import Noise, Settings, check_settings
from dlbjax.model.problem import Problem, check_problem
from dlbjax.policies.base import Policy, PolicyGrid
from dlbjax.results.result import Result, Results

AnyPolicy = Policy | PolicyGrid


@overload
def simulate(
    problem: Problem, policy: AnyPolicy, horizon: int, seeds: int | Sequence[int] | None = ..., *,
    noise: Noise | None = ..., record: Sequence[str] = ..., rounds: Sequence[int] | None = ...,
    dtype: str | type | np.dtype = ..., batch: int | None = ..., chunk: int | None = ...,
    devices: Sequence[Any] | None = ..., progress: bool | None = ...,
    checkpoint: str | Path | None = ..., checkpoint_every: float = ...,
) -> Result: ...  # fmt: skip
@overload
def simulate(
    problem: Problem, policy: Mapping[str, AnyPolicy], horizon: int,
    seeds: int | Sequence[int] | None = ..., *,
    noise: Noise | None = ..., record: Sequence[str] = ..., rounds: Sequence[int] | None = ...,
    dtype: str | type | np.dtype = ..., batch: int | None = ..., chunk: int | None = ...,
    devices: Sequence[Any] | None = ..., progress: bool | None = ...,
    checkpoint: str | Path | None = ..., checkpoint_every: float = ...,
) -> Results: ...  # fmt: skip
@interrupts()
def simulate(
    problem: Problem,
    policy: AnyPolicy | Mapping[str, AnyPolicy],
    horizon: int,
    seeds: int | Sequence[int] | None = None,
    *,
    noise: Noise | None = None,
    record: Sequence[str] = (),
    rounds: Sequence[int] | None = None,
    dtype: str | type | np.dtype = np.float64,
    batch: int | None = None,
    chunk: int | None = None,
    devices: Sequence[Any] | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
) -> Result | Results:
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
        is one, the call resumes from there, on any number of devices, and ends with the same
        numbers; one of another call, or a damaged one, is rejected and left alone. Remove it when
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
    check_not_forked()
    _reject_traced(getattr(problem, "system", None), horizon, seeds)
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
    entries = [make_entry(problem, name, p, settings) for name, p in named.items()]
    here = hosts.share(settings)
    own = None if checkpoint is None else hosts.own(as_path("checkpoint", checkpoint))
    with progress_bar(entries, here, progress) as bar:

        def tick(rounds: int) -> None:
            bar.update(rounds)

        results = run_together(entries, here, tick, own, every)
    results = hosts.gather(results, settings)
    together = Results(zip(named, results, strict=True))
    return together if isinstance(policy, Mapping) else results[0]


class Entry(NamedTuple):
    """A policy, or a grid of them, on a problem, and the plan for it."""

    problem: Problem
    label: str
    grid: PolicyGrid
    groups: list[Group]


def make_entry(problem: Problem, label: str, policy: Any, settings: Settings) -> Entry:
    """An entry, checked and planned."""
    grid = as_grid(policy)
    groups = make_groups(problem, grid, settings)
    return Entry(problem, label or grid.policies[0].name, grid, groups)


def _reject_traced(*inputs: Any) -> None:
    if is_traced(*inputs):
        raise ValueError(
            "simulate cannot be called inside jit, vmap or grad: its policies choose among vertices, which "
            "has no derivative, and it compiles its own program. For many values use a dlbjax.PolicyGrid "
            "or lists of hyper-parameters; for derivatives dlbjax.sensitivity.regret_slope or "
            "relaxed_gradient"
        )


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
    everything = [group for entry in entries for group in entry.groups]
    kept = None
    if checkpoint is not None:
        problems, groups = [e.problem for e in entries], [e.groups for e in entries]
        kept = Checkpoint(
            checkpoint, identity.of_call(problems, groups, settings), checkpoint_every
        )
    computed = iter(zip(*compute(everything, settings, tick, kept), strict=True))
    return [
        _result(entry, [(group, *next(computed)) for group in entry.groups], settings)
        for entry in entries
    ]


def _result(
    entry: Entry, done: list[tuple[Group, Any, dict[str, Any]]], settings: Settings
) -> Result:
    problem, label, grid, _ = entry
    shape = tuple(len(values) for values in grid.axes.values())
    order = np.argsort(np.concatenate([group.places for group, *_ in done]))
    whole = jax.tree.map(
        lambda *leaves: np.concatenate(leaves)[order], *(parts for _, parts, _ in done)
    )
    _check_finite(whole, grid, settings)
    if "actions" in whole:
        arms = {place: group.arms for group, *_ in done for place in group.places}
        whole["actions"] = np.stack(
            [_vertices(problem, arms[i])[played] for i, played in enumerate(whole["actions"])]
        )
    whole = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), whole)
    regrets = np.moveaxis(whole.pop("regrets"), -1, 0)
    if "policy" in whole:
        whole["policy_state"] = jax.tree.map(
            lambda leaf: leaf.data if isinstance(leaf, KeyData) else leaf, whole.pop("policy"),
            is_leaf=lambda leaf: isinstance(leaf, KeyData),
        )  # fmt: skip
    execution = done[0][2] | {"core seconds": sum(spent["core seconds"] for *_, spent in done)}
    realised, expected, offline = regrets
    return Result(
        settings.rounds, realised, expected, offline, seeds=settings.seeds, axes=dict(grid.axes),
        name=label, **whole,
        config=describe(entry, settings) | {"execution": execution},
    )  # fmt: skip


def _vertices(problem: Problem, arms: np.ndarray) -> np.ndarray:
    """Which vertex of the problem each arm is, −1 for none."""
    index = np.array([problem.actions.index(arm) for arm in arms])
    return index.astype(np.int16 if len(problem.actions) < 2**15 else np.int32)


def _check_finite(whole: dict[str, Any], grid: PolicyGrid, settings: Settings) -> None:
    """Reject regret (policies, seeds, C, 3) or recordings (policies, seeds, T, …) that are not finite."""
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


def describe(entry: Entry, settings: Settings) -> dict[str, Any]:
    """What made the result, as JSON can hold it."""
    system = entry.problem.system
    schedules = {
        place: schedule
        for group in entry.groups
        for place, schedule in zip(group.places, group.schedules, strict=True)
    }
    return {
        "versions": identity.versions(),
        "source": identity.source(),
        "problem": {
            "system": {
                name: np.asarray(getattr(system, name)).tolist()
                for name in type(system).__dataclass_fields__
            },
            "vertices": entry.problem.actions.vertices.tolist(),
        },
        "policies": [
            {"name": policy.name, "params": _named(schedules[place].params)}
            | dict(schedules[place].config)
            for place, policy in enumerate(entry.grid.policies)
        ],
        "horizon": settings.horizon,
        "dtype": settings.dtype.name,
        "noise": "drawn" if settings.noise is None else "replayed",
    }


def _named(params: Any) -> dict[str, Any]:
    """Every number of the params by its path: "lam", "prior/mean", …"""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/") or "value": np.asarray(leaf).tolist()
        for path, leaf in leaves
    }
