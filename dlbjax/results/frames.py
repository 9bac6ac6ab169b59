"""Results as tables of pandas and datasets of xarray."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlbjax.common.arrays import short
from dlbjax.common.hints import optional
from dlbjax.results.result import RECORDED, REGRETS, Result

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset, DataTree


def runs(results: Mapping[str, Result], rounds: Sequence[int] | None = None) -> "DataFrame":
    """A row for every run and round; see `Results.to_pandas`."""
    pandas = optional("pandas")
    frames = []
    for name, result in results.items():
        chosen = _columns(result, rounds)
        keys = {**result.axes, "seed": result.seeds, "round": result.rounds[chosen]}
        places = np.indices([len(values) for values in keys.values()]).reshape(len(keys), -1)
        columns = {key: values[i] for (key, values), i in zip(keys.items(), places, strict=True)}
        regrets = {f"{kind}_regret": result.regret(kind)[..., chosen].ravel() for kind in REGRETS}
        frames.append(pandas.DataFrame({"policy": name, **columns, **regrets}))
    whole = pandas.concat(frames, ignore_index=True)
    return whole[["policy", *axes_of(results), "seed", "round", *(f"{k}_regret" for k in REGRETS)]]


def statistics(
    results: Mapping[str, Result], kind: str = "expected", quantiles: Sequence[float] = ()
) -> "DataFrame":
    """A row for every curve; see `Results.table`."""
    pandas = optional("pandas")
    rows: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        summary = result.summary(kind, quantiles)
        shape = result.expected_regret.shape[:-2]
        for label, place in zip(result.labels(name), np.ndindex(shape), strict=True):
            axes = zip(result.axes.items(), place, strict=True)
            last = (*place, -1)
            rows[label] = {
                "policy": name,
                **{axis: values[i] for (axis, values), i in axes},
                "runs": len(result.seeds),
                "round": result.rounds[-1],
                "mean": summary.mean[last],
                "std": summary.std[last],
                "standard error": summary.standard_error[last],
                **{
                    f"{100 * q:g} %": summary.quantiles[(i, *last)] for i, q in enumerate(quantiles)
                },
            }
    frame = pandas.DataFrame.from_dict(rows, orient="index")
    others = [column for column in frame if column not in ("policy", *axes_of(results))]
    return frame[["policy", *axes_of(results), *others]].rename_axis("curve")


def dataset(result: Result) -> "Dataset":
    """A result with labelled axes; see `Result.to_xarray`."""
    xarray = optional("xarray")
    dims = (*result.axes, "seed")
    coords = {**result.axes, "seed": result.seeds, "round": result.rounds}
    data = {f"{kind}_regret": ((*dims, "round"), result.regret(kind)) for kind in REGRETS}
    for name in RECORDED:
        if (values := getattr(result, name)) is not None:
            data[name] = ((*dims, "t", "state")[: values.ndim], values)
    attributes = {"name": result.name, "config": json.dumps(result.config)}
    return xarray.Dataset(data, coords, attributes)


def tree(results: Mapping[str, Result]) -> "DataTree":
    """A node for every result; see `Results.to_xarray`."""
    nodes = {name: dataset(result) for name, result in results.items()}
    return optional("xarray").DataTree.from_dict(nodes)


def _columns(result: Result, rounds: Sequence[int] | None) -> np.ndarray:
    """Indices of reporting rounds, by default of the last."""
    wanted = result.rounds[-1:] if rounds is None else np.atleast_1d(rounds)
    if wanted.dtype.kind not in "iu" or not np.all(np.isin(wanted, result.rounds)):
        raise ValueError(
            f"rounds must be among the reporting rounds {short(result.rounds)}; got {short(rounds)}"
        )
    return np.searchsorted(result.rounds, wanted)


def axes_of(results: Mapping[str, Result]) -> list[str]:
    """Names of the axes that some of the results have, in order of appearance."""
    return list(dict.fromkeys(axis for result in results.values() for axis in result.axes))
