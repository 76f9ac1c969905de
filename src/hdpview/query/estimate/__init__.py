"""Estimates: quantities evaluated over the components of a view."""
