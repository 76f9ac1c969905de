"""SQL over a view: any statement, answered by DuckDB over estimates and over draws of what the truth may be.

statement    sqlglot names columns, folds subqueries, finds the scans of the view (allowed, dialects)
scan         keys, conditions and summands over points; base sums of every group (database, aggregates)
heaps        what bins may hold on either side of a cut
execute      the statement on the estimate, and on all draws inside one LATERAL (lineage, quantiles)
"""

from __future__ import annotations

from hdpview.query.evaluate.run import Output, Result, describe, run

__all__ = ["Output", "Result", "describe", "run"]
