"""Spark, for all tests in this folder."""

from sparks import spark

__all__ = ["spark"]
