"""Distinguishes unpacking a batch from a loop over its names."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Sequence


def refuse(names: Sequence[str]) -> None:
    """Raises an error if a batch is unpacked like a tuple of tensors: a mapping gives its names, and each name would
    silently take the place of a tensor. To find out, it looks at the current instruction of the caller's code."""
    try:
        frame = sys._getframe(1)
    except ValueError:  # No code of Python's has called.
        return
    at = frame.f_lasti
    if at >= 0 and opcode.opname[frame.f_code.co_code[at]] in ("UNPACK_SEQUENCE", "UNPACK_EX"):
        raise TypeError(
            f"a batch maps names to tensors, and unpacking it would give the names, {', '.join(map(repr, names))}: say "
            'yields="tuple", take loader.torch() (or .numpy(), .jax()), or unpack batch.values(); batch.keys() gives '
            "the names"
        )
