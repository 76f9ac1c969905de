"""Measurements of hdpview: every figure in its documentation is printed by a command under `hdpview bench`."""
