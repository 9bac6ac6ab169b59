"""What a visitor of the lab has chosen: validated, to and from the query of the page's address."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np

from dlbjax.common.arrays import real_array, real_number, whole_number
from dlbjax.common.hints import hint
from dlbjax.model.bounds import Bounds
from dlbjax.model.problem import Problem
from dlbjax.model.problems import synthetic
from dlbjax.model.system import System
from dlbjax.policies.base import Policy
from dlbjax.policies.catalogue import POLICIES, takes
from dlbjax.results.result import REGRETS

FEWEST_RUNS, MOST_RUNS = 8, 1024
SHORTEST, LONGEST = 1_000, 1_000_000  # rounds
MOST_ROUNDS = 2 * 10**8  # of all runs of a policy
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


def sigma_of(system: System) -> float:
    """The largest standard deviation of any noise, which the slider for σ sets."""
    return float(max(system.reward_noise, np.sqrt(np.linalg.norm(system.state_noise, 2))))


class Parameter(NamedTuple):
    """A number that a policy may be given on the page."""

    label: str
    check: Callable[..., Any]
    limits: Mapping[str, float]
    default: float | None = None  # for policies that need the number and have no default


PARAMETERS: Mapping[str, Parameter] = {
    "rho_bar": Parameter("ρ̄ it is given", real_number, {"at_least": 0.0, "below": 1.0}),
    "scale": Parameter("scale of β", real_number, {"at_least": 0.0, "at_most": 1e3}),
    "lam": Parameter("λ", real_number, {"above": 0.0, "at_most": 1e9}),
    "lags": Parameter("lags", whole_number, {"at_least": 1, "at_most": 20}, 1),
    "order": Parameter("order", whole_number, {"at_least": 1, "at_most": 20}, 1),
    "m": Parameter("bound m", real_number, {"at_least": 0.0, "at_most": 1e6}, 1.0),
}


class Offer(NamedTuple):
    """A policy of the lab."""

    label: str
    make: Callable[..., Any]
    takes: str  # its first argument: "bounds", "problem" or "" for none
    parameters: tuple[str, ...]
    needs: Mapping[str, float]  # parameters without a default of the policy's own
    needs_sigma: bool  # as an argument, not among its bounds

    def made(self, problem: Problem, rho_bar: float | None, **arguments: float) -> Policy:
        """The policy for a problem."""
        first = {"bounds": lambda: Bounds.of(problem, rho_bar), "problem": lambda: problem}
        return self.make(*([first[self.takes]()] if self.takes else []), **arguments)


def _offers() -> dict[str, Offer]:
    """Every policy of which the page can give all that it needs, DynLin-UCB's kin first."""
    problem, found = synthetic(), {}
    for name, make in POLICIES.items():
        own, kind = signature(make).parameters, takes(make)
        needed = {key for key, each in own.items() if each.default is each.empty} - {kind}
        needs = {key: p.default for key, p in PARAMETERS.items() if key in needed and p.default}
        if needed - set(needs) - {"sigma"}:
            continue
        known = tuple(
            key
            for key in PARAMETERS
            # UCB1 has another `scale`, without a default of 1.
            if (key in own and (key != "scale" or own[key].default == 1))
            or (key == "rho_bar" and kind == "bounds")
        )
        offer = Offer("", make, kind, known, needs, "sigma" in needed)
        sigma = {"sigma": 1.0} if offer.needs_sigma else {}
        label = offer.made(problem, None, **needs, **sigma).name
        found[name] = offer._replace(label=label[0].upper() + label[1:])

    def place(item: tuple[str, Offer]) -> tuple[bool, bool, str]:
        name, offer = item
        return (not name.startswith("dynlin_ucb"), offer.takes == "problem", offer.label)

    return dict(sorted(found.items(), key=place))


OFFERS: Mapping[str, Offer] = _offers()


@dataclass(frozen=True)
class Learner:
    """A policy that is ticked, and its parameters; None stands for the default.

    Attributes:
      policy: its name among `OFFERS`.
      rho_bar: ρ̄, ρ(A) by default.
      scale: factor on β.
      lam: λ.
      lags: rounds that it looks back on.
      order: order of an autoregression.
      m: bound on the constant of an autoregression.

    >>> Learner("larl", lags=0)
    Traceback (most recent call last):
    dlbjax.lab.settings.InputError: lags must be a whole number from 1 to 20; got 0
    """

    policy: str
    rho_bar: float | None = None
    scale: float | None = None
    lam: float | None = None
    lags: int | None = None
    order: int | None = None
    m: float | None = None

    def __post_init__(self) -> None:
        if self.policy not in OFFERS:
            raise InputError(
                "policies", f"there is no {self.policy!r:.60}{hint(self.policy, OFFERS)}"
            )
        for name, value in self.given.items():
            if name not in self.parameters:
                raise InputError(self.policy, f"{self.policy} has no {name}")
            _, check, limits, _ = PARAMETERS[name]
            number = _checked(self.policy, check, name, value, **limits)
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
    def given(self) -> dict[str, float]:
        """Its parameters that are not left to their defaults."""
        values = {name: getattr(self, name) for name in PARAMETERS}
        return {name: value for name, value in values.items() if value is not None}

    def arguments(self, problem: Problem) -> dict[str, float]:
        """Its arguments, but for the first and for defaults."""
        offer = OFFERS[self.policy]
        sigma = {"sigma": sigma_of(problem.system)} if offer.needs_sigma else {}
        found = {**offer.needs, **self.given, **sigma}
        found.pop("rho_bar", None)
        return found

    def make(self, problem: Problem) -> Policy:
        """The policy for a problem."""
        try:
            with np.errstate(all="ignore"):  # what overflows is rejected by name
                return OFFERS[self.policy].made(problem, self.rho_bar, **self.arguments(problem))
        except ValueError as error:
            raise InputError(self.policy, str(error)) from None

    def text(self) -> str:
        """As in the page's address, such as `dynlin_ucb:rho_bar=0.3`."""
        given = ",".join(f"{name}={value!r}" for name, value in self.given.items())
        return f"{self.policy}:{given}" if given else self.policy

    @classmethod
    def parse(cls, text: str) -> "Learner":
        """The inverse of `text`.

        >>> Learner.parse("dynlin_ucb:rho_bar=0.3,lam=2")
        Learner(policy='dynlin_ucb', rho_bar=0.3, scale=None, lam=2.0, lags=None, order=None, m=None)
        """
        name, colon, rest = text.partition(":")
        given = dict(item.partition("=")[::2] for item in rest.split(",")) if colon else {}
        for key in given:
            if key not in PARAMETERS:
                known = ", ".join(PARAMETERS)
                raise InputError("policies", f"a policy has no {key!r:.60}; it may have {known}")
        return cls(name, **{key: _parsed("policies", value) for key, value in given.items()})


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

    def query(self) -> list[tuple[str, str]]:
        """What differs from the defaults, for the page's address.

        >>> Settings(sigma=0.1, learners=(Learner("lin_ucb", lam=2.0),)).query()
        [('sigma', '0.1'), ('policy', 'lin_ucb:lam=2.0')]
        """
        found = _differences(self, Settings())
        if self.learners != Settings.learners:
            found += [("policy", each.text()) for each in self.learners] or [("policy", "")]
        return found

    @classmethod
    def of_query(cls, query: Sequence[tuple[str, str]]) -> "Settings":
        """The inverse of `query`.

        >>> Settings.of_query([("sigma", "0.1"), ("policy", "")]) == Settings(sigma=0.1, learners=())
        True
        """
        given = _values(cls, [(name, text) for name, text in query if name != "policy"])
        policies = [text for name, text in query if name == "policy"]
        if policies:
            given["learners"] = tuple(Learner.parse(text) for text in policies if text)
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
        for name in ("log_rounds", "log_regret", "overlays"):
            object.__setattr__(self, name, bool(getattr(self, name)))

    def change(self, **values: Any) -> "State":
        """A copy with some fields of the state or of its settings changed."""
        own = {name: value for name, value in values.items() if name in State.__dataclass_fields__}
        rest = {name: value for name, value in values.items() if name not in own}
        return replace(self, settings=replace(own.pop("settings", self.settings), **rest), **own)

    def query(self) -> str:
        """The query of the page's address, which brings this state back."""
        found = self.settings.query() + _differences(self, State())
        if self.kept is not None:
            found += [("kept", "1"), *((f"kept.{k}", text) for k, text in self.kept.query())]
        return urlencode(found)

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
        kept = [(k.removeprefix("kept."), text) for k, text in pairs if k.startswith("kept.")]
        pairs = [(k, text) for k, text in pairs if not k.startswith("kept.")]
        own = {"view", "measure", "log_rounds", "log_regret", "overlays", "subject", "run"}
        given = _values(cls, [(k, text) for k, text in pairs if k in own])
        if "kept" in dict(pairs):
            given["kept"] = Settings.of_query(kept)
        rest = [(k, text) for k, text in pairs if k not in own and k != "kept"]
        return cls(settings=Settings.of_query(rest), **given)


_TEXTS = ("source", "view", "measure", "subject")  # fields that are no numbers
_PARTS = ("learners", "settings", "kept")  # fields that have a text of their own


def _differences(one: Any, default: Any) -> list[tuple[str, str]]:
    """Fields that differ, as texts: JSON, or the text itself."""
    pairs = [(each.name, getattr(one, each.name)) for each in fields(one)]
    return [
        (name, value if name in _TEXTS else json.dumps(value))
        for name, value in pairs
        if name not in _PARTS and value != getattr(default, name)
    ]


def _values(cls: type[Settings | State], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Fields from their texts; of one that is given twice the last."""
    found = {}
    for name, text in pairs:
        if name not in cls.__dataclass_fields__ or name in _PARTS:
            raise InputError("address", f"the page's address has an unknown key {name!r:.60}")
        found[name] = text if name in _TEXTS else _parsed(name, text)
    return found


def _checked(field: str, check: Callable[..., Any], *arguments: Any, **limits: Any) -> Any:
    """check(…), with its ValueError said of a field."""
    try:
        return check(*arguments, **limits)
    except ValueError as error:
        raise InputError(field, str(error)) from None


def _parsed(field: str, text: str) -> Any:
    """JSON; whether it is what the field needs is checked there."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(
            field, f"{text!r:.60} is no number, nor a list of rows of numbers"
        ) from None
