"""Runs that are stopped part of the way go on from their checkpoint, and end as if nothing had been."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.common import files
from dlbjax.common.archive import read_archive, write_archive
from dlbjax.engine import checkpoint, identity, simulate
from dlbjax.engine import run as driver
from dlbjax.engine.plan import as_grid, make_groups
from dlbjax.engine.run import Progress
from dlbjax.engine.settings import check_settings
from tests.policies.test_contract import OWN, POLICIES

PROBLEM = dlb.problems.synthetic(0.1)
BOUNDS = dlb.Bounds.of(PROBLEM, rho_bar=0.2)
MANY = {
    "DynLin-UCB": dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM, rho_bar=[0.1, 0.2])),
    "Exp3": dlb.exp3(BOUNDS),
    "mine": OWN,
}
NOISE = dlb.Noise(
    *(0.1 * np.random.default_rng(0).normal(size=shape) for shape in [(6, 900, 3), (6, 900)])
)
GRID, MINE = ({name: MANY[name]} for name in ("DynLin-UCB", "mine"))
CASES = {
    "drawn": {"policy": MANY},
    "recorded": {"policy": MINE, "record": ("actions", "rewards", "states", "policy")},
    "replayed": {"policy": GRID, "noise": NOISE},
    "float32": {"policy": GRID, "dtype": "float32"},
}


class Bar:
    """A progress bar that counts rounds, and interrupts once it has seen enough calls."""

    def __init__(self, calls=10**9):
        self.calls, self.rounds = calls, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def update(self, rounds):
        self.calls -= 1
        self.rounds += rounds
        if self.calls < 0:
            raise KeyboardInterrupt


def run(monkeypatch, bar, path, policy=MANY, horizon=900, seeds=6, **options):
    monkeypatch.setattr(simulate, "progress_bar", lambda *_: bar)
    options = {"chunk": 1, "batch": 4, "checkpoint_every": 0.0} | options
    return dlb.simulate(PROBLEM, policy, horizon, seeds, checkpoint=path, **options)


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(arrays(one)), jax.tree.leaves(arrays(other)), strict=True):
        np.testing.assert_array_equal(a, b)


def arrays(results):
    fields = ("realised_regret", "expected_regret", "offline_regret", "actions", "rewards",
              "states", "policy_state")  # fmt: skip
    return [[getattr(result, field) for field in fields] for result in results.values()]


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_an_interrupted_call_goes_on_and_ends_as_an_uninterrupted_one(
    options, tmp_path, monkeypatch
):
    path = tmp_path / "run.checkpoint"
    whole = run(monkeypatch, Bar(), None, **options)
    for calls in (2, 3, 4):
        with pytest.raises(KeyboardInterrupt):
            run(monkeypatch, Bar(calls), path, **options)
    # On other devices, in other jobs, with another chunk.
    devices = jax.devices()[:1] * 3
    again = run(monkeypatch, Bar(), path, **options | {"devices": devices, "batch": 5, "chunk": 2})
    assert_same(whole, again)


def test_nothing_that_was_saved_is_computed_again(tmp_path, monkeypatch):
    path, calls = tmp_path / "run.checkpoint", []
    plain = driver._advance

    def counted(*args):
        calls.append((args[0].act, int(args[6])))
        return plain(*args)

    monkeypatch.setattr(driver, "_advance", counted)
    monkeypatch.setattr(checkpoint, "_SHARE", float("inf"))  # saves whenever it can
    options = {"devices": jax.devices()[:1], "batch": 24}  # one worker, a job for each pass
    run(monkeypatch, Bar(), None, **options)
    whole, calls[:] = sorted(map(str, calls)), []
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, Bar(8), path, **options)
    saved = len(read_archive(path, "a checkpoint")[0]["pieces"])
    bar = Bar()
    run(monkeypatch, bar, path, **options)
    assert saved > 1
    assert bar.rounds == 900 * 6 * 4  # rounds × seeds × policies
    again = sorted(map(str, calls))
    assert len(again) - len(whole) <= 1  # the stretch at whose end it was interrupted
    assert set(again) == set(whole)
    monkeypatch.setattr(driver, "_advance", None)  # whatever it computed would fail
    run(monkeypatch, Bar(), path, **options)


def other_update(params, state, feedback):
    sums, counts = state
    return sums.at[feedback.action].add(feedback.last), counts.at[feedback.action].add(2)


def scaled(constant):
    def act(params, vertices, state, epoch):
        return jnp.argmax(jnp.asarray(constant, vertices.dtype) * state[0])

    return OWN._replace(act=act)


def exploring(every):
    """Differs from others of its kind in few epochs."""

    def plan(epoch):
        return epoch.index % every == 0

    schedule = dlb.Schedule(params=OWN.params, plan=plan)
    return OWN._replace(prepare=lambda horizon, vertices: schedule)


def with_number(number):
    schedule = dlb.Schedule(params={"optimism": 0.7, "number": number})
    return OWN._replace(prepare=lambda horizon, vertices: schedule)


def table(numbers):
    return scaled(np.asarray(numbers))


TEN = np.arange(10.0)
OTHERS = {
    "horizon": (OWN, OWN, {"horizon": 901}, "horizon: 900 there, 901 here"),
    "dtype": (OWN, OWN, {"dtype": "float32"}, "dtype: float64 there, float32 here"),
    "seeds": (OWN, OWN, {"seeds": 7}, "other seeds"),
    "other seeds": (OWN, OWN, {"seeds": [0, 1, 2, 3, 4, 6]}, "other seeds"),
    "rounds": (OWN, OWN, {"rounds": [5]}, "other rounds"),
    "record": (OWN, OWN, {"record": "actions"}, "other record"),
    "params": (OWN, OWN._replace(params={"optimism": 0.8}), {}, "other policies"),
    "epochs": (OWN, OWN._replace(epochs=2), {}, "other policies"),
    "code": (OWN, OWN._replace(update=other_update), {}, "other program"),
    "number in the code": (scaled(1.0), scaled(2.0), {}, "other program"),
    "array in the code": (table(TEN), table(-TEN), {}, "other program"),
    "ten digits": (
        scaled(np.array([2147480000])),
        scaled(np.array([2147480001])),
        {},
        "other program",
    ),
    "digits of an array": (table(TEN), table(TEN * (1 + 1e-12)), {}, "other program"),
    "digits of params": (
        OWN._replace(params={"optimism": np.float64(0.7)}),
        OWN._replace(params={"optimism": 0.7 + 1e-14}),
        {},
        "other policies",
    ),
    "ten digits of computed params": (
        with_number(2147480000),
        with_number(2147480001),
        {},
        "other policies",
    ),
    "plan": (exploring(450), exploring(449), {}, "other policies"),
    "digits of lambda": (
        dlb.lin_ucb(BOUNDS, 1.0),
        dlb.lin_ucb(BOUNDS, 1 + 1e-13),
        {},
        "other policies",
    ),
    "lambda": (dlb.lin_ucb(BOUNDS, 1.0), dlb.lin_ucb(BOUNDS, 2.0), {}, "other policies"),
    "delta": (dlb.lin_ucb(BOUNDS, 1.0), dlb.lin_ucb(BOUNDS, 1.0, 0.1), {}, "other policies"),
}


@pytest.mark.parametrize(("policy", "other", "options", "message"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_another_call_is_refused_before_anything_compiles(
    policy, other, options, message, tmp_path, monkeypatch
):
    path = tmp_path / "run.checkpoint"
    monkeypatch.setattr("dlbjax.engine.run._begin", None)
    with pytest.raises(TypeError):  # leaves a checkpoint without any piece
        run(monkeypatch, Bar(), path, policy)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        run(monkeypatch, Bar(), path, other, **options)
    assert path.read_bytes() == before


def test_another_problem_or_versions_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    options = {"horizon": 20, "seeds": 2, "checkpoint": path}
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), **options)
    for other in (dlb.problems.synthetic(0.2), dlb.problems.real_world(0.1)):
        with pytest.raises(ValueError, match=r"another call, with other problem"):
            dlb.simulate(other, dlb.myopic(PROBLEM), **options)
    monkeypatch.setattr(identity, "versions", lambda: {"dlbjax": "9.9"})
    with pytest.raises(ValueError, match=r"other versions: .* there, \{'dlbjax': '9.9'\} here"):
        dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), **options)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.checkpoint"
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2, checkpoint=path)
    return path


def refused(path, match):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=match):
        dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2, checkpoint=path)
    assert path.read_bytes() == before


def test_a_truncated_checkpoint_is_refused(saved):
    whole = saved.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 12).astype(int):
        saved.write_bytes(whole[:size])
        refused(saved, "not a checkpoint")


def test_a_changed_byte_is_noticed_or_without_effect(saved):
    whole, expected = saved.read_bytes(), read_archive(saved, "a checkpoint")
    rng = np.random.default_rng(1)
    noticed = 0
    for place in rng.integers(len(whole), size=150):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(changed)
        try:
            header, arrays = read_archive(saved, "a checkpoint")
        except ValueError:
            noticed += 1
        else:
            assert header == expected[0]
            assert arrays.keys() == expected[1].keys()
            assert all(np.array_equal(arrays[k], expected[1][k]) for k in arrays)
    assert noticed > 75


def change(saved, **fields):
    header, arrays = read_archive(saved, "a checkpoint")
    header.pop("format")
    pieces = [header["pieces"][0] | fields.pop("piece", {})]
    for name, array in fields.pop("arrays", {}).items():
        arrays[name] = array
    write_archive(saved, header | {"pieces": pieces} | fields, arrays, compress=False)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"kind": "Result"}, "holds a Result of dlbjax, not a checkpoint"),
        ({"identity": {}}, "another call"),
        ({"pieces": 3}, "damaged checkpoint"),
        ({"pieces": [{}]}, "damaged checkpoint"),
        ({"piece": {"segments": 3}}, "do not belong together"),
        ({"piece": {"segments": -256}}, "do not belong together"),
        ({"piece": {"segments": 256_000}}, "do not belong together"),
        ({"piece": {"group": 1}}, "damaged checkpoint"),
        ({"piece": {"leaves": 99}}, "damaged checkpoint"),
        ({"arrays": {"0/runs": np.array([0, 7])}}, "damaged checkpoint"),
        ({"arrays": {"0/runs": np.array([0.5])}}, "damaged checkpoint"),
        ({"arrays": {"0/runs": np.zeros(0, int)}}, "damaged checkpoint"),
        ({"arrays": {"0/carry/0": np.zeros(3)}}, "do not fit"),
    ],
)
def test_a_forged_checkpoint_is_refused(fields, match, saved):
    change(saved, **fields)
    refused(saved, match)


def test_a_result_or_another_file_is_not_overwritten(tmp_path):
    path = tmp_path / "run.npz"
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2).save(path)
    refused(path, "holds a Result of dlbjax, not a checkpoint")
    path.write_text("my notes")
    refused(path, "not a checkpoint")


def test_a_place_that_cannot_be_written_is_noticed_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("dlbjax.engine.run._begin", None)
    for path in (tmp_path / "no" / "such" / "folder", tmp_path):
        with pytest.raises(OSError):
            dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, checkpoint=path)
    with pytest.raises(ValueError, match="checkpoint_every must be"):
        dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, checkpoint_every=-1)


def test_fingerprints_are_the_same_in_every_process():
    here = {name: identity_of(name) for name in POLICIES}
    script = """
        import json
        from tests.engine.test_checkpoint import POLICIES, identity_of
        print(json.dumps({name: identity_of(name) for name in POLICIES}))
    """
    there = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.getcwd()},
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert json.loads(there.stdout) == here
    assert len({json.dumps(parts) for parts in here.values()}) == len(POLICIES)


def identity_of(name):
    settings = check_settings(3, 60, 4, None, (), None, "float64", None, None, None)
    settings = settings._replace(promotion="strict")
    policy = POLICIES[name](PROBLEM)
    groups = make_groups(PROBLEM, as_grid(policy), settings)
    return [policy.name, identity.of_call([PROBLEM], [groups], settings)]


def test_the_file_is_written_when_all_workers_have_handed_in_and_not_more_often(
    tmp_path, monkeypatch
):
    now, writes = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def write(path, header, arrays, compress):
        writes.append((now[0], [piece["segments"] for piece in header["pieces"]]))
        now[0] += 0.5  # which it takes

    monkeypatch.setattr(checkpoint, "write_archive", write)
    kept = checkpoint.Checkpoint(tmp_path / "a", {}, every=10.0)
    one, two = (0, 0), (0, 4)
    kept.begin(one)
    kept.begin(two)

    def offer(key, segments, finished=False):
        """Returns whether a snapshot was taken."""
        taken = []

        class Snapshot:
            def progress(self):
                taken.append(True)
                return Progress(np.array([key[1]]), segments, 0, [], {})

        kept.offer(key, Snapshot(), finished, urgent=False)
        return bool(taken)

    assert not offer(one, 128)
    now[0] = 11.0
    assert offer(one, 256)
    assert not offer(one, 512)  # until the other has offered one, too
    assert writes == []
    assert offer(two, 512)
    assert writes == [(11.0, [256, 512])]
    now[0] = 60.0
    assert not offer(one, 768)  # half a second every ten would be too much: now every fifty
    now[0] = 62.0
    assert offer(one, 1024, finished=True)
    assert len(writes) == 1
    assert offer(two, 768)
    assert writes[1:] == [(62.0, [1024, 768])]
    now[0] = 200.0
    assert offer(two, 1024, finished=True)
    assert writes[2:] == [(200.0, [1024, 1024])]


def test_a_disk_that_is_full_for_a_while_does_not_end_the_call(tmp_path, monkeypatch):
    path, plain, writes = tmp_path / "run.checkpoint", checkpoint.write_archive, []

    def full_at_the_second(*args, **options):
        writes.append(1)
        if len(writes) == 2:
            raise OSError(28, "No space left on device")
        plain(*args, **options)

    monkeypatch.setattr(checkpoint, "write_archive", full_at_the_second)
    with pytest.warns(UserWarning, match=r"could not be written \(No space left on device\)"):
        dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2, checkpoint=path)
    assert read_archive(path, "a checkpoint")[0]["pieces"] == []  # the one of the start


def test_what_a_killed_writer_left_is_removed_and_what_others_write_is_not(tmp_path):
    path = tmp_path / "run.checkpoint"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead, alive = (files._part(path) for _ in range(2))
    dead = dead.with_name(dead.name.replace(f"-{os.getpid()}-", f"-{child.pid}-"))
    alive = alive.with_name(alive.name.replace(f"-{os.getpid()}-", f"-{os.getppid()}-"))
    for part in (dead, alive):
        part.touch()
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2, checkpoint=path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([alive.name, path.name])


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "far")
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, seeds=2, checkpoint=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "far").is_symlink()
    refused_for_other_seeds = {"seeds": 3, "checkpoint": tmp_path / "link"}
    with pytest.raises(ValueError, match="other seeds"):
        dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 20, **refused_for_other_seeds)


def test_the_digest_of_the_code_changes_with_it(tmp_path):
    copy = tmp_path / "dlbjax"
    shutil.copytree(Path(dlb.__file__).parent, copy)

    def digest():
        script = "from dlbjax.engine import identity; print(identity.source())"
        return subprocess.check_output(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )

    before = digest()
    assert before.decode().strip() == identity.source()
    with (copy / "policies" / "lin_ucb.py").open("a") as file:
        file.write("# edited\n")
    assert digest() != before
