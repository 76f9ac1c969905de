"""Intervals: how far an estimate may be from the truth."""
