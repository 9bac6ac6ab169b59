"""The Python of the README and of the guide's pages; run as a module, draw the pages' pictures again."""

import re
from pathlib import Path

import jax
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "notebooks"
# Pages whose Python runs anywhere within seconds. A block that cannot, because it needs a cluster or a
# file of the reader's, begins with ```{code-block} python.
PAGES = {path.stem: path for path in [ROOT / "README.md", *sorted(FOLDER.glob("*.md"))]}
# Pictures in notebooks/drawings, and the page that ends with them as its last figure at that place.
PICTURES = {"start": "start", "write_policy": "mine", "results": "results"}


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


if __name__ == "__main__":
    import os
    import tempfile

    plt.switch_backend("Agg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page, picture in PICTURES.items():
            run(PAGES[page])
            plt.gcf().savefig(FOLDER / "drawings" / f"{picture}.png", dpi=140)
            plt.close("all")
