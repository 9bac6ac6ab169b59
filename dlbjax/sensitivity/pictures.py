"""Figures of sensitivities."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

if TYPE_CHECKING:
    from dlbjax.sensitivity.summary import Sensitivity

_LABELS = {  # title, along the rows, along the columns
    "A": ("A: state to state", "to state i", "from state j"),
    "B": ("B: action to state", "to state i", "from action j"),
    "omega": ("ω: state\nto reward", "from state i", ""),
    "theta": ("θ: action to reward", "", "from action j"),
}


def elasticities(sensitivity: "Sensitivity") -> Figure:
    """Heat maps of the elasticities of J* in every entry of A, B, ω and θ.

    Args:
      sensitivity: from `dlbjax.sensitivity.of`.

    Returns:
      The figure.
    """
    if sensitivity.value == 0:
        raise ValueError("J* is 0, so that there are no elasticities; look at `derivatives`")
    shares = sensitivity.elasticities
    n, d = shares.B.shape
    size = (max(6.4, 3.4 + 0.8 * (n + d)), max(4.2, 2.2 + 0.7 * (n + 1)))
    figure = plt.figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=[n, d, 1], height_ratios=[n, 1])
    places = {"A": grid[0, 0], "B": grid[0, 1], "omega": grid[0, 2], "theta": grid[1, 1]}
    most = max(float(np.abs(field).max()) for field in shares) or 1.0
    for name, place in places.items():
        values = getattr(shares, name)
        cells = values[:, None] if name == "omega" else np.atleast_2d(values)
        image = _heat_map(figure.add_subplot(place), name, cells, most)
    figure.colorbar(image, ax=figure.axes, label="elasticity (% of J* per % of entry)")
    kink = ", at a kink: those of the first best vertex" if len(sensitivity.ties) > 1 else ""
    figure.suptitle(
        f"Elasticities of the optimal value J* = {sensitivity.value:.4g}{kink}", fontsize="large"
    )
    return figure


def _heat_map(ax: Axes, name: str, cells: np.ndarray, most: float) -> AxesImage:
    image = ax.imshow(cells, cmap="RdBu_r", norm=Normalize(-most, most), aspect="auto")
    title, down, across = _LABELS[name]
    ax.set_title(title, fontsize="medium")
    ax.set(xlabel=across, ylabel=down)
    ax.set_xticks(range(cells.shape[1]) if across else [])
    ax.set_yticks(range(cells.shape[0]) if down else [])
    for (i, j), value in np.ndenumerate(cells):
        dark = abs(value) > 0.6 * most
        ax.text(
            j, i, f"{value:.2g}", ha="center", va="center", color="white" if dark else "black"
        )  # fmt: skip
    return image
