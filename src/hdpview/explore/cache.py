"""Recent answers up to a total size; the least recently used are dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class LruCache(Generic[Kept]):
    """A thread-safe cache. most: maximum total size of all entries."""

    def __init__(self, most: int) -> None:
        self._most, self._total = most, 0
        self._kept: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Kept | None:
        """The entry of a key, which becomes the most recent one; None if there is none."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: Hashable, answer: Kept, size: int = 1) -> None:
        """Keep an answer, and drop the oldest ones if necessary."""
        with self._lock:
            self._total += size - self._kept.pop(key, (answer, 0))[1]
            self._kept[key] = answer, size
            while self._total > self._most:
                self._total -= self._kept.popitem(last=False)[1][1]
