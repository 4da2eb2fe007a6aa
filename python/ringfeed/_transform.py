"""The user's own functions of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import unsupported
from .fields import element_type

if TYPE_CHECKING:
    import numpy

# NumPy's names of element types; it has no bf16 of its own.
_KINDS = {"u": "uint", "i": "int", "f": "float"}


class Map:
    """A function of a sample: ``fn(sample)`` or ``fn(sample, rng)``.

    ``sample`` is a dict of NumPy arrays by name. The arrays are copies that the function may change. Lists, texts,
    sounds and images without a size are as long as the longest of their batch: take ``s["x"][s["x_mask"] != 0]``, or
    other samples of the batch change the result. ``rng`` is a ``numpy.random.Generator`` whose numbers depend only on
    seed, epoch and sample: they are the same for any number of workers, ranks or restarts. If an epoch draws a sample
    several times, each draw has its own generator.

    With a ``name``, the function returns that tensor, with ``shape`` (that of one sample), ``dtype`` (by default f32)
    and ``role`` (by default feature); without a ``shape``, with those of an existing tensor of that name. Without a
    name, it changes the arrays in place, or returns a dict of the arrays that it replaces, with unchanged shapes and
    types. An exception makes the sample a bad record, and so does a number
    outside the range of the tensor's type. An exception that is not an ``Exception``, such as ``KeyboardInterrupt``, is
    raised by the loop unchanged, and no sample counts as bad. With ``shield=True``, the loop's next batch is then the
    one that raised it. Otherwise the epoch ends, and the loader's state is that of the last batch.
    """

    def __init__(
        self,
        name: str | None,
        fn: Callable[..., Any] | None,
        *,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        role: str | None = None,
        remove: str | None = None,
        keeps: Sequence[str] | None = None,
    ) -> None:
        if shape is None and (dtype is not None or role is not None):
            raise TypeError(
                "dtype and role are those of a new tensor, which has a `shape`: without one, a function keeps those of "
                "the existing tensor; `cast` changes them"
            )
        self.name, self.fn, self.role, self.remove = name, fn, role or "feature", remove
        # Fields of a record by which it is selected.
        self.keeps = None if keeps is None else list(keeps)
        self.dtype = element_type(dtype or "f32")
        self.shape = None if shape is None else [int(dim) for dim in shape]
        if remove is None and not callable(fn):
            raise TypeError(f"a transform is a function of a sample, and not {fn!r}")
        self.takes_rng, self.rng_by_name = (False, False) if fn is None else _takes_rng(fn)

    def __repr__(self) -> str:
        return f"Map({self.name!r}, {self.fn!r})"


def _takes_rng(fn: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether a function takes a generator, and whether by the name ``rng``."""
    import inspect

    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return False, False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in positional and p.default is p.empty]
    by_name = any(p.name == "rng" and p.kind is not p.POSITIONAL_ONLY for p in parameters)
    return len(required) >= 2 or by_name, by_name


def _dtype(name: str) -> Any:
    import numpy

    if name != "bf16":
        return numpy.dtype(_KINDS[name[0]] + name[1:])
    try:
        import ml_dtypes
    except ImportError as error:
        raise unsupported("NumPy has no bf16: install ml_dtypes, or cast the tensor to f32") from error
    return numpy.dtype(ml_dtypes.bfloat16)


def call(
    item: Map,
    sample: Mapping[str, tuple[str, list[int], bytearray]],
    wanted: Sequence[tuple[str, str, list[int]]],
    key: tuple[int, int],
) -> list[memoryview]:
    """Calls a function, and returns the bytes of its result."""
    import numpy

    arrays = {name: _array(*parts) for name, parts in sample.items()}
    assert item.fn is not None
    if item.takes_rng:
        made = item.fn(arrays, rng=generator(key)) if item.rng_by_name else item.fn(arrays, generator(key))
    else:
        made = item.fn(arrays)
    if item.name is not None:
        arrays = {item.name: made}
    else:
        # The function may have added to its argument, too.
        if made is not None:
            if not isinstance(made, Mapping):
                raise TypeError(f"expected a dict of arrays by name, or None, found {type(made).__name__}")
            arrays |= made
        if unknown := arrays.keys() - sample.keys():
            raise KeyError(f"there is no tensor {min(unknown)!r} to be replaced among {sorted(sample)}; map() adds one")
    for name, _, _ in wanted:
        if numpy.ma.is_masked(arrays[name]):
            raise ValueError(f"{name}: an array with masked numbers, and what stands behind the mask is none: fill it")
    return [_bytes(numpy.asarray(arrays[name]), name, _dtype(dtype), shape) for name, dtype, shape in wanted]


def generator(key: tuple[int, int]) -> numpy.random.Generator:
    """A generator that depends only on this key."""
    import numpy

    return numpy.random.Generator(numpy.random.Philox(key=numpy.array(key, dtype=numpy.uint64)))


def _array(dtype: str, shape: list[int], data: bytearray) -> Any:
    import numpy

    return numpy.frombuffer(data, dtype=_dtype(dtype)).reshape(shape)


def _bytes(made: Any, name: str, dtype: Any, shape: list[int]) -> memoryview:
    import numpy

    if list(made.shape) != shape:
        raise ValueError(f"{name}: expected an array of shape {shape}, found {list(made.shape)}")
    if made.dtype != dtype and not numpy.can_cast(made.dtype, dtype, "same_kind"):
        raise TypeError(f"{name}: expected {dtype}, found {made.dtype}, which would lose more than digits; convert it")
    with numpy.errstate(over="ignore"):
        whole = numpy.ascontiguousarray(made, dtype=dtype)
    if not numpy.can_cast(made.dtype, dtype, "safe"):
        _check_range(made, whole, name)
    return whole.reshape(-1).view(numpy.uint8).data


def _check_range(made: Any, whole: Any, name: str) -> None:
    """Checks that whole numbers stay the same in another type, and finite numbers finite."""
    import numpy

    if whole.dtype.kind in "iu":
        bounds = numpy.iinfo(whole.dtype)
        # As Python integers, because NumPy would convert two of its types to a third one to compare them.
        ends = [made.min(), made.max()] if made.size else []
        lost = [end for end in ends if not bounds.min <= int(end) <= bounds.max]
    else:
        lost = made[numpy.isfinite(made) & ~numpy.isfinite(whole).reshape(made.shape)].reshape(-1).tolist()
    if lost:
        raise OverflowError(f"{name}: {lost[0]} is beyond what {whole.dtype} holds; clip it, or give another dtype")
