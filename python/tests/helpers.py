"""What tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"


def run(
    code: str, *, check: bool = True, timeout: float = 600, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, with the fixtures' folder as ``FIXTURES``."""
    program = f"import os, sys\nFIXTURES = {os.fspath(FIXTURES)!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=tempfile.gettempdir(),
        env={**os.environ, **(env or {})},
    )
    if check:
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done
