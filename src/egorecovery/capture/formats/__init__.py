"""Data sets of other projects, read as recordings."""
