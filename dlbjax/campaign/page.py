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
from dlbjax.results.result import Results

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }
img { max-width: 100%; } table { border-collapse: collapse; }
td, th { padding: 0.2em 0.8em; border-bottom: 1px solid #ccc; text-align: right; }
td:first-child, th:first-child { text-align: left; } .note { color: #555; }
"""


def report(model: Model, choice: Choice, rehearsal: Results) -> str:
    """The page as text, without other files or scripts."""
    best = choice.options[0]
    horizon = len(choice.plan)
    drawn = replace(  # matplotlib reads text between two dollars as a formula
        model, channels=tuple(map(_literal, model.channels)), reward=_literal(model.reward)
    )
    figures = [
        pictures.effects(drawn),
        pictures.options(drawn, choice),
        pictures.outlook(drawn, choice),
        rehearsal.plot(title="Learning from scratch on the fitted system").figure,
    ]
    effects, options, outlook, regret = map(_picture, figures)  # type: ignore[arg-type]
    reward = html.escape(model.reward)
    spend = _rows(
        ["channel", "spend per round", "now, on average"],
        [
            [name, f"{share:,.4g}", f"{now:,.4g}"]
            for name, share, now in zip(
                model.channels, best.allocation, _mean_spend(model), strict=True
            )
        ],
    )
    gain = choice.plan_reward - choice.constant_reward
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Where to spend: {reward}</title>
<style>{_STYLE}</style></head><body>
<h1>Where to spend for {reward}</h1>
<p>Spend as follows, every round. Once effects have settled this is expected to bring
<b>{best.reward:,.4g} ± {1.96 * best.std:,.2g}</b> {reward} per round (95 % interval of the mean), of which
{model.baseline:,.4g} come without any spend. The probability that this is the best split of the budget,
given the data, is <b>{best.probability:.0%}</b>.</p>
{spend}
<h2>What each channel does</h2>
<p>Some of the effect comes at once, some in the rounds after: a channel may be worth more, or less, than it
seems on the day.</p>
{effects}
<h2>The alternatives</h2>
{options}
<h2>The next {horizon} rounds</h2>
<p>Past spend still has delayed effects. If the campaign ends after {horizon} rounds, the plan on the left
brings {choice.plan_reward:,.5g} {reward} in all, {gain:,.3g} more than the constant split above
({choice.constant_reward:,.5g}): towards the end it moves to what pays at once. Spending nothing would bring
{choice.baseline_reward:,.5g}.</p>
{outlook}
<h2>If one had to learn it</h2>
<p>What learning algorithms that start without data lose in {reward}, in all, on the fitted system.</p>
{regret}
<h2>How far to trust this</h2>
{_quality(model)}
<p class="note">The intervals reflect the noise in the data, provided that the model is of the right kind:
effects in proportion to spend, that fade at steady rates. Spend outside the range of the data was not
considered. Made by dlbjax {html.escape(str(model.fit.get("dlbjax", "")))}.</p>
</body></html>
"""


def _literal(name: str) -> str:
    return name.replace("$", r"\$")


def _quality(model: Model) -> str:
    found = model.fit.get("report") or {}
    words = {
        "samples": "rounds in the data",
        "missing": "of them without a reward",
        "r2_one_step": "share of the ups and downs explained, one round ahead",
        "r2_free_run": "share explained by the spend alone",
        "rho": "share of the effect carried over to the next round, at most",
    }
    rows = [
        [text, f"{found[key]:.4g}"] for key, text in words.items() if found.get(key) is not None
    ]
    warnings = "".join(f"<li>{html.escape(str(w))}</li>" for w in model.fit.get("warnings") or [])
    listed = f"<p>Beware:</p><ul>{warnings}</ul>" if warnings else ""
    return _rows(["", ""], rows) + listed


def _mean_spend(model: Model) -> list[float]:
    return model.fit.get("mean_spend") or [float("nan")] * len(model.channels)


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
