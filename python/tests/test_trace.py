"""What a trace says, by Python's own parser, and by Perfetto's trace processor where it is installed and can be had."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from helpers import FIXTURES

import ringfeed


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    with ringfeed.open(FIXTURES / "iris.csv", batch_size=10, workers=2, across_epochs=False, trace=path) as loader:
        assert sum(1 for _ in loader) == 15
    return path


def test_each_batch_is_a_flow_from_a_worker_to_the_trainer(trace: Path) -> None:
    events = json.loads(trace.read_text())["traceEvents"]
    phases = Counter(event["ph"] for event in events)
    assert phases["s"] == phases["f"] == 15
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert all(names[event["tid"]].startswith("worker") for event in events if event["ph"] == "s")
    assert all(names[event["tid"]] == "trainer" for event in events if event["ph"] == "f")
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_perfetto_reads_it(trace: Path) -> None:
    processor = pytest.importorskip("perfetto.trace_processor")
    try:
        perfetto = processor.TraceProcessor(trace=str(trace))
    except Exception as error:  # noqa: BLE001 - whatever keeps the binary from being fetched or started
        pytest.skip(f"Perfetto's trace processor can't be had here: {error}")
    with perfetto:
        errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        assert [(row.name, row.value) for row in perfetto.query(errors)] == []
        flows = "select count(*) as n from flow join slice on slice.id = slice_in where slice.name = 'next'"
        assert next(iter(perfetto.query(flows))).n == 15
