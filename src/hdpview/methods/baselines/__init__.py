"""Rivals to compare with. They release answers, not views."""
