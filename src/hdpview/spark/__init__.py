"""Private side, on a cluster: exact statistics and partitions on the workers of Spark.

Rows and cells stay on the workers; only sums and leaves come to the driver. Draws no randomness of its own,
reads and encodes as `counts` does, and must not know methods, views or queries.
"""
