"""Intervals without a model: noise alone, the worst case, and the paper's theorem."""
