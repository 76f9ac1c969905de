"""Compile the kernels that most tests need once, so that the workers do not each compile them: `python
tests/compile_kernels.py`, from the root of the repository."""

import os
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "numba"))

import hdpview as hv
from hdpview.demo import hospital_schema, hospital_table
from hdpview.methods import METHODS


def main() -> None:
    for name in METHODS:
        hv.build(hospital_table()[:2_000], hospital_schema(), 1.0, method=name, test_key=b"kernels")


if __name__ == "__main__":
    main()
