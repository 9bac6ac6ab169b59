"""A function of one run, applied to all runs with every number of a run as a vector of its own.

`engine.mapping` keeps a run's 3 × 3 matrix as one array, (3, 3, runs), which suits CPUs. A GPU's compiler
makes a kernel of each such array and passes it on through memory. Spelled out, the matrix is nine vectors
over the runs, and all that is left is arithmetic on such vectors: one kernel, whose threads keep a run
each in their registers. The function is traced for one run, and its operations are evaluated on NumPy
arrays of such vectors. What has no formula of a few lines, such as a sort, stays an operation on arrays.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from dlbjax.engine.mapping import CALLS, ELEMENTWISE

# Besides those of `mapping`: operations of one array or several, number by number.
_NUMBER_BY_NUMBER = ELEMENTWISE | {
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitcast_convert_type", "cbrt",
    "ceil", "clamp", "clz", "convert_element_type", "copy", "cos", "cosh", "digamma", "erf", "erf_inv",
    "erfc", "exp", "exp2", "expm1", "floor", "integer_pow", "is_finite", "lgamma", "log", "log1p",
    "logistic", "neg", "nextafter", "not", "population_count", "real", "reduce_precision", "round",
    "rsqrt", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh",
    "sqrt", "square", "stop_gradient", "tan", "tanh", "threefry2x32",
}  # fmt: skip
_REDUCTIONS = {
    "reduce_sum": lax.add, "reduce_prod": lax.mul, "reduce_max": lax.max, "reduce_min": lax.min,
    "reduce_and": lax.bitwise_and, "reduce_or": lax.bitwise_or, "reduce_xor": lax.bitwise_xor,
    "cumsum": lax.add, "cumprod": lax.mul, "cummax": lax.max, "cummin": lax.min,
}  # fmt: skip
_SCATTERS = {
    "scatter": lambda old, new: new, "scatter-add": lax.add, "scatter_add": lax.add,
    "scatter-mul": lax.mul, "scatter_mul": lax.mul, "scatter-min": lax.min,
    "scatter_min": lax.min, "scatter-max": lax.max, "scatter_max": lax.max,
}  # fmt: skip
_ROWS = 8  # of a matrix whose factorisation is spelled out
_LOOK_UP = 128  # numbers that all runs share, beyond which one of them is read from memory
_LOOP = 32  # turns of a loop that are

_PAIRED = (np.dtype(np.float32), np.dtype(np.float64))

Vectors = np.ndarray  # of objects: for each number of a run its values in all runs, (runs,)


class TooLongError(Exception):
    """A function has more operations than was allowed, spelled out."""


def to_vectors(tree: Any) -> list[jax.Array]:
    """Every number of a run in a pytree of (…, runs) as a vector.

    >>> import jax.numpy as jnp
    >>> [vector.tolist() for vector in to_vectors({"matrix": jnp.arange(4.0).reshape(2, 2)})]
    [[0.0, 1.0], [2.0, 3.0]]
    """
    # Slices of one long vector, because XLA multiplies what it has to index in several ways.
    return [
        lax.slice(leaf.reshape(-1), (i,), (i + leaf.shape[-1],))
        for leaf in jax.tree.leaves(tree)
        for i in range(0, leaf.size, leaf.shape[-1])
    ]


def from_vectors(vectors: Sequence[jax.Array], of_one: Any, runs: int) -> Any:
    """The reverse of `to_vectors`, for a pytree whose leaves in one run are as in `of_one`."""
    rest = iter(vectors)

    def whole(leaf: Any) -> jax.Array:
        parts = list(itertools.islice(rest, math.prod(leaf.shape)))
        flat = jnp.concatenate(parts) if parts else jnp.zeros(0, leaf.dtype)
        return flat.reshape(*leaf.shape, runs)

    return jax.tree.map(whole, of_one)


def pack_vectors(vectors: Sequence[jax.Array]) -> list[jax.Array]:
    """Floats in pairs, as complex numbers: a kernel takes at most some ninety arrays."""
    packed, single = [], [vector for vector in vectors if vector.dtype not in _PAIRED]
    for dtype in _PAIRED:
        same = [vector for vector in vectors if vector.dtype == dtype]
        packed += [lax.complex(*pair) for pair in zip(same[::2], same[1::2], strict=False)]
        single += same[-1:] * (len(same) % 2)
    return packed + single


def unpack_vectors(packed: Sequence[jax.Array], dtypes: Sequence[Any]) -> list[jax.Array]:
    """The reverse of `pack_vectors`."""
    rest = iter(packed)
    counts = {dtype: sum(dtype == each for each in dtypes) for dtype in _PAIRED}
    parts = {}
    for dtype, count in counts.items():
        pairs = itertools.islice(rest, count // 2)
        parts[dtype] = [part for pair in pairs for part in (lax.real(pair), lax.imag(pair))]
    others = list(itertools.islice(rest, len(dtypes) - sum(counts.values())))
    for dtype, count in counts.items():
        parts[dtype] += itertools.islice(rest, count % 2)
    queues = {dtype: iter(vectors) for dtype, vectors in parts.items()}
    left = iter(others)
    return [next(queues.get(dtype, left)) for dtype in dtypes]


def spread_out(
    numbers: jax.Array, runs: int, first: int = 0, end: int | None = None
) -> list[jax.Array]:
    """Some of the numbers that all runs share as vectors."""
    end = len(numbers) if end is None else end
    # All of them at once, since each would count as an array of its own that a kernel has to take.
    wide = lax.broadcast_in_dim(numbers, (len(numbers), runs), (0,)).reshape(-1)
    return [lax.slice(wide, (i * runs,), ((i + 1) * runs,)) for i in range(first, end)]


class Spelled:
    """A function of one run, to be applied to vectors over the runs.

    Attributes:
      answer: shapes and dtypes of the answer of one run.
      on_arrays: names of the operations that stayed operations on arrays when it was last applied.
      operations: on vectors, when it was last applied.
    """

    def __init__(self, function: Callable[[Any, Any], Any], own: Any, shared: Any):
        """Trace function(own, shared), for `own` the shapes of what each run has, without the runs.

        What does not depend on `own` is computed here and now, once for all applications.
        """
        self.program, self.answer = jax.make_jaxpr(function, return_shape=True)(own, shared)
        self.shapes = [leaf.shape for leaf in jax.tree.leaves(own)]
        self.shared = jax.tree.leaves(shared)
        self.on_arrays: set[str] = set()
        self.operations = 0
        self.known: dict[Any, list[Any]] = {}
        unknown = [np.empty(shape, object) for shape in self.shapes]
        ahead = _Speller(0, None, self.known, ahead=True)
        ahead.evaluate(self.program, [*unknown, *self.shared])
        self.needed = ahead.needed  # which keeps their ids taken
        self.places = _joined(self.needed)

    def __call__(self, vectors: Sequence[jax.Array], most: int | None = None) -> list[jax.Array]:
        """The answers of all runs as vectors, in the order of `to_vectors`.

        Raises:
          TooLongError: if it takes more than `most` operations.
        """
        rest = iter(vectors)
        own = [_array(s, itertools.islice(rest, math.prod(s))) for s in self.shapes]
        # A copy, because JAX may trace a loop's body more than once, and each time for itself.
        speller = _Speller(vectors[0].shape[0], most, dict(self.known), self.places)
        answers = speller.evaluate(self.program, [*own, *self.shared])
        self.on_arrays, self.operations = speller.on_arrays, speller.operations
        return [vector for answer in answers for vector in speller.vectors(answer).reshape(-1)]


def _is_own(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def _array(shape: Sequence[int], vectors: Iterable[jax.Array]) -> Vectors:
    """Vectors in an array; assigned one by one, since NumPy would look into them."""
    flat = np.empty(math.prod(shape), object)
    for i, vector in enumerate(vectors):
        flat[i] = vector
    return flat.reshape(shape)


def _joined(values: Sequence[Any]) -> dict[int, tuple[jax.Array, int]]:
    """Where each value is in a vector that holds all values of its dtype; by its id.

    A kernel takes at most some ninety arrays.
    """
    arrays = {id(value): value for value in values if isinstance(value, jax.Array)}
    places: dict[int, tuple[jax.Array, int]] = {}
    for dtype in {array.dtype for array in arrays.values()}:
        same = {key: array for key, array in arrays.items() if array.dtype == dtype}
        flat = jnp.concatenate([array.reshape(-1) for array in same.values()])
        firsts = np.cumsum([0, *(array.size for array in same.values())])
        places |= {key: (flat, int(first)) for key, first in zip(same, firsts, strict=False)}
    return places


def _places(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


class _Speller:
    """Evaluates programs of one run on vectors over the runs. What all runs share stays an array."""

    def __init__(
        self, runs: int, most: int | None, known: dict[Any, Any],
        places: dict[int, tuple[Any, int]] | None = None, ahead: bool = False,
    ):  # fmt: skip
        self.runs, self.most, self.known, self.ahead = runs, most, known, ahead
        self.operations = 0
        self.places = places or {}
        self.needed: list[Any] = []
        self.on_arrays: set[str] = set()
        self.spread: dict[int, tuple[Any, Vectors]] = {}  # of shared arrays, by their id

    def evaluate(self, closed: Any, given: Sequence[Any]) -> list[Any]:
        """The outputs of a program."""
        jaxpr = closed.jaxpr
        known: dict[Any, Any] = dict(zip(jaxpr.invars, given, strict=True))
        known |= zip(jaxpr.constvars, closed.consts, strict=True)

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else known[atom]

        for equation in jaxpr.eqns:
            answers = self.operation(equation, [read(atom) for atom in equation.invars])
            known |= zip(equation.outvars, answers, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def operation(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """The outputs of one operation."""
        primitive, params = equation.primitive, equation.params
        name = primitive.name
        inner = params.get(CALLS.get(name, ""))
        if inner is not None:
            return self.evaluate(inner, inputs)
        if not any(map(_is_own, inputs)):
            return self.of_all(equation, inputs)
        if self.ahead:
            self.needed += [value for value in inputs if not _is_own(value)]
            return [np.empty(var.aval.shape, object) for var in equation.outvars]
        if name in _NUMBER_BY_NUMBER:
            return self.number_by_number(equation, inputs)
        formula = _FORMULAS.get(name)
        answers = None if formula is None else formula(self, equation, inputs)
        return self.on_whole_arrays(equation, inputs) if answers is None else answers

    def vectors(self, value: Any) -> Vectors:
        """A value as vectors, one for each of its numbers."""
        if _is_own(value):
            return value
        if id(value) not in self.spread:
            shape = np.shape(value)
            self.count(math.prod(shape))
            flat, first = self.places.get(id(value)) or (jnp.asarray(value).reshape(-1), 0)
            vectors = spread_out(flat, self.runs, first, first + math.prod(shape))
            self.spread[id(value)] = value, _array(shape, vectors)
        return self.spread[id(value)][1]

    def of_all(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """An operation on what all runs share, done once."""
        key = (id(equation), *map(id, inputs))
        if key not in self.known:
            answers = equation.primitive.bind(*inputs, **equation.params)
            answers = list(answers) if equation.primitive.multiple_results else [answers]
            self.known[key] = answers, inputs  # which keeps their ids taken
        return self.known[key][0]

    def count(self, operations: int) -> None:
        """Account for some operations on vectors."""
        self.operations += operations
        if self.most is not None and self.operations > self.most:
            raise TooLongError

    def number_by_number(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        shape = equation.outvars[0].aval.shape
        parts = [np.broadcast_to(self.vectors(value), shape).reshape(-1) for value in inputs]
        self.count(math.prod(shape))
        answers = [
            equation.primitive.bind(*numbers, **equation.params)
            for numbers in zip(*parts, strict=True)
        ]
        if not equation.primitive.multiple_results:
            return [_array(shape, answers)]
        return [_array(shape, column) for column in zip(*answers, strict=True)]

    def on_whole_arrays(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        """An operation mapped over the runs as it is."""
        self.on_arrays.add(equation.primitive.name)

        def operation(*values: Any) -> Any:
            return equation.primitive.bind(*values, **equation.params)

        stacked = [self.joined(value) if _is_own(value) else value for value in inputs]
        axes = tuple(-1 if _is_own(value) else None for value in inputs)
        answers = jax.vmap(operation, axes, -1)(*stacked)
        return [
            self.parted(answer)
            for answer in (answers if equation.primitive.multiple_results else [answers])
        ]

    def joined(self, value: Vectors) -> jax.Array:
        """Vectors as one array (…, runs)."""
        return jnp.stack(list(value.reshape(-1))).reshape(*value.shape, self.runs)

    def parted(self, array: jax.Array) -> Vectors:
        """The reverse of `joined`."""
        return _array(array.shape[:-1], to_vectors([array]))

    def constant(self, number: Any, like: jax.Array) -> jax.Array:
        """A number in all runs."""
        return jnp.full(self.runs, number, like.dtype)

    def where(self, condition: jax.Array, yes: jax.Array, no: jax.Array) -> jax.Array:
        """One of two vectors, run by run."""
        self.count(1)
        return lax.select(condition, yes, no)

    def chosen(self, cases: Sequence[tuple[jax.Array, jax.Array]], other: jax.Array) -> jax.Array:
        """The value of the case whose condition holds."""
        return reduce(lambda found, case: self.where(case[0], case[1], found), cases, other)

    # Operations by name. An answer of None means: leave it on arrays.

    def broadcast_in_dim(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
        value = inputs[0]
        widened = [1] * len(shape)
        for place, size in zip(places, value.shape, strict=True):
            widened[place] = size
        return [np.broadcast_to(value.reshape(widened), shape)]

    def reshape(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        return [inputs[0].reshape(equation.outvars[0].aval.shape)]

    def transpose(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        return [inputs[0].transpose(equation.params["permutation"])]

    def rev(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        return [np.flip(inputs[0], equation.params["dimensions"])]

    def slice(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        p = equation.params
        steps = p["strides"] or (None,) * inputs[0].ndim
        return [inputs[0][tuple(map(slice, p["start_indices"], p["limit_indices"], steps))]]

    def split(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        sizes, axis = equation.params["sizes"], equation.params["axis"]
        return np.split(inputs[0], np.cumsum(sizes)[:-1], axis)

    def concatenate(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        parts = [self.vectors(value) for value in inputs]
        return [np.concatenate(parts, equation.params["dimension"])]

    def stack(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        return [np.stack([self.vectors(value) for value in inputs], equation.params["axis"])]

    def unstack(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        axis = equation.params["axis"]
        parts = np.split(inputs[0], inputs[0].shape[axis], axis)
        return [part.squeeze(axis) for part in parts]

    def tile(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        return [np.tile(inputs[0], equation.params["reps"])]

    def pad(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        value, filling = map(self.vectors, inputs)
        shape = equation.outvars[0].aval.shape
        config = equation.params["padding_config"]
        if any(low < 0 or high < 0 for low, high, _ in config):
            return None
        out = np.broadcast_to(filling, shape).copy()
        places = [low + (1 + gap) * np.arange(n)
                  for (low, _, gap), n in zip(config, value.shape, strict=True)]  # fmt: skip
        out[np.ix_(*places)] = value
        return [out]

    def reduction(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        combine = _REDUCTIONS[equation.primitive.name]
        axes = equation.params["axes"]
        shape = equation.outvars[0].aval.shape
        value = np.moveaxis(inputs[0], axes, range(len(axes)))
        terms = value.reshape(-1, *shape)
        self.count(value.size)
        return [
            _array(shape, (reduce(combine, [t[place] for t in terms]) for place in _places(shape)))
        ]

    def running(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        combine, axis = _REDUCTIONS[equation.primitive.name], equation.params["axis"]
        value = np.moveaxis(inputs[0], axis, 0)
        value = value[::-1] if equation.params["reverse"] else value
        self.count(value.size)
        columns = value.reshape(len(value), -1).T
        sums = [vector for column in columns for vector in itertools.accumulate(column, combine)]
        out = _array(columns.shape, sums).T.reshape(value.shape)
        out = out[::-1] if equation.params["reverse"] else out
        return [np.moveaxis(out, 0, axis)]

    def argument(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        (axis,), dtype = equation.params["axes"], equation.params["index_dtype"]
        exceeds = lax.gt if equation.primitive.name == "argmax" else lax.lt
        value = np.moveaxis(inputs[0], axis, 0)
        found = []
        for column in value.reshape(len(value), -1).T:
            best, index = column[0], jnp.zeros(self.runs, dtype)
            for i, x in enumerate(column[1:], 1):
                better = exceeds(x, best)
                if jnp.issubdtype(x.dtype, jnp.floating):  # the first NaN, if there is one
                    better = (better | (x != x)) & (best == best)
                index = self.where(better, self.constant(i, index), index)
                best = self.where(better, x, best)
            found.append(index)
        return [_array(value.shape[1:], found)]

    def dot_general(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        (own, other), (own_batch, other_batch) = equation.params["dimension_numbers"]
        one, two = map(self.vectors, inputs)

        def arranged(value: Vectors, batch: Sequence[int], summed: Sequence[int]) -> Vectors:
            free = [i for i in range(value.ndim) if i not in (*batch, *summed)]
            sizes = [[value.shape[i] for i in axes] for axes in (batch, free, summed)]
            return value.transpose(*batch, *free, *summed).reshape(
                *(int(np.prod(each)) for each in sizes)
            )

        left, right = arranged(one, own_batch, own), arranged(two, other_batch, other)
        out = equation.outvars[0].aval
        self.count(2 * out.size * left.shape[2])

        def product(row: Vectors, column: Vectors) -> jax.Array:
            terms = [
                x.astype(out.dtype) * y.astype(out.dtype) for x, y in zip(row, column, strict=True)
            ]
            return reduce(lax.add, terms)

        numbers = [
            product(left[b, i], right[b, j])
            for b, i, j in _places((len(left), left.shape[1], right.shape[1]))
        ]
        return [_array(out.shape, numbers)]

    def dynamic_slice(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        value, starts = inputs[0], inputs[1:]
        shape = equation.params["slice_sizes"]
        flat = [self.vectors(start).item() for start in starts]
        return [_array(shape, (self.entry(value, flat, shape, place) for place in _places(shape)))]

    def entry(
        self, value: Any, starts: Sequence[jax.Array], sizes: Sequence[int], place: Sequence[int],
    ) -> jax.Array:  # fmt: skip
        """The number at start + place, where starts are such that the whole window fits."""
        shape = np.shape(value)
        free = [i for i in range(len(shape)) if shape[i] > sizes[i]]
        starts = [lax.clamp(self.constant(0, starts[i]), starts[i],
                            self.constant(shape[i] - sizes[i], starts[i])) for i in free]  # fmt: skip
        if not _is_own(value) and np.prod(shape) > _LOOK_UP:
            index = jnp.full(self.runs, np.ravel_multi_index(place, shape), jnp.int32)
            strides = np.cumprod([1, *shape[:0:-1]])[::-1]
            for i, start in zip(free, starts, strict=True):
                index = index + start.astype(jnp.int32) * int(strides[i])
            self.count(1 + 2 * len(free))
            return jnp.asarray(value).reshape(-1).at[index].get(mode="promise_in_bounds")
        value = self.vectors(value)
        options = [range(shape[i] - sizes[i] + 1) for i in free]
        found: Any = None
        for combination in itertools.product(*options):
            here = list(place)
            for i, offset in zip(free, combination, strict=True):
                here[i] += offset
            candidate = value[tuple(here)]
            found = candidate if found is None else self.where(
                self.equal(starts, combination), candidate, found
            )  # fmt: skip
        return found

    def equal(self, indices: Sequence[jax.Array], numbers: Sequence[int]) -> jax.Array:
        """Whether all indices are these numbers."""
        self.count(len(indices))
        tests = [index == self.constant(n, index)
                 for index, n in zip(indices, numbers, strict=True)]  # fmt: skip
        return reduce(lax.bitwise_and, tests, jnp.ones(self.runs, bool))

    def dynamic_update_slice(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        value, update = self.vectors(inputs[0]), self.vectors(inputs[1])
        limits = np.subtract(value.shape, update.shape)
        starts = [self.vectors(start).item() for start in inputs[2:]]
        starts = [lax.clamp(self.constant(0, start), start, self.constant(limit, start))
                  for start, limit in zip(starts, limits, strict=True)]  # fmt: skip
        out = value.copy()
        for combination in itertools.product(*(range(limit + 1) for limit in limits)):
            here = self.equal(starts, combination)
            for place in _places(update.shape):
                target = tuple(np.add(combination, place))
                out[target] = self.where(here, update[place], out[target])
        return [out]

    def gather(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        value, indices = inputs
        p, numbers = equation.params, equation.params["dimension_numbers"]
        if numbers.operand_batching_dims:
            return None
        indices = self.vectors(indices)
        shape, sizes = np.shape(value), p["slice_sizes"]
        kept = [i for i in range(len(shape)) if i not in numbers.collapsed_slice_dims]
        out_shape = equation.outvars[0].aval.shape
        batch_dims = [i for i in range(len(out_shape)) if i not in numbers.offset_dims]
        zero = self.constant(0, indices.reshape(-1)[0])
        out = []
        for place in _places(out_shape):
            given = indices[tuple(place[i] for i in batch_dims)]
            starts, offsets = [zero] * len(shape), [0] * len(shape)
            for axis, index in zip(numbers.start_index_map, given, strict=True):
                starts[axis] = index
            for axis, i in zip(kept, numbers.offset_dims, strict=True):
                offsets[axis] = place[i]
            found = self.entry(value, starts, sizes, offsets)
            if p["mode"] == lax.GatherScatterMode.FILL_OR_DROP:
                limits = [shape[axis] - sizes[axis] for axis in numbers.start_index_map]
                filling = self.constant(_filling(p["fill_value"], found.dtype), found)
                found = self.where(self.inside(given, limits), found, filling)
            out.append(found)
        return [_array(out_shape, out)]

    def inside(self, indices: Sequence[jax.Array], limits: Sequence[int]) -> jax.Array:
        """Whether all indices are from 0 to their limits."""
        tests = [(index >= self.constant(0, index)) & (index <= self.constant(limit, index))
                 for index, limit in zip(indices, limits, strict=True)]  # fmt: skip
        return reduce(lax.bitwise_and, tests)

    def scatter(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        p, numbers = equation.params, equation.params["dimension_numbers"]
        if numbers.operand_batching_dims:
            return None
        value, indices, updates = map(self.vectors, inputs)
        combine = _SCATTERS[equation.primitive.name]
        out = value.copy()
        window = [i for i in range(value.ndim) if i not in numbers.inserted_window_dims]
        batch_dims = [i for i in range(updates.ndim) if i not in numbers.update_window_dims]
        sizes = [1] * value.ndim
        for axis, i in zip(window, numbers.update_window_dims, strict=True):
            sizes[axis] = updates.shape[i]
        axes = numbers.scatter_dims_to_operand_dims
        limits = [value.shape[axis] - sizes[axis] for axis in axes]
        for place in _places(updates.shape):
            given = list(indices[tuple(place[i] for i in batch_dims)])
            if p["mode"] == lax.GatherScatterMode.CLIP:
                given = [lax.clamp(self.constant(0, g), g, self.constant(n, g))
                         for g, n in zip(given, limits, strict=True)]  # fmt: skip
            base = [0] * value.ndim
            for axis, i in zip(window, numbers.update_window_dims, strict=True):
                base[axis] = place[i]
            for combination in itertools.product(*(range(limit + 1) for limit in limits)):
                target = list(base)
                for axis, offset in zip(axes, combination, strict=True):
                    target[axis] += offset
                old = out[tuple(target)]
                new = combine(old, updates[place])
                out[tuple(target)] = self.where(self.equal(given, combination), new, old)
        return [out]

    def cond(self, equation: Any, inputs: list[Any]) -> list[Any]:
        index, *rest = inputs
        index = self.vectors(index).item()
        branches = [self.evaluate(branch, rest) for branch in equation.params["branches"]]
        if index.dtype == bool:
            index = index.astype(jnp.int32)
        outs = []
        for options in zip(*branches, strict=True):
            spread = [self.vectors(option) for option in options]
            columns = zip(*(each.reshape(-1) for each in spread), strict=True)
            # Indices beyond the branches take the nearest.
            found = [
                self.chosen([(index >= i, x) for i, x in enumerate(column[1:], 1)], column[0])
                for column in columns
            ]
            outs.append(_array(spread[0].shape, found))
        return outs

    def scan(self, equation: Any, inputs: list[Any]) -> list[Any] | None:
        p = equation.params
        if p["length"] > _LOOP or "num_consts" not in p:  # JAX 0.12 says otherwise what is carried
            return None
        consts, carried = p["num_consts"], p["num_consts"] + p["num_carry"]
        fixed, carry, rows = inputs[:consts], inputs[consts:carried], inputs[carried:]
        collected = []
        turns = range(p["length"])
        for i in reversed(turns) if p["reverse"] else turns:
            here = [row[i : i + 1].reshape(row.shape[1:]) for row in rows]
            outs = self.evaluate(p["jaxpr"], [*fixed, *carry, *here])
            carry = outs[: p["num_carry"]]
            collected.append([self.vectors(out) for out in outs[p["num_carry"] :]])
        collected = collected[::-1] if p["reverse"] else collected
        return [*carry, *(np.stack(parts) for parts in zip(*collected, strict=True))]

    def custom_linear_solve(self, equation: Any, inputs: list[Any]) -> list[Any]:
        lengths, solve = equation.params["const_lengths"], equation.params["jaxprs"].solve
        first = lengths.matvec + lengths.vecmat
        right = inputs[sum(lengths) :]
        return self.evaluate(solve, [*inputs[first : first + lengths.solve], *right])

    def lu(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        matrix = inputs[0].copy()
        if matrix.ndim != 2 or max(matrix.shape) > _ROWS:
            return None
        rows, columns = matrix.shape
        order = _array((rows,), [jnp.full(self.runs, i, jnp.int32) for i in range(rows)])
        pivots = np.empty(min(rows, columns), object)
        for k in range(len(pivots)):
            best, pivot = lax.abs(matrix[k, k]), order[0] * 0 + k
            for i in range(k + 1, rows):
                size = lax.abs(matrix[i, k])
                better = size > best
                best = self.where(better, size, best)
                pivot = self.where(better, self.constant(i, pivot), pivot)
            pivots[k] = pivot
            for i in range(k + 1, rows):
                here = pivot == self.constant(i, pivot)
                for row in (*matrix.T, order):
                    row[k], row[i] = (
                        self.where(here, row[i], row[k]),
                        self.where(here, row[k], row[i]),
                    )
            for i in range(k + 1, rows):
                nonzero = matrix[k, k] != 0
                ratio = matrix[i, k] / matrix[k, k]
                matrix[i, k] = self.where(nonzero, ratio, matrix[i, k])
                for j in range(k + 1, columns):
                    matrix[i, j] = matrix[i, j] - matrix[i, k] * matrix[k, j]
        self.count(rows * columns**2)
        return [matrix, pivots, order]

    def cholesky(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        matrix = inputs[0]
        if matrix.ndim != 2 or len(matrix) > _ROWS:
            return None
        n = len(matrix)
        lower = _array((n, n), [self.constant(0, matrix[0, 0])] * n**2)
        for j in range(n):
            rest = reduce(lax.sub, [lower[j, k] ** 2 for k in range(j)], matrix[j, j])
            lower[j, j] = lax.sqrt(rest)
            for i in range(j + 1, n):
                products = [lower[i, k] * lower[j, k] for k in range(j)]
                lower[i, j] = reduce(lax.sub, products, matrix[i, j]) / lower[j, j]
        self.count(n**3)
        return [lower]

    def triangular_solve(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        p = equation.params
        a, b = map(self.vectors, inputs)
        if a.ndim != 2 or len(a) > _ROWS:
            return None
        if not p["left_side"]:  # X A = B is Aᵀ Xᵀ = Bᵀ
            a, b = a.T, b.T
        a, lower = (a.T, not p["lower"]) if p["transpose_a"] else (a, p["lower"])
        lower = lower if p["left_side"] else not lower
        x = np.empty(b.shape, object)
        n = len(a)
        order = list(range(n)) if lower else list(reversed(range(n)))
        for column in range(b.shape[1]):
            for place, i in enumerate(order):
                products = [a[i, k] * x[k, column] for k in order[:place]]
                rest = reduce(lax.sub, products, b[i, column])
                x[i, column] = rest if p["unit_diagonal"] else rest / a[i, i]
        self.count(n * x.size)
        return [x if p["left_side"] else x.T]


def _filling(given: Any, dtype: Any) -> Any:
    """What indexing beyond an array gives."""
    if given is not None:
        return given
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.nan
    if dtype == np.bool_:
        return True
    limits = jnp.iinfo(dtype)
    return limits.min if jnp.issubdtype(dtype, jnp.signedinteger) else limits.max


_FORMULAS: dict[str, Callable[[_Speller, Any, list[Any]], list[Any] | None]] = {
    name: getattr(_Speller, name)
    for name in (
        "broadcast_in_dim", "reshape", "transpose", "rev", "slice", "split", "stack", "unstack", "tile",
        "concatenate", "pad",
        "dot_general", "dynamic_slice", "dynamic_update_slice", "gather", "cond", "scan",
        "custom_linear_solve", "lu", "cholesky", "triangular_solve",
    )
}  # fmt: skip
_FORMULAS |= {
    name: _Speller.running if name.startswith("cum") else _Speller.reduction for name in _REDUCTIONS
}
_FORMULAS |= dict.fromkeys(_SCATTERS, _Speller.scatter)
_FORMULAS |= {
    "squeeze": _Speller.reshape, "expand_dims": _Speller.reshape,
    "argmax": _Speller.argument, "argmin": _Speller.argument,
}  # fmt: skip
