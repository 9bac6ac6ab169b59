"""Properties that hold for all input: what is wrong is refused by name, what is right gives numbers.

Programs are compiled once for each policy, shape and number of reporting rounds; there are few of these,
and hypothesis chooses everything else.
"""

import inspect
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import dlbjax as dlb
from dlbjax.cli.specs import POLICIES
from tests.oracles import exact_values, model_of, regrets, steady_reward


def examples(count):
    return settings(max_examples=count, derandomize=True, deadline=None, database=None)


# --- what is wrong is refused ---------------------------------------------------------------------

JUNK = [
    np.nan, np.inf, -np.inf, "1", "x", 1j, object(), {}, {1.0}, lambda: 1, [], [[]],
    [1.0, [2.0]], ["1"], [None], [1j], [np.nan], [[np.inf]], np.array(["a"]), np.array([None]),
    np.array([1 + 1j]), np.array([b"1"]), np.array([1.0], dtype=object), np.array(np.nan),
    np.zeros((0, 3)), np.full((2, 2, 2, 2), 2.0), np.datetime64("2020-01-01"),
]  # fmt: skip
PROBLEM = dlb.problems.synthetic()
BOUNDS = dlb.Bounds.of(PROBLEM)


def never(*_):
    raise AssertionError("a policy was traced before what is wrong was refused")


UNTOUCHED = dlb.Policy(never, never, never)


def scheduled(**schedule):
    return UNTOUCHED._replace(prepare=lambda horizon, vertices: dlb.Schedule(**schedule))


def bounded(field):
    """A policy with bounds of which one is wrong."""
    return lambda **wrong: dlb.lin_ucb(BOUNDS.replace(**{field: wrong[field]}))


def with_noise(**given):
    return dlb.simulate(PROBLEM, UNTOUCHED, 4, noise=dlb.Noise(given["state"], given["reward"]))


SYSTEM = {"A": [[0.5]], "B": [[1.0, 0.0]], "omega": [1.0], "theta": [0.0, 1.0], "sigma": 0.1,
          "state_noise": 0.1, "reward_noise": 0.1, "x1": [0.0]}  # fmt: skip
SIMULATE = {"problem": PROBLEM, "policy": UNTOUCHED, "horizon": 10, "seeds": 2, "noise": None,
            "record": (), "rounds": [1, 10], "dtype": "float64", "batch": 8, "chunk": 1,
            "devices": None, "checkpoint": None, "checkpoint_every": 30.0}  # fmt: skip
SWEEP = {"problems": {"a": PROBLEM}, "policies": {"b": UNTOUCHED}, "horizon": 10, "seeds": 2,
         "store": "runs", "rounds": [1, 10], "dtype": "float64", "executor": None}  # fmt: skip
MAKERS = {
    "System": (dlb.System, SYSTEM),
    "finite": (dlb.actions.finite, {"points": [[1.0, 0.0], [0.0, 1.0]]}),
    "hypercube": (dlb.actions.hypercube, {"d": 2, "low": 0.0, "high": 1.0}),
    "simplex": (dlb.actions.simplex, {"d": 2, "total": 1.0}),
    "budget": (dlb.actions.budget, {"low": [0.0, 0.0], "high": [1.0, 1.0], "total": 1.5}),
    "polytope": (dlb.actions.polytope, {"G": [[-1.0, 0], [0, -1]], "g": [0.0, 0.0],
                                        "A_eq": [[1.0, 1.0]], "b_eq": [1.0]}),
    "Problem": (dlb.Problem, {"system": PROBLEM.system, "actions": PROBLEM.actions}),
    "Bounds.of": (dlb.Bounds.of, {"problem": PROBLEM, "rho_bar": 0.5}),
    **{f"Bounds.{name}": (bounded(name), {name: 1.0}) for name in dlb.Bounds.__dataclass_fields__},
    **{name: (make, {p.name: p.default for p in inspect.signature(make).parameters.values()
                     if p.name not in ("epochs", "beta", "name")}
               | {"bounds": BOUNDS, "problem": PROBLEM, "action": [0.0, 0.0, 0.0],
                  "order": 1, "m": 1.0, "sigma": 0.1, "lags": 1})
       for name, make in POLICIES.items()},
    "simulate": (dlb.simulate, SIMULATE),
    "sweep": (dlb.sweep, SWEEP),
    "Noise": (with_noise, {"state": np.zeros((2, 4, 3)), "reward": np.zeros((2, 4))}),
}  # fmt: skip
for _name, (_make, _arguments) in MAKERS.items():
    known = inspect.signature(_make).parameters
    if _name in POLICIES:
        MAKERS[_name] = (_make, {key: value for key, value in _arguments.items() if key in known})
EMPTY_IS_FINE = {("simulate", "record"), ("constant", "action")}  # the latter fits no problem
PLACES = [(name, key) for name, (_, arguments) in MAKERS.items() for key in arguments]
# A wrong shape here may be what another argument is found not to fit.
ALSO_NAMED = {"A": "B", "B": "theta", "G": "g", "A_eq": "b_eq", "low": "high", "state": "noise.state",
              "reward": "noise.reward", "policies": "policy", "problems": "problem"}  # fmt: skip


@examples(1000)
@given(st.sampled_from(PLACES), st.sampled_from(JUNK))
def test_junk_is_refused_by_name_before_anything_is_traced(place, junk):
    name, argument = place
    assume(not (isinstance(junk, list) and not junk and place in EMPTY_IS_FINE))
    assume(not (isinstance(junk, str) and argument in ("checkpoint", "store")))
    assume(not (callable(junk) and argument == "policies"))
    make, arguments = MAKERS[name]
    with pytest.raises(ValueError) as error:
        make(**{**arguments, argument: junk})
    message = str(error.value)
    assert re.search(rf"\b({argument}|{ALSO_NAMED.get(argument, argument)})\b", message), message
    assert len(message.splitlines()) == 1
    assert len(message) < 300


@examples(200)
@given(st.data())
def test_a_number_that_is_not_finite_is_refused_wherever_it_is(data):
    name = data.draw(st.sampled_from(["System", "finite", "budget", "polytope", "Noise"]))
    make, arguments = MAKERS[name]
    argument = data.draw(st.sampled_from(sorted(arguments)))
    spoilt = np.array(arguments[argument], dtype=float)
    place = tuple(data.draw(st.integers(0, size - 1)) for size in spoilt.shape)
    spoilt[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    with pytest.raises(ValueError, match=rf"\b{argument} must be finite; got -?(nan|inf)"):
        make(**{**arguments, argument: spoilt})


WRONG = {
    "horizon": [0, -1, 1.5, "10", 2**31, 2**40, True, False, None, 1e300, np.array(10.5), [10]],
    "seeds": [0, -1, 1.5, True, "3", [], [1, 1], [-1], [1.5], [2**31], [2**70], [[1, 2]], 10**9, 2**40,
              1e30, [True], np.arange(3.0), [None], object()],
    "rounds": [[], [0], [-1], [11], [2, 1], [1, 1], [1.5], ["1"], 5, "10", [[1]], [None], [True], {}],
    "dtype": ["float16", "int32", int, complex, object, "x", 3, [1], {"a": 1}, np.int64],
    "record": ["all", ["actions", "x"], [None], 3, None, [["actions"]], {"actions": 1}],
    "batch": [0, -1, 1.5, "1", True, [1]],
    "chunk": [0, -1, 1.5, "1", True, [1]],
    "devices": ["cpu", [], [0], 1],
    "policy": [None, "lin_ucb", {}, {1: UNTOUCHED}, [UNTOUCHED], dlb.PolicyGrid({}, []),
               UNTOUCHED._replace(feedback=["last"]), UNTOUCHED._replace(feedback=("first",)),
               UNTOUCHED._replace(uniforms=-1), scheduled(arms=[[2.0, 2.0, 2.0]]),
               UNTOUCHED._replace(name=3), UNTOUCHED._replace(prepare=3), scheduled(params=np.nan),
               UNTOUCHED._replace(act=None)],
}  # fmt: skip
IN_WORDS = {"policy": "polic|feedback|uniforms|grid|act|prepare"}


@pytest.mark.parametrize(("argument", "wrong"), [(k, v) for k, all in WRONG.items() for v in all])
def test_simulate_refuses_by_name_before_anything_is_traced(argument, wrong):
    with pytest.raises(ValueError, match=IN_WORDS.get(argument, argument)) as error:
        dlb.simulate(**{**SIMULATE, argument: wrong})
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("d", [17, 40, 10**6])
def test_too_many_vertices_are_refused_at_once(d):
    with pytest.raises(ValueError, match=r"the action set has .* vertices, more than 100000"):
        dlb.actions.hypercube(d)
    with pytest.raises(ValueError, match=r"vertices, more than|may have up to"):
        dlb.actions.budget(0.0, np.ones(min(d, 500)), total=min(d, 500) / 2)


def test_a_hundred_thousand_actions_are_handled():
    points = np.linspace(0, 1, 100_000)[:, None]
    system = dlb.System(A=[[0.5]], B=[[1.0]], omega=[1.0], theta=[0.5])
    problem = dlb.Problem(system, dlb.actions.finite(points))
    assert problem.optimal_index == 99_999
    assert problem.optimal_value == pytest.approx(2.5)


# --- systems and action sets ----------------------------------------------------------------------

plain = st.floats(-3, 3)
extreme = st.sampled_from(
    [0.0, 1.0, 1e-300, 1e-150, 1e-12, 1e6, 1e12, 1e75, 1e150, -1e150, 1e300, -1e300]
)


def arrays(draw, numbers, *shape):
    size = int(np.prod(shape))
    return np.array(draw(st.lists(numbers, min_size=size, max_size=size))).reshape(shape)


@st.composite
def dynamics(draw, n):
    """Stable matrices: of any radius up to .9999, none, tiny, or nilpotent."""
    A = arrays(draw, plain, n, n)
    kind = draw(st.sampled_from(["scaled", "scaled", "zero", "nilpotent", "tiny"]))
    if kind == "nilpotent":
        return np.triu(A, 1) * draw(st.sampled_from([1e-3, 1.0, 30.0]))
    if kind in ("zero", "tiny"):
        return A * {"zero": 0.0, "tiny": 1e-200}[kind]
    radius = np.abs(np.linalg.eigvals(A)).max()
    assume(radius > 1e-3)
    return A * draw(st.sampled_from([0.1, 0.5, 0.9, 0.999, 0.9999])) / radius


@st.composite
def systems(draw, n, d, numbers=plain, far=(0.0, 1.0, 1e6)):
    return {
        "A": draw(dynamics(n)),
        "B": arrays(draw, numbers, n, d),
        "omega": arrays(draw, numbers, n),
        "theta": arrays(draw, numbers, d),
        "sigma": draw(st.sampled_from([0.0, 0.1, 1.0])),
        "x1": arrays(draw, plain, n) * draw(st.sampled_from(far)),
    }


CUBE, SQUARE, ONE, TWO = (
    dlb.actions.budget(0.0, [1, 1, 1], total=1.5),
    dlb.actions.hypercube(2),
    dlb.actions.finite([[0.5]]),
    dlb.actions.hypercube(1),
)
SIZES = {ONE: 1, TWO: 1, SQUARE: 2, CUBE: 3}  # action sets and their n = d


TINY = Fraction(np.finfo(float).tiny)  # what is smaller has fewer digits


def made(reasons, make):
    """What is made, None where it is refused for one of the reasons."""
    try:
        return make()
    except ValueError as error:
        message = str(error)
    assert re.search(reasons, message), message
    return None


@examples(400)
@given(st.data())
def test_a_system_gives_numbers_or_is_refused(data):
    actions = data.draw(st.sampled_from(list(SIZES)))
    n = SIZES[actions]
    numbers = data.draw(systems(n, n, plain | extreme, far=(0.0, 1.0, 1e6, 1e150, 1e300)))
    problem = made(r"overflow|stable", lambda: dlb.Problem(dlb.System(**numbers), actions))
    if problem is None:  # stable: eigenvalues are known to rounding only
        return
    scale = np.abs(problem.values).max()
    assert np.isfinite(problem.h).all()
    for value, (exact, size) in zip(problem.values, exact_values(model_of(problem)), strict=True):
        assert abs(Fraction(value) - exact) <= 16 * Fraction(2) ** -52 * size + TINY
    assert (
        problem.optimal_value >= problem.values.max() - 1.001e-12 * scale
    )  # ties are within 1e-12
    assert problem.gaps.min() >= -1.001e-12 * scale
    rho_bar = data.draw(st.sampled_from([None, 0.0, 0.3, 0.9999]))
    reasons = r"tightest bounds must be finite|powers of A outgrow"
    bounds = made(reasons, lambda: dlb.Bounds.of(problem, rho_bar))
    assert bounds is None or all(
        np.isfinite(getattr(bounds, field)) for field in dlb.Bounds.__dataclass_fields__
    )


@st.composite
def sets(draw):
    """A bounded set as (G, g), and what the package makes of it."""
    d = draw(st.integers(1, 3))
    size = draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6]))
    high = size * (0.1 + np.abs(arrays(draw, plain, d)))
    if draw(st.booleans()):
        low, total = -draw(st.floats(0, 1)) * high, draw(st.floats(0, 2)) * high.sum()
        G, g = dlb.actions.budget_constraints(low, high, total)
        return G, g, dlb.actions.budget(low, high, total)
    extra = arrays(draw, plain, draw(st.integers(0, 3)), d)
    G = np.concatenate([np.eye(d), -np.eye(d), extra])
    g = np.concatenate([high, high, size * np.abs(arrays(draw, plain, len(extra)))])
    return G, g, dlb.actions.polytope(G, g)


@examples(120)
@given(sets(), st.lists(plain, min_size=3, max_size=3))
def test_the_best_vertex_is_what_a_linear_program_finds(made, direction):
    G, g, actions = made
    scale = np.abs(g).max()
    assert np.all(actions.vertices @ G.T <= g + 1e-6 * scale * np.abs(G).sum(axis=1).max())
    theta = np.array(direction[: actions.d])
    system = dlb.System(A=[[0.5]], B=np.zeros((1, actions.d)), omega=[1.0], theta=theta)
    largest = np.abs(G).max(axis=1)
    size = np.where(largest > 0, largest, 1.0)  # the program takes small coefficients for none
    rows, right = G / size[:, None], g / size / scale
    best = -linprog(-theta, rows, right, bounds=(None, None)).fun * scale
    value = dlb.Problem(system, actions).optimal_value
    assert value == pytest.approx(best, rel=1e-6, abs=1e-6 * scale)


# --- simulations ----------------------------------------------------------------------------------


def policy_for(name, problem, rho_bar=0.95, **hyper):
    make = POLICIES[name]
    first = next(iter(inspect.signature(make).parameters))
    if name == "constant":
        return make(problem.actions.vertices[0])
    if name == "expert":
        return make(problem, spend=max(problem.actions.vertices, key=sum))
    if first == "problem":
        return make(problem)
    if first != "bounds":
        required = {"ar_ucb": {"order": 2, "m": 1.0, "sigma": 0.1}, "larl": {"lags": 1}}
        return make(**required.get(name, hyper))
    # Bounds need not hold.
    bounds = dlb.Bounds.of(problem, max(0.95, (1 + problem.system.rho) / 2)).replace(rho=rho_bar)
    if name == "ar2":
        hyper |= {"alpha": 0.5, "sigma": 0.1}  # it rejects zero
    policy = made(r"bounds must leave room for rewards", lambda: make(bounds, **hyper))
    assume(policy is not None)
    return policy


def run(problem, policy, T, seeds, **options):
    return dlb.simulate(
        problem, policy, T, seeds, rounds=sorted({1, T}), record="actions", **options
    )


def assert_is_regret(result, problem, T):
    """Finite, and what plain loops over the recorded actions make it."""
    model = model_of(problem)
    scale = 1 + T * np.abs(model.vertices @ steady_reward(model)).max()
    transient = np.linalg.solve((np.eye(len(model.A)) - model.A).T, model.omega)
    for i, actions in enumerate(result.actions):
        z, rewards = model.x1, []
        largest = np.abs(transient) @ np.abs(z)
        for a in actions:
            rewards.append(model.omega @ z + model.theta @ model.vertices[a])
            z = model.A @ z + model.B @ model.vertices[a]
            largest = max(largest, np.abs(transient) @ np.abs(z))
        run_ = type("Run", (), {"actions": actions, "rewards": np.array(rewards)})
        _, _, offline = regrets(model, run_)
        at = result.rounds - 1
        np.testing.assert_allclose(
            result.offline_regret[i], offline[at], rtol=1e-9, atol=1e-9 * scale
        )
        assert abs(
            result.expected_regret[i, -1] - offline[-1] - transient @ (z - model.x1)
        ) <= 1e-7 * (scale + T * largest)
    assert np.all(np.isfinite(result.realised_regret))
    assert np.all(np.diff(result.offline_regret, axis=1) >= -1e-10 * scale)
    assert np.all(result.offline_regret >= -1e-10 * scale)


@pytest.mark.parametrize("name", POLICIES)
@examples(25)
@given(st.data())
def test_regret_is_what_the_actions_make_it(name, data):
    numbers = data.draw(systems(2, 2))
    problem = dlb.Problem(dlb.System(**numbers), SQUARE)
    T = data.draw(st.sampled_from([1, 2, 3, 50]))
    seeds = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=8, unique=True))
    rho_bar = data.draw(st.sampled_from([0.0, 0.3, 0.95]))
    result = run(problem, policy_for(name, problem, rho_bar), T, seeds)
    assert_is_regret(result, problem, T)
    if name == "clairvoyant":
        assert np.all(result.offline_regret == 0)
    alone = run(problem, policy_for(name, problem, rho_bar), T, seeds[-1:])
    for kind in ("realised", "expected", "offline"):
        np.testing.assert_array_equal(alone.regret(kind)[0], result.regret(kind)[-1])


@pytest.mark.parametrize(
    "name", ["dynlin_ucb", "dynlin_ucb_tight", "exp3", "ucb1", "ar2", "planned"]
)
@pytest.mark.parametrize("actions", [ONE, CUBE], ids=["K=1", "K=10"])
@examples(10)
@given(st.data())
def test_regret_on_other_shapes(name, actions, data):
    n = SIZES[actions]
    problem = dlb.Problem(dlb.System(**data.draw(systems(n, n))), actions)
    assert_is_regret(run(problem, policy_for(name, problem), 50, 3), problem, 50)


HARD = ["dynlin_ucb", "dynlin_ucb_tight", "lin_ucb", "d_lin_ucb", "exp3", "ucb1", "ar2", "myopic"]


RUNS_OR = "overflow|stable|must be finite|powers of A outgrow|cannot be run|lam must be at least"


@examples(350)
@given(st.data())
def test_extreme_numbers_give_finite_regret_or_are_refused(data):
    numbers = data.draw(systems(2, 2, far=(0.0, 1.0, 1e6, 1e150, 1e300)))
    for key in ("B", "omega", "theta"):
        numbers[key] *= data.draw(st.just(1.0) | extreme)
    numbers["sigma"] = data.draw(st.sampled_from([0.0, 1e-200, 1e-6, 1.0, 1e6, 1e75, 1e150]))
    name = data.draw(st.sampled_from(HARD))
    hyper = {}
    if "lam" in inspect.signature(POLICIES[name]).parameters:
        hyper["lam"] = data.draw(st.sampled_from([1e-300, 1e-12, 1.0, 1e300]))
        hyper["delta"] = data.draw(st.sampled_from([5e-324, 1e-300, 0.5, 1 - 1e-16]))
    rho_bar = data.draw(st.sampled_from([0.0, 0.5, 0.9999]))

    def result_of():
        problem = dlb.Problem(dlb.System(**numbers), SQUARE)
        return problem, run(problem, policy_for(name, problem, rho_bar, **hyper), 50, 3)

    try:
        both = made(RUNS_OR, result_of)
    except FloatingPointError as error:
        both, message = None, str(error)
        found = re.search(r"seed [012] by round \d+\b", message)
    else:
        found = True
    assert found, message
    if both is not None:
        problem, result = both
        for kind in ("realised", "expected", "offline"):
            assert np.all(np.isfinite(result.regret(kind)))
        scale = np.abs(problem.values).max()
        assert np.all(np.diff(result.offline_regret, axis=1) >= -1e-9 * scale)
