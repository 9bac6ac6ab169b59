"""What tells the numbers of a call from those of another: for checkpoints and stores of results."""

import importlib.metadata
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import jax
import numpy as np

from dlbjax._digest import NEARLY, digest, digest_text
from dlbjax.engine import scan
from dlbjax.engine.passes import (
    WIDTH,
    Pass,
    cast_tree,
    make_lanes,
    recorded_every_round,
    traced_part,
    tracing_like,
)  # fmt: skip
from dlbjax.engine.segments import expand
from dlbjax.engine.settings import Settings
from dlbjax.engine.world import build_steps, plan_ahead
from dlbjax.policies.policy import Epoch, Policy, params_of
from dlbjax.problem import Problem

_EPOCHS = 2**16  # that are planned together


@cache
def versions() -> dict[str, str]:
    """Of the packages whose code decides about the last bits."""
    return {name: importlib.metadata.version(name) for name in ("dlbjax", "jax", "numpy")}


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


def of_passes(problem: Problem, passes: list[Pass], settings: Settings) -> dict[str, Any]:
    """What else the runs of a policy depend on, except for their seeds.

    The program that is compiled is part of it, so that a change of a policy's code is noticed; what
    callbacks out of it do is not.
    """
    system = problem.system
    return {
        "problem": digest([getattr(system, name) for name in type(system).__dataclass_fields__]),
        "actions": digest(problem.actions.vertices, NEARLY),
        "policies": [_hyperparameters(pass_, settings) for pass_ in passes],
        "program": [_program(pass_, settings) for pass_ in passes],
    }


def of_call(
    problems: list[Problem], passes: list[list[Pass]], settings: Settings
) -> dict[str, Any]:
    """What tells a call from others, with the passes for each of its problems."""
    each = [of_passes(*pair, settings) for pair in zip(problems, passes, strict=True)]
    together = {name: [parts[name] for parts in each] for name in each[0]}
    return of_settings(settings) | {"seeds": digest(settings.seeds)} | together


def _hyperparameters(pass_: Pass, settings: Settings) -> str:
    """Numbers that the policies of a pass were given, or that follow from them."""
    given = [None if callable(policy.params) else policy.params for policy in pass_.policies]
    arguments = [(policy.config or {}).get("arguments") for policy in pass_.policies]
    computed = [
        pass_.arms,
        pass_.runs,
        [params_of(policy, settings.horizon, pass_.arms) for policy in pass_.policies],
        _moments(pass_, settings),
    ]
    return digest_text(f"{digest([pass_.places, given, arguments])} {digest(computed, NEARLY)}")


def _moments(pass_: Pass, settings: Settings) -> list[np.ndarray]:
    """Sums over all epochs of what the policies plan, with random weights: no plan has another's."""
    sums: list[np.ndarray] = []
    rng = np.random.default_rng(0)
    for first in range(0, pass_.segments, _EPOCHS):
        found, *_ = expand(pass_.runs, np.arange(first, min(first + _EPOCHS, pass_.segments)))
        epoch = Epoch(found.epoch, found.epoch_start, found.epoch_length)
        plan = plan_ahead(pass_.policies, settings.horizon, pass_.arms, epoch)
        weights = rng.uniform(1, 2, len(epoch.index))
        parts = [np.tensordot(weights, leaf, 1) for leaf in jax.tree.leaves(plan)]
        sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
    return sums


def _program(pass_: Pass, settings: Settings) -> str:
    """The program of a pass, for as few runs as there can be."""
    reports = len(settings.rounds)
    steps = build_steps(
        pass_.runs, pass_.law, pass_.lengths, pass_.policies, settings.horizon, pass_.arms,
        0, 1, reports, pass_.single_rounds,
    )  # fmt: skip
    with tracing_like(settings):
        lanes = make_lanes(pass_, settings, np.zeros(WIDTH, int))
        inputs = (*cast_tree((pass_.world, steps), settings.dtype), lanes)
        leaves, structure = jax.tree.flatten(inputs)
        shapes = tuple(jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype) for leaf in leaves)
        policy = traced_part(pass_.policies[0])
        return _traced(
            policy, recorded_every_round(settings), reports, settings.promotion, structure, shapes
        )


@lru_cache(maxsize=256)  # the same for all problems of one size
def _traced(
    policy: Policy, record: tuple[str, ...], reports: int, promotion: str, structure: Any,
    shapes: tuple[jax.ShapeDtypeStruct, ...],
) -> str:  # fmt: skip
    def whole(world: scan.World, steps: scan.Steps, lanes: scan.Lanes) -> Any:
        carry = scan.start(policy, world, lanes, reports)
        return scan.advance(policy, record, world, lanes, carry, steps, np.int32(0))

    program = jax.make_jaxpr(whole)(*jax.tree.unflatten(structure, shapes))
    text = re.sub("0x[0-9a-f]+", "", str(program))  # addresses of functions
    return digest_text(text + digest(scan.constants(program)))


def refuse_other(
    what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], advice: str
) -> None:
    """Refuse what another call has made, and say in what it differs."""
    for name, value in wanted.items():
        if found.get(name) != value:
            tells = name in ("horizon", "dtype", "versions", "record")
            values = f": {found.get(name)} there, {value} here" if tells else ""
            raise ValueError(f"{what} with other {name}{values}. {advice}")
