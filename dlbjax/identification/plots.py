"""Figures of a fit."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

_SHOWN = 12


def order(fit: Any, axes: Axes | np.ndarray | None = None) -> np.ndarray:
    """Singular values, and Akaike's criterion if orders were compared.

    Args:
      fit: a `Fit`.
      axes: two axes to draw into, one if the order was given; new ones by default.

    Returns:
      The axes, as an array.
    """
    panels = 2 if fit.order_table else 1
    if axes is None:
        _, axes = plt.subplots(1, panels, figsize=(4.2 * panels, 3.4), layout="constrained")
    axes = np.atleast_1d(np.asarray(axes))
    if len(axes) < panels:
        raise ValueError(f"axes must hold {panels} axes, one for each panel; got {len(axes)}")
    values = fit.singular_values[:_SHOWN]
    axes[0].semilogy(np.arange(1, len(values) + 1), values, "o", color="#0072B2")
    axes[0].axvline(fit.order + 0.5, color="#999999", ls="--", label=f"order {fit.order}")
    axes[0].set(xlabel="Number", ylabel="Hankel singular value")
    axes[0].legend()
    if fit.order_table:
        orders = [row.order for row in fit.order_table]
        criteria = np.array([row.aic for row in fit.order_table])
        axes[1].plot(orders, criteria - criteria.min(), "o-")
        for row, height in zip(fit.order_table, criteria - criteria.min(), strict=True):
            axes[1].annotate(
                f"{row.weight:.0%}", (row.order, height), xytext=(4, 4), textcoords="offset points"
            )
        axes[1].axvline(fit.order, color="#999999", ls="--", label=f"chosen: {fit.order}")
        axes[1].set(xlabel="Order", ylabel="Akaike's criterion above the best (weight)")
        axes[1].legend()
    return axes
