"""Results as tables: every number is where its labels say."""

import json

import numpy as np
import pytest

import dlbjax as dlb
from tests.results.test_selection import made, several

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")


def test_a_row_for_every_run_and_policies_with_different_axes_in_one_table():
    results = several()
    frame = results.to_pandas()
    regrets = ["realised_regret", "expected_regret", "offline_regret"]
    assert list(frame) == ["policy", "lam", "rho_bar", "seed", "round", *regrets]
    assert len(frame) == (2 + 4 + 1) * 4
    assert set(frame["round"]) == {20}
    b = frame[(frame.policy == "B") & (frame.rho_bar == 0.2) & (frame.lam == 1.0)]
    assert list(b.seed) == [7, 8, 9, 10]
    np.testing.assert_array_equal(b.offline_regret, results["B"].offline_regret[1, 0, :, -1])
    assert frame[frame.policy == "A"].rho_bar.isna().all()
    assert frame[frame.policy == "C"].lam.isna().all()


def test_rounds_on_request():
    result = made(lam=[1.0, 2.0])
    frame = result.to_pandas(rounds=[5, 20])
    row = frame[(frame.lam == 2.0) & (frame.seed == 9) & (frame["round"] == 5)]
    assert row.expected_regret.item() == result.expected_regret[1, 2, 1]
    assert len(result.to_pandas(result.rounds)) == 2 * 4 * 3
    with pytest.raises(ValueError, match="rounds must be among the reporting rounds"):
        result.to_pandas(rounds=[6])


@pytest.mark.parametrize("kind", ["realised", "offline"])
def test_the_table_has_a_row_for_every_curve(kind):
    results = several()
    table = results.table(kind, quantiles=(0.25,))
    assert list(table.index) == results.labels()
    columns = ["policy", "lam", "rho_bar", "runs", "round", "mean", "std", "standard error", "25 %"]
    assert list(table) == columns
    row = table.loc["B, ρ̄=0.2, λ=2"]
    final = results["B"].regret(kind)[1, 1, :, -1]
    assert (row.policy, row.lam, row.rho_bar, row.runs, row["round"]) == ("B", 2.0, 0.2, 4, 20)
    assert row["mean"] == pytest.approx(sum(final) / 4)
    assert row["std"] == pytest.approx(np.sqrt(sum((final - sum(final) / 4) ** 2) / 3))
    assert row["standard error"] == pytest.approx(row["std"] / 2)
    assert row["25 %"] == pytest.approx(np.percentile(final, 25))
    assert list(results["C"].table(kind).index) == ["D"]


def test_a_tree_has_a_node_for_every_policy():
    results = several()
    tree = results.to_xarray()
    assert list(tree.children) == ["A", "B", "C"]
    found = tree["B/expected_regret"].sel(rho_bar=0.1, lam=2.0, seed=8, round=5)
    assert float(found) == results["B"].expected_regret[0, 1, 1, 1]
    assert tree["C"].attrs["name"] == "D"
    assert json.loads(tree["C"].attrs["config"]) == {}


def test_concatenated_problems_have_a_numeric_coordinate():
    whole = dlb.concat({0.01: several(), 0.1: several()}, "sigma")
    assert set(whole.to_pandas().sigma) == {0.01, 0.1}
    assert list(whole.to_xarray()["A"].coords["sigma"].values) == [0.01, 0.1]
