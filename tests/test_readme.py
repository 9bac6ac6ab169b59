"""The README's Python runs as it stands, from top to bottom."""

import re
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import pytest


@pytest.mark.slow
def test_every_python_block_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with jax.numpy_dtype_promotion("standard"):  # a user has not made it strict
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "sensitivity.npz").exists()
    shown = [text.get_text() for text in plt.gca().get_legend().get_texts()]
    assert shown == ["DynLin-UCB", "upper bound"]
    plt.close("all")
