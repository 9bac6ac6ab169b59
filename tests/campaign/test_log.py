"""Reading tables, and errors about bad ones."""

import time
import tracemalloc
from datetime import datetime, timedelta

import numpy as np
import pytest

from dlbjax.campaign import read_log

HEAD = "day,fb,google,sales\n"


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_columns_are_found_by_name(tmp_path):
    path = written(tmp_path, "sales,google,note,fb\n1,2,x,3\n4,5,,6\n")
    log = read_log(path, ["fb", "google"], "sales")
    np.testing.assert_array_equal(log.spend, [[3, 2], [6, 5]])
    np.testing.assert_array_equal(log.rewards, [[1, 4]])
    assert (log.channels, log.reward, log.last, log.step) == (("fb", "google"), "sales", None, None)


@pytest.mark.parametrize("text", [
    "fb;sales\n1;2\n3;4\n", "fb\tsales\r\n1\t2\r\n3\t4\r\n", "\ufefffb,sales\n\n1 , 2\n3,4",
    'fb,sales\n"1",2\n3,"4"\n',
])  # fmt: skip
def test_other_ways_to_write_a_table(tmp_path, text):
    log = read_log(written(tmp_path, text), ["fb"], "sales")
    np.testing.assert_array_equal(log.spend[:, 0], [1, 3])
    np.testing.assert_array_equal(log.rewards[0], [2, 4])


@pytest.mark.parametrize("cell", ["", "NaN", "NA", "null", " "])
def test_a_missing_reward(tmp_path, cell):
    log = read_log(written(tmp_path, f"fb,sales\n1,2\n3,{cell}\n"), ["fb"], "sales")
    np.testing.assert_array_equal(log.rewards[0], [2, np.nan])


def test_dates_put_rows_in_order(tmp_path):
    path = written(tmp_path, HEAD + "2026-01-03,3,0,3\n2026-01-01,1,0,1\n2026-01-02,2,0,2\n")
    log = read_log(path, ["fb"], "sales", "day")
    np.testing.assert_array_equal(log.rewards, [[1, 2, 3]])
    assert (log.last, log.step) == (datetime(2026, 1, 3), timedelta(days=1))


def test_months_are_no_gaps(tmp_path):
    rows = "".join(f"2026-{month:02}-01,1,0,{month}\n" for month in range(1, 13))
    assert len(read_log(written(tmp_path, HEAD + rows), ["fb"], "sales", "day").actions) == 1


def test_a_gap_begins_another_episode(tmp_path):
    days = (1, 2, 3, 7, 8)
    rows = "".join(f"2026-01-{day:02},{day},0,{day}\n" for day in days)
    with pytest.warns(UserWarning, match="1 gap.* the first after 2026-01-03"):
        log = read_log(written(tmp_path, HEAD + rows), ["fb"], "sales", "day")
    assert [list(rewards) for rewards in log.rewards] == [[1, 2, 3], [7, 8]]
    assert [len(actions) for actions in log.actions] == [3, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("fb,sales\n", "there are no rows"),
        ("FB,sales\n1,2\n", "no column 'fb', did you mean FB. Possible are FB, sales"),
        ("fb,fb,sales\n1,2,3\n", "two columns are called 'fb'"),
        ("fb,sales\n1,2\n3\n", "line 3 has 1 cells, the first line has 2"),
        ("fb,sales\n1,2\nmuch,4\n", "line 3: fb must be a number such as 1234.5; got 'much'"),
        ("fb,sales\n1,2\n3,inf\n", "line 3: sales must be a number"),
        ('fb,sales\n1,"2,000"\n', "'2,000' has two meanings; say which sign is the decimal one"),
        ('fb,sales\n1.5,"2,25"\n', "'1.5' and '2,25' have different decimal signs"),
        ("fb,sales\n1_000,2\n", "line 2: fb must be a number such as 1234.5; got '1_000'"),
        ("fb,sales\n1e999,2\n", "line 2: fb must be a finite number"),
        ("fb,sales\n$,2\n", "line 2: fb must be a number"),
        ("fb\x1b[31m,sales\n1,2\n", r"Possible are fb\\x1b\[31m, sales"),
        ("fb,sales\n1,2\n,4\n", "line 3: fb is empty; write 0 where nothing was spent"),
        ('fb,sales\n1,"2\n', "log.csv: "),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path, text, says):
    with pytest.raises(ValueError, match=says):
        read_log(written(tmp_path, text), ["fb"], "sales")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("01-01-19,1,2,3\n", "line 2: day must be a date such as 2026-11-16, .* got '01-01-19'"),
        ("2026-01-01,1,2,3\n2.1.2026,1,2,3\n", "line 3: day must be a date .* as those before"),
        ("1/2/2026,1,2,3\n2/2/2026,1,2,3\n", "could have the day first, or the month"),
        (
            "2026-01-01,1,2,3\n2026-01-02,1,2,3\n2026-01-02,1,2,3\n2026-01-03,1,2,3\n",
            "two are at or just after 2026-01-02; keep one row",
        ),
    ],
)
def test_what_is_wrong_with_dates(tmp_path, rows, says):
    with pytest.raises(ValueError, match=says):
        read_log(written(tmp_path, HEAD + rows), ["fb"], "sales", "day")


def test_columns_must_differ(tmp_path):
    path = written(tmp_path, "fb,sales\n1,2\n")
    with pytest.raises(ValueError, match="'fb' is asked for twice"):
        read_log(path, ["fb", "fb"], "sales")
    with pytest.raises(ValueError, match="'sales' is asked for twice"):
        read_log(path, ["fb", "sales"], "sales")
    with pytest.raises(ValueError, match="at least one column"):
        read_log(path, [], "sales")


def test_text_in_another_encoding(tmp_path):
    with pytest.raises(ValueError, match="must be UTF-8 text"):
        read_log(written(tmp_path, "fb,sales\n1,2€\n", "cp1252"), ["fb"], "sales")


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.234,5", "2.000", "7"], [1234.5, 2000, 7]),
        (["1,234.5", "2,000", "7"], [1234.5, 2000, 7]),
        (["0,5", "1.234"], [0.5, 1234]),
        (["1.234.567", "3"], [1234567, 3]),
        (["$126", "-$3.5", "4 €"], [126, -3.5, 4]),
        (["1 234,5", "1\u00a0000"], [1234.5, 1000]),
        (["0.125", "-1e3", "+.5", "5."], [0.125, -1000, 0.5, 5]),
    ],
)
def test_numbers_are_read_as_they_are_written_together(tmp_path, cells, numbers):
    text = "fb;sales\n" + "".join(f"{cell};1\n" for cell in cells)
    log = read_log(written(tmp_path, text), ["fb"], "sales")
    np.testing.assert_array_equal(log.spend[:, 0], numbers)


def test_a_number_with_two_meanings_is_warned_about(tmp_path):
    path = written(tmp_path, "fb;sales\n1.234;1\n999;2\n")
    with pytest.warns(
        UserWarning, match="'1.234' has two meanings and is read with a decimal point"
    ):
        assert read_log(path, ["fb"], "sales").spend[0, 0] == 1.234
    for signs in ({"decimal": ","}, {"thousands": "."}):
        assert read_log(path, ["fb"], "sales", **signs).spend[0, 0] == 1234
    assert read_log(path, ["fb"], "sales", decimal=".").spend[0, 0] == 1.234
    usual = written(tmp_path, "fb,sales\n1.234,1\n")
    assert read_log(usual, ["fb"], "sales").spend[0, 0] == 1.234


@pytest.mark.parametrize("signs", [{"decimal": "x"}, {"thousands": "7"}, {"decimal": 3},
                                   {"decimal": ".", "thousands": "."}])  # fmt: skip
def test_signs_must_be_signs(tmp_path, signs):
    with pytest.raises(ValueError, match="must be"):
        read_log(written(tmp_path, "fb,sales\n1,2\n"), ["fb"], "sales", **signs)


@pytest.mark.parametrize(
    "days",
    ["1.2.2026 2.2.2026", "1/30/2026 1/31/2026", "30/1/2026 31/1/2026", "2026/01/30 2026/01/31"],
)
def test_other_ways_to_write_a_date(tmp_path, days):
    rows = "".join(f"{day},1,2,3\n" for day in days.split())
    log = read_log(written(tmp_path, HEAD + rows), ["fb"], "sales", "day")
    assert log.last in (datetime(2026, 2, 2), datetime(2026, 1, 31))
    assert log.step == timedelta(days=1)


def test_many_columns_and_many_rows_take_little_time_and_memory(tmp_path):
    names = [f"c{i}" for i in range(20_000)]
    path = written(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    with pytest.raises(ValueError, match="and 19970 more") as error:
        read_log(path, ["fb"], "c1")
    assert len(str(error.value)) < 1000
    path = written(tmp_path, "fb,note,sales\n" + f"1.5,{'x' * 50},2\n" * 100_000)
    tracemalloc.start()
    assert read_log(path, ["fb"], "sales").spend.shape == (100_000, 1)
    assert tracemalloc.get_traced_memory()[1] < 15e6  # the file has 6 MB
    tracemalloc.stop()


def test_time_does_not_grow_with_the_square_of_columns_or_regions(tmp_path):
    names = [f"c{i}" for i in range(20_000)]
    wide = written(tmp_path, ",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    begun = time.process_time()
    assert read_log(wide, names[1:], "c0").spend.shape == (1, 19_999)
    rows = "".join(f"1,2,{name}\n" for name in names)
    long = read_log(written(tmp_path, "fb,sales,where\n" + rows), ["fb"], "sales", region="where")
    assert len(long.actions) == 20_000
    assert time.process_time() - begun < 3  # 30 s if every column or region looks at all others
