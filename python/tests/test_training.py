"""Real training: the digits are learnt, and nothing about how they are loaded changes one bit of it."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import FIXTURES

HERE = importlib.util.find_spec


def program(framework: str, *options: str, status: int = 0) -> dict[str, Any]:
    line = [sys.executable, str(Path(__file__).with_name("digits.py")), framework, *options]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=900, check=False, cwd=FIXTURES, env={**os.environ, **threads}
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else {}


@functools.cache
def learnt(framework: str) -> dict[str, Any]:
    return program(framework)


# NumPy does it where nothing else is installed.
FRAMEWORKS = [name for name in ("torch", "jax") if HERE(name)] or ["numpy"]


@pytest.mark.parametrize("framework", ["torch", "jax", "numpy"])
def test_the_digits_are_learnt(framework: str) -> None:
    if framework not in FRAMEWORKS:
        pytest.skip(f"{framework} is not installed" if framework != "numpy" else "others are installed")
    figures = learnt(framework)
    assert figures["accuracy"] >= 0.97 and len(figures["losses"]) == 3 * 469
    assert figures["copied"] == 0, "the frameworks saw the loader's own memory"


@pytest.mark.parametrize("settings", [{"shield": True}, {"workers": 1, "prefetch": 5}, {"workers": 4}])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_how_batches_are_made_changes_no_loss(framework: str, settings: dict[str, Any]) -> None:
    figures = program(framework, "--epochs=1", f"--settings={json.dumps(settings)}")
    assert figures["losses"] == learnt(framework)["losses"][:469]


@pytest.mark.parametrize("die_at", [250, 520])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_training_goes_on_after_it_was_killed(framework: str, die_at: int, tmp_path: Path) -> None:
    options = (f"--checkpoint={tmp_path / 'checkpoint'}", "--epochs=2")
    program(framework, *options, f"--die-at={die_at}", status=-signal.SIGKILL)
    figures = program(framework, *options, '--settings={"workers": 1}')
    assert figures["losses"] == learnt(framework)["losses"][: 2 * 469]
