"""`reproduce`: the files it writes, and which experiments it runs again."""

import os
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.experiments import report
from tests.experiments.shapes import NAMES, Shape, compared, discounted, over_rho_bar, tightened
from tests.experiments.test_adaptive import over_family, single

SIZE = report.Size(horizon=60, seeds=2)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def like_comparison(*further):
    def make(**size):
        shapes = {n: [Shape(100.0, 0.7, 0.1)] * (2 if "Lin-UCB" in n else 1) for n in NAMES}
        return compared(shapes | {name: [Shape(100.0)] for name in further}, **size)

    return make


FAKES = {
    "figure1": like_comparison(),
    "vertices-6": like_comparison(),
    "discounting": lambda **size: discounted([Shape(100.0)] * 6, **size),
    "figure2": lambda **size: over_rho_bar([Shape(100.0)] * 6, **size),
    "figure3": like_comparison("expert"),
    "noise-0.001": like_comparison(),
    "noise-0.1": like_comparison(),
    "tight-synthetic": lambda **size: tightened(Shape(20.0, 0.1, 0.1), **size),
    "tight-real-world": lambda **size: tightened(Shape(200.0, 0.1, 0.1), **size),
    "adaptive-problems": single,
    "adaptive-family": over_family,
}


@pytest.fixture
def ran(monkeypatch):
    """Experiments that cost nothing; lists those that were run."""
    calls = []

    def counted(name, fake):
        def run(**size):
            calls.append(name)
            return fake(**size)

        return run

    fakes = {name: counted(name, fake) for name, fake in FAKES.items()}
    monkeypatch.setattr(report, "EXPERIMENTS", fakes)
    return calls


@pytest.fixture
def undrawn(monkeypatch):
    """Figures that show nothing, for tests about something else."""
    monkeypatch.setattr(report, "_plot", lambda *_: plt.figure(figsize=(1, 1)))


def made(figures, out, size=SIZE, **options):
    return list(report.reproduce(figures, out, size, **options))


def contents(folder):
    """Bytes of every file."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_fakes_stand_for_all_experiments():
    assert list(FAKES) == list(report.EXPERIMENTS)
    needed = [name for names in report.FIGURES.values() for name in names]
    assert set(needed) == set(report.EXPERIMENTS)


@pytest.mark.parametrize("figure", [name for name in report.FIGURES if name != "adaptive"])
def test_writes_results_figures_tables_and_claims(figure, ran, tmp_path):
    out = tmp_path / "new" / "folder"
    paths = made([figure], out)
    names = report.FIGURES[figure]
    expected = [f"{name}.npz" for name in names]
    stems = [figure] if figure == "tight" else [figure, f"{figure}-offline"]
    expected += [f"{stem}.{kind}" for stem in stems for kind in ("png", "pdf")]
    expected += [f"{figure}.md", "claims.md"]
    assert paths == [out / name for name in expected]
    assert sorted(os.listdir(out)) == sorted(expected)
    for stem in stems:
        assert (out / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        pdf = (out / f"{stem}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        assert b"/Type3" not in pdf  # fonts are embedded as TrueType
        assert b"/FontFile2" in pdf
    assert ran == list(names)
    assert plt.get_fignums() == []
    table = (out / f"{figure}.md").read_text("utf-8")
    assert [line for line in table.splitlines() if line.startswith("## ")] == [
        f"## {name}" for name in names
    ]
    assert table.count("Expected regret after 60 rounds, 2 runs.") == len(names)
    assert table.count("Seconds of one core for 60 rounds") == len(names)
    claims = (out / "claims.md").read_text("utf-8")
    assert claims.startswith(
        "The paper's size is 50 runs of 1,000,000 rounds in float64, this is 2 of 60 in float64: a claim "
        "may fail for that alone.\n\nMean expected regret of 2 runs of 60 rounds."
    )


def test_the_adaptive_study_has_its_own_size_and_tables(ran, tmp_path):
    size = report.Size(600, 6)
    names = [
        "adaptive-problems.npz",
        "adaptive-family.npz",
        "adaptive.png",
        "adaptive.pdf",
        "adaptive.md",
    ]
    assert made(["adaptive"], tmp_path, size) == [tmp_path / n for n in (*names, "claims.md")]
    family = dlb.load(tmp_path / "adaptive-family.npz")
    assert all(r.rounds[-1] == 60 and len(r.seeds) == 2 for r in family.values())
    assert "## Where it is worst" in (tmp_path / "adaptive.md").read_text("utf-8")
    made(["adaptive"], tmp_path, size)
    assert ran == ["adaptive-problems", "adaptive-family"]  # reused the second time


def test_the_results_are_those_of_the_experiments(ran, undrawn, tmp_path):
    made(["figure1", "variants"], tmp_path)
    size = SIZE._asdict()
    for name, key in (
        ("figure1", "Lin-UCB"), ("vertices-6", "AR2"), ("discounting", "D-Lin-UCB"),
    ):  # fmt: skip
        saved, fake = dlb.load(tmp_path / f"{name}.npz"), FAKES[name](**size)
        expected = fake if name == "discounting" else fake[key]
        assert isinstance(saved, dlb.Results)
        np.testing.assert_array_equal(saved[key].expected_regret, expected.expected_regret)
        assert saved[key].labels() == expected.labels()


def test_every_table_compares_with_its_reference(ran, undrawn, tmp_path):
    made(["figure1", "figure2", "variants"], tmp_path)
    references = {
        "figure1": ["DynLin-UCB, λ=log T"],
        "variants": ["DynLin-UCB, λ=log T", "D-Lin-UCB, γ=1−1e-09"],
        "figure2": ["DynLin-UCB, ρ̄=0.2"],
    }
    for figure, expected in references.items():
        heads = [
            line for line in (tmp_path / f"{figure}.md").read_text("utf-8").splitlines()
            if line.startswith("| policy | mean")
        ]  # fmt: skip
        assert len(heads) == len(expected)
        for head, reference in zip(heads, expected, strict=True):
            assert f"| more than {reference} |" in head


def test_an_experiment_of_two_figures_is_run_once(ran, undrawn, tmp_path):
    made(list(report.FIGURES), tmp_path)
    assert sorted(ran) == sorted(report.EXPERIMENTS)


def test_finished_results_are_reused(ran, tmp_path):
    first = made(["figure1"], tmp_path)
    before = contents(tmp_path)
    stamps = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.npz")}
    ran.clear()
    assert made(["figure1"], tmp_path) == first
    assert ran == []
    assert contents(tmp_path) == before
    assert {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.npz")} == stamps


def test_another_figure_reuses_finished_results(ran, undrawn, tmp_path):
    made(["figure1"], tmp_path)
    ran.clear()
    made(["noise"], tmp_path)
    assert ran == ["noise-0.001", "noise-0.1"]


def test_claims_of_figures_made_before_are_kept(ran, undrawn, tmp_path):
    made(list(report.FIGURES), tmp_path)
    whole = (tmp_path / "claims.md").read_bytes()
    made(["figure2"], tmp_path)
    assert (tmp_path / "claims.md").read_bytes() == whole


def test_claims_of_another_size_and_of_other_code_are_kept_apart(ran, undrawn, tmp_path):
    made(["figure1"], tmp_path)
    before = (tmp_path / "claims.md").read_text("utf-8")
    made(["figure2"], tmp_path, SIZE._replace(seeds=3))
    both = (tmp_path / "claims.md").read_text("utf-8")
    assert before in both
    assert "this is 3 of 60 in float64" in both
    assert "an overestimate slows convergence" in both
    for name in report.FIGURES["figure1"]:
        results = dlb.load(tmp_path / f"{name}.npz")
        for result in results.values():
            result.config["source"] = "of another time"
        results.save(tmp_path / f"{name}.npz")
    made(["figure2"], tmp_path)
    now = (tmp_path / "claims.md").read_text("utf-8")
    old = now.index("These results come from an earlier call, with other code or versions.")
    assert now.index("all versions of Lin-UCB and D-Lin-UCB") > old


def test_the_paper_has_the_size_that_is_the_default(ran, undrawn, tmp_path):
    made(["figure2"], tmp_path, report.Size())
    claims = (tmp_path / "claims.md").read_text("utf-8")
    assert claims.startswith("Mean expected regret of 50 runs of 1,000,000 rounds.")


def test_results_laid_out_in_another_way_do_not_end_the_command(ran, undrawn, tmp_path):
    old = FAKES["figure1"](**SIZE._asdict())
    for result in old.values():
        result.config["source"] = "of another time"
    dlb.Results({f"old {name}": result for name, result in old.items()}).save(
        tmp_path / "figure1.npz"
    )
    made(["figure2"], tmp_path)
    assert "an overestimate slows" in (tmp_path / "claims.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (SIZE._replace(horizon=80), {}),
        (SIZE._replace(seeds=3), {}),
        (SIZE._replace(dtype="float32"), {}),
        (SIZE, {"again": True}),
    ],
)
def test_another_size_is_computed(size, options, ran, undrawn, tmp_path):
    made(["figure2"], tmp_path)
    ran.clear()
    made(["figure2"], tmp_path, size, **options)
    assert ran == ["figure2"]
    for result in dlb.load(tmp_path / "figure2.npz").values():
        assert result.rounds[-1] == size.horizon
        assert len(result.seeds) == size.seeds
        assert result.config["dtype"] == size.dtype


@pytest.mark.parametrize("key", ["versions", "source"])
def test_results_of_other_code_are_computed_again(key, ran, undrawn, tmp_path):
    made(["figure2"], tmp_path)
    ran.clear()
    results = dlb.load(tmp_path / "figure2.npz")
    for result in results.values():
        result.config[key] = "of another time"
    results.save(tmp_path / "figure2.npz")
    made(["figure2"], tmp_path)
    assert ran == ["figure2"]
    ran.clear()
    made(["figure2"], tmp_path)
    assert ran == []


def other_seeds(path):
    results = FAKES["figure2"](**SIZE._asdict()).items()
    dlb.Results({k: replace(r, seeds=np.array([3, 4])) for k, r in results}).save(path)


BAD = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "something else": lambda path: path.write_text("figure2"),
    "result without config": lambda path: dlb.Result(
        *np.ones((4, 1)), seeds=np.arange(2)
    ).save(path),
    "other seeds": other_seeds,
}  # fmt: skip


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_invalid_results_are_replaced(spoil, ran, undrawn, tmp_path):
    made(["figure2"], tmp_path)
    before = contents(tmp_path)
    spoil(tmp_path / "figure2.npz")
    ran.clear()
    made(["figure2"], tmp_path)
    assert ran == ["figure2"]
    again = dlb.load(tmp_path / "figure2.npz")
    assert [list(result.seeds) for result in again.values()] == [[0, 1]] * 3
    assert list(contents(tmp_path)) == list(before)


def test_continues_after_an_interruption(ran, undrawn, tmp_path, monkeypatch):
    def interrupted(**size):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(report.EXPERIMENTS, "discounting", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(["variants"], tmp_path)
    before = contents(tmp_path)
    assert list(before) == ["vertices-6.npz"]
    assert ran == ["vertices-6"]
    ran.clear()
    made(["variants"], tmp_path)
    assert ran == ["discounting"]
    assert contents(tmp_path).items() >= before.items()
    assert "claims.md" in os.listdir(tmp_path)


def test_a_figure_that_fails_leaves_the_old_one(ran, undrawn, tmp_path, monkeypatch):
    made(["figure2"], tmp_path)
    before = contents(tmp_path)

    def breaks_off(figure, file, **options):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(plt.Figure, "savefig", breaks_off)
    with pytest.raises(OSError, match="no space left"):
        made(["figure2"], tmp_path)
    assert contents(tmp_path) == before


def test_yields_each_file_once_it_is_complete(ran, undrawn, tmp_path):
    steps = report.reproduce(["figure1"], tmp_path, SIZE)
    assert next(steps) == tmp_path / "figure1.npz"
    assert ran == ["figure1"]
    assert os.listdir(tmp_path) == ["figure1.npz"]
    for path in steps:
        assert path.exists()


def test_an_experiment_runs_at_the_given_size(tmp_path, undrawn):
    made(["figure2"], tmp_path, report.Size(60, 2, "float32"))
    results = dlb.load(tmp_path / "figure2.npz")
    assert list(results) == ["DynLin-UCB", "Lin-UCB", "DynLin-UCB tight (ours)"]
    for result in results.values():
        assert (result.rounds[-1], len(result.seeds)) == (60, 2)
        assert result.config["dtype"] == "float32"
    np.testing.assert_array_equal(results["DynLin-UCB"].axes["rho_bar"], [0, 0.05, 0.1, 0.2, 0.4])
