"""Private side: where exact statistics are computed. Engines differ in speed and reach, never in what they
build.
"""
