"""Recent answers, kept up to a number of bytes: those asked for longest ago go first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class Recent:
    """A cache of answers as bytes. For one thread: the server's event loop."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """The answer kept under a key, now the most recent; None if there is none."""
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, key: Hashable, answer: bytes) -> None:
        """Keep an answer, and let old ones go."""
        self._n_bytes += len(answer) - len(self._answers.pop(key, b""))
        self._answers[key] = answer
        while self._n_bytes > self._most_bytes:
            self._n_bytes -= len(self._answers.popitem(last=False)[1])
