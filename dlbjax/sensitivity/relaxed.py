"""DynLin-UCB with a soft choice, so that its regret has a derivative.

The argmax over vertices is piecewise constant in every parameter: along a run the true policy's regret
jumps and is flat (in λ and β) in between. Its derivative along the path exists almost everywhere and is
wrong: on the synthetic problem, T = 10⁴, it is 0 in log β where mean regret has slope 628 ± 0.3. Here the
choice of epoch m is p = softmax(UCB/τ_m), and what follows is what Algorithm 1 does *on average over p*:

    u = Σ p_k v_k,      V ← V + Σ p_k v_k v_kᵀ,      b ← b + Σ p_k v_k y_k,

with y_k the epoch's last reward had v_k been held. As τ → 0 this is Algorithm 1, run for run: it uses the
normals that `simulate` with `rounds=[horizon]` draws for the same seeds. (Vertices that tie, as in the
first epoch, are played alike instead of the first one alone.)

The ridge update has to average, too. Playing the mixture u as *one* action, V ← V + u uᵀ, does not work:
where two vertices tie, a mixture of both never learns which is better. On the synthetic problem (T = 10⁴)
that makes a regret of 2461 (temperature ½) or 4115 (2) instead of 482, and derivatives of up to 10⁶³.

The temperature is relative to how far one observation moves an upper confidence bound,

    τ_m = temperature · β_m · (w_m − w_m/√(1+w_m²)),      w_m = U/√(λ + mU²/d),

w_m being the width of a vertex once m epochs are spread evenly over the d directions. Optimism is a
feedback: a vertex that is played becomes less attractive. At a small temperature the choice overshoots from
one epoch to the next and derivatives grow along the run without limit (to 10⁴⁸ at 0.1, T = 10⁴); at 1 none
did in what follows.

Measured against `regret_slope` (its chosen step) on the paper's two problems, σ = 0.01 and 0.1, in log λ,
log β and A₁₁, 64 runs; largest relative error of the 12 derivatives:

    temperature                         ¼                    ½        1        4
    T = 10⁴, real-world log λ           28 %                 40 %     52 %     72 %
    T = 10⁴, the ten others             4 %                  7 %      13 %     30 %
    T = 10⁵                             explodes in 1 of 4   2 %      2 %      4 %

The real-world problem at T = 10⁴ has hardly begun to learn (its regret is 1326, and 11 580 at T = 10⁵). Signs
are right throughout. The default of 1 was chosen with this table in view; on eight random systems that had no
part in it (T = 10⁴, log λ and log β) the largest error is 11 %.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import numpy as np

from dlbjax.common.arrays import Array, Number, is_traced, real_array, real_number, whole_number
from dlbjax.common.processes import check_not_forked
from dlbjax.model.bounds import Bounds
from dlbjax.model.system import System
from dlbjax.policies.dynlin_ucb import epoch_lengths
from dlbjax.policies.epochs import Epochs, as_epochs
from dlbjax.sensitivity.relaxation import (
    Parameters,
    Setting,
    draw,
    for_each_run,
    gradients,
    regrets,
    stretches,
)

EpochsLike: TypeAlias = int | Sequence[int] | np.ndarray | Epochs


class RelaxedGradient(NamedTuple):
    """Mean relaxed regret over runs and its derivatives.

    Attributes:
      regret: mean over runs.
      slope: derivative of the mean in every parameter, in the shape of the parameters.
      standard_error: of each, over runs. It does not contain the bias of the relaxation.
    """

    regret: float
    slope: Parameters
    standard_error: Parameters


def relaxed_regret(
    parameters: Parameters,
    vertices: Array,
    bounds: Bounds,
    *,
    horizon: int,
    seeds: int = 64,
    temperature: Number = 1.0,
    delta: Number | None = None,
    epochs: EpochsLike | None = None,
) -> Array:
    """Expected regret T·J* − Σ(⟨ω,z_t⟩ + ⟨θ,u_t⟩) of the relaxed policy, one number per run.

    A pure and smooth function of the parameters and of the bounds. Differentiate it with `jax.grad` and map
    it over systems with `jax.vmap`, inside `jax.enable_x64(True)`; `relaxed_gradient` does the former.
    One scan step is one epoch, with the noise in innovations form (see engine/noise.py) as a smooth function
    of the system. Reverse mode keeps the state at √epochs places and computes the rest again.

    Args:
      parameters: the system, λ and the factor on β.
      vertices: (K, d) the actions.
      bounds: given to the learner. They do not move with the system unless you make them.
      horizon: rounds T.
      seeds: how many runs, seeds 0, 1, …
      temperature: of the soft choice, relative to what one observation changes. Smaller is nearer to the true
        policy, and its derivative varies more.
      delta: confidence δ, 1/T by default.
      epochs: rounds of each epoch: a number, a list or an `Epochs` table; by default DynLin-UCB's for
        `bounds.rho`, which must then not be traced.

    Returns:
      (seeds,) regrets.

    >>> import dlbjax as dlb, numpy as np
    >>> problem = dlb.problems.synthetic()
    >>> regret = relaxed_regret(
    ...     Parameters(problem.system, lam=np.log(1000)), problem.actions.vertices,
    ...     dlb.Bounds.of(problem), horizon=1000, seeds=8,
    ... )
    >>> true = dlb.simulate(problem, dlb.dynlin_ucb(dlb.Bounds.of(problem)), horizon=1000, seeds=8)
    >>> bool(abs(regret.mean() / true.expected_regret[:, -1].mean() - 1) < 0.1)
    True
    """
    arguments = _prepare(parameters, vertices, bounds, horizon, seeds, temperature, delta, epochs)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        regret = regrets(*arguments)
    return regret if is_traced(regret) else np.asarray(regret)


def relaxed_gradient(
    parameters: Parameters,
    vertices: Array,
    bounds: Bounds,
    *,
    horizon: int,
    seeds: int = 64,
    temperature: float = 1.0,
    delta: float | None = None,
    epochs: EpochsLike | None = None,
) -> RelaxedGradient:
    """Derivatives of mean relaxed regret in all parameters at once, with their standard errors.

    The relaxation is biased (see the module for how much on the paper's problems), and the standard errors
    know nothing of it. `regret_slope` is not, and takes two passes of hundreds of runs for each parameter;
    `check_gradient` compares the two. See `relaxed_regret` for the arguments.

    Raises:
      FloatingPointError: derivatives overflow along the run; raise the temperature. Standard errors as large
        as the slopes are an earlier sign.

    >>> import dlbjax as dlb, numpy as np
    >>> problem = dlb.problems.synthetic()
    >>> gradient = relaxed_gradient(
    ...     Parameters(problem.system, lam=np.log(1000)), problem.actions.vertices,
    ...     dlb.Bounds.of(problem), horizon=1000, seeds=8,
    ... )
    >>> gradient.slope.system.A.shape, bool(gradient.slope.scale > 0)     # less exploration would do
    ((3, 3), True)
    """
    runs = whole_number("seeds", seeds, at_least=2)
    arguments = _prepare(parameters, vertices, bounds, horizon, runs, temperature, delta, epochs)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        slopes, regret = jax.tree.map(np.asarray, gradients(*arguments))
    _reject_explosion(slopes, temperature)
    return RelaxedGradient(
        regret=float(regret.mean()),
        slope=jax.tree.map(lambda each: each.mean(axis=-1), slopes),
        standard_error=jax.tree.map(lambda each: each.std(axis=-1, ddof=1) / runs**0.5, slopes),
    )


def _reject_explosion(slopes: Parameters, temperature: float) -> None:
    with np.errstate(over="ignore"):
        if not all(np.all(np.isfinite(np.square(leaf))) for leaf in jax.tree.leaves(slopes)):
            raise FloatingPointError(
                f"derivatives overflow along the run at temperature {temperature:g}; raise it, "
                "1 suits the paper's problems"
            )


def _prepare(
    parameters: Parameters, vertices: Array, bounds: Bounds, horizon: int, seeds: int,
    temperature: Number, delta: Number | None, epochs: EpochsLike | None,
) -> tuple[Parameters, Array, Setting, int, int]:  # fmt: skip
    """The arguments of `regrets`, checked, every run with its own copy of the parameters."""
    check_not_forked()
    # Derivatives keep every epoch of every run.
    horizon = whole_number("horizon", horizon, at_least=1, at_most=10**6)
    runs = whole_number("seeds", seeds, at_least=1, at_most=10**4)
    if not isinstance(parameters, Parameters) or not isinstance(parameters.system, System):
        raise ValueError(
            "parameters must be Parameters(system, lam, scale) with a dlbjax.System; got "
            f"{type(parameters).__name__}"
        )
    if not isinstance(bounds, Bounds):
        raise ValueError(f"bounds must be a dlbjax.Bounds; got {type(bounds).__name__}")
    for leaf in jax.tree.leaves((parameters, bounds)):
        if is_traced(leaf) and leaf.dtype != np.float64:
            raise ValueError(
                f"the parameters are traced in {leaf.dtype}, in which ten thousand epochs lose their "
                "derivative; call jax.grad or jax.vmap inside `with jax.enable_x64(True):`"
            )
    real_number("lam", parameters.lam, above=0.0)
    real_number("scale", parameters.scale, at_least=0.0)
    table, most = stretches(_table(bounds, epochs, horizon), horizon)
    setting = Setting(
        vertices=real_array("vertices", vertices, (None, parameters.system.d)),
        bounds=bounds,
        temperature=real_number("temperature", temperature, above=0.0),
        delta=real_number("delta", 1 / horizon if delta is None else delta, above=0.0, below=1.0),
        stretches=table,
    )
    with jax.enable_x64(True):
        copies = jax.tree.map(partial(for_each_run, runs), parameters)
        normals = draw(runs, int(table.epochs.sum()) + most)
    return copies, normals, setting, most, int(table.length.max())


def _table(bounds: Bounds, epochs: EpochsLike | None, horizon: int) -> Epochs:
    if epochs is not None:
        return as_epochs(epochs, horizon)
    if is_traced(bounds.rho):
        raise ValueError(
            "the epochs depend on bounds.rho (ρ̄), which is being traced; pass epochs, for instance "
            "dlbjax.policies.dynlin_ucb.epoch_lengths(rho_bar, horizon)"
        )
    rho_bar = real_number("bounds.rho", bounds.rho, at_least=0.0, below=1.0)
    return epoch_lengths(float(rho_bar), horizon)
