"""`dlb.lab` in a notebook, and the command without its extra."""

import asyncio
import sys
import time

import panel as pn
import pytest

import dlbjax as dlb
from dlbjax.cli import main


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # which Bokeh passes to pandas
def test_a_notebook_gets_the_page_and_its_first_picture():
    async def cell():
        shown = dlb.lab(dlb.problems.real_world())
        end = time.monotonic() + 60
        while not shown.select(
            lambda part: isinstance(part, pn.pane.DataFrame) and part.object is not None
        ):
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        return shown

    shown = asyncio.run(cell())
    texts = [str(pane.object) for pane in shown.select(pn.pane.HTML)]
    assert any("12.80 million rounds simulated" in text for text in texts)
    assert any(text.startswith("J* = 0.") for text in texts)


def test_what_is_no_problem_is_rejected():
    with pytest.raises(ValueError, match=r"problem must be a dlbjax\.Problem"):
        dlb.lab("synthetic")


def test_without_its_extra_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "panel", None)
    with pytest.raises(ImportError, match=r'pip install "dlbjax\[lab\]"'):
        dlb.lab()
    assert main(["lab", "--no-browser"]) == 2
    assert 'pip install "dlbjax[lab]"' in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "65536", "x", "1.5"])
def test_a_wrong_port_is_rejected(port, capsys):
    with pytest.raises(SystemExit):
        main(["lab", f"--port={port}"])
    assert "from 0 to 65535" in capsys.readouterr().err
