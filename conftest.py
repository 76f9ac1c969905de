"""Set-up of all test suites: the cache of compiled kernels, the examples of property tests, and the
distribution of tests to workers.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Beside the sources, so that other checkouts do not share this cache.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".cache" / "numba"))

# Properties are checked on the same examples each time, so that a failure is due to a change; `make hunt`
# tries new ones. Time limits are off, because the load of the machine must not decide.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _ANY_SPEED, derandomize=True)
settings.register_profile("hunt", _ANY_SPEED, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Groups that start first, the longest ones, so that all workers end together; short groups follow. `make
# test` compiles the kernels that builds need before any test starts.
_FIRST = (
    "spark",
    "audit, mixture from a file: one row more of a person than noise is for",
    "spark cluster",
    "tests/statistical/test_decisions.py",
    "bench/tests/test_coverage.py",
    "bench/tests/test_hdmm.py",
    "tests/explore/test_charts_and_panels.py",
    "bench/tests/test_audit.py",
    "tests/explore/test_published.py",
    "tests/curate/test_page.py",
    "tests/explore/test_saved.py",
    "tests/interface/test_readme.py",
    "install",
    "audit, mixture: sizes of errors chosen by exact argmax",
    "tests/unit/test_predicates.py",
    "postgres-server",
    "tests/explore/test_gestures.py",
    "tests/explore/test_nothing_false.py",
    "tests/property/test_coherence.py",
    "tests/conformance/test_sources_agree.py",
    "tests/conformance/test_sql_against_duckdb.py",
    "tests/security/test_resume.py",
    "tests/security/test_replay.py",
    "bench/tests/test_ripost.py",
    "bench/tests/test_accuracy.py",
    "bench/tests/test_fuzz.py",
    "tests/unit/test_estimate.py",
    "tests/conformance/test_methods.py",
    "tests/property/test_encode_properties.py",
    "tests/property/test_errors.py",
    "tests/interface/test_cli.py",
    "tests/curate/test_recorded_run.py",
    "tests/unit/test_sql.py",
    "audit, mixture with delta: half the noise",
    "tests/security/test_contributions.py",
    "tests/interface/test_demo.py",
    "tests/statistical/test_guaranteed.py",
    "tests/interface/test_site.py",
    "audit, hdpview: both halves with one key",
)


# Fixtures that stand for other processes: a browser, a cluster, a server with clients.
_OTHER_PROCESSES = {"browser", "spark", "cluster", "postgres_url", "served", "guarded", "gateway", "explorer"}


# Tests that start such processes themselves.
_START_PROCESSES = (
    "tests/explore/test_child.py",
    "tests/explore/test_serving.py",
    "tests/postgres/",
    "tests/spark/",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a file, or of all files that use one server, so that shared fixtures are
    made once. Tests that name their own group keep it.

    Tests with browsers, clusters and servers in other processes are tried a second time. Where other tests
    keep all cores busy, one of a dozen processes may end or answer too late, which says nothing about this
    package. What fails twice fails; what passes the second time is listed in the summary (`-rR`).

    This hook runs first, because pytest-xdist reads the groups in a hook of the same name.
    """
    for item in items:
        file = item.path.relative_to(item.config.rootpath).as_posix()
        if item.get_closest_marker("xdist_group") is None:
            group = "postgres-server" if file.startswith("tests/postgres/") else file
            item.add_marker(pytest.mark.xdist_group(group))
        if file.startswith(_START_PROCESSES) or _OTHER_PROCESSES & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.flaky(reruns=1))
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    name = marker.args[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
