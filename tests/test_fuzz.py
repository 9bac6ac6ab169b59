"""Thousands of damaged files: each is read as something sound or refused in a sentence with its path."""

import copy
import io
import json
import os
import pickle
import re
import resource
import time
import zipfile

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.cli import main

NUMBERS = {
    "system": {
        "A": [[0.6, 0.1], [0.0, 0.5]], "B": [[0.3, 0.0], [0.1, 0.4]], "omega": [1, 0.5],
        "theta": [0.1, 0.3], "sigma": 0.1, "state_noise": [0.01, 0.02], "reward_noise": 0.05,
        "x1": [0.2, 0.0],
    },
}  # fmt: skip
ACTIONS = {
    "finite": {"kind": "finite", "points": [[1, 0], [0, 0.5], [0.2, 0.2]]},
    "simplex": {"kind": "simplex", "d": 2, "total": 2.0},
    "hypercube": {"kind": "hypercube", "d": 2, "low": -1.0, "high": 2},
    "budget": {"kind": "budget", "low": 0.0, "high": [1.0, 0.5], "total": 1.2},
    "polytope": {"kind": "polytope", "G": [[-1, 0], [0, -1]], "g": [0, 0], "A_eq": [[1, 2]],
                 "b_eq": [2]},
}  # fmt: skip
KINDS = [*ACTIONS, "finite", "simplex", "hypercube"]  # those without qhull are read faster


class Raw(str):
    """Text for a file that is no value of its format, or that Python would write otherwise."""


NASTY = [
    float("nan"), float("inf"), -float("inf"), Raw("1e400"), Raw("1" * 5000), 10**400, 2**63, -(2**64),
    -1, 0, -0.0, 1, 2, 3, 17, 10**5, 10**12, 0.5, 0.9999, 1 - 1e-16, 1.5, 1e308, -1e308, 1e150, 1e-150,
    5e-324, True, False, None, "", "1", "nan", "finite", "x" * 3000, [], [[]], [[[]]], [1, [2]],
    [[1], [2, 3]],
    {}, {"A": 1}, [None], ["a"], [True, False], [0.1], [0.1, 0.2], [[0.1, 0.2]], [[0.5, 0.0], [0.0, 0.5]],
    [[[0.1, 0.2], [0.3, 0.4]]], [[0.1] * 3] * 3, [[0.0, 1e300], [0.0, 0.0]], [[1e160, 0.0], [0.0, 1e-160]],
    [1e308, 1e308], [-1e308, 1e308], [0.0] * 5000, [[0.0, 0.0]] * 200, [[float(i), 1.0] for i in range(200)],
    Raw("[" * 2000 + "]" * 2000), Raw("1979-05-27"), Raw("0x1f"), Raw("1_000"), Raw("'a'"), Raw("\u0663"),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _memory_stays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def refusal(read, path):
    """What a reader says against a file, None where it reads it; nothing else may happen."""
    begun = time.process_time()
    try:
        read(path)
        return None
    except ValueError as error:
        message = str(error)
    finally:
        assert time.process_time() - begun < 10, path.read_bytes()
    assert message.startswith(str(path)), message
    said = message.removeprefix(str(path))
    assert len(said.splitlines()) == 1, message
    assert 10 < len(said) < 280, message
    assert not re.search(r"'\w+' object|NoneType|has no attribute|operand|index out of", said), said
    return message


# Each takes seconds; half of them run by default.
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.evidence) for seed in (2, 3))]


# --- damage to bytes ------------------------------------------------------------------------------


def damaged(rng, data, other):
    """A file with one to four changes to its bytes."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        i, j = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        short = slice(i, min(j, i + int(rng.integers(1, 40))))
        match rng.integers(7):
            case 0:
                data[i : i + 1] = bytes([rng.integers(128)])
            case 1:
                data[i : i + 1] = [rng.choice(list(b'0159.-+eE[]{}",:=#\n ntf'))]
            case 2:
                del data[short]
            case 3:
                data[i:i] = rng.bytes(1) if rng.random() < 0.1 else other[i : i + 3]
            case 4:
                data[j:j] = data[short]
            case 5 if rng.random() < 0.3:
                del data[i:]
            case 6 if rng.random() < 0.3:
                data[i:] = other[rng.integers(len(other)) :]
    return bytes(data)


# --- problem files --------------------------------------------------------------------------------


def written(value, toml=False):
    """A value as JSON or TOML writes it; what they have no notation for is written all the same."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(written(entry, toml) for entry in value) + "]"
    if isinstance(value, dict):
        pairs = [
            f"{json.dumps(k)}{' = ' if toml else ': '}{written(v, toml)}" for k, v in value.items()
        ]
        return "{" + ", ".join(pairs) + "}"
    text = json.dumps(value) if not isinstance(value, int) or abs(value) < 2**70 else str(value)
    return text.lower().replace("infinity", "inf") if toml and isinstance(value, float) else text


def as_file(content, toml):
    if not toml or not isinstance(content, dict):
        return written(content).encode()
    lines = []
    for name, table in content.items():
        if isinstance(table, dict):
            lines += [
                f"[{name}]",
                *(f"{json.dumps(k)} = {written(v, True)}" for k, v in table.items()),
            ]
        else:
            lines.insert(0, f"{name} = {written(table, True)}")
    return "\n".join(lines).encode()


def problem_with(kind):
    return copy.deepcopy({**NUMBERS, "actions": ACTIONS[kind]})


def spoilt(rng, toml):
    """A well-formed file with a few of its values, keys or tables changed."""
    content = problem_with(rng.choice(KINDS))
    for _ in range(rng.integers(1, 4)):
        table = content[rng.choice(list(content))]
        if not isinstance(table, dict) or not table:
            continue
        key = str(rng.choice(list(table)))
        value = copy.deepcopy(NASTY[rng.integers(len(NASTY))])
        match rng.integers(9):
            case 0:
                del table[key]
            case 1:
                table[str(rng.choice(["C", "kind", "d", "", "é\n", "__class__", key.lower()]))] = (
                    value
                )
            case 2:
                content[str(rng.choice(["system", "actions", "fit", "x"]))] = value
            case 3 if isinstance(table[key], list):
                inner = table[key]
                while (deeper := [e for e in inner if type(e) is list]) and rng.random() < 0.7:
                    inner = deeper[rng.integers(len(deeper))]
                place = int(rng.integers(len(inner) + 1))
                inner[place : place + int(rng.integers(2))] = [value]
            case 4 if isinstance(table[key], list):
                table[key] = table[key] * int(rng.integers(0, 4))
            case 5 if isinstance(table[key], list):
                table[key] = [[entry] for entry in table[key]]
            case 6:
                content["actions"] = copy.deepcopy(ACTIONS[rng.choice(list(ACTIONS))])
            case _:
                table[key] = value
    data = as_file(content, toml)
    if rng.random() < 0.05:  # a key twice
        data = data.replace(b'"theta"', b'"omega"')
    return data


def assert_sound(problem):
    system, vertices = problem.system, problem.actions.vertices
    for name in type(system).__dataclass_fields__:
        assert np.all(np.isfinite(getattr(system, name))), name
    n, d = system.B.shape
    assert system.A.shape == system.state_noise.shape == (n, n)
    assert (system.omega.shape, system.theta.shape, system.x1.shape) == ((n,), (d,), (n,))
    assert np.abs(np.linalg.eigvals(system.A)).max() < 1
    assert system.reward_noise >= 0
    assert vertices.ndim == 2
    assert vertices.shape[1] == d
    assert 1 <= len(vertices) <= 100_000
    assert np.all(np.isfinite(vertices))


def read_soundly(path):
    assert_sound(dlb.read_problem(path))


@pytest.mark.parametrize("toml", [False, True], ids=["json", "toml"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_problem_is_sound_or_refused(seed, toml, tmp_path):
    """1200 files each."""
    rng = np.random.default_rng([seed, toml])
    path, refused = tmp_path / f"problem.{'toml' if toml else 'json'}", 0
    whole = [as_file(problem_with(kind), toml) for kind in KINDS]
    for i in range(1200):
        good, other = (whole[k] for k in rng.integers(len(whole), size=2))
        path.write_bytes(spoilt(rng, toml) if i % 2 else damaged(rng, good, other))
        refused += refusal(read_soundly, path) is not None
    assert 600 < refused < 1190  # the files are neither all hopeless nor all harmless


def test_the_command_refuses_damaged_problems_in_one_line(tmp_path, capsys):
    rng, path, refused = np.random.default_rng(7), tmp_path / "problem.json", 0
    good = as_file(problem_with("finite"), False)
    while refused < 60:
        path.write_bytes(spoilt(rng, False) if refused % 2 else damaged(rng, good, good))
        if refusal(dlb.read_problem, path) is None:
            continue
        refused += 1
        asked = ["run", str(path), "--policy", "myopic", "--horizon", "2", "--seeds", "1"]
        assert main(asked) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"dlbjax: {path}")
        assert err.count("\n") == 1


# --- result files ---------------------------------------------------------------------------------


def made(shape=(), recorded=False, seed=0):
    rng = np.random.default_rng(seed)
    runs = (*shape, 3)
    kept = {
        "actions": rng.integers(4, size=(*runs, 5)).astype(np.int16),
        "rewards": rng.normal(size=(*runs, 5)),
        "states": rng.normal(size=(*runs, 5, 2)).astype(np.float32),
    }
    return dlb.Result(
        np.array([1, 2, 5]), *rng.normal(size=(3, *runs, 3)), seeds=np.arange(3) + 7,
        axes={name: rng.uniform(size=size) for name, size in zip(("lam", "x"), shape, strict=False)},
        name="mine", config={"horizon": 5}, **(kept if recorded else {}),
    )  # fmt: skip


SAVED = {
    "plain": made(),
    "recorded": made((2,), recorded=True),
    "several": dlb.Results({"a": made((2, 1)), "b/c": made(recorded=True, seed=1)}),
}


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The bytes of every member of every file, by name."""
    found = {}
    for name, result in SAVED.items():
        path = tmp_path_factory.mktemp("saved") / f"{name}.npz"
        result.save(path)
        with zipfile.ZipFile(path) as archive:
            found[name] = {member: archive.read(member) for member in archive.namelist()}
    return found


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=True)
    return file.getvalue()


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def another_array(rng, data, marker):
    """An array in the place of another: much like it, nothing like it, or a pretence."""
    array = np.load(io.BytesIO(data))
    if array.dtype.kind == "U":
        array = np.arange(3)
    spoilt_number = array.astype(float)
    spoilt_number.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1])
    huge = npy(np.zeros(3)).replace(b"(3,), }" + b" " * 12, b"(1000000000000,), }")
    arrays = [
        spoilt_number, array.astype(np.float32), array.astype(np.int8), array.astype(">i4"),
        array.astype(np.uint64), array.astype(complex), array.astype(str), array.astype("S3"),
        array.astype(bool), array.astype("M8[s]"), array.astype(object), array.astype([("a", "f8")]),
        array[..., None], array[None], array[0], array.ravel(), array[..., :-1], array[..., ::-1].T,
        np.asfortranarray(array), array[:0], array.flat[0], np.zeros((0, 10**9)), np.array("text"),
        np.repeat(array, 2, axis=0), array[::-1], 0 * array, np.array(Bomb(marker), dtype=object),
    ]  # fmt: skip
    others = [pickle.dumps(Bomb(marker)), b"", b"\x93NUMPY", huge, b"text", data + data]
    chosen = rng.integers(len(arrays) + len(others))
    return npy(arrays[chosen]) if chosen < len(arrays) else others[chosen - len(arrays)]


def another_header(rng, data):
    header = json.loads(str(np.load(io.BytesIO(data))))
    values = [
        *NASTY[10:50],
        "Result",
        "Results",
        ["lam"],
        ["x"],
        ["lam", "lam"],
        ["../../etc"],
        "../x",
    ]
    value = copy.deepcopy(values[rng.integers(len(values))])
    entry = header["results"][rng.integers(len(header["results"]))]
    table = entry if rng.random() < 0.6 else header
    key = str(rng.choice([*table, "key", "other"]))
    match rng.integers(6):
        case 0:
            table.pop(key, None)
        case 1:
            header["results"] = header["results"] * int(rng.integers(0, 3))
        case 2:
            header["results"].insert(0, value)
        case 3:
            header = value if rng.random() < 0.3 else header
        case _:
            table[key] = value
    text = written(header)
    if rng.random() < 0.1:  # a key twice
        text = text.replace('"name"', '"axes"', 1)
    return npy(np.array(text[: rng.integers(len(text))] if rng.random() < 0.05 else text))


def another_result(rng, members, marker):
    """A sound archive, checksums and all, of members that are not all sound."""
    whole, members = members, dict(members)
    for _ in range(rng.integers(1, 3)):
        name = str(rng.choice(list(members)))
        match rng.integers(8):
            case 0:
                del members[name]
            case 1:
                members[str(rng.choice(["extra.npy", "../../up.npy", "/abs.npy", "text"]))] = (
                    members[str(rng.choice(list(members)))]
                )
            case 2:
                members[str(rng.choice(list(members)))] = members[name]
            case 3:
                members[name] = damaged(rng, members[name], members[str(rng.choice(list(members)))])
            case 4 | 5:
                members["dlbjax.npy"] = another_header(rng, whole["dlbjax.npy"])
            case _:
                members[name] = another_array(rng, whole.get(name, npy(np.arange(3))), marker)
        if rng.random() < 0.7:
            break
    return zipped(members)


def assert_consistent(loaded):
    assert isinstance(loaded, dlb.Result | dlb.Results)
    for key, result in ({"": loaded} if isinstance(loaded, dlb.Result) else loaded).items():
        assert isinstance(key, str)
        assert isinstance(result.name, str)
        assert isinstance(result.config, dict)
        for values in (result.rounds, result.seeds):
            assert values.ndim == 1
            assert values.size > 0
            assert values.dtype.kind in "iu"
        rounds = result.rounds.tolist()
        assert rounds[0] >= 1
        assert rounds == sorted(set(rounds))
        assert len(set(result.seeds.tolist())) == len(result.seeds)
        assert all(isinstance(axis, str) for axis in result.axes)
        runs = (*(len(values) for values in result.axes.values()), len(result.seeds))
        every = (*runs, rounds[-1])
        for kind in ("realised", "expected", "offline"):
            assert result.regret(kind).shape == (*runs, len(rounds))
            assert result.regret(kind).dtype.kind == "f"
            assert np.all(np.isfinite(result.regret(kind)))
        assert result.actions is None or result.actions.shape == every
        assert result.actions is None or result.actions.dtype.kind in "iu"
        assert result.rewards is None or result.rewards.shape == every
        assert result.states is None or result.states.shape[:-1] == every
        for recorded in (result.rewards, result.states):
            assert recorded is None or recorded.dtype.kind == "f"
            assert recorded is None or np.all(np.isfinite(recorded))


def load_consistently(path):
    assert_consistent(dlb.load(path))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_result_is_consistent_or_refused(seed, members, tmp_path):
    """800 files each, and nothing in them is executed."""
    rng, path, marker = np.random.default_rng(seed), tmp_path / "result.npz", tmp_path / "marker"
    whole = {name: zipped(found) for name, found in members.items()}
    refused = 0
    for i in range(800):
        good, other = (str(name) for name in rng.choice(list(whole), 2))
        if i % 4 == 0:
            path.write_bytes(damaged(rng, whole[good], whole[other]))
        else:
            path.write_bytes(another_result(rng, members[good], str(marker)))
        refused += refusal(load_consistently, path) is not None
        assert not marker.exists()
    assert 400 < refused < 790


def test_the_undamaged_files_are_read(members, tmp_path):
    for name, result in SAVED.items():
        (tmp_path / f"{name}.npz").write_bytes(zipped(members[name]))
        again = dlb.load(tmp_path / f"{name}.npz")
        assert_consistent(again)
        assert type(again) is type(result)
    for kind in ACTIONS:
        for toml in (False, True):
            path = tmp_path / f"{kind}.{'toml' if toml else 'json'}"
            path.write_bytes(as_file(problem_with(kind), toml))
            read_soundly(path)


def test_the_bomb_would_go_off_if_it_was_loaded(tmp_path):
    pickle.loads(pickle.dumps(Bomb(str(tmp_path / "marker"))))
    assert (tmp_path / "marker").exists()
