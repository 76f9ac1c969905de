"""Audit: test the whole build from outside, by building views of neighbouring tables."""
