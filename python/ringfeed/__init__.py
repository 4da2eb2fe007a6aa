"""Ringfeed: training data from files to your trainer.

Threads decode records straight into reused batch buffers, ahead of the trainer. The order depends only on seed and
epoch. NumPy, PyTorch and JAX use that memory directly, without a copy::

    import ringfeed
    from ringfeed import Class, Image

    fields = {"image": Image(224, 224), "label": Class()}
    train = ringfeed.open("photos/train", batch_size=64, shuffle=42, fields=fields)
    for epoch in range(90):
        for image, label in train.torch():  # or .numpy(), .jax(); image: f32 [64, 3, 224, 224], label: i64 [64]
            step(image, label)

:func:`open` makes a :class:`Loader` of a path, :class:`Loader` one of settings, :func:`from_table` one of a table in
memory, :func:`from_reader` one of your own data set, and :func:`mix` one of several paths. :func:`verify` lists every
bad sample of a data set, and :func:`inspect` describes the data at a path. :class:`Recipe` and :class:`Prepared` do the
preprocessing of tables: it is fitted once, and treats single records in production as it did in training. :func:`serve`
does the same for images and all other fields and transforms. ``device="cuda:0"`` gives tensors on a GPU, and
:mod:`ringfeed.ray` has loaders for the workers of Ray Train. ``python -m ringfeed`` is the command line tool.
"""

from collections.abc import Mapping

from ._errors import (
    BudgetError,
    ConfigError,
    DataError,
    DeviceError,
    EndedError,
    Error,
    ExhaustedError,
    FormatError,
    HoldWarning,
    IoError,
    LimitError,
    NotFoundError,
    PanickedError,
    SchemaError,
    TimedOutError,
    TooManyBadError,
    UnsupportedError,
)
from ._loader import Loader, Report, from_iterable, from_reader, from_table, inspect, mix, verify
from ._loader import open as open
from ._progress import progress
from ._ringfeed import Batch, RunReport, Tensor, __version__
from ._serve import Served, ServedWindow, serve
from ._stats import Stats
from ._transform import Map
from .fields import (
    Array,
    Audio,
    Boxes,
    Category,
    Class,
    Field,
    Image,
    IndexMap,
    Keypoints,
    Numbers,
    Text,
    Tokenizer,
    Tokens,
)
from .prepare import Prepared, Recipe

Mapping.register(Batch)

# Without `open`, which would take the place of Python's own after `from ringfeed import *`.
__all__ = [
    "Array",
    "Batch",
    "Audio",
    "Boxes",
    "BudgetError",
    "Category",
    "Class",
    "ConfigError",
    "DataError",
    "DeviceError",
    "EndedError",
    "Error",
    "ExhaustedError",
    "Field",
    "FormatError",
    "HoldWarning",
    "Image",
    "IndexMap",
    "IoError",
    "Keypoints",
    "LimitError",
    "Loader",
    "Map",
    "NotFoundError",
    "Numbers",
    "PanickedError",
    "Prepared",
    "Recipe",
    "Report",
    "RunReport",
    "SchemaError",
    "Served",
    "ServedWindow",
    "Stats",
    "Tensor",
    "Text",
    "TimedOutError",
    "Tokenizer",
    "Tokens",
    "TooManyBadError",
    "UnsupportedError",
    "__version__",
    "from_iterable",
    "from_reader",
    "from_table",
    "inspect",
    "mix",
    "progress",
    "serve",
    "verify",
]
