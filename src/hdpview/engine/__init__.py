"""Private side: where exact statistics are computed. Engines differ in speed, never in the result."""
