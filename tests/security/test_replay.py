"""Only results of charged mechanisms reach a view: see `hdpview_bench.replay`."""

import pytest

from hdpview_bench import replay


@pytest.mark.parametrize("case", replay.cases(), ids=lambda case: case.name)
def test_the_view_is_a_function_of_what_mechanisms_returned(case):
    assert replay.problems_of(case) == []


@pytest.mark.parametrize("check", replay.CHECKS, ids=lambda check: check.__name__)
def test_each_part_of_a_build_keeps_its_promise(check):
    assert check() == []
