"""What a policy is: three pure functions, and how long it holds each decision."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax._arrays import Array, is_traced, real_array, short, whole_number
from dlbjax.actions import ActionSet
from dlbjax.bounds import Bounds


class Epoch(NamedTuple):
    """What a policy knows about time when it decides."""

    index: Array  # which epoch this is, counted from 1
    start: Array  # rounds completed before it
    length: Array  # rounds it lasts
    plan: Any = None  # what the policy's `plan` gives for this epoch
    uniforms: Array = None  # (policy.uniforms,) fresh numbers in [0, 1) for its own randomness


class Feedback(NamedTuple):
    """What a policy observes when an epoch ends."""

    action: Array  # index of the vertex that was played
    vector: Array  # (d,) the vertex itself
    last: Array  # reward of the epoch's last round; None unless the policy asks for it
    total: Array  # sum of the epoch's rewards; None unless the policy asks for it
    length: Array  # rounds the epoch lasted
    plan: Any = None  # what the policy's `plan` gave for it
    vertices: Array = None  # (K, d) the actions it was chosen among


class Policy(NamedTuple):
    """A policy as pure functions of one run, in the manner of an optax transformation.

    The simulator calls `act` when an epoch starts and `update` when it has ended; both are traced
    once and run for all runs side by side. Hyper-parameters that should not be compiled in (so that
    other values do not compile again) go into `params`.

    Attributes:
      init: init(params, vertices, key) -> state.
      act: act(params, vertices, state, epoch) -> index of the vertex to play.
      update: update(params, state, feedback) -> state.
      epochs: rounds per decision: a number, a list, an `Epochs`, or a function of the horizon.
      params: pytree handed to the functions, or params(horizon, vertices) that makes it.
      plan: plan(horizon, vertices, epoch) -> what depends on time only, computed ahead with NumPy for many
        epochs at once: the fields of `epoch` are arrays, and so must be every leaf of the answer.
      arms: (K, d) the actions it chooses among, where they are not the problem's vertices.
      feedback: which of "last" and "total" it observes. Each costs a random number per epoch.
      uniforms: random numbers it wants for each decision.
      lanes: whether the functions take all runs at once, every array with a trailing axis of runs
        (of length one where it is shared). By default they are written for one run and mapped.
      float32: decisions up to which float32 is exact enough, if there is a limit.
      name: for legends and files.
      config: what else a result should say about it; must be fit for JSON.

    >>> import dlbjax as dlb, jax.numpy as jnp
    >>> always_first = dlb.Policy(
    ...     init=lambda params, vertices, key: (),
    ...     act=lambda params, vertices, state, epoch: 0,
    ...     update=lambda params, state, feedback: (),
    ... )
    >>> result = dlb.simulate(dlb.problems.synthetic(), always_first, horizon=100, seeds=2)
    >>> round(float(result.offline_regret[0, -1]), 6)       # vertex 0 is (0, 0, 0): 100 J*
    81.25
    """

    init: Callable[[Any, Array, Array], Any]
    act: Callable[[Any, Array, Any, Epoch], Array]
    update: Callable[[Any, Any, Feedback], Any]
    epochs: Any = 1
    params: Any = ()
    plan: Callable[[int, np.ndarray, Epoch], Any] | None = None
    arms: np.ndarray | None = None
    feedback: tuple[str, ...] = ("last", "total")
    uniforms: int = 0
    lanes: bool = False
    float32: int | None = None
    name: str = "policy"
    config: Mapping[str, Any] | None = None


def params_of(policy: Policy, horizon: int, vertices: np.ndarray) -> Any:
    """The policy's params for a horizon and the actions it chooses among."""
    return policy.params(horizon, vertices) if callable(policy.params) else policy.params


def check_policy(policy: Policy, actions: ActionSet) -> None:
    """Refuse a policy that asks for what does not exist, or plays what is not among the actions."""
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must be a dlbjax.Policy; got {type(policy).__name__}")
    for name in ("init", "act", "update", "plan"):
        given = getattr(policy, name)
        if not callable(given) and not (name == "plan" and given is None):
            raise ValueError(f"{name} of a policy must be a function; got {short(given)}")
    known = isinstance(policy.feedback, tuple) and all(
        isinstance(name, str) and name in ("last", "total") for name in policy.feedback
    )
    if not known:
        raise ValueError(f'feedback must be a tuple of "last" and "total"; got {policy.feedback!r}')
    whole_number("uniforms", policy.uniforms, at_least=0)
    if not isinstance(policy.name, str):
        raise ValueError(f"name of a policy must be a string; got {short(policy.name)}")
    if policy.arms is None:
        return
    arms = real_array("arms", policy.arms, (None, actions.d))
    if len(arms) == 0:
        raise ValueError(f"arms must hold at least one action; policy {policy.name!r} has none")
    for arm in arms:
        if not actions.contains(arm):
            raise ValueError(
                f"policy {policy.name!r} plays {arm.tolist()}, which is not in the problem's action set"
            )


class PolicyGrid(NamedTuple):
    """Policies that differ in their hyper-parameters only, and the axes of the grid they form.

    Attributes:
      axes: name of each hyper-parameter and the values it takes.
      policies: one for every combination, the last axis varying fastest.
    """

    axes: Mapping[str, np.ndarray]
    policies: Sequence[Policy]


def over_grid(make: Callable[..., Policy], bounds: Bounds, **hyper: Any) -> Policy | PolicyGrid:
    """`make(bounds, **hyper)`, once for every combination of the arguments that are lists.

    Fields of the bounds that are lists vary together, as one axis; every other list is an axis of
    its own.
    """
    axes: dict[str, np.ndarray] = {}
    choices: list[list[Any]] = [_split_bounds(bounds, axes)]
    for name, value in hyper.items():
        shape = () if is_traced(value) else _shape(name, value)
        if shape == ():
            choices.append([value])
        elif len(shape) == 1 and _is_list_of_numbers(value):
            axes[name] = np.asarray(value)
            choices.append(list(axes[name]))
        else:
            got = short(value) if len(shape) == 1 and shape[0] else f"shape {shape}"
            raise ValueError(f"{name} must be a number or a list of numbers; got {got}")
    made = []
    for told, *rest in product(*choices):
        chosen = dict(zip(hyper, rest, strict=True))
        with np.errstate(all="ignore"):  # what overflows is refused by `_refuse_overflow`
            policy = make(told, **chosen)
        made.append(_refuse_overflow(policy, hyper)._replace(config=_config(told, chosen)))
    return PolicyGrid(axes, made) if axes else made[0]


def _refuse_overflow(policy: Policy, hyper: Collection[str]) -> Policy:
    """The policy, whose params and plan raise a ValueError where a number of theirs is not finite."""

    def checked(what: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):
                try:
                    numbers = make(*arguments)
                except ArithmeticError:  # Python's floats do not become infinite
                    numbers = np.nan
            leaves = [leaf for leaf in jax.tree.leaves(numbers) if not is_traced(leaf)]
            if not all(np.all(np.isfinite(leaf)) for leaf in leaves):
                raise ValueError(
                    f"{policy.name} cannot be run: its {what} is not finite; {', '.join(hyper)} or the "
                    "bounds are too large or too small"
                )
            return numbers

        return made

    params, plan = policy.params, policy.plan
    return policy._replace(
        params=checked("params", params if callable(params) else lambda *_: params),
        plan=None if plan is None else checked("plan", plan),
    )


def _config(bounds: Bounds, hyper: dict[str, Any]) -> dict[str, Any]:
    """What a policy was told and how it was set, as numbers."""
    told = {name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}
    given = {name: value for name, value in hyper.items() if value is not None}
    numbers = jax.tree.map(lambda v: None if is_traced(v) else np.asarray(v).item(), (told, given))
    return {"bounds": numbers[0], "arguments": numbers[1]}


def _shape(name: str, value: Any) -> tuple[int, ...]:
    try:
        return np.shape(value)
    except ValueError:  # a ragged list
        raise ValueError(
            f"{name} must be a number or a list of numbers; got {short(value)}"
        ) from None


def _is_list_of_numbers(value: Any) -> bool:
    array = np.asarray(value)
    return array.size > 0 and array.dtype.kind in "iuf"


def _split_bounds(bounds: Bounds, axes: dict[str, np.ndarray]) -> list[Bounds]:
    if not isinstance(bounds, Bounds):
        raise ValueError(f"bounds must be a dlbjax.Bounds; got {type(bounds).__name__}")
    fields = {name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}
    shapes = {name: _shape(name, v) for name, v in fields.items() if not is_traced(v)}
    sizes = {name: shape for name, shape in shapes.items() if shape}
    varying = list(sizes)
    if not varying:
        return [bounds]
    for name in varying:
        if len(sizes[name]) == 1 and not _is_list_of_numbers(fields[name]):
            raise ValueError(
                f"{name} must be a number or a list of numbers; got {short(fields[name])}"
            )
    if len(set(sizes.values())) > 1 or len(sizes[varying[0]]) != 1:
        raise ValueError(f"fields of the bounds that are lists must have one length; got {sizes}")
    lead = "rho" if "rho" in varying else varying[0]
    axes["rho_bar" if lead == "rho" else lead] = np.asarray(fields[lead])
    return [
        bounds.replace(**{name: fields[name][i] for name in varying})
        for i in range(len(fields[lead]))
    ]
