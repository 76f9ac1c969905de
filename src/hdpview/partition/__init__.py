"""Private side: the paper's recursive bisection. It decides from exact statistics, and what it decides is
charged.
"""
