"""Batches as notebooks display them: a table of tensors, and pictures in a row."""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._ringfeed import Batch, Tensor

_PICTURES = 8
_VALUES = 8
_LISTED = 20


def batch(shown: Batch) -> str:
    """The table."""
    rows = "".join(_row(tensor) for tensor in shown.values())
    head = f"epoch {shown.epoch}, batch {shown.index}, {shown.size} samples"
    return f"<table><caption>{head}</caption><tr><th>tensor<th>type<th>shape<th>first samples</tr>{rows}</table>"


def page(whole: str) -> str:
    """A page inside another one, without affecting that page's style."""
    return f'<iframe style="border: 0; width: 100%; height: 40em" srcdoc="{html.escape(whole)}"></iframe>'


def verified(report: Mapping[str, Any]) -> str:
    """The result of a verification, with a table of bad samples."""
    rows = "".join(f"<tr><td>{html.escape(_short_text(str(error)))}</tr>" for error in report["bad"][:_LISTED])
    more = report["bad_samples"] - min(len(report["bad"]), _LISTED)
    ended = f"<p>{html.escape(str(report['ended_by']))}</p>" if report["ended_by"] is not None else ""
    rest = f"<tr><td>and {more} more</tr>" if more else ""
    found = f"<p>{report['samples']} samples, {report['bad_samples']} of them bad</p>"
    return found + (f"<table>{rows}{rest}</table>" if rows or rest else "") + ended


def _short_text(text: str) -> str:
    return text if len(text) <= 400 else text[:400] + "..."


def _row(tensor: Tensor) -> str:
    cells = [html.escape(tensor.name), tensor.dtype, " × ".join(map(str, tensor.shape)), _first(tensor)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _first(tensor: Tensor) -> str:
    if tensor.device != "host":
        return f"on {tensor.device}"
    if picture := _layout(tensor):
        return " ".join(_picture(tensor, number, *picture) for number in range(min(len(tensor), _PICTURES)))
    if tensor.dtype == "bf16" or tensor.nbytes > 1 << 20:
        return ""
    values = memoryview(tensor).tolist() if tensor.dtype != "f16" else tensor.tolist()
    classes = tensor.classes
    if classes and tensor.ndim == 1:
        values = [classes[value] if 0 <= value < len(classes) else value for value in values]
    more = ", ..." if len(values) > _VALUES else ""
    return html.escape(", ".join(_short(value) for value in values[:_VALUES]) + more)


def _short(value: object) -> str:
    text = _digits(value)
    return text if len(text) <= 40 else text[:40] + "..."


def _digits(value: object) -> str:
    if isinstance(value, list):
        # The text is cut off after more than 20.
        return f"[{', '.join(_digits(each) for each in value[:21])}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _layout(tensor: Tensor) -> tuple[int, int, int, bool] | None:
    """Channels, height, width, and whether channels come first, if it looks like pictures."""
    if tensor.ndim != 4 or tensor.dtype not in ("u8", "f32"):
        return None
    _, first, middle, last = tensor.shape
    if first in (1, 3) and middle > 7 and last > 7:
        return first, middle, last, True
    return (last, first, middle, False) if last in (1, 3) and first > 7 and middle > 7 else None


def _picture(tensor: Tensor, number: int, channels: int, height: int, width: int, channels_first: bool) -> str:
    size = channels * height * width
    flat = memoryview(tensor).cast("B").cast("B" if tensor.dtype == "u8" else "f")
    values: list[int] = flat[number * size : (number + 1) * size].tolist()
    if tensor.dtype == "f32":
        finite = [value for value in values if math.isfinite(value)] or [0]
        low, high = min(finite), max(finite)
        if low < 0 or high > 255 or high <= 1:
            top, span = 255, (high - low) or 1
        else:
            low, top, span = 0, 1, 1
        # Values that are not finite numbers are black.
        values = [int(top * (value - low) / span) if math.isfinite(value) else 0 for value in values]
    pixels = bytearray(size)
    if channels_first:
        for channel in range(channels):
            pixels[channel::channels] = bytes(values[channel * height * width : (channel + 1) * height * width])
    else:
        pixels[:] = bytes(values)
    source = f"data:image/png;base64,{_png(pixels, channels, height, width)}"
    return f'<img alt="sample {number}" height="96" src="{source}">'


def _png(pixels: bytearray, channels: int, height: int, width: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = channels * width
    lines = b"".join(b"\0" + pixels[start : start + row] for start in range(0, height * row, row))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()
