"""The problems that sliders and the table make."""

import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.lab.settings import SOURCES, InputError, Settings, sigma_of
from dlbjax.lab.sources import limits_of, problem_of, table_of


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_shown_as_it_is_and_every_slider_moves_what_it_says(source):
    base = problem_of(Settings(source=source))
    moved = problem_of(Settings(source=source, memory=0.5, sigma=0.3, budget=1.2, x1=0.25))
    np.testing.assert_array_equal(moved.system.A, 0.5 * base.system.A)
    np.testing.assert_array_equal(moved.system.x1, base.system.x1 + 0.25)
    np.testing.assert_allclose(moved.system.state_noise, base.system.state_noise * 900)
    np.testing.assert_allclose(moved.system.reward_noise, base.system.reward_noise * 30)
    assert sigma_of(moved.system) == pytest.approx(0.3)
    assert moved.actions.vertices.sum(axis=1).max() == pytest.approx(1.2)


def test_the_paper_s_problems_are_untouched_by_default():
    for source in ("synthetic", "real_world"):
        ours, theirs = problem_of(Settings(source=source)), getattr(dlb.problems, source)()
        for name in type(ours.system).__dataclass_fields__:
            np.testing.assert_array_equal(getattr(ours.system, name), getattr(theirs.system, name))


def test_the_table_replaces_the_system():
    rows = table_of(dlb.problems.synthetic().system)
    rows[0, 0], rows[3, 5] = 0.4, 0.7
    problem = problem_of(Settings(table=tuple(map(tuple, rows.tolist()))))
    assert (problem.system.A[0, 0], problem.system.theta[2]) == (0.4, 0.7)


def test_limits_of_a_budget_set_are_found():
    assert limits_of(dlb.actions.budget([0.0, 0.1], [1.0, 2.0], 2.5)).total == 2.5
    assert limits_of(dlb.actions.finite([[1.0, 0.0], [0.0, 1.0]])) is None
    assert limits_of(dlb.actions.polytope([[-1, 0], [0, -1], [1, 2]], [0, 0, 2])) is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"memory": 6.0}, "memory"), ({"table": ((2.0,) * 6,) * 4}, "table"),
        ({"table": ((1.0, 2.0),)}, "table"), ({"source": "given"}, "source"),
    ],
)  # fmt: skip
def test_what_makes_no_problem_is_rejected_beside_its_field(changes, field):
    with pytest.raises(InputError) as rejected:
        problem_of(Settings(**changes))
    assert rejected.value.field == field


def test_large_problems_are_rejected():
    long = dlb.problems.delayed([0.5, 0.4], 40)
    with pytest.raises(InputError, match="up to 30 coordinates"):
        problem_of(Settings(source="given"), long)
    wide = dlb.Problem(
        dlb.System([[0.5]], np.ones((1, 9)), [1.0], np.ones(9)), dlb.actions.hypercube(9)
    )
    with pytest.raises(InputError, match="up to 256 vertices"):
        problem_of(Settings(source="given"), wide)
    listed = dlb.problems.delayed([0.5, 0.4], 2)
    with pytest.raises(InputError, match="no budget"):
        problem_of(Settings(source="given", budget=1.0), listed)
