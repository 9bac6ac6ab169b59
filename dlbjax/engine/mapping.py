"""A function of one run, applied to all runs in the trailing axis of its arrays.

`jax.vmap` with trailing axes would do, but for one thing: where a number of each run meets a vector, or
a vector of each run one that all share, it puts the runs in front, and transposing costs more than the
arithmetic. So the function is traced for one run, and its operations are mapped one by one.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

# Operations on arrays of one shape. Others than these are right too, but may transpose.
ELEMENTWISE = {
    "add", "sub", "mul", "div", "rem", "max", "min", "pow", "and", "or", "xor",
    "eq", "ne", "lt", "le", "gt", "ge", "select_n",
}  # fmt: skip
# Operations that only call a program, and the parameter that holds it.
CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
}  # fmt: skip


def over_runs(function: Callable[[Any, Any], Any], own: Any, shared: Any) -> Any:
    """function(own, shared) of every run: leaves of `own` and of the answer are (…, runs).

    >>> import jax.numpy as jnp
    >>> over_runs(lambda own, shared: own["gain"] * shared, {"gain": jnp.arange(2.0)}, jnp.ones(3)).shape
    (3, 2)
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), own)
    closed, out = jax.make_jaxpr(function, return_shape=True)(one, shared)
    leaves = jax.tree.leaves(own)
    (runs,) = {leaf.shape[-1] for leaf in leaves}
    given = [(leaf, True) for leaf in leaves] + [(leaf, False) for leaf in jax.tree.leaves(shared)]
    answers = [
        value if of_each else _widened(value, False, (*np.shape(value), runs))
        for value, of_each in _evaluate(closed, given)
    ]
    return jax.tree.unflatten(jax.tree.structure(out), answers)


def _evaluate(closed: core.ClosedJaxpr, given: list[tuple[Any, bool]]) -> list[tuple[Any, bool]]:
    """The outputs of a program of one run: values, and whether each has the axis of the runs."""
    jaxpr = closed.jaxpr
    known: dict[Any, tuple[Any, bool]] = dict(zip(jaxpr.invars, given, strict=True))
    known |= {
        var: (const, False) for var, const in zip(jaxpr.constvars, closed.consts, strict=True)
    }
    for equation in jaxpr.eqns:
        inputs = [
            (atom.val, False) if isinstance(atom, core.Literal) else known[atom]
            for atom in equation.invars
        ]
        inner = equation.params.get(CALLS.get(equation.primitive.name, ""))
        answers = _mapped(equation, inputs) if inner is None else _evaluate(inner, inputs)
        known |= dict(zip(equation.outvars, answers, strict=True))
    return [
        (atom.val, False) if isinstance(atom, core.Literal) else known[atom]
        for atom in jaxpr.outvars
    ]


def _mapped(equation: core.JaxprEqn, inputs: list[tuple[Any, bool]]) -> list[tuple[Any, bool]]:
    """The outputs of one operation."""
    primitive, params = equation.primitive, equation.params
    values, of_each = zip(*inputs, strict=True) if inputs else ((), ())
    operation: Any = partial(primitive.bind, **params)
    if any(of_each):
        runs = values[of_each.index(True)].shape[-1]
        if primitive.name == "broadcast_in_dim":
            shape, places = params["shape"], params["broadcast_dimensions"]
            wider = (*shape, runs), (*places, len(shape))
            return [(jax.lax.broadcast_in_dim(values[0], *wider), True)]
        if primitive.name in ELEMENTWISE:
            aval: Any = equation.outvars[0].aval
            shape = (*aval.shape, runs)
            values = tuple(_widened(value, each, shape) for value, each in inputs)
        elif not (primitive.name == "dot_general" and of_each == (False, True)):
            operation = jax.vmap(operation, tuple(-1 if each else None for each in of_each), -1)
    answers = operation(*values)
    answers = answers if primitive.multiple_results else [answers]
    return [(answer, any(of_each)) for answer in answers]


def _widened(value: Any, of_each: bool, shape: tuple[int, ...]) -> jax.Array:
    """A value, or one of each run, broadcast to a shape that ends with the runs."""
    places = (*range(np.ndim(value) - of_each), *([len(shape) - 1] if of_each else []))
    return jax.lax.broadcast_in_dim(jnp.asarray(value), shape, places)
