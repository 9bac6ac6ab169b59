"""Numbers, spans and dates as people read them."""

from datetime import datetime, timedelta

_SIZES = ((1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " k"))
_SPANS = ((1.0, "day"), (7.0, "week"), (30.4, "month"), (91.3, "quarter"), (365.2, "year"))


def amount(value: float, digits: int = 3) -> str:
    """A number in thousands, millions or billions.

    >>> amount(1_234_567.0), amount(-0.0042), amount(999.6), amount(52.0)
    ('1.23 M', '-0.0042', '1 k', '52')
    """
    for size, name in _SIZES:
        if abs(float(f"{value:.{digits}g}")) >= size:
            return f"{value / size:.{digits}g}{name}"
    return f"{value:.{digits}g}"


def span(step_days: float | None) -> str:
    """The name of a round: day, week, month, or round where the time between two is something else.

    >>> span(7.0), span(30.0), span(None)
    ('week', 'month', 'round')
    """
    for days, name in _SPANS:
        if step_days is not None and abs(step_days / days - 1) < 0.1:
            return name
    return "round"


def date_ahead(last_round: str | None, step_days: float | None, rounds: int) -> str:
    """The date some rounds after the last, or its number where dates are not known.

    >>> date_ahead("2026-11-16T00:00:00", 7.0, 2), date_ahead(None, None, 2)
    ('2026-11-30', '2')
    """
    if last_round is None or step_days is None:
        return str(rounds)
    ahead = datetime.fromisoformat(last_round) + timedelta(days=step_days * rounds)
    return f"{ahead:%Y-%m-%d}"
