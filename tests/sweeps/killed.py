"""A sweep that logs what it computes, for a process that is going to be killed."""

import dlbjax as dlb
from dlbjax.engine import checkpoint, pool

PROBLEM = dlb.problems.synthetic(0.5)


def run(folder):
    bounds = dlb.Bounds.of(PROBLEM, 0.2)
    policies = {"DynLin-UCB": dlb.dynlin_ucb(bounds), "Lin-UCB": dlb.lin_ucb(bounds)}
    return dlb.sweep(
        {"loud": PROBLEM}, policies, 400_000, 24, folder, rounds=[100, 400_000], checkpoint_every=0
    )


def run_and_log(folder, log):
    """Write a checkpoint after every stretch, however long that takes."""
    checkpoint._SHARE = float("inf")
    drive = pool.drive
    with open(log, "a", buffering=1) as lines:

        def drive_and_log(group, settings, numbers, *rest):
            for snapshot in drive(group, settings, numbers, *rest):
                lines.write(f"{group.policies[0].name} {numbers[0]} {snapshot.segments}\n")
                yield snapshot

        pool.drive = drive_and_log
        run(folder)
