"""Reading a store by label, while it grows, and when something is wrong with it."""

import json
import sys

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.common.archive import read_archive, write_archive
from dlbjax.results.result import REGRETS

PROBLEMS = {"quiet": dlb.problems.synthetic(0.01), "a / strange: näme": dlb.problems.synthetic(0.5)}
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
def copy(tmp_path):
    """A small store of one's own."""
    dlb.sweep({"quiet": PROBLEMS["quiet"]}, {"myopic": dlb.myopic}, T, 4, tmp_path, rounds=ROUNDS)
    return tmp_path


def test_it_says_what_it_holds(folder):
    assert str(dlb.Store(folder)).splitlines() == [
        "problem            policy   points  seeds",
        "a / strange: näme  Lin-UCB       6      4",
        "a / strange: näme  myopic        1      4",
        "quiet              Lin-UCB       6      4",
        "quiet              myopic        1      4",
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


def test_xarray_has_labelled_axes(folder):
    store = dlb.Store(folder)
    data = store.to_xarray(policy="Lin-UCB")
    assert dict(data.sizes) == {
        "problem": 2,
        "policy": 1,
        "lam": 2,
        "delta": 3,
        "seed": 4,
        "round": 2,
    }
    point = {"policy": "Lin-UCB", "lam": 1.0, "delta": 0.3, "seed": 2, "round": 7}
    for problem in PROBLEMS:
        result = store.result(problem, "Lin-UCB")
        found = data.sel(problem=problem, **point).realised_regret.item()
        assert found == result.realised_regret[0, 2, 2, 0]
    with pytest.raises(ValueError, match="has other axes or rounds than"):
        store.to_xarray()


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


def test_a_store_that_grows_shows_the_seeds_that_are_complete(copy):
    reader = dlb.Store(copy)
    assert reader.result().seeds.tolist() == [0, 1, 2, 3]
    problems, policies = {"quiet": PROBLEMS["quiet"]}, {"myopic": dlb.myopic}
    dlb.sweep(problems, policies, T, [8, 6], copy, rounds=ROUNDS)
    assert reader.result().seeds.tolist() == [0, 1, 2, 3, 6, 8]
    alone = dlb.simulate(PROBLEMS["quiet"], dlb.myopic(PROBLEMS["quiet"]), T, [6, 8], rounds=ROUNDS)
    np.testing.assert_array_equal(reader.result().realised_regret[4:], alone.realised_regret)


def test_seeds_without_all_points_are_left_out_of_results_but_not_of_pandas(tmp_path):
    problems = {"quiet": PROBLEMS["quiet"]}
    lin = {"Lin-UCB": POLICIES["Lin-UCB"]}
    dlb.sweep(problems, lin, T, 3, tmp_path, rounds=ROUNDS)
    [shard] = tmp_path.glob("quiet*/[0-9]*.npz")
    header, arrays = read_archive(shard, "a shard")
    header.pop("format")
    half = {
        k: v if k == "seeds" else v[:5] for k, v in arrays.items()
    }  # as if the rest was not done
    write_archive(shard, header, half, compress=False)
    store = dlb.Store(tmp_path)
    assert str(store).split()[-1] == "0"
    assert len(store.to_pandas()) == 5 * 3
    with pytest.raises(ValueError, match="no seed of 'Lin-UCB' on 'quiet' is complete yet"):
        store.result()
    dlb.sweep(problems, lin, T, 3, tmp_path, rounds=ROUNDS)
    assert store.result().seeds.tolist() == [0, 1, 2]
    assert len(store.to_pandas()) == 6 * 3


def test_overlapping_shards_count_once(copy):
    [shard] = copy.glob("quiet*/[0-9]*.npz")
    shard.with_name("0-3-copy.npz").write_bytes(shard.read_bytes())
    store = dlb.Store(copy)
    assert len(store.to_pandas()) == 4
    assert len(store.result().seeds) == 4


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("quiet*/[0-9]*.npz", lambda data: data[:-40], "is not a shard of a store"),
        ("quiet*/[0-9]*.npz", lambda data: b"", "is not a shard of a store"),
        ("quiet*/about.json", lambda data: data[:-4], "is damaged"),
        ("quiet*/about.json", lambda data: b"{}", "is damaged"),
        ("quiet*/about.json", lambda data: b"[1]", "is damaged"),
        ("store.json", lambda data: b"\xff", "is damaged"),
        ("store.json", lambda data: b'{"format": 2}', "has format 2"),
    ],
)
def test_damaged_files_are_named_and_left_unchanged(name, damage, message, copy):
    [path] = copy.glob(name)
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        dlb.Store(copy).result()
    with pytest.raises(ValueError, match=message):
        dlb.sweep({"quiet": PROBLEMS["quiet"]}, {"myopic": dlb.myopic}, T, 4, copy, rounds=ROUNDS)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.array([1])}, "points that the grid does not have"),
        ({"points": np.array([-1])}, "points that the grid does not have"),
        ({"seeds": np.arange(3)}, "does not have shape"),
        ({"seeds": np.array(3)}, "damaged"),
        ({"expected_regret": np.zeros((1, 4, 3))}, "does not have shape"),
    ],
)
def test_shards_with_inconsistent_arrays_are_rejected(change, message, copy):
    [path] = copy.glob("quiet*/[0-9]*.npz")
    header, arrays = read_archive(path, "a shard")
    header.pop("format")
    write_archive(path, header, arrays | change, compress=False)
    with pytest.raises(ValueError, match=message):
        dlb.Store(copy).to_pandas()
    write_archive(path, header | {"series": "other"}, arrays, compress=False)
    with pytest.raises(ValueError, match="belongs to another series"):
        dlb.Store(copy).to_pandas()


def test_other_folders_are_left_alone(tmp_path):
    with pytest.raises(ValueError, match="is not a store of results"):
        dlb.Store(tmp_path)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"other files in it, such as thesis\.tex"):
        dlb.sweep(PROBLEMS, dlb.myopic, T, 2, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(OSError):
        dlb.sweep(PROBLEMS, dlb.myopic, T, 2, tmp_path / "thesis.tex")


def test_about_json_can_be_read_by_people(copy):
    [about] = copy.glob("quiet*/about.json")
    found = json.loads(about.read_text())
    assert (found["problem"], found["policy"], found["rounds"]) == ("quiet", "myopic", ROUNDS)
    assert found["config"]["versions"]["dlbjax"] == dlb.__version__


def test_a_store_stays_where_it_was_opened(copy, monkeypatch):
    monkeypatch.chdir(copy.parent)
    store = dlb.Store(copy.name)
    monkeypatch.chdir("/")
    assert len(store.result().seeds) == 4


def test_a_shard_of_other_settings_is_not_taken_for_one_of_these(copy, tmp_path):
    other = tmp_path / "other"
    problems = {"quiet": PROBLEMS["a / strange: näme"]}
    dlb.sweep(problems, {"myopic": dlb.myopic}, T, 9, other, rounds=ROUNDS)
    [shard], [folder] = other.glob("quiet*/[0-9]*.npz"), copy.glob("quiet*")
    (folder / shard.name).write_bytes(shard.read_bytes())
    with pytest.raises(ValueError, match=r"belongs to another series than its folder\. Remove it"):
        dlb.Store(copy).result()


@pytest.mark.parametrize("name", ["seed", "round", "policy", "problem", "realised_regret"])
def test_axes_cannot_have_the_name_of_a_column(name, tmp_path):
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


@pytest.mark.parametrize("package", ["pandas", "xarray"])
def test_without_the_extra_it_says_how_to_get_it(package, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    store = dlb.Store(folder)
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "dlbjax\[xarray\]"'):
        getattr(store, f"to_{package}")("quiet", "myopic")
