"""The command is the one that is built from Rust."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from helpers import FIXTURES


def command(*typed: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "ringfeed", *map(str, typed)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, cwd=FIXTURES)


def test_inspect_says_what_is_in_a_file() -> None:
    done = command("inspect", FIXTURES / "iris-species.csv", "--json")
    assert done.returncode == 0 and done.stderr == ""
    found = json.loads(done.stdout)
    assert found["records"] == 150 and len(found["fields"]) == 5


def test_exit_statuses_are_those_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    assert command("verify", tmp_path / "bad.csv").returncode == 1
    missing = command("inspect", tmp_path / "bda.csv")
    assert missing.returncode == 1 and "did you mean" in missing.stderr
    wrong = command("inspekt", "x")
    assert wrong.returncode == 2 and "Usage: ringfeed" in wrong.stderr
    assert command("--help").returncode == 0


def test_ctrl_c_ends_it() -> None:
    endless = ["--epochs", "100000000", "--batch-size", "10", "--step-ms", "1", "--live"]
    line = [sys.executable, "-m", "ringfeed", "bench", str(FIXTURES / "iris.csv"), *endless]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(line, stdout=quiet, stderr=subprocess.PIPE, text=True, cwd=FIXTURES) as process:
        assert process.stderr
        # The first line of figures: the run has begun.
        assert " samples/s, " in process.stderr.readline()
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) in (-signal.SIGINT, 130)
