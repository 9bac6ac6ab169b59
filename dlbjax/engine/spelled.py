"""A function of one run, applied to all runs with every number of a run as a vector of its own.

`engine.mapping` keeps a run's 3 × 3 matrix as one array, (3, 3, runs), which suits CPUs. A GPU's compiler
makes a kernel of each such array and passes it on through memory. Spelled out, the matrix is nine vectors
over the runs, and all that is left is arithmetic on such vectors: one kernel, whose threads keep a run
each in their registers. The function is traced for one run, and its operations are evaluated on NumPy
arrays of such vectors. What has no formula of a few lines, such as a sort, stays an operation on arrays.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from dlbjax.common.arrays import is_traced
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
# Operations whose answers are entries of their inputs, whatever those are.
_REARRANGING = {
    "broadcast_in_dim", "concatenate", "expand_dims", "pad", "reshape", "rev", "slice", "split",
    "squeeze", "stack", "tile", "transpose", "unstack",
}  # fmt: skip
_COMBINING = {
    "reduce_sum": lax.add, "reduce_prod": lax.mul, "reduce_max": lax.max, "reduce_min": lax.min,
    "reduce_and": lax.bitwise_and, "reduce_or": lax.bitwise_or, "reduce_xor": lax.bitwise_xor,
    "cumsum": lax.add, "cumprod": lax.mul, "cummax": lax.max, "cummin": lax.min,
}  # fmt: skip
_ROWS = 8  # of a matrix whose factorisation is spelled out
_PLACES = 128  # that an index may point to, so that one after the other is tried
_ENTRIES = 24  # that are added at an index, a bit each of a float32
_LOOP = 32  # turns of a loop that are spelled out

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
    """Vectors side by side in complex numbers of 16 bytes, so that a kernel has few of them to write.

    XLA first makes a kernel of each array that a loop carries, with all that it depends on, and then
    merges those; the fewer there are, the more segments fit into one.
    """
    with jax.enable_x64(True):
        bits = [_as_bits(vector) for vector in vectors]
        wide = [each for each in bits if each.dtype == jnp.uint64]
        narrow = [each.astype(jnp.uint64) for each in bits if each.dtype != jnp.uint64]
        halves = wide + [low | high << jnp.uint64(32) for low, high in _pairs(narrow)]
        parts = [lax.bitcast_convert_type(half, jnp.float64) for half in halves]
        return [lax.complex(*pair) for pair in _pairs(parts)]


def unpack_vectors(packed: Sequence[jax.Array], dtypes: Sequence[Any]) -> list[jax.Array]:
    """The reverse of `pack_vectors`."""
    with jax.enable_x64(True):
        parts = [part for pair in packed for part in (lax.real(pair), lax.imag(pair))]
        halves = iter([lax.bitcast_convert_type(part, jnp.uint64) for part in parts])
        sizes = [jnp.dtype(dtype).itemsize for dtype in dtypes]
        wide = iter([next(halves) for size in sizes if size == 8])
        words = ((half, half >> jnp.uint64(32)) for half in halves)
        narrow = (word.astype(jnp.uint32) for pair in words for word in pair)
        return [
            _from_bits(next(wide if size == 8 else narrow), dtype)
            for size, dtype in zip(sizes, dtypes, strict=True)
        ]


def _as_bits(vector: jax.Array) -> jax.Array:
    if vector.dtype == jnp.bool_:
        return vector.astype(jnp.uint32)
    return lax.bitcast_convert_type(vector, jnp.dtype(f"uint{8 * vector.dtype.itemsize}"))


def _from_bits(bits: jax.Array, dtype: Any) -> jax.Array:
    return bits.astype(dtype) if dtype == jnp.bool_ else lax.bitcast_convert_type(bits, dtype)


def _pairs(vectors: list[jax.Array]) -> list[tuple[jax.Array, jax.Array]]:
    # Filled up not with the last again, which may never change.
    vectors = vectors + vectors[:1] * (len(vectors) % 2)
    return list(zip(vectors[::2], vectors[1::2], strict=True))


def spread_out(numbers: jax.Array, runs: int) -> list[jax.Array]:
    """Numbers that all runs share as vectors."""
    # All of them at once, since each would count as an array of its own that a kernel has to take.
    wide = lax.broadcast_in_dim(numbers, (len(numbers), runs), (0,)).reshape(-1)
    return [lax.slice(wide, (i * runs,), ((i + 1) * runs,)) for i in range(len(numbers))]


class Spelled:
    """A function of one run, to be applied to vectors over the runs.

    Attributes:
      answer: shapes and dtypes of the answer of one run.
      numbers: the floats that all runs share and the function uses, in one vector.
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
        ahead = _Ahead()
        ahead.evaluate(self.program, [*(np.empty(s, object) for s in self.shapes), *self.shared])
        self.known, self.entries, self.numbers = ahead.known, ahead.entries, ahead.numbers()

    def __call__(
        self,
        vectors: Sequence[jax.Array],
        numbers: Sequence[jax.Array] | None = None,
        most: int | None = None,
    ) -> list[jax.Array]:
        """The answers of all runs as vectors, in the order of `to_vectors`.

        Args:
          vectors: what each run has, by `to_vectors`.
          numbers: `self.numbers` as vectors, from wherever they are to be read.
          most: operations to allow.

        Raises:
          TooLongError: if it takes more than `most` operations.
        """
        runs, rest = vectors[0].shape[0], iter(vectors)
        own = [_array(s, itertools.islice(rest, math.prod(s))) for s in self.shapes]
        numbers = spread_out(self.numbers, runs) if numbers is None else numbers
        # A copy, because JAX may trace a loop's body more than once, and each time for itself.
        speller = _Speller(runs, dict(self.known), self.entries, numbers, most)
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


class _Speller:
    """Evaluates programs of one run on vectors over the runs. What all runs share stays an array."""

    def __init__(
        self, runs: int, known: dict[Any, Any], entries: dict[tuple[int, int], int],
        numbers: Sequence[jax.Array], most: int | None,
    ):  # fmt: skip
        self.runs, self.known, self.entries, self.shared = runs, known, entries, numbers
        self.most = math.inf if most is None else most
        self.operations = 0
        self.on_arrays: set[str] = set()
        self.spread: dict[int, tuple[Any, Vectors]] = {}  # of shared values, by their id
        self.constants: dict[Any, jax.Array] = {}

    def evaluate(self, closed: Any, given: Sequence[Any]) -> list[Any]:
        """The outputs of a program."""
        jaxpr = closed.jaxpr
        values: dict[Any, Any] = dict(zip(jaxpr.invars, given, strict=True))
        values |= zip(jaxpr.constvars, closed.consts, strict=True)

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            inner = equation.params.get(CALLS.get(equation.primitive.name, ""))
            if inner is not None:
                answers = self.evaluate(inner, inputs)
            elif any(map(_is_own, inputs)):
                answers = self.of_runs(equation, inputs)
            else:
                answers = self.of_all(equation, inputs)
            values |= zip(equation.outvars, answers, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def of_all(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """The outputs of an operation on what all runs share, computed once."""
        key = (id(equation), *map(id, inputs))
        if key not in self.known:
            answers = (_outputs if is_traced(*inputs) else _now)(equation, inputs)
            self.known[key] = answers, inputs  # which keeps their ids taken
            if equation.primitive.name in _REARRANGING and len(inputs) == 1:
                whole, places = self.origin(inputs[0])
                for answer, here in zip(answers, _now(equation, [places]), strict=True):
                    self.known[id(answer)] = whole, here
        return self.known[key][0]

    def origin(self, value: Any) -> tuple[Any, np.ndarray]:
        """What a shared value is a part of, and its places there."""
        return self.known.get(id(value)) or (value, _numbered([value])[0])

    def of_runs(self, equation: Any, inputs: list[Any]) -> list[Any]:
        """The outputs of an operation on what runs have of their own."""
        name = equation.primitive.name
        answers: list[Any] | None = None
        if name in _NUMBER_BY_NUMBER:
            answers = self.number_by_number(equation, inputs)
        elif name in _REARRANGING:
            answers = self.rearranged(equation, inputs)
        elif name in _METHODS:
            answers = _METHODS[name](self, equation, inputs)
        elif name in _FORMULAS:
            shape = np.shape(inputs[0])
            if name not in _OF_MATRICES or (len(shape) == 2 and max(shape) <= _ROWS):
                answers = self.formula(_FORMULAS[name], equation, inputs)
        return self.on_whole_arrays(equation, inputs) if answers is None else answers

    def formula(self, of_one: Callable[..., Any], equation: Any, inputs: list[Any]) -> list[Any]:
        """The outputs of an operation by a formula of one run, spelled out in turn."""
        avals = [atom.aval for atom in equation.invars]
        program = jax.make_jaxpr(partial(of_one, **equation.params))(*avals)
        return self.evaluate(program, [self.vectors(value) for value in inputs])

    def vectors(self, value: Any) -> Vectors:
        """A value as vectors, one for each of its numbers."""
        if _is_own(value):
            return value
        if id(value) not in self.spread:
            whole, places = self.origin(value)
            keys = [(id(whole), int(i)) for i in places.reshape(-1)]
            if not is_traced(value):
                flat = [self.constant(x) for x in np.asarray(value).reshape(-1)]
            elif keys and keys[0] in self.entries:
                flat = [self.shared[self.entries[key]] for key in keys]
            else:
                flat = spread_out(value.reshape(-1), self.runs)
            self.spread[id(value)] = value, _array(np.shape(value), flat)
        return self.spread[id(value)][1]

    def constant(self, number: Any) -> jax.Array:
        """A known number as a vector, the same one each time."""
        key = number.dtype, number.tobytes()
        if key not in self.constants:
            self.constants[key] = jnp.full(self.runs, number)
        return self.constants[key]

    def emit(self, operation: Callable[..., Any], *vectors: Any) -> Any:
        """An operation on vectors, counted."""
        self.operations += 1
        if self.operations > self.most:
            raise TooLongError
        return operation(*vectors)

    def number_by_number(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        shape, bind = equation.outvars[0].aval.shape, partial(_outputs, equation)
        parts = [np.broadcast_to(self.vectors(value), shape).reshape(-1) for value in inputs]
        answers = [self.emit(bind, numbers) for numbers in zip(*parts, strict=True)]
        return [_array(shape, [each[i] for each in answers]) for i in range(len(equation.outvars))]

    def rearranged(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        """Ask the operation where it puts which entry."""
        parts = [self.vectors(value) for value in inputs]
        flat = np.concatenate([part.reshape(-1) for part in parts])
        return [_taken(flat, source) for source in _now(equation, _numbered(parts))]

    def on_whole_arrays(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        """An operation mapped over the runs as it is."""
        self.on_arrays.add(equation.primitive.name)
        whole = [
            jnp.stack(list(value.reshape(-1))).reshape(*value.shape, self.runs)
            if _is_own(value) else value
            for value in inputs
        ]  # fmt: skip
        axes = [-1 if _is_own(value) else None for value in inputs]
        answers = jax.vmap(lambda *each: _outputs(equation, each), axes, -1)(*whole)
        return [_array(answer.shape[:-1], to_vectors([answer])) for answer in answers]

    def where(self, condition: jax.Array, yes: Vectors, no: Vectors) -> Vectors:
        """One of two arrays of vectors, run by run."""
        pairs = zip(yes.reshape(-1), no.reshape(-1), strict=True)
        chosen = (x if x is y else self.emit(lax.select, condition, x, y) for x, y in pairs)
        return _array(yes.shape, chosen)

    def reduction(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        combine = partial(self.emit, _COMBINING[equation.primitive.name])
        axes, shape = equation.params["axes"], equation.outvars[0].aval.shape
        terms = np.moveaxis(inputs[0], axes, range(len(axes))).reshape(-1, math.prod(shape))
        return [_array(shape, (reduce(combine, column) for column in terms.T))]

    def indexed(self, equation: Any, inputs: list[Any]) -> list[Vectors] | None:
        """An operation at an index of a run: what it does at each place that the index may point to."""
        name, places = equation.primitive.name, _Places.of(equation, inputs)
        adds = name in ("scatter-add", "scatter_add")
        if places is None or (adds and np.size(places.data[1]) > _ENTRIES):
            return None
        if name == "gather" and places.cases > 1 and math.prod(np.shape(inputs[1])[:-1]) > 1:
            return self.formula(_gather, equation, inputs)  # one index after the other
        if places.cases > _PLACES:
            return None
        position = jnp.zeros(self.runs, jnp.int32)  # of the index among the cases
        indices = [i for each in places.indices for i in self.vectors(each).reshape(-1)]
        for i, choices in zip(indices, places.choices, strict=True):
            if len(choices) > 1:
                first, last = jnp.int32(choices[0]), jnp.int32(choices[-1])
                i = lax.clamp(first, i.astype(jnp.int32), last)
                position = position * len(choices) + i - first
        data = [self.vectors(value) for value in places.data]
        operation = self.added if adds else self.placed
        case, *others = itertools.product(*places.choices)
        found = operation(places, case, data)
        for j, case in enumerate(others, 1):
            found = self.where(position >= j, operation(places, case, data), found)
        return [found]

    def placed(self, places: "_Places", case: Sequence[int], data: list[Vectors]) -> Vectors:
        """What an operation that moves entries does at one index."""
        flat = np.concatenate([*(part.reshape(-1) for part in data), [None]])
        if places.filling is not None:
            flat[-1] = jnp.full(self.runs, places.filling, data[0].reshape(-1)[0].dtype)
        return _taken(flat, places.at(case, _numbered(data)))

    def added(self, places: "_Places", case: Sequence[int], data: list[Vectors]) -> Vectors:
        """What an operation that adds entries does at one index; each is a bit of the numbers added."""
        old, new = (part.reshape(-1) for part in data)
        dtype = old[0].dtype
        bits = (2 ** np.arange(len(new))).astype(dtype).reshape(data[1].shape)
        masks = places.at(case, [np.zeros(data[0].shape, dtype), bits]).astype(int)
        sums = (
            reduce(partial(self.emit, lax.add), new[(mask >> np.arange(len(new))) & 1 == 1], x)
            for x, mask in zip(old, masks.reshape(-1), strict=True)
        )
        return _array(data[0].shape, sums)

    def cond(self, equation: Any, inputs: list[Any]) -> list[Any]:
        index, *rest = inputs
        which = self.vectors(index).item().astype(jnp.int32)
        answers = [
            [self.vectors(out) for out in self.evaluate(branch, rest)]
            for branch in equation.params["branches"]
        ]
        found = answers[0]
        for i, branch in enumerate(answers[1:], 1):
            found = [
                self.where(which >= i, new, old) for new, old in zip(branch, found, strict=True)
            ]
        return found

    def scan(self, equation: Any, inputs: list[Any]) -> list[Any] | None:
        p, body = equation.params, equation.params["jaxpr"]
        if p["length"] > _LOOP:
            return None
        # What is carried keeps its shape, what is collected or run over gains an axis.
        carried, given = (
            [inner.aval.shape == outer.aval.shape for inner, outer in zip(*pair, strict=True)]
            for pair in (
                (body.jaxpr.outvars, equation.outvars),
                (body.jaxpr.invars, equation.invars),
            )
        )
        first, last = sum(given) - sum(carried), sum(given)
        fixed, carry = inputs[:first], inputs[first:last]
        rows = [self.vectors(value) for value in inputs[last:]]
        collected = []
        turns = range(p["length"])
        for i in reversed(turns) if p["reverse"] else turns:
            here = [row[i : i + 1].reshape(row.shape[1:]) for row in rows]
            outs = self.evaluate(body, [*fixed, *carry, *here])
            carry = outs[: sum(carried)]
            collected.append([self.vectors(out) for out in outs[sum(carried) :]])
        collected = collected[::-1] if p["reverse"] else collected
        return [*carry, *(np.stack(parts) for parts in zip(*collected, strict=True))]

    def custom_linear_solve(self, equation: Any, inputs: list[Any]) -> list[Any]:
        lengths, solve = equation.params["const_lengths"], equation.params["jaxprs"].solve
        first = lengths.matvec + lengths.vecmat
        right = inputs[sum(lengths) :]
        return self.evaluate(solve, [*inputs[first : first + lengths.solve], *right])


class _Ahead(_Speller):
    """Evaluates only what does not depend on the runs, and collects the floats that the rest uses."""

    def __init__(self) -> None:
        super().__init__(0, {}, {}, [], None)
        self.used: list[tuple[Any, int]] = []

    def of_runs(self, equation: Any, inputs: list[Any]) -> list[Any]:
        for value in inputs:
            if is_traced(value) and jnp.issubdtype(value.dtype, jnp.floating):
                whole, places = self.origin(value)
                for i in map(int, places.reshape(-1)):
                    if (id(whole), i) not in self.entries:
                        self.entries[id(whole), i] = len(self.used)
                        self.used.append((whole, i))
        return [np.empty(var.aval.shape, object) for var in equation.outvars]

    def numbers(self) -> jax.Array:
        """What is used, each number once, in one vector."""
        wholes = {id(whole): whole.reshape(-1) for whole, _ in self.used}
        sizes = itertools.accumulate(map(np.size, wholes.values()), initial=0)
        firsts = dict(zip(wholes, sizes, strict=False))
        indices = np.array([firsts[id(whole)] + i for whole, i in self.used])
        return jnp.concatenate(list(wholes.values()))[indices] if wholes else jnp.zeros(0)


class _Places(NamedTuple):
    """Where the index of an operation may point to."""

    equation: Any
    first: int  # of the inputs that are the index
    indices: list[Any]
    data: list[Any]
    choices: list[
        Sequence[int]
    ]  # of each of its numbers, with one before and one beyond if it fills
    filling: Any  # what is read there, where that is not the nearest entry

    @classmethod
    def of(cls, equation: Any, inputs: list[Any]) -> "_Places | None":
        shape, numbers = np.shape(inputs[0]), equation.params.get("dimension_numbers")
        dtype, filling = equation.outvars[0].aval.dtype, equation.params.get("fill_value")
        if numbers is None:  # dynamic slices have an index of each axis in the end
            first, last, axes = len(inputs) - len(shape), len(inputs), tuple(range(len(shape)))
        else:
            first, last = 1, 2
            names = ("start_index_map", "scatter_dims_to_operand_dims")
            axes = getattr(numbers, names[equation.primitive.name != "gather"])
        fills = equation.params.get("mode") == lax.GatherScatterMode.FILL_OR_DROP
        filling = np.nan if fills and filling is None else filling
        if getattr(numbers, "operand_batching_dims", ()) or (
            fills
            and equation.primitive.name == "gather"
            and not jnp.issubdtype(dtype, jnp.floating)
        ):
            return None
        window = equation.params.get("slice_sizes", (1,) * len(shape))
        choices: list[Sequence[int]] = []
        entries = [entry for value in inputs[first:last] for entry in _entries(value)]
        for entry, axis in zip(entries, itertools.cycle(axes), strict=False):
            last_of_axis = shape[axis] - window[axis]
            anywhere = range(-1, last_of_axis + 2) if fills else range(last_of_axis + 1)
            choices.append(anywhere if entry is None else [entry])
        data = [*inputs[:first], *inputs[last:]]
        return cls(equation, first, inputs[first:last], data, choices, filling)

    @property
    def cases(self) -> int:
        """How many there are, of all that the index may be."""
        return math.prod(map(len, self.choices))

    def at(self, case: Sequence[int], data: list[Any]) -> np.ndarray:
        """What the operation makes of other data at one index; −1 is what is filled in."""
        rest = iter(case)
        index = [
            np.array([next(rest) for _ in range(np.size(i))], np.int32).reshape(np.shape(i))
            for i in self.indices
        ]
        filled = {"fill_value": -1} if self.equation.primitive.name == "gather" else {}
        return _now(self.equation, [*data[: self.first], *index, *data[self.first :]], **filled)[0]


def _outputs(equation: Any, inputs: Sequence[Any], **changes: Any) -> list[Any]:
    answers = equation.primitive.bind(*inputs, **equation.params | changes)
    return list(answers) if equation.primitive.multiple_results else [answers]


def _now(equation: Any, inputs: Sequence[Any], **changes: Any) -> list[np.ndarray]:
    """The outputs of an operation on known numbers."""
    with jax.ensure_compile_time_eval():
        return list(map(np.asarray, _outputs(equation, list(map(jnp.asarray, inputs)), **changes)))


def _entries(index: Any) -> list[int | None]:
    """The numbers of an index; None where they are not known yet."""
    if _is_own(index) or is_traced(index):
        return [None] * np.size(index)
    return [int(i) for i in np.asarray(index).reshape(-1)]


def _numbered(parts: Sequence[Any]) -> list[np.ndarray]:
    """The entries of several arrays numbered throughout."""
    sizes = [np.size(part) for part in parts]
    firsts = itertools.accumulate(sizes, initial=0)
    return [
        np.arange(first, first + size, dtype=np.int32).reshape(np.shape(part))
        for first, size, part in zip(firsts, sizes, parts, strict=False)
    ]


def _taken(flat: Vectors, source: np.ndarray) -> Vectors:
    return flat[source.reshape(-1)].reshape(source.shape)


# Formulas of one run, which are spelled out in turn.


def _dot(
    one: Any, other: Any, *, dimension_numbers: Any, preferred_element_type: Any, **_: Any
) -> Any:
    summed, batch = dimension_numbers

    def arranged(x: Any, batch: Any, summed: Any) -> tuple[Any, list[int]]:
        free = [i for i in range(x.ndim) if i not in (*batch, *summed)]
        sizes = [math.prod(x.shape[i] for i in axes) for axes in (batch, free, summed)]
        return x.transpose(*batch, *free, *summed).reshape(sizes), [x.shape[i] for i in free]

    left, rows = arranged(one, batch[0], summed[0])
    right, columns = arranged(other, batch[1], summed[1])
    product = jnp.sum(left[:, :, None] * right[:, None], axis=-1, dtype=preferred_element_type)
    return product.reshape(*(one.shape[i] for i in batch[0]), *rows, *columns)


def _argmax(better: Any, x: Any, *, axes: Any, index_dtype: Any) -> Any:
    x = jnp.moveaxis(x, axes[0], 0)
    best, index = x[0], jnp.zeros(x.shape[1:], index_dtype)
    for i in range(1, len(x)):
        nan = (x[i] != x[i]) & (best == best)  # the first, if there is one
        found = better(x[i], best) | nan
        best, index = jnp.where(found, x[i], best), jnp.where(found, i, index)
    return index


def _running(combine: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    x = jnp.flip(x, axis) if reverse else x
    rows = [x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis])]
    out = jnp.stack(list(itertools.accumulate(rows, combine)), axis)
    return jnp.flip(out, axis) if reverse else out


def _gather(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any, **_: Any
) -> Any:  # fmt: skip
    *batch, count = indices.shape
    places = dimension_numbers.offset_dims
    one = dimension_numbers._replace(offset_dims=tuple(range(len(places))))
    parts = [
        lax.gather(x, row, one, slice_sizes, mode=mode, fill_value=fill_value)
        for row in indices.reshape(-1, count)
    ]
    out = jnp.stack(parts).reshape(*batch, *parts[0].shape)
    return jnp.moveaxis(out, range(len(batch), out.ndim), places)


def _lu(a: Any, **_: Any) -> Any:
    order, pivots = jnp.arange(len(a), dtype=jnp.int32), []
    for k in range(min(a.shape)):
        pivot = jnp.argmax(abs(a[k:, k])).astype(jnp.int32)
        pivots.append(k + pivot)

        def swapped(x: Any, k: int = k, pivot: Any = pivot) -> Any:
            below = jnp.arange(1, len(x) - k, dtype=pivot.dtype).reshape(-1, *[1] * (x.ndim - 1))
            others = jnp.where(below == pivot, x[k], x[k + 1 :])
            return jnp.concatenate([x[:k], x[k:][pivot][None], others])

        a, order = swapped(a), swapped(order)
        ratio = jnp.where(a[k, k] != 0, a[k + 1 :, k] / a[k, k], a[k + 1 :, k])[:, None]
        below = [a[k + 1 :, :k], ratio, a[k + 1 :, k + 1 :] - ratio * a[k, k + 1 :]]
        a = jnp.concatenate([a[: k + 1], jnp.concatenate(below, 1)])
    return a, jnp.stack(pivots), order


def _cholesky(a: Any, **_: Any) -> Any:
    n = len(a)
    lower: dict[tuple[int, int], Any] = {}
    for j in range(n):
        for i in range(j, n):
            rest = a[i, j] - sum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = jnp.sqrt(rest) if i == j else rest / lower[j, j]
    zero = jnp.zeros_like(a[0, 0])
    return jnp.stack([jnp.stack([lower.get((i, j), zero) for j in range(n)]) for i in range(n)])


def _triangular_solve(
    a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool, **_: Any
) -> Any:  # fmt: skip
    if not left_side:  # X A = B is Aᵀ Xᵀ = Bᵀ
        return _triangular_solve(
            a.T, b.T, left_side=True, lower=not lower, transpose_a=transpose_a,
            unit_diagonal=unit_diagonal,
        ).T  # fmt: skip
    a, lower = (a.T, not lower) if transpose_a else (a, lower)
    x: dict[int, Any] = {}
    for i in range(len(a)) if lower else reversed(range(len(a))):
        rest = b[i] - sum(a[i, k] * x[k] for k in x)
        x[i] = rest if unit_diagonal else rest / a[i, i]
    return jnp.stack([x[i] for i in range(len(a))])


_OF_MATRICES: dict[str, Callable[..., Any]] = {
    "lu": _lu,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
}
_FORMULAS: dict[str, Callable[..., Any]] = {
    "dot_general": _dot,
    "argmax": partial(_argmax, jnp.greater),
    "argmin": partial(_argmax, jnp.less),
    **{name: partial(_running, f) for name, f in _COMBINING.items() if name.startswith("cum")},
    **_OF_MATRICES,
}
_METHODS: dict[str, Callable[[_Speller, Any, list[Any]], list[Any] | None]] = {
    **{name: _Speller.reduction for name in _COMBINING if name.startswith("reduce")},
    **dict.fromkeys(
        (
            "gather",
            "dynamic_slice",
            "dynamic_update_slice",
            "scatter",
            "scatter-add",
            "scatter_add",
        ),
        _Speller.indexed,
    ),
    "cond": _Speller.cond,
    "scan": _Speller.scan,
    "custom_linear_solve": _Speller.custom_linear_solve,
}
