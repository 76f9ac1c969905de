"""Imported by every Python that starts with this folder on PYTHONPATH: its noise is the same in every run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from repeatable import repeatable_noise

_NOISE = repeatable_noise()
_NOISE.__enter__()
