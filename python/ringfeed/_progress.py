"""Progress bars, by tqdm if it is installed."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

Told = Callable[[int, int, int | None], object]
OnProgress = Told | Literal["bar"] | None


def _tqdm() -> Any:
    try:
        return importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None


class Progress:
    """See :func:`progress`."""

    def __init__(self, loops: Iterable[Any], options: dict[str, Any]) -> None:
        self.loops, self.options = loops, options

    def __len__(self) -> int:
        return len(self.loops)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        tqdm = _tqdm()
        if tqdm is None:
            yield from self.loops
            return
        try:
            total = len(self)
        except TypeError:
            total = None
        stats = getattr(self.loops, "stats", None)
        with tqdm(**{"total": total, "unit": "batch", **self.options}) as bar:
            waited, since = _waited(stats), time.monotonic()
            shown = since
            for batch in self.loops:
                yield batch
                now = time.monotonic()
                if stats is not None and (now > shown + 1 or bar.n + 1 == total):
                    share = (_waited(stats) - waited) / max(now - since, 1e-9)
                    bar.set_postfix_str(f"waited {min(share, 1):.0%}", refresh=False)
                    shown = now
                bar.update()


def _waited(stats: Callable[[], dict[str, Any]] | None) -> float:
    return float(stats()["trainer"]["wait_seconds"]) if stats is not None else 0.0


def progress(loops: Iterable[Any], **options: Any) -> Progress:
    """Loops of a loader (or of ``loader.torch()`` and so on) with a progress bar: the number of batches delivered in
    the epoch, their rate, and the share of the time spent waiting for the loader. The bar is tqdm's, and ``options``
    are passed to it. Without tqdm, the loops are unchanged."""
    return Progress(loops, options)


def teller(on_progress: OnProgress) -> tuple[Told | None, Callable[[], None]]:
    """The function that is told of progress, and the one that ends it."""
    if on_progress != "bar":
        return on_progress, lambda: None
    tqdm = _tqdm()
    if tqdm is None:
        return None, lambda: None
    bar = tqdm(unit=" samples", unit_scale=True)

    def tell(samples: int, bad: int, total: int | None) -> None:
        bar.total = total
        bar.set_postfix_str(f"{bad} bad", refresh=False)
        bar.update(samples - bar.n)

    return tell, bar.close
