"""How runs are dealt out to cores and devices, and what happens when one of them fails."""

import logging
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dlbjax as dlb
from dlbjax.engine import pool
from dlbjax.engine.plan import as_grid, make_groups
from dlbjax.engine.settings import check_settings

PROBLEM = dlb.problems.synthetic()


class Group:
    """As much of a group as dealing looks at."""

    def __init__(self, policies, segments):
        self.policies, self.size = [SimpleNamespace(uniforms=0)] * policies, segments
        self.tables = SimpleNamespace(arms=np.zeros((10, 3)))


def settings(seeds, batch=None):
    return check_settings(3, 100, seeds, None, (), None, "float64", batch, None, None)


@pytest.mark.parametrize(
    ("policies", "seeds", "batch", "workers_", "sizes"),
    [
        ([1], 256, None, 2, [128, 128]),
        ([1], 50, None, 2, [32, 18]),
        ([1], 30, None, 2, [30]),  # too few to be worth a second worker
        ([1, 1, 1], 50, None, 2, [50, 50, 50]),
        ([2], 100, None, 4, [64, 64, 64, 8]),
        ([1], 2000, None, 1, [512, 512, 512, 464]),
        ([1], 10, 4, 2, [4, 4, 2]),
    ],
)
def test_every_run_is_dealt_once_in_jobs_of_a_useful_size(policies, seeds, batch, workers_, sizes):
    groups = [Group(count, 10) for count in policies]
    jobs = pool.deal(groups, settings(seeds, batch), jax.devices()[:1] * workers_)
    assert sorted((len(job.runs) for job in jobs), reverse=True) == sizes
    for number, count in enumerate(policies):
        dealt = np.concatenate([job.runs for job in jobs if job.number == number])
        np.testing.assert_array_equal(np.sort(dealt), np.arange(count * seeds))


@pytest.mark.parametrize(
    ("runs", "segments", "vertices", "dtype", "width"),
    [
        (50, 1000, 10, "float64", 32),  # over sooner than another program is compiled
        (50, 10**6, 10, "float64", 56),
        (50, 10**6, 10, "float32", 64),  # whose products round in another way at 56
        (100, 10**6, 10, "float64", 104),  # one batch
        (150, 10**6, 10, "float64", 80),  # two of about equal size
        (128, 10**6, 40, "float64", 64),  # their regressions fill the cache
        (128, 10**6, 1400, "float64", 32),
    ],
)
def test_the_width_of_a_pass_fits_the_runs_and_the_cache(runs, segments, vertices, dtype, width):
    group = Group(1, segments)
    group.tables.arms = np.zeros((vertices, 3))
    assert pool.choose_width(jax.devices()[0], runs, group, np.dtype(dtype)) == width


@pytest.mark.parametrize(("vertices", "width"), [(16, 128), (64, 64), (65, 32), (200, 32)])
def test_the_weights_of_all_arms_round_alike_at_every_width(vertices, width):
    """At width 64 Exp3 on 82 vertices had other last bits than at 32."""
    group = Group(1, 10**6)
    group.policies = [SimpleNamespace(uniforms=1)]
    group.tables.arms = np.zeros((vertices, 3))
    assert pool.choose_width(jax.devices()[0], 128, group, np.dtype("float64")) == width


@pytest.mark.parametrize(
    ("policy", "channels", "widths"),
    [
        (dlb.d_lin_ucb, 6, (40, 56)),  # the first two use products of a library
        (dlb.lin_ucb, 10, (24, 56)),
        (dlb.dynlin_ucb_tight, 6, (120,)),  # sums over the vertices and over coordinates
    ],
)
def test_a_run_does_not_depend_on_the_width_of_its_pass(monkeypatch, policy, channels, widths):
    actions = dlb.actions.budget(0.0, [1.0] * channels, total=1.5)
    theta = np.linspace(0.1, 1.0, channels)
    system = dlb.System([[0.5]], theta[None] / 3, [0.7], theta, sigma=0.1)
    problem = dlb.Problem(system, actions)

    def learned(width):
        monkeypatch.setattr(pool, "choose_width", lambda *_: width)
        learner = policy(dlb.Bounds.of(problem))
        return dlb.simulate(problem, learner, 400, 8, record="policy").policy_state

    expected = learned(32)
    for width in widths:
        jax.tree.map(np.testing.assert_array_equal, learned(width), expected)


def test_all_jobs_of_a_group_share_one_program(monkeypatch):
    widths, drive = [], pool.drive

    def seen(group, settings, numbers, width, *rest):
        widths.append(width)
        return drive(group, settings, numbers, width, *rest)

    monkeypatch.setattr(pool, "drive", seen)
    monkeypatch.setattr(pool, "_WORTH_COMPILING", 0)
    dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 50, seeds=50, devices=jax.devices()[:1] * 2)
    assert widths == [32, 32]  # of 32 and 18 runs


def test_the_longest_job_starts_first():
    jobs = pool.deal([Group(1, 5), Group(1, 50), Group(1, 20)], settings(8), jax.devices()[:1])
    assert [job.number for job in jobs] == [1, 2, 0]


def test_a_result_says_how_it_was_computed(caplog, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_of_the_user=1")  # JAX has started and reads it no more
    with caplog.at_level(logging.INFO, "dlbjax"):
        result = dlb.simulate(
            PROBLEM, dlb.myopic(PROBLEM), 50, seeds=9, batch=4, devices=jax.devices()[:1] * 2
        )
    execution = dict(result.config["execution"])
    assert execution.pop("core seconds") > 0
    assert execution == {
        "platform": "cpu", "workers": 2, "devices": 1, "runs per job": 3,
        "XLA_FLAGS": "--xla_of_the_user=1",
    }  # fmt: skip
    assert "workers 2" in caplog.text


def test_by_default_every_core_works():
    result = dlb.simulate(PROBLEM, dlb.myopic(PROBLEM), 50, seeds=1024)
    assert result.config["execution"]["workers"] == min(64, len(pool.choose_devices(None)))


def test_what_one_worker_raises_ends_the_call():
    policy = dlb.Policy(
        init=lambda params, vertices, key: jnp.ones(()),
        act=lambda params, vertices, state, epoch: 0,
        update=lambda params, state, feedback: state * jnp.nan,
        name="broken",
    )
    with pytest.raises(FloatingPointError, match=r"'broken' became NaN for seed . by round 50"):
        dlb.simulate(PROBLEM, policy, 50, seeds=8, batch=2, devices=jax.devices()[:1] * 3)


def test_an_interrupt_stops_the_other_workers():
    ticks = []

    def tick(rounds):
        ticks.append(rounds)
        raise KeyboardInterrupt

    one = dlb.dynlin_ucb(dlb.Bounds.of(PROBLEM))
    asked = check_settings(3, 200_000, 16, None, (), [200_000], "float64", 8, 1, None)
    with pytest.raises(KeyboardInterrupt):
        pool.compute(make_groups(PROBLEM, as_grid(one), asked), asked, tick)
    assert len(ticks) <= 2  # each worker got as far as the end of one chunk, of more than a hundred


def test_a_device_takes_as_many_runs_as_it_has_room_for():
    def device(limit, platform="gpu"):
        stats = None if limit is None else {"bytes_limit": limit}
        return SimpleNamespace(platform=platform, memory_stats=lambda: stats)

    assert [pool.most_runs(device(limit)) for limit in (None, 2**30, 18 * 10**9, 60 * 10**9, 2**50)] == [
        2**15, 2**15, 2**17, 2**18, 2**18
    ]  # fmt: skip
    assert pool.most_runs(device(None, "cpu")) == 512
