"""What tests of files begin with."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored import a_view


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a small view."""
    target = tmp_path / "v.pview"
    a_view().save(target)
    return target
