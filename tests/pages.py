"""The Python of the README and of the guide's pages.

Run as a module it draws the pages' pictures again, and removes progress bars from executed notebooks.
"""

import json
import re
from pathlib import Path

import jax
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
# Pages whose Python runs anywhere within seconds. A block that cannot, because it needs a cluster or a
# file of the reader's, begins with ```{code-block} python.
PAGES = {path.stem: path for path in [ROOT / "README.md", *sorted(FOLDER.glob("*.md"))]}
# Pages and the picture in notebooks/drawings that is their last figure.
PICTURES = {"start": "start", "write_policy": "mine", "results": "results"}
BAR = "application/vnd.jupyter.widget-view+json"


def blocks(path: Path) -> list[str]:
    """The page's Python, in order."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(path: Path) -> dict[str, object]:
    """Run a page from top to bottom as one program, and return its names."""
    names: dict[str, object] = {}
    with jax.numpy_dtype_promotion("standard"), plt.style.context("default"):  # as a reader has it
        for number, block in enumerate(blocks(path)):
            exec(compile(block, f"{path.name}, block {number + 1}", "exec"), names)
    return names


def remove_bars(path: Path) -> None:
    """Remove progress bars from a notebook: how many there are depends on the machine."""
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"].pop("widgets", None)
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = [out for out in cell["outputs"] if BAR not in out.get("data", {})]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    import os
    import tempfile

    for notebook in FOLDER.glob("*.ipynb"):
        remove_bars(notebook)
    plt.switch_backend("Agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page, picture in PICTURES.items():
            run(PAGES[page])
            plt.gcf().savefig(FOLDER / "drawings" / f"{picture}.png", dpi=140)
            plt.close("all")
