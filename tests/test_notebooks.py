"""The notebooks run from top to bottom, in sizes that take seconds, and were committed with pictures."""

import ast
import json
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import jax
import matplotlib.pyplot as plt
import pytest

from tests.pages import BAR
from tests.test_pages import documented

FOLDER = Path(__file__).parent.parent / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(name, kind):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_are_notebooks():
    assert "theory" in NAMES


@pytest.mark.notebooks
@pytest.mark.parametrize("name", NAMES)
def test_runs(name, tmp_path, monkeypatch):
    """A cell that sets sizes says in its metadata which to take here."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    code = cells(name, "code")
    assert any("fast" in cell["metadata"] for cell in code)
    with jax.numpy_dtype_promotion("standard"):  # a reader has not made it strict
        for number, cell in enumerate(code):
            source = cell["metadata"].get("fast", "".join(cell["source"]))
            exec(compile(source, f"{name}.ipynb, code cell {number + 1}", "exec"), names)
    assert plt.get_fignums()
    plt.close("all")


@pytest.mark.parametrize("name", NAMES)
def test_was_committed_as_it_ran(name):
    """In order, without errors or warnings, and with at least one picture."""
    pictures = 0
    for number, cell in enumerate(cells(name, "code")):
        assert cell["execution_count"] == number + 1
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", "".join(output["text"])
            pictures += "image/png" in output.get("data", {})
            assert BAR not in output.get("data", {})  # needs scripts from a network
    assert pictures >= 1
    first = "".join(cells(name, "markdown")[0]["source"])
    assert "**You will learn**" in first
    assert "**Time**" in first


def dlbjax_names(name):
    """What a notebook imports from dlbjax."""
    for cell in cells(name, "code"):
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dlbjax"):
                yield from (resolve_name(f"{node.module}:{alias.name}") for alias in node.names)


@pytest.mark.parametrize("name", NAMES)
def test_uses_what_the_reference_documents_and_one_style_sheet(name):
    shown = documented()
    for thing in dlbjax_names(name):
        assert isinstance(thing, ModuleType) or id(thing) in shown, thing
    first = "".join(cells(name, "code")[0]["source"])
    assert 'plt.style.use("dlbjax.results.style")' in first
