"""Models as files: what is written is read back, and is a problem for everyone else."""

import json

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.campaign import read_model
from tests.campaign.models import SYSTEM, model


def test_what_is_written_is_read_back(tmp_path):
    one, path = model(), tmp_path / "model.json"
    one.save(path)
    again = read_model(path)
    for name in ("low", "high", "covariance"):
        np.testing.assert_array_equal(getattr(again, name), getattr(one, name))
    for name in ("A", "B", "omega", "theta", "state_noise", "reward_noise", "x1"):
        np.testing.assert_array_equal(getattr(again.system, name), getattr(SYSTEM, name))
    for part, given in zip(again.controls, one.controls, strict=True):
        np.testing.assert_array_equal(part, given)
    for part, given in zip(again.history, one.history, strict=True):
        np.testing.assert_array_equal(part, given)
    for name in ("total", "channels", "reward", "baseline", "sigma", "fit"):
        assert getattr(again, name) == getattr(one, name)


def test_it_is_a_problem(tmp_path):
    model().save(tmp_path / "model.json")
    problem = dlb.read_problem(tmp_path / "model.json")
    np.testing.assert_allclose(problem.h, SYSTEM.h)
    np.testing.assert_array_equal(
        problem.actions.vertices, dlb.actions.budget(0.0, [2, 1, 1], 2.5).vertices
    )


def test_another_total(tmp_path):
    assert model().actions(1.0).vertices.sum(axis=1).max() == 1.0


def test_limits_that_leave_nothing_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="total must cover the lower limits"):
        model(low=np.ones(3), total=2.0).save(tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


def changed(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c.pop("fit"), "holds a problem but no model"),
        (lambda c: c.update(fit=[1]), "holds a problem but no model"),
        (lambda c: c.update(actions={"kind": "simplex", "d": 3}), "holds a problem but no model"),
        (lambda c: c["fit"].pop("baseline"), "fit lacks baseline"),
        (lambda c: c["fit"].update(channels=["a", "b"]), "fit.channels must be 3 distinct names"),
        (
            lambda c: c["fit"].update(channels=["a", "b", 3]),
            "fit.channels must be 3 distinct names",
        ),
        (lambda c: c["fit"].update(reward=3), "fit.reward a name"),
        (
            lambda c: c["fit"].update(channels=["a", "a", "b"]),
            "fit.channels must be 3 distinct names",
        ),
        (lambda c: c["fit"].update(covariance=[[1]]), "fit.covariance must have shape"),
        (lambda c: c["fit"]["covariance"][0].__setitem__(1, 9.0), "must be symmetric"),
        (lambda c: c["fit"].update(covariance=(-np.eye(4)).tolist()), "positive semi-definite"),
        (lambda c: c["fit"].update(report=[1]), "fit.report must be a table of numbers"),
        (lambda c: c["fit"].update(report={"rho": "x"}), "fit.report must be a table of numbers"),
        (lambda c: c["fit"].update(warnings=5), "fit.warnings must be a list"),
        (lambda c: c["fit"].update(mean_spend=[1]), "fit.mean_spend must have shape"),
        (lambda c: c["fit"].update(mean_spend=["1", "2", "3"]), "fit.mean_spend must hold"),
        (lambda c: c["fit"].pop("mean_spend"), "fit lacks mean_spend"),
        (lambda c: c["fit"].update(sigma=-1.0), "fit.sigma must be >= 0"),
        (lambda c: c["fit"].update(controls=[]), "fit.controls must hold names"),
        (
            lambda c: c["fit"]["controls"].update(names=["a"]),
            "fit.controls.effects must have shape",
        ),
        (lambda c: c["fit"]["controls"].update(names=list("abcd")), "those of the calendar first"),
        (lambda c: c["fit"].update(history=7), "fit.history must hold spend, rewards"),
        (lambda c: c["fit"]["history"].update(level=[1.0]), "fit.history.level must have shape"),
        (lambda c: c["fit"].update(step_days="x"), "fit.step_days must hold real numbers"),
        (lambda c: c["fit"].update(baseline="7"), "fit.baseline must hold real numbers"),
        (lambda c: c["system"].update(A=[[2.0]]), "must"),
        (lambda c: c["actions"].pop("total"), "lacks the key 'total'"),
    ],
)
def test_files_that_hold_no_model(tmp_path, change, says):
    path = tmp_path / "model.json"
    model().save(path)
    changed(path, change)
    with pytest.raises(ValueError, match=says) as caught:
        read_model(path)
    assert str(caught.value).startswith(str(path))
