"""Private side: the paper's recursive bisection, which decides from exact statistics and is charged."""
