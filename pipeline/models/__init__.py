"""Heads built from filters."""
