"""The statistics of a run."""

from __future__ import annotations

from typing import Any

from ._ringfeed import Snapshot


class Stats(dict[str, Any]):
    """The statistics of a run: which threads worked, which waited, and for how long. ``later - earlier`` gives those of
    the time in between, ``print`` shows them as a table, and ``verdict()`` says in one sentence what limits the run.
    ``["verdict"]`` is the same for programs."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.data())
        self._snapshot = snapshot

    def __sub__(self, earlier: Stats) -> Stats:
        if not isinstance(earlier, Stats):
            return NotImplemented
        return Stats(self._snapshot.since(earlier._snapshot))

    def __str__(self) -> str:
        return str(self._snapshot)

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)

    def verdict(self) -> str:
        """What limited the run in this time and what to do about it."""
        return self._snapshot.verdict()
