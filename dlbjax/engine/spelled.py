"""A function of one run, applied to all runs with every number of a run as a vector of its own.

`engine.mapping` keeps a run's 3 × 3 matrix as one array, (3, 3, runs), which suits CPUs. A GPU's compiler
makes a kernel of each such array and passes it on through memory. Spelled out, the matrix is nine vectors
over the runs, and all that is left is arithmetic on such vectors: one kernel, whose threads keep a run
each in their registers. The function is traced for one run, and its operations are evaluated on NumPy
arrays of such vectors. What has no formula of a few lines, such as a sort, stays an operation on arrays.

Nothing is computed twice, nor where the answer is known: a product with 0 is 0, also of infinity or NaN.
Most coordinates of most vertices are 0 or 1, so that this leaves a quarter of the work at ten channels.
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
from dlbjax.engine.formulas import FORMULAS, OF_MATRICES, several_rows
from dlbjax.engine.mapping import CALLS, ELEMENTWISE
from dlbjax.engine.vectors import spread_out, to_vectors

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
_REDUCTIONS = {
    "reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min",
    "reduce_and": "and", "reduce_or": "or", "reduce_xor": "xor",
}  # fmt: skip
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "max": lax.max, "min": lax.min,
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "ge": lax.ge, "ne": lax.ne,
    "clamp": lax.clamp, "int32": lambda x: x.astype(jnp.int32), "select_n": lax.select_n,
}  # fmt: skip
_SYMMETRIC = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}
_ROWS = 8  # of a matrix whose factorisation is spelled out
_PLACES = 128  # that an index may point to, so that one after the other is tried
_ENTRIES = 24  # that are added at an index, a bit each of a float32
_LOOP = 32  # turns of a loop that are spelled out

Vectors = np.ndarray  # of objects: for each number of a run its values in all runs, (runs,)


class TooLongError(Exception):
    """A function has more operations than was allowed, spelled out."""


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
        self.remembered: dict[Any, Any] = {}
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
        known = dict(self.known)
        speller = _Speller(runs, known, self.entries, numbers, most, self.remembered)
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
        numbers: Sequence[jax.Array], most: int | None, remembered: dict[Any, Any],
    ):  # fmt: skip
        self.runs, self.known, self.entries, self.shared = runs, known, entries, numbers
        self.remembered = remembered  # what depends on an operation only, for all applications
        self.most = math.inf if most is None else most
        self.operations = 0
        self.on_arrays: set[str] = set()
        self.spread: dict[int, tuple[Any, Vectors]] = {}  # of shared values, by their id
        self.constants: dict[Any, jax.Array] = {}
        self.value_of: dict[int, Any] = {}  # what these constants are, by their id
        self.done: dict[Any, tuple[Any, Any]] = {}  # operations and what they were done to

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
        elif name in FORMULAS:
            shape = np.shape(inputs[0])
            if name not in OF_MATRICES or (len(shape) == 2 and max(shape) <= _ROWS):
                answers = self.formula(FORMULAS[name], equation, inputs)
        return self.on_whole_arrays(equation, inputs) if answers is None else answers

    def formula(self, of_one: Callable[..., Any], equation: Any, inputs: list[Any]) -> list[Any]:
        """The outputs of an operation by a formula of one run, spelled out in turn."""

        def traced() -> Any:
            avals = [atom.aval for atom in equation.invars]
            return jax.make_jaxpr(partial(of_one, **equation.params))(*avals)

        program = self.once(("formula", id(equation)), traced)
        return self.evaluate(program, [self.vectors(value) for value in inputs])

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for all applications."""
        if key not in self.remembered:
            self.remembered[key] = make()
        return self.remembered[key]

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
            self.value_of[id(self.constants[key])] = number
        return self.constants[key]

    def emit(
        self, name: str, *vectors: Any, bind: Callable[..., Any] | None = None, params: str = ""
    ) -> Any:
        """The answer of an operation on vectors, which is neither repeated nor done in vain."""
        operation = bind or _OPERATIONS[name]
        known = [self.value_of.get(id(vector)) for vector in vectors]
        if all(number is not None for number in known):
            with jax.ensure_compile_time_eval():
                answer = jax.tree.map(np.asarray, operation(*known))
            return jax.tree.map(self.constant, answer)
        simple = self.simplified(name, vectors, known)
        if simple is not None:
            return simple
        ids = tuple(map(id, vectors))
        key = name, params, tuple(sorted(ids)) if name in _SYMMETRIC else ids
        if key not in self.done:
            self.operations += 1
            if self.operations > self.most:
                raise TooLongError
            self.done[key] = operation(*vectors), vectors  # which keeps their ids taken
        return self.done[key][0]

    def simplified(self, name: str, vectors: Sequence[Any], known: Sequence[Any]) -> Any:
        """The answer where nothing has to be computed for it, else None; `known` are the constants."""
        if name == "select_n" and known[0] is not None:
            return vectors[1 + int(known[0])]
        if name == "select_n" and len({id(case) for case in vectors[1:]}) == 1:
            return vectors[1]
        if len(vectors) == 2:
            for number, vector, other in zip(known, vectors, vectors[::-1], strict=True):
                right = vector is vectors[1]
                if name == "mul" and number == 0:
                    return vector
                if number == 0 and (name == "add" or (name == "sub" and right)):
                    return other
                if number == 1 and (name == "mul" or (name == "div" and right)):
                    return other
        return None

    def number_by_number(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        name, params = equation.primitive.name, str(equation.params)
        shape = equation.outvars[0].aval.shape
        parts = [np.broadcast_to(self.vectors(value), shape).reshape(-1) for value in inputs]
        bind = partial(equation.primitive.bind, **equation.params)
        answers = [
            self.emit(name, *each, bind=bind, params=params) for each in zip(*parts, strict=True)
        ]
        several = equation.primitive.multiple_results
        return [
            _array(shape, each) for each in (zip(*answers, strict=True) if several else [answers])
        ]

    def rearranged(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        """Ask the operation where it puts which entry."""
        parts = [self.vectors(value) for value in inputs]
        flat = np.concatenate([part.reshape(-1) for part in parts])
        sources = self.once(("places", id(equation)), lambda: _now(equation, _numbered(parts)))
        return [_taken(flat, source) for source in sources]

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
        chosen = (self.emit("select_n", condition, y, x) for x, y in pairs)
        return _array(yes.shape, chosen)

    def reduction(self, equation: Any, inputs: list[Any]) -> list[Vectors]:
        combine = partial(self.emit, _REDUCTIONS[equation.primitive.name])
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
            return self.formula(several_rows, equation, inputs)  # one index after the other
        if places.cases > _PLACES:
            return None
        position = self.constant(np.int32(0))  # of the index among the cases
        indices = [i for each in places.indices for i in self.vectors(each).reshape(-1)]
        for i, choices in zip(indices, places.choices, strict=True):
            if len(choices) > 1:
                if i.dtype != jnp.int32:
                    i = self.emit("int32", i)
                first, last, count = (
                    self.constant(np.int32(n)) for n in (choices[0], choices[-1], len(choices))
                )
                here = self.emit("sub", self.emit("clamp", first, i, last), first)
                position = self.emit("add", self.emit("mul", position, count), here)
        data = [self.vectors(value) for value in places.data]
        operation = self.added if adds else self.placed
        cases = [
            operation(places, case, data).reshape(-1) for case in itertools.product(*places.choices)
        ]
        entries = [self.looked_up(position, options) for options in zip(*cases, strict=True)]
        return [_array(equation.outvars[0].aval.shape, entries)]

    def looked_up(self, position: jax.Array, options: Sequence[Any]) -> Any:
        """The vector at a position, from 0, of several; a choice for each of the position's bits."""
        # Not one for each option: kernels are merged up to a number of arrays, comparisons among them.
        bit = 1
        while len(options) > 1:
            here = self.emit("and", position, self.constant(np.int32(bit)))
            odd = self.emit("ne", here, self.constant(np.int32(0)))
            pairs = itertools.zip_longest(options[::2], options[1::2], fillvalue=options[-1])
            options = [self.emit("select_n", odd, *pair) for pair in pairs]
            bit *= 2
        return options[0]

    def placed(self, places: "_Places", case: Sequence[int], data: list[Vectors]) -> Vectors:
        """What an operation that moves entries does at one index."""
        flat = np.concatenate([*(part.reshape(-1) for part in data), [None]])
        if places.filling is not None:
            flat[-1] = jnp.full(self.runs, places.filling, data[0].reshape(-1)[0].dtype)
        source = self.once(
            ("placed", id(places.equation), tuple(case)), lambda: places.at(case, _numbered(data))
        )
        return _taken(flat, source)

    def added(self, places: "_Places", case: Sequence[int], data: list[Vectors]) -> Vectors:
        """What an operation that adds entries does at one index; each is a bit of the numbers added."""
        old, new = (part.reshape(-1) for part in data)
        dtype = old[0].dtype
        bits = (2 ** np.arange(len(new))).astype(dtype).reshape(data[1].shape)
        masks = places.at(case, [np.zeros(data[0].shape, dtype), bits]).astype(int)
        sums = (
            reduce(partial(self.emit, "add"), new[(mask >> np.arange(len(new))) & 1 == 1], x)
            for x, mask in zip(old, masks.reshape(-1), strict=True)
        )
        return _array(data[0].shape, sums)

    def cond(self, equation: Any, inputs: list[Any]) -> list[Any]:
        index, *rest = inputs
        which = self.vectors(index).item().astype(jnp.int32)
        found, *others = (
            [self.vectors(out) for out in self.evaluate(branch, rest)]
            for branch in equation.params["branches"]
        )
        for i, branch in enumerate(others, 1):
            reached = self.emit("ge", which, self.constant(np.int32(i)))
            found = [self.where(reached, *pair) for pair in zip(branch, found, strict=True)]
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
        super().__init__(0, {}, {}, [], None, {})
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


_METHODS: dict[str, Callable[[_Speller, Any, list[Any]], list[Any] | None]] = {
    **dict.fromkeys(_REDUCTIONS, _Speller.reduction),
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
