"""How tensors are made: short ways to write the tables for ``fields=``.

Each class writes the same table as a settings file: ``Image(224, 224)`` is ``{"image": [224, 224]}``. You may also use
a plain dict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

__all__ = [
    "Array",
    "Audio",
    "Boxes",
    "Category",
    "Class",
    "Field",
    "Image",
    "IndexMap",
    "Keypoints",
    "Numbers",
    "Text",
    "Tokenizer",
    "Tokens",
]


class Field:
    """One tensor, by its table in settings. All fields have ``from_`` and ``role``, and many have ``file``.

    ``from_``: the source field, if its name differs from the tensor's: a column by name or position, a member by its
    extension (``"left.jpg"``), a value in a JSON member (``"json:/label"``), or a list of them.
    ``file``: the field holds the path of a file, whose bytes are used. ``role``: ``"feature"``, ``"label"`` or
    ``"mask"``.
    """

    def __init__(self) -> None:
        self.table: dict[str, Any] = {}

    def settings(self) -> dict[str, Any]:
        """The table."""
        return _table(self.table)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.table == self.table

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings()!r})"


def element_type(dtype: Any) -> Any:
    """An element type by its name in settings, if NumPy, PyTorch or JAX calls it otherwise: ``"f32"`` for
    ``"float32"``, ``numpy.float32`` or ``torch.float32``."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    kind = re.fullmatch(r"(?:torch\.)?(uint|int|float|bfloat)(8|16|32|64)", str(name or dtype))
    return dtype if kind is None else {"uint": "u", "int": "i", "float": "f", "bfloat": "bf"}[kind[1]] + kind[2]


def _table(table: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {key: value for key, value in table.items() if value is not None}
    said |= {key: element_type(said[key]) for key in ("dtype", "numbers", "stored") if key in said}
    common: dict[str, Any] = {key: said.pop(key) for key in ("from", "except", "role") if key in said}
    return {**common, "file": said} if said.pop("file", False) else {**common, **said}


_From = str | int | Sequence[str | int] | None


class Image(Field):
    """A picture as ``[channels, height, width]``, f32 from 0 to 255 unless a normaliser or ``dtype`` changes that.

    ``augment``: names or tables of operations, in order, or the name of a recipe such as ``"simclr"``.
    ``resize``: ``"bilinear"``, ``"bicubic"`` or ``"nearest"`` (``NEAREST_EXACT`` of torchvision, not ``NEAREST`` of
    Pillow). ``"bicubic"`` differs from Pillow's by more than one level next to hard edges.
    ``geometry``: pictures of a sample with the same name are cropped, flipped and rotated in the same way. Without
    ``height`` and ``width``, each picture keeps its size. Zeros fill the space below and to the right of it, and a mask
    marks the picture. ``jpeg``, ``strict`` and ``dct_scaling`` select how JPEG files are decoded. ``jpeg_index_bytes``
    is the memory limit of an index that makes decoding parts of them faster from the second time on (default: 2**28; 0
    for none). ``max_pixels`` is the largest size of a picture.
    """

    def __init__(
        self,
        height: int | None = None,
        width: int | None = None,
        *,
        augment: str | Sequence[str | Mapping[str, Any]] | None = None,
        dtype: str | None = None,
        order: str | None = None,
        fit: str | Mapping[str, Any] | None = None,
        resize: str | None = None,
        colour: str | None = None,
        geometry: str | None = None,
        jpeg: str | None = None,
        strict: bool | None = None,
        dct_scaling: bool | None = None,
        jpeg_index_bytes: int | None = None,
        max_pixels: int | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        options = {"augment": augment, "dtype": dtype, "order": order, "fit": fit, "resize": resize}
        size = [side for side in (height, width) if side is not None]
        self.table = {"image": size, **options, "colour": colour, "geometry": geometry, "jpeg": jpeg}
        self.table |= {"strict": strict, "dct_scaling": dct_scaling, "max_pixels": max_pixels}
        self.table |= {"jpeg_index_bytes": jpeg_index_bytes, "from": from_, "file": file, "role": role}


class IndexMap(Field):
    """A segmentation map: the index that the file stores for each pixel, i64 ``[height, width]``. Indices are never
    mixed.

    Give it the ``geometry`` of its picture: it is then cropped, flipped and rotated like the picture, and needs no
    ``augment`` and no ``fit``."""

    def __init__(
        self,
        height: int,
        width: int,
        *,
        augment: str | Sequence[str | Mapping[str, Any]] | None = None,
        dtype: str | None = None,
        fit: str | Mapping[str, Any] | None = None,
        geometry: str | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        options = {"augment": augment, "dtype": dtype, "fit": fit, "geometry": geometry}
        self.table = {"index_map": [height, width], **options, "from": from_, "file": file, "role": role}


class Audio(Field):
    """A sound at ``rate`` frames per second: f32 ``[length]`` from -1 to 1, the mean of its channels, or
    ``[channels, length]``; and a mask that is 1 where there is sound, in a tensor with the suffix ``_mask``.

    Without ``length``, sounds are padded to the longest of their batch. ``crop`` selects the part of a longer sound:
    ``"random"``, ``"centre"`` or ``"start"``; without it, a longer sound makes a bad record.
    """

    def __init__(
        self,
        rate: int,
        *,
        length: int | None = None,
        crop: str | None = None,
        channels: int | None = None,
        dtype: str | None = None,
        geometry: str | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        self.table = {"audio": rate, "length": length, "crop": crop, "channels": channels, "dtype": dtype}
        self.table |= {"geometry": geometry, "from": from_, "file": file, "role": role}


class Class(Field):
    """A class by its name or index: i64 without a dimension. The names are those found in the data, sorted as text
    (also those of an ordered categorical), unless you list them. Several fields share their names and give
    ``[fields]``. ``dtype`` is another type that can hold them. In tar archives, a class without ``from_`` is the member
    ``cls``; several are read by their own names."""

    def __init__(
        self,
        names: Sequence[str] | None = None,
        *,
        one_hot: bool | None = None,
        dtype: str | None = None,
        from_: _From = None,
        role: str | None = None,
    ) -> None:
        self.table = {"class": list(names or []), "one_hot": one_hot, "dtype": dtype, "from": from_, "role": role}


class Boxes(Field):
    """At most ``most`` boxes of the picture with the same ``geometry``, cropped, resized, flipped and rotated like it:
    f32 ``[most, 4]``, and a mask of the boxes that are left. ``box_format`` is ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``
    in pixels, or the same with the prefix ``"relative_"`` for fractions from 0 to 1. ``result_format`` is the format of
    the tensor, by default the same. ``size_from`` names the fields with width and height of a picture in a separate
    file.
    """

    def __init__(
        self,
        most: int,
        *,
        box_format: str | None = None,
        result_format: str | None = None,
        min_size: float | None = None,
        geometry: str | None = None,
        size_from: Sequence[str | int] | None = None,
        longer: str | None = None,
        from_: _From = None,
        role: str | None = None,
    ) -> None:
        sides = list(size_from) if size_from is not None else None
        self.table = {"boxes": most, "box_format": box_format, "result_format": result_format, "min_size": min_size}
        self.table |= {"geometry": geometry, "size_from": sides, "longer": longer, "from": from_, "role": role}


class Keypoints(Field):
    """At most ``most`` points of the picture with the same ``geometry``, transformed as :class:`Boxes`: f32
    ``[most, 2]``. ``point_format`` is ``"xy"`` in pixels, or ``"relative_xy"`` for fractions from 0 to 1.
    ``result_format`` is the format of the tensor, by default the same.
    """

    def __init__(
        self,
        most: int,
        *,
        point_format: str | None = None,
        result_format: str | None = None,
        geometry: str | None = None,
        size_from: Sequence[str | int] | None = None,
        longer: str | None = None,
        from_: _From = None,
        role: str | None = None,
    ) -> None:
        sides = list(size_from) if size_from is not None else None
        self.table = {"keypoints": most, "point_format": point_format, "result_format": result_format}
        self.table |= {"geometry": geometry, "size_from": sides, "longer": longer, "from": from_, "role": role}


class Category(Field):
    """Codes of one or several columns of names, i64 ``[columns]``; ``missing`` is the code of a missing value."""

    def __init__(
        self,
        names: Sequence[Sequence[str]] | None = None,
        *,
        missing: int | None = None,
        dtype: str | None = None,
        from_: _From = None,
        role: str | None = None,
    ) -> None:
        self.table = {"category": [list(of) for of in names or []], "missing": missing, "dtype": dtype}
        self.table |= {"from": from_, "role": role}


class Numbers(Field):
    """Numbers: one field gives a single number, several fields give ``[fields]``, or another ``shape`` with as many
    elements. Lists of numbers must have one shape, or are padded with ``pad`` to ``max_len``, with a mask tensor. Lists
    of lists that differ in shape become one list of all their numbers.

    ``list``: lists of any length, padded to the longest of their batch, even if there are no data to show that the
    field holds lists.
    ``ragged``: lists are stored one after another without padding, ``[all numbers]``. A second tensor, i64
    ``[samples + 1]`` with the suffix ``_offsets``, says where each list begins and the last one ends. ``max_len`` then
    limits one list.
    ``missing``: replaces a missing value, a number or ``"nan"``; without it, a missing value makes a bad record. NaN in
    Parquet, Arrow, TFRecord files and arrays is a number, and stays.
    ``longer``: what to do with longer lists, ``"error"`` or ``"cut"``.
    ``from_="*"``: all fields of single numbers that no other tensor uses, without those in ``except_``.
    """

    def __init__(
        self,
        dtype: str = "f32",
        *,
        shape: Sequence[int] | None = None,
        missing: float | str | None = None,
        max_len: int | None = None,
        pad: float | None = None,
        list: bool | None = None,
        ragged: bool | None = None,
        longer: str | None = None,
        from_: _From = None,
        except_: Sequence[str | int] | None = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        # JSON has no such number.
        missing = "nan" if isinstance(missing, float) and missing != missing else missing
        self.table = {"numbers": dtype, "shape": shape, "missing": missing, "max_len": max_len, "pad": pad}
        self.table |= {"list": list, "ragged": ragged, "longer": longer, "from": from_, "file": file, "role": role}
        self.table |= {"except": [*except_] if except_ is not None else None}


class Tokens(Field):
    """Lists of tokens: i64 ``[max_len]``, padded with ``pad`` at the end, and a mask with the suffix ``_mask``.

    Without ``max_len``, lists may have any length and are padded to the longest of their batch, or to the limit of
    their bucket.
    """

    def __init__(
        self,
        max_len: int | None = None,
        *,
        pad: float | None = None,
        longer: str | None = None,
        from_: _From = None,
        role: str | None = None,
    ) -> None:
        kind = {"numbers": "i64", "list": True} if max_len is None else {"tokens": max_len}
        self.table = {**kind, "pad": pad, "longer": longer, "from": from_, "role": role}


class Array(Field):
    """An array. From a file of arrays, each record is one array; other fields hold the bytes of an NPY file. Without
    ``shape`` (or with ``[]``), all arrays have the shape of the first record's.

    ``stored``: the bytes have no header and hold only elements of this type (``"u8"``, ``"f32"``), row-major and as
    many as ``shape`` has (``[]``: a single one), as ``numpy.ndarray.tobytes`` writes them. ``endian``: which byte of an
    element comes first, ``"little"`` or ``"big"``.
    """

    def __init__(
        self,
        shape: Sequence[int] = (),
        *,
        dtype: str | None = None,
        stored: str | None = None,
        endian: str | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        self.table = {"array": list(shape), "dtype": dtype, "stored": stored, "endian": endian}
        self.table |= {"from": from_, "file": file, "role": role}


class Text(Field):
    """UTF-8 text of at most ``max_len`` bytes: u8 ``[max_len]``, and its length in a tensor with the suffix ``_len``.

    ``longer``: with ``"error"``, a longer text makes a bad record; ``"cut"`` cuts off its end. ``batch.text(name)``
    returns strings, in lists if there are several fields per record, or samples are windows.
    """

    def __init__(
        self,
        max_len: int,
        *,
        longer: str | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        self.table = {"text": max_len, "longer": longer, "from": from_, "file": file, "role": role}


class Tokenizer(Field):
    """Text as tokens by a ``tokenizer.json``: i64 ``[max_len]``, padded with ``pad`` (0) at the end, and a mask with
    the suffix ``_mask``. Without ``max_len``, texts are padded to the longest of the batch.

    ``longer``: with ``"error"``, a longer text makes a bad record; ``"cut"`` cuts off its end. ``special_tokens=False``
    leaves out the tokens that the tokenizer puts around a text. ``ragged``: as in :class:`Numbers`.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        max_len: int | None = None,
        special_tokens: bool | None = None,
        pad: int | None = None,
        ragged: bool | None = None,
        longer: str | None = None,
        from_: _From = None,
        file: bool = False,
        role: str | None = None,
    ) -> None:
        self.table = {"tokenizer": fspath(path), "max_len": max_len, "special_tokens": special_tokens, "pad": pad}
        self.table |= {"ragged": ragged, "longer": longer, "from": from_, "file": file, "role": role}
