"""The command line: what it writes, prints and refuses."""

import os
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.cli import main


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_reproduce_writes_result_and_figures(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    arguments = ["reproduce", "figure2", "--horizon", "60", "--seeds", "2", "--out", str(out)]
    assert main(arguments) == 0
    assert sorted(os.listdir(out)) == ["figure2.npz", "figure2.pdf", "figure2.png"]
    assert (out / "figure2.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figure2.pdf").read_bytes().startswith(b"%PDF")
    result = dlb.load(out / "figure2.npz")
    assert result.offline_regret.shape[:2] == (5, 2)
    assert result.rounds[-1] == 60
    np.testing.assert_array_equal(result.axes["rho_bar"], [0, 0.05, 0.1, 0.2, 0.4])
    printed = capsys.readouterr().out
    assert "offline regret after 60 rounds, 2 runs" in printed
    mean = result.offline_regret[-1, :, -1].mean()
    assert f"ρ̄=0.4 {mean:20.1f} ± ".split() == printed.splitlines()[5].split()[1:4]
    assert [str(out / f"figure2.{kind}") for kind in ("npz", "png", "pdf")] == (
        printed.splitlines()[-3:]
    )


@pytest.mark.parametrize(
    ("arguments", "mentioned"),
    [
        (["--help"], ["reproduce", "Dynamical Linear Bandits", "--version"]),
        (
            ["reproduce", "--help"],
            ["figure2", "--horizon", "--seeds", "--out", "example: dlbjax reproduce", "1000000"],
        ),
        (["--version"], [f"dlbjax {dlb.__version__}"]),
    ],
)
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
        (["reproduce", "--horizon", "many"], "invalid int value: 'many'"),
        (["reproduce", "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_what_the_parser_refuses_exits_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    shown = capsys.readouterr()
    assert message in shown.err.splitlines()[-1]
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", "0"], "dlbjax: horizon must be a whole number"),
        (["--seeds", "0"], "dlbjax: seeds must be a whole number >= 1; got 0"),
        (["--seeds", "-5"], "dlbjax: seeds must be a whole number >= 1; got -5"),
    ],
)
def test_wrong_numbers_exit_with_2_and_one_line(arguments, message, tmp_path, capsys):
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(message)
    assert len(shown.err.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_an_output_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        assert main(["reproduce", "--horizon", "60", "--seeds", "2", "--out", str(out)]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("dlbjax: ")
        assert str(tmp_path / "file") in shown.err
        assert len(shown.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_refused_in_one_line(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert main(["reproduce", "--horizon", "60", "--seeds", "2", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("dlbjax: [Errno 13] Permission denied")


def test_runs_as_a_module():
    command = [sys.executable, "-m", "dlbjax.cli", "--version"]
    assert subprocess.check_output(command, text=True).strip() == f"dlbjax {dlb.__version__}"
