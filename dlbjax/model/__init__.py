"""The model: systems, action sets, problems, and bounds on them."""
