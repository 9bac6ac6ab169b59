"""`simulate`: laws, reproducibility, settings, errors, grids, recompilation, precision, memory."""

import subprocess
import sys
import textwrap

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from dlbjax.policies.epochs import Epochs, as_epochs

REGRETS = ("realised_regret", "expected_regret", "offline_regret")
T = 1500  # more segments than one block of random numbers


def same(one, other):
    for name in REGRETS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def dynlin(sigma=0.1, rho_bar=0.2, **options):
    problem = dlb.problems.synthetic(sigma)
    return problem, dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=rho_bar), **options)


@pytest.fixture(scope="module")
def fifty():
    problem, policy = dynlin()
    return dlb.simulate(problem, policy, T, seeds=50)


# --- the fast path and the plain path have one law ------------------------------------------------


def test_fast_and_plain_passes_have_one_law():
    """Two-sample Kolmogorov-Smirnov on final regrets; 3·10⁻⁴ false alarms in all.

    Recording rewards makes the pass go round by round with (ε, η) drawn as they are. The noise is
    large enough for the learner to take different decisions in different runs.
    """
    problem, policy = dynlin(sigma=0.5, lam=0.3)
    options = {"horizon": 120, "rounds": [40, 120]}
    fast = dlb.simulate(problem, policy, seeds=range(2000), **options)
    plain = dlb.simulate(problem, policy, seeds=range(2000, 4000), record="rewards", **options)
    assert len(np.unique(fast.offline_regret[:, -1].round(9))) > 500
    for name in REGRETS:
        p = stats.ks_2samp(getattr(fast, name)[:, -1], getattr(plain, name)[:, -1]).pvalue
        assert p > 1e-4, name
    sums = np.cumsum(plain.rewards, axis=1)[:, plain.rounds - 1]
    realised = plain.rounds * problem.optimal_value - sums
    np.testing.assert_allclose(plain.realised_regret, realised, atol=1e-10)


# --- a seed's numbers depend on nothing else ------------------------------------------------------


@pytest.mark.parametrize("options", [{"batch": 7}, {"batch": 50}, {"chunk": 1}, {"chunk": 3}])
def test_batch_and_chunk_change_nothing(fifty, options):
    problem, policy = dynlin()
    same(dlb.simulate(problem, policy, T, seeds=50, **options), fifty)


@pytest.mark.parametrize("seeds", [[3], [49, 0, 7], list(range(49, -1, -1))])
def test_a_seed_does_not_see_the_others(fifty, seeds):
    problem, policy = dynlin()
    result = dlb.simulate(problem, policy, T, seeds=seeds)
    np.testing.assert_array_equal(result.seeds, seeds)
    for name in REGRETS:
        np.testing.assert_array_equal(getattr(result, name), getattr(fifty, name)[seeds])


def test_recording_actions_changes_nothing(fifty):
    problem, policy = dynlin()
    result = dlb.simulate(problem, policy, T, seeds=50, record="actions")
    same(result, fifty)
    offline = np.cumsum(problem.gaps[result.actions], axis=1)[:, result.rounds - 1]
    np.testing.assert_allclose(result.offline_regret, offline, rtol=1e-12, atol=1e-12)


def test_recorded_actions_tell_close_vertices_apart():
    actions = dlb.actions.finite([[0.5, 0.5, 0.5 + 1e-10], [0.5, 0.5, 0.5]])
    problem = dlb.Problem(dlb.problems.synthetic().system, actions)
    policy = CHOOSES_FIRST._replace(act=lambda params, vertices, state, epoch: 1)
    assert np.all(dlb.simulate(problem, policy, 100, record="actions").actions == 1)


def test_different_seeds_give_different_runs(fifty):
    assert len(np.unique(fifty.realised_regret[:, -1])) == 50


def test_random_numbers_are_fresh_in_every_round_and_stream():
    """Neither the noise nor the uniforms repeat from block to block, and they are uncorrelated.

    The correlation has 10⁻⁶ false alarms.
    """
    system = dlb.System(A=[[0.0]], B=[[0.0]], omega=[0.0], theta=[0.0], reward_noise=1.0)
    problem = dlb.Problem(system, dlb.actions.finite(np.arange(1000.0)[:, None]))
    policy = dlb.Policy(
        init=lambda params, vertices, key: (),
        act=lambda p, vertices, s, epoch: (epoch.uniforms[0] * 1000).astype(jnp.int32),
        update=lambda params, state, feedback: (),
        uniforms=1,
        feedback=("last",),
    )
    T = 600
    result = dlb.simulate(problem, policy, T, seeds=8, rounds=range(1, T + 1), record="actions")
    noise = -np.diff(result.realised_regret, axis=1, prepend=0)
    assert len(np.unique(noise.round(9))) == noise.size
    for lag in range(1, T - 50):
        assert np.mean(result.actions[:, lag:] == result.actions[:, :-lag]) < 0.1
    correlation = np.corrcoef(noise.ravel(), result.actions.ravel())[0, 1]
    assert abs(correlation) < stats.norm.isf(5e-7) / np.sqrt(noise.size)


def test_devices_change_nothing(fifty, tmp_path):
    """One, two and three CPU devices in another process, against this one."""
    script = f"""
        import jax, sys
        jax.config.update("jax_num_cpu_devices", 3)
        import dlbjax as dlb
        problem = dlb.problems.synthetic(0.1)
        policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=0.2))
        assert len(jax.devices()) == 3
        for count in (1, 2, 3):
            result = dlb.simulate(problem, policy, {T}, seeds=50, devices=jax.devices()[:count])
            result.save(sys.argv[1] + "/" + str(count) + ".npz")
        dlb.simulate(problem, policy, {T}, seeds=50).save(sys.argv[1] + "/default.npz")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), tmp_path], check=True)
    for name in ("1", "2", "3", "default"):
        same(dlb.load(tmp_path / f"{name}.npz"), fifty)


# --- grids ----------------------------------------------------------------------------------------


def test_a_grid_is_its_runs_one_by_one(fifty):
    """Axes in the order of the arguments; two ρ̄ share no epochs, two λ do."""
    problem = dlb.problems.synthetic(0.1)
    rho_bar, lam = [0.0, 0.2, 0.4], [1.0, float(np.log(T))]
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=rho_bar), lam=lam)
    result = dlb.simulate(problem, policy, T, seeds=50)
    assert list(result.axes) == ["rho_bar", "lam"]
    np.testing.assert_array_equal(result.axes["rho_bar"], rho_bar)
    np.testing.assert_array_equal(result.axes["lam"], lam)
    for i, rho in enumerate(rho_bar):
        for j, value in enumerate(lam):
            one = dynlin(rho_bar=rho, lam=value)[1]
            alone = fifty if (i, j) == (1, 1) else dlb.simulate(problem, one, T, seeds=50)
            for name in REGRETS:
                assert getattr(result, name).shape == (3, 2, 50, len(result.rounds))
                np.testing.assert_array_equal(getattr(result, name)[i, j], getattr(alone, name))


def test_every_hyper_parameter_may_be_a_list():
    problem = dlb.problems.synthetic(0.1)
    bounds = dlb.Bounds.of(problem).replace(sigma=[0.1, 0.2], X=[1.0, 2.0])
    policy = dlb.dynlin_ucb(bounds, [1.0], [0.1, 0.2, 0.3], first=[2, 0, 1, 5])
    result = dlb.simulate(problem, policy, 20, seeds=3, record=("actions", "rewards", "states"))
    shapes = {name: len(values) for name, values in result.axes.items()}
    assert list(shapes.items())[1:] == [("lam", 1), ("delta", 3), ("first", 4)]
    assert result.expected_regret.shape == (2, 1, 3, 4, 3, 20)
    assert result.actions.shape == result.rewards.shape == (2, 1, 3, 4, 3, 20)
    assert result.states.shape == (2, 1, 3, 4, 3, 20, 3)
    played = np.broadcast_to(np.array([2, 0, 1, 5])[:, None], (2, 1, 3, 4, 3))
    np.testing.assert_array_equal(result.actions[..., 0], played)


def test_several_policies_give_results_by_name(fifty):
    problem, policy = dynlin()
    both = {"ours": policy, "best": dlb.clairvoyant(problem)}
    results = dlb.simulate(problem, both, T, seeds=50)
    assert isinstance(results, dlb.Results)
    assert list(results) == ["ours", "best"]
    assert [result.name for result in results.values()] == ["ours", "best"]
    same(results["ours"], fifty)
    np.testing.assert_array_equal(results["best"].offline_regret, 0)


def test_a_grid_may_mix_kinds_of_policy():
    problem, policy = dynlin()
    grid = dlb.PolicyGrid({"kind": np.arange(3)}, [dlb.clairvoyant(problem), policy, policy])
    result = dlb.simulate(problem, grid, T, seeds=50)
    np.testing.assert_array_equal(result.offline_regret[0], 0)
    np.testing.assert_array_equal(result.expected_regret[1], result.expected_regret[2])
    assert np.all(result.offline_regret[1, :, -1] > 0)


# --- settings -------------------------------------------------------------------------------------


def test_reporting_rounds_are_those_asked_for_and_the_horizon():
    problem = dlb.problems.synthetic()
    result = dlb.simulate(problem, dlb.clairvoyant(problem), 120, seeds=2, rounds=[1, 40])
    np.testing.assert_array_equal(result.rounds, [1, 40, 120])
    assert result.realised_regret.shape == (2, 3)


@pytest.mark.parametrize("horizon", [1, 2, 7, 1000, 10**6])
def test_default_reports_start_at_one_end_at_the_horizon_and_are_few(horizon):
    problem = dlb.problems.synthetic()
    rounds = dlb.simulate(problem, dlb.clairvoyant(problem), horizon).rounds
    assert rounds[0] == 1
    assert rounds[-1] == horizon
    assert np.all(np.diff(rounds) > 0)
    assert min(horizon, 200) <= len(rounds) <= 301


def test_defaults_are_one_seed_float64_and_nothing_recorded():
    problem = dlb.problems.synthetic()
    result = dlb.simulate(problem, dlb.clairvoyant(problem), horizon=1e2)
    np.testing.assert_array_equal(result.seeds, [0])
    assert result.realised_regret.dtype == np.float64
    assert result.config["dtype"] == "float64"
    assert result.config["horizon"] == 100
    assert result.config["versions"]["dlbjax"] == dlb.__version__
    assert (result.actions, result.rewards, result.states) == (None, None, None)


def test_global_jax_settings_are_left_alone():
    before = jax.config.jax_enable_x64
    problem = dlb.problems.synthetic()
    dlb.simulate(problem, dlb.clairvoyant(problem), 100)
    assert jax.config.jax_enable_x64 == before is False


def test_progress_is_shown_when_asked_for(capsys):
    problem = dlb.problems.synthetic()
    dlb.simulate(problem, dlb.clairvoyant(problem), 100, progress=True)
    assert "clairvoyant: 100%" in capsys.readouterr().err
    dlb.simulate(problem, dlb.clairvoyant(problem), 100)
    assert capsys.readouterr().err == ""


# --- errors ---------------------------------------------------------------------------------------


def never(*arguments):
    raise AssertionError("traced before the arguments were checked")


def scheduled(policy, **schedule):
    return policy._replace(prepare=lambda horizon, vertices: dlb.Schedule(**schedule))


UNTRACED = dlb.Policy(never, never, never)  # any tracing is an AssertionError, not a ValueError
ZEROS = dlb.Noise(np.zeros((2, 100, 3)), np.zeros((2, 100)))
NAN = dlb.Noise(np.zeros((2, 100, 3)), np.where(np.arange(200).reshape(2, 100) == 130, np.nan, 0))

WRONG = {
    "horizon 0": ({"horizon": 0}, "horizon must be a whole number from 1 to 2147483647; got 0"),
    "horizon 1.5": ({"horizon": 1.5}, "horizon must be a whole number .* got 1.5"),
    "horizon text": ({"horizon": "100"}, "horizon must be a whole number .* got '100'"),
    "horizon huge": ({"horizon": 2**31}, "horizon must be .* got 2147483648"),
    "horizon nan": ({"horizon": np.nan}, "horizon must be .* got nan"),
    "seeds 0": ({"seeds": 0}, "seeds must be a whole number >= 1; got 0"),
    "seeds empty": ({"seeds": []}, r"seeds must be .* got \[\]"),
    "seeds twice": ({"seeds": [1, 2, 1]}, "seeds must be distinct"),
    "seeds negative": ({"seeds": [-1, 2]}, r"seeds must lie from 0 .* got -1..2"),
    "seeds too large": ({"seeds": [2**31]}, "seeds must lie from 0 to 2147483647"),
    "seeds text": ({"seeds": "3"}, "seeds must be .* got '3'"),
    "seeds texts": ({"seeds": ["3"]}, r"seeds must be .* got \['3'\]"),
    "seeds matrix": ({"seeds": [[1]]}, r"seeds must be .* got \[\[1\]\]"),
    "seeds and noise": ({"seeds": 3, "noise": ZEROS}, "noise is for 2 runs, but seeds asks for 3"),
    "record": ({"record": ("regret",)}, "record must name some of actions, .* got .*'regret'"),
    "dtype": ({"dtype": "float16"}, "dtype must be float32 or float64; got 'float16'"),
    "dtype nonsense": ({"dtype": "nonsense"}, "dtype must be float32 or float64; got 'nonsense'"),
    "rounds empty": ({"rounds": []}, r"rounds must be a list of whole numbers; got \[\]"),
    "rounds number": ({"rounds": 10}, "rounds must be a list of whole numbers; got 10"),
    "rounds real": ({"rounds": [1.5]}, r"rounds must be a list of whole numbers; got \[1.5\]"),
    "rounds falling": ({"rounds": [5, 3]}, r"rounds must increase strictly within 1..100"),
    "rounds twice": ({"rounds": [5, 5]}, r"rounds must increase strictly within 1..100"),
    "rounds 0": ({"rounds": [0, 5]}, r"rounds must increase strictly within 1..100"),
    "rounds beyond": ({"rounds": [101]}, r"rounds must increase strictly within 1..100"),
    "batch": ({"batch": 0}, "batch must be a whole number >= 1; got 0"),
    "chunk": ({"chunk": -1}, "chunk must be a whole number from 1 to 4096; got -1"),
    "noise nan": ({"noise": NAN}, r"noise.reward must be finite; got nan at index \(1, 30\)"),
    "noise rounds": (
        {"noise": ZEROS._replace(reward=np.zeros((2, 99)))},
        r"noise.reward must have shape \(any, 100\); got shape \(2, 99\)",
    ),
    "noise runs": (
        {"noise": ZEROS._replace(state=np.zeros((1, 100, 3)))},
        r"noise.state must have shape \(2, 100, 3\); got shape \(1, 100, 3\)",
    ),
    "noise state": (
        {"noise": ZEROS._replace(state=np.zeros((2, 100, 4)))},
        r"noise.state must have shape \(2, 100, 3\); got shape \(2, 100, 4\)",
    ),
    "noise none": (
        {"noise": dlb.Noise(np.zeros((0, 100, 3)), np.zeros((0, 100)))},
        "noise.reward must hold at least one run",
    ),
    "problem": ({"problem": "synthetic"}, "problem must be a dlbjax.Problem; got str"),
    "policy": ({"policy": never}, "policy must be a dlbjax.Policy, .* got function"),
    "policy in a mapping": ({"policy": {"a": UNTRACED, "b": 3}}, "policy must be .* got int"),
    "no policy": ({"policy": {}}, "policy must map at least one name"),
    "grid": (
        {"policy": dlb.PolicyGrid({"lam": np.arange(2)}, [UNTRACED])},
        "the grid's axes make 2 points, but it holds 1",
    ),
    "feedback": (
        {"policy": UNTRACED._replace(feedback=("first",))},
        'feedback must be a tuple of "last" and "total"; got .*first',
    ),
    "arms": (
        {"policy": scheduled(UNTRACED._replace(name="mine"), arms=np.full((1, 3), 0.9))},
        "'mine' plays .0.9, 0.9, 0.9., which is not in the problem's action set",
    ),
    "arms shape": (
        {"policy": scheduled(UNTRACED, arms=np.zeros((1, 2)))},
        r"arms must have shape \(any, 3\); got shape \(1, 2\)",
    ),
    "epochs 0": ({"policy": UNTRACED._replace(epochs=0)}, "epochs must be a whole number >= 1"),
    "epochs list": (
        {"policy": UNTRACED._replace(epochs=[3, 0])},
        r"epochs must be a list of whole numbers >= 1, .* got \[3, 0\]",
    ),
    "epochs short": (
        {"policy": UNTRACED._replace(epochs=[3, 4])},
        "epochs must cover the horizon of 100 rounds; the 2 given sum to 7",
    ),
    "epoch table short": (
        {"policy": UNTRACED._replace(epochs=Epochs(np.array([3]), np.array([2])))},
        "epochs must cover the horizon",
    ),
    "rounds falling, unsigned": (
        {"rounds": np.array([5, 3], np.uint8)},
        "rounds must increase strictly",
    ),
    "noise no Noise": ({"noise": np.zeros((2, 100))}, "noise must be"),
    "noise a number": ({"noise": dlb.Noise(0.0, 0.0)}, "noise.reward must"),
    "record a number": ({"record": 3}, "record must"),
    "devices none": ({"devices": []}, "devices must"),
    "devices a number": ({"devices": 2}, "devices must"),
    "policy named by a number": (
        {"policy": {1: UNTRACED}},
        "policy must .*name",
    ),
    "grid empty": (
        {"policy": dlb.PolicyGrid({"lam": np.arange(0)}, [])},
        "at least one",
    ),
    "arms empty": (
        {"policy": scheduled(UNTRACED, arms=np.zeros((0, 3)))},
        "arms must hold at least one",
    ),
    "feedback as text": (
        {"policy": UNTRACED._replace(feedback="last")},
        "feedback .*got 'last'",
    ),
    "uniforms": (
        {"policy": UNTRACED._replace(uniforms=-1)},
        "uniforms must be a whole number >= 0",
    ),
}


def call(problem=None, policy=UNTRACED, horizon=100, **options):
    return dlb.simulate(
        dlb.problems.synthetic() if problem is None else problem, policy, horizon, **options
    )


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_before_anything_is_traced(options, message):
    with pytest.raises(ValueError, match=message):
        call(**options)


def first_arm(params, vertices, state, epoch):
    return 0


CHOOSES_FIRST = dlb.Policy(lambda params, vertices, key: (), first_arm, lambda p, s, f: ())


def test_a_plan_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="plan"):
        call(policy=scheduled(CHOOSES_FIRST, plan=lambda epoch: np.zeros(3)))


def test_a_plan_keeps_its_dtype():
    def act(params, vertices, state, epoch):
        assert jnp.issubdtype(epoch.plan.dtype, jnp.integer)
        return epoch.plan

    policy = CHOOSES_FIRST._replace(act=act)
    call(policy=scheduled(policy, plan=lambda epoch: epoch.index * 0))


USES = {
    "act returns a vector": ({"act": lambda p, v, s, e: v[0]}, r"act of policy 'mine' must return"),
    "act returns a float": ({"act": lambda p, v, s, e: v[0, 0]}, "act of .* whole number"),
    "feedback not asked for": (
        {"update": lambda p, s, f: (f.total / 2, ())[1], "feedback": ("last",)},
        "does not observe; add total to its `feedback`",
    ),
    "an if in act": (
        {"act": lambda p, v, s, e: 1 if e.index > 3 else 0},
        "act of policy 'mine' uses a number of the run .* use jnp.where",
    ),
    "NumPy in update": (
        {"update": lambda p, s, f: (np.asarray(f.last), ())[1]},
        "update of policy 'mine' uses a number of the run",
    ),
    "an if in init": (
        {"init": lambda p, v, key: (int(v[0, 0]), ())[1]},
        "init of policy 'mine' uses a number of the run",
    ),
}


@pytest.mark.parametrize(("functions", "message"), USES.values(), ids=USES)
def test_what_a_policy_cannot_do_is_said_in_one_sentence(functions, message):
    with pytest.raises(ValueError, match=message):
        call(policy=CHOOSES_FIRST._replace(name="mine", **functions))


def test_traced_inputs_are_rejected_with_what_to_use_instead():
    def regret(sigma):
        return call(dlb.problems.synthetic(sigma)).expected_regret[0, -1]

    with pytest.raises(
        ValueError,
        match=r"PolicyGrid or lists .*\.regret_slope or relaxed_gradient",
    ):
        jax.grad(regret)(0.1)


def test_a_state_of_another_structure_is_refused():
    with pytest.raises((ValueError, TypeError), match="update"):
        call(policy=CHOOSES_FIRST._replace(update=lambda params, state, feedback: feedback.last))


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"beta": [1.0, 2.0]}, id="beta"),
        pytest.param({"first": 10}, id="first"),
    ],
)
def test_what_a_plan_refuses_is_refused_before_anything_is_traced(policy):
    _, policy = dynlin(**policy)
    with pytest.raises(ValueError, match=r"must hold a value|must be a whole number from 0 to 9"):
        call(policy=policy._replace(init=never))


@pytest.mark.parametrize(("options", "message"), [
    ({"beta": [1.0, 2.0]}, "beta must hold a value for every epoch; got 2"),
    ({"first": 10}, "first must be a whole number from 0 to 9; got 10"),
])  # fmt: skip
def test_what_a_plan_refuses_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        call(policy=dynlin(**options)[1])


def test_a_regret_that_is_not_finite_is_an_error_that_says_where():
    noise = ZEROS._replace(reward=np.array([[0.0] * 100, [0.0] * 50 + [1e308] * 50]))
    message = "policy 'mine'.*not finite for seed 1 by round 60"
    with pytest.raises(FloatingPointError, match=message):
        call(policy=CHOOSES_FIRST._replace(name="mine"), noise=noise, rounds=[40, 60])


def test_a_policy_that_makes_nan_is_an_error():
    policy = dlb.Policy(
        init=lambda params, vertices, key: jnp.ones(()),
        act=lambda params, vertices, state, epoch: jnp.argmax(vertices[:, 0] * state),
        update=lambda params, state, feedback: jnp.where(feedback.last > 0, jnp.nan, state),
    )
    with pytest.raises(FloatingPointError, match="seed 0"):
        call(policy=policy)


@pytest.mark.parametrize("arm", [10, -1])
def test_an_arm_that_does_not_exist_is_an_error(arm):
    with pytest.raises((ValueError, FloatingPointError), match=r"arm|index|vertex"):
        call(policy=CHOOSES_FIRST._replace(act=lambda p, v, s, e: jnp.int32(arm)))


# --- compilation ----------------------------------------------------------------------------------

EVENTS = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: EVENTS.append(name) if "compile" in name else None
)


def test_other_numbers_do_not_compile_again():
    """Other seeds, horizons, σ, λ, δ, ρ̄ and bounds: the same program."""

    def run(seeds, sigma, rho_bar, horizon=3000, **options):
        problem, policy = dynlin(sigma, rho_bar, **options)
        dlb.simulate(problem, policy, horizon, seeds=seeds)

    run(range(16), 0.1, 0.2)
    before = len(EVENTS)
    run(range(16, 32), 0.2, 0.2)
    run(range(9), 0.1, 0.3, lam=2.0, delta=0.01)
    run(range(16), 0.1, 0.0, first=3)
    run(range(4), 0.1, 0.2, horizon=20_000, extra=1, scale=0.5)
    run(range(1), 0.1, 0.2, horizon=25)
    run(range(100), 0.1, 0.2)
    assert EVENTS[before:] == []


def test_a_policy_is_traced_as_often_for_many_calls_as_for_one():
    """Twice at most, whatever the seeds and the horizon."""
    policy = CHOOSES_FIRST._replace(act=chex.assert_max_traces(first_arm, n=2))
    for seeds, horizon in [(8, 100), (range(8, 16), 100), (3, 5000)]:
        call(policy=policy, seeds=seeds, horizon=horizon)


# --- precision and memory -------------------------------------------------------------------------


def final(result, kind="expected"):
    summary = result.summary(kind)
    return summary.mean[-1], summary.standard_error[-1]


def test_float32_has_the_mean_of_float64():
    """Within 4 combined standard errors (6·10⁻⁵ false alarms), and it is float32 that ran."""
    problem, policy = dynlin()
    single = dlb.simulate(problem, policy, T, seeds=range(50, 150), dtype=np.float32)
    double = dlb.simulate(problem, policy, T, seeds=range(150, 250))
    (a, da), (b, db) = final(single), final(double)
    assert abs(a - b) < 4 * np.hypot(da, db)
    assert np.array_equal(single.expected_regret, single.expected_regret.astype(np.float32))
    assert single.config["dtype"] == "float32"


def test_float32_sums_do_not_drift():
    """2·10⁵ rounds of one action whose gap has no short binary fraction."""
    problem = dlb.problems.synthetic()
    arm = np.array([0.3, 0.2, 0.7])
    policy = scheduled(CHOOSES_FIRST, arms=arm[None])
    result = dlb.simulate(problem, policy, 200_000, dtype=np.float32, rounds=[1, 200_000])
    lost = 200_000 * (0.8125 - problem.h @ arm)
    assert result.offline_regret[0, -1] == pytest.approx(lost, rel=2e-7)


@pytest.mark.evidence
def test_a_million_rounds_in_both_precisions():
    problem, policy = dynlin(sigma=0.01)
    double = dlb.simulate(problem, policy, 10**6, seeds=50)
    assert abs(final(double, "realised")[0] - 7160) < 25
    single = dlb.simulate(problem, policy, 10**6, seeds=range(50, 100), dtype=np.float32)
    (a, da), (b, db) = final(single), final(double)
    assert abs(a - b) < 3 * np.hypot(da, db)  # 3·10⁻³ false alarms, fixed seeds


@pytest.mark.slow
def test_memory_does_not_grow_with_the_horizon():
    """Lin-UCB decides every round, and DynLin-UCB holds its actions."""
    script = r"""
        import re, sys
        import numpy as np
        import dlbjax as dlb

        problem = dlb.problems.synthetic()
        rates = np.array([0.0, 0.05, 0.1, 0.2, 0.4])
        policies = {
            "DynLin-UCB": dlb.dynlin_ucb(dlb.Bounds.of(problem, rates)),
            "Lin-UCB": dlb.lin_ucb(dlb.Bounds.of(problem)),
        }
        dlb.simulate(problem, policies, int(sys.argv[1]), 50)
        print(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
    """
    peak = [
        1024
        * int(subprocess.check_output([sys.executable, "-c", textwrap.dedent(script), horizon]))
        for horizon in ("30000", "300000")
    ]
    assert max(peak) < 1.5e9
    # A float64 of every round of Lin-UCB's 50 runs would take 108 MB more, a float32 54 MB.
    assert peak[1] - peak[0] < 30e6


def test_policies_that_share_their_epochs_share_their_noise():
    """Realised minus expected regret is the noise alone, whatever is played or observed."""
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem)
    policies = {"one": dlb.lin_ucb(bounds), "other": dlb.ucb1(bounds), "sums": dlb.exp3(bounds)}
    results = dlb.simulate(problem, policies, 300, seeds=3)
    noise = [r.realised_regret - r.expected_regret for r in results.values()]
    assert np.ptp(noise[0][:, -1]) > 0.01
    np.testing.assert_allclose(noise[1:], [noise[0]] * 2, rtol=0, atol=1e-8)
    assert not np.array_equal(results["one"].offline_regret, results["other"].offline_regret)


# --- what comes out -------------------------------------------------------------------------------


def test_the_state_of_the_policy_in_the_end(tmp_path):
    """ĥ = V⁻¹b of every run is that of its recorded epochs, however the runs are batched."""
    problem, T = dlb.problems.synthetic(sigma=0.1), 100
    policy = dlb.lin_ucb(dlb.Bounds.of(problem), lam=[1.0, 2.0])
    options = {"record": ("policy", "actions", "rewards"), "rounds": [T]}
    result = dlb.simulate(problem, policy, T, seeds=10, **options)
    again = dlb.simulate(problem, policy, T, seeds=10, batch=3, **options)
    for one, other in zip(
        jax.tree.leaves(result.policy_state), jax.tree.leaves(again.policy_state), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    played = problem.actions.vertices[result.actions]  # (2, 10, T, 3)
    V = np.einsum("grti,grtj->grij", played, played) + np.array([[np.eye(3)], [2 * np.eye(3)]])
    np.testing.assert_allclose(result.policy_state.V.value, V, rtol=1e-12)
    b = np.einsum("grti,grt->gri", played, result.rewards)
    np.testing.assert_allclose(result.policy_state.b.value, b, rtol=1e-9)
    result.save(tmp_path / "run.npz")
    assert dlb.load(tmp_path / "run.npz").policy_state is None


@pytest.mark.parametrize("make", [dlb.ucb1, dlb.lin_ucb, dlb.d_lin_ucb, dlb.dynlin_ucb_tight])
def test_policies_that_float32_misleads_refuse_it_for_long_runs(make):
    problem = dlb.problems.synthetic()
    policy = make(dlb.Bounds.of(problem))
    schedule = policy.prepare(10**5, problem.actions.vertices)
    assert as_epochs(schedule.epochs, 10**5).counts.sum() <= schedule.float32
    with pytest.raises(ValueError, match=r"needs dtype float64 for \d+ decisions: beyond"):
        dlb.simulate(problem, policy, 10**6, dtype="float32")


@pytest.mark.parametrize("name", ["rewards", "states"])
def test_recorded_numbers_that_are_not_finite_are_rejected_with_seed_and_round(name):
    """Noise that a float32 holds, and whose sum with what it carries over it does not."""
    system = dlb.System([[0.9]], [[1.0, 2.0]], [0.0 if name == "states" else 1.0], [1.0, 0.0])
    problem = dlb.Problem(system, dlb.actions.simplex(2))
    state = np.zeros((2, 9, 1))
    state[1, 3:] = 3e38
    noise = dlb.Noise(state, np.zeros((2, 9)))
    with pytest.raises(FloatingPointError, match=r"is not finite for seed 7 by round [56]"):
        dlb.simulate(
            problem, dlb.myopic(problem), 9, [4, 7], dtype="float32", noise=noise, record=name
        )


def test_a_choice_among_nan_is_refused_and_not_made():
    problem = dlb.problems.synthetic()
    plain = dlb.ucb1(dlb.Bounds.of(problem))

    def act(params, vertices, state, epoch):
        return dlb.small.first_best(jnp.where(epoch.index > 3, jnp.nan, vertices[:, 0]))

    policy = plain._replace(act=act)
    with pytest.raises(FloatingPointError, match=r"not finite for seed 0 by round [1-9]\b"):
        dlb.simulate(problem, policy, 200, 2, record="actions")


def test_numbers_beyond_float32_are_refused_there():
    problem = dlb.problems.synthetic()
    policy = dlb.ucb1(dlb.Bounds.of(problem), scale=1e300)
    with pytest.raises(ValueError, match="beyond float32; use dtype float64"):
        dlb.simulate(problem, policy, 20, dtype="float32")


@pytest.mark.parametrize(
    ("axes", "policies"), [({"a": 3}, [None]), ([1], [None]), ({"a": [1.0]}, 3)]
)
def test_a_grid_that_is_none_is_refused(axes, policies):
    with pytest.raises(ValueError, match="of the grid must"):
        dlb.simulate(dlb.problems.synthetic(), dlb.PolicyGrid(axes, policies), 10)


def test_a_policy_may_have_a_large_table_of_its_own():
    order = np.arange(3000) * 7 % 10
    policy = dlb.Policy(
        init=lambda params, vertices, key: jnp.zeros((), jnp.int32),
        act=lambda params, vertices, state, epoch: jnp.asarray(order, jnp.int32)[state],
        update=lambda params, state, feedback: state + 1,
    )
    result = dlb.simulate(dlb.problems.synthetic(), policy, 300, 2, record="actions")
    np.testing.assert_array_equal(result.actions, [order[:300]] * 2)
