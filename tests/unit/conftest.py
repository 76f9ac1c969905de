"""What tests of files and of reading begin with."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import a_view


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "v.pview"
    a_view().save(target)
    return target


@pytest.fixture
def private_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files of the embedded database go; nothing may be left there."""
    home = tmp_path / "temporary"
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    yield home
    assert list(home.iterdir()) == []
