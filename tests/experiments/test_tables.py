"""Tables: every number in them, read back."""

import numpy as np
import pytest
from scipy import stats

import dlbjax as dlb
from dlbjax.experiments import tables

LABELS = ["DynLin-UCB, λ=log T", "DynLin-UCB, λ=1", "Exp3"]
HEADER = [
    "policy",
    "mean",
    "std",
    "standard error",
    "10 %",
    "median",
    "90 %",
    "more than {}",
    "pace",
]


def made(name, axes, seed, runs, seconds):
    rng = np.random.default_rng(seed)
    rounds = np.arange(20, 2001, 20)
    shape = tuple(len(values) for values in axes.values())
    steps = rng.uniform(0, 200, size=(3, *shape, runs, 100))
    return dlb.Result(
        rounds, *steps.cumsum(axis=-1), seeds=np.arange(runs), axes=axes, name=name,
        config={"execution": {"core seconds": seconds}},
    )  # fmt: skip


def results(runs=7):
    lam = {"lam": np.array([np.log(2000), 1.0])}
    return dlb.Results(
        {
            "DynLin-UCB": made("DynLin-UCB", lam, 0, runs, 12.34),
            "Exp3": made("Exp3", {}, 1, runs, 5.0),
        }
    )


def read(text):
    """The sentence above a Markdown table, its header and its rows."""
    above, _, table = text.partition("\n\n")
    assert text.endswith("|\n")
    header, rule, *rows = (
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()
    )
    assert rule == ["---"] * len(header)
    assert {len(row) for row in rows} == {len(header)}
    return above, header, rows


def number(cell):
    return float(cell.replace(",", ""))


def regrets(found):
    """Expected regret of every row, (runs, rounds)."""
    ours = found["DynLin-UCB"].expected_regret
    return [ours[0], ours[1], found["Exp3"].expected_regret]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_final_regret(place):
    found = results()
    above, header, rows = read(tables.final_regret(found, LABELS[place]))
    assert above.startswith("Expected regret after 2,000 rounds, 7 runs.")
    assert header == [cell.format(LABELS[place]) for cell in HEADER]
    assert [row[0] for row in rows] == LABELS
    for (_, *cells), regret in zip(rows, regrets(found), strict=True):
        final = regret[:, -1]
        std = np.sqrt(np.sum((final - final.mean()) ** 2) / 6)
        statistics = [final.mean(), std, std / np.sqrt(7), *np.percentile(final, [10, 50, 90])]
        np.testing.assert_allclose([number(c) for c in cells[:6]], statistics, rtol=0, atol=0.0501)
        # The reporting rounds are 20, 40, …, so that the tenths end at these places.
        late, early = regret[:, 99] - regret[:, 89], regret[:, 49] - regret[:, 39]
        assert number(cells[7]) == pytest.approx(late.mean() / early.mean(), abs=0.00501)


@pytest.mark.parametrize("place", [0, 2])
def test_the_difference_is_taken_run_by_run(place):
    found = results()
    _, _, rows = read(tables.final_regret(found, LABELS[place]))
    final = [regret[:, -1] for regret in regrets(found)]
    for i, row in enumerate(rows):
        if i == place:
            assert row[7] == ""
            continue
        test = stats.ttest_rel(final[i], final[place])
        low, high = test.confidence_interval(0.95)
        more, half = row[7].split(" ± ")
        assert more[0] in "+-"
        assert number(more) == pytest.approx((low + high) / 2, abs=0.501)
        assert number(half) == pytest.approx((high - low) / 2, abs=0.501)


def test_one_run_has_a_mean_and_no_spread():
    found = results(runs=1)
    above, _, rows = read(tables.final_regret(found, LABELS[0]))
    assert "1 runs" in above
    for row, regret in zip(rows, regrets(found), strict=True):
        final = regret[0, -1]
        assert row[2:4] == ["nan", "nan"]
        shown = [number(row[i]) for i in (1, 4, 5, 6)]
        assert shown == pytest.approx([final] * 4, abs=0.0501)
    assert rows[1][7].endswith("± nan")


def test_an_unknown_reference_is_rejected():
    with pytest.raises(KeyError, match="UCB9"):
        tables.final_regret(results(), "UCB9")


def test_timing():
    above, header, rows = read(tables.timing(results()))
    assert above == "Seconds of one core for 2,000 rounds, with compilation."
    assert header == ["policy", "runs", "seconds", "seconds per run"]
    assert rows == [["DynLin-UCB", "14", "12.3", "0.881"], ["Exp3", "7", "5.0", "0.714"]]


def test_markdown():
    text = tables.markdown(["a", "b"], [["1", "2"], ["", "x y"]])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n|  | x y |\n"
