"""Measurements of hdpview: commands under `hdpview bench` print every figure in its documentation."""
