"""Released side: questions and answers. Works on a view alone; cannot reach the table."""
