"""`sensitivity.of`: its derivatives, ties and limits against differences and moved systems."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from tests.sensitivity.oracles import differences, quantities, steady_reward, world

FIELDS = ("A", "B", "omega", "theta")


def made(w, vertices):
    return dlb.Problem(dlb.System(**w), dlb.actions.finite(vertices))


def arrays(problem):
    return {name: np.array(getattr(problem.system, name)) for name in (*FIELDS, "x1")}


def best(w, vertices):
    values = vertices @ steady_reward(w)
    return np.flatnonzero(values >= values.max() - 1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_and_elasticities_equal_differences(seed):
    w, vertices = world(seed)
    found = dlb.sensitivity.of(made(w, vertices))
    slopes = differences(lambda v: quantities(v, vertices), w)
    assert found.value == pytest.approx(quantities(w, vertices)["J*"], rel=1e-12)
    assert found.margin == pytest.approx(quantities(w, vertices)["margin"], rel=1e-12)
    for name in FIELDS:
        close = {"rtol": 1e-6, "atol": 1e-9}
        np.testing.assert_allclose(getattr(found.derivatives, name), slopes["J*", name], **close)
        np.testing.assert_allclose(
            getattr(found.margin_derivatives, name), slopes["margin", name], **close
        )
        np.testing.assert_allclose(
            getattr(found.elasticities, name), slopes["J*", name] * w[name] / found.value, **close
        )
        np.testing.assert_array_equal(getattr(found.below, name), getattr(found.above, name))


@pytest.mark.parametrize("seed", [0, 1, 2, "real world"])
def test_the_best_vertex_changes_just_where_it_is_said_to(seed):
    if seed == "real world":
        problem = dlb.problems.real_world()
        w, vertices = arrays(problem), problem.actions.vertices
    else:
        w, vertices = world(seed, rho=0.6)
        problem = made(w, vertices)
    found = dlb.sensitivity.of(problem)
    (first,) = best(w, vertices)
    changes = 0
    for name in FIELDS:
        for place in np.ndindex(w[name].shape):
            for sign, reach in ((-1, found.falls), (1, found.rises)):

                def after(move, sign=sign, name=name, place=place):
                    """The best vertex, or None where A is unstable, or hardly stable."""
                    moved = {key: value.copy() for key, value in w.items()}
                    moved[name][place] += sign * move
                    rho = max(abs(np.linalg.eigvals(moved["A"])))
                    assert rho < 1 or not np.isfinite(distance)  # noqa: B023
                    return best(moved, vertices)[0] if rho < 0.97 else None

                distance = getattr(reach, name)[place]
                if np.isfinite(distance):
                    assert after(distance * (1 + 1e-6)) != first
                    changes += after(distance * (1 + 1e-6)) is not None
                for share in (0.3, 0.999999):
                    assert after(share * min(distance, 3.0)) in (None, first)
    assert changes > 15


def tied_problem():
    """J = 2θ₀ + … : the first two vertices tie, the third is worse, the fourth worst."""
    rng = np.random.default_rng(3)
    w, _ = world(3)
    h = steady_reward(w)
    across = np.array([-h[1], h[0], 0.0]) / np.linalg.norm(h)  # moves no reward
    along = h / np.linalg.norm(h)
    vertices = np.stack([along, along + 0.3 * across, 0.8 * along, rng.normal(size=3) * 0.1])
    return w, vertices[[2, 1, 0, 3]]


def test_a_kink_is_reported_from_both_sides():
    w, vertices = tied_problem()
    found = dlb.sensitivity.of(made(w, vertices))
    assert [vertex.index for vertex in found.ties] == [1, 2]
    assert [vertex.index for vertex in found.runners_up] == [0]
    np.testing.assert_array_equal(found.ties[0].action, vertices[1])
    step, kinks = 1e-5, 0

    def value_after(name, place, move):
        moved = {key: value.copy() for key, value in w.items()}
        moved[name][place] += move
        return (vertices @ steady_reward(moved)).max()

    for name in FIELDS:
        for place in np.ndindex(w[name].shape):
            for h, sides in ((-step, found.below), (step, found.above)):
                start, near, far = (value_after(name, place, k * h) for k in range(3))
                slope = (4 * near - far - 3 * start) / (2 * h)
                np.testing.assert_allclose(getattr(sides, name)[place], slope, rtol=1e-6, atol=1e-8)
            low, high = getattr(found.below, name)[place], getattr(found.above, name)[place]
            one = [getattr(vertex.derivatives, name)[place] for vertex in found.ties]
            assert (low, high) == (min(one), max(one))
            first = getattr(found.derivatives, name)[place]
            assert first == one[0]
            if high > low + 1e-9:  # the first vertex is overtaken at once on one side
                kinks += 1
                assert (getattr(found.falls, name)[place] == 0) == (first == high)
                assert (getattr(found.rises, name)[place] == 0) == (first == low)
    assert kinks > 10
    assert "a kink: u* ties with (" in str(found)
    assert str(found).splitlines()[-1].startswith("theta[")


def test_rounding_does_not_end_a_tie():
    """Both vertices lead to x̄ = 0.06, apart by rounding only: A and ω move both alike."""
    system = dlb.System([[0.5]], [[0.1, 0.2]], [1.0], [0.0, 0.0])
    vertices = np.array([[0.3, 0.0], [0.1, 0.1]])
    assert np.ptp(vertices @ system.B[0]) > 0
    found = dlb.sensitivity.of(dlb.Problem(system, dlb.actions.finite(vertices)))
    assert len(found.ties) == 2
    for moves in (found.falls, found.rises):
        assert (moves.A.item(), moves.omega.item()) == (np.inf, np.inf)
    assert found.falls.theta.tolist() == [0.0, np.inf]
    assert found.rises.theta.tolist() == [np.inf, 0.0]


def test_where_nothing_is_worse_there_is_no_margin():
    system = dlb.System([[0.0]], [[0.0, 0.0]], [0.0], [1.0, 1.0])
    for vertices in ([[1.0, 0.0]], np.eye(2)):
        found = dlb.sensitivity.of(dlb.Problem(system, dlb.actions.finite(vertices)))
        assert found.margin == np.inf
        assert found.runners_up == ()
        assert not np.any(found.margin_derivatives.theta)
        assert "next is" not in str(found)


def test_a_value_of_zero_has_derivatives_only():
    problem = dlb.Problem(
        dlb.System([[0.5]], [[1.0]], [0.0], [0.0]), dlb.actions.finite([[2.0], [1.0]])
    )
    found = dlb.sensitivity.of(problem)
    assert np.isnan(found.elasticities.A).all()
    assert found.largest(1)[0][:3] == ("omega[0]", 0.0, 4.0)
    assert "omega[0]" in str(found)
    with pytest.raises(ValueError, match="J\\* is 0"):
        found.plot()


def test_a_long_list_of_ties_is_cut():
    system = dlb.System([[0.0]], np.zeros((1, 6)), [0.0], np.ones(6))
    lines = str(dlb.sensitivity.of(dlb.Problem(system, dlb.actions.hypercube(6)))).splitlines()
    assert lines[1].endswith(" and 3 more, worse by 1")


def test_the_largest_and_the_steepest():
    found = dlb.sensitivity.of(dlb.problems.real_world())
    entries = found.largest(100)
    assert len(entries) == 9 + 9 + 3 + 3
    shares = [abs(entry.elasticity) for entry in entries]
    assert shares == sorted(shares, reverse=True)
    assert [entry.name for entry in found.largest(2)] == ["A[1,1]", "B[1,0]"]
    for _, value, slope, share in entries:
        assert share == pytest.approx(value * slope / found.value)
    steep = found.steepest("B")
    assert abs(steep.derivative) == np.abs(found.derivatives.B).max()
    assert steep.name == "B[1,0]"
    assert steep.value == -0.17


def test_numbers_do_not_depend_on_jax_settings():
    """NumPy on the host: nothing is compiled and nothing is rounded to float32."""
    found = dlb.sensitivity.of(dlb.problems.synthetic())
    assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(found.derivatives))
    assert {leaf.dtype for leaf in jax.tree.leaves(found.elasticities)} == {np.dtype(float)}


@pytest.mark.parametrize("problem", [dlb.problems.real_world(), dlb.problems.delayed([1, 2], 4)])
def test_the_figure_says_what_it_shows(problem):
    found = dlb.sensitivity.of(problem)
    figure = found.plot()
    A, B, omega, theta, bar = figure.axes
    assert figure.get_suptitle() == f"Elasticities of the optimal value J* = {found.value:.4g}"
    assert [ax.get_title().split(":")[0] for ax in (A, B, omega, theta)] == ["A", "B", "ω", "θ"]
    assert (A.get_ylabel(), A.get_xlabel()) == ("to state i", "from state j")
    assert (B.get_ylabel(), B.get_xlabel()) == ("to state i", "from action j")
    assert (omega.get_ylabel(), theta.get_xlabel()) == ("from state i", "from action j")
    assert "elasticity" in bar.get_ylabel()
    most = max(np.abs(field).max() for field in found.elasticities)
    for ax, values in zip(figure.axes, found.elasticities, strict=False):
        (image,) = ax.images
        np.testing.assert_array_equal(np.ravel(image.get_array()), values.ravel())
        assert image.get_clim() == (-most, most)
        assert image.get_cmap().name == "RdBu_r"
        assert [text.get_text() for text in ax.texts] == [f"{v:.2g}" for v in values.ravel()]
        assert "-0" not in [text.get_text() for text in ax.texts]
    plt.close(figure)


def test_the_figure_admits_a_kink():
    figure = dlb.sensitivity.of(made(*tied_problem())).plot()
    assert figure.get_suptitle().endswith("at a kink: those of the first best vertex")
    plt.close(figure)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: dlb.sensitivity.of(p.system), "problem must be a dlbjax.Problem; got System"),
        (lambda p: dlb.sensitivity.of(p).largest(0), "k must be a whole number >= 1"),
        (lambda p: dlb.sensitivity.of(p).steepest("h"), "field must be one of A, B, omega, theta"),
        (
            lambda p: jax.jit(
                lambda s: dlb.sensitivity.of(dlb.Problem(s, p.actions)).derivatives
            )(p.system),
            "differentiate sensitivity.optimal_value",
        ),
    ],
)  # fmt: skip
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(dlb.problems.synthetic())
