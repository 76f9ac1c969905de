"""Private side: the budget, the secret key and the noise."""
