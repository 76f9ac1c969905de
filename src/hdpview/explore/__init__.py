"""Released side: a page over views, read-only. Its process loads nothing that could see a table."""
