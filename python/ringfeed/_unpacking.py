"""What tells a loop over the names of a batch from unpacking it."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Sequence


def refuse(names: Sequence[str]) -> None:
    """An error where a batch is unpacked as a tuple of tensors would be: a mapping gives its names, and each of them
    would silently stand for a tensor. Asks the caller's code for the instruction that it is at."""
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
