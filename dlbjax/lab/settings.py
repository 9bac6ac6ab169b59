"""What a visitor of the lab has chosen: validated, to and from the query of the page's address."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np

from dlbjax.common.arrays import real_array, real_number, whole_number
from dlbjax.common.hints import hint
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.policies import (
    ar2,
    batch_exp3,
    clairvoyant,
    d_lin_ucb,
    dynlin_ucb,
    dynlin_ucb_adaptive,
    dynlin_ucb_tight,
    exp3,
    explore_then_commit,
    lin_ucb,
    myopic,
    planned,
    thompson_sampling,
    ucb1,
)
from dlbjax.policies.base import Policy
from dlbjax.results.result import REGRETS

FEWEST_RUNS, MOST_RUNS = 8, 1024
SHORTEST, LONGEST = 1_000, 1_000_000  # rounds
MOST_ROUNDS = 10**8  # of all runs of a policy
MOST_STATES, MOST_VERTICES = 30, 256
MOST_POLICIES = 8
_LONGEST_QUERY = 16_000  # characters
GIVEN = "given"
SOURCES = {
    "synthetic": "the paper's synthetic problem",
    "real_world": "the paper's real-world problem",
    "adstock": "adstock",
    "delayed": "delayed rewards",
    "autoregressive": "autoregressive rewards",
    "random": "a random system",
}
VIEWS = ("regret", "vertices", "run", "system", "sensitivity")


class InputError(ValueError):
    """Input that cannot be used.

    Attributes:
      field: what it was given for: a field of `Settings`, or the name of a policy.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Offer(NamedTuple):
    """A policy of the lab."""

    label: str
    make: Callable[..., Any]
    takes: str  # its first argument: "bounds", "problem" or "" for none
    parameters: tuple[str, ...] = ()


OFFERS: Mapping[str, Offer] = {
    offer.make.__name__: offer
    for offer in (
        Offer("DynLin-UCB", dynlin_ucb, "bounds", ("rho_bar", "lam", "scale")),
        Offer("DynLin-UCB tight", dynlin_ucb_tight, "bounds", ("rho_bar", "lam")),
        Offer("DynLin-UCB adaptive", dynlin_ucb_adaptive, ""),
        Offer("Lin-UCB", lin_ucb, "bounds", ("rho_bar", "lam")),
        Offer("D-Lin-UCB", d_lin_ucb, "bounds", ("rho_bar", "lam")),
        Offer("Thompson sampling", thompson_sampling, "bounds", ("rho_bar", "lam")),
        Offer("Explore then commit", explore_then_commit, ""),
        Offer("Exp3", exp3, "bounds", ("rho_bar",)),
        Offer("Batch-Exp3", batch_exp3, "bounds", ("rho_bar",)),
        Offer("AR2", ar2, "bounds", ("rho_bar",)),
        Offer("UCB1", ucb1, "bounds", ("rho_bar",)),
        Offer("Myopic", myopic, "problem"),
        Offer("Clairvoyant", clairvoyant, "problem"),
        Offer("Plan", planned, "problem"),
    )
}


@dataclass(frozen=True)
class Learner:
    """A policy that is ticked, and its parameters.

    Attributes:
      policy: its name among `OFFERS`.
      rho_bar: ρ̄, ρ(A) by default.
      lam: λ, the policy's own default by default.
      scale: factor on β.
    """

    policy: str
    rho_bar: float | None = None
    lam: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.policy not in OFFERS:
            raise InputError(
                "policies", f"there is no {self.policy!r:.60}{hint(self.policy, OFFERS)}"
            )
        for name in ("rho_bar", "lam", "scale"):
            value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            if value == default:
                continue
            if name not in self.parameters:
                raise InputError(self.policy, f"{self.policy} has no {name}")
            limits = {"rho_bar": {"at_least": 0.0, "below": 1.0}, "lam": {"above": 0.0, "at_most": 1e9},
                      "scale": {"at_least": 0.0, "at_most": 1e3}}  # fmt: skip
            number = _checked(self.policy, real_number, name, value, **limits[name])
            object.__setattr__(self, name, number)

    @property
    def label(self) -> str:
        """Its name on the page."""
        return OFFERS[self.policy].label

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters it has."""
        return OFFERS[self.policy].parameters

    @property
    def arguments(self) -> dict[str, float]:
        """Its arguments that differ from their defaults, but for those of its bounds."""
        given = {"lam": self.lam} if self.lam is not None else {}
        return given | ({"scale": self.scale} if self.scale != 1.0 else {})

    def make(self, problem: Problem) -> Policy:
        """The policy for a problem."""
        offer = OFFERS[self.policy]
        try:
            with np.errstate(all="ignore"):  # what overflows is rejected by name
                if offer.takes == "bounds":
                    return offer.make(Bounds.of(problem, self.rho_bar), **self.arguments)
                return offer.make(*([problem] if offer.takes else []))
        except ValueError as error:
            raise InputError(self.policy, str(error)) from None

    def text(self) -> str:
        """As in the page's address, such as `dynlin_ucb:rho_bar=0.3`."""
        values = {name: getattr(self, name) for name in ("rho_bar", "lam", "scale")}
        defaults = Learner(self.policy)
        given = [f"{k}={v!r}" for k, v in values.items() if v != getattr(defaults, k)]
        return self.policy + (":" + ",".join(given) if given else "")

    @classmethod
    def parse(cls, text: str) -> "Learner":
        """The inverse of `text`.

        >>> Learner.parse("dynlin_ucb:rho_bar=0.3,lam=2")
        Learner(policy='dynlin_ucb', rho_bar=0.3, lam=2.0, scale=1.0)
        """
        name, colon, rest = text.partition(":")
        given = dict(item.partition("=")[::2] for item in rest.split(",")) if colon else {}
        for key in given:
            if key not in ("rho_bar", "lam", "scale"):
                raise InputError(
                    "policies", f"a policy has no {key!r:.60}; it may have rho_bar, lam, scale"
                )
        return cls(name, **{key: _number("policies", key, value) for key, value in given.items()})


@dataclass(frozen=True)
class Settings:
    """A problem, the policies to run on it, and how long and often.

    Attributes:
      source: where the problem comes from: one of `SOURCES`, or "given".
      delay: rounds until a reward arrives, for "delayed".
      seed: which random system, for "random".
      memory: factor on A.
      sigma: standard deviation of the noise; that of the source by default.
      budget: most that an action may total; that of the source by default.
      x1: what is added to every coordinate of x₁.
      table: (n+1, n+d) rows of [[A, B], [ωᵀ, θᵀ]] in place of the source's.
      learners: the policies.
      runs: how many runs of each.
      rounds: the horizon T.

    >>> Settings(rounds=10)
    Traceback (most recent call last):
    dlbjax.lab.settings.InputError: rounds must be a whole number from 1000 to 1000000; got 10
    """

    source: str = "synthetic"
    delay: int = 5
    seed: int = 0
    memory: float = 1.0
    sigma: float | None = None
    budget: float | None = None
    x1: float = 0.0
    table: tuple[tuple[float, ...], ...] | None = None
    learners: tuple[Learner, ...] = (Learner("dynlin_ucb"), Learner("dynlin_ucb_tight"))
    runs: int = 64
    rounds: int = 100_000

    def __post_init__(self) -> None:
        if self.source not in (*SOURCES, GIVEN):
            raise InputError(
                "source", f"there is no {self.source!r:.60}{hint(self.source, SOURCES)}"
            )
        whole = {"delay": (1, 20), "seed": (0, 10**6), "runs": (FEWEST_RUNS, MOST_RUNS),
                 "rounds": (SHORTEST, LONGEST)}  # fmt: skip
        for name, (least, most) in whole.items():
            self._check(name, whole_number, at_least=least, at_most=most)
        self._check("memory", real_number, at_least=0.0, at_most=10.0)
        self._check("x1", real_number, at_least=-1e3, at_most=1e3)
        if self.sigma is not None:
            self._check("sigma", real_number, at_least=0.0, at_most=10.0)
        if self.budget is not None:
            self._check("budget", real_number, above=0.0, at_most=1e6)
        if self.runs * self.rounds > MOST_ROUNDS:
            raise InputError(
                "rounds",
                f"runs × rounds must be at most {MOST_ROUNDS:.0e} for each policy; got {self.runs} × "
                f"{self.rounds}. Choose fewer of either",
            )
        if len(self.learners) > MOST_POLICIES:
            raise InputError(
                "policies", f"at most {MOST_POLICIES} policies; got {len(self.learners)}"
            )
        if len({learner.policy for learner in self.learners}) < len(self.learners):
            raise InputError(
                "policies", "a policy can be ticked once; keep the settings to compare two"
            )
        if self.table is not None:
            rows = _checked("table", real_array, "the system", self.table, (None, None)).tolist()
            object.__setattr__(self, "table", tuple(map(tuple, rows)))

    def _check(self, name: str, check: Callable[..., Any], **limits: Any) -> None:
        object.__setattr__(self, name, _checked(name, check, name, getattr(self, name), **limits))

    def learner(self, policy: str) -> Learner | None:
        """The settings of a policy, None where it is not ticked."""
        return next((each for each in self.learners if each.policy == policy), None)

    def query(self) -> dict[str, list[str]]:
        """What differs from the defaults, for the page's address."""
        default, found = Settings(), {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value == getattr(default, each.name):
                continue
            if each.name == "learners":
                found["policy"] = [learner.text() for learner in value] or [""]
            else:
                found[each.name] = [json.dumps(value) if each.name == "table" else str(value)]
        return found

    @classmethod
    def of_query(cls, query: Mapping[str, list[str]]) -> "Settings":
        """The inverse of `query`.

        >>> settings = Settings(sigma=0.1, learners=(Learner("lin_ucb", lam=2.0),))
        >>> settings.query()
        {'sigma': ['0.1'], 'policy': ['lin_ucb:lam=2.0']}
        >>> Settings.of_query(settings.query()) == settings
        True
        """
        given: dict[str, Any] = {}
        for name, texts in query.items():
            if name == "policy":
                given["learners"] = tuple(Learner.parse(text) for text in texts if text)
            elif name == "source":
                given[name] = texts[-1]
            elif name == "table":
                given[name] = _table(texts[-1])
            elif name in cls.__dataclass_fields__ and name != "learners":
                given[name] = _number(name, name, texts[-1])
            else:
                raise InputError("address", f"the page's address has an unknown key {name!r:.60}")
        return cls(**given)


@dataclass(frozen=True)
class State:
    """All of the page: settings, those kept for comparison, and what is looked at.

    Attributes:
      settings: those that the widgets show.
      kept: others, for comparison.
      view: which of `VIEWS` is open.
      measure: which regret.
      log_rounds, log_regret: whether the axes are logarithmic.
      overlays: whether bounds on the regret are drawn.
      subject: the policy whose vertices and run are shown; the first by default.
      run: the seed of the run in detail.
    """

    settings: Settings = field(default_factory=Settings)
    kept: Settings | None = None
    view: str = "regret"
    measure: str = "expected"
    log_rounds: bool = False
    log_regret: bool = False
    overlays: bool = False
    subject: str = ""
    run: int = 0

    def __post_init__(self) -> None:
        for name, known in (("view", VIEWS), ("measure", REGRETS), ("subject", ("", *OFFERS))):
            value = getattr(self, name)
            if value not in known:
                raise InputError(name, f"there is no {name} {value!r:.60}{hint(str(value), known)}")
        run = _checked("run", whole_number, "run", self.run, at_least=0, at_most=MOST_RUNS - 1)
        object.__setattr__(self, "run", run)

    def change(self, **values: Any) -> "State":
        """A copy with some fields of the state or of its settings changed."""
        own = {name: value for name, value in values.items() if name in State.__dataclass_fields__}
        rest = {name: value for name, value in values.items() if name not in own}
        return replace(self, settings=replace(own.pop("settings", self.settings), **rest), **own)

    def query(self) -> str:
        """The query of the page's address, which brings this state back."""
        default, found = State(), dict(self.settings.query())
        for each in fields(self)[2:]:
            value = getattr(self, each.name)
            if value != getattr(default, each.name):
                found[each.name] = [str(int(value) if isinstance(value, bool) else value)]
        if self.kept is not None:
            found |= {f"kept.{name}": texts for name, texts in self.kept.query().items()}
            found["kept"] = ["1"]
        return urlencode(found, doseq=True)

    @classmethod
    def of_query(cls, text: str) -> "State":
        """The inverse of `query`; a `InputError` where the text is no state.

        >>> State.of_query("sigma=0.1&measure=offline&kept=1&kept.sigma=0.2").kept.sigma
        0.2
        """
        if len(text) > _LONGEST_QUERY:
            raise InputError("address", "the page's address is too long")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise InputError("address", "the page's address has too many keys") from None
        settings: dict[str, list[str]] = {}
        kept: dict[str, list[str]] = {}
        own: dict[str, str] = {}
        for name, value in pairs:
            if name in State.__dataclass_fields__ and name != "settings":
                own[name] = value
            elif name.startswith("kept."):
                kept.setdefault(name.removeprefix("kept."), []).append(value)
            else:
                settings.setdefault(name, []).append(value)
        given: dict[str, Any] = {
            name: own[name] for name in ("view", "measure", "subject") if name in own
        }
        given |= {
            name: own[name] == "1"
            for name in ("log_rounds", "log_regret", "overlays")
            if name in own
        }
        if "run" in own:
            given["run"] = _number("run", "run", own["run"])
        if "kept" in own:
            given["kept"] = Settings.of_query(kept)
        return cls(settings=Settings.of_query(settings), **given)


def _checked(field: str, check: Callable[..., Any], *arguments: Any, **limits: Any) -> Any:
    """check(…), with its ValueError said of a field."""
    try:
        return check(*arguments, **limits)
    except ValueError as error:
        raise InputError(field, str(error)) from None


def _number(field: str, name: str, text: str) -> float | int:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise InputError(field, f"{name} must be a finite number; got {text!r:.60}")
    return int(number) if number.is_integer() and "." not in text else number


def _table(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("table", "the table must be a list of rows of numbers") from None
