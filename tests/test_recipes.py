"""The recipes run as they stand, from top to bottom."""

import doctest
from pathlib import Path

import jax


def test_every_recipe_runs():
    page = Path(__file__).parent.parent / "notebooks" / "recipes.md"
    with jax.numpy_dtype_promotion("standard"):  # a user has not made it strict
        found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted > 20
    assert found.failed == 0
