"""Intervals: ranges around estimates that contain the truth with a given confidence."""
