"""Policies and problems from one line of text."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.cli import specs
from dlbjax.cli.specs import policy_from, problem_from

PROBLEM = dlb.problems.synthetic()


def regret(policy):
    return dlb.simulate(PROBLEM, policy, horizon=50, seeds=2).expected_regret


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dynlin_ucb", dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM))),
        (
            "dynlin_ucb:rho_bar=0.4,lam=2,delta=1e-2,first=3",
            dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM, 0.4), 2.0, 0.01, first=3),
        ),
        (
            " dynlin_ucb : X = 2 , epochs = [20, 1e1, 20] ",
            dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM).replace(X=2.0), epochs=[20, 10, 20]),
        ),
        ("lin_ucb:sigma=0.5", dlb.lin_ucb(dlb.Bounds.of(PROBLEM).replace(sigma=0.5))),
        ("constant:action=[0.5,0.5,0]", dlb.constant([0.5, 0.5, 0])),
        ("clairvoyant", dlb.clairvoyant(PROBLEM)),
        ("myopic", dlb.myopic(PROBLEM)),
    ],
)
def test_a_text_gives_the_same_policy_as_python(text, expected):
    np.testing.assert_array_equal(regret(policy_from(text, PROBLEM)), regret(expected))


def test_lists_make_grids():
    grid = policy_from("dynlin_ucb:rho_bar=[0,0.2],lam=[1,2,4],delta=0.1", PROBLEM)
    expected = dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM, [0.0, 0.2]), [1.0, 2.0, 4.0], 0.1)
    assert list(grid.axes) == ["rho_bar", "lam"]
    np.testing.assert_array_equal(grid.axes["rho_bar"], [0, 0.2])
    np.testing.assert_array_equal(grid.axes["lam"], [1, 2, 4])
    np.testing.assert_array_equal(regret(grid), regret(expected))
    assert list(policy_from("lin_ucb:U=[1,2]", PROBLEM).axes) == ["U"]


def test_a_policys_own_argument_comes_before_the_bounds_of_that_name(monkeypatch):
    seen = {}

    def ar2(bounds, alpha, sigma=None):
        seen.update(bounds=bounds, alpha=alpha, sigma=sigma)
        return dlb.myopic(PROBLEM)

    monkeypatch.setattr(specs, "POLICIES", {"ar2": ar2})
    policy_from("ar2:alpha=0.5,sigma=[1,2],U=7,rho_bar=0.3", PROBLEM)
    assert (seen["alpha"], seen["sigma"], seen["bounds"].U) == (0.5, [1, 2], 7)
    assert seen["bounds"].rho == 0.3
    assert seen["bounds"].sigma == dlb.Bounds.of(PROBLEM).sigma
    assert specs.policy_keys(ar2).count("sigma") == 1
    with pytest.raises(ValueError, match="it needs alpha=…"):
        policy_from("ar2", PROBLEM)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no ''. Possible are ar2, ar_ucb, batch_exp3"),
        ("dynlin_uc", "there is no 'dynlin_uc', did you mean dynlin_ucb[?] Possible are ar2"),
        ("DynLin-UCB", "did you mean dynlin_ucb[?]"),
        ("tennis", "there is no 'tennis'[.] Possible are"),
        ("dynlin_ucb:", "key=value,… must follow the colon; got ''"),
        ("dynlin_ucb:lam", "key=value,… must follow the colon; got 'lam'"),
        ("dynlin_ucb:=3", "key=value,… must follow the colon; got '=3'"),
        ("dynlin_ucb:lambda=3", "no key 'lambda', did you mean lam[?] Possible are lam, .* rho_bar, T"),
        ("lin_ucb:phi=3", "did you mean Phi[?]"),
        ("lin_ucb:first=0", "it has no key 'first'"),
        ("lin_ucb:bounds=0", "it has no key 'bounds'"),
        ("myopic:lam=3", "it has no key 'lam'; it has none"),
        ("constant:action=[1,0,0],name=3", "it has no key 'name'"),
        ("constant", "it needs action=…"),
        ("constant:action=1", r"action must have shape \(any,\)"),
        ("dynlin_ucb:lam=1,lam=2", "lam is given twice"),
        ("dynlin_ucb:lam=", "lam must be a finite number or a list of them .*; got ''"),
        ("dynlin_ucb:lam=big", "lam must be a finite number .*; got 'big'"),
        ("dynlin_ucb:lam=nan", "lam must be a finite number .*; got 'nan'"),
        ("dynlin_ucb:lam=[1,inf]", r"lam must be a finite number .*; got '\[1,inf\]'"),
        ("dynlin_ucb:lam=1e999", "lam must be a finite number"),
        ("dynlin_ucb:lam=[]", "lam must be a finite number"),
        ("dynlin_ucb:lam=[1,2", "lam must be a finite number"),
        ("dynlin_ucb:lam=1,2", "lam must be a finite number .*; got '1,2'"),
        ("dynlin_ucb:lam=[[1],[2]]", "lam must be a finite number"),
        ("dynlin_ucb:lam=__import__('os')", "lam must be a finite number"),
        ("dynlin_ucb:lam=1,,delta=0.1", "lam must be a finite number .*; got '1,'"),
        ("dynlin_ucb:lam=-1", "lam must be > 0.0; got -1"),
        ("dynlin_ucb:rho_bar=1", "rho_bar must satisfy 0 <= rho_bar < 1; got 1"),
        ("dynlin_ucb:rho=2", "must be below 1; got 2"),
        ("dynlin_ucb:U=-2", "U must be >= 0; got -2"),
        ("dynlin_ucb:X=[1,2],rho_bar=[0.1,0.2,0.3]", "lists must have one length"),
        ("dynlin_ucb:first=0.5", "first must be a whole number"),
    ],
)  # fmt: skip
def test_invalid_policies_are_rejected(text, message):
    with pytest.raises(ValueError, match=message) as error:
        policy_from(text, PROBLEM)
    assert str(error.value).startswith(f"policy {text!r:.60}: ")


def test_problems_by_name_and_by_file(tmp_path):
    for text, expected in [
        ("synthetic", dlb.problems.synthetic()),
        ("real_world:sigma=0.5", dlb.problems.real_world(sigma=0.5)),
    ]:
        problem = problem_from(text)
        np.testing.assert_array_equal(problem.system.A, expected.system.A)
        assert problem.system.reward_noise == expected.system.reward_noise
    with pytest.raises(FileNotFoundError):
        problem_from(str(tmp_path / "synthetic:sigma=1.json"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "real-world",
            "did you mean real_world[?] Possible are synthetic, real_world, FILE.json, F",
        ),
        ("problem.yaml", "there is no 'problem.yaml'"),
        ("synthetic:rho=1", "it has no key 'rho'[.] Possible are sigma"),
        ("synthetic:sigma=[1,2]", "sigma must have shape"),
        ("synthetic:sigma=-1", "sigma must be >= 0.0; got -1"),
    ],
)
def test_invalid_problems_are_rejected(text, message):
    with pytest.raises(ValueError, match=message) as error:
        problem_from(text)
    assert str(error.value).startswith(f"problem {text!r}: ")
