"""The loader: Python settings in, batches out."""

from __future__ import annotations

import atexit
import json
import math
import operator
import os
import sys
import threading  # noqa: F401  See below.
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _ringfeed
from ._errors import EndedError
from ._errors import config as config_error
from ._progress import OnProgress, teller
from ._reader import NoTensors, Samples, Source
from ._ringfeed import Engine, Epoch, RunReport
from ._stats import Stats
from ._table import Table, advice_for, is_table
from ._transform import Map

if TYPE_CHECKING:
    from ._serve import Served

Settings = Mapping[str, Any]
Shard = Literal["auto"] | tuple[int, int] | Mapping[str, int] | None
Yields = Literal["dict", "tuple"] | Callable[[_ringfeed.Batch], Any]
ViewYields = Literal["dict", "tuple"] | Callable[[dict[str, Any]], Any]

# Names of settings in PyTorch and other libraries, and their counterparts here.
_ELSEWHERE = {
    "num_workers": "workers, which are threads",
    "drop_last": 'last_batch="drop"',
    "pin_memory": 'device="cuda:0", which copies from page-locked memory ahead of the trainer',
    "prefetch_factor": "prefetch, the number of batches ahead",
    "persistent_workers": "always so",
    "collate_fn": "yields, a function of a batch; samples are put into it by the loader",
    "generator": "shuffle, the seed of the order",
    "sampler": "shuffle, shard, weight_by, class_balanced or filter",
    "batch_sampler": "batch_size and bucket",
    "timeout": "fetch_limit",
    "seed": "shuffle, the seed of the order",
    "validation_split": 'split={"train": 0.8, "validation": 0.2, "part": "train"}',
    "epochs": "a loop of yours; each loop over the loader is one epoch",
}

# Version 1 had other orders for small sets, and is taken as data that have changed.
_STATE_VERSION = 2

# The threads must end before the interpreter does. `threading` is imported here, since it takes the thread that imports
# it first for the main one: if that were a thread of a loader, the interpreter's end would wait for it for ever.
_open: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    _ringfeed.finish(_still_open())


def _still_open() -> list[Engine]:
    """The engines that are open. Daemon threads may open others in the meantime."""
    while True:
        try:
            return list(_open)
        except RuntimeError:  # One was opened meanwhile.
            continue


def _plain(value: object) -> object:
    """Converts a value that JSON does not know to one that it knows."""
    if isinstance(value, type):
        advice = f": write {value.__name__}()" if callable(getattr(value, "settings", None)) else ""
        raise TypeError(f"settings are numbers, texts, lists and tables, and a class is none of them{advice}")
    said = getattr(value, "settings", None)
    if callable(said):
        return said()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "ndim", 0) and hasattr(value, "tolist"):  # One of a single element would be a number, too.
        return value.tolist()
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    if hasattr(value, "__float__"):
        return float(value)
    if hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"settings are numbers, texts, lists and tables, and {value!r} is none of them")


def _text(settings: Settings) -> str:
    try:
        return json.dumps(settings, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:  # Numbers that JSON does not have.
        return json.dumps(_worded(settings), default=_plain, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        place = _place_of_fault(settings)
        advice = "; filter_by(fields, function) takes a function" if place == "filter" else ""
        raise TypeError(f"{place}: {error}{advice}" if place else str(error)) from None


def _worded(value: Any) -> Any:
    """Words for what pads or is missing, where JSON does not have the number."""
    if isinstance(value, Mapping):
        return {name: _word(inner) if name in ("pad", "missing") else _worded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_worded(inner) for inner in value]
    plain = _plain(value) if not isinstance(value, (str, int, float, bool, type(None))) else value
    return plain if plain is value else _worded(plain)


def _word(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _place_of_fault(settings: Settings) -> str:
    """The key of a value that is no setting, with the tables around it."""
    for key, value in settings.items():
        try:
            json.dumps(value, default=_plain)
        except TypeError:
            inner = _place_of_fault(value) if isinstance(value, Mapping) else ""
            return f"{key}.{inner}" if inner else str(key)
    return ""


def _shard_of(shard: Shard) -> dict[str, int] | None:
    if shard is None or isinstance(shard, Mapping):
        return dict(shard) if shard is not None else None
    if shard != "auto" and not (isinstance(shard, Sequence) and len(shard) == 2):
        raise config_error(f'shard: expected (index, count), such as (0, 4), or "auto", found {shard!r}')
    index, count = _ringfeed.shard_from_env() if shard == "auto" else shard
    # A worker of PyTorch's DataLoader is a separate process, with a part of its rank's shard.
    worker = sys.modules.get("torch.utils.data")
    info = worker.get_worker_info() if shard == "auto" and worker is not None else None
    if info is not None:
        index, count = index * info.num_workers + info.id, count * info.num_workers
    return {"index": index, "count": count}


class Loader:
    """Batches of a data set, made ahead of the trainer by the library's threads.

    ``config`` is a table of settings, or the path of a settings file (TOML or JSON). ``**settings`` are further
    settings by the same names, which override those of ``config``: ``batch_size``, ``shuffle`` (the seed), ``source``,
    ``sources``, ``mix``, ``fields``, ``filter``, ``split``, ``folds``, ``bad_records``, ``last_batch``, ``normalise``,
    ``augment``, ``transforms``, ``workers``, ``worker_cores``, ``worker_nice``, ``worker_share``, ``prefetch``,
    ``shield``, ``memory`` and all others of the library. An invalid setting raises a :class:`ConfigError` that suggests
    a correction.

    Each ``for batch in loader`` runs one epoch; the next loop runs the next epoch. The loader opens nothing until it is
    first used, so you may create it before a process forks.

    ``shard``: ``"auto"``, here or in ``config``, takes this process's shard from its launcher (torchrun, MPI, SLURM).
    Inside a worker of PyTorch's ``DataLoader``, it takes that worker's part of the shard; see :meth:`set_epoch`. Or
    give ``(index, count)``.
    ``hold``: how many batches you may keep without a copy, in addition to the current one. ``on_hold``: what to do with
    more batches: ``"copy"`` copies them to ordinary memory, within the budget, with one warning; ``"error"`` raises
    :class:`ExhaustedError`.
    ``yields``: what a loop yields: with ``"dict"`` a :class:`Batch`, a mapping of names to tensors; with ``"tuple"``
    the tensors in the order of the fields, for ``for x, y in loader`` (a field that has a mask, lengths or offsets
    gives two: ``name`` and ``name_mask``, ``name_len`` or ``name_offsets``); with a function its result for each batch.
    ``transform``: a function of a sample (or a list of functions) that changes its arrays, in the loader's threads. See
    :class:`Map`, and :meth:`map` for new tensors.
    ``device``: ``"cuda:0"`` and so on uploads batches ahead of the trainer, and gives tensors on that device. PyTorch's
    current stream waits for their copy. Their memory is reused only after all work that this stream was given until the
    last of the tensors was deleted. If you use a tensor in another stream, let the current stream wait for that stream.
    Batches beyond ``hold`` get separate device memory, within the budget. ``"host"`` does the same in host memory, for
    tests without a GPU. The device runs as many of the last ``transforms`` as it supports.
    ``convert``: what the device computes, by tensor. ``{"image": "f16"}`` converts images of bytes (fields with
    ``dtype="u8"``) to numbers, and so does ``{"image": {"image": "f16", "normalise": "imagenet"}}``. Other tables are
    ``{"scale": 0.001, "bias": 0}`` for small integers, ``{"one_hot": 10}`` for classes, and
    ``{"dense": 2000, "indices": "columns"}`` for sparse rows, each with ``"to"``, the element type. A label that is not
    a valid class makes its sample a bad record. The padding of shorter samples is computed like data.
    ``reader``: an object of your own instead of a source; see :func:`from_reader`. ``iterable``: see
    :func:`from_iterable`. ``table``: see :func:`from_table`.
    ``workspace``: another loader, whose ring and threads make this loader's batches, for example to validate in the
    memory of training. The two take turns: batches of one loader that were ready but not delivered are made again
    later. ``workers``, ``prefetch``, ``memory``, ``hold`` and ``on_hold`` are those of the other loader, for both
    together. ``memory={"kind": {"temp_file": {"limit_bytes": 10**9}}}`` puts batches into temporary files, which a
    forked child shares: what it writes into a batch that it got from its parent changes the parent's, and the other way
    round.

    The setting ``access = "map"`` of a source maps its files into memory, as ``numpy.memmap`` does. It is your promise
    that nobody changes the files while they are read: if a mapped file is truncated, the process ends.
    """

    def __init__(
        self,
        config: Settings | str | os.PathLike[str] | None = None,
        /,
        *,
        shard: Shard = None,
        hold: int = 2,
        on_hold: Literal["copy", "error"] = "copy",
        yields: Yields = "dict",
        transform: Callable[..., Any] | Map | Sequence[Callable[..., Any] | Map] = (),
        device: str | None = None,
        convert: Mapping[str, str | Settings] | None = None,
        reader: Any = None,
        iterable: Any = None,
        table: Any = None,
        names: Sequence[str] | None = None,
        workspace: Loader | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(config, (str, os.PathLike)):
            config = _ringfeed.load_settings(config)
        elif config is not None and not isinstance(config, Mapping):
            raise TypeError(
                f"a loader takes a table of settings or the path of a file of them, and not a {type(config).__name__}: "
                "from_reader takes what has a length and [i], open a path or a table in memory"
            )
        if on_hold not in ("copy", "error"):
            raise ValueError(f'on_hold: {on_hold!r}; it is "copy" or "error"')
        if workspace is not None:
            if not isinstance(workspace, Loader):
                raise TypeError(f"workspace: expected a loader, found {workspace!r}")
            if device is not None or workspace._terms["device"] is not None:
                raise config_error("workspace: batches that go to a device are made in memory of their own")
        self._workspace = workspace
        for name in settings:
            if name in _ELSEWHERE:
                raise config_error(f"{name}: there is no such setting; here it is {_ELSEWHERE[name]}")
        if settings.get("shuffle") is True:
            raise config_error(
                "shuffle: it is the seed of the order, such as 42, so that a run can go on where it stopped"
            )
        self._settings: dict[str, Any] = json.loads(_text({**(config or {}), **settings}))
        self._source: Source | Samples | Table | None = None
        if sum(given is not None for given in (reader, iterable, table)) > 1:
            raise TypeError("reader, iterable and table: samples come from one of them")
        if names is not None and reader is None and iterable is None:
            raise TypeError("names: those of the tensors of a reader or an iterable; the columns of a file have names")
        if reader is not None:
            self._source = Source(reader, names)
        elif iterable is not None:
            self._source = Samples(iterable, names)
        elif table is not None:
            self._source = Table(table)
        # Why there are no tensors. A recipe needs none, so this is raised by what does.
        self._without_tensors: str | None = None
        if isinstance(self._source, Source | Table) and not (
            self._settings.get("fields") or self._settings.get("prepared")
        ):
            try:
                self._settings["fields"] = self._source.default_fields()
            except NoTensors as fault:
                self._without_tensors = str(fault)
        # The launcher's shard is that of the process that opens the loader.
        self._shard = "auto" if shard is None and self._settings.get("shard") == "auto" else shard
        self._terms: dict[str, Any] = {"hold": hold, "copies": on_hold == "copy"}
        steps = [transform] if callable(transform) or isinstance(transform, Map) else transform
        if isinstance(steps, str) or not isinstance(steps, Iterable):
            raise TypeError(f"transform: expected a function of a sample, or a list of them, found {transform!r}")
        self._terms["transforms"] = [step if isinstance(step, Map) else Map(None, step) for step in steps]
        self._terms["source"] = self._source
        self._terms["device"] = None if device is None else str(device)
        self._terms["convert"] = None if convert is None else _text(convert)
        self._yields = yields
        # Faults are reported here, not when the first batch is requested.
        self._unopened = self._engine_of()
        _ringfeed.check_yields(yields)

    def map(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        role: str | None = None,
    ) -> Loader:
        """Adds a tensor that ``fn(sample)`` or ``fn(sample, rng)`` computes for each sample, in the loader's threads;
        see :class:`Map`. Returns the loader itself. Call it before the loader is first used."""
        return self._and(Map(name, fn, shape=shape, dtype=dtype, role=role))

    def remove(self, name: str) -> Loader:
        """Removes a tensor that functions need, but the trainer does not. Returns the loader itself."""
        return self._and(Map(None, None, remove=name))

    def filter_by(self, fields: str | Sequence[str], fn: Callable[[dict[str, Any]], object]) -> Loader:
        """Keeps only samples for which ``fn(row)`` is true, if the conditions of ``filter`` can't express this.

        ``row`` is a dict of these fields of the record: numbers, truth values, texts, or ``None`` for a missing value,
        each with its type there. In CSV and JSON files, numbers are texts, too, as the file has them. The function is
        called once for each record, when the loader is opened; if it raises an exception, opening fails. If there are
        several functions, all must return true. Returns the loader itself. Call it before the loader is first used::

            ringfeed.open("rows.csv").filter_by(["x", "y"], lambda row: float(row["x"]) < float(row["y"]))
        """
        return self._and(Map(None, fn, keeps=[fields] if isinstance(fields, str) else fields))

    def _and(self, step: Map) -> Loader:
        if "_opened" in self.__dict__:
            raise RuntimeError(
                "the loader is open already: change its tensors before you read from it or ask it for anything"
            )
        self._terms["transforms"] = [*self._terms["transforms"], step]
        self._unopened = self._engine_of()
        return self

    def _engine_of(self, is_opened: bool = False) -> Engine:
        settings = self._settings
        if self._without_tensors is not None:  # Stands for them, and is never read.
            settings = {**settings, "fields": {"none": {"numbers": "f32", "from": 0}}}
        if self._shard is not None:
            settings = {name: value for name, value in settings.items() if name != "shard"}
            if is_opened or self._shard != "auto":
                settings["shard"] = _shard_of(self._shard)
        return Engine(_text(settings), **self._terms, like=self.__dict__.get("_unopened"))

    @property
    def _engine(self) -> Engine:
        if self._without_tensors is not None:
            raise ValueError(self._without_tensors)
        return self._engine_of_records

    @property
    def _engine_of_records(self) -> Engine:
        """The engine, also if the records have no tensors by themselves."""
        # The shard is that of the process that uses the loader first.
        opened: Engine | None = self.__dict__.get("_opened")
        if opened is None:
            engine = self._engine_of(is_opened=True) if self._shard == "auto" else self._unopened
            if self._workspace is not None:
                engine.share(self._workspace._engine)
            opened = self.__dict__.setdefault("_opened", engine)
            _open.add(opened)
        return opened

    @property
    def _asked(self) -> Engine:
        """The engine that is open, or remembers what it is asked until then."""
        opened: Engine | None = self.__dict__.get("_opened")
        return self._unopened if opened is None else opened

    def __iter__(self) -> Iterator[Any]:
        """The batches of the current epoch if it has not begun, otherwise of the next epoch."""
        return Epoch(self._engine, self._yields)

    def numpy(self, yields: ViewYields = "tuple") -> View:
        """Loops that yield NumPy arrays on the loader's memory: tuples in the order of the fields, dicts by name
        (``"dict"``), or the result of a function of such a dict. A field with a mask, lengths or offsets gives two."""
        return View(self, "numpy", yields)

    def torch(self, yields: ViewYields = "tuple") -> View:
        """Loops that yield PyTorch tensors on the loader's memory: tuples in the order of the fields, dicts by name
        (``"dict"``), or the result of a function of such a dict. A field with a mask, lengths or offsets gives two."""
        return View(self, "torch", yields)

    def jax(self, yields: ViewYields = "tuple") -> View:
        """Loops that yield JAX arrays on the loader's memory: tuples in the order of the fields, dicts by name
        (``"dict"``), or the result of a function of such a dict. A field with a mask, lengths or offsets gives two."""
        return View(self, "jax", yields)

    def __len__(self) -> int:
        """Number of batches of an epoch, the same on every rank. Raises a ``TypeError`` if it is only known after
        reading."""
        batches = self._engine.batches_per_epoch()
        if batches is None:
            raise TypeError(
                "how many batches an epoch has is known only once it was read; the settings make it a stream"
            )
        return batches

    def __bool__(self) -> bool:
        """True, even if the number of batches is only known after reading."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that a loop yielded, as small plain data, for a checkpoint.

        With several ranks, the state of any rank resumes all ranks if they stopped at the same step. Otherwise use the
        state with the smallest position.
        """
        return self._engine.state()

    def load_state_dict(self, state: Mapping[str, Any], *, changed_source: bool = False) -> None:
        """Resumes after ``state``, perhaps with another number of workers, batches ahead or ranks. The next loop yields
        the rest of its epoch, or the next epoch if nothing is left. This does not open the loader: if it is not open,
        an error in the state (such as another seed) is raised when it is first used. Data that have changed since the
        state was made are an error, too, unless ``changed_source`` is true, for example because records were added at
        the end: you then answer for it that positions still mean the same (in a shuffled order, they do not)."""
        if changed_source:
            state = {**state, "source": None, "version": max(state.get("version", 0), _STATE_VERSION)}
        self._asked.load_state(_text(state))

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the epoch of the next loop. Does nothing if it already is, so that a loaded state is kept.

        This does not open the loader. Call it before each epoch if the worker processes of PyTorch's ``DataLoader`` use
        the loader and end with the epoch (without ``persistent_workers``): each new worker begins where the loader in
        the main process would, so without this call at the same epoch every time."""
        self._asked.set_epoch(epoch)

    @property
    def epoch(self) -> int:
        """The epoch of the latest batch. If there is none yet, or after :meth:`load_state_dict`, the epoch of the next
        batch; this may wait for that batch."""
        return self._engine.epoch()

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """What a sample is made of: name, role, dtype, shape (``None`` where it varies) and classes of each tensor, as
        it is on the device if batches go to one."""
        return self._engine.tensors()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, as a table."""
        return json.loads(_text(self._settings))  # type: ignore[no-any-return]

    def tuned(self) -> dict[str, Any]:
        """The settings, with the numbers found so far for ``workers`` and ``prefetch`` if they are ``"auto"``."""
        stats = self.stats()
        found = {"workers": stats["workers"]["threads"] or 1, "prefetch": stats["queue"]["prefetch"]}
        tuning = stats["tuning"] or {}
        is_tuned = {key for key in found if self._settings.get(key) == "auto" or tuning.get(key)}
        return {**self.settings, **{key: found[key] for key in is_tuned}}

    def stats(self) -> Stats:
        """The statistics so far: which threads worked, which waited, and for how long. ``copied`` counts batches that
        were copied because others were held, ``held`` those that are held now. ``verdict`` says what limits the run.
        For a part of the run, such as one epoch, subtract the statistics of an earlier call: ``later - earlier``."""
        return Stats(self._engine.stats())

    def verdict(self) -> str:
        """What limits the run and what to do about it, in one sentence: the trainer, or which part of the loader.
        ``stats()["verdict"]`` is the same for programs."""
        return self._engine.stats().verdict()

    def bad_records(self) -> list[dict[str, Any]]:
        """The first bad records that were skipped or replaced, with their locations."""
        return self._engine.bad_records()

    def plan(self) -> dict[str, Any]:
        """What a run will do: samples, batches, tensors, memory. With ``device``, tensors are described as on the
        device, and the ring's bytes as they are copied there; the device is not opened. No data is decoded."""
        return self._engine.plan()

    def report(self, **about: object) -> RunReport:
        """Everything known about the run so far: the verdict, its course over time, stages, waits, slow and bad
        samples. ``save("run.html")`` writes one self-contained page, ``save("run.json")`` data, and a notebook displays
        it. ``about`` adds your own information about the run, such as ``learning_rate=0.1``."""
        said = {"settings": _text(self._settings), **about}
        return self._engine.report([(name, str(value)) for name, value in said.items()])

    def verify(self, on_progress: OnProgress = None) -> Report:
        """Reads and decodes every sample according to the settings, and lists the bad ones. ``on_progress`` is called
        with the number of samples read, the number of bad ones among them, and the total number of samples if it is
        known. ``"bar"`` shows a progress bar of tqdm."""
        tell, end = teller(on_progress)
        try:
            return Report(self._engine.verify(tell))
        finally:
            end()

    def serve(self) -> Served:
        """Turns single records in memory into tensors, by this loader's fields and transforms, with the same bytes as
        the loader gives. See :func:`ringfeed.serve`, which does the same without the data set."""
        from ._serve import Served

        return Served(self._engine.serve())

    def _fit(self, recipe: str) -> _ringfeed.Fitted:
        return self._engine_of_records.fit(recipe)

    def _count(self, counted: _ringfeed.Counted) -> None:
        self._engine_of_records.count(counted)

    def close(self) -> None:
        """Ends the loader's threads. Batches that you hold stay as they are. The same happens when the last reference
        to the loader is gone."""
        self._engine_of_records.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        terms = {"hold": self._terms["hold"], "on_hold": "copy" if self._terms["copies"] else "error"}
        terms |= {
            "transform": self._terms["transforms"],
            "device": self._terms["device"],
            "convert": json.loads(self._terms["convert"] or "null"),
        }
        terms |= {"shard": self._shard, "yields": self._yields, "workspace": self._workspace}
        if isinstance(self._source, Source):
            terms |= {"reader": self._source.reader, "names": self._source.names}
        elif isinstance(self._source, Samples):
            self._source.__reduce__()
            terms |= {"iterable": self._source.iterable, "names": self._source.names}
        elif isinstance(self._source, Table):
            terms |= {"table": self._source.given}
        state, epoch = self._asked.told()
        if "_opened" in self.__dict__:
            try:
                state, epoch = self.state_dict(), None
            except EndedError:  # It is closed.
                pass
        return _restore, (type(self), self._settings, terms, state, epoch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings!r})"


def _restore(
    loader: type[Loader], settings: Settings, terms: Mapping[str, Any], state: Settings | None, epoch: int | None = None
) -> Loader:
    made = loader(settings, **terms)
    if state is not None:
        made.load_state_dict(state)
    if epoch is not None:
        made.set_epoch(epoch)
    return made


class View:
    """A loader's loops in another form. Epochs, positions and everything else are the loader's own."""

    def __init__(self, loader: Loader, framework: str, yields: ViewYields) -> None:
        _ringfeed.check_yields(yields)
        self.loader = loader
        self._form = (yields, framework)

    def __iter__(self) -> Epoch:
        return Epoch(self.loader._engine, *self._form)

    def __len__(self) -> int:
        return len(self.loader)

    def __bool__(self) -> bool:
        return True

    # Libraries that save a run's position look for these three in the class, where `__getattr__` is not used.

    def state_dict(self) -> dict[str, Any]:
        """Like :meth:`Loader.state_dict`."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, changed_source: bool = False) -> None:
        """Like :meth:`Loader.load_state_dict`."""
        self.loader.load_state_dict(state, changed_source=changed_source)

    def set_epoch(self, epoch: int) -> None:
        """Like :meth:`Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # Before there is one, while it is copied.
            raise AttributeError(name)
        return getattr(self.loader, name)


class Report(dict[str, Any]):
    """The result of a verification: ``samples``, ``bad_samples``, ``bad`` (exceptions, with their locations),
    ``damaged``, ``damage``, and ``ended_by``, the error that stopped reading. ``checked`` is ``"values"``, or
    ``"form"`` for a table without settings: its columns may hold anything, so only the number of fields and the text
    encoding of each record were checked. True if nothing is bad."""

    def __bool__(self) -> bool:
        return not self["bad_samples"] and self["ended_by"] is None

    def _repr_html_(self) -> str:
        from ._html import verified

        return verified(self)


def open(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any,
    /,
    *,
    format: str | None = None,
    options: Settings | None = None,
    **settings: Any,
) -> Loader:
    """A :class:`Loader` of the data at ``path``: a file, a folder, a pattern such as ``train-*.parquet``, or a list of
    those. The format is detected, unless ``format`` names it, with the format's own ``options``. ``fields`` defines the
    tensors; without it, samples have the source's default tensors. All other settings are those of :class:`Loader`.
    ``path`` may also be a table in memory; see :func:`from_table`.

    In a folder of images or sounds, each subfolder is a class, sorted by name. Hidden subfolders, such as
    ``.ipynb_checkpoints``, are neither classes nor searched. (torchvision's ``ImageFolder`` takes them for classes,
    which raises the indices of those after them, and fails if one holds no image.)"""
    if is_table(path):
        if format is not None or options is not None:
            raise TypeError("a table in memory has no format, and no options of one")
        return from_table(path, **settings)
    try:
        if isinstance(path, Mapping):
            raise TypeError
        paths = os.fspath(path) if isinstance(path, str | os.PathLike) else [os.fspath(each) for each in path]
    except TypeError:
        advice = advice_for(path) or (
            "from_reader takes what has a length and [i], and from_iterable what gives samples"
        )
        raise TypeError(
            f"open takes a path, a list of paths or a table, and not a {type(path).__name__}: {advice}"
        ) from None
    source: dict[str, Any] = {"path": paths}
    if format is not None:
        source["format"] = format
    if options is not None:
        source["options"] = options
    return Loader(source=source, **settings)


def mix(
    sources: Mapping[str, float] | Sequence[tuple[str | os.PathLike[str], float]],
    /,
    *,
    seed: int | None = None,
    **settings: Any,
) -> Loader:
    """A :class:`Loader` of several paths, whose samples are drawn in proportion to weights:
    ``mix({"web": 0.7, "books": 0.3}, seed=42)``. All paths give the same tensors, by one list of ``fields``. If class
    names would be found in the data, list them in ``Class``. An epoch has as many samples as all sources together,
    unless ``samples_per_epoch`` is set. Each source is read through evenly, across epochs. ``seed`` is that of
    ``shuffle``."""
    weights = list(sources.items() if isinstance(sources, Mapping) else sources)
    found: list[dict[str, Any]] = []
    for path, _ in weights:
        detected = _ringfeed.detect(path)
        if len(detected) != 1:
            raise ValueError(
                f"{os.fspath(path)!r} is several sources, whose tensors stand side by side: name one of them"
            )
        found += detected
    if seed is not None:
        settings["shuffle"] = seed
    return Loader(sources=found, mix=[weight for _, weight in weights], **settings)


def from_table(table: Any, **settings: Any) -> Loader:
    """A :class:`Loader` of a table in memory: of pyarrow, pandas or polars, of any other object with
    ``__arrow_c_stream__`` (Arrow's interface between libraries), or a ``Dataset`` of Hugging Face, in its shuffled or
    selected order.

    Columns are read in place, without a copy if the library stores them as Arrow does; pandas converts other columns
    once. ``fields`` names columns as in Arrow and Parquet files: ``image.bytes`` is field ``bytes`` of column
    ``image``. Without ``fields``, the columns of numbers become tensors, except an unnamed index of pandas. A missing
    value is one that the library exports as missing, such as NaN of pandas. Formats and transforms of a data set of
    Hugging Face are ignored. Do not change a table in place while a loader reads it."""
    return Loader(table=table, **settings)


def from_reader(reader: Any, *, names: Sequence[str] | None = None, **settings: Any) -> Loader:
    """A :class:`Loader` of your own object that has a length and ``read(i)`` (or ``[i]``), such as a ``Dataset`` of
    PyTorch.

    A record is a dict of values by name. It may also be a tuple of values or a single value; ``names`` then gives their
    names. Values are numbers, arrays, text, and bytes of files, which the library's threads decode without the
    interpreter lock, according to ``fields``. Without ``fields``, all values must be numbers or arrays, and each
    becomes a tensor (``field0``, ``field1`` and so on without names) of the type that NumPy gives it. There are no
    tensors of truth values: those of NumPy and PyTorch become u8 (``.bool()`` makes them what they were), Python's own
    i64. ``read`` is called in those threads, for several
    records each time the lock is taken. Two threads may call it at the same time if it releases the lock itself, and at
    any time on a free-threaded Python. An exception makes the record bad. An exception that is not an ``Exception``,
    such as ``KeyboardInterrupt``, is raised by the loop unchanged, as for :class:`Map`."""
    return Loader(reader=reader, names=names, **settings)


def from_iterable(iterable: Any, *, names: Sequence[str] | None = None, **settings: Any) -> Loader:
    """A :class:`Loader` of an iterable of samples, or of a function that returns a new one for each epoch.

    A sample is a dict of arrays and numbers by name. It may also be a tuple of values or a single value; ``names`` then
    gives their names. All samples have the types and shapes of the first one. One thread takes them, ahead of the
    trainer, and keeps their order: they can't be shuffled or distributed to ranks. An iterator (such as a generator) is
    enough for one epoch only. An exception ends the epoch, after a batch of the samples before it. An exception that is
    not an ``Exception``, such as ``KeyboardInterrupt``, is raised unchanged."""
    return Loader(iterable=iterable, names=names, **settings)


def verify(
    path: str | os.PathLike[str],
    *,
    workers: int | None = None,
    on_progress: OnProgress = None,
) -> Report:
    """Reads every sample of the data at ``path``, and lists the bad ones. ``on_progress`` is as in
    :meth:`Loader.verify`. Of a CSV file, only the form is checked: which values are valid depends on a loader's fields,
    so use its :meth:`Loader.verify` to check them."""
    tell, end = teller(on_progress)
    try:
        return Report(_ringfeed.verify(os.fspath(path), workers or os.cpu_count() or 1, tell))
    finally:
        end()


def inspect(path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> dict[str, Any]:
    """Describes the data at ``path``: its format, the number of records, its fields with statistics of each, the first
    and the last record. ``format`` and its ``options`` are as in settings; without them the format is detected. The
    sum, the smallest and the largest number of a field of integers are exact, of type ``int``."""
    if format is None and options:
        raise TypeError(f'options belong to a format: give `format`, such as "csv", with {", ".join(options)}')
    source = {"path": path, "format": format, "options": options}
    return _ringfeed.inspect(os.fspath(path), None if format is None else _text({"source": source}))
