"""Argument checks, files and digests, used by every other package."""
