"""What all suites share: where compiled kernels are kept, how properties are tried, and who runs which
tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Beside the sources: a cache of the tests' own, that no other checkout writes to.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".cache" / "numba"))

# Properties are checked on the same examples each time, so that a change is judged by what it changed; `make
# hunt` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("hunt", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What starts first, the longest groups, so that all workers end together. The explorer's and Spark's compile
# the kernels that builds need; meanwhile another worker has tests that build nothing, and then finds the
# kernels in the cache. The many short groups fill up at the end.
_FIRST = (
    "explorer",
    "spark",
    "install",
    "tests/unit/test_sql.py",
    "tests/unit/test_predicates.py",
    "tests/property/test_logic.py",
    "tests/property/test_answers.py",
    "tests/conformance/test_sql_against_duckdb.py",
    "tests/conformance/test_rows_against_duckdb.py",
    "postgres-server",
    "spark cluster",
    "tests/interface/test_readme.py",
    "tests/security/test_audit.py",
    "tests/curate/test_page.py",
    "tests/curate/test_recorded_run.py",
    "tests/interface/test_notebook.py",
    "tests/interface/test_cli.py",
    "tests/unit/test_estimate.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a file, or of all files that share a browser, so that what they share is
    made once. Tests that name a group of their own keep it.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            file = item.path.relative_to(item.config.rootpath).as_posix()
            group = "explorer" if file.startswith("tests/explore/") else file
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    name = marker.args[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
