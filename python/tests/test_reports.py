"""What is shown of runs: reports, tables of bad samples, and bars."""

from __future__ import annotations

import html
import io
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from browser import measured
from helpers import FIXTURES

import ringfeed

Make = Callable[..., ringfeed.Loader]


def test_a_report_is_a_page_data_and_part_of_a_notebook(numbers: Make, tmp_path: Path) -> None:
    loader = numbers(shuffle=3)
    assert sum(batch.size for batch in loader) == 100
    report = loader.report(learning_rate=0.1, note="<i>")
    report.save(tmp_path / "run.html")
    report.save(tmp_path / "run.json")
    page, data = (tmp_path / "run.html").read_text(), json.loads((tmp_path / "run.json").read_text())
    assert page == report.html() and "<script" not in page
    assert "learning_rate" in page and "&lt;i&gt;" in page and "<i>" not in page
    assert data == report.data() and data["stats"]["trainer"] and data["about"]["learning_rate"] == "0.1"
    for times in (data["stats"]["trainer"]["deliveries"], data["stats"]["queue"]["slot_waits"]):
        assert times["count"] >= 10 and 0 <= times["p50_seconds"] <= times["p90_seconds"] <= times["p99_seconds"]
    assert json.loads(data["about"]["settings"])["shuffle"] == 3 and report.verdict in repr(report)
    frame = report._repr_html_()
    assert frame.startswith("<iframe") and html.unescape(frame.split('srcdoc="')[1].split('"></iframe>')[0]) == page
    with pytest.raises(ringfeed.ConfigError, match="html"):
        report.save(tmp_path / "run.pdf")


def test_a_notebook_shows_which_samples_are_bad(tmp_path: Path) -> None:
    rows = "".join(f"{at},{'<i>' if at % 2 else at}\n" for at in range(60))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}")
    report = ringfeed.open(tmp_path / "t.csv", fields={"y": ringfeed.Numbers("f32")}).verify()
    page = report._repr_html_()
    good = ringfeed.open(tmp_path / "t.csv", fields={"x": ringfeed.Numbers("f32")}).verify()
    assert good._repr_html_() == "<p>60 samples, 0 of them bad</p>"
    assert "60 samples, 30 of them bad" in page and "&lt;i&gt;" in page and "<i>" not in page and "10 more" in page


def test_statistics_do_not_wait_for_a_batch() -> None:
    reached, gate = threading.Event(), threading.Event()

    class Slow:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> dict[str, np.float32]:
            if index == 4:
                reached.set()
                assert gate.wait(60)
            return {"x": np.float32(index)}

    loader = ringfeed.Loader(reader=Slow(), batch_size=4, workers=1, prefetch=1)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(batch.size for batch in loader))
    thread.start()
    assert reached.wait(60)
    # The first batch is taken, and the thread waits for the second.
    while loader.stats()["batches"] < 1:
        time.sleep(0.01)
    assert loader.verdict() is not None and not gate.is_set()
    gate.set()
    thread.join(60)
    assert found == [4, 4] and loader.stats()["batches"] == 2


def test_a_bar_counts_batches(numbers: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    for loops, batches in ((numbers(), 10), (numbers().numpy(), 10), (range(7), 7)):
        shown = io.StringIO()
        progress = ringfeed.progress(loops, file=shown, desc="epoch", ascii=True)  # type: ignore[arg-type]
        assert len(progress) == batches and sum(1 for _ in progress) == batches
        last = shown.getvalue().split("\r")[-1]
        assert (
            last.startswith("epoch: 100%") and f"{batches}/{batches}" in last and ("waited" in last) == (batches == 10)
        )
    report = numbers().verify(on_progress="bar")
    assert report["samples"] == 100
    # Without tqdm the loops are as they are.
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    loader = numbers()
    assert [batch.size for batch in ringfeed.progress(loader)] == [10] * 10
    assert numbers().verify(on_progress="bar")["samples"] == 100


def test_a_bar_over_a_stream_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    shown = io.StringIO()
    loader = ringfeed.from_iterable(lambda: range(25), names=["x"], batch_size=10)
    assert sum(1 for _ in ringfeed.progress(loader, file=shown)) == 3 and "3batch" in shown.getvalue()


# How it stands on the page: widths, texts that are larger than their place, pictures that can't be shown.
OF_A_NOTEBOOK = """(() => {
  const frame = document.querySelector("iframe"), inside = frame.contentDocument;
  return {
    wide: document.documentElement.scrollWidth, width: innerWidth,
    frame: [frame.clientWidth, frame.clientHeight, inside.documentElement.scrollWidth],
    verdict: inside.querySelector(".verdict").innerText,
    charts: [...inside.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect().width),
    pictures: [...document.querySelectorAll("img")].map(img => [img.complete, img.naturalWidth, img.width]),
    tables: [...document.querySelectorAll("table")].map(table => table.innerText),
    requests: performance.getEntriesByType("resource")
      .map(entry => entry.name).filter(name => !name.startsWith("data:")),
  };
})()"""


@pytest.mark.parametrize("width", [900, 500])
def test_a_person_sees_reports_and_batches_in_a_notebook(numbers: Make, tmp_path: Path, width: int) -> None:
    loader = numbers(1000)
    taken = 0
    for _ in range(3):
        for batch in loader:
            taken += batch.size
            # A step: charts are of runs that last.
            time.sleep(0.001)
    assert taken == 3000
    photos = ringfeed.open(FIXTURES / "photos", fields={"image": ringfeed.Image(64, 64)}, batch_size=4)
    batch = next(iter(photos))
    report = loader.report()
    page = report._repr_html_() + batch._repr_html_()
    seen = measured(page, OF_A_NOTEBOOK, tmp_path, width=width)
    assert seen["wide"] <= seen["width"], "nothing is beside the screen"
    across, down, needed = seen["frame"]
    assert needed <= across and across > 0.8 * seen["width"] and down >= 300, seen["frame"]
    # Laid out in two parts, the head and the sentence.
    assert report.verdict.split(": ")[0] in seen["verdict"]
    assert len(seen["charts"]) == 3 and all(chart > 300 for chart in seen["charts"])
    assert len(seen["pictures"]) == batch.size
    assert all(complete and natural == 64 and shown > 0 for complete, natural, shown in seen["pictures"])
    assert "4 samples" in seen["tables"][0] and "image" in seen["tables"][0]
    assert seen["requests"] == [], "nothing comes from elsewhere"
