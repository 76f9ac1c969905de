"""Audit: the whole build put to the test from outside. Builds on neighbouring tables, broken files, processes
killed half-way.
"""
