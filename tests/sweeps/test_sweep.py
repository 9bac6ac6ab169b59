"""Sweeps: what they compute, what they do not compute again, and how several share the work."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.engine import pool
from dlbjax.results.result import REGRETS
from dlbjax.sweeps import batches
from dlbjax.sweeps import run as module
from tests.sweeps import killed

PROBLEMS = {"quiet": dlb.problems.synthetic(0.01), "loud": dlb.problems.synthetic(0.5)}
POLICIES = {
    "DynLin-UCB": lambda p: dlb.dynlin_ucb(dlb.Bounds.of(p, rho_bar=[0.1, 0.3]), lam=[1.0, 9.0]),
    "myopic": dlb.myopic,
}
T = 400


@pytest.fixture
def computed(monkeypatch):
    """Seeds of the runs that are computed, except for those that a checkpoint holds completely."""
    seeds = []
    drive = pool.drive

    def drive_and_count(group, settings, numbers, width, device, progress):
        if progress is None or progress.segments < group.size:
            seeds.extend(settings.seeds[numbers % len(settings.seeds)].tolist())
        return drive(group, settings, numbers, width, device, progress)

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
    assert list(store.work.iterdir()) == []
    assert list((tmp_path / "a").rglob("*.part")) == []


def test_small_batches_give_the_same(tmp_path, monkeypatch, computed):
    monkeypatch.setattr(module, "runs_that_fit", lambda *_: 4)
    store = dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path)
    assert len(computed) == 2 * 5 * 6
    assert_same(store, "loud", "DynLin-UCB", 6)


def test_only_what_is_new_is_computed(tmp_path, computed):
    quiet, one = {"quiet": PROBLEMS["quiet"]}, {"myopic": dlb.myopic}
    dlb.sweep(quiet, one, T, 5, tmp_path)
    assert computed == [0, 1, 2, 3, 4]
    dlb.sweep(quiet, one, T, 5, tmp_path)
    assert len(computed) == 5
    dlb.sweep(quiet, one, T, [2, 9, 4, 7], tmp_path)  # more seeds
    assert computed[5:] == [9, 7]
    store = dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path)  # another problem, policy and seed
    assert len(computed) == 2 * 5 * 6 + 2
    assert_same(store, "loud", "DynLin-UCB", 6)
    assert_same(store, "quiet", "myopic", [0, 1, 2, 3, 4, 5, 7, 9])


def test_three_writers_divide_the_work(tmp_path, monkeypatch, computed):
    monkeypatch.setattr(module, "runs_that_fit", lambda *_: 6)
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    stores = []

    def write():
        stores.append(dlb.sweep(PROBLEMS, POLICIES, T, 6, tmp_path))

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == 2 * 5 * 6
    for store in stores:  # each has all runs when it returns
        assert_same(store, "loud", "myopic", 6)


def test_a_batch_that_another_writer_has_claimed_is_waited_for(tmp_path, monkeypatch, computed):
    waits = []
    store = module.Store.make(tmp_path)
    dlb.sweep({"quiet": PROBLEMS["quiet"]}, dlb.myopic, T, 1, tmp_path)
    [series] = store.series()
    [batch] = batches.make_batches({series.folder: 1}, np.arange(3), 8192)
    computed.clear()
    claim = batches.claimed(store.work / f"{batch.name}.lock")
    assert claim.__enter__()

    def wait(seconds):
        waits.append(len(computed))
        claim.__exit__(None, None, None)

    monkeypatch.setattr(module.time, "sleep", wait)
    dlb.sweep({"quiet": PROBLEMS["quiet"]}, dlb.myopic, T, 3, tmp_path)
    assert waits == [0]
    assert len(computed) == 2


@pytest.mark.parametrize("kill_at", ["draft", "unlink", "publish"])
def test_what_a_writer_had_computed_when_it_died_is_used(kill_at, tmp_path, monkeypatch, computed):
    """A batch with two series: one shard in its place and the other not."""
    both = {"myopic": dlb.myopic, "clairvoyant": dlb.clairvoyant}
    quiet = {"quiet": PROBLEMS["quiet"]}
    calls = []
    targets = {"draft": (module.Store, "draft"), "publish": (os, "replace"),
               "unlink": (Path, "unlink")}  # fmt: skip
    owner, name = targets[kill_at]
    plain = getattr(owner, name)

    def die_at_the_second(*args, **kwargs):
        relevant = kill_at != "publish" or "+" in str(args[0])
        relevant &= kill_at != "unlink" or str(args[0]).endswith(".checkpoint")
        calls.append(relevant)
        if sum(calls) == (1 if kill_at == "unlink" else 2) and relevant:
            raise SystemExit
        return plain(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die_at_the_second)
        with pytest.raises(SystemExit):
            dlb.sweep(quiet, both, T, 3, tmp_path)
    assert len(computed) == 6
    store = dlb.sweep(quiet, both, T, 3, tmp_path)
    assert len(computed) == 6
    assert_same(store, "quiet", "myopic", 3)
    assert len(store.result("quiet", "clairvoyant").seeds) == 3
    assert list(store.work.iterdir()) == []


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
    asked = {"problems": {"quiet": PROBLEMS["quiet"]}, "policies": {"myopic": dlb.myopic},
             "horizon": T, "seeds": 2, "store": tmp_path}  # fmt: skip
    dlb.sweep(**asked)
    with pytest.raises(ValueError, match=rf"'myopic' on 'quiet' already, with .*{message}"):
        dlb.sweep(**asked | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problems": {}}, "problems must have at least one label"),
        ({"problems": {3: PROBLEMS["quiet"]}}, "problems must have at least one label, a string"),
        ({"problems": {"a": "synthetic"}}, "problems must be dlbjax.Problems; 'a' is str"),
        ({"policies": {}}, "policies must have at least one label"),
        ({"policies": {"a": "myopic"}}, "policy must be a dlbjax.Policy"),
        ({"policies": {"a": lambda problem: 3}}, "policy must be a dlbjax.Policy"),
        ({"seeds": 0}, "seeds must be"),
        ({"seeds": [1, 1]}, "seeds must be distinct"),
        ({"horizon": -1}, "horizon must be"),
        ({"checkpoint_every": "often"}, "checkpoint_every must"),
    ],
)
def test_wrong_arguments_are_rejected_before_a_folder_is_made(change, message, tmp_path):
    asked = {"problems": PROBLEMS, "policies": dlb.myopic, "horizon": T, "seeds": 2}
    with pytest.raises(ValueError, match=message):
        dlb.sweep(**asked | change, store=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def broken(problem):
    return dlb.Policy(
        init=lambda params, vertices, key: jnp.zeros(()),
        act=lambda params, vertices, state, epoch: 0,
        update=lambda params, state, feedback: state + jnp.nan,
    )


def test_the_other_policies_are_kept_when_one_fails(tmp_path, computed):
    policies = {"myopic": dlb.myopic, "mine": broken, "clairvoyant": dlb.clairvoyant}
    quiet = {"quiet": PROBLEMS["quiet"]}
    with pytest.raises(FloatingPointError, match=r"became NaN .*All runs that did not fail are in"):
        dlb.sweep(quiet, policies, T, 3, tmp_path)
    store = dlb.Store(tmp_path)
    assert list(store.results("quiet")) == ["clairvoyant", "myopic"]
    assert_same(store, "quiet", "myopic", 3)
    assert list(store.work.iterdir()) == []
    before = len(computed)
    corrected = policies | {"mine": dlb.myopic}  # under the same label, which has no runs yet
    assert len(dlb.sweep(quiet, corrected, T, 3, tmp_path).result("quiet", "mine").seeds) == 3
    assert len(computed) == before + 3


def test_of_two_sweeps_that_begin_at_once_with_one_label_one_is_rejected(tmp_path, monkeypatch):
    """The second looks for the first's description before that is written."""
    folder = tmp_path / "store"
    arguments = ({"myopic": dlb.myopic}, T, 2, folder)
    plain, first = module.Store.add, []

    def another_comes_first(self, series):
        if not first:
            first.append(1)
            dlb.sweep({"quiet": PROBLEMS["loud"]}, *arguments)
        plain(self, series)

    monkeypatch.setattr(module.Store, "add", another_comes_first)
    with pytest.raises(ValueError, match="'myopic' on 'quiet' already, with other problem"):
        dlb.sweep({"quiet": PROBLEMS["quiet"]}, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.evidence)])
def test_kills_change_nothing_and_little_is_computed_again(kills, tmp_path):
    """A process that saves every stretch is killed after a random number of them, several times."""
    rng = np.random.default_rng(5)
    log, folder = tmp_path / "log", tmp_path / "store"
    log.touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([killed.__name__])

    def stretches():
        return log.read_bytes().count(b"\n")

    def start():
        child = context.Process(target=killed.run_and_log, args=(folder, log))
        child.start()
        return child

    for _ in range(kills):
        last, child = stretches() + int(rng.integers(1, 6)), start()
        while child.is_alive() and stretches() < last:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.05)))
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL, "it was over before it was killed so often"
    child = start()
    child.join(timeout=120)
    assert child.exitcode == 0
    store, alone = dlb.Store(folder), killed.run(tmp_path / "alone")
    for policy in ("DynLin-UCB", "Lin-UCB"):
        one, other = (s.result("loud", policy) for s in (store, alone))
        for kind in REGRETS:
            np.testing.assert_array_equal(one.regret(kind), other.regret(kind))
    assert list(store.work.iterdir()) == []
    done = log.read_text().splitlines()
    # Two workers, each with a stretch that is being saved and one that is not saved yet.
    assert len(done) - len(set(done)) <= kills * 2 * 2
