"""The four tasks."""
