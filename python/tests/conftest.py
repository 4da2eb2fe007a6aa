"""What several tests need."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import ringfeed


@pytest.fixture
def numbers(tmp_path: Path) -> Callable[..., ringfeed.Loader]:
    """Makes loaders of ``x``, f32 [n, 2], and ``y``, i64 [n]: row ``i`` holds ``[i, -i]`` and ``i``."""

    def loader(rows: int = 100, **settings: object) -> ringfeed.Loader:
        x, y = tmp_path / f"x{rows}.npy", tmp_path / f"y{rows}.npy"
        index = np.arange(rows)
        if not y.exists():
            np.save(x, np.stack([index, -index], axis=1).astype(np.float32))
            np.save(y, index.astype(np.int64))
        sources = [
            {"format": "npy", "path": x, "fields": {"x": "array"}},
            {"format": "npy", "path": y, "fields": {"y": {"array": [], "role": "label"}}},
        ]
        return ringfeed.Loader({"sources": sources, "batch_size": 10, "workers": 2}, **settings)

    return loader


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Loaders of a test end with it."""
    yield
    gc.collect()
