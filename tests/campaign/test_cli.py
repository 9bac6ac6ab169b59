"""`dlbjax fit` and `dlbjax plan`: from a table to a decision, and errors in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.campaign import choose, read_log, read_model
from dlbjax.cli import main
from tests.campaign.models import model

FIT = ["--actions", "fb,google", "--reward", "sales", "--out", "model.json"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path="spend.csv", rows=400, missing=(7, 90), noise=0.1):
    """y = 5 + 0.02 fb + s, s' = 0.6 s + 0.03 google, so that h = (0.02, 0.075)."""
    rng = np.random.default_rng(0)
    spend = rng.uniform(0, 100, (rows, 2)).round(2)
    s, lines = 0.0, ["day,fb,google,sales"]
    for t, (fb, google) in enumerate(spend):
        y = 5 + 0.02 * fb + s + noise * rng.normal()
        s = 0.6 * s + 0.03 * google
        day = np.datetime64("2025-01-01") + np.timedelta64(t, "D")
        lines.append(f"{day},{fb},{google},{'' if t in missing else f'{y:.4f}'}")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


@pytest.mark.slow
def test_from_a_table_to_a_decision(tmp_path, capsys):
    write()
    assert main(["fit", "spend.csv", *FIT, "--date", "day", "--order", "1", "--budget", "120"]) == 0
    printed = capsys.readouterr().out
    assert "Fit of order 1 to 400 rounds (2 rewards missing)" in printed
    assert printed.splitlines()[-1] == "model.json"
    found = read_model("model.json")
    std = np.sqrt(np.diag(found.covariance)[1:])
    assert np.all(np.abs(found.system.h - [0.02, 0.075]) < 5 * std)  # 1e-6 for each
    assert np.all(std < 0.005)
    assert found.baseline == pytest.approx(5, abs=0.3)
    assert (found.channels, found.reward, found.total) == (("fb", "google"), "sales", 120.0)
    assert found.high == pytest.approx([100, 100], abs=2)
    assert found.fit["last_round"] == "2026-02-04T00:00:00"

    arguments = ["plan", "model.json", "--horizon", "4", "--rehearse", "100"]
    assert main([*arguments, "--report", "plan.html"]) == 0
    printed = capsys.readouterr().out
    assert "best plan over 4 rounds" in printed
    assert (tmp_path / "plan.html").read_text().startswith("<!DOCTYPE html>")
    assert "better than now with" in printed
    assert main([*arguments, "--json", "--budget", "50", "--corners"]) == 0
    answer = json.loads(capsys.readouterr().out)
    best = choose(found, 4, 50.0, nearby=None)
    assert answer["allocations"][0]["allocation"] == best.options[0].allocation.tolist() == [0, 50]
    assert answer["plan"] == best.plan.tolist()
    assert answer["plan_reward"] == best.plan_reward
    assert answer["current"]["allocation"] == pytest.approx([50, 50], abs=5)
    assert set(answer["lost_by_learning"]) == {"DynLin-UCB tight", "DynLin-UCB", "Lin-UCB"}
    assert min(answer["lost_by_learning"].values()) > 0

    assert main(["run", "model.json", "--policy", "myopic", "--horizon", "10", "--seeds", "2"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["absent.csv", *FIT], "No such file or directory: 'absent.csv'"),
        (["spend.csv", *FIT[:-1], "model.txt"], "--out must end in .json"),
        (
            ["spend.csv", *FIT[:-1], "absent/model.json"],
            "--out 'absent/model.json' cannot be written",
        ),
        (
            ["spend.csv", "--actions", "fb,googel", *FIT[2:]],
            "no column 'googel', did you mean google?",
        ),
        (["spend.csv", *FIT, "--date", "date"], "no column 'date'. Possible are day, fb"),
        (["spend.csv", *FIT, "--order", "0"], "must be a whole number from 1"),
        (["spend.csv", *FIT, "--order", "two"], "must be a whole number from 1"),
        (["spend.csv", *FIT, "--high", "10,x"], "must be a number, or several such as 10,20,30"),
        (["short.csv", *FIT], "short.csv"),
        (["text.csv", *FIT], "line 3: google must be a number"),
    ],
)
def test_fit_rejects_bad_arguments_in_one_line(arguments, says, capsys):
    write(rows=40)
    write("short.csv", rows=0)
    with open("text.csv", "w") as file:
        file.write("fb,google,sales\n1,2,3\n1,two,3\n")
    try:
        code = main(["fit", *arguments])
    except SystemExit as exit:
        code = exit.code
    printed = capsys.readouterr()
    assert code == 2
    assert says in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["absent.json"], "No such file"),
        (["problem.json"], "holds a problem but no model"),
        (["model.json", "--budget", "-1"], "total must cover the lower limits"),
        (["model.json", "--budget", "nan"], "total must be finite"),
        (["model.json", "--horizon", "0"], "must be a whole number from 1"),
        (["model.json", "--report", "x.pdf"], "--report must end in .html"),
    ],
)
def test_plan_rejects_bad_arguments_in_one_line(arguments, says, capsys):
    model().save("model.json")
    content = json.loads(Path("model.json").read_text())
    del content["fit"]
    with open("problem.json", "w") as file:
        json.dump(content, file)
    assert dlb.read_problem("problem.json").system.d == 3
    try:
        code = main(["plan", *arguments])
    except SystemExit as exit:
        code = exit.code
    printed = capsys.readouterr()
    assert code == 2
    assert says in printed.err
    assert printed.err.count("\n") == 1


def test_controls_season_and_regions_are_read(capsys):
    """Two regions of 60 days, with a price and a weekly season."""
    rng = np.random.default_rng(0)
    lines = ["day;land;fb\x1b[31m;price;sales"]
    for t in range(60):
        for land, level in (("north", 5.0), ("south", 9.0)):
            fb, price = rng.uniform(0, 10), rng.uniform(1, 2)
            sales = level + 0.5 * fb - 2 * price + np.sin(2 * np.pi * t / 7) + 0.05 * rng.normal()
            day = np.datetime64("2026-01-01") + np.timedelta64(t, "D")
            lines.append(f"{day};{land};{fb:.3f};{price:.3f};{sales:.4f}")
    Path("land.csv").write_text("\n".join(lines) + "\n")
    log = read_log("land.csv", ["fb\x1b[31m"], "sales", "day", controls=["price"], region="land")
    assert (log.groups, log.first_rounds) == (["north", "south"], [0, 0])
    arguments = ["--controls", "price", "--region", "land", "--season", "7", "--harmonics", "1"]
    names = ["--actions", "fb\x1b[31m", "--reward", "sales", "--date", "day", "--out", "model.json"]
    assert main(["fit", "land.csv", *names, *arguments, "--order", "1", "--signs", "-1"]) == 0
    printed = capsys.readouterr().out
    assert r"the effect of fb\x1b[31m is" in printed
    assert "\x1b" not in printed
    found = read_model("model.json")
    effects = dict(zip(found.controls.names, found.controls.effects, strict=True))
    assert effects["price"] == pytest.approx(-2, abs=0.1)
    assert effects["season sin 1"] == pytest.approx(1, abs=0.1)
    assert effects["north less south"] == pytest.approx(-4, abs=0.1)
    assert found.h[0] == pytest.approx(0.5, abs=0.05)
    assert found.current == pytest.approx([log.spend.mean()])


def test_a_failed_rehearsal_does_not_cost_the_plan(capsys, monkeypatch):
    def fails(*arguments):
        raise ValueError("no")

    monkeypatch.setattr("dlbjax.cli.plan.rehearse", fails)
    model().save("model.json")
    assert main(["plan", "model.json", "--horizon", "3", "--low", "0.5", "--change", "0.1"]) == 0
    printed = capsys.readouterr()
    assert "best plan over 3 rounds" in printed.out
    assert printed.err == "no rehearsal: no\n"


def test_control_characters_in_names_do_not_reach_the_terminal(monkeypatch, capsys):
    def fails(*_):
        raise ValueError("\x1b[0m")

    monkeypatch.setattr("dlbjax.cli.plan.rehearse", fails)
    model(channels=("a\x1b[31m", "b", "c"), reward="sales\x9b2J").save("model.json")
    assert main(["plan", "model.json", "--horizon", "2"]) == 0
    out, err = capsys.readouterr()
    assert r"a\x1b[31m" in out
    assert out.startswith(r"sales\x9b2J per round")
    assert not {"\x1b", "\x9b"} & {*out, *err}
