"""What people ask: conditions, boxes of codes, and quantities to estimate."""
