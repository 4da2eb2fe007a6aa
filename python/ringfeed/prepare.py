"""Preprocessing of tables that is fitted once, and is then the same in training and in production::

    from ringfeed.prepare import Prepared, Recipe, category, date, number

    recipe = Recipe(age=number(impute="median", mask=True, scale="standardise"), city=category(unknown=True))
    prepared = recipe.fit(ringfeed.open("train.csv", split={"train": 0.8, "validation": 0.2, "part": "train"}))
    prepared.save("prepared.json")
    train = ringfeed.open("train.csv", prepared=prepared, fields={"price": Numbers("f32")})

    prepared = Prepared.load("prepared.json")  # in the server, without the data
    row = prepared.apply({"age": None, "city": "Oslo"})  # {"features": f32 [2], "categories": i64 [1]}

The library and the command can read files that this module saved, and this module can read theirs.
"""

from __future__ import annotations

import datetime
import functools
import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _ringfeed
from ._errors import ConfigError, DataError, make
from ._loader import Loader
from ._transform import _dtype

__all__ = ["Prepared", "PreparedWindow", "Recipe", "RecipeFit", "category", "date", "hashed", "number"]

Column = dict[str, Any]
Impute = Literal["mean", "median", "most_frequent"] | float | str
Scale = Literal["standardise", "robust", "min_max", "quantile", "bins"] | Mapping[str, Any]


def _column(kind: str, **options: Any) -> Column:
    return {kind: {name: value for name, value in options.items() if value is not None and value is not False}}


def number(
    *,
    impute: Impute | None = None,
    mask: bool = False,
    clip: tuple[float, float] | None = None,
    log1p: bool = False,
    scale: Scale | None = None,
) -> Column:
    """A column of numbers: one feature. ``mask`` adds a second one, which is 1 if the value was missing.

    The steps run in this order, whatever the order of the arguments: ``impute`` replaces a missing value, ``clip``
    limits the value, ``log1p`` takes the logarithm of one plus the value, ``scale`` maps it to a range. Scales are
    ``"standardise"`` (mean 0, deviation 1), ``"robust"``, ``"min_max"`` or ``{"min_max": {"low": -1, "high": 1}}``,
    ``"quantile"``, ``"bins"`` or ``{"bins": {"count": 10}}`` (the number of the bin, of this many bins with equally
    many numbers).
    """
    return _column("number", impute=impute, mask=mask, clip=clip, log1p=log1p, scale=scale)


def category(
    *,
    unknown: bool = False,
    impute: str | Mapping[str, str] | None = None,
    mask: bool = False,
    one_hot: bool = False,
    by_frequency: bool = False,
    most: int | None = None,
    at_least: int | None = None,
) -> Column:
    """A column of names: one code per name, in the order of the sorted names, or features with a single 1
    (``one_hot``). Whole numbers are sorted as text, too: 10, 2, 9.

    ``unknown``: names that training has not seen get a separate code; without it, they are errors. ``most``,
    ``at_least``: the number of names that get a code, and how often a name must occur. ``impute``: a name, or
    ``"most_frequent"``; write a name that equals a keyword of these recipes as ``{"text": "most_frequent"}``.
    """
    return _column(
        "category",
        unknown=unknown,
        impute=impute,
        mask=mask,
        one_hot=one_hot,
        by_frequency=by_frequency,
        most=most,
        at_least=at_least,
    )


def hashed(buckets: int, *, mask: bool = False) -> Column:
    """A column with too many names to list: a hash turns each name into one of ``buckets`` codes."""
    return _column("hash", buckets=buckets, mask=mask)


def date(
    *,
    parts: Sequence[str] | None = None,
    cyclic: Sequence[str] | None = None,
    impute: str | None = None,
    mask: bool = False,
    format: str | None = None,
    unit: str | None = None,
    scale: Scale | None = None,
) -> Column:
    """A column of dates or times: ``parts`` as numbers, ``cyclic`` parts as sine and cosine.

    Parts are ``"year"``, ``"month"``, ``"day"``, ``"weekday"``, ``"day_of_year"``, ``"hour"``, ``"minute"``,
    ``"second"`` and so on. Those of a time with a zone are in UTC; a time without one keeps its own hour. ``format``:
    the format of dates that are not in ISO 8601, of ``%Y``, ``%m``, ``%d``, ``%H``, ``%M``, ``%S``, ``%f`` and ``%z``
    (no other codes of ``strptime``). ``unit``: the unit of dates that are numbers.
    """
    return _column("date", parts=parts, cyclic=cyclic, impute=impute, mask=mask, format=format, unit=unit, scale=scale)


class Recipe:
    """How to process each column, before the data is read.

    Give columns as keywords, or as a mapping if their names are not valid Python names. ``dtype``: ``"f32"`` or
    ``"f64"``, the element type of the features. A mistake raises a :class:`~ringfeed.ConfigError` that names the
    column.

    Three steps run before the columns are processed. ``join`` adds columns from small tables to every record, by a key
    (``{"cities": {"table": "cities.csv", "on": "city", "unknown": True}}`` gives ``cities.people`` and so on).
    ``derive`` computes columns from others (``{"per_room": {"ratio": ["price", "rooms"]}}``): ``sum``, ``product``,
    ``smallest``, ``largest`` and ``pair`` of two or more, and ``difference``, ``ratio``, ``log_ratio``, ``less``,
    ``less_or_equal``, ``equal``, ``same`` and ``days`` of two. ``filter`` keeps only records that meet a condition
    (``"price > 0 and city != missing"``).

    ``windows`` makes samples of consecutive records, for forecasting
    (``{"length": 48, "horizon": 12, "series": "sensor", "part": [0, 0.8]}``). A loader with the fitted recipe makes
    them, and so does :meth:`Prepared.window`.
    """

    def __init__(
        self,
        columns: Mapping[str, Column] | None = None,
        /,
        *,
        dtype: str | None = None,
        join: Mapping[str, Mapping[str, Any]] | None = None,
        derive: Mapping[str, Mapping[str, Sequence[str | float]]] | None = None,
        filter: str | None = None,
        windows: Mapping[str, Any] | None = None,
        **more: Column,
    ) -> None:
        self._table: dict[str, Any] = {"columns": {**(columns or {}), **more}}
        steps = {"dtype": dtype, "join": join, "derive": derive, "filter": filter, "windows": windows}
        self._table |= {name: step for name, step in steps.items() if step is not None}
        self._table = json.loads(json.dumps(self._table, default=os.fspath))
        faults = _ringfeed.recipe_faults(json.dumps(self._table))
        if faults:
            raise ConfigError("\n".join(faults))

    def settings(self) -> dict[str, Any]:
        """The table ``prepare`` in settings."""
        return json.loads(json.dumps(self._table))  # type: ignore[no-any-return]

    def fit(self, rows: Loader) -> Prepared:
        """Reads the samples of ``rows`` once and counts the statistics that the recipe needs. If ``rows`` has
        ``split``, ``folds`` or a shard, only its part is read."""
        return Prepared(rows._fit(json.dumps(self._table)))

    def __repr__(self) -> str:
        return f"Recipe({self._table['columns']!r})"


class RecipeFit:
    """The counts of a recipe before they become a :class:`Prepared`, if each of several processes reads a part of the
    data::

        fit = RecipeFit(recipe)
        fit.observe_all(ringfeed.open("train.csv", shard="auto"))
        torch.distributed.all_gather_object(fits, fit)  # or save it to a file, and load it elsewhere
        whole = RecipeFit(recipe)
        for part in fits:
            whole.merge(part)
        prepared = whole.finish()

    The result is the same as that of one process that reads all of the data.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._counted = _ringfeed.Counted(json.dumps(recipe.settings()))

    def observe_all(self, rows: Loader) -> None:
        """Counts the samples of ``rows``, each once, like :meth:`Recipe.fit`. If that fails, nothing is counted."""
        rows._count(self._counted)

    def merge(self, other: RecipeFit) -> None:
        """Adds the counts of ``other``, which must have the same recipe."""
        self._counted.merge(other._counted)

    @property
    def records(self) -> int:
        """How many records were counted."""
        return self._counted.records()

    def finish(self) -> Prepared:
        """The fitted recipe, by everything that was counted."""
        return Prepared(self._counted.finish())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> RecipeFit:
        """Reads a file that :meth:`save` or the library wrote."""
        return _counted_by(_ringfeed.Counted.load(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one JSON file, completely or not at all."""
        self._counted.save(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _counted_of, (self._counted.to_json(),)

    def __repr__(self) -> str:
        return f"RecipeFit({self.records} records counted)"


def _counted_by(counted: _ringfeed.Counted) -> RecipeFit:
    fit = RecipeFit.__new__(RecipeFit)
    fit._counted = counted
    return fit


def _counted_of(text: str) -> RecipeFit:
    return _counted_by(_ringfeed.Counted.from_json(text))


class Prepared:
    """A fitted recipe: give it to a loader as ``prepared=``, and apply it to single records. Any number of threads may
    use it at the same time."""

    def __init__(self, fitted: _ringfeed.Fitted) -> None:
        self._fitted = fitted
        self._tensors: list[dict[str, Any]] = fitted.tensors()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Prepared:
        """Reads a file that :meth:`save`, the library or ``ringfeed fit`` wrote."""
        return Prepared(_ringfeed.Fitted.load(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one JSON file, completely or not at all."""
        self._fitted.save(path)

    def settings(self) -> dict[str, Any]:
        """The content of its file."""
        return json.loads(self._fitted.to_json())  # type: ignore[no-any-return]

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """Name, dtype and shape of each tensor of a record."""
        return [dict(tensor) for tensor in self._tensors]

    @property
    def field_names(self) -> list[str]:
        """The fields of a record that it needs: the columns without those that are joined or derived."""
        return self._fitted.field_names()

    @property
    def feature_names(self) -> list[str]:
        """What each number of ``features`` is."""
        return self._fitted.feature_names()

    @property
    def code_counts(self) -> dict[str, int]:
        """For each column of ``categories``, its number of codes: the rows that an embedding needs."""
        return dict(self._fitted.code_counts())

    @property
    def records(self) -> int:
        """The number of records that it was fitted to."""
        return self._fitted.records()

    def apply(self, record: Any) -> dict[str, Any]:
        """The tensors of one record by name, or of several as tensors with one row each, with the same bytes as in
        training.

        A record is a dict of values by name or a row of pandas (``df.iloc[0]``); several are an iterable of those, or a
        table of pandas, polars or pyarrow.
        Values are numbers, texts, dates (also those of NumPy and pandas), ``None`` and NaN. Columns that a record lacks
        are missing values; other keys are ignored. Returns NumPy arrays if NumPy is installed, otherwise memoryviews.
        What training would treat as a bad record raises a :class:`~ringfeed.DataError` with record and column.
        """
        several = _several(record)
        records = [_text(each, number) for number, each in enumerate([record] if several is None else several)]
        try:
            made = self._fitted.apply_json(records)
        except DataError as error:
            raise _without_byte(error) from None
        return self._arrays(made, None if several is None else len(records))

    def apply_json(self, record: str) -> dict[str, Any]:
        """Like :meth:`apply`, for a JSON text."""
        return self._arrays(self._fitted.apply_json([record]), None)

    def apply_csv(self, header: str, line: str | Iterable[str]) -> dict[str, Any]:
        """Like :meth:`apply`, for a line of CSV, or for several, whose columns ``header`` names. A field is
        missing if it is a missing value of CSV files by default, whatever ``missing_tokens`` the recipe was fitted
        with."""
        if isinstance(line, str):
            return self._arrays(self._fitted.apply_csv(header, [line]), None)
        lines = list(line)
        return self._arrays(self._fitted.apply_csv(header, lines), len(lines))

    def window(self) -> PreparedWindow:
        """An empty window for the records of one series, if the recipe has ``windows``. Each series needs its own
        window."""
        return PreparedWindow(self._fitted.window(), self._arrays)

    def _arrays(self, written: list[bytes], records: int | None) -> dict[str, Any]:
        found = {}
        for tensor, written_bytes in zip(self._tensors, written):
            shape = [*([] if records is None else [records]), *tensor["shape"]]
            found[tensor["name"]] = _array(bytearray(written_bytes), tensor["dtype"], shape)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prepared) and self._fitted == other._fitted

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_json, (self._fitted.to_json(),)

    def __repr__(self) -> str:
        return f"Prepared({self._fitted.column_names()!r}, fitted to {self.records} records)"


class PreparedWindow:
    """The last records of one series, prepared like the features of such a window in training. See
    :meth:`Prepared.window`.

    Push one record after another. After an error, the window is unchanged. As soon as the window is full, there is a
    window after each record. ``len(window)`` is its current number of records::

        window = prepared.window()  # one for each series
        for record in stream:
            if window.push(record):
                features = window.latest()["features"]  # f32 [length, features]
    """

    def __init__(
        self, window: _ringfeed.FittedWindow, arrays: Callable[[list[bytes], int | None], dict[str, Any]]
    ) -> None:
        self._window, self._arrays = window, arrays

    def push(self, record: Any) -> bool:
        """Adds one record, as for :meth:`Prepared.apply`. Returns whether the window is full."""
        try:
            return self._window.push_json(_text(record))
        except DataError as error:
            raise _without_byte(error) from None

    def push_json(self, record: str) -> bool:
        """Like :meth:`push`, for a JSON text."""
        return self._window.push_json(record)

    def push_csv(self, header: str, line: str) -> bool:
        """Like :meth:`push`, for a line of CSV, as for :meth:`Prepared.apply_csv`."""
        return self._window.push_csv(header, line)

    def latest(self) -> dict[str, Any]:
        """The tensors of the latest window by name, with the oldest record first. Raises a :class:`~ringfeed.DataError`
        if the window is not full."""
        return self._arrays(self._window.latest(), self._window.length())

    def clear(self) -> None:
        """Removes all records, before another series begins."""
        self._window.clear()

    def __len__(self) -> int:
        return len(self._window)

    def __repr__(self) -> str:
        return f"PreparedWindow({len(self)} of {self._window.length()} records)"


def _of_json(text: str) -> Prepared:
    return Prepared(_ringfeed.Fitted.from_json(text))


# The formats of `struct` that a memoryview is cast to.
_FORMATS: dict[str, Any] = {
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "i16": "h",
    "u32": "I",
    "i32": "i",
    "u64": "Q",
    "i64": "q",
}
_FORMATS |= {"f16": "e", "bf16": "H", "f32": "f", "f64": "d"}


def _array(written: bytearray, dtype: str, shape: list[int]) -> Any:
    """An array that is writable."""
    if _has_numpy():
        import numpy

        return numpy.frombuffer(written, _dtype(dtype)).reshape(shape)
    return memoryview(written).cast(_FORMATS[dtype], shape)


@functools.cache
def _has_numpy() -> bool:
    return importlib.util.find_spec("numpy") is not None


def _several(given: Any) -> Iterable[Any] | None:
    """The records, if these are several."""
    if isinstance(given, Mapping) or _is_row(given):
        return None
    # Tables of pandas, polars and pyarrow.
    if getattr(given, "ndim", 0) == 2 and hasattr(given, "iloc"):
        return given.to_dict("records")  # type: ignore[no-any-return]
    for rows in ("to_dicts", "to_pylist"):
        if hasattr(given, "columns") and hasattr(given, rows):
            return getattr(given, rows)()  # type: ignore[no-any-return]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _no_record(given)
    return given


def _is_row(given: Any) -> bool:
    return getattr(given, "ndim", 0) == 1 and hasattr(given, "iloc")


def _record(given: Any) -> Mapping[str, Any]:
    """One record, also of a row of pandas."""
    record = given.to_dict() if _is_row(given) else given
    if not isinstance(record, Mapping) or _is_row(given) and not all(isinstance(name, str) for name in record):
        raise _no_record(given)
    return record


def _no_record(given: Any) -> TypeError:
    advice = "; of a table, give one row, such as df.iloc[0]" if hasattr(given, "columns") else ""
    return TypeError(f"a record is a dict of values by name, and not a {type(given).__name__}{advice}")


def _text(given: Any, number: int | None = None) -> str:
    record = {name: _value(value) for name, value in _record(given).items()}
    try:
        return json.dumps(record, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        infinite = [name for name, value in record.items() if _is_infinite(value)]
        if not infinite:  # It is in a list: the library says what it expects there.
            return json.dumps(record, default=_plain, ensure_ascii=False)
    message = f"expected a finite number, found {record[infinite[0]]}"
    where = "" if number is None else f"record {number}: "
    raise make(
        "data", f'{where}column "{infinite[0]}": {message}', message, None, number, None, None, infinite[0], None
    )


def _is_infinite(value: Any) -> bool:
    try:
        return math.isinf(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _without_byte(error: DataError) -> DataError:
    """The same error without the place in a text that the user has not written."""
    text = str(error).replace(f"byte {error.byte}: ", "", 1)
    place = error.path, error.record, error.line, error.member, error.column
    return make(error.kind, text, error.message, *place, None)  # type: ignore[return-value]


def _value(value: Any) -> Any:
    """``None`` for a missing value of pandas and NumPy."""
    missing = isinstance(value, float) and math.isnan(value) or type(value).__name__ in ("NaTType", "NAType")
    return None if missing else value


def _plain(value: Any) -> Any:
    """Dates, and NumPy numbers, as JSON values."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == "M":
        return _iso(value)
    # Durations of pandas have an `isoformat`, too, but they are not dates, and neither are NumPy's.
    if kind == "m" or hasattr(value, "total_seconds"):
        raise TypeError(f"{value!r} is a duration: give the number that training had in its place")
    if hasattr(value, "isoformat"):
        return _trimmed(_in_utc(value).isoformat())
    if hasattr(value, "item"):
        return _value(value.item())
    raise TypeError(f"a value of a record is a number, a text, a date or None, and {value!r} is none of them")


# ISO 8601 can't write days and times in units that are finer or coarser.
_UNITS = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s", "ps": "ns", "fs": "ns", "as": "ns"}


def _iso(moment: Any) -> str | None:
    """NumPy's ``datetime64`` as ISO 8601."""
    import numpy

    unit = numpy.datetime_data(moment.dtype)[0]
    if unit in _UNITS:
        moment = moment.astype(f"datetime64[{_UNITS[unit]}]")
    return None if numpy.isnat(moment) else _trimmed(str(numpy.datetime_as_string(moment)))


def _in_utc(moment: Any) -> Any:
    """A time with a zone as the same one without, as columns of Arrow and Parquet have it."""
    if getattr(moment, "tzinfo", None) is None or not hasattr(moment, "astimezone"):
        return moment
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _trimmed(moment: str) -> str:
    """Without the zeros at the end of a fraction, so that a moment has one name."""
    whole, _, fraction = moment.partition(".")
    if not fraction.isdigit():
        return moment
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
