"""Audit: the whole build put to the test from outside, by builds of neighbouring tables."""
