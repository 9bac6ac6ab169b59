"""Run the paper's experiments and write their results, figures, tables and claims."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dlbjax.common.arrays import whole_number
from dlbjax.common.files import write_atomically
from dlbjax.engine.identity import source, versions
from dlbjax.experiments import adaptive_tables, claims, tables
from dlbjax.experiments.adaptive import on_family, on_problems
from dlbjax.experiments.adaptive_figure import adaptive_figure
from dlbjax.experiments.comparison import comparison, discounting, whole_budget
from dlbjax.experiments.figures import (
    STYLE,
    comparison_figure,
    noise_figure,
    tightness_figure,
)
from dlbjax.experiments.measures import curves
from dlbjax.experiments.sensitivity import sensitivity
from dlbjax.experiments.tightness import REFERENCE, tightness
from dlbjax.model.problems import real_world, synthetic
from dlbjax.policies import expert
from dlbjax.results.result import Result, Results, load


class Size(NamedTuple):
    """The size of an experiment; by default that of the paper.

    Attributes:
      horizon: number of rounds.
      seeds: number of runs.
      dtype: "float64" or "float32".
    """

    horizon: int = 1_000_000
    seeds: int = 50
    dtype: str = "float64"


def _on_real_data(**size: Any) -> Results:
    problem = real_world(sigma=0.01)
    return comparison(problem, further={"expert": expert(problem)}, **size)


# What to compute; each goes into a file of that name.
EXPERIMENTS: dict[str, Callable[..., Result | Results]] = {
    "figure1": lambda **size: comparison(synthetic(sigma=0.01), **size),
    "vertices-6": lambda **size: comparison(whole_budget(synthetic(sigma=0.01)), **size),
    "discounting": discounting,
    "figure2": sensitivity,
    "figure3": _on_real_data,
    "noise-0.001": lambda **size: comparison(synthetic(sigma=0.001), **size),
    "noise-0.1": lambda **size: comparison(synthetic(sigma=0.1), **size),
    "tight-synthetic": lambda **size: tightness(
        synthetic(), extra=[0, 1, 2, 3, 4, 8], rho_bar=[0.2, 0.4, 0.5, 0.9], **size
    ),
    "tight-real-world": lambda **size: tightness(
        real_world(), extra=[0, 4, 8, 12, 16, 32], rho_bar=[0.67, 0.75, 0.9, 0.95], **size
    ),
    "adaptive-problems": on_problems,
    "adaptive-family": on_family,
}
# What to plot, and from which experiments.
FIGURES = {
    "figure1": ("figure1",),
    "figure2": ("figure2",),
    "figure3": ("figure3",),
    "variants": ("vertices-6", "discounting"),
    "noise": ("noise-0.001", "figure1", "noise-0.1"),
    "tight": ("tight-synthetic", "tight-real-world"),
    "adaptive": ("adaptive-problems", "adaptive-family"),
}
OF_THE_PAPER = ("figure1", "figure2", "figure3", "variants", "noise")
MEASURES = {
    "": "expected",
    "-offline": "offline",
}  # by end of the file's name; the paper's is offline


def reproduce(figures: list[str], out: Path, size: Size, again: bool = False) -> Iterator[Path]:
    """Make the figures one after another, then a table of the paper's claims.

    Results in the folder that come from the same computation are reused. The claims are compared with all
    results in the folder. Figures of the paper show expected regret, and with "-offline" in their name
    offline regret, which is what the paper plots.

    Args:
      figures: names in `FIGURES`.
      out: folder for all files.
      size: horizon, runs and dtype.
      again: run experiments even if their results can be reused.

    Yields:
      The path of each file as soon as it is complete.
    """
    whole_number("horizon", size.horizon, at_least=2)  # λ = log T must be positive
    matplotlib.use("Agg")
    out.mkdir(parents=True, exist_ok=True)
    done: dict[str, Results] = {}
    for figure in figures:
        for name in FIGURES[figure]:
            if name not in done:
                own = _own_size(name, size)
                found = None if again else _finished(name, out, own)
                if found is None:
                    found = _as_results(EXPERIMENTS[name](**own._asdict()))
                    found.save(_path(name, out))
                done[name] = found
            yield _path(name, out)
        used = {name: done[name] for name in FIGURES[figure]}
        for suffix, kind in MEASURES.items() if figure in OF_THE_PAPER else [("", "expected")]:
            with plt.style.context(STYLE):
                yield from _save_figure(_plot(figure, used, kind), out / (figure + suffix))
        yield _write(out / f"{figure}.md", _tables(used))
    yield _write(out / "claims.md", _claims(done, out))


def _own_size(name: str, size: Size) -> Size:
    """The size of one experiment: hundreds of systems have fewer runs each, and fewer rounds."""
    if name != "adaptive-family":
        return size
    return size._replace(horizon=max(size.horizon // 10, 10), seeds=max(size.seeds // 3, 1))


def _plot(figure: str, results: Mapping[str, Results], kind: str) -> Figure:
    if figure == "figure2":
        return comparison_figure(results["figure2"], "Synthetic, ρ(A) = 0.2, λ = log T", kind)
    if figure == "tight":
        return tightness_figure(
            dict(zip(("synthetic", "real-world"), results.values(), strict=True))
        )
    if figure == "adaptive":
        return adaptive_figure(*results.values())
    if figure == "noise":
        return noise_figure(dict(zip((0.001, 0.01, 0.1), results.values(), strict=True)), kind)
    if figure == "variants":
        return comparison_figure(results["vertices-6"], "Synthetic, six vertices, σ = 0.01", kind)
    title = {"figure1": "Synthetic problem", "figure3": "Real-world problem"}[figure]
    return comparison_figure(results[figure], f"{title}, σ = 0.01", kind)


def _claims(done: Mapping[str, Results], out: Path) -> str:
    """What the paper says compared with all results in the folder, those of one size and code together."""
    groups: dict[tuple[Size, bool], dict[str, Results]] = {}
    for name in [name for name in EXPERIMENTS if name not in FIGURES["adaptive"]]:
        found = done.get(name) or _earlier(name, out)
        if found is not None:
            size = _size(found)
            groups.setdefault((size, _is_same_computation(found, size)), {})[name] = found
    parts = []
    for (size, same_code), results in groups.items():
        notes = []
        if size != Size():
            notes.append(
                f"The paper's size is {Size().seeds} runs of {Size().horizon:,} rounds in float64, this is "
                f"{size.seeds} of {size.horizon:,} in {size.dtype}: a claim may fail for that alone."
            )
        if not same_code:
            notes.append("These results come from an earlier call, with other code or versions.")
        try:
            parts.append("\n\n".join([*notes, claims.table(results)]))
        except (KeyError, IndexError, ValueError):
            if same_code:
                raise
            # Other code may have laid out its results in another way.
    return "\n".join(parts)


def _earlier(name: str, out: Path) -> Results | None:
    """Valid results of an experiment in the folder, of any size and code."""
    try:
        found = _as_results(load(_path(name, out)))
        _is_same_computation(found, _size(found))  # a KeyError if their config is incomplete
        return found
    except (ValueError, OSError, KeyError, TypeError, StopIteration):
        return None


def _size(found: Results) -> Size:
    first = next(iter(found.values()))
    return Size(int(first.rounds[-1]), len(first.seeds), first.config["dtype"])


def _tables(results: Mapping[str, Results]) -> str:
    if set(results) == set(FIGURES["adaptive"]):
        return adaptive_tables.everything(*results.values())
    parts = []
    for name, found in results.items():
        reference = {
            "figure2": "DynLin-UCB, ρ̄=0.2",
            "discounting": list(curves(found))[-1],  # γ closest to 1
            "tight-synthetic": REFERENCE,
            "tight-real-world": REFERENCE,
        }.get(name, "DynLin-UCB, λ=log T")
        parts.append(f"## {name}\n\n{tables.final_regret(found, reference)}")
        parts.append(tables.timing(found))
    return "\n".join(parts)


def _path(name: str, out: Path) -> Path:
    return out / f"{name}.npz"


def _finished(name: str, out: Path, size: Size) -> Results | None:
    """The results of an experiment in the folder, if they can be reused."""
    try:
        found = _as_results(load(_path(name, out)))
        return found if _is_same_computation(found, size) else None
    except (ValueError, OSError, KeyError, TypeError):
        return None


def _is_same_computation(found: Results, size: Size) -> bool:
    """Whether running the experiment would compute these results; a KeyError if their config is incomplete.

    The experiments are made of this package's code alone, so that its code, the versions of what it stands
    on and the size determine their numbers.
    """
    return bool(found) and all(
        result.config["versions"] == versions()
        and result.config["source"] == source()
        and result.config["dtype"] == size.dtype
        and result.rounds[-1] == size.horizon
        and np.array_equal(result.seeds, np.arange(size.seeds))
        for result in found.values()
    )


def _as_results(found: Result | Results) -> Results:
    return Results({found.name: found}) if isinstance(found, Result) else found


def _save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as PDF."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    for path in paths:
        with write_atomically(path) as file:
            # No date, so that the same results give the same file.
            undated = {"CreationDate": None} if path.suffix == ".pdf" else None
            figure.savefig(file, format=path.suffix[1:], dpi=160, metadata=undated)
        figure.set_layout_engine("none")  # the layout of the first file serves the second
    plt.close(figure)
    return paths


def _write(path: Path, text: str) -> Path:
    with write_atomically(path) as file:
        file.write(text.encode())
    return path
