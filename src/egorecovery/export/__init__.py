"""Stores and policies for other tools."""
