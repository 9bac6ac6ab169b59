"""What a policy is: three pure functions of one run, and a schedule that is fixed ahead of it."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from dlbjax.common.arrays import Array, is_traced, real_array, short, whole_number
from dlbjax.model.actions import ActionSet
from dlbjax.model.bounds import Bounds
from dlbjax.policies.epochs import as_epochs


class Epoch(NamedTuple):
    """The rounds between two decisions of a policy, as it sees them when it decides.

    Attributes:
      index: number of the epoch, m = 1, 2, …
      start: rounds completed before it, t.
      length: rounds it lasts.
      plan: what the schedule's `plan` gives for this epoch; None without one.
      uniforms: (policy.uniforms,) fresh numbers in (0, 1) for the policy's own randomness.
    """

    index: Any  # an array, which as a field of a tuple mypy does not allow to be called so
    start: Array
    length: Array
    plan: Any = None
    uniforms: Any = None


class Feedback(NamedTuple):
    """What a policy observes when an epoch ends.

    Attributes:
      action: index of the vertex that was played.
      vector: (d,) the vertex itself.
      last: reward of the epoch's last round; None unless "last" is in the policy's `feedback`.
      total: sum of the epoch's rewards; None unless "total" is in the policy's `feedback`.
      length: rounds the epoch lasted.
      plan: what the schedule's `plan` gave for the epoch; None without one.
      vertices: (K, d) the actions it was chosen among.
    """

    action: Array
    vector: Array
    last: Any  # an array or None
    total: Any  # an array or None
    length: Array
    plan: Any = None
    vertices: Any = None


class Schedule(NamedTuple):
    """What a policy fixes ahead of a run, from the horizon and the vertices.

    Attributes:
      epochs: rounds per decision: a number, a list, or an `Epochs` table.
      params: pytree of finite numbers that is passed to the policy's functions. Policies that differ
        in them only share one compiled program.
      plan: plan(epoch) -> what depends on time only, computed with NumPy for many epochs at once: the
        fields of `epoch` are arrays, and every leaf of the answer has one row per epoch.
      arms: (K, d) the actions to choose among, where they are not the problem's vertices.
      float32: most decisions for which float32 is accurate enough; None for no limit.
      config: what else `result.config` should record; must be fit for JSON.
    """

    epochs: Any = 1
    params: Any = ()
    plan: Callable[[Epoch], Any] | None = None
    arms: np.ndarray | None = None
    float32: int | None = None
    config: Mapping[str, Any] = {}


class Policy(NamedTuple):
    """A policy as pure functions of one run, in the manner of an optax transformation.

    `act` is called when an epoch starts, `update` when it has ended. Both are traced once and mapped
    over all runs with `jax.vmap`; `dlbjax.small` has products of small arrays that are fast there.

    Attributes:
      init: init(params, vertices, key) -> state. The state is a pytree of arrays and typed keys.
      act: act(params, vertices, state, epoch) -> index of the vertex to play.
      update: update(params, state, feedback) -> state.
      epochs: rounds per decision: a number, a list, or an `Epochs` table.
      params: pytree of finite numbers; other values do not compile again.
      feedback: which of "last" and "total" it observes. Each costs a random number per epoch.
      uniforms: how many random numbers it needs for each decision.
      name: for legends and files.
      prepare: prepare(horizon, vertices) -> `Schedule`, instead of `epochs` and `params`, where what
        is fixed ahead depends on the horizon or the vertices.
      vectors: whether `update` learns from `feedback.vector` whatever it is. In a real campaign it may be
        none of the vertices; `feedback.action` is then the nearest.
      gaps: whether `update` is also called after an epoch of a real campaign without any reward, with NaN for
        it. Otherwise the state stays as it is.

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

    init: Callable[[Any, Any, Any], Any]
    act: Callable[[Any, Any, Any, Epoch], Any]
    update: Callable[[Any, Any, Feedback], Any]
    epochs: Any = 1
    params: Any = ()
    feedback: tuple[str, ...] = ("last", "total")
    uniforms: int = 0
    name: str = "policy"
    prepare: Callable[[int, np.ndarray], Schedule] | None = None
    vectors: bool = False
    gaps: bool = False


def check_policy(policy: Any) -> Policy:
    """The policy, or a ValueError that names the field that is wrong."""
    if not isinstance(policy, Policy):
        raise ValueError(f"policy must be a dlbjax.Policy; got {type(policy).__name__}")
    for name in ("init", "act", "update", "prepare"):
        given = getattr(policy, name)
        if not callable(given) and not (name == "prepare" and given is None):
            raise ValueError(f"{name} of a policy must be a function; got {short(given)}")
    known = isinstance(policy.feedback, tuple) and all(
        isinstance(name, str) and name in ("last", "total") for name in policy.feedback
    )
    if not known:
        raise ValueError(f'feedback must be a tuple of "last" and "total"; got {policy.feedback!r}')
    whole_number("uniforms", policy.uniforms, at_least=0)
    if not isinstance(policy.name, str):
        raise ValueError(f"name of a policy must be a string; got {short(policy.name)}")
    for name in ("vectors", "gaps"):
        if not isinstance(getattr(policy, name), bool):
            raise ValueError(
                f"{name} of a policy must be True or False; got {short(getattr(policy, name))}"
            )
    return policy


def make_schedule(policy: Policy, horizon: int, actions: ActionSet) -> Schedule:
    """The policy's schedule for a horizon, checked: `epochs` an `Epochs`, `arms` an array."""
    made = Schedule(policy.epochs, policy.params)
    if policy.prepare is not None:
        overflow = Schedule(params=np.nan)
        made = _computed(policy.prepare, horizon, actions.vertices, overflow=overflow)
    if not isinstance(made, Schedule):
        raise ValueError(
            f"prepare of policy {policy.name!r} must return a dlbjax.Schedule; got {short(made)}"
        )
    arms = actions.vertices if made.arms is None else _check_arms(policy, made.arms, actions)
    epochs = as_epochs(made.epochs, horizon)
    schedule = made._replace(epochs=epochs, arms=arms)
    _check_finite(policy, "params", schedule.params)
    ends = Epoch(*epochs.ends(horizon))
    plan_epochs(
        [policy], [schedule], ends
    )  # what cannot be planned is rejected before anything compiles
    return schedule


def plan_epochs(policies: Sequence[Policy], schedules: Sequence[Schedule], epoch: Epoch) -> Any:
    """What the schedules plan for some epochs, leaves (epochs, …, policies)."""
    plans = []
    for policy, schedule in zip(policies, schedules, strict=True):
        plan = None
        if schedule.plan is not None:
            plan = _computed(schedule.plan, epoch, overflow=np.nan)
        _check_finite(policy, "plan", plan)
        for leaf in jax.tree.leaves(plan):
            if np.shape(leaf)[:1] != np.shape(epoch.index):
                raise ValueError(
                    f"plan of policy {policy.name!r} must give one entry for each of the "
                    f"{len(epoch.index)} epochs it is asked for; got shape {np.shape(leaf)}"
                )
        plans.append(plan)
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=-1), *plans)


def _computed(make: Callable[..., Any], *arguments: Any, overflow: Any) -> Any:
    """make(*arguments) without warnings; `overflow` where Python's floats cannot become infinite."""
    with np.errstate(all="ignore"):
        try:
            return make(*arguments)
        except ArithmeticError:
            return overflow


def listed(name: str, values: Any) -> Callable[[Epoch], np.ndarray]:
    """A plan from a list with one number for every epoch."""
    array = np.asarray(real_array(name, values, (None,)))

    def plan(epoch: Epoch) -> np.ndarray:
        if np.max(epoch.index, initial=0) > len(array):
            raise ValueError(
                f"{name} must hold a value for every epoch; got {len(array)}, and more epochs start"
            )
        return array[np.asarray(epoch.index) - 1]

    return plan


def _check_finite(policy: Policy, what: str, numbers: Any) -> None:
    for leaf in map(np.asarray, jax.tree.leaves(numbers)):
        if leaf.dtype.kind not in "biuf":
            raise ValueError(
                f"{what} of policy {policy.name!r} must hold real numbers; got {short(leaf.dtype)}"
            )
        if not np.all(np.isfinite(leaf)):
            raise ValueError(
                f"policy {policy.name!r} cannot be run: its {what} is not finite; its arguments or the "
                "bounds are too large or too small"
            )


def _check_arms(policy: Policy, arms: Any, actions: ActionSet) -> np.ndarray:
    arms = np.asarray(real_array("arms", arms, (None, actions.d)))
    if len(arms) == 0:
        raise ValueError(f"arms must hold at least one action; policy {policy.name!r} has none")
    for arm in arms:
        if not actions.contains(arm):
            raise ValueError(
                f"policy {policy.name!r} plays {arm.tolist()}, which is not in the problem's action set"
            )
    return arms


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
    for chosen, *rest in product(*choices):
        with np.errstate(all="ignore"):  # what overflows is rejected by `make_schedule`
            made.append(make(chosen, **dict(zip(hyper, rest, strict=True))))
    return PolicyGrid(axes, made) if axes else made[0]


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
