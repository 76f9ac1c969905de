"""Intervals that need no model: noise alone, the worst case, and the paper's theorem."""
