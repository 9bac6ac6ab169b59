"""Results: what a simulation reports, how it is kept and drawn."""
