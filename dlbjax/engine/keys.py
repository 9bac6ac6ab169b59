"""Typed PRNG keys in the state of a policy, kept as plain numbers wherever the state is stored."""

from typing import Any

import jax
import jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class KeyData:
    """The numbers of typed keys, and which generator they are for."""

    def __init__(self, data: Any, generator: Any):
        self.data, self.generator = data, generator

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        """The numbers are the only leaf."""
        return (self.data,), self.generator

    @classmethod
    def tree_unflatten(cls, generator: Any, leaves: tuple[Any]) -> "KeyData":
        """The reverse of `tree_flatten`."""
        return cls(*leaves, generator)


def hide_keys(state: Any) -> Any:
    """A pytree with its typed keys as `KeyData`."""

    def hide(leaf: Any) -> Any:
        is_key = jnp.issubdtype(getattr(leaf, "dtype", float), jax.dtypes.prng_key)
        return KeyData(jax.random.key_data(leaf), jax.random.key_impl(leaf)) if is_key else leaf

    return jax.tree.map(hide, state)


def show_keys(state: Any) -> Any:
    """The reverse of `hide_keys`."""

    def show(leaf: Any) -> Any:
        hidden = isinstance(leaf, KeyData)
        return jax.random.wrap_key_data(leaf.data, impl=leaf.generator) if hidden else leaf

    return jax.tree.map(show, state, is_leaf=lambda leaf: isinstance(leaf, KeyData))
