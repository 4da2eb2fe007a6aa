"""Loaders in the workers of Ray Train: ``ringfeed.ray.open(path, ...)`` inside the function that a trainer runs.

Each worker takes its part by its rank, which Ray Train's context says to every kind of trainer. A state goes into a
checkpoint of Ray's as plain data, and serves any number of workers::

    def train(config):
        loader = ringfeed.ray.open("photos/train", fields=..., batch_size=64, shuffle=42)
        checkpoint = ray.train.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                loader.load_state_dict(json.loads(Path(folder, "loader.json").read_text()))
        for image, label in loader.torch():
            ...

The batches are the loader's own memory: give ``loader`` to no function that copies to a device without waiting for it,
such as ``ray.train.torch.prepare_data_loader``.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from . import _loader
from ._loader import Loader, Settings


def shard() -> tuple[int, int]:
    """This worker's rank, and how many workers there are."""
    context = importlib.import_module("ray.train").get_context()
    return int(context.get_world_rank()), int(context.get_world_size())


def loader(config: Settings | str | os.PathLike[str] | None = None, /, **settings: Any) -> Loader:
    """A :class:`ringfeed.Loader` of this worker's part."""
    return Loader(config, shard=shard(), **settings)


def open(path: Any, /, **settings: Any) -> Loader:
    """What :func:`ringfeed.open` gives, of this worker's part."""
    return _loader.open(path, shard=shard(), **settings)
