"""The programs in `python/examples` run as they stand, and do what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import FIXTURES

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str, *arguments: object, cwd: Path, launcher: tuple[str, ...] = ()) -> str:
    line = [sys.executable, *launcher, str(EXAMPLES / name), *map(str, arguments)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_flowers_are_told_apart_and_served(tmp_path: Path) -> None:
    said = example("flowers.py", "--data", FIXTURES / "iris-species.csv", cwd=tmp_path)
    right = re.search(r"(\d+) % of \d+ flowers", said)
    assert right is not None and int(right[1]) >= 85 and "is a virginica" in said


def test_digits_are_learnt_through_an_interruption(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    arguments = ["--data", FIXTURES / "mnist", "--epochs", 2, "--checkpoint", "digits.pt", "--report", "run.html"]
    # Interrupted as soon as there is a batch, wherever in the epoch that is.
    program = f"""
import os, runpy, signal, sys, threading
import ringfeed
sys.argv = {["digits.py", *map(str, arguments)]!r}
class Loader(ringfeed.Loader):
    def torch(self):
        for count, batch in enumerate(super().torch()):
            if count == 100:
                signal.raise_signal(signal.SIGINT)
            yield batch
ringfeed.Loader = Loader
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_path({str(EXAMPLES / "digits.py")!r}, run_name="__main__")
"""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    stopped = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, cwd=tmp_path, env=env
    )
    assert stopped.returncode == -signal.SIGINT and "KeyboardInterrupt" in stopped.stderr, stopped.stderr
    said = example("digits.py", *arguments, cwd=tmp_path)
    assert "goes on at sample 12928 of epoch 0" in said
    right = re.search(r"([\d.]+) % of the test's digits", said)
    assert right is not None and float(right[1]) >= 96
    assert "<html" in (tmp_path / "run.html").read_text()
