"""SQL over a view: DuckDB answers a statement over the estimates and over random draws of the truth.

statement    sqlglot names columns, and scans of the view are found (allowed, dialects, folding)
scan         keys, conditions and summands over points, base sums of groups (classes, clusters, aggregates)
heaps        possible positions of records in bins that are cut, and in cells of tied attributes (cells)
execute      the statement on the estimate, and on all draws inside one LATERAL (lineage, quantiles)
"""

from __future__ import annotations

from hdpview.query.evaluate.run import Output, Result, describe, run

__all__ = ["Output", "Result", "describe", "run"]
