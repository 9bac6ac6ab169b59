"""Sweeps: what they compute, what they do not compute again, and who computes it."""

import errno
import multiprocessing
import os
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.engine import pool
from dlbjax.results.result import REGRETS
from dlbjax.sweeps import batches, work
from dlbjax.sweeps import run as module
from dlbjax.sweeps.folder import Folder

PROBLEMS = {"quiet": dlb.problems.synthetic(0.01), "loud": dlb.problems.synthetic(0.5)}
QUIET = {"quiet": PROBLEMS["quiet"]}
POLICIES = {
    "DynLin-UCB": lambda p: dlb.dynlin_ucb(dlb.Bounds.of(p, rho_bar=[0.1, 0.3]), lam=[1.0, 9.0]),
    "myopic": dlb.myopic,
}
T = 400


@pytest.fixture
def computed(monkeypatch):
    """Seeds of the runs that are computed."""
    seeds = []
    drive = pool.drive

    def drive_and_count(group, settings, numbers, *rest):
        seeds.extend(settings.seeds[numbers % len(settings.seeds)].tolist())
        return drive(group, settings, numbers, *rest)

    monkeypatch.setattr(pool, "drive", drive_and_count)
    return seeds


def assert_same(store, problem, policy, seeds):
    found = store.result(problem, policy)
    chosen = POLICIES[policy](PROBLEMS[problem])
    alone = dlb.simulate(PROBLEMS[problem], chosen, T, seeds=seeds)
    for kind in REGRETS:
        np.testing.assert_array_equal(found.regret(kind), alone.regret(kind))
    np.testing.assert_array_equal(found.seeds, alone.seeds)
    np.testing.assert_array_equal(found.rounds, alone.rounds)
    assert list(found.axes) == list(alone.axes)
    assert found.name == policy
    execution = {"execution": alone.config["execution"]}
    assert dict(found.config) | execution == dict(alone.config)


def test_a_sweep_gives_what_simulate_gives(tmp_path, computed):
    store = dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path / "a")
    assert len(computed) == 2 * 5 * 6
    for problem in PROBLEMS:
        for policy in POLICIES:
            assert_same(store, problem, policy, 6)
    (leftover := tmp_path / "a/loud/myopic/seed/c/0.abc.partial").touch()  # of a killed worker
    dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path / "a")
    assert not leftover.exists()


def test_small_batches_give_the_same(tmp_path, monkeypatch, computed):
    monkeypatch.setattr(batches, "_BLOCK", 4)
    monkeypatch.setattr(batches, "_MOST_RUNS", 8)
    store = dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path)
    assert len(computed) == 2 * 5 * 6
    assert_same(store, "loud", "DynLin-UCB", 6)


def test_a_grid_of_problems_is_an_axis(tmp_path):
    grid = dlb.ProblemGrid.of(dlb.problems.synthetic, sigma=[0.01, 0.5])
    store = dlb.sweep({"both": grid}, POLICIES, T, 3, tmp_path)
    result = store.result("both", "DynLin-UCB")
    assert list(result.axes) == ["sigma", "rho_bar", "lam"]
    assert result.axes["sigma"].tolist() == [0.01, 0.5]
    for i, problem in enumerate(PROBLEMS.values()):
        alone = dlb.simulate(problem, POLICIES["DynLin-UCB"](problem), T, 3)
        np.testing.assert_array_equal(result.realised_regret[i], alone.realised_regret)
    assert [problem["system"]["reward_noise"] for problem in result.config["problem"]] == [
        0.01,
        0.5,
    ]


def test_only_what_is_new_is_computed(tmp_path, monkeypatch, computed):
    monkeypatch.setattr(batches, "_BLOCK", 4)
    one = {"myopic": dlb.myopic}
    dlb.sweep(QUIET, one, T, 5, tmp_path)
    assert computed == [0, 1, 2, 3, 4]
    dlb.sweep(QUIET, one, T, 5, tmp_path)
    assert len(computed) == 5
    dlb.sweep(QUIET, one, T, [2, 9, 4, 7], tmp_path)  # more seeds, some in a chunk that is there
    assert computed[5:] == [9, 7]
    store = dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path)  # another problem, policy and seed
    assert len(computed) == 2 * 5 * 6 + 2
    assert_same(store, "loud", "DynLin-UCB", 6)
    assert_same(store, "quiet", "myopic", [0, 1, 2, 3, 4, 9, 7, 5])


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("step", ["write", "compute"])
def test_a_sweep_that_died_anywhere_goes_on(step, grows, tmp_path, monkeypatch, computed):
    """The disk is full before the first file or batch of a call, before the second of the next, …"""
    monkeypatch.setattr(batches, "_BLOCK", 2)
    monkeypatch.setattr(batches, "_MOST_RUNS", 2)
    one = {"myopic": dlb.myopic}
    if grows:
        dlb.sweep(QUIET, one, T, 2, tmp_path)
    owner = {"write": Folder, "compute": module}[step]
    plain, left = getattr(owner, step), 0

    def until_the_disk_is_full(*args):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(*args)

    monkeypatch.setattr(owner, step, until_the_disk_is_full)
    for calls in range(30):
        left = calls
        try:
            store = dlb.sweep(QUIET, one, T, 6, tmp_path)
            break
        except OSError as error:
            said = str(error)
        assert "make the same call again" in said
        if grows:
            assert len(dlb.Store(tmp_path).result().seeds) >= 2
    assert calls >= (2 if step == "compute" else 4 if grows else 9)
    assert len(computed) == 6
    assert_same(store, "quiet", "myopic", 6)


def one_point(problem):
    return dlb.PolicyGrid({"a": np.array([1.0])}, [dlb.myopic(problem)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": T + 1}, "horizon: 400 there, 401 here"),
        ({"dtype": "float32"}, "dtype: float64 there, float32 here"),
        ({"rounds": [10]}, "other rounds"),
        ({"problems": {"quiet": PROBLEMS["loud"]}}, "other problem"),
        ({"policies": {"myopic": dlb.clairvoyant}}, "other policies"),
        ({"policies": {"myopic": one_point}}, "other axes"),
    ],
)
def test_a_label_cannot_be_used_for_something_else(change, message, tmp_path):
    asked = {"problems": QUIET, "policies": {"myopic": dlb.myopic},
             "horizon": T, "seeds": 2, "store": tmp_path}  # fmt: skip
    dlb.sweep(**asked)
    with pytest.raises(ValueError, match=rf"'myopic' on 'quiet' already, with .*{message}"):
        dlb.sweep(**asked | change)
    dlb.Store(tmp_path).drop("quiet", "myopic")
    assert len(dlb.sweep(**asked | change).result().seeds) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problems": {}}, "problems must have labels"),
        ({"problems": {3: PROBLEMS["quiet"]}}, "problems must have labels, each a text"),
        ({"problems": {"a": "synthetic"}}, "problem must be a dlbjax.Problem; got str"),
        ({"problems": {"a": dlb.ProblemGrid({"b": [1]}, [])}}, "make 1 points, but it holds 0"),
        ({"problems": {"a": dlb.ProblemGrid([1], [])}}, "axes of the grid must map names"),
        ({"policies": {}}, "policies must have labels"),
        ({"policies": {"": dlb.myopic}}, "policies must have labels, each a text of 1 to 200"),
        (
            {"policies": {"é" * 101: dlb.myopic}},
            "policies must have labels, each a text of 1 to 200",
        ),
        ({"policies": {"a": "myopic"}}, "policy must be a dlbjax.Policy"),
        ({"policies": {"a": lambda problem: 3}}, "policy must be a dlbjax.Policy"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": [1, 1]}, "seeds must be distinct"),
        ({"horizon": -1}, "horizon must be"),
        (
            {"executor": 3},
            "executor must be a concurrent.futures.Executor or a Dask client; got 3",
        ),
    ],
)
def test_wrong_arguments_are_rejected_before_a_folder_is_made(change, message, tmp_path):
    asked = {"problems": PROBLEMS, "policies": dlb.myopic, "horizon": T, "seeds": 2}
    with pytest.raises(ValueError, match=message):
        dlb.sweep(**asked | change, store=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def grid_over(values):
    def make(problem):
        return dlb.lin_ucb(dlb.Bounds.of(problem), lam=next(values))

    return make


def test_grids_of_problems_and_policies_must_fit_together(tmp_path):
    grid = dlb.ProblemGrid.of(dlb.problems.synthetic, sigma=[0.01, 0.5])
    for lists in ([[1.0], [2.0]], [[1.0], 1.0], [1.0, [1.0]]):
        with pytest.raises(ValueError, match=r"'b' has axes .* on another; they must be the same"):
            dlb.sweep({"a": grid}, {"b": grid_over(iter(lists))}, T, 2, tmp_path / "a")
    lam = dlb.ProblemGrid({"lam": [1.0, 2.0]}, grid.problems)
    with pytest.raises(ValueError, match="'lam' cannot be the name of an axis"):
        dlb.sweep({"a": lam}, {"b": grid_over(iter([[1.0], [1.0]]))}, T, 2, tmp_path / "a")


def broken(problem):
    return dlb.Policy(
        init=lambda params, vertices, key: jnp.zeros(()),
        act=lambda params, vertices, state, epoch: 0,
        update=lambda params, state, feedback: state + jnp.nan,
    )


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_other_policies_are_kept_when_one_fails(elsewhere, tmp_path, computed):
    policies = {"myopic": dlb.myopic, "mine": broken, "clairvoyant": dlb.clairvoyant}
    with ThreadPoolExecutor(2) as threads:
        executor = threads if elsewhere else None
        with pytest.raises(FloatingPointError, match=r"NaN .*All runs that did not fail are in"):
            dlb.sweep(QUIET, policies, T, 3, tmp_path, executor=executor)
    store = dlb.Store(tmp_path)
    assert list(store.results("quiet")) == ["clairvoyant", "myopic"]
    assert_same(store, "quiet", "myopic", 3)
    before = len(computed)
    corrected = policies | {"mine": dlb.myopic}  # under the same label, which has no runs yet
    assert len(dlb.sweep(QUIET, corrected, T, 3, tmp_path).result("quiet", "mine").seeds) == 3
    assert len(computed) == before + 3


# --- executors ------------------------------------------------------------------------------------


def test_functions_are_compiled_once_on_a_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BLOCK", 2)
    monkeypatch.setattr(batches, "_SHARE", 1)
    traced = []

    def closure(problem):
        def act(params, vertices, state, epoch):
            traced.append(1)
            return 0

        return broken(problem)._replace(act=act, update=lambda params, state, feedback: state)

    with ThreadPoolExecutor(1) as executor:
        dlb.sweep(QUIET, {"a": closure}, T, 2, tmp_path, executor=executor)
        packed = work._unpacked.cache_info().misses
        before = work._unpacked.cache_info().hits
        dlb.sweep(QUIET, {"b": closure}, T, 10, tmp_path, executor=executor)
    assert work._unpacked.cache_info().misses == packed + 1
    assert work._unpacked.cache_info().hits == before + 4  # of five batches


def test_a_batch_of_an_executor_takes_one_core(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(
        work, "run_together", lambda entries, settings, *_: found.append(settings) or []
    )
    monkeypatch.setattr(work, "open_array", None)
    with ThreadPoolExecutor(1) as executor, pytest.raises(Exception, match="NoneType"):
        dlb.sweep(QUIET, dlb.myopic, T, 64, tmp_path, executor=executor)
    assert len(found[0].devices) == 1


@pytest.mark.slow
def test_spawned_processes_do_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BLOCK", 2)
    monkeypatch.setattr(batches, "_SHARE", 1)
    spawn = multiprocessing.get_context("spawn")
    policies = {"DynLin-UCB": POLICIES["DynLin-UCB"]}  # a lambda, which pickle rejects
    with ProcessPoolExecutor(1, mp_context=spawn) as executor:
        store = dlb.sweep(QUIET, policies, T, 4, tmp_path, executor=executor)
        assert_same(store, "quiet", "DynLin-UCB", 4)
        executor.submit(os._exit, 1)
        with pytest.raises(
            ConnectionError, match=r"were lost \(BrokenProcessPool.* same call again"
        ):
            dlb.sweep(QUIET, policies, T, 5, tmp_path, executor=executor)
    assert_same(dlb.sweep(QUIET, policies, T, 5, tmp_path), "quiet", "DynLin-UCB", 5)


@pytest.mark.filterwarnings("ignore")  # JAX warns of forks
def test_forked_processes_are_rejected(tmp_path):
    fork = multiprocessing.get_context("fork")
    with (
        ProcessPoolExecutor(1, mp_context=fork) as executor,
        pytest.raises(
            RuntimeError, match=r"forked .* Start processes with .*get_context\('spawn'\)"
        ),
    ):
        dlb.sweep(QUIET, dlb.myopic, T, 2, tmp_path, executor=executor)


class Failing(Executor):
    """An executor whose workers fail."""

    def __init__(self, error):
        self.error = error

    def submit(self, *_):
        future = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            BrokenExecutor(),
            ConnectionError,
            r"workers of the sweep were lost \(BrokenExecutor\(\)\)",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            OSError,
            "No space left on device; ",
        ),
        (
            OSError(errno.EROFS, "Read-only file system"),
            OSError,
            "Read-only file system; what was ",
        ),
        (PermissionError("no"), OSError, "no; what was completed is kept"),
    ],
)
def test_failures_of_workers_say_what_to_do(error, kind, message, tmp_path):
    with pytest.raises(kind, match=f"{message}.*") as raised:
        dlb.sweep(QUIET, POLICIES, T, 2, tmp_path, executor=Failing(error))
    assert "make the same call again" in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    assert_same(dlb.sweep(QUIET, POLICIES, T, 2, tmp_path), "quiet", "myopic", 2)


def test_workers_with_other_code_are_rejected(tmp_path, monkeypatch):
    packed = work.pack(None)
    monkeypatch.setattr(work, "source", lambda: "other")
    with pytest.raises(ValueError, match="a worker has other code than the sweep"):
        work.compute_packed(packed, None)
