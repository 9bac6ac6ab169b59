"""The command line: files, output and errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.cli import main, specs
from dlbjax.experiments import family, report

RUN = ["run", "synthetic", "--policy", "myopic"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


TINY = ["--horizon", "60", "--seeds", "2"]


def test_reproduce_writes_results_figures_and_tables(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["reproduce", "figure2", *TINY, "--dtype", "float32", "--out", str(out)]) == 0
    names = [
        "figure2.npz",
        "figure2.png",
        "figure2.pdf",
        "figure2-offline.png",
        "figure2-offline.pdf",
    ]
    names += ["figure2.md", "claims.md"]
    assert sorted(os.listdir(out)) == sorted(names)
    assert (out / "figure2.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figure2.pdf").read_bytes().startswith(b"%PDF")
    results = dlb.load(out / "figure2.npz")
    assert list(results) == ["DynLin-UCB", "Lin-UCB", "DynLin-UCB tight (ours)"]
    ours = results["DynLin-UCB"]
    assert ours.offline_regret.shape[:2] == (5, 2)
    assert ours.rounds[-1] == 60
    assert ours.config["dtype"] == "float32"
    np.testing.assert_array_equal(ours.axes["rho_bar"], [0, 0.05, 0.1, 0.2, 0.4])
    mean = ours.expected_regret[-1, :, -1].mean()
    assert f"| DynLin-UCB, ρ̄=0.4 | {mean:.1f} |" in (out / "figure2.md").read_text("utf-8")
    assert capsys.readouterr().out.splitlines() == [str(out / name) for name in names]


@pytest.mark.evidence
def test_reproduce_makes_everything_and_reuses_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(family, "SHAPES", ((3, 3),))  # for which all is compiled already
    monkeypatch.setattr(family, "RAISED_SHAPES", ((3, 3),))
    assert main(["reproduce", *TINY]) == 0
    figures = ("figure1", "figure2", "figure3", "variants", "noise", "tight", "adaptive")
    names = {f"{figure}.{kind}" for figure in figures for kind in ("png", "pdf", "md")}
    names |= {f"{figure}-offline.{kind}" for figure in figures[:5] for kind in ("png", "pdf")}
    names |= {f"{name}.npz" for name in (*figures[:3], "vertices-6", "discounting", "noise-0.001",
                                         "noise-0.1", "tight-synthetic", "tight-real-world",
                                         "adaptive-problems", "adaptive-family")}  # fmt: skip
    assert set(os.listdir("results")) == names | {"claims.md"}
    printed = capsys.readouterr().out
    assert {os.path.relpath(line, "results") for line in printed.splitlines()} == (
        names | {"claims.md"}
    )
    assert printed.splitlines()[-1] == os.path.join("results", "claims.md")
    claims = (tmp_path / "results" / "claims.md").read_text("utf-8")
    for section in ("5.1", "5.2", "E.3", "E.4"):
        assert f"\n| {section} | " in claims

    def stamps():
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*.npz")}

    before = stamps()
    assert main(["reproduce", "all", *TINY]) == 0
    assert stamps() == before
    assert capsys.readouterr().out == printed
    assert (tmp_path / "results" / "claims.md").read_text("utf-8") == claims
    assert main(["reproduce", "figure2", *TINY, "--again"]) == 0
    assert [path.name for path in before if stamps()[path] != before[path]] == ["figure2.npz"]


@pytest.mark.parametrize(
    ("arguments", "figures", "size", "out", "again"),
    [
        ([], list(report.FIGURES), (1_000_000, 50, "float64"), "results", False),
        (
            ["noise", "--horizon", "1e4", "--seeds", "3", "--dtype", "float32", "--out", "x", "--again"],
            ["noise"], (10_000, 3, "float32"), "x", True,
        ),
    ],
)  # fmt: skip
def test_reproduce_passes_its_arguments_on(
    arguments, figures, size, out, again, monkeypatch, capsys
):
    calls = []

    def reproduce(*arguments):
        calls.append(arguments)
        return [Path("one"), Path("other")]

    monkeypatch.setattr(report, "reproduce", reproduce)
    assert main(["reproduce", *arguments]) == 0
    assert calls == [(figures, Path(out), size, again)]
    assert capsys.readouterr().out == "one\nother\n"


def test_reproduce_knows_every_figure(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    assert f"{{{','.join(report.FIGURES)},all}}" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize(
    ("arguments", "mentioned"),
    [
        (["--help"], ["reproduce", "Dynamical Linear Bandits", "--version"]),
        (
            ["reproduce", "--help"],
            ["figure2 DynLin-UCB with five values", "all all of them (default)", "--horizon", "--seeds",
             "--out", "--dtype", "--again", "examples: dlbjax reproduce", "1000000", "claims.md"],
        ),
        (
            ["run", "--help"],
            ["PROBLEM", "--policy SPEC", "examples:", "dlbjax run real_world:sigma=0.1", "100000",
             "dynlin_ucb DynLin-UCB: hold the optimistic vertex",
             "keys: lam, delta, scale, extra, first, epochs",
             "clairvoyant Play u*", "keys: none", "rho_bar, Theta, Omega, B, U, X, Phi, rho, sigma"],
        ),
        (["--version"], [f"dlbjax {dlb.__version__}"]),
    ],
)  # fmt: skip
def test_help_and_version(arguments, mentioned, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in mentioned:
        assert words in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["reproduce", "figure99"], "invalid choice: 'figure99'"),
        (
            ["reproduce", "--horizon", "many"],
            "--horizon: must be a whole number from 1 to 2147483647; got 'many'",
        ),
        (["reproduce", "--horizon", "0"], "--horizon: must be a whole number"),
        (["reproduce", "--seeds", "0"], "--seeds: must be a whole number"),
        (["reproduce", "--seeds", "-5"], "--seeds: must be a whole number"),
        (["reproduce", "--seeds", "2.5"], "--seeds: must be a whole number"),
        (["reproduce", "--dtype", "int8"], "argument --dtype: invalid choice: 'int8'"),
        (["reproduce", "--colour"], "unrecognized arguments: --colour"),
        (["run"], "the following arguments are required: PROBLEM, --policy"),
        (["run", "synthetic"], "the following arguments are required: --policy"),
        (["run", "synthetic", "--policy"], "argument --policy: expected one argument"),
        (
            [*RUN, "--horizon", "0"],
            "--horizon: must be a whole number from 1 to 2147483647; got '0'",
        ),
        ([*RUN, "--horizon", "-5"], "--horizon: must be a whole number"),
        ([*RUN, "--horizon", "3000000000"], "--horizon: must be a whole number"),
        ([*RUN, "--seeds", "0"], "--seeds: must be a whole number"),
        ([*RUN, "--seeds", "1.5"], "--seeds: must be a whole number"),
        (
            [*RUN, "--seeds", "many"],
            "--seeds: must be a whole number from 1 to 2147483647; got 'many'",
        ),
        ([*RUN, "--seeds", "nan"], "--seeds: must be a whole number"),
        ([*RUN, "--seeds", "inf"], "--seeds: must be a whole number"),
        ([*RUN, "--dtype", "int8"], "argument --dtype: invalid choice: 'int8'"),
        ([*RUN, "--colour", "two\nlines"], "unrecognized arguments: --colour two lines"),
    ],
)
def test_parser_errors_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.startswith("dlbjax: ")
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_an_output_folder_that_cannot_be_made_is_rejected_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert main(["reproduce", "figure2", *TINY, "--out", str(out)]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("dlbjax: ")
        assert str(tmp_path / "file") in shown.err
        assert len(shown.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_writable_is_rejected_in_one_line(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["reproduce", "figure2", *TINY, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("cannot be written: Permission denied\n")


GRID = "dynlin_ucb:rho_bar=[0.1,0.2],lam=2"
SMALL = ["--horizon", "300", "--seeds", "4"]


def simulated(**options):
    problem = dlb.problems.synthetic()
    policies = {
        "dynlin_ucb:rho_bar=0.2": dlb.dynlin_ucb(dlb.Bounds.of(problem, 0.2)),
        GRID: dlb.dynlin_ucb(dlb.Bounds.of(problem, [0.1, 0.2]), lam=2.0),
        "myopic": dlb.myopic(problem),
    }
    return dlb.simulate(problem, policies, horizon=300, seeds=4, **options)


def with_policies(expected):
    return [argument for text in expected for argument in ("--policy", text)]


def test_run_prints_a_table_and_writes_the_results(tmp_path, capsys):
    out = tmp_path / "runs.npz"
    expected = simulated()
    assert main(["run", "synthetic", *with_policies(expected), *SMALL, "--out", str(out)]) == 0
    assert os.listdir(tmp_path) == ["runs.npz"]
    with np.load(out) as file:
        for label, result in expected.items():
            for kind in ("realised", "expected", "offline"):
                written = file[f"{label}/{kind}_regret"]
                np.testing.assert_array_equal(written, result.regret(kind))
    assert list(dlb.load(out)) == list(expected)

    shown = capsys.readouterr()
    title, head, *rows = shown.out.splitlines()
    assert title == "expected regret after 300 rounds, 4 runs"
    assert head.split() == ["mean", "std", "std", "error", "10%", "50%", "90%", "policy"]
    labels = [label for result in expected.values() for label in result.labels()]
    assert [row.split(maxsplit=6)[-1] for row in rows] == labels
    assert labels[1:3] == [f"{GRID}, ρ̄=0.1", f"{GRID}, ρ̄=0.2"]
    summary = expected[GRID].summary()
    statistics = [summary.mean[1, -1], summary.std[1, -1], summary.standard_error[1, -1]]
    statistics += list(summary.quantiles[:, 1, -1])
    assert rows[2].split()[:6] == [f"{number:.6g}" for number in statistics]


def test_run_prints_json(capsys):
    expected = simulated(dtype="float32")
    arguments = ["run", "synthetic:sigma=0.01", *with_policies(expected), *SMALL]
    assert main([*arguments, "--dtype", "float32", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    policies = report.pop("policies")
    assert report == {
        "problem": "synthetic:sigma=0.01", "horizon": 300, "seeds": 4, "dtype": "float32",
        "version": dlb.__version__,
    }  # fmt: skip
    assert [entry["label"] for entry in policies] == [list(expected)[i] for i in (0, 1, 1, 2)]
    points = [entry["hyperparameters"] for entry in policies]
    assert points == [{}, {"rho_bar": 0.1}, {"rho_bar": 0.2}, {}]
    for entry, place in zip(policies, [(), (0,), (1,), ()], strict=True):
        for kind in ("realised", "expected", "offline"):
            summary = expected[entry["label"]].summary(kind)
            at = (*place, -1)
            assert entry[kind] == {
                "mean": summary.mean[at],
                "std": summary.std[at],
                "standard_error": summary.standard_error[at],
                "quantiles": {
                    name: summary.quantiles[(i, *at)]
                    for i, name in enumerate(["0.1", "0.5", "0.9"])
                },
            }


@pytest.mark.parametrize("name", specs.POLICIES)
def test_run_knows_every_policy(name, capsys):
    arguments = {
        "constant": ":action=[1,0.5,0]",
        "ar_ucb": ":order=1,m=1,sigma=0.1",
        "larl": ":lags=1",
    }
    spec = name + arguments.get(name, "")
    assert main(["run", "synthetic", "--policy", spec, "--horizon", "100", "--seeds", "2"]) == 0
    *numbers, label = capsys.readouterr().out.splitlines()[2].split(maxsplit=6)
    assert label == spec
    assert np.all(np.isfinite([float(number) for number in numbers]))


def test_one_run_has_no_spread(capsys):
    assert main([*RUN, "--horizon", "1e2", "--seeds", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[1:3] == ["-", "-"]

    def reject(constant):
        raise AssertionError(constant)

    assert main([*RUN, "--horizon", "100", "--seeds", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out, parse_constant=reject)
    assert report["policies"][0]["offline"]["std"] is None
    assert report["policies"][0]["offline"]["standard_error"] is None
    assert report["policies"][0]["offline"]["mean"] == pytest.approx(25.694, abs=1e-3)


def test_run_reads_a_problem_file(tmp_path, capsys):
    path = tmp_path / "one.toml"
    path.write_text(
        "[system]\nA = [[0.5]]\nB = [[1.0]]\nomega = [1.0]\ntheta = [0.0]\n"
        '[actions]\nkind = "hypercube"\nd = 1\n'
    )
    arguments = ["--policy", "constant:action=[0.5]", "--horizon", "10", "--seeds", "2", "--json"]
    assert main(["run", str(path), *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problem"] == str(path)
    assert report["policies"][0]["offline"]["mean"] == 10.0  # 10 · (2 − 1)


HUGE = {
    "system": {"A": [[0.5]], "B": [[1e300]], "omega": [1e300], "theta": [0.0]},
    "actions": {"kind": "hypercube", "d": 1},
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synthetic", "--policy", "dynlin_uc"], "policy 'dynlin_uc': there is no 'dynlin_uc', did you"),
        (["synthetic", "--policy", "lin_ucb:lam=-1"], "policy 'lin_ucb:lam=-1': lam must be > 0"),
        (["synthetic", "--policy", "lin_ucb:\nlam"], "policy 'lin_ucb:\\nlam': key=value,… must follow"),
        (["synthetic", "--policy", "dynlin_ucb:first=10"], "first must be a whole number from 0 to 9"),
        (["synthetic", "--policy", "dynlin_ucb:epochs=[1]"], "epochs must cover the horizon"),
        (["synthetic", "--policy", "constant:action=[9,9,9]"], "policy 'constant' plays"),
        (["synthetic", "--policy", "myopic", "--policy", "myopic"], "policy 'myopic' is given twice"),
        (["sintetic", "--policy", "myopic"], "problem 'sintetic': there is no 'sintetic', did you mean"),
        (["absent.json", "--policy", "myopic"], "[Errno 2] No such file or directory: 'absent.json'"),
        (["folder.json", "--policy", "myopic"], "[Errno 21] Is a directory: 'folder.json'"),
        (["broken.toml", "--policy", "myopic"], "broken.toml: Expected '=' after a key"),
        (["two\nlines.json", "--policy", "myopic"], "two lines.json: the file lacks the key 'system'"),
        (["huge.json", "--policy", "dynlin_ucb"], "huge.json: the values of the actions overflow"),
    ],
)  # fmt: skip
def test_run_reports_errors_in_one_line(arguments, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "broken.toml").write_text("[system]\nA")
    (tmp_path / "two\nlines.json").write_text("{}")
    (tmp_path / "huge.json").write_text(json.dumps(HUGE))
    before = sorted(os.listdir(tmp_path))
    assert main(["run", *arguments, *SMALL, "--out", "runs.npz"]) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith(f"dlbjax: {message}")
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("runs.csv", "--out must end in .npz; got 'runs.csv'"),
        ("", "--out must end in .npz; got '.'"),
        ("folder.npz", "--out must be a file; 'folder.npz' is a folder"),
        ("absent/runs.npz", "--out 'absent/runs.npz' cannot be written: No such file or directory"),
        ("file/runs.npz", "--out 'file/runs.npz' cannot be written: Not a directory"),
        (f"{'long' * 63}.npz", f"--out '{'long' * 63}.npz' cannot be written: File name too long"),
        pytest.param(
            "closed/runs.npz", "--out 'closed/runs.npz' cannot be written: Permission denied",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere"),
        ),
    ],
)  # fmt: skip
def test_run_checks_where_to_write_before_it_computes(out, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dlb, "simulate", lambda *_, **__: pytest.fail("it computes"))
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "file").write_text("")
    assert main([*RUN, "--out", out]) == 2
    assert capsys.readouterr().err == f"dlbjax: {message}\n"
    assert sorted(os.listdir(tmp_path)) == ["closed", "file", "folder.npz"]


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "dlbjax: interrupted"),
        (MemoryError(), 2, "dlbjax: MemoryError"),
        (FloatingPointError("the regret is not finite"), 2, "dlbjax: the regret is not finite"),
    ],
)
def test_a_run_that_ends_early_says_so_in_one_line(
    raised, code, line, tmp_path, monkeypatch, capsys
):
    def fail(*arguments, **options):
        raise raised

    monkeypatch.setattr(dlb, "simulate", fail)
    assert main([*RUN, "--out", str(tmp_path / "runs.npz")]) == code
    assert capsys.readouterr().err == line + "\n"
    if code == 130:
        assert main([*RUN, "--checkpoint", str(tmp_path / "a")]) == code
        assert capsys.readouterr().err == f"{line}; finished work is kept\n"
    assert os.listdir(tmp_path) == []


def test_ctrl_c_while_the_command_line_is_parsed_ends_it_in_one_line(monkeypatch, capsys):
    def pressed():
        raise KeyboardInterrupt

    monkeypatch.setattr("dlbjax.cli._parser", pressed)
    assert main(RUN) == 130
    assert capsys.readouterr().err == "dlbjax: interrupted\n"


def test_runs_as_a_module():
    command = [sys.executable, "-m", "dlbjax.cli", "--version"]
    assert subprocess.check_output(command, text=True).strip() == f"dlbjax {dlb.__version__}"


SWEEP = ["--problem", "synthetic", "--problem", "synthetic:sigma=0.5", "--policy", "myopic", *TINY]


def test_sweep_runs_once_and_prints_its_store(tmp_path, capsys, monkeypatch):
    folder = str(tmp_path / "runs")
    assert main(["sweep", folder, *SWEEP]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split() == ["synthetic", "myopic", "1", "2", "100%"]
    assert "synthetic:sigma=0.5: expected regret after 60 rounds, 2 runs" in printed
    problem = dlb.problems.synthetic(0.5)
    alone = dlb.simulate(problem, dlb.myopic(problem), 60, 2)
    assert f"{alone.summary().mean[-1]:.6g}" in printed
    monkeypatch.setattr("dlbjax.sweeps.run.compute", None)  # nothing is left to compute
    assert main(["sweep", folder, *SWEEP]) == 0
    assert capsys.readouterr().out == printed
    assert main(["sweep", folder]) == 0
    assert capsys.readouterr().out == printed


def test_control_characters_in_an_error_do_not_reach_the_terminal(capsys):
    assert main(["run", "\x1b[31m.json", "--policy", "myopic"]) == 2
    err = capsys.readouterr().err
    assert r"\x1b[31m.json" in err
    assert "\x1b" not in err


def test_control_characters_in_the_names_of_a_store_do_not_reach_the_terminal(tmp_path, capsys):
    problem, folder = dlb.problems.synthetic(), tmp_path / "runs"
    dlb.sweep({"a\x1b[31m": problem}, {"b\x9b2J": dlb.myopic(problem)}, 10, 1, folder)
    assert main(["sweep", str(folder)]) == 0
    _, row, _, title, *_, last = capsys.readouterr().out.splitlines()
    assert row.split()[:2] == [r"a\x1b[31m", r"b\x9b2J"]
    assert title.startswith(r"a\x1b[31m: expected regret")
    assert last.endswith(r"  b\x9b2J")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "is not a store of results"),
        (["--problem", "synthetic"], "at least one --problem and one --policy"),
        ([*SWEEP, "--policy", "myopic"], "policy 'myopic' is given twice"),
        ([*SWEEP, "--problem", "synthetic"], "problem 'synthetic' is given twice"),
        ([*SWEEP, "--policy", "myopia"], "there is no 'myopia', did you mean myopic?"),
        ([*SWEEP, "--workers", "0"], "must be a whole number from 1"),
        ([*SWEEP, "--workers", "2", "--cluster", "tcp://x:1"], "not allowed with argument"),
    ],
)
def test_sweep_reports_errors_in_one_line(arguments, message, tmp_path, capsys):
    folder = tmp_path / "runs"
    try:
        code = main(["sweep", str(folder), *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not folder.exists()


def test_sweep_over_a_grid_of_problems_on_a_local_cluster(tmp_path):
    chosen = ["--problem", "synthetic:sigma=[0.1,0.5]", "--policy", "myopic", *TINY]
    folder = str(tmp_path / "runs.zarr")
    command = [sys.executable, "-m", "dlbjax.cli", "sweep", folder, *chosen, "--workers", "1"]
    printed = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)
    assert printed.splitlines()[1].split()[-3:] == ["2", "2", "100%"]
    problem = dlb.problems.synthetic(0.5)
    alone = dlb.simulate(problem, dlb.myopic(problem), 60, 2)
    [line] = [line for line in printed.splitlines() if line.endswith("σ=0.5")]
    assert line.split()[0] == f"{alone.summary().mean[-1]:.6g}"


def test_run_continues_from_a_checkpoint(tmp_path, capsys, monkeypatch):
    path = tmp_path / "run.checkpoint"
    assert main([*RUN, *TINY, "--checkpoint", str(path)]) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr("dlbjax.engine.run._advance", None)  # nothing is left to compute
    assert main([*RUN, *TINY, "--checkpoint", str(path)]) == 0
    assert capsys.readouterr().out == first
    assert main([*RUN, "--horizon", "61", "--seeds", "2", "--checkpoint", str(path)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "is a checkpoint of another call, with other horizon: 60 there, 61 here" in line
