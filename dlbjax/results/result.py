"""Results: regret at the reporting rounds and its configuration; statistics, plots and files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dlbjax.common.archive import in_one_line, read_archive, write_archive
from dlbjax.common.arrays import fits, shape_in_words
from dlbjax.common.hints import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import Dataset

REGRETS = ("realised", "expected", "offline")
_RECORDED = ("actions", "rewards", "states")


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


@dataclass(frozen=True, eq=False)
class Result:
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
        runs = regret.shape[-2]
        std = regret.std(axis=-2, ddof=1) if runs > 1 else np.full_like(regret[..., 0, :], np.nan)
        return Summary(
            mean=regret.mean(axis=-2),
            std=std,
            standard_error=std / np.sqrt(runs),
            quantiles=np.quantile(regret, quantiles, axis=-2),
        )

    def labels(self) -> list[str]:
        """One label per combination of hyper-parameters, in the order of the leading axes."""
        labels = [""]
        for axis, values in self.axes.items():
            shown = [f"{_symbol(axis)}={self._shown(axis, value)}" for value in values]
            labels = [f"{label}, {text}" for label in labels for text in shown]
        return [self.name + label for label in labels]

    def _shown(self, axis: str, value: float) -> str:
        """The value as text: λ is often log T, and 1 − 10⁻⁶ must not round to 1."""
        if axis == "lam" and np.isclose(value, np.log(self.rounds[-1]), rtol=1e-12, atol=0):
            return "log T"
        return f"1−{1 - value:.3g}" if 0.9999 < value < 1 else f"{value:g}"

    def plot(self, kind: str = "expected", **options: Any) -> "Axes":
        """Plot mean regret and its spread over seeds; options as in `dlbjax.results.plot.regret`."""
        from dlbjax.results import plot

        return plot.regret({self.name: self}, kind, **options)

    def save(self, path: str | Path) -> None:
        """Write the result to an .npz file, atomically; `dlbjax.load` reads it back."""
        header = {"kind": "Result", "results": [self._header()]}
        write_archive(path, header, self._arrays(""), compress=True)

    def to_xarray(self) -> "Dataset":
        """The result as an `xarray.Dataset` with labelled axes (needs the `xarray` extra)."""
        xarray = optional("xarray")

        dims = (*self.axes, "seed")
        coords = {**self.axes, "seed": self.seeds, "round": self.rounds}
        data = {f"{kind}_regret": ((*dims, "round"), self.regret(kind)) for kind in REGRETS}
        for name in _RECORDED:
            if (values := getattr(self, name)) is not None:
                data[name] = ((*dims, "t", "state")[: values.ndim], values)
        return xarray.Dataset(data, coords, {"name": self.name, "config": json.dumps(self.config)})

    def _header(self) -> dict[str, Any]:
        return {"name": self.name, "axes": list(self.axes), "config": dict(self.config)}

    def _arrays(self, prefix: str) -> dict[str, np.ndarray]:
        arrays = {"rounds": self.rounds, "seeds": self.seeds}
        arrays |= {f"{kind}_regret": self.regret(kind) for kind in REGRETS}
        arrays |= {f"axis_{name}": np.asarray(values) for name, values in self.axes.items()}
        arrays |= {
            name: getattr(self, name) for name in _RECORDED if getattr(self, name) is not None
        }
        return {prefix + name: values for name, values in arrays.items()}


class Results(dict[str, Result]):
    """Results of several policies by name."""

    def plot(self, kind: str = "expected", **options: Any) -> "Axes":
        """Plot all of them in one figure; options as in `dlbjax.results.plot.regret`."""
        from dlbjax.results import plot

        return plot.regret(self, kind, **options)

    def save(self, path: str | Path) -> None:
        """Write all of them to one .npz file, atomically; `dlbjax.load` reads it back."""
        arrays: dict[str, np.ndarray] = {}
        for name, result in self.items():
            arrays |= result._arrays(f"{name}/")
        headers = [{"key": name, **result._header()} for name, result in self.items()]
        write_archive(path, {"kind": "Results", "results": headers}, arrays, compress=True)


def load(path: str | Path) -> Result | Results:
    """Read a file written by `save`. Nothing in the file is executed.

    >>> import dlbjax as dlb, tempfile, os
    >>> problem = dlb.problems.synthetic()
    >>> result = dlb.simulate(problem, dlb.myopic(problem), horizon=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(os.path.join(folder, "run.npz"))
    ...     again = dlb.load(os.path.join(folder, "run.npz"))
    >>> bool((again.expected_regret == result.expected_regret).all())
    True
    """
    header, arrays = read_archive(path, "a dlbjax result")
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
        **{name: array(name, *recorded[name]) for name in _RECORDED if prefix + name in file},
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


def _symbol(axis: str) -> str:
    return {"rho_bar": "ρ̄", "lam": "λ", "delta": "δ", "gamma": "γ"}.get(axis, axis)
