"""Loaders in the workers of Ray Train: ``ringfeed.ray.open(path, ...)`` inside the function that a trainer runs.

Each worker takes the shard of its rank, which Ray Train's context gives for every kind of trainer. A state is plain
data, so it can be part of a Ray checkpoint, and it resumes any number of workers::

    import json
    from pathlib import Path

    import ray.train
    import ringfeed.ray

    def train(config):
        loader = ringfeed.ray.open("photos/train", fields=..., batch_size=64, shuffle=42)
        checkpoint = ray.train.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                loader.load_state_dict(json.loads(Path(folder, "loader.json").read_text()))
        for image, label in loader.torch():
            ...

The batches are the loader's own memory. So do not pass ``loader`` to a function that copies to a device asynchronously,
such as ``ray.train.torch.prepare_data_loader``.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from . import _loader
from ._loader import Loader, Settings


def shard() -> tuple[int, int]:
    """This worker's rank, and the number of workers."""
    context = importlib.import_module("ray.train").get_context()
    return int(context.get_world_rank()), int(context.get_world_size())


def loader(config: Settings | str | os.PathLike[str] | None = None, /, **settings: Any) -> Loader:
    """A :class:`ringfeed.Loader` of this worker's shard."""
    return Loader(config, shard=shard(), **settings)


def open(path: Any, /, **settings: Any) -> Loader:
    """Like :func:`ringfeed.open`, for this worker's shard."""
    return _loader.open(path, shard=shard(), **settings)
