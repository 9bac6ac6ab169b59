"""How a store is laid out: a Zarr v3 hierarchy with one group for every policy on every problem.

    zarr.json                             the root, with a copy of all documents below and their digest
    synthetic/DynLin-UCB/zarr.json        labels, configuration and identity, and a digest
    synthetic/DynLin-UCB/…_regret         (axes…, seed, round), chunks of one point and `block` seeds
    synthetic/DynLin-UCB/complete         (axes…, seed) whether a run is there, written after its regret
    synthetic/DynLin-UCB/seed, round, …   coordinates

Arrays are described by JSON documents (zarr.json), which only the driver of a sweep writes. Readers use
the copies in the root, which is replaced as a whole. Chunks end with a CRC-32C.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dlbjax.common.digest import digest_text
from dlbjax.results.result import REGRETS

ARRAYS = tuple(f"{kind}_regret" for kind in REGRETS)
RESERVED = ("problem", "policy", "seed", "round", "complete", *ARRAYS)
ROOT = "zarr.json"
FORMAT = 2
_SEEDS = 2**16  # in a chunk of the coordinate
_GROUP = {"zarr_format": 3, "node_type": "group"}
_LONGEST = 200  # bytes of a label

Documents = dict[str, dict[str, Any]]  # by the path of the array or group


class Series(NamedTuple):
    """A policy, or a grid of them, on a problem, or on a grid of them."""

    problem: str  # label
    policy: str  # label
    axes: dict[str, np.ndarray]  # numbers that vary, and their values
    config: dict[str, Any]  # what made it
    identity: dict[str, Any]  # what its numbers depend on, except for the seeds
    reports: int  # number of reporting rounds
    block: int  # seeds in a chunk
    seeds: int = 0  # number of them, done or not

    @property
    def path(self) -> str:
        """Of its group."""
        return f"{_name(self.problem)}/{_name(self.policy)}"

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.policy!r} on {self.problem!r}"

    @property
    def horizon(self) -> int:
        """Number of rounds T."""
        return self.identity["horizon"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the grid."""
        return tuple(len(values) for values in self.axes.values())

    @property
    def points(self) -> int:
        """Of the grid."""
        return int(np.prod(self.shape, dtype=int))

    def chunk(self, array: str, point: int, block: int) -> str:
        """Path of a chunk of `complete` or of a regret."""
        place = [*np.unravel_index(point, self.shape), block] + [0] * (array != "complete")
        return "/".join([self.path, array, "c", *map(str, place)])

    def documents(self) -> Documents:
        """Of the group and its arrays."""
        ones, dims = (1,) * len(self.axes), (*self.axes, "seed", "round")
        sizes, chunks = (*self.shape, self.seeds, self.reports), (*ones, self.block, self.reports)
        made = {name: _array(sizes, chunks, "float64", dims, packed=True) for name in ARRAYS}
        made["complete"] = _array(sizes[:-1], chunks[:-1], "bool", dims[:-1])
        made["seed"] = _array((self.seeds,), (_SEEDS,), "int64", ("seed",))
        made["round"] = _array((self.reports,), (self.reports,), "int64", ("round",))
        for name, values in self.axes.items():
            kind = _TYPES[values.dtype.kind]
            made[name] = _array(values.shape, values.shape, kind, (name,))
        about = {name: getattr(self, name) for name in ("problem", "policy", "config", "identity")}
        group = _GROUP | {"attributes": about}
        documents = {self.path: group} | {f"{self.path}/{name}": d for name, d in made.items()}
        group["attributes"] = about | {"digest": digest_of(documents)}
        return documents


def read_series(path: str, documents: Documents) -> Series:
    """The series whose group has this path; a ValueError if its documents are not as they were written."""
    mine = {name: d for name, d in documents.items() if f"{name}/".startswith(f"{path}/")}
    about = dict(mine[path]["attributes"])
    digest = about.pop("digest")
    if digest_of(mine | {path: mine[path] | {"attributes": about}}) != digest:
        raise ValueError(f"the documents of {path} do not have the digest {digest}")
    regret = mine[f"{path}/{ARRAYS[0]}"]
    *_, block, reports = regret["chunk_grid"]["configuration"]["chunk_shape"]
    kinds = {n: mine[f"{path}/{n}"]["data_type"] for n in regret["dimension_names"][:-2]}
    axes = {
        name: np.array(about["identity"]["axes"][name], kind.replace("string", "str"))
        for name, kind in kinds.items()
    }
    return Series(**about, axes=axes, reports=reports, block=block, seeds=regret["shape"][-2])


def parents(documents: Documents) -> Documents:
    """Of the groups in which those of the series are."""
    return {path.split("/")[0]: _GROUP | {"attributes": {}} for path in documents}


def write_root(documents: Documents, about: Mapping[str, Any]) -> bytes:
    """The root's document, with attributes about the store."""
    whole = parents(documents) | documents
    attributes = {**about, "digest": digest_of({**about, "documents": whole})}
    kept = {"kind": "inline", "must_understand": False, "metadata": whole}
    return dump(_GROUP | {"attributes": attributes, "consolidated_metadata": kept})


def read_root(content: bytes) -> tuple[Documents, dict[str, Any]]:
    """The documents of all series, and the attributes, from the root's document.

    Raises:
      Exception: of any kind, if it is not as it was written.
    """
    root = json.loads(content)
    about = {name: value for name, value in root["attributes"].items() if name != "digest"}
    found = root["consolidated_metadata"]["metadata"]
    documents = {path: document for path, document in found.items() if "/" in path}
    if write_root(documents, about) != dump(root):
        raise ValueError("it does not have the digest that it gives")
    return documents, about


def dump(document: Mapping[str, Any]) -> bytes:
    """A document as it is written."""
    return json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode()


def digest_of(document: Mapping[str, Any]) -> str:
    """Digest of a document or of several."""
    return digest_text(dump(document).decode())


_TYPES = {"f": "float64", "i": "int64", "u": "int64", "b": "bool", "U": "string"}
_FILLS: dict[str, Any] = {"float64": "NaN", "int64": -1, "bool": False, "string": ""}


def _array(
    shape: tuple[int, ...], chunks: tuple[int, ...], kind: str, dims: tuple[str, ...], packed: bool = False
) -> dict[str, Any]:  # fmt: skip
    """An array's document. What is missing reads as something that is no seed and no regret."""
    first: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    if kind in ("bool", "string"):
        first = {"name": "bytes" if kind == "bool" else "vlen-utf8"}
    blosc = {"typesize": 8, "cname": "zstd", "clevel": 1, "shuffle": "shuffle", "blocksize": 0}
    packing = [{"name": "blosc", "configuration": blosc}] if packed else []
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _FILLS[kind],
        "codecs": [first, *packing, {"name": "crc32c"}],
        "dimension_names": list(dims),
        "attributes": {},
    }


def check_labels(name: str, labels: list[Any]) -> None:
    """Reject labels that cannot name a group, and their absence."""
    for label in labels or [None]:
        if not isinstance(label, str) or not 0 < len(_name(label).encode()) <= _LONGEST:
            raise ValueError(
                f"{name} must have labels, each a text of 1 to {_LONGEST} bytes; got {label!r:.60}"
            )


def _name(label: str) -> str:
    """A label as the name of a group: as it is, but for what paths give a meaning to."""
    special = r'[%/\\*?\[\]{}<>"|#\x00-\x1f]' + r"|^(?=\.+$|__|zarr\.json$)."
    return re.sub(special, lambda found: f"%{ord(found[0]):02X}", label)
