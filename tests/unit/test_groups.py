"""Who runs which tests: under `make test` one worker runs all tests of a file."""

from __future__ import annotations

import pytest


def test_groups_reach_the_scheduler(request: pytest.FixtureRequest) -> None:
    """pytest-xdist ends the name of a test with its group, once it has seen it. Otherwise every worker would
    start Spark, PostgreSQL and each browser for itself.
    """
    marker = request.node.get_closest_marker("xdist_group")
    assert marker.args == ("tests/unit/test_groups.py",)
    if request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith("@tests/unit/test_groups.py")
