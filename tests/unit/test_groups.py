"""Who runs which tests: under `make test` one worker runs all tests of a file."""

import re
from pathlib import Path


def test_groups_reach_the_scheduler(request):
    """pytest-xdist appends the group to a test's name; otherwise each worker would start every server."""
    marker = request.node.get_closest_marker("xdist_group")
    assert marker.args == ("tests/unit/test_groups.py",)
    if request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith("@tests/unit/test_groups.py")


def test_files_that_start_first_are_there():
    root = Path(__file__).parents[2]
    files = re.findall(r'"((?:bench/)?tests/\S+\.py)"', (root / "conftest.py").read_text("utf-8"))
    assert files
    assert [file for file in files if not (root / file).exists()] == []
