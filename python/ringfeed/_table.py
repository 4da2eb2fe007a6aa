"""Tables in memory: those of pyarrow, pandas and polars, and Hugging Face data sets."""

from __future__ import annotations

import re
from typing import Any

from . import _ringfeed
from ._reader import NoTensors


class Table:
    """A table as the library sees it: its columns, in place.

    A table is any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, Arrow's interface between libraries. It
    may also be a Hugging Face data set, whose Arrow data is used, in its shuffled or selected order.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self.table = _hugging_face(given) if _is_hugging_face(given) else _taken(given, type(given).__name__)

    def default_fields(self) -> dict[str, Any]:
        """The default fields: all columns of numbers."""
        fields = self.table.fields()
        # The unnamed index of a pandas frame numbers its rows.
        data = [(name, kind) for name, kind in fields if not re.fullmatch(r"__index_level_\d+__", name)]
        numbers = {name: {"numbers": kind} for name, kind in data if kind not in ("text", "bytes", "other")}
        if not numbers:
            there = ", ".join(f"{name} ({kind})" for name, kind in fields)
            raise NoTensors(f"no column holds numbers alone: give the fields of the others in `fields`: {there}")
        return numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.given,)


def is_table(given: object) -> bool:
    """Whether this object is a table."""
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__") or _is_hugging_face(given)


def _is_hugging_face(given: object) -> bool:
    # Other kinds of data sets inherit parts of that module, too.
    return any(
        (kind.__module__, kind.__name__) == ("datasets.arrow_dataset", "Dataset") for kind in type(given).__mro__
    )


def advice_for(given: object) -> str | None:
    """What to do with an object that is no table, but can become one."""
    kinds = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(given).__mro__}
    if ("pyarrow", "Dataset") in kinds:
        return "to_table() makes a table of it"
    hints = {
        "LazyFrame": "collect() it first",
        "DatasetDict": 'take one of its splits, such as given["train"]',
        "IterableDataset": "give it to from_iterable",
        "Series": "a column is no table: to_frame() makes one of it",
        "dict": "pandas.DataFrame(given) or pyarrow.table(given) makes a table of columns",
    }
    names = [name for _, name in kinds]
    return next((hint for of, hint in hints.items() if of in names), None)


def _hugging_face(given: Any) -> _ringfeed.Table:
    name = type(given).__name__
    table = _taken(given.data.table, name)
    # A data set that was shuffled or filtered keeps its table, and has a column that lists which of its records it
    # contains.
    places = given._indices
    return table if places is None else table.pick(_taken(places.table, name))


def _taken(given: Any, name: str) -> _ringfeed.Table:
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "to_frame"):
        return _ringfeed.Table.from_stream(given.__arrow_c_stream__(), name)
    if hasattr(given, "__arrow_c_array__"):
        schema, array = given.__arrow_c_array__()
        return _ringfeed.Table.from_array(schema, array, name)
    hint = advice_for(given)
    raise TypeError(
        "a table is one of pyarrow, pandas, polars or others that have __arrow_c_stream__, or a Dataset of Hugging "
        f"Face, and {type(given).__name__} is none of them{': ' + hint if hint else ''}"
    )
