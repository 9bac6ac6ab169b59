"""Parts of results by label and by value, and several results as one."""

from dataclasses import replace

import numpy as np
import pytest

import dlbjax as dlb


def made(name="D", runs=4, seed=0, **axes):
    rng = np.random.default_rng(seed)
    shape = tuple(len(values) for values in axes.values())
    return dlb.Result(
        np.array([1, 5, 20]), *rng.normal(size=(3, *shape, runs, 3)), seeds=np.arange(runs) + 7,
        axes={axis: np.array(values) for axis, values in axes.items()}, name=name,
    )  # fmt: skip


GRID = {"gamma": [0.9, 0.99, 1 - 1e-6], "lam": [np.log(20), 1.0]}


def several():
    return dlb.Results(
        {
            "A": made(lam=[np.log(20), 1.0]),
            "B": made(rho_bar=[0.1, 0.2], lam=[1.0, 2.0], seed=1),
            "C": made(seed=2),
        }
    )


@pytest.mark.parametrize(
    ("values", "index", "labels"),
    [
        ({"gamma": 0.99, "lam": 1}, (1, 1), ["D, γ=0.99, λ=1"]),
        ({"lam": "log T", "gamma": 1 - 1e-6}, (2, 0), ["D, λ=log T, γ=1−1e-06"]),
        ({"lam": 1.0}, (slice(None), 1), ["D, λ=1, γ=0.9", "D, λ=1, γ=0.99", "D, λ=1, γ=1−1e-06"]),
        ({"gamma": [0.99, 0.9], "lam": 1}, ([1, 0], 1), ["D, λ=1, γ=0.99", "D, λ=1, γ=0.9"]),
    ],
)  # fmt: skip
def test_values_of_axes(values, index, labels):
    result = made(**GRID)
    part = result.sel(**values)
    for kind in ("realised", "expected", "offline"):
        np.testing.assert_array_equal(part.regret(kind), result.regret(kind)[index])
    assert part.labels() == labels
    np.testing.assert_array_equal(part.seeds, result.seeds)


def test_seeds_and_what_was_recorded_follow():
    state = {"sum": np.arange(3 * 2 * 4 * 2).reshape(3, 2, 4, 2)}
    actions = np.arange(3 * 2 * 4 * 20).reshape(3, 2, 4, 20)
    result = replace(made(**GRID), actions=actions, policy_state=state)
    part = result.sel(seed=[9, 7], gamma=0.9)
    np.testing.assert_array_equal(part.seeds, [9, 7])
    np.testing.assert_array_equal(part.actions, actions[0][:, [2, 0]])
    np.testing.assert_array_equal(part.policy_state["sum"], state["sum"][0][:, [2, 0]])
    np.testing.assert_array_equal(part.expected_regret, result.expected_regret[0][:, [2, 0]])
    np.testing.assert_array_equal(result.sel(seed=8).seeds, [8])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lam": 3}, "'D' has no value 3 of lam. Possible are log T, 1"),
        ({"lam": "λ"}, "'D' has no value 'λ' of lam. Possible are log T, 1"),
        ({"gama": 3}, r"'D' has no axis 'gama', did you mean gamma\? Possible are gamma, lam"),
        ({"seed": 3}, "'D' has no value 3 of seed. Possible are 7, 8, 9, 10"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(values, message):
    with pytest.raises(ValueError, match=message):
        made(**GRID).sel(**values)


def test_axes_of_names():
    result = made(kind=["wide", "narrow"])
    assert result.labels() == ["D, kind=wide", "D, kind=narrow"]
    assert result.sel(kind="narrow").labels() == ["D, kind=narrow"]
    with pytest.raises(ValueError, match="has no value 1 of kind"):
        result.sel(kind=1)


def test_labels_of_policies_and_curves_in_any_order():
    results = several()
    part = results.sel("C", "B, ρ̄=0.2, λ=1", "A")
    assert part.labels() == ["C", "B, ρ̄=0.2, λ=1", "A, λ=log T", "A, λ=1"]
    curve = part["B, ρ̄=0.2, λ=1"]
    np.testing.assert_array_equal(curve.expected_regret, results["B"].expected_regret[1, 0])
    assert isinstance(part, dlb.Results)
    with pytest.raises(
        ValueError, match=r"'B, λ=1', did you mean .*Possible are A, B, C, A, λ=log T"
    ):
        results.sel("B, λ=1")


def test_values_apply_to_policies_that_have_the_axis():
    results = several()
    assert results.sel(lam=1).labels() == ["A, λ=1", "B, λ=1, ρ̄=0.1", "B, λ=1, ρ̄=0.2", "C"]
    assert results.sel(lam=2).labels() == ["B, λ=2, ρ̄=0.1", "B, λ=2, ρ̄=0.2", "C"]  # A has none
    assert results.sel("A", "B", rho_bar=0.2, lam=[1]).labels() == ["A, λ=1", "B, ρ̄=0.2, λ=1"]
    with pytest.raises(ValueError, match=r"no policy has an axis 'lamb', did you mean lam\?"):
        results.sel(lamb=1)
    with pytest.raises(ValueError, match="'D' has no value 9 of lam"):
        results.sel("A", lam=9)


# --- concatenation --------------------------------------------------------------------------------


def test_results_of_several_problems_become_one_with_a_numeric_axis(tmp_path):
    parts = {sigma: several() for sigma in (0.01, 0.1)}
    for i, part in enumerate(parts.values()):
        for name in part:
            part[name] = replace(part[name], expected_regret=part[name].expected_regret + i)
    whole = dlb.concat(parts, "sigma")
    assert list(whole) == ["A", "B", "C"]
    assert whole["C"].labels() == ["D, σ=0.01", "D, σ=0.1"]
    assert list(whole["B"].axes) == ["sigma", "rho_bar", "lam"]
    for i, (sigma, part) in enumerate(parts.items()):
        for name, result in part.items():
            np.testing.assert_array_equal(whole[name].expected_regret[i], result.expected_regret)
            picked = whole.sel(sigma=sigma)[f"{name}, σ={sigma}"]
            np.testing.assert_array_equal(picked.offline_regret, result.offline_regret)
    assert whole["A"].axes["sigma"].dtype == float
    whole.save(tmp_path / "r.npz")
    assert dlb.load(tmp_path / "r.npz").labels() == whole.labels()


def test_single_results_and_names_as_values():
    whole = dlb.concat({"calm": made(), "rough": made(seed=1)}, "world")
    assert isinstance(whole, dlb.Result)
    assert whole.labels() == ["D, world=calm", "D, world=rough"]
    assert whole.expected_regret.shape == (2, 4, 3)


@pytest.mark.parametrize(
    ("parts", "axis", "error", "message"),
    [
        ({}, "sigma", ValueError, "parts must hold at least one result"),
        ({1: made(), 2: several()}, "sigma", TypeError, "all be Result or all Results; got Result, Results"),
        ({1: 3}, "sigma", TypeError, "all be Result or all Results; got int"),
        ({1: made(), "a": made()}, "sigma", TypeError, "keys of parts must be numbers, or all names"),
        ({1: made(lam=[1.0])}, "lam", ValueError, "'D' has an axis 'lam' already"),
        ({1: made()}, "seed", ValueError, "axis must be a name other than policy, seed, round; got 'seed'"),
        ({1: made(), 2: made(runs=3)}, "s", ValueError, "parts must have the same seeds"),
        ({1: made(), 2: made(lam=[1.0])}, "s", ValueError, "the same axes; those of 'D' are"),
        ({1: made(lam=[2.0]), 2: made(lam=[1.0])}, "s", ValueError, "the same values of lam"),
        ({1: several(), 2: several().sel("A")}, "s", ValueError, "2 has A, the first has A, B, C"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_rejected(parts, axis, error, message):
    with pytest.raises(error, match=message):
        dlb.concat(parts, axis)
