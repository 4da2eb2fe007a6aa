"""Ray Train: each worker takes its part, and what was killed goes on with any number of workers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from helpers import FIXTURES

SAMPLES = 150
BATCH = 5
DIES_AT = 7

if any(importlib.util.find_spec(name) is None for name in ("ray", "torch")):
    pytest.skip("it runs where ray and torch are installed", allow_module_level=True)


def test_a_run_whose_worker_was_killed_goes_on_with_one_worker_and_with_three() -> None:
    line = [
        sys.executable,
        str(Path(__file__).with_name("ray_runs.py")),
        str(FIXTURES / "iris-species.csv"),
        str(DIES_AT),
    ]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=900, check=False, env={**os.environ, **quiet})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    last = found["checkpoint"]["step"]
    assert 0 <= last < DIES_AT
    # What was done after the checkpoint is done again.
    before = [position for step in found["killed"] if step["step"] <= last for position in step["positions"]]
    assert len(before) == 2 * BATCH * (last + 1)
    for workers in (1, 3):
        after = [position for step in found[f"resumed by {workers}"] for position in step["positions"]]
        assert Counter(before + after) == Counter(range(SAMPLES)), workers
