"""From a table to its occupied cells. Private side: everything here is exact."""
