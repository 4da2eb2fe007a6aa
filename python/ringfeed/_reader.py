"""Data sets of the user's own: objects with a length, whose records are read by their index."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any


class Source:
    """What the library sees of such an object.

    A record is a dict of values by name; or a tuple of them, or a single one, for which ``names`` has the names.
    Values are bytes (of a file, for ``Image`` and ``Array``), text, numbers, ``None`` for a missing one, and arrays
    or lists of numbers.
    """

    def __init__(self, reader: Any, names: Sequence[str] | None = None) -> None:
        if not hasattr(reader, "__len__"):
            raise TypeError(f"a reader has a length, which {type(reader).__name__} has not")
        read = getattr(reader, "read", None) or getattr(reader, "__getitem__", None)
        if read is None:
            raise TypeError(f"a reader has read(i) or [i], and {type(reader).__name__} has neither")
        self.reader, self.names, self.read = reader, list(names) if names is not None else None, read
        self.name = type(reader).__name__
        self.fields: list[tuple[str, str, list[int]]] = []
        if len(reader):
            first = self.values(0)
            if self.names is None:
                self.names = list(first)
            self.fields = [_field(name, value) for name, value in first.items()]

    def __len__(self) -> int:
        return len(self.reader)

    def values(self, record: int) -> Mapping[str, Any]:
        """The record's values by name."""
        found = self.read(record)
        if isinstance(found, Mapping):
            return found
        values = list(found) if isinstance(found, (tuple, list)) else [found]
        names = self.names or [f"field{number}" for number in range(len(values))]
        if len(names) != len(values):
            raise ValueError(f"there are names for {len(names)} values, {names}, and the record has {len(values)}")
        return dict(zip(names, values))

    def default_fields(self) -> dict[str, Any]:
        """What tensors are made of without being told: the numbers that there are."""
        fields: dict[str, Any] = {}
        for name, kind, shape in self.fields:
            if kind in ("text", "bytes", "other"):
                raise ValueError(f"{name!r} holds {kind}: say in `fields` what becomes of it, such as Image(224, 224)")
            fields[name] = {"numbers": kind, "shape": shape} if shape else {"numbers": kind}
        return fields

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self.reader, self.names)


def read(source: Source, record: int) -> list[Any]:
    """The values of a record in the order of the fields."""
    values = source.values(record)
    return [_plain(values.get(name)) for name, _, _ in source.fields]


def _plain(value: Any) -> Any:
    """A value that the compiled part knows: bytes, text, a number, `None`, or element type and bytes of an array."""
    if value is None or isinstance(value, (bytes, str, bool, int, float)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return _array(value)[:2]


def _array(value: Any) -> tuple[str, memoryview, list[int]]:
    import numpy

    array = numpy.asarray(value)
    if array.dtype == bool:
        array = array.astype(numpy.uint8)
    if array.dtype == numpy.uint64:
        array = array.astype(numpy.int64)
    if array.dtype.kind not in "uif" or array.dtype.itemsize > 8:
        raise TypeError(f"expected numbers, found {type(value).__name__} of {array.dtype}")
    whole = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    dtype = f"{array.dtype.kind}{8 * array.dtype.itemsize}"
    return dtype, whole.reshape(-1).view(numpy.uint8).data, list(array.shape)


def _field(name: str, value: Any) -> tuple[str, str, list[int]]:
    plain = _plain(value)
    if isinstance(plain, tuple):
        dtype, _, shape = _array(value)
        return name, dtype, shape
    for kind, of in (("bytes", bytes), ("text", str), ("i64", int), ("f64", float)):
        if isinstance(plain, of):
            return name, kind, []
    return name, "other", []
