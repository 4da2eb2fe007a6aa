"""What a trace says, by Python's own parser, and by Perfetto's trace processor where it is installed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from helpers import FIXTURES
from trace_processor import TraceProcessor

import ringfeed

EPOCHS, BATCHES = 2, 15

# How the tracks of the trace processor are told apart: slices of threads, each with its thread's name.
SLICES = """
create view named as select slice.id, slice.name, slice.ts, slice.dur, slice.depth, thread.name as thread
from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
"""


def run(path: Path, **settings: object) -> Path:
    settings = {"batch_size": 10, "workers": 2, "prefetch": 2, "across_epochs": False, "trace": path, **settings}
    with ringfeed.open(FIXTURES / "iris.csv", **settings) as loader:
        for _ in range(EPOCHS):
            assert sum(1 for _ in loader) == BATCHES
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return run(tmp_path / "run.json")


def test_each_batch_is_a_flow_from_a_worker_to_the_trainer(trace: Path) -> None:
    events = json.loads(trace.read_text())["traceEvents"]
    phases = Counter(event["ph"] for event in events)
    assert phases["s"] == phases["f"] == EPOCHS * BATCHES
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert all(names[event["tid"]].startswith("worker") for event in events if event["ph"] == "s")
    assert all(names[event["tid"]] == "trainer" for event in events if event["ph"] == "f")
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def check_what_was_read(processor: TraceProcessor) -> None:
    """Nothing of the file was refused, dropped or out of place, and no slice has no end."""
    wrong = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert [(row.name, row.value) for row in processor.query(wrong)] == []
    assert processor.one("select count(*) as n from slice where dur < 0") == 0
    processor.query(SLICES)


def test_perfetto_shows_threads_batches_and_how_many_are_ready(trace: Path) -> None:
    with TraceProcessor(trace) as perfetto:
        check_what_was_read(perfetto)
        threads = {row.thread for row in perfetto.query("select distinct thread from named")}
        assert {"trainer", "planning"} <= threads and threads - {"trainer", "planning"} <= {"worker 0", "worker 1"}
        on = {
            (row.name, row.thread): row.n
            for row in perfetto.query("select name, thread, count(*) as n from named group by 1, 2")
        }
        assert on["next", "trainer"] == EPOCHS * (BATCHES + 1) and on["step", "trainer"] >= EPOCHS * BATCHES
        # One step of a flow is from one slice to the next: the ends of each way are a worker's, and the trainer's.
        ways = """
            select a.thread as begins_at, b.name as ends, b.thread as ends_at
            from flow join named a on a.id = slice_out join named b on b.id = slice_in
        """
        steps = perfetto.query(ways)
        assert all(row.begins_at.startswith("worker") for row in steps)
        assert Counter(row.ends for row in steps if row.ends_at == "trainer") == {"next": EPOCHS * BATCHES}
        # What is done inside of something else lies below it.
        inside = """
            select count(*) as n from slice part join slice whole on part.parent_id = whole.id
            where part.ts < whole.ts or part.ts + part.dur > whole.ts + whole.dur
        """
        assert perfetto.one(inside) == 0
        levels = """
            select counter_track.name as name, max(value) as most, min(value) as least
            from counter join counter_track on counter.track_id = counter_track.id group by 1
        """
        shown = {row.name: (row.least, row.most) for row in perfetto.query(levels)}
        assert len(shown) == 2 and all(0 <= least <= most <= 3 for least, most in shown.values()), shown
        # Of samples read, no more and no less than there are.
        read = """
            select sum(int_value) as n from args join slice using (arg_set_id)
            where slice.name = 'fill' and key = 'args.samples'
        """
        assert perfetto.one(read) == EPOCHS * 150


def test_perfetto_shows_uploads(tmp_path: Path) -> None:
    path = run(tmp_path / "run.json", device="host")
    with TraceProcessor(path) as perfetto:
        check_what_was_read(perfetto)
        threads = {row.thread for row in perfetto.query("select distinct thread from named")}
        assert {"trainer", "planning", "upload", "feeding the upload"} <= threads
        # Copies may overlap, so that they lie beside the slices of their thread.
        copies = "select count(*) as n, min(dur) as least from slice where name = 'copy'"
        (row,) = perfetto.query(copies)
        assert row.n == EPOCHS * BATCHES and row.least >= 0


def test_perfetto_reads_a_trace_that_dropped_its_beginning(tmp_path: Path) -> None:
    # Only the last 131,072 events are kept; what went before leaves no loose ends.
    path = tmp_path / "run.json"
    with ringfeed.open(FIXTURES / "iris.csv", batch_size=1, workers=2, trace=path) as loader:
        for _ in range(150):
            assert sum(1 for _ in loader) == 150
    dropped = int(json.loads(path.read_text())["otherData"]["events_dropped"])
    assert dropped > 0
    with TraceProcessor(path) as perfetto:
        check_what_was_read(perfetto)
        assert perfetto.one("select count(*) as n from flow") > 1000
