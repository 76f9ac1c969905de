"""What all suites share: where compiled kernels are kept, how properties are tried, and who runs which
tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Beside the sources: a cache of the tests' own, that no other checkout writes to.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".cache" / "numba"))

# Properties are checked on the same examples each time, so that a change is judged by what it changed; `make
# hunt` looks for new ones. How long an example takes depends on what else the machine does, so it decides
# nothing.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _ANY_SPEED, derandomize=True)
settings.register_profile("hunt", _ANY_SPEED, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What starts first, the longest groups, so that all workers end together. The many short ones fill up at the
# end. `make test` compiles the kernels that builds need before any of them starts.
_FIRST = (
    "spark",
    "audit, mixture from a file: one row more of a person than noise is for",
    "spark cluster",
    "tests/explore/test_charts.py",
    "bench/tests/test_audit.py",
    "tests/explore/test_published.py",
    "tests/curate/test_page.py",
    "tests/interface/test_readme.py",
    "install",
    "audit, mixture: sizes of errors chosen by exact argmax",
    "tests/unit/test_predicates.py",
    "bench/tests/test_coverage.py",
    "postgres-server",
    "tests/explore/test_filters_and_links.py",
    "tests/explore/test_appearance.py",
    "tests/conformance/test_sources_agree.py",
    "tests/conformance/test_methods.py",
    "tests/interface/test_notebook.py",
    "tests/conformance/test_sql_against_duckdb.py",
    "tests/unit/test_estimate.py",
    "tests/explore/test_gestures.py",
    "tests/property/test_encode_properties.py",
    "tests/interface/test_cli.py",
    "tests/explore/test_panels.py",
    "tests/curate/test_recorded_run.py",
    "tests/unit/test_sql.py",
    "audit, mixture with delta: half the noise",
    "audit, mixture: pairs chosen by exact argmax",
    "tests/security/test_contributions.py",
    "tests/explore/test_serving.py",
    "tests/interface/test_demo.py",
    "bench/tests/test_accuracy.py",
    "tests/statistical/test_guaranteed.py",
    "tests/interface/test_site.py",
    "tests/explore/test_arrangement.py",
    "audit, hdpview: both halves with one key",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a file, or of all files that ask one server, so that what they share is
    made once. Tests that name a group of their own keep it.

    It comes first, since pytest-xdist reads the groups in a hook of the same name.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            file = item.path.relative_to(item.config.rootpath).as_posix()
            group = "postgres-server" if file.startswith("tests/postgres/") else file
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    name = marker.args[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
