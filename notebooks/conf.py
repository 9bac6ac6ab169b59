"""The documentation's site: `make docs` builds it from this folder into results/site."""

import base64
import inspect
import json
import re
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent

project = "dlbjax"
author = "The dlbjax authors"
project_copyright = author
release = version = installed("dlbjax")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_*", "measured", "**.ipynb_checkpoints"]
nb_execution_mode = "off"  # the notebooks are kept as they ran, by `make notebooks`
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

default_role = "py:obj"  # `name` in a docstring is a link where there is something to link to
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature has them, and Args says what they mean
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "dlbjax"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "start": [], "gallery": []}
html_show_sourcelink = False


def extract_thumbnails(app):
    """Write the first picture of every notebook, for the gallery."""
    folder = HERE / "_static" / "thumbnails"
    folder.mkdir(parents=True, exist_ok=True)
    for path in HERE.glob("*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        pictures = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
        (folder / f"{path.stem}.png").write_bytes(base64.b64decode(pictures[0]))


def list_pictures(app):
    """List the pictures of the benchmarks, for the page on speed."""
    pictures = sorted((HERE / "measured" / "benchmarks").glob("*.png"))
    lines = [f"![{p.stem}]({p.relative_to(HERE).as_posix()})\n" for p in pictures]
    (HERE / "_generated").mkdir(exist_ok=True)
    (HERE / "_generated" / "pictures.md").write_text("\n".join(lines), "utf-8")


def link_pages(app, what, name, thing, options, lines):
    """Turn notebooks/errata.md in a docstring into a link to that page."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r"notebooks/(\w+)\.md", r":doc:`the page \1 </\1>`", line)


def escape_bars(app, what, name, thing, options, lines):
    """Keep |J| an absolute value, where reStructuredText would look for a substitution."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"\|(\S[^|]*)\|", r"\\|\1\\|", line)


def keep_formulas(app, what, name, thing, options, lines):
    """Keep the lines of indented formulas, which reStructuredText would join."""
    text = inspect.cleandoc("\n".join(lines)).splitlines()
    del lines[:]
    for i, line in enumerate(text):
        begins = line.startswith("    ") and (i == 0 or not text[i - 1].strip())
        above = next((t for t in reversed(text[:i]) if t.strip()), "")
        if begins and not above.startswith((" ", ".", ":")) and not above.endswith("::"):
            lines += [".. code-block:: none", ""]
        lines.append(line)


def skip_fields(app, what, name, thing, skip, options):
    """Leave out fields of named tuples, which the class documents under Attributes."""
    return True if inspect.isdatadescriptor(thing) and not isinstance(thing, property) else None


def setup(app):
    """Connect what this file adds to Sphinx."""
    app.connect("builder-inited", extract_thumbnails)
    app.connect("builder-inited", list_pictures)
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("autodoc-skip-member", skip_fields)
