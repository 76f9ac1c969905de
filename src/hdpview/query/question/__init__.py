"""Questions: conditions, boxes of codes, and quantities to estimate."""
