"""Sweeps on a Dask cluster of separate processes, some of which are killed."""

import signal
import subprocess
import sys
import textwrap
import time

import distributed
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.results.result import REGRETS

PROBLEM = dlb.problems.synthetic(0.1)
BLOCK = 8

DRIVER = """
    import os, sys
    import distributed, dlbjax as dlb
    from dlbjax.sweeps import batches
    from tests.sweeps.test_cluster import BLOCK, PROBLEM, lin_ucb
    batches._BLOCK, batches._SHARE = BLOCK, 1  # small chunks, and batches of one
    file, store, horizon, seeds, log = sys.argv[1:]
    here, policy = os.getpid(), lin_ucb()
    prepare = policy.prepare

    def prepare_and_log(*arguments):  # a closure, called once for every batch
        if os.getpid() != here:
            with open(log, "a") as lines:
                lines.write(f"{os.getpid()}\\n")
        return prepare(*arguments)

    with distributed.Client(scheduler_file=file) as client:
        policies = {"Lin-UCB": policy._replace(prepare=prepare_and_log)}
        dlb.sweep(
            {"loud": PROBLEM}, policies, int(horizon), int(seeds), store, executor=client, rounds=[100]
        )
"""


def lin_ucb():
    return dlb.lin_ucb(dlb.Bounds.of(PROBLEM, 0.2))


class Cluster:
    """A scheduler and workers of one thread, each started by its own command."""

    def __init__(self, folder, workers=2):
        self.file, self.folder, self.processes = folder / "scheduler.json", folder, []
        quiet = ["--scheduler-file", self.file, "--no-dashboard"]
        self.worker = [
            "worker",
            *quiet,
            "--nthreads",
            "1",
            "--no-nanny",
            "--local-directory",
            folder,
        ]
        self.scheduler = self.start("scheduler", *quiet, "--host", "127.0.0.1", "--port", "0")
        while not self.file.exists():
            time.sleep(0.05)
        self.workers = [self.start(*self.worker) for _ in range(workers)]

    def start(self, *command):
        return self.run("-m", "dask", *command)

    def drive(self, horizon, seeds, log):
        code, store = textwrap.dedent(DRIVER), self.folder / "runs.zarr"
        return self.run("-c", code, self.file, store, str(horizon), str(seeds), log)

    def run(self, *command):
        process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def kill_worker(self, i):
        self.workers[i].kill()
        self.workers[i] = self.start(*self.worker)


@pytest.fixture
def cluster(tmp_path, request):
    cluster = Cluster(tmp_path, getattr(request, "param", 2))
    yield cluster
    for process in cluster.processes:
        with process:
            process.kill()


def wait_for_batches(log, count, driver):
    """Until some more batches than now have begun."""

    def begun():
        return log.read_text().count("\n") if log.exists() else 0

    end, count = time.monotonic() + 120, begun() + count
    while begun() < count:
        assert driver.poll() is None, driver.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "batches", "horizon", "cluster"),
    [(2, 6, 50_000, 1), pytest.param(12, 60, 300_000, 2, marks=pytest.mark.evidence)],
    indirect=["cluster"],
)
def test_kills_change_nothing_and_only_batches_under_way_are_computed_again(
    kills, batches, horizon, cluster, tmp_path
):
    rng = np.random.default_rng(18)
    log, seeds = tmp_path / "log", BLOCK * batches
    driver, again = cluster.drive(horizon, seeds, log), 0
    for kill in range(kills):
        # Dask gives up a batch of which four workers died: with many kills, let others begin between two.
        wait_for_batches(log, int(rng.integers(1, 3)) + (kills > 2), driver)
        time.sleep(float(rng.uniform(0, 0.3)))
        victim = kill % 2 if kills == 2 else int(rng.integers(3))
        if victim == 0:
            driver.kill()
            assert driver.wait() == -signal.SIGKILL, "it was over before it was killed so often"
            driver = cluster.drive(horizon, seeds, log)
            again += len(cluster.workers)  # all may have been in a batch
        else:
            cluster.kill_worker(int(rng.integers(len(cluster.workers))))
            again += 1
    _, printed = driver.communicate(timeout=240)
    assert driver.returncode == 0, printed
    result = dlb.Store(tmp_path / "runs.zarr").result()
    alone = dlb.simulate(PROBLEM, lin_ucb(), horizon, seeds, rounds=[100])
    for kind in REGRETS:
        np.testing.assert_array_equal(result.regret(kind), alone.regret(kind))
    assert not list(tmp_path.rglob("*.partial"))
    computed = log.read_text().splitlines()
    assert batches <= len(computed) <= batches + again
    assert len(set(computed)) > 1  # processes


@pytest.mark.evidence
def test_a_scheduler_that_goes_away_is_reported_and_the_same_call_goes_on(cluster, tmp_path):
    log, seeds = tmp_path / "log", 8 * BLOCK
    driver = cluster.drive(300_000, seeds, log)
    wait_for_batches(log, 4, driver)
    cluster.scheduler.kill()
    _, printed = driver.communicate(timeout=120)
    assert driver.returncode == 1
    last = printed.strip().splitlines()[-1]
    assert last.startswith("ConnectionError: workers of the sweep were lost (CancelledError")
    assert "make the same call again, with a new executor, to go on" in last
    cluster.file.unlink()
    second = Cluster(tmp_path)
    cluster.processes += second.processes
    again = second.drive(300_000, seeds, log)
    _, printed = again.communicate(timeout=120)
    assert again.returncode == 0, printed
    assert len(dlb.Store(tmp_path / "runs.zarr").result().seeds) == seeds


@pytest.mark.evidence
def test_workers_out_of_memory_are_reported_and_the_same_call_goes_on(tmp_path):
    asked = {"problems": {"loud": PROBLEM}, "policies": {"Lin-UCB": lin_ucb()}, "horizon": 1000,
             "seeds": 8, "store": tmp_path}  # fmt: skip
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="200MB", host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(ConnectionError, match=r"lost \(KilledWorker.* make the same call again"),
    ):  # fmt: skip
        dlb.sweep(**asked, executor=client)
    assert len(dlb.sweep(**asked).result().seeds) == 8
