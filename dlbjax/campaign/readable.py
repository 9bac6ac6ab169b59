"""Numbers, spans and dates as people read them."""

from datetime import datetime, timedelta

# Spaces that do not break: a line does not end between a number and its size.
_SIZES = ((1e12, "\u00a0T"), (1e9, "\u00a0B"), (1e6, "\u00a0M"), (1e3, "\u00a0k"))
_SPANS = ((1.0, "day"), (7.0, "week"), (30.4, "month"), (91.3, "quarter"), (365.2, "year"))


def amount(value: float, digits: int = 3) -> str:
    """A number in thousands, millions or billions.

    >>> print(amount(1_234_567.0), amount(-0.0042), amount(999.6), amount(52.0), amount(456.0, 2))
    1.23 M -0.0042 1 k 52 460
    """
    rounded = float(f"{value:.{digits}g}")
    size, name = next((row for row in _SIZES if abs(rounded) >= row[0]), (1.0, ""))
    return f"{rounded / size:.6g}{name}"


def chance(probability: float) -> str:
    """A probability that is never called certain.

    >>> chance(0.999), chance(0.815), chance(0.0)
    ('over 99%', '82%', 'under 1%')
    """
    if probability > 0.99 or probability < 0.01:
        return "over 99%" if probability > 0.5 else "under 1%"
    return f"{probability:.0%}"


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
