"""Sweeps larger than memory: grids of runs, computed in batches into a store on the disk."""

from dlbjax.sweeps.run import sweep
from dlbjax.sweeps.store import Store

__all__ = ["Store", "sweep"]
