"""A report on one page of HTML, pictures included, for people who own a budget."""

import base64
import html
import io
from dataclasses import replace

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dlbjax.campaign import pictures
from dlbjax.campaign.choice import Choice
from dlbjax.campaign.model import Model
from dlbjax.campaign.readable import amount, chance, date_ahead, span

_SURE = 1.96  # standard errors to either side of a 95 % interval

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }
img { max-width: 100%; } table { border-collapse: collapse; margin: 1em 0; display: block; overflow-x: auto; }
td, th { padding: 0.2em 0.8em; border-bottom: 1px solid #ccc; text-align: right; }
td:first-child, th:first-child { text-align: left; } .note { color: #555; }
"""


def report(model: Model, choice: Choice) -> str:
    """The page as text, without other files or scripts."""
    best, now = choice.options[0], choice.current
    horizon, unit = len(choice.plan), span(model.fit.get("step_days"))
    drawn = replace(  # matplotlib reads text between two dollars as a formula
        model, channels=tuple(map(_literal, model.channels)), reward=_literal(model.reward)
    )
    figures = [
        pictures.history(drawn),
        pictures.effects(drawn),
        pictures.options(drawn, choice),
        pictures.outlook(drawn, choice),
    ]
    history, effects, options, outlook = map(_picture, figures)
    reward = html.escape(model.reward)
    regional = (
        " All of this is per region, for the mean of the regions."
        if model.fit.get("regions")
        else ""
    )
    spend = _rows(
        ["channel", "recommended", "now", f"{model.reward} per unit spent, in all"],
        [
            [name, amount(share), amount(old), f"{amount(h)} ± {amount(_SURE * std, 2)}"]
            for name, share, old, h, std in zip(
                model.channels, best.allocation, now.allocation, model.h,
                model.h_covariance.diagonal() ** 0.5, strict=True,
            )
        ],
    )  # fmt: skip
    dates = model.fit.get("last_round"), model.fit.get("step_days")
    first, last = date_ahead(*dates, 1), date_ahead(*dates, horizon)
    sums = _rows(
        [f"the next {horizon} {unit}s, {first} to {last}", model.reward],
        [
            ["the plan below", amount(choice.plan_reward, 4)],
            ["the recommended allocation throughout", amount(choice.constant_reward, 4)],
            ["as now", amount(choice.current_reward, 4)],
            ["spending nothing", amount(choice.baseline_reward, 4)],
        ],
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Where to spend: {reward}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>
<h1>Where to spend for {reward}</h1>
<p>The current allocation brings <b>{amount(now.reward)}</b> {reward} per {unit} once settled, of which
{amount(model.baseline)} come without any spend. The recommended one brings <b>{amount(best.reward)}</b>:
<b>{_signed(best.gain)}</b> per {unit}, with a 95 % interval from
{_signed(best.gain - _SURE * best.gain_std)} to {_signed(best.gain + _SURE * best.gain_std)}. It is better
than the current one with a probability of <b>{chance(best.better)}</b>, and among the allocations considered
the best, or within a hundredth of it, with {chance(best.probability)}.{regional}</p>
{spend}
{_warnings([*choice.warnings, *(model.fit.get("warnings") or [])])}
<h2>What the model makes of the past</h2>
{history}
<h2>What each channel does</h2>
<p>Some of the effect comes at once, some in the {unit}s after: a channel may be worth more, or less, than it
seems at first.</p>
{effects}
<h2>The alternatives</h2>
{options}
<h2>The next {horizon} {unit}s</h2>
<p>Past spend still has delayed effects. If nothing after them counts, the plan moves towards the end to what
pays at once.</p>
{sums}
{outlook}
<h2>How far to trust this</h2>
{_quality(model)}
<p class="note">The intervals reflect the noise in the data and the choice of the model's order, provided that
the model is of the right kind: effects in proportion to spend, that fade at steady rates. Made by dlbjax
{html.escape(str(model.fit.get("dlbjax", "")))}.</p>
</body></html>
"""


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + amount(value)


def _literal(name: str) -> str:
    return name.replace("$", r"\$")


def _quality(model: Model) -> str:
    found = model.fit.get("report") or {}
    words = {
        "samples": ("rounds in the data", "{:.0f}"),
        "missing": ("of them without a reward", "{:.0f}"),
        "r2_one_step": ("share of the ups and downs explained, one round ahead", "{:.0%}"),
        "r2_free_run": ("share explained without looking at earlier rewards", "{:.0%}"),
        "rho": ("share of the slowest effect carried over to the next round", "{:.0%}"),
    }
    rows = [
        [text, form.format(found[key])]
        for key, (text, form) in words.items()
        if found.get(key) is not None
    ]
    effects = [
        [name, f"{amount(effect)} ± {amount(_SURE * std, 2)}"]
        for name, effect, std in zip(*model.controls[:3], strict=True)
    ]
    heads = ["what nobody chooses", f"{model.reward} per unit"]
    return _rows(["", ""], rows) + (_rows(heads, effects) if effects else "")


def _warnings(texts: list[str]) -> str:
    listed = "".join(f"<li>{html.escape(str(text))}</li>" for text in texts)
    return f"<p><b>Beware:</b></p><ul>{listed}</ul>" if listed else ""


def _rows(header: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _picture(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    plt.close(figure)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="" src="data:image/png;base64,{data}">'
