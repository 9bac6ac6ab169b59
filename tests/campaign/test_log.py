"""Reading tables, and errors about bad ones."""

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
        ('fb,sales\n1,"2,000"\n', "line 2: sales must be a number such as 1234.5; got '2,000'"),
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
        ("1.1.2026,1,2,3\n", "line 2: day must be a date such as 2026-11-16; got '1.1.2026'"),
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
