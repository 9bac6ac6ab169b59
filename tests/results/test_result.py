"""Results: statistics, labels, files."""

import json
import os
import pickle
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dlbjax as dlb


def made(shape=(), runs=4, seed=0, **fields):
    """A result of random numbers: files and statistics do not care where they come from."""
    rng = np.random.default_rng(seed)
    names = ["rho_bar", "lam", "delta", "gamma"][: len(shape)]
    axes = {name: rng.uniform(size=size) for name, size in zip(names, shape, strict=True)}
    regrets = rng.normal(size=(3, *shape, runs, 5))
    return dlb.Result(
        np.array([1, 2, 5, 10, 20]), *regrets, seeds=np.arange(runs) + 7, axes=axes, name="mine",
        config={"horizon": 20, "versions": {"dlbjax": "1.2.3"}}, **fields,
    )  # fmt: skip


def assert_same(one, other):
    for name in ("rounds", "seeds", "realised_regret", "expected_regret", "offline_regret",
                 "actions", "rewards", "states"):  # fmt: skip
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    assert list(one.axes) == list(other.axes)
    for name in one.axes:
        np.testing.assert_array_equal(one.axes[name], other.axes[name])
    assert (one.name, one.config) == (other.name, other.config)


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["realised", "expected", "offline"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_summary_is_over_seeds(shape, kind):
    result = made(shape)
    summary = result.summary(kind, quantiles=(0.25, 0.5))
    regret = getattr(result, f"{kind}_regret")
    for place in np.ndindex(*shape, 5):
        over_seeds = regret[(*place[:-1], slice(None), place[-1])]
        assert summary.mean[place] == pytest.approx(sum(over_seeds) / 4)
        spread = np.sqrt(sum((over_seeds - sum(over_seeds) / 4) ** 2) / 3)
        assert summary.std[place] == pytest.approx(spread)
        assert summary.standard_error[place] == pytest.approx(spread / 2)
        assert summary.quantiles[(1, *place)] == pytest.approx(sum(sorted(over_seeds)[1:3]) / 2)
        assert summary.quantiles[(0, *place)] == pytest.approx(np.percentile(over_seeds, 25))


def test_one_run_has_no_spread():
    summary = made(runs=1).summary()
    assert np.all(np.isnan(summary.std))
    assert np.all(np.isnan(summary.standard_error))
    np.testing.assert_array_equal(summary.mean, made(runs=1).expected_regret[0])


def test_an_unknown_kind_is_rejected():
    with pytest.raises(
        ValueError, match="kind must be one of realised, expected, offline; got 'x'"
    ):
        made().regret("x")


def test_labels_follow_the_leading_axes():
    result = made((2, 1))
    rho, lam = result.axes["rho_bar"], result.axes["lam"]
    assert result.labels() == [f"mine, ρ̄={r:g}, λ={lam[0]:g}" for r in rho]
    assert made().labels() == ["mine"]


@pytest.mark.parametrize(
    ("axis", "value", "shown"),
    [
        ("lam", np.log(20), "λ=log T"),
        ("lam", np.log(20) + 1e-6, "λ=2.99573"),
        ("lam", 1.0, "λ=1"),
        ("delta", np.log(20), "δ=2.99573"),
        ("gamma", 1 - 1e-6, "γ=1−1e-06"),
        ("gamma", 1 - 1e-9, "γ=1−1e-09"),
        ("gamma", 1 - 1e-4, "γ=0.9999"),
        ("gamma", 0.99, "γ=0.99"),
        ("gamma", 1.0, "γ=1"),
        ("rho_bar", 0.0, "ρ̄=0"),
        ("batch", 1e6, "batch=1e+06"),
    ],
)
def test_labels_show_readable_values(axis, value, shown):
    result = replace(made((1,)), axes={axis: np.array([value])})
    assert result.labels() == [f"mine, {shown}"]


@pytest.mark.parametrize(
    "values",
    [
        [0.99, 0.999, 1 - 1e-5, 1 - 1e-6, 1.0],
        pytest.param([1 - 1.2e-5, 1 - 1.4e-5]),
    ],
)
def test_different_values_have_different_labels(values):
    result = replace(made((len(values),)), axes={"gamma": np.array(values)})
    assert len(set(result.labels())) == len(values)


# --- files ----------------------------------------------------------------------------------------

RECORDED = {
    "actions": np.arange(80, dtype=np.int16).reshape(4, 20),
    "rewards": np.linspace(0, 1, 80).reshape(4, 20),
    "states": np.linspace(0, 1, 240, dtype=np.float32).reshape(4, 20, 3),
}


@pytest.mark.parametrize(
    "result",
    [made(), made((3,)), made((2, 1, 3)), made(runs=1), made(**RECORDED)],
    ids=["plain", "one axis", "three axes", "one run", "recorded"],
)
def test_a_result_survives_saving_and_loading(result, tmp_path):
    result.save(tmp_path / "r.npz")
    assert_same(dlb.load(tmp_path / "r.npz"), result)


def test_results_are_loaded_in_order(tmp_path):
    results = dlb.Results({"b": made((2,)), "a/b": made(seed=1, **RECORDED), "ρ": made(seed=2)})
    results.save(str(tmp_path / "r.npz"))
    again = dlb.load(str(tmp_path / "r.npz"))
    assert isinstance(again, dlb.Results)
    assert list(again) == ["b", "a/b", "ρ"]
    for name in results:
        assert_same(again[name], results[name])


def test_a_simulated_result_survives_with_its_config(tmp_path):
    problem = dlb.problems.synthetic()
    policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=[0.1, 0.2]), lam=2.0)
    result = dlb.simulate(problem, policy, 20, seeds=2, record=("actions", "rewards", "states"))
    result.save(tmp_path / "r.npz")
    again = dlb.load(tmp_path / "r.npz")
    assert_same(again, result)
    assert again.config["versions"]["dlbjax"] == dlb.__version__
    assert [p["params"]["lam"] for p in again.config["policies"]] == [2.0, 2.0]
    np.testing.assert_array_equal(again.config["problem"]["system"]["A"], problem.system.A)
    np.testing.assert_array_equal(again.config["problem"]["vertices"], problem.actions.vertices)


def with_header(**changes):
    """The file of a result with parts of it replaced, None to leave one out."""

    def write(path):
        made().save(path)
        with np.load(path) as file:
            arrays = {**file, **changes}
        np.savez(path, **{name: values for name, values in arrays.items() if values is not None})

    return write


def with_bytes(change):
    def write(path):
        made().save(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def array_alone(path):
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))


BROKEN = {
    "truncated": with_bytes(lambda good: good[: len(good) // 2]),
    "cut at the end": with_bytes(lambda good: good[:-10]),
    "empty": with_bytes(lambda good: b""),
    "garbage": with_bytes(lambda good: b"garbage" * 100),
    "pickle": with_bytes(lambda good: pickle.dumps({"a": 1})),
    "one array": array_alone,
    "no header": with_header(dlbjax=None),
    "array missing": with_header(rounds=None),
    "other format": with_header(dlbjax=np.array('{"format": 99, "kind": "Result"}')),
    "header no json": with_header(dlbjax=np.array("{")),
    "header no object": with_header(dlbjax=np.array("[]")),
    "pickled header": with_header(dlbjax=np.array({"a": 1}, dtype=object)),
}

INVALID = {
    "rounds is missing": with_header(rounds=None),
    "rounds must hold whole numbers; got float64": with_header(rounds=np.arange(1.0, 6.0)),
    "rounds must increase strictly": with_header(rounds=np.array([1, 2, 2, 3, 4])),
    "rounds must have shape (any,) and not be empty; got shape (0,)": with_header(
        rounds=np.zeros(0, int)
    ),
    "seeds must be distinct": with_header(seeds=np.array([1, 2, 3, 1])),
    "realised_regret must have shape (4, 5) to match its axes, seeds and rounds; got shape (5, 4)": (
        with_header(realised_regret=np.zeros((5, 4)))
    ),
    "offline_regret must be finite; got nan at index (0, 1)": with_header(
        offline_regret=np.array([[0, np.nan, 0, 0, 0]] * 4)
    ),
    "expected_regret must hold floats; got complex128": with_header(
        expected_regret=np.zeros((4, 5), complex)
    ),
    "actions must have shape (4, 20)": with_header(actions=np.zeros((4, 5), int)),
    "states must have shape (4, 20, any)": with_header(states=np.zeros((4, 20))),
    "rewards must be finite; got inf at index (0, 0)": with_header(
        rewards=np.full((4, 20), np.inf)
    ),
    "its kind must be Result or Results; got 'Table'": with_header(
        dlbjax=np.array('{"format": 1, "kind": "Table", "results": []}')
    ),
    "its header must list one result": with_header(
        dlbjax=np.array('{"format": 1, "kind": "Result", "results": []}')
    ),
    "its header must give the config of every result": with_header(
        dlbjax=np.array(
            '{"format": 1, "kind": "Result", "results": [{"name": "a", "axes": [], "config": 1}]}'
        )
    ),
    "axes in its header must be distinct names; got ['a', 'a']": with_header(
        dlbjax=np.array(
            '{"format": 1, "kind": "Result", "results": [{"name": "a", "axes": ["a", "a"], "config": {}}]}'
        )
    ),
    "axis_lam is missing": with_header(
        dlbjax=np.array(
            '{"format": 1, "kind": "Result", "results": [{"name": "a", "axes": ["lam"], "config": {}}]}'
        )
    ),
    "its header is not JSON": with_header(dlbjax=np.array("{")),
    "'rounds' in it is not an array of numbers or text": with_header(
        rounds=np.array([None, 1], dtype=object)
    ),
    "it is not an .npz archive, or it is damaged": with_bytes(lambda good: good[: len(good) // 2]),
}


@pytest.mark.parametrize("message", INVALID)
def test_the_error_says_what_is_wrong_with_a_file(message, tmp_path):
    INVALID[message](tmp_path / "r.npz")
    with pytest.raises(ValueError, match=re.escape(f"r.npz is not a dlbjax result: {message}")):
        dlb.load(tmp_path / "r.npz")


@pytest.mark.parametrize("write", BROKEN.values(), ids=BROKEN)
def test_a_file_without_a_result_is_rejected_by_path_and_closed(write, tmp_path):
    path = tmp_path / "r.npz"
    write(path)
    with pytest.raises(ValueError, match="is not a dlbjax result") as error:
        dlb.load(path)
    assert str(path) in str(error.value)
    still_open = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert str(path) not in still_open


def test_a_changed_byte_is_noticed_or_changes_nothing(tmp_path):
    path, noticed = tmp_path / "r.npz", 0
    with_bytes(lambda good: good)(path)
    good, whole = dlb.load(path), path.read_bytes()
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            again = dlb.load(path)
        except ValueError:
            noticed += 1
        else:
            np.testing.assert_array_equal(again.expected_regret, good.expected_regret)
            assert again.config == good.config
    assert noticed > 10


def test_nothing_in_a_file_is_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    np.savez(tmp_path / "r.npz", dlbjax=np.array([Bomb()], dtype=object))
    (tmp_path / "p.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("r.npz", "p.npz"):
        with pytest.raises(ValueError, match="is not a dlbjax result"):
            dlb.load(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_a_missing_file_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        dlb.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError, match="none"):
        made().save(tmp_path / "none" / "r.npz")


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    made().save(tmp_path / "r.npz")
    before = (tmp_path / "r.npz").read_bytes()

    def breaks_off(file, *arguments, **arrays):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", breaks_off)
    monkeypatch.setattr(np, "savez", breaks_off)
    with pytest.raises(OSError, match="no space left"):
        made(seed=1).save(tmp_path / "r.npz")
    assert (tmp_path / "r.npz").read_bytes() == before
    assert os.listdir(tmp_path) == ["r.npz"]


def test_a_saved_file_has_ordinary_permissions(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    made().save(tmp_path / "r.npz")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "r.npz")}
    assert len(modes) == 1


# --- xarray ---------------------------------------------------------------------------------------


def test_to_xarray_labels_the_axes():
    pytest.importorskip("xarray")
    result = made((2, 3), actions=np.zeros((2, 3, 4, 20), int), states=np.zeros((2, 3, 4, 20, 2)))
    data = result.to_xarray()
    assert data["expected_regret"].dims == ("rho_bar", "lam", "seed", "round")
    assert data["actions"].dims == ("rho_bar", "lam", "seed", "t")
    assert data["states"].dims == ("rho_bar", "lam", "seed", "t", "state")
    assert "rewards" not in data
    lam, seed = result.axes["lam"][1], 9
    for kind in ("realised", "expected", "offline"):
        found = data[f"{kind}_regret"].isel(rho_bar=1).sel(lam=lam, seed=seed, round=10)
        assert float(found) == result.regret(kind)[1, 1, 2, 3]
    assert data.attrs["name"] == "mine"
    assert json.loads(data.attrs["config"]) == result.config


def test_results_print_as_a_few_lines():
    problem = dlb.problems.synthetic()
    bounds = dlb.Bounds.of(problem)
    policies = {"a": dlb.dynlin_ucb(bounds, lam=[1.0, 2.0]), "<b>\x1b[31m": dlb.myopic(problem)}
    results = dlb.simulate(problem, policies, 200, 4, record=["actions"])
    one = results["a"]
    lines = repr(one).splitlines()
    assert lines[0].startswith("Result of a: 4 seeds × 2 lam, 200 rounds, ")
    assert lines[0].endswith(" with actions")
    final = one.expected_regret[1, :, -1]
    error = final.std(ddof=1) / 2
    assert lines[2].endswith(f"expected regret {final.mean():.6g} ± {error:.2g}")
    assert len(lines) == 3
    assert repr(results).startswith("Results of 2 policies\nResult of a")
    assert "\x1b" not in repr(results)
    assert "<b>" not in results._repr_html_()
    assert len(repr(one.summary()).splitlines()) == 3
    assert one.summary()._repr_html_().startswith("<pre>Summary of 2 points")
    many = dlb.simulate(problem, dlb.dynlin_ucb(bounds, lam=np.arange(1.0, 31.0)), 50)
    assert len(repr(many).splitlines()) == 12
    assert "± nan" not in repr(many)
