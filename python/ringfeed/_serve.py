"""Single records in memory, processed by the fields and transforms of a loader."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _ringfeed
from ._loader import Settings, _text
from ._reader import _plain
from ._transform import Map
from .prepare import _array, _is_row, _record, _value


def serve(
    config: Settings | str | os.PathLike[str] | None = None,
    /,
    *,
    transform: Callable[..., Any] | Map | Sequence[Callable[..., Any] | Map] = (),
    **settings: Any,
) -> Served:
    """Turns single records in memory into tensors, by the settings of a validation loader, with the same bytes as that
    loader gives.

    ``config``, ``transform`` and ``**settings`` are those of :class:`Loader`. Used are ``fields``, ``prepared``,
    ``normalise``, ``transforms``, ``windows``, ``bucket`` and the memory budget; settings of the order and of batches
    are ignored. The data set is not needed::

        served = ringfeed.serve("valid.toml")  # or fields={"image": Image(224, 224)}, normalise={"image": "imagenet"}
        image = served.apply(image=request.body)["image"]  # f32 [3, 224, 224]

    Labels are left out, and so are transforms of labels. Random operations raise a :class:`ConfigError`, and so does
    everything that only the data can tell, such as names of categories that are not listed. Lists of numbers need
    ``list``, ``ragged``, a ``max_len`` or a ``shape``, or a tensor that ``bucket`` or the transform ``pad`` pads. They
    are as long as in a batch of one sample; ragged ones have their offsets, 0 and their length.
    """
    if isinstance(config, (str, os.PathLike)):
        config = _ringfeed.load_settings(config)
    steps = [transform] if callable(transform) or isinstance(transform, Map) else transform
    maps = [step if isinstance(step, Map) else Map(None, step) for step in steps]
    return Served(_ringfeed.serve(_text({**(config or {}), **settings}), maps))


class Served:
    """Fields and transforms, applied to single records: see :func:`serve` and :meth:`Loader.serve`. Any number of
    threads may use it at the same time; images are decoded without the interpreter lock."""

    def __init__(self, served: _ringfeed.Served) -> None:
        self._served = served

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """Name and dtype of each tensor of a record."""
        return self._served.tensors()

    @property
    def field_names(self) -> list[str]:
        """The fields of a record that the tensors are made of."""
        return self._served.field_names()

    def apply(self, record: Any = None, /, **more: Any) -> dict[str, Any]:
        """The tensors of one record, by name, without a batch dimension. It is a dict or a row of pandas.

        Values are bytes of files (also if a field names a file), numbers, texts, arrays and ``None``, by the names of
        their fields. Fields that a record lacks are missing values. Returns NumPy arrays if NumPy is installed,
        otherwise memoryviews. What a loader would treat as a bad record raises an error of the same kind.
        """
        values = _values(record, more)
        return {name: _array(data, dtype, shape) for name, dtype, shape, data in self._served.apply(values)}

    def window(self) -> ServedWindow:
        """An empty window for the records of one series, if there are ``windows``. Each series needs its own window."""
        return ServedWindow(self._served.window())

    def __repr__(self) -> str:
        return f"Served({self.field_names!r})"


def _values(record: Any, more: Mapping[str, Any]) -> list[tuple[str, Any]]:
    given = {} if record is None else _record(record)
    if _is_row(record):  # pandas has NaN and others for missing values.
        given = {name: _value(value) for name, value in given.items()}
    named = {**given, **more}
    return [(name, _plain(value, name)) for name, value in named.items()]


class ServedWindow:
    """The last records of one series, with the tensors that the loader gives as the features of such a window.

    :meth:`Served.window` makes it.

    Push one record after another. After an error, the window is unchanged. As soon as the window is full, there is a
    window after each record. ``len(window)`` is its current number of records.
    """

    def __init__(self, window: _ringfeed.Window) -> None:
        self._window = window

    def push(self, record: Any = None, /, **more: Any) -> bool:
        """Adds a record, as for :meth:`Served.apply`. Returns whether the window is full."""
        return self._window.push(_values(record, more))

    def latest(self) -> dict[str, Any]:
        """The tensors of the latest window by name, with the oldest record first. Raises a :class:`~ringfeed.DataError`
        if the window is not full."""
        return {name: _array(data, dtype, shape) for name, dtype, shape, data in self._window.latest()}

    def clear(self) -> None:
        """Removes all records, before another series begins."""
        self._window.clear()

    def __len__(self) -> int:
        return len(self._window)

    def __repr__(self) -> str:
        return f"ServedWindow({len(self)} records, {'full' if self._window.is_full() else 'not full'})"
