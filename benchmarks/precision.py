"""Mean regret in float32 beside float64, for every policy: do they agree within standard errors?

Prints a line for every policy and problem, with z the difference of the means in standard errors. The
two dtypes draw other numbers for the noise; policies that randomise see the same uniforms.
"""

import argparse

import numpy as np

import dlbjax as dlb
from dlbjax.cli.specs import POLICIES, policy_from
from dlbjax.policies.base import make_schedule

NEEDED = {"constant": "constant:action=[0,0,0]", "expert": "expert:spend=[0,0.5,1]"}  # arguments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--problems", nargs="+", default=["synthetic", "real_world"])
    args = parser.parse_args()
    for problem in args.problems:
        for name in args.policies:
            compare(problem, name, args.horizon, args.seeds)


def compare(problem_name: str, name: str, horizon: int, seeds: int) -> None:
    problem = getattr(dlb.problems, problem_name)()
    policy = policy_from(NEEDED.get(name, name), problem)
    limit = make_schedule(policy, horizon, problem.actions).float32
    horizon = horizon if limit is None else min(horizon, limit)
    means, errors = [], []
    for dtype in ("float64", "float32"):
        options = {"seeds": seeds, "rounds": [horizon], "dtype": dtype}
        summary = dlb.simulate(problem, policy, horizon, **options).summary("realised")
        means.append(summary.mean[-1])
        errors.append(summary.standard_error[-1])
    z = (means[1] - means[0]) / np.hypot(*errors)
    print(f"{problem_name:10} {name:18} T = {horizon:8}: {means[0]:12.2f} ± {errors[0]:8.2f}   "
          f"{means[1]:12.2f} ± {errors[1]:8.2f}   z = {z:5.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
