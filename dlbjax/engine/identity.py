"""The identity of a computation: what its numbers depend on, for checkpoints and stores of results."""

import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dlbjax.common.arrays import Array
from dlbjax.common.digest import NEARLY, digest, digest_text
from dlbjax.engine.plan import Group
from dlbjax.engine.run import (
    cast_tree,
    every_round,
    make_runs,
    report_rows,
    traced_part,
    tracing_as,
)
from dlbjax.engine.scan import advance, begin
from dlbjax.engine.segments import expand
from dlbjax.engine.settings import MAPPED, Settings
from dlbjax.model.problem import Problem
from dlbjax.policies.base import Epoch, Policy, plan_epochs

_EPOCHS = 2**16  # that are planned together


@cache
def versions() -> dict[str, str]:
    """Of the packages whose code decides about the last bits."""
    return {name: importlib.metadata.version(name) for name in ("dlbjax", "jax", "jaxlib", "numpy")}


@cache
def source() -> str:
    """A digest of this package's own code."""
    root = Path(__file__).parents[1]
    files = sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix())
    return digest_text("".join(path.read_text(encoding="utf-8") for path in files))


def of_settings(settings: Settings) -> dict[str, Any]:
    """What all runs of a call have in common, except for how they are spread over devices."""
    return {
        "versions": versions(),
        "horizon": settings.horizon,
        "dtype": settings.dtype.name,
        "record": list(settings.record),
        "rounds": digest(settings.rounds),
        "noise": None if settings.noise is None else digest(settings.noise),
    }


def of_groups(problem: Problem, groups: list[Group], settings: Settings) -> dict[str, Any]:
    """What else the runs of a policy depend on, except for their seeds.

    The program that is compiled is part of it, so that a change of a policy's code is noticed; what
    callbacks out of it do is not.
    """
    system = problem.system
    return {
        "problem": digest([getattr(system, name) for name in type(system).__dataclass_fields__]),
        "actions": digest(problem.actions.vertices, NEARLY),
        "policies": [_hyperparameters(group) for group in groups],
        "program": [_program(group, settings) for group in groups],
    }


def of_call(
    problems: list[Problem], groups: list[list[Group]], settings: Settings
) -> dict[str, Any]:
    """The identity of a call, with the groups for each of its problems."""
    each = [of_groups(*pair, settings) for pair in zip(problems, groups, strict=True)]
    together = {name: [parts[name] for parts in each] for name in each[0]}
    return of_settings(settings) | {"seeds": digest(settings.seeds)} | together


def check_identity(
    what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], advice: str
) -> None:
    """Reject what another call has made, and say in what it differs."""
    for name, value in wanted.items():
        if found.get(name) != value:
            shown = name in ("horizon", "dtype", "versions", "record")
            values = f": {found.get(name)} there, {value} here" if shown else ""
            raise ValueError(f"{what} with other {name}{values}. {advice}")


def _hyperparameters(group: Group) -> str:
    """Numbers that the policies of a group were given, or that follow from them."""
    configs = [dict(schedule.config) for schedule in group.schedules]
    bounds = [config.pop("bounds", None) for config in configs]
    given = [group.places, configs, [p.params for p in group.policies if p.prepare is None]]
    computed = [
        group.arms,
        group.segments,
        bounds,
        [schedule.params for schedule in group.schedules],
        _moments(group),
    ]
    return digest_text(f"{digest(given)} {digest(computed, NEARLY)}")


def _moments(group: Group) -> list[np.ndarray]:
    """Sums over all epochs of what the policies plan, with random weights, which no other plan has."""
    sums: list[np.ndarray] = []
    rng = np.random.default_rng(0)
    for first in range(0, group.size, _EPOCHS):
        found, *_ = expand(group.segments, np.arange(first, min(first + _EPOCHS, group.size)))
        epoch = Epoch(found.epoch, found.epoch_start, found.epoch_length)
        plan = plan_epochs(group.policies, group.schedules, epoch)
        weights = rng.uniform(1, 2, len(found.epoch))
        parts = [np.tensordot(weights, leaf, 1) for leaf in jax.tree.leaves(plan)]
        sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
    return sums


def _program(group: Group, settings: Settings) -> str:
    """The program of a pass, for a few runs."""
    rows = report_rows(settings)
    steps, _ = group.steps(0, 1, waste=rows - 1)
    with tracing_as(settings):
        runs = make_runs(group, settings, np.zeros(8, int))
        inputs = (*cast_tree((group.tables, steps), settings.dtype), *runs)
        leaves, structure = jax.tree.flatten(inputs)
        shapes = tuple(jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype) for leaf in leaves)
        policy = traced_part(group.policies[0])._replace(name="")
        return _traced(policy, every_round(settings), rows, settings.promotion, structure, shapes)


@lru_cache(maxsize=256)  # the same for all problems of one size
def _traced(
    policy: Policy, record: tuple[str, ...], rows: int, promotion: str, structure: Any,
    shapes: tuple[jax.ShapeDtypeStruct, ...],
) -> str:  # fmt: skip
    def whole(tables: Any, steps: Any, runs: Any, keys: Any) -> Any:
        batch = begin(policy, rows, tables, runs, keys)
        return advance(policy, record, MAPPED, tables, batch, steps, jnp.int32(0), jnp.int32(1))

    program = jax.make_jaxpr(whole)(*jax.tree.unflatten(structure, shapes))
    text = re.sub("0x[0-9a-f]+", "", str(program))  # addresses of functions
    return digest_text(text + digest(_constants(program)))


def _constants(program: Any) -> list[Array]:
    """Arrays that are part of a program, those of its inner programs included."""
    found = list(getattr(program, "consts", []))
    for inner in _inner_programs(getattr(program, "jaxpr", program)):
        found += _constants(inner)
    return found


def _inner_programs(jaxpr: Any) -> Iterator[Any]:
    """The programs that operations of a program run: bodies of loops, branches, calls."""
    for equation in jaxpr.eqns:
        values = list(equation.params.values())
        for value in jax.tree.leaves(values, is_leaf=lambda value: hasattr(value, "jaxpr")):
            if hasattr(getattr(value, "jaxpr", value), "eqns"):
                yield value
