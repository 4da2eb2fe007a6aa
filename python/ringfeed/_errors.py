"""What can go wrong: one class for each kind of error, all of them :class:`Error`."""

from __future__ import annotations


class Error(Exception):
    """Any error of Ringfeed. Its text says where and what happened. The attributes give the parts, ``None`` if unknown.

    ``kind``: one word, such as ``"data"``. ``message``: what happened, without the location. ``path``: file or folder.
    ``record``: index of the record, from 0: in its file, if that holds several records; otherwise in its source.
    ``line``: line in the file, from 1. ``member``: member of an archive. ``column``: column or tensor. ``byte``: offset
    in the file's content after unpacking, from 0. An exception from your own code is its ``__cause__``.
    """

    kind: str = "error"
    message: str = ""
    path: str | None = None
    record: int | None = None
    line: int | None = None
    member: str | None = None
    column: str | None = None
    byte: int | None = None


class IoError(Error, OSError):
    """The operating system refused to read, write, map or list something."""


class NotFoundError(Error, LookupError):
    """A path, column, class or tensor of that name does not exist."""


class DataError(Error, ValueError):
    """A record holds something that its schema does not allow, or your own code raised an exception for it."""


class FormatError(Error, ValueError):
    """A file is not valid in its format."""


class SchemaError(Error, ValueError):
    """Tensors do not fit each other, or are used as something that they are not."""


class ConfigError(Error, ValueError):
    """The settings contradict themselves or the data. The message names every fault, and suggests corrections."""


class LimitError(Error, ValueError):
    """Input is larger than a limit."""


class BudgetError(Error, MemoryError):
    """Batch memory would exceed the budget in bytes."""


class ExhaustedError(Error):
    """More batches are held than allowed. Nothing is lost: release one, and ask again."""


class EndedError(Error):
    """The epoch has ended, or another loop over the loader has begun."""


class TooManyBadError(Error):
    """More bad records than the policy allows."""


class UnsupportedError(Error):
    """A source or a process can't do what was requested."""


class PanickedError(Error, RuntimeError):
    """A bug: in your own code, in a decoder or in Ringfeed."""


class TimedOutError(Error, TimeoutError):
    """A wait exceeded its time limit."""


class DeviceError(Error, RuntimeError):
    """A device refuses, is broken or does not exist."""


class HoldWarning(UserWarning):
    """Batches are copied because more of them are held than the loader has slots for."""


_KINDS: dict[str, type[Error]] = {
    "io": IoError,
    "not_found": NotFoundError,
    "data": DataError,
    "format": FormatError,
    "schema": SchemaError,
    "config": ConfigError,
    "limit": LimitError,
    "budget": BudgetError,
    "exhausted": ExhaustedError,
    "ended": EndedError,
    "too_many_bad": TooManyBadError,
    "unsupported": UnsupportedError,
    "panicked": PanickedError,
    "timed_out": TimedOutError,
    "device": DeviceError,
}


def config(text: str) -> ConfigError:
    """A fault in settings that the library does not see."""
    error = ConfigError(text)
    error.kind, error.message = "config", text
    return error


def unsupported(text: str) -> UnsupportedError:
    """Something that can't be done, noticed outside of the library."""
    error = UnsupportedError(text)
    error.kind, error.message = "unsupported", text
    return error


def make(
    kind: str,
    text: str,
    message: str,
    path: str | None,
    record: int | None,
    line: int | None,
    member: str | None,
    column: str | None,
    byte: int | None,
) -> Error:
    """The exception for an error of the library."""
    error = _KINDS.get(kind, Error)(text)
    error.kind, error.message, error.path, error.record = kind, message, path, record
    error.line, error.member, error.column, error.byte = line, member, column, byte
    return error
