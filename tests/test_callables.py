"""Every public function with wrong arguments, in child processes: a clear error, soon, in little memory."""

import json
import subprocess
import sys

import pytest


def reports(shares, most, chosen):
    """Reports of some of the shares, each from a process of its own."""
    for share in chosen:
        command = [sys.executable, "-m", "tests.callables", *map(str, (share, shares, most))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-2000:]
        yield json.loads(done.stdout.splitlines()[-1])


def check(report):
    assert report["bad"] == []
    assert report["slowest"][0] < 5, report["slowest"]
    assert report["largest"][0] < 1, report["largest"]  # GB
    assert report["unknown"] == []


@pytest.mark.slow
def test_wrong_arguments_are_rejected_clearly():
    """A quarter of the functions, with few of the wrong values."""
    (report,) = reports(4, 3, [1])
    check(report)
    assert report["calls"] > 400


@pytest.mark.evidence
def test_ten_thousand_wrong_arguments_are_rejected_clearly():
    found = list(reports(6, 1000, range(6)))
    for report in found:
        check(report)
    assert sum(report["calls"] for report in found) >= 10_000
