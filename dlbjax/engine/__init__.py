"""The compiled engine and the `simulate` that drives it."""
