"""Problem files: the problems they give, and one-line errors for everything invalid."""

import json
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import QhullError

import dlbjax as dlb
from dlbjax.model.files import read_problem

SYSTEM = {
    "A": [[0.6, 0.1], [0.0, 0.5]],
    "B": [[0.3, 0.0, 0.1], [0.0, 0.4, 0.0]],
    "omega": [1, 0.5],
    "theta": [0.1, 0.0, 0.3],
    "state_noise": [0.01, 0.02],
    "reward_noise": 0.05,
    "x1": [0.2, 0.0],
}
BUDGET = {"kind": "budget", "low": 0.0, "high": [1.0, 1.0, 0.5], "total": 1.5}
JSON = json.dumps({"system": SYSTEM, "actions": BUDGET})
TOML = """\
[system]
A = [[0.6, 0.1], [0.0, 0.5]]
B = [[0.3, 0.0, 0.1], [0.0, 0.4, 0.0]]
omega = [1, 0.5]
theta = [0.1, 0.0, 0.3]
state_noise = [0.01, 0.02]
reward_noise = 0.05
x1 = [0.2, 0.0]

[actions]
kind = "budget"
low = 0.0
high = [1.0, 1.0, 0.5]
total = 1.5
"""


@pytest.fixture
def write(tmp_path):
    def write(content, name="problem.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def with_(text, **system):
    """A JSON file whose system has further entries; `text` stands for the actions."""
    return json.dumps({"system": {**SYSTEM, **system}, "actions": text})


def assert_same(one, other):
    for name in type(one.system).__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one.system, name), getattr(other.system, name))
    np.testing.assert_array_equal(one.actions.vertices, other.actions.vertices)
    assert one.actions.convex == other.actions.convex


@pytest.mark.parametrize(("text", "name"), [(JSON, "problem.json"), (TOML, "problem.toml")])
def test_a_file_gives_the_problem_that_python_gives(text, name, write):
    arguments = {key: value for key, value in BUDGET.items() if key != "kind"}
    expected = dlb.Problem(dlb.System(**SYSTEM), dlb.actions.budget(**arguments))
    assert_same(read_problem(write(text, name)), expected)
    assert_same(read_problem(str(write(text, name))), expected)
    assert_same(read_problem(write(b"\xef\xbb\xbf" + text.encode(), name)), expected)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (
            {"kind": "polytope", "G": [[-1, 0, 0], [0, -1, 0], [0, 0, -1]], "g": [0, 0, 0],
             "A_eq": [[1, 1, 2]], "b_eq": [2]},
            dlb.actions.polytope(-np.eye(3), np.zeros(3), [[1, 1, 2]], [2]),
        ),
        ({"kind": "simplex", "d": 3, "total": 2.0}, dlb.actions.simplex(3, 2.0)),
        ({"kind": "simplex", "d": 3}, dlb.actions.simplex(3)),
        ({"kind": "hypercube", "d": 3, "low": -1.0, "high": 2}, dlb.actions.hypercube(3, -1, 2)),
        (
            {"kind": "finite", "points": [[1, 0, 0], [0, 0.5, 0]]},
            dlb.actions.finite([[1, 0, 0], [0, 0.5, 0]]),
        ),
    ],
)  # fmt: skip
def test_every_kind_of_action_set(actions, expected, write):
    problem = read_problem(write(with_(actions)))
    assert_same(problem, dlb.Problem(dlb.System(**SYSTEM), expected))


def test_the_key_fit_is_not_read(write):
    content = {"system": SYSTEM, "actions": BUDGET, "fit": [{"anything": None}, True]}
    assert_same(read_problem(write(json.dumps(content))), read_problem(write(JSON)))
    assert_same(read_problem(write("fit = nan\n" + TOML, "fit.toml")), read_problem(write(JSON)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value: line 1"),
        ('{"system": {', "line 1 column 13"),
        (b"\xff\xfe{}", "must be UTF-8 text; byte 0 is not"),
        ("[]", r"the file must be a table with the keys system, actions, fit \(optional\); got \[\]"),
        ("{}", "the file lacks the key 'system'"),
        (json.dumps({"system": SYSTEM}), "the file lacks the key 'actions'"),
        (
            json.dumps({"system": SYSTEM, "actions": BUDGET, "sytem": {}}),
            r"the file has an unknown key 'sytem'; its keys are system, actions, fit \(optional\)",
        ),
        (json.dumps({"system": 3, "actions": BUDGET}), "system must be a table .*; got 3"),
        (json.dumps({"system": {}, "actions": BUDGET}), "system lacks the key 'A'"),
        (with_(BUDGET, C=1), r"system has an unknown key 'C'; its keys are A, B, .*x1 \(optional\)"),
        (with_(BUDGET, A=[[True]]), "system.A must hold numbers only; got True"),
        (with_(BUDGET, sigma=True), "system.sigma must hold numbers only; got True"),
        (with_(BUDGET, x1=None), "system.x1 must hold numbers only; got None"),
        (with_(BUDGET, omega=["1", 2]), "system.omega must hold numbers only; got '1'"),
        (with_(BUDGET, omega={"a": 1}), "system.omega must hold numbers only; got {'a': 1}"),
        (with_(BUDGET, omega=1), r"omega must have shape \(2,\); got shape \(\)"),
        (with_(BUDGET, A=[[0.1, 0.2], [0.3]]), "A must hold real numbers in shape"),
        (with_(BUDGET, A=[[2.0, 0.0], [0.0, 0.0]]), "A must be stable"),
        (with_(BUDGET, sigma=-1), "sigma must be >= 0"),
        (with_(BUDGET, theta=[10**400, 0, 0]), "system.theta must be finite; got 1000"),
        (with_(BUDGET).replace("0.05", "1e999"), "system.reward_noise must be finite; got inf"),
        (with_(BUDGET).replace("0.05", "9" * 5000), "4300 digits"),
        (with_(BUDGET, state_noise=1e200), "state_noise must be finite"),
        (with_(BUDGET).replace("0.05", "NaN"), "numbers must be finite; got NaN"),
        (with_(BUDGET).replace("0.05", "-Infinity"), "numbers must be finite; got -Infinity"),
        (
            JSON.replace('"x1"', '"omega"'),
            "the key 'omega' appears twice in one table",
        ),
        ("[" * 100_000, "nested too deeply"),
        (with_(BUDGET).replace("0.05", "[" * 400 + "]" * 400), "reward_noise"),
        (with_([]), "actions must have a kind, one of budget, polytope, simplex, hypercube, finite"),
        (with_({}), "actions must have a kind, .*; got None"),
        (with_({"kind": ["budget"]}), r"actions must have a kind, .*; got \['budget'\]"),
        (with_({"kind": "sphere"}), "actions must have a kind, .*; got 'sphere'"),
        (
            with_({**BUDGET, "totl": 1}),
            "actions has an unknown key 'totl'; its keys are low, high, total",
        ),
        (with_({"kind": "finite"}), "actions lacks the key 'points'"),
        (with_({**BUDGET, "total": "1.5"}), "actions.total must hold numbers only; got '1.5'"),
        (with_({**BUDGET, "total": -1}), "total must cover the lower limits"),
        (with_({**BUDGET, "high": [1, 1]}), "actions have 2 coordinates but B has 3 columns"),
        (with_({"kind": "simplex", "d": 90_000}), "actions.d must be 3, the columns of B; got 90000"),
        (with_({"kind": "hypercube", "d": 2.5}), "actions.d must be 3, the columns of B; got 2.5"),
        (with_({"kind": "polytope", "G": [[1, 1, 1]], "g": [1]}), "the action set must be bounded"),
    ],
)  # fmt: skip
def test_an_error_in_a_json_file_is_one_line(text, message, write):
    assert_rejected(write(text), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[system", "Expected ']' at the end of a table declaration"),
        (b"\xff", "must be UTF-8 text"),
        (TOML.replace("x1", "omega"), "Cannot overwrite a value .at line 8"),
        (TOML.replace("0.05", "nan"), "system.reward_noise must be finite; got nan"),
        (TOML.replace("0.05", "-inf"), "system.reward_noise must be finite; got -inf"),
        (
            TOML.replace("0.05", "1979-05-27"),
            "system.reward_noise must hold numbers only; got date",
        ),
        (TOML.replace("0.05", "true"), "system.reward_noise must hold numbers only; got True"),
        (TOML.replace("0.05", "0x" + "f" * 5000), "4300 digits"),
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("seed = 1\n" + TOML, "the file has an unknown key 'seed'"),
    ],
)
def test_an_error_in_a_toml_file_is_one_line(text, message, write):
    assert_rejected(write(text, "problem.toml"), message)


def assert_rejected(path, message):
    with pytest.raises(ValueError) as error:
        read_problem(path)
    shown = str(error.value)
    assert shown.startswith(f"{path}: ")
    assert re.search(message, shown), shown
    assert len(shown.splitlines()) == 1
    assert len(shown) < len(str(path)) + 250


def test_other_suffixes_and_missing_files_are_rejected(write):
    assert_rejected(write("", "problem.yaml"), "a problem file must end in .json or .toml")
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        read_problem("missing.json")


def test_a_failure_of_qhull_is_reported_in_one_line(write, monkeypatch):
    def fails(*arguments):
        raise QhullError("QH6154 Qhull precision error\n\nWhile executing: | qhull H")

    monkeypatch.setattr(dlb.actions, "HalfspaceIntersection", fails)
    assert_rejected(write(JSON), "the vertices of the action set cannot be found")


@st.composite
def mutated(draw):
    """A valid file with a few bytes changed, removed or put in."""
    name, text = draw(st.sampled_from([("json", JSON), ("toml", TOML)]))
    data = bytearray(text.encode())
    typical = st.sampled_from(list(b'0159.-+eE[]{}",:=#\n ntf'))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data) - 1))
        byte = draw(typical | st.integers(0, 255))
        change = draw(st.sampled_from(["flip", "remove", "insert"]))
        data[place : place + (change != "insert")] = [] if change == "remove" else [byte]
    return name, bytes(data)


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_a_damaged_file_is_read_or_rejected(tmp_path_factory, file):
    name, data = file
    path = tmp_path_factory.getbasetemp() / f"mutated.{name}"
    path.write_bytes(data)
    try:
        read_problem(path)
        return
    except ValueError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.toml", ".".join(["a"] * 200) + " = 1", "more than 100 dotted parts"),
        ("p.toml", "#" * (2**16 + 1), "may have 65,536 bytes at most"),
        ("p.json", " " * (2**23 + 1), "may have 8,388,608 bytes at most"),
    ],
)
def test_files_beyond_the_limits_are_rejected_before_they_are_parsed(name, content, said, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=said):
        dlb.read_problem(tmp_path / name)


def test_time_does_not_grow_with_the_square_of_the_keys(tmp_path):
    keys = ", ".join(f'"{i}": 1' for i in range(30_000))
    (tmp_path / "p.json").write_text(f'{{"fit": {{{keys}, "29999": 2}}}}')
    begun = time.process_time()
    with pytest.raises(ValueError, match="the key '29999' appears twice"):
        dlb.read_problem(tmp_path / "p.json")
    assert time.process_time() - begun < 2  # 20 s if every key is compared with all others
