"""The documentation: its Python runs, it has every public name, and the README stays short."""

import re
from pkgutil import resolve_name
from types import ModuleType

import matplotlib.pyplot as plt
import pytest

import dlbjax as dlb
from tests.pages import FOLDER, PAGES, ROOT, blocks, run

WITH_PYTHON = [name for name, path in PAGES.items() if blocks(path)]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_every_python_block_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(PAGES[name])
    files = re.findall(r'savefig\("(.*?)"\)', PAGES[name].read_text("utf-8"))
    for file in files:
        assert (tmp_path / file).stat().st_size > 1000
    plt.close("all")


def test_pages_that_teach_have_python():
    teach = {"README", "start", "concepts", "results", "write_policy", "recipes", "live"}
    assert teach <= set(WITH_PYTHON)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", ["README.md", ".github/CONTRIBUTING.md"])
def test_links_to_files_lead_somewhere(page):
    """Those between pages of the site are checked when it is built."""
    path = ROOT / page
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_own_policy_in_a_figure_takes_less_than_twenty_lines():
    first = blocks(FOLDER / "write_policy.md")[0]
    assert len([line for line in first.splitlines() if line.strip()]) < 20
    assert "colours=" in first
    assert ".pdf" in first


def public(module: ModuleType, prefix: str) -> dict[int, str]:
    """Public functions and classes by id: those in __all__ of a module, else those defined in it."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]  # fmt: skip
    found: dict[int, str] = {}
    for name in names:
        value, path = getattr(module, name), f"{prefix}.{name}"
        found |= public(value, path) if isinstance(value, ModuleType) else {id(value): path}
    return found


def documented() -> set[int]:
    """What the directives of the API pages document."""
    found: set[int] = set()
    for page in (FOLDER / "api").glob("*.md"):
        for kind, name in re.findall(r"^\.\. auto(\w+):: (\S+)", page.read_text("utf-8"), re.M):
            value = resolve_name(name)
            found |= public(value, name).keys() if kind == "module" else {id(value)}
    return found


def test_every_public_name_is_on_an_api_page():
    shown = documented()
    assert [path for key, path in public(dlb, "dlb").items() if key not in shown] == []


def test_every_notebook_is_in_the_gallery():
    gallery = (FOLDER / "gallery.md").read_text("utf-8")
    for path in FOLDER.glob("*.ipynb"):
        assert f":link: {path.stem}\n" in gallery
