"""Recent answers, kept up to a total size: those asked for longest ago go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class LruCache(Generic[Kept]):
    """A cache that several threads may use. most: what the sizes of all that is kept may add up to."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._kept: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Kept | None:
        """What is kept under a key, now the most recent; None if there is nothing."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: Hashable, answer: Kept, size: int = 1) -> None:
        """Keep an answer, and let old ones go."""
        with self._lock:
            self._total += size - self._kept.pop(key, (answer, 0))[1]
            self._kept[key] = answer, size
            while self._total > self._most:
                self._total -= self._kept.popitem(last=False)[1][1]
