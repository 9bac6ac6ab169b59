"""Settings of the lab: what is rejected, and the way to the address and back."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbjax.lab.settings import (
    OFFERS,
    PARAMETERS,
    SOURCES,
    VIEWS,
    InputError,
    Learner,
    Settings,
    State,
)

numbers = st.floats(1e-3, 0.99)


@st.composite
def learners(draw):
    made = []
    for name in draw(st.lists(st.sampled_from(list(OFFERS)), unique=True, max_size=8)):
        kinds = {
            key: st.integers(1, 20) if key in ("lags", "order") else numbers for key in PARAMETERS
        }
        chosen = {key: draw(st.none() | kinds[key]) for key in OFFERS[name].parameters}
        made.append(
            Learner(name, **{key: value for key, value in chosen.items() if value is not None})
        )
    return tuple(made)


@st.composite
def settings(draw):
    table = draw(
        st.none() | st.lists(st.lists(numbers, min_size=6, max_size=6), min_size=4, max_size=4)
    )
    return Settings(
        source=draw(st.sampled_from(list(SOURCES))), delay=draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 99)), memory=draw(numbers), sigma=draw(st.none() | numbers),
        budget=draw(st.none() | numbers), x1=draw(numbers), learners=draw(learners()),
        table=None if table is None else tuple(map(tuple, table)),
        runs=draw(st.integers(8, 100)), rounds=draw(st.integers(10**3, 10**6)),
    )  # fmt: skip


@given(settings(), st.none() | settings(), st.sampled_from(VIEWS), st.booleans())
def test_the_address_brings_a_state_back(now, kept, view, flag):
    state = State(now, kept, view, "offline", flag, not flag, flag, "lin_ucb", 3)
    assert State.of_query(state.query()) == state


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("rounds=1e9", "rounds"), ("runs=100000", "runs"), ("rounds=1e6&runs=1024", "rounds"),
        ("sigma=nan", "sigma"), ("sigma=inf", "sigma"), ("sigma=-1", "sigma"), ("memory=x", "memory"),
        ("memory=1e400", "memory"), ("budget=0", "budget"), ("x1=1e9", "x1"),
        ("source=/etc/passwd", "source"),
        ("table=[[1,2],[3]]", "table"), ("table=" + "[" * 5000, "table"),
        ("table=[[NaN]]", "table"), ("policy=__import__", "policies"),
        ("policy=lin_ucb&policy=lin_ucb", "policies"),
        ("policy=lin_ucb:rho_bar=1.5", "lin_ucb"), ("policy=lin_ucb:lam=-1", "lin_ucb"),
        ("policy=lin_ucb:scale=2", "lin_ucb"), ("policy=lin_ucb:x=2", "policies"),
        ("measure=best", "measure"),
        ("view=../..", "view"), ("run=-1", "run"), ("unknown=1", "address"), ("x" * 20_000, "address"),
        ("&".join(f"a{i}=1" for i in range(200)), "address"), ("kept=1&kept.rounds=0", "rounds"),
        ("delay=21", "delay"), ("seed=0.5", "seed"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_rejected_with_its_field(query, field):
    with pytest.raises(InputError) as rejected:
        State.of_query(query)
    assert rejected.value.field == field
    assert 10 < len(str(rejected.value)) < 280
    assert not re.search(r"NoneType|object|Traceback", str(rejected.value))


def test_random_addresses_are_states_or_rejected():
    rng = np.random.default_rng(0)
    parts = ["rounds", "=", "&", "1e5", "nan", "policy", "lin_ucb", ":", ",", "rho_bar", "table", "[[", "]]",
             "%00", "kept.", "kept", "sigma", "0.1", ";", "+", "é", "view", "run", "-", "999"]  # fmt: skip
    rejected = 0
    for _ in range(2000):
        try:
            State.of_query("".join(rng.choice(parts, rng.integers(1, 12))))
        except InputError:
            rejected += 1
    assert 1000 < rejected < 2000


def test_changes_go_to_the_state_or_to_its_settings():
    state = State().change(sigma=0.5, view="run")
    assert (state.settings.sigma, state.view) == (0.5, "run")
    assert state.change(kept=state.settings).kept.sigma == 0.5
