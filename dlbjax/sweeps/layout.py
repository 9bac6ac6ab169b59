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

from dlbjax.common.arrays import short
from dlbjax.common.digest import digest_text
from dlbjax.common.hints import optional
from dlbjax.engine.identity import versions
from dlbjax.results.result import REGRETS

ARRAYS = tuple(f"{kind}_regret" for kind in REGRETS)
RESERVED = ("problem", "policy", "seed", "round", "complete", *ARRAYS)
ROOT = "zarr.json"
FORMAT = 3
_SEEDS = 2**16  # in a chunk of the coordinate
_LONGEST = 200  # bytes of a label
_TYPES = {"f": "float64", "i": "int64", "u": "int64", "b": "bool", "U": "str"}
# What is missing reads as something that is no seed and no regret.
_FILLS: dict[str, Any] = {"float64": np.nan, "int64": -1, "bool": False, "str": ""}

Documents = dict[str, dict[str, Any]]  # by the path of the array or group


class Series(NamedTuple):
    """A policy, or a grid of them, on a problem, or on a grid of them."""

    problem: str  # label
    policy: str  # label
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
    def axes(self) -> dict[str, np.ndarray]:
        """Numbers that vary, and their values."""
        return {name: np.array(values, kind) for name, kind, values in self.identity["axes"]}

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the grid."""
        return tuple(len(values) for *_, values in self.identity["axes"])

    @property
    def points(self) -> int:
        """Of the grid."""
        return int(np.prod(self.shape, dtype=int))

    def chunk(self, array: str, point: int, block: int) -> str:
        """Path of a chunk of `complete` or of a regret."""
        place = [*np.unravel_index(point, self.shape), block] + [0] * (array != "complete")
        return "/".join([self.path, array, "c", *map(str, place)])

    def files(self, **coordinates: np.ndarray) -> dict[str, bytes]:
        """Content by path of all that the driver writes: documents, coordinates, the group above.

        The document of its own group is the last, so that it is there only if all others are.
        """
        zarr, about = optional("zarr", "sweeps"), self._asdict()
        made: dict[str, Any] = {}
        group = zarr.create_group(
            zarr.storage.MemoryStore(made), path=self.path,
            attributes=about | {"digest": digest_of(about)},
        )  # fmt: skip
        crc = zarr.codecs.Crc32cCodec()
        blosc = zarr.codecs.BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", typesize=8)
        runs = {name: (size, 1) for name, size in zip(self.axes, self.shape, strict=True)}
        runs["seed"] = (self.seeds, self.block)
        reports = {"round": (self.reports, self.reports)}
        arrays = dict.fromkeys(ARRAYS, ("float64", runs | reports))
        arrays |= {"complete": ("bool", runs), "round": ("int64", reports)}
        arrays["seed"] = ("int64", {"seed": (self.seeds, _SEEDS)})
        for name, kind, values in self.identity["axes"]:
            arrays[name] = (kind, {name: (len(values), len(values))})
        for name, (kind, dims) in arrays.items():
            shape, chunks = zip(*dims.values(), strict=True)
            array = group.create_array(
                name, shape=shape, chunks=chunks, dtype=str if kind == "str" else kind,
                compressors=[blosc, crc], fill_value=_FILLS[kind], dimension_names=tuple(dims),
            )  # fmt: skip
            if name in coordinates:
                array[:] = coordinates[name]
        del made[ROOT]
        last = f"{self.path}/{ROOT}"
        return {path: made[path].to_bytes() for path in sorted(made, key=lambda path: path == last)}


def axes_as_json(axes: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Name, type and values of each axis."""
    found = []
    for name, values in axes.items():
        array = np.asarray(values)
        if array.dtype.kind not in _TYPES:
            raise ValueError(f"axis {name!r} must hold numbers or text; got {short(values)}")
        found.append((name, _TYPES[array.dtype.kind], array.tolist()))
    return found


def documents_of(files: Mapping[str, bytes]) -> Documents:
    """The documents among some files."""
    ending = f"/{ROOT}"
    return {p.removesuffix(ending): json.loads(c) for p, c in files.items() if p.endswith(ending)}


def read_series(document: Mapping[str, Any]) -> Series:
    """The series of a group; a ValueError if its document is not as it was written."""
    about = dict(document["attributes"])
    if (digest := about.pop("digest")) != digest_of(about):
        raise ValueError(f"it does not have the digest {digest}")
    return Series(**about)


def write_root(documents: Documents) -> bytes:
    """The root's document."""
    above = {path.split("/")[0] for path in documents if "/" in path}
    kept = {path: d for path, d in documents.items() if "/" in path or path in above}
    root: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"format": FORMAT, "software": versions()},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": kept},
    }
    root["attributes"]["digest"] = digest_of(root)
    return json.dumps(root, indent=1, sort_keys=True).encode()  # Zarr wants them sorted


def read_root(content: bytes) -> tuple[Documents, int]:
    """The documents of all groups and arrays, and the format, from the root's document.

    Raises:
      Exception: of any kind, if it is not as it was written.
    """
    root = json.loads(content)
    if (digest := root["attributes"].pop("digest")) != digest_of(root):
        raise ValueError(f"it does not have the digest {digest}")
    return root["consolidated_metadata"]["metadata"], root["attributes"]["format"]


def digest_of(document: Any) -> str:
    """Digest of a document or of several."""
    return digest_text(json.dumps(document, sort_keys=True, allow_nan=False))


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
