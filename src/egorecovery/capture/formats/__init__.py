"""Readers of other projects' data sets, which give recordings."""
