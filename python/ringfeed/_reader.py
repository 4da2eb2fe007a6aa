"""The user's own data sets: objects with a length, whose records are read by index."""

from __future__ import annotations

import numbers
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class NoTensors(ValueError):
    """Without fields, records of this source become no tensors."""


class Source:
    """Such an object, as the library sees it.

    A record is a dict of values by name. It may also be a tuple of values or a single value; ``names`` then gives their
    names. Values are bytes (of a file, for ``Image`` and ``Array``), text, numbers, ``None`` for a missing value, and
    arrays or lists of numbers. Tensors have the type of these arrays and of NumPy's numbers unless a field asks for
    another: i64 and f64 of Python's own numbers, i64 of its truth values, u8 of those of NumPy and PyTorch.
    """

    def __init__(self, reader: Any, names: Sequence[str] | None = None) -> None:
        if not hasattr(reader, "__len__"):
            raise TypeError(
                f"a reader has a length, which {type(reader).__name__} has not: from_iterable takes what gives samples"
            )
        read = getattr(reader, "read", None) or getattr(reader, "__getitem__", None)
        if read is None:
            raise TypeError(f"a reader has read(i) or [i], and {type(reader).__name__} has neither")
        self.reader, self.names, self.read = reader, list(names) if names is not None else None, read
        self.name = type(reader).__name__
        self.fields: list[tuple[str, str, list[int]]] = []
        if len(reader):
            first = self.values(0)
            _check_names(first, self.names)
            if self.names is None:
                self.names = list(first)
            try:
                self.fields = [_field(name, value) for name, value in first.items()]
            except (OverflowError, TypeError, ValueError) as error:
                raise type(error)(f"record 0: {error}") from error.__cause__

    def __len__(self) -> int:
        return len(self.reader)

    def values(self, record: int) -> Mapping[str, Any]:
        """The record's values by name."""
        return _by_name(self.read(record), self.names)

    def default_fields(self) -> dict[str, Any]:
        """The default fields: all numbers."""
        fields: dict[str, Any] = {}
        for name, kind, shape in self.fields:
            if kind in ("text", "bytes", "other"):
                such_as = {"text": "Text(80) or Class()", "bytes": "Image(224, 224)"}.get(kind, "Numbers()")
                raise NoTensors(f"{name!r} holds {kind}: give its field in `fields`, such as {such_as}")
            fields[name] = {"numbers": kind, "shape": shape} if shape else {"numbers": kind}
        return fields

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self.reader, self.names)


def _check_names(first: Mapping[str, Any], names: Sequence[str] | None) -> None:
    """An error for ``names`` that records with names of their own do not have."""
    if names is not None and set(names) != set(first):
        raise ValueError(f"the records name their values {list(first)}, and not {list(names)}: leave out `names`")


def _by_name(record: Any, names: Sequence[str] | None) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    values = list(record) if isinstance(record, (tuple, list)) else [record]
    names = names or [f"field{number}" for number in range(len(values))]
    if len(names) != len(values):
        raise ValueError(f"there are names for {len(names)} values, {names}, and the record has {len(values)}")
    return dict(zip(names, values))


def read(source: Source, record: int) -> list[Any]:
    """The values of a record in the order of the fields."""
    values = source.values(record)
    return [_plain(values.get(name), name) for name, _, _ in source.fields]


# Marks a value that is not a single one.
_SEVERAL = object()


def _plain(value: Any, name: str) -> Any:
    """A value in a form that the compiled part knows: bytes, text, a number, `None`, or the element type, bytes and
    shape of an array."""
    single = _single(value)
    if single is _SEVERAL:
        return _array(value, name)
    if type(single) is int and not -(2**63) <= single < 2**64:
        raise OverflowError(f"{name!r}: {single} has more than 64 bits: give it as a float or as text")
    return single


def _single(value: Any) -> Any:
    if value is None or isinstance(value, (bytes, str, bool, int, float)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return _SEVERAL


# What to do with values that look like numbers, by how words of their type begin.
_INSTEAD = {
    "bfloat16": "NumPy has no bf16: return it as .float()",
    "complex": "return its real and imaginary part as two fields, or as an array of two numbers",
    "dict": "return its entries as fields of the record",
    "date": "return a number, such as .timestamp(), or text",
    "Timestamp": "return a number, such as .timestamp(), or text",
}


def _instead(*words: object) -> str:
    found = next(
        (advice for word, advice in _INSTEAD.items() if any(re.search(rf"\b{word}", str(each)) for each in words)), None
    )
    return "" if found is None else f": {found}"


def _numbers(value: Any, name: str) -> tuple[Any, str]:
    """An array, and the element type for its numbers."""
    import numpy

    if numpy.ma.is_masked(value):
        raise ValueError(f"{name!r}: an array with masked numbers, and what stands behind the mask is none: fill it")
    kind = type(value).__name__
    if getattr(value, "requires_grad", False):
        raise TypeError(f"{name!r}: a tensor that requires a gradient is no data: return it as .detach()")
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        advice = _instead(getattr(value, "dtype", ""))
        raise TypeError(f"{name!r}: expected numbers, found a {kind} that NumPy refuses ({error}){advice}") from error
    if array.dtype == bool:
        array = array.astype(numpy.uint8)
    if array.dtype.kind not in "uif" or array.dtype.itemsize > 8:
        raise TypeError(f"{name!r}: expected numbers, found {kind} of {array.dtype}{_instead(array.dtype, kind)}")
    return array, f"{array.dtype.kind}{8 * array.dtype.itemsize}"


def _array(value: Any, name: str) -> tuple[str, memoryview, list[int]]:
    import numpy

    array, dtype = _numbers(value, name)
    whole = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return dtype, whole.reshape(-1).view(numpy.uint8).data, list(array.shape)


def _field(name: str, value: Any) -> tuple[str, str, list[int]]:
    single = _plain(value, name)
    # A number of NumPy has the type that it has in an array, as far as records can hold it.
    sized = getattr(value, "dtype", None)
    if isinstance(single, tuple) or isinstance(single, int | float) and getattr(sized, "itemsize", 9) <= 8:
        array, dtype = _numbers(value, name)
        return name, dtype, list(array.shape)
    for kind, of in (("bytes", bytes), ("text", str), ("i64", int), ("f64", float)):
        if isinstance(single, of):
            return name, kind, []
    return name, "other", []


class Samples:
    """An iterable of samples, or a function that returns one. The tensors are those of the first sample."""

    def __init__(self, iterable: Any, names: Sequence[str] | None = None) -> None:
        self.iterable, self.names = iterable, list(names) if names is not None else None
        self._first: list[Any] = []
        # The rest of an iterator, until it is taken: by one thread, of any that may ask at the same time.
        self._left: list[Iterator[Any]] = []
        self.repeatable = callable(iterable) or iter(iterable) is not iterable
        source = iter(iterable() if callable(iterable) else iterable)
        for first in source:
            self._first = [first]
            break
        else:
            raise ValueError("there is no first sample to look at: the iterator is empty")
        if not self.repeatable:
            self._left = [source]
        # The iterator that gave the first sample, as long as somebody else has it.
        self._seen: Callable[[], Any] = _weakly(source)
        named = self._named(self._first[0])
        _check_names(named, self.names)
        self.names = list(named)
        arrays = {name: _numbers(value, name) for name, value in named.items()}
        self.fields = [(name, dtype, list(array.shape)) for name, (array, dtype) in arrays.items()]

    def _named(self, sample: Any) -> Mapping[str, Any]:
        return _by_name(sample, self.names)

    def samples(self) -> Iterator[Any]:
        """The samples from the first one on, each as a list in the order of the tensors."""
        if self.repeatable:
            source = iter(self.iterable() if callable(self.iterable) else self.iterable)
            seen, self._seen = self._seen(), lambda: None
            again = self._begins_again(source) if seen is source else source
            if again is None:
                self._seen = lambda: source
                whose = "the function returns" if callable(self.iterable) else "the iterable gives"
                raise RuntimeError(f"{whose} the same iterator each time, which gives its samples once: make a new one")
            source = again
        else:
            try:
                source = _behind(self._first[0], self._left.pop())
            except IndexError:
                message = "an iterator gives its samples once: give a function that makes it anew"
                raise RuntimeError(message) from None
        return _Ordered(source, self)

    def _begins_again(self, source: Iterator[Any]) -> Iterator[Any] | None:
        """The same samples, if an iterator that gave the first one gives it again."""
        import numpy

        # Those of the language and its libraries never do, even if two samples are equal.
        if type(source).__module__ in ("builtins", "itertools"):
            return None
        try:
            sample = next(source)
        except StopIteration:
            return None
        first, found = ({k: _numbers(v, k)[0] for k, v in self._named(s).items()} for s in (self._first[0], sample))
        alike = first.keys() == found.keys() and all(
            numpy.array_equal(first[name], found[name], equal_nan=first[name].dtype.kind in "fc") for name in first
        )
        return _behind(sample, source) if alike else None

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.repeatable:
            raise TypeError("an iterator can't be sent elsewhere: give a function that makes it anew")
        return Samples, (self.iterable, self.names)


def _behind(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    """Not ``itertools.chain``, which would ask ``rest`` for its iterator: some begin again then."""
    yield first
    while True:
        try:
            sample = next(rest)
        except StopIteration:
            return
        yield sample


def _weakly(iterator: Iterator[Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(iterator)
    except TypeError:
        return lambda: iterator


class _Ordered:
    """An iterator that ends if it raises an exception. If only a sample differs from the others, just that sample is
    bad."""

    def __init__(self, source: Iterator[Any], samples: Samples) -> None:
        self.source, self.samples = source, samples

    def __iter__(self) -> _Ordered:
        return self

    def __next__(self) -> tuple[Samples, Any]:
        return self.samples, next(self.source)


def arrays(sample: tuple[Samples, Any]) -> list[tuple[str, memoryview, list[int]]]:
    """The parts of a sample in the order of the tensors."""
    samples, values = sample
    named = samples._named(values)
    assert samples.names is not None
    missing = [name for name in samples.names if name not in named]
    if missing:
        raise KeyError(f"the sample has no {missing[0]!r}, which the first one has")
    return [_array(named[name], name) for name in samples.names]
