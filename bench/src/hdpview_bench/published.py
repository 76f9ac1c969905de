"""Facts from the paper: the numbers in its tables, and its names for methods, datasets and workloads."""

from __future__ import annotations

METHOD_NAMES = {
    "identity": "Identity",
    "privtree": "PrivTree",
    "hdmm": "HDMM",
    "privbayes": "PrivBayes",
    "dawa": "DAWA",
    "hdpview": "HDPView",
    "mst": "MST (δ = 10⁻⁹)",  # this and the following are not in the paper: methods of OpenDP, then of dpmm
    "aim": "AIM (δ = 10⁻⁹)",
    "dpmm-mst": "MST of dpmm (δ = 10⁻⁹)",
    "dpmm-aim": "AIM of dpmm (δ = 10⁻⁹)",
}
DENSE = ("identity",)  # methods whose blocks are the cells

# The four properties of its first table: (workload independence, analytical reliability, noise resistance,
# space efficiency).
PROPERTIES = {
    "identity": ("yes", "yes", "no", "no"),
    "privtree": ("yes", "yes", "only few attributes", "no"),
    "hdmm": ("no", "yes", "yes", "yes"),
    "privbayes": ("yes", "no", "yes", "yes"),
    "hdpview": ("yes", "yes", "yes", "yes"),
}
AVERAGE_RELATIVE_RMSE = {
    "identity": 1.94e7,
    "privtree": 7.05,
    "hdmm": 35.34,
    "privbayes": 3.79,
    "hdpview": 1.00,
}
AVERAGE_RELATIVE_SIZE = {"identity": 4.59e17, "privtree": 5578.27, "hdpview": 1.00}

# Records, columns, of which categories, size of the domain, mean variance of the normalised columns.
DATASETS = {
    "adult": (48_842, 15, 9, 9e19, 0.0360),
    "small-adult": (48_842, 4, 2, 3e5, 0.0237),
    "numerical-adult": (48_842, 7, 1, 2e11, 0.0200),
    "traffic": (48_204, 8, 2, 1e14, 0.0484),
    "bitcoin": (500_000, 9, 1, 4e12, 0.0379),
    "electricity": (45_312, 8, 1, 1e14, 0.0407),
    "phoneme": (5_404, 6, 1, 2e6, 0.0304),
    "jm1": (10_885, 22, 1, 2e21, 0.0027),
}
# Sizes of a noisy count for every cell, and of HDPView's view.
SIZES = {
    "adult": ("30.99 EB", "3.61 MB"),
    "bitcoin": ("1.27 TB", "6.77 MB"),
    "electricity": ("1.11 TB", "2.19 MB"),
    "phoneme": ("781.34 KB", "273.59 KB"),
}
GOWALLA = {
    "hdpview": (15_669, 657.37),
    "privtree": (19_475, 315.79),
}  # blocks, RMSE of 3,000 random 2-D ranges
JM1_BLOCKS_OF_PRIVTREE = 4e4  # times as many as HDPView's
