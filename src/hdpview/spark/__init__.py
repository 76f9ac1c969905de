"""Private side, where the rows are: exact statistics and partitions on the workers of a Spark cluster."""
