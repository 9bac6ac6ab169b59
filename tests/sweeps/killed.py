"""A sweep that writes down what it computes, for a process that is going to be killed."""

import dlbjax as dlb
from dlbjax.engine import checkpoint, passes

PROBLEM = dlb.problems.synthetic(0.5)


def run(folder):
    told = dlb.Bounds.of(PROBLEM, 0.2)
    policies = {"DynLin-UCB": dlb.dynlin_ucb(told), "Lin-UCB": dlb.lin_ucb(told)}
    return dlb.sweep(
        {"loud": PROBLEM}, policies, 400_000, 24, folder, rounds=[100, 400_000], checkpoint_every=0
    )


def run_and_log(folder, log):
    """Saves at the end of every stretch, however long that takes."""
    checkpoint._SHARE = float("inf")
    plain = passes._advance
    with open(log, "a", buffering=1) as lines:

        def logged(*args):
            lines.write(
                f"{args[0].act.__module__} {args[-1]}\n"
            )  # whose stretch, and where it begins
            return plain(*args)

        passes._advance = logged
        run(folder)
