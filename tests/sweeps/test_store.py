"""Reading a store by label, while it grows, with plain xarray, and when something is wrong with it."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
import xarray

import dlbjax as dlb
from dlbjax.results.result import REGRETS
from dlbjax.sweeps import layout, run

PROBLEMS = {
    "quiet": dlb.problems.synthetic(0.01),
    "a / strange: [näme]": dlb.problems.synthetic(0.5),
}
QUIET, MYOPIC = {"quiet": PROBLEMS["quiet"]}, {"myopic": dlb.myopic}
POLICIES = {
    "Lin-UCB": lambda p: dlb.lin_ucb(dlb.Bounds.of(p, 0.2), lam=[1.0, 9.0], delta=[0.1, 0.2, 0.3]),
    "myopic": dlb.myopic,
}
T, ROUNDS = 60, [7, 60]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    dlb.sweep(PROBLEMS, POLICIES, T, 4, folder, rounds=ROUNDS)
    return folder


@pytest.fixture
def copy(folder, tmp_path):
    """A store of one's own."""
    return shutil.copytree(folder, tmp_path / "copy")


def test_it_says_what_it_holds(folder):
    assert str(dlb.Store(folder)).splitlines() == [
        "problem              policy   points  seeds  complete",
        "a / strange: [näme]  Lin-UCB       6      4      100%",
        "a / strange: [näme]  myopic        1      4      100%",
        "quiet                Lin-UCB       6      4      100%",
        "quiet                myopic        1      4      100%",
    ]


def test_results_by_label(folder):
    store = dlb.Store(folder)
    results = store.results("quiet")
    assert list(results) == ["Lin-UCB", "myopic"]
    alone = dlb.simulate(
        PROBLEMS["quiet"], POLICIES["Lin-UCB"](PROBLEMS["quiet"]), T, 4, rounds=ROUNDS
    )
    for kind in REGRETS:
        np.testing.assert_array_equal(results["Lin-UCB"].regret(kind), alone.regret(kind))
    last = store.result("quiet", "Lin-UCB", rounds=[60])
    assert last.rounds.tolist() == [60]
    np.testing.assert_array_equal(last.expected_regret, alone.expected_regret[..., 1:])
    results.plot()


def test_pandas_has_a_row_for_every_run(folder):
    store = dlb.Store(folder)
    frame = store.to_pandas()
    assert frame.columns.tolist()[:6] == ["problem", "policy", "lam", "delta", "seed", "round"]
    assert len(frame) == 2 * (6 + 1) * 4
    assert set(frame["round"]) == {60}
    result = store.result("quiet", "Lin-UCB")
    row = frame.query("problem == 'quiet' and lam == 9 and delta == 0.2 and seed == 3")
    assert row["expected_regret"].item() == result.expected_regret[1, 1, 3, -1]
    assert row["realised_regret"].item() == result.realised_regret[1, 1, 3, -1]
    both = store.to_pandas("quiet", "myopic", rounds=ROUNDS)
    assert both["round"].tolist() == ROUNDS * 4
    myopic = store.result("quiet", "myopic")
    np.testing.assert_array_equal(both["offline_regret"], myopic.offline_regret.ravel())


@pytest.mark.parametrize("options", [{}, {"engine": "zarr"}])
def test_plain_xarray_shows_everything(options, folder, tmp_path):
    path = folder.rename(folder.with_suffix(".zarr")) if not options else folder
    try:
        with xarray.open_datatree(path, **options) as tree:  # warnings are errors
            problems = {node.name: node for node in tree.children.values()}
            assert sorted(problems) == ["a %2F strange: %5Bnäme%5D", "quiet"]
            series = problems["quiet"]["Lin-UCB"]
            assert series.dims == {"lam": 2, "delta": 3, "seed": 4, "round": 2}
            assert series.lam.values.tolist() == [1.0, 9.0]
            assert series.attrs["config"]["versions"]["dlbjax"] == dlb.__version__
            assert (series.attrs["problem"], series.attrs["policy"]) == ("quiet", "Lin-UCB")
            assert problems["a %2F strange: %5Bnäme%5D"]["myopic"].attrs["problem"] in PROBLEMS
            point = series.sel(lam=1.0, delta=0.3, seed=2, round=7)
            found = dlb.Store(path).result("quiet", "Lin-UCB").realised_regret[0, 2, 2, 0]
            assert point.realised_regret.item() == found
            assert series.complete.all()
    finally:
        if path != folder:
            path.rename(folder)
    assert dlb.Store(folder).to_xarray()["quiet/myopic"].dims == {"seed": 4, "round": 2}


def test_axes_keep_their_order_and_kind(tmp_path):
    myopic = dlb.myopic(PROBLEMS["quiet"])
    axes = {"z": np.array(["one", "zwölf"]), "y": np.array([1, 2]), "x": np.array([0.5, np.inf])}
    grid = dlb.PolicyGrid(axes, [myopic] * 8)
    store = dlb.sweep(QUIET, {"grid": grid}, T, 2, tmp_path, rounds=ROUNDS)
    found = store.result().axes
    assert {n: v.tolist() for n, v in found.items()} == {n: v.tolist() for n, v in axes.items()}
    assert list(found) == ["z", "y", "x"]
    series = store.to_xarray()["quiet/grid"]
    assert series.z.values.tolist() == ["one", "zwölf"]
    assert series.x.dtype == np.float64
    assert series.y.dtype == np.int64


def test_unknown_labels_are_rejected_with_a_hint(folder):
    store = dlb.Store(folder)
    with pytest.raises(ValueError, match=r"there is no problem 'queit' here, did you mean quiet\?"):
        store.result("queit", "myopic")
    with pytest.raises(ValueError, match="there is no policy 'x' here"):
        store.to_pandas(policy="x")
    with pytest.raises(ValueError, match="there are 4 series; choose one, such as problem="):
        store.result()
    with pytest.raises(ValueError, match="there are several problems; choose one"):
        store.results()
    for rounds in ([8], [61], [7, 59], [60, 7], [7, 7], [], 60, "60", [7.0]):
        with pytest.raises(ValueError, match="rounds must be some of the reporting rounds"):
            store.result("quiet", "myopic", rounds=rounds)


def test_a_reader_sees_what_was_added(copy):
    reader = dlb.Store(copy)
    assert reader.result("quiet", "myopic").seeds.tolist() == [0, 1, 2, 3]
    dlb.sweep(QUIET, MYOPIC, T, [8, 6], copy, rounds=ROUNDS)
    result = reader.result("quiet", "myopic")
    assert result.seeds.tolist() == [0, 1, 2, 3, 8, 6]
    alone = dlb.simulate(PROBLEMS["quiet"], dlb.myopic(PROBLEMS["quiet"]), T, [8, 6], rounds=ROUNDS)
    np.testing.assert_array_equal(result.realised_regret[4:], alone.realised_regret)


def test_seeds_without_all_points_are_left_out(copy):
    (copy / "quiet/Lin-UCB/complete/c/1/2/0").unlink()  # as if these runs were not done
    store = dlb.Store(copy)
    assert "quiet                Lin-UCB       6      4       83%" in str(store)
    assert set(store.to_pandas("quiet")["policy"]) == {"myopic"}
    assert len(store.complete(store.series()[2])) == 0
    assert list(store.results("quiet")) == ["myopic"]
    with pytest.raises(ValueError, match="no seed of 'Lin-UCB' on 'quiet' is complete yet"):
        store.result("quiet", "Lin-UCB")
    dlb.sweep(QUIET, POLICIES, T, 4, copy, rounds=ROUNDS)
    assert store.result("quiet", "Lin-UCB").seeds.tolist() == [0, 1, 2, 3]


def test_a_series_can_be_dropped(copy):
    store = dlb.Store(copy)
    store.drop("quiet", "Lin-UCB")
    assert [s.label for s in store.series()][-1] == "'myopic' on 'quiet'"
    assert len(store.series()) == 3
    assert not (copy / "quiet/Lin-UCB").exists()
    assert sorted(store.to_xarray()["quiet"].children) == ["myopic"]


def test_a_series_that_another_sweep_left_out_of_the_root_is_taken_over(copy, monkeypatch):
    before = (copy / "zarr.json").read_bytes()
    dlb.sweep(QUIET, {"best": dlb.clairvoyant}, T, 3, copy, rounds=ROUNDS)
    (copy / "zarr.json").write_bytes(before)  # of a sweep that had read it earlier
    assert len(dlb.Store(copy).series()) == 4
    monkeypatch.setattr("dlbjax.sweeps.run.compute", None)  # nothing is left to compute
    store = dlb.sweep(QUIET, {"best": dlb.clairvoyant}, T, 3, copy, rounds=ROUNDS)
    assert len(store.result("quiet", "best").seeds) == 3


# --- damage ---------------------------------------------------------------------------------------


def everything(path):
    """All numbers in a store, by series."""
    store = dlb.Store(path)
    found = {}
    for series in store.series():
        result = store.result(series.problem, series.policy)
        arrays = [result.regret(kind) for kind in REGRETS]
        arrays += [result.seeds, result.rounds, *result.axes.values()]
        found[series.problem, series.policy] = [array.tolist() for array in arrays]
        found[series.problem, series.policy].append(dict(result.config))
    return found


def notices(path, sound):
    """Whether the reader rejects a store, which must then name what to do; else all must be sound."""
    try:
        found = everything(path)
    except ValueError as error:
        told = str(error)
    else:
        assert found == sound
        return False
    assert "is damaged" in told
    assert ("/seed of" in told) == (").drop(" in told) == ("repair=True" not in told)
    return True


@pytest.mark.parametrize("flips", [20, pytest.param(1000, marks=pytest.mark.evidence)])
def test_flipped_bits_are_noticed_or_harmless_and_repaired(flips, copy):
    rng, sound = np.random.default_rng(3), everything(copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    sizes = np.array([path.stat().st_size for path in files])
    noticed = repaired = 0
    for i in range(flips):
        # Half of the flips anywhere in the store, half in a file of its own choice.
        path = files[rng.choice(len(files), p=sizes / sizes.sum() if i % 2 else None)]
        content = path.read_bytes()
        changed = bytearray(content)
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        found = notices(copy, sound)
        noticed += found
        if found and repaired < flips // 20 and path.parts[-3] != "seed":
            dlb.sweep(PROBLEMS, POLICIES, T, 4, copy, rounds=ROUNDS, repair=True)
            assert everything(copy) == sound
            repaired += 1
        else:
            path.write_bytes(content)
    assert noticed > flips // 4
    assert repaired > 0


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("quiet/Lin-UCB/expected_regret/c/1/1/0/0", "quiet/Lin-UCB/expected_regret"),
        ("quiet/Lin-UCB/seed/c/0", "quiet/Lin-UCB/seed"),
        ("quiet/Lin-UCB/round/c/0", "quiet/Lin-UCB/round"),
    ],
)
def test_missing_files_are_noticed(name, what, copy):
    (copy / name).unlink()
    with pytest.raises(ValueError, match=f"{what} of .* is damaged: "):
        dlb.Store(copy).result("quiet", "Lin-UCB")
    if "regret" in name:
        with pytest.raises(
            ValueError, match=f"{what}.* is damaged: the file is missing; .*repair=True"
        ):
            dlb.sweep(QUIET, POLICIES, T, 4, copy, rounds=ROUNDS)


def test_a_chunk_that_vanishes_during_a_sweep_is_noticed_before_it_is_done(copy, monkeypatch):
    plain = run.compute

    def compute_and_lose(task, *rest):
        plain(task, *rest)
        (copy / "quiet/myopic/offline_regret/c/0/0").unlink()

    monkeypatch.setattr(run, "compute", compute_and_lose)
    with pytest.raises(ValueError, match="is damaged: the file is missing"):
        dlb.sweep(QUIET, MYOPIC, T, 6, copy, rounds=ROUNDS)
    monkeypatch.undo()
    store = dlb.sweep(QUIET, MYOPIC, T, 6, copy, rounds=ROUNDS, repair=True)
    assert len(store.result("quiet", "myopic").seeds) == 6


def test_repair_computes_only_the_damaged_chunk(copy, monkeypatch):
    sound = everything(copy)
    path = copy / "quiet/Lin-UCB/expected_regret/c/1/1/0/0"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    batches, plain = [], run.compute

    def compute(task, batch, *rest):
        batches.append(batch)
        plain(task, batch, *rest)

    monkeypatch.setattr(run, "compute", compute)
    dlb.sweep(PROBLEMS, POLICIES, T, 4, copy, rounds=ROUNDS, repair=True)
    [batch] = batches
    assert batch.points.tolist() == [4]
    assert everything(copy) == sound


def test_other_formats_and_other_folders_are_left_alone(copy, tmp_path):
    root = json.loads((copy / "zarr.json").read_bytes())
    del root["attributes"]["digest"]
    root["attributes"]["format"] = 9
    root["attributes"]["digest"] = layout.digest_of(root)
    (copy / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(ValueError, match="has format 9, but this version of dlbjax reads format 3"):
        dlb.sweep(QUIET, MYOPIC, T, 4, copy, rounds=ROUNDS, repair=True)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(ValueError, match="is not a store of results"):
        dlb.Store(other)
    (other / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"holds other files, such as thesis\.tex"):
        dlb.sweep(PROBLEMS, dlb.myopic, T, 2, other)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="holds other files, such as itself"):
        dlb.sweep(PROBLEMS, dlb.myopic, T, 2, other / "thesis.tex")


def test_a_store_stays_where_it_was_opened(copy, monkeypatch):
    monkeypatch.chdir(copy.parent)
    store = dlb.Store(copy.name)
    monkeypatch.chdir("/")
    assert len(store.result("quiet", "myopic").seeds) == 4


@pytest.mark.parametrize(
    "name", ["seed", "round", "policy", "problem", "realised_regret", "complete"]
)
def test_axes_cannot_have_the_name_of_something_else(name, tmp_path):
    policy = dlb.myopic(PROBLEMS["quiet"])
    grid = dlb.PolicyGrid({name: np.array([1.0, 2.0])}, [policy, policy])
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of an axis"):
        dlb.sweep(PROBLEMS, {"a": grid}, T, 2, tmp_path / "a")


def test_equal_values_on_an_axis_are_different_points(tmp_path):
    myopic, best = (make(PROBLEMS["quiet"]) for make in (dlb.myopic, dlb.clairvoyant))
    grid = dlb.PolicyGrid({"a": np.array([1.0, 1.0])}, [myopic, best])
    frame = dlb.sweep({"p": PROBLEMS["quiet"]}, {"g": grid}, T, 3, tmp_path).to_pandas()
    assert len(frame) == 6
    assert (frame["offline_regret"] == 0).sum() == 3


@pytest.mark.parametrize("package", ["pandas", "xarray", "zarr", "fsspec"])
def test_without_the_extra_it_says_how_to_get_it(package, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "dlbjax\[sweeps\]"'):
        getattr(dlb.Store(folder), f"to_{'xarray' if package == 'xarray' else 'pandas'}")()


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of an S3-compatible server on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1" if "REGION" in name else "test")
    try:
        for _ in range(300):
            try:
                request = urllib.request.Request(f"{address}/runs", method="PUT")
                urllib.request.urlopen(request, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield "s3://runs"
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client for S3
def test_object_stores_work_as_folders_do(bucket, folder):
    address = f"{bucket}/deep/runs.zarr"
    with pytest.raises(ValueError, match="is not a store of results"):
        dlb.Store(address)
    grid = {"both": dlb.PolicyGrid({"a": np.arange(2)}, [dlb.myopic(PROBLEMS["quiet"])] * 2)}
    dlb.sweep(QUIET, MYOPIC, T, 2, address, rounds=ROUNDS)
    store = dlb.sweep(QUIET, MYOPIC | grid, T, 4, address, rounds=ROUNDS)
    assert store.path == address
    there, here = store.result("quiet", "myopic"), dlb.Store(folder).result("quiet", "myopic")
    np.testing.assert_array_equal(there.realised_regret, here.realised_regret)
    with xarray.open_datatree(address, engine="zarr") as tree:
        assert tree["quiet/both"].dims == {"a": 2, "seed": 4, "round": 2}
    store.drop("quiet", "both")
    assert [series.policy for series in store.series()] == ["myopic"]
    store._folder.remove("quiet/myopic/offline_regret/c/0/0")
    with pytest.raises(ValueError, match="is damaged"):
        store.result()
    dlb.sweep(QUIET, MYOPIC, T, 4, address, rounds=ROUNDS, repair=True)
    assert len(store.result().seeds) == 4
