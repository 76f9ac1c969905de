"""Released side: a view as data, and its file."""
