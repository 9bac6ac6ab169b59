"""Results: regret at the reporting rounds and its configuration; statistics, plots and files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dlbjax.common.archive import in_one_line, read_archive, write_archive
from dlbjax.common.arrays import fits, real_array, shape_in_words, short, whole_number
from dlbjax.common.files import as_path
from dlbjax.results import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from xarray import Dataset, DataTree

Colours = Mapping[str, Any] | Sequence[Any] | None  # by policy or curve, or in their order
REGRETS = ("realised", "expected", "offline")
RECORDED = ("actions", "rewards", "states")


class Summary(NamedTuple):
    """Statistics of the regret over seeds at the reporting rounds.

    Attributes:
      mean: (axes…, C) mean over seeds.
      std: (axes…, C) standard deviation of one run; nan for a single seed.
      standard_error: (axes…, C) standard error of the mean; nan for a single seed.
      quantiles: (quantiles, axes…, C) quantiles over seeds.
    """

    mean: np.ndarray
    std: np.ndarray
    standard_error: np.ndarray
    quantiles: np.ndarray

    def __repr__(self) -> str:
        return text.of_summary(self)

    def _repr_html_(self) -> str:
        return text.as_html(repr(self))


class _Shown:
    """What one result and several have in common: a picture, and a few lines of text."""

    def _repr_html_(self) -> str:
        return text.as_html(repr(self))

    def plot(
        self: Any,
        kind: str = "expected",
        *,
        curves: Sequence[str] | None = None,
        colours: Colours = None,
        labels: Mapping[str, str] | None = None,
        legend: bool = True,
        band: str | None = "std",
        scale: str | tuple[str, str] = "linear",
        title: str | None = None,
        top: float | None = None,
        overlays: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
        ax: "Axes | None" = None,
    ) -> "Axes":
        """Plot mean regret and its spread over seeds, of all policies in one figure.

        The arguments are those of `dlbjax.results.plot.regret`. Returns the axes, so that
        `result.plot().figure.savefig("regret.pdf")` writes the figure.
        """
        from dlbjax.results import plot

        shown = self if isinstance(self, Results) else {self.name: self}

        return plot.regret(
            shown, kind, curves=curves, colours=colours, labels=labels, legend=legend,
            band=band, scale=scale, title=title, top=top, overlays=overlays, ax=ax,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Result(_Shown):
    """Regret of one policy, or of a grid of policies, over seeds.

    Attributes:
      rounds: (C,) rounds after which regret is reported.
      realised_regret: (axes…, seeds, C) T·J* − Σ y_t.
      expected_regret: (axes…, seeds, C) T·J* − Σ (⟨ω,z_t⟩ + ⟨θ,u_t⟩) with z the noise-free state under
        the actions played: the realised regret without the additive noise.
      offline_regret: (axes…, seeds, C) Σ (J* − J(u_t)), as in the paper's figures.
      seeds: (seeds,) the seeds.
      axes: hyper-parameters that vary, in order, and their values.
      name: name of the policy.
      config: how the result was computed: versions, problem, policy, horizon, dtype.
      actions: (axes…, seeds, T) indices of the vertices played, −1 for any other action, if recorded.
      rewards: (axes…, seeds, T) rewards, if recorded.
      states: (axes…, seeds, T, n) states, if recorded.
      policy_state: state of the policy after the last epoch, leaves (axes…, seeds, …), if recorded.
        `save` leaves it out, because only the policy knows its structure.
    """

    rounds: np.ndarray
    realised_regret: np.ndarray
    expected_regret: np.ndarray
    offline_regret: np.ndarray
    seeds: np.ndarray
    axes: Mapping[str, np.ndarray] = field(default_factory=dict)
    name: str = "policy"
    config: Mapping[str, Any] = field(default_factory=dict)
    actions: np.ndarray | None = None
    rewards: np.ndarray | None = None
    states: np.ndarray | None = None
    policy_state: Any = None

    def __repr__(self) -> str:
        return text.of_result(self)

    def regret(self, kind: str = "expected") -> np.ndarray:
        """The regret of the given kind: "realised", "expected" or "offline"."""
        if kind not in REGRETS:
            raise ValueError(f"kind must be one of {', '.join(REGRETS)}; got {kind!r}")
        return getattr(self, f"{kind}_regret")

    def summary(
        self, kind: str = "expected", quantiles: Sequence[float] = (0.1, 0.5, 0.9)
    ) -> Summary:
        """Mean, spread and quantiles over seeds at every reporting round.

        >>> import dlbjax as dlb
        >>> problem = dlb.problems.synthetic()
        >>> result = dlb.simulate(problem, dlb.myopic(problem), horizon=100, seeds=5)
        >>> round(float(result.summary("offline").mean[-1]), 3)
        25.694
        """
        regret = self.regret(kind)
        levels = real_array("quantiles", quantiles, (None,))
        if np.any((levels < 0) | (levels > 1)):
            raise ValueError(f"quantiles must lie between 0 and 1; got {short(quantiles)}")
        runs = regret.shape[-2]
        std = regret.std(axis=-2, ddof=1) if runs > 1 else np.full_like(regret[..., 0, :], np.nan)
        return Summary(
            mean=regret.mean(axis=-2),
            std=std,
            standard_error=std / np.sqrt(runs),
            quantiles=np.quantile(regret, levels, axis=-2),
        )

    def labels(self, name: str | None = None) -> list[str]:
        """One label per combination of hyper-parameters, in the order of the leading axes.

        Args:
          name: what to call the policy; its own name by default.
        """
        labels = [self.name if name is None else name]
        for axis, values in self.axes.items():
            texts = [f"{symbol(axis)}={shown(axis, v, self.rounds[-1])}" for v in values]
            labels = [f"{label}, {text}" for label in labels for text in texts]
        return labels

    def sel(self, **values: Any) -> "Result":
        """The part with these values of the axes, and of `seed`.

        One value takes its axis away and goes into the name, a list keeps the axis with these values in
        their order. A value can be given as labels show it, such as `lam="log T"`.

        >>> import dlbjax as dlb
        >>> problem = dlb.problems.synthetic()
        >>> policy = dlb.dynlin_ucb(dlb.Bounds.of(problem, rho_bar=[0.1, 0.2, 0.4]))
        >>> result = dlb.simulate(problem, policy, horizon=100, seeds=5)
        >>> result.sel(rho_bar=0.2).labels()
        ['DynLin-UCB, ρ̄=0.2']
        >>> result.sel(rho_bar=[0.4, 0.2], seed=range(3)).expected_regret.shape[:2]
        (2, 3)
        """
        from dlbjax.results.selection import select

        return select(self, values)

    def table(
        self, kind: str = "expected", quantiles: Sequence[float] = (0.1, 0.5, 0.9)
    ) -> "DataFrame":
        """Regret after the last round as a table, as `Results.table` (needs the `xarray` extra)."""
        return Results({self.name: self}).table(kind, quantiles)

    def to_pandas(self, rounds: Sequence[int] | None = None) -> "DataFrame":
        """A row for every run and round, as `Results.to_pandas` (needs the `xarray` extra)."""
        return Results({self.name: self}).to_pandas(rounds)

    def to_xarray(self) -> "Dataset":
        """The result as an `xarray.Dataset` with labelled axes (needs the `xarray` extra).

        Dimensions are the hyper-parameters, `seed` and `round`, and `t` for what was recorded.
        """
        from dlbjax.results.frames import dataset

        return dataset(self)

    def save(self, path: str | Path) -> None:
        """Write the result to an .npz file, atomically; `dlbjax.load` reads it back."""
        header = {"kind": "Result", "results": [self._header()]}
        write_archive(path, header, self._arrays(""), compress=True)

    def _header(self) -> dict[str, Any]:
        return {"name": self.name, "axes": list(self.axes), "config": dict(self.config)}

    def _arrays(self, prefix: str) -> dict[str, np.ndarray]:
        arrays = {"rounds": self.rounds, "seeds": self.seeds}
        arrays |= {f"{kind}_regret": self.regret(kind) for kind in REGRETS}
        arrays |= {f"axis_{name}": np.asarray(values) for name, values in self.axes.items()}
        arrays |= {
            name: getattr(self, name) for name in RECORDED if getattr(self, name) is not None
        }
        return {prefix + name: values for name, values in arrays.items()}


class Results(_Shown, dict[str, Result]):
    """Results of several policies by name.

    >>> import dlbjax as dlb
    >>> problem = dlb.problems.synthetic()
    >>> bounds = dlb.Bounds.of(problem)
    >>> results = dlb.simulate(
    ...     problem,
    ...     {"DynLin-UCB": dlb.dynlin_ucb(bounds, lam=[1, 10]), "myopic": dlb.myopic(problem)},
    ...     horizon=100,
    ...     seeds=5,
    ... )
    >>> results.labels()
    ['DynLin-UCB, λ=1', 'DynLin-UCB, λ=10', 'myopic']
    >>> results.sel("myopic", "DynLin-UCB, λ=10").labels()
    ['myopic', 'DynLin-UCB, λ=10']
    >>> results.sel(lam=1).labels()
    ['DynLin-UCB, λ=1', 'myopic']
    >>> results.table("offline")["mean"].round(1).to_dict()
    {'DynLin-UCB, λ=1': 19.6, 'DynLin-UCB, λ=10': 15.9, 'myopic': 25.7}
    """

    def __repr__(self) -> str:
        return text.of_results(self)

    def labels(self) -> list[str]:
        """One label per policy and combination of hyper-parameters."""
        return [label for name, result in self.items() for label in result.labels(name)]

    def sel(self, *labels: str, **values: Any) -> "Results":
        """Some of the policies and curves.

        Args:
          *labels: names of policies, or labels of single curves, in the wanted order; all by default.
          **values: values of axes and of `seed`, as in `Result.sel`. A policy without such an axis stays
            whole, one that lacks the value is left out.
        """
        from dlbjax.results.selection import select_labels, select_values

        found = select_labels(self, labels) if labels else self
        return select_values(found, values) if values else Results(found)

    def table(
        self, kind: str = "expected", quantiles: Sequence[float] = (0.1, 0.5, 0.9)
    ) -> "DataFrame":
        """Regret after the last round as a `pandas.DataFrame`, one row per curve.

        Columns are the policy, all axes (nan where a policy lacks one), the number of runs, the round,
        mean, std, standard error and the quantiles. Needs the `xarray` extra, which includes pandas.
        """
        from dlbjax.results.frames import statistics

        return statistics(self, kind, quantiles)

    def to_pandas(self, rounds: Sequence[int] | None = None) -> "DataFrame":
        """All runs in one `pandas.DataFrame`: a row for every run and round.

        Columns are the policy, all axes (nan where a policy lacks one), seed, round and the three
        regrets. Needs the `xarray` extra, which includes pandas.

        Args:
          rounds: reporting rounds; the last by default.
        """
        from dlbjax.results.frames import runs

        return runs(self, rounds)

    def to_xarray(self) -> "DataTree":
        """An `xarray.DataTree` with a node for every policy, because their axes differ.

        Each holds what `Result.to_xarray` gives. Needs the `xarray` extra.
        """
        from dlbjax.results.frames import tree

        return tree(self)

    def save(self, path: str | Path) -> None:
        """Write all of them to one .npz file, atomically; `dlbjax.load` reads it back."""
        arrays: dict[str, np.ndarray] = {}
        for name, result in self.items():
            arrays |= result._arrays(f"{name}/")
        headers = [{"key": name, **result._header()} for name, result in self.items()]
        write_archive(path, {"kind": "Results", "results": headers}, arrays, compress=True)


def load(path: str | Path, *, limit: int | None = None) -> Result | Results:
    """Read a file written by `save`. Nothing in the file is executed.

    Args:
      path: the file.
      limit: bytes that its arrays may take. By default 1 GiB, or 8 times the size of the file where that is
        more: a small file of a stranger could be made to decompress to any size.

    >>> import dlbjax as dlb, tempfile, os
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.myopic(problem), horizon=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(os.path.join(folder, "run.npz"))
    ...     again = dlb.load(os.path.join(folder, "run.npz"))
    >>> bool((again.expected_regret == result.expected_regret).all())
    True
    """
    path = as_path("path", path)
    most = None if limit is None else whole_number("limit", limit, at_least=0)
    header, arrays = read_archive(path, "a dlbjax result", limit=most)
    try:
        entries = _entries(header)
        if header["kind"] == "Result":
            return _read(arrays, "", entries[0])
        return Results({e["key"]: _read(arrays, f"{e['key']}/", e) for e in entries})
    except Exception as error:  # a file can hold anything
        raise ValueError(f"{path} is not a dlbjax result: {in_one_line(error)}") from error


def _entries(header: dict[str, Any]) -> list[dict[str, Any]]:
    """The header's entries, one per result, validated."""
    kind, entries = header.get("kind"), header.get("results")
    if kind not in ("Result", "Results"):
        raise ValueError(f"its kind must be Result or Results; got {kind!r:.60}")
    if not isinstance(entries, list) or (kind == "Result" and len(entries) != 1):
        count = "one result" if kind == "Result" else "results"
        raise ValueError(f"its header must list {count}; got {entries!r:.60}")
    types: dict[str, type] = {"name": str, "axes": list, "config": dict}
    if kind == "Results":
        types["key"] = str
    for entry in entries:
        for name, type_ in types.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(name), type_):
                raise ValueError(
                    f"its header must give the {name} of every result; got {entry!r:.60}"
                )
        _check_distinct("axes", entry["axes"])
    if kind == "Results":
        _check_distinct("keys", [entry["key"] for entry in entries])
    return entries


def _check_distinct(what: str, names: list[Any]) -> None:
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"{what} in its header must be distinct names; got {names!r:.60}")


def _read(file: Mapping[str, Any], prefix: str, header: dict[str, Any]) -> Result:
    """The result whose arrays have this prefix; a ValueError if they do not fit together."""

    def array(name: str, kinds: str, shape: tuple[int | None, ...]) -> np.ndarray:
        return _checked(prefix + name, file.get(prefix + name), kinds, shape)

    axes = {name: array(f"axis_{name}", "biufU", (None,)) for name in header["axes"]}
    rounds, seeds = array("rounds", "iu", (None,)), array("seeds", "iu", (None,))
    if rounds[0] < 1 or np.any(rounds[1:] <= rounds[:-1]):
        raise ValueError(f"{prefix}rounds must increase strictly from 1 or more")
    if len(np.unique(seeds)) < len(seeds):
        raise ValueError(f"{prefix}seeds must be distinct")
    runs = (*map(len, axes.values()), len(seeds))
    every_round = (*runs, int(rounds[-1]))
    recorded = {
        "actions": ("iu", every_round),
        "rewards": ("f", every_round),
        "states": ("f", (*every_round, None)),
    }
    return Result(
        rounds=rounds,
        seeds=seeds,
        **{
            f"{kind}_regret": array(f"{kind}_regret", "f", (*runs, len(rounds))) for kind in REGRETS
        },
        axes=axes,
        name=header["name"],
        config=header["config"],
        **{name: array(name, *recorded[name]) for name in RECORDED if prefix + name in file},
    )


def _checked(name: str, values: Any, kinds: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array, with its dtype, shape and values validated."""
    if not isinstance(values, np.ndarray):
        raise ValueError(f"{name} is missing")
    if values.dtype.kind not in kinds:
        wanted = {"iu": "whole numbers", "f": "floats"}.get(kinds, "numbers or names")
        raise ValueError(f"{name} must hold {wanted}; got {values.dtype!s:.60}")
    if not fits(values.shape, shape) or values.size == 0:
        why = " to match its axes, seeds and rounds" if len(shape) > 1 else " and not be empty"
        raise ValueError(f"{name} must have {shape_in_words(shape)}{why}; got shape {values.shape}")
    if kinds == "f" and not np.all(np.isfinite(values)):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(f"{name} must be finite; got {values[place]} at index {place}")
    return values


def symbol(axis: str) -> str:
    """The axis as labels show it."""
    return {"rho_bar": "ρ̄", "lam": "λ", "delta": "δ", "gamma": "γ", "sigma": "σ"}.get(axis, axis)


def shown(axis: str, value: Any, horizon: int) -> str:
    """The value of an axis as text: λ is often log T, and 1 − 10⁻⁶ must not round to 1."""
    if isinstance(value, str):
        return str(value)
    if axis == "lam" and np.isclose(value, np.log(horizon), rtol=1e-12, atol=0):
        return "log T"
    return f"1−{1 - value:.3g}" if 0.9999 < value < 1 else f"{value:g}"
