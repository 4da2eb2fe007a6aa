"""What Python adds to the loader, in one run: rates beside those of the same workload in Rust, the time to the first
batch beside Rust's, the time of an import, and the time of a loop over tiny batches.

    python python/benches/overhead.py [--rounds 7] [--data FOLDER] [--rust PROGRAM] [--record FILE.md]

Rates and first batches are those of processes, Rust's and Python's in turn, whose settings are the same text: 64
images, 256 rows or 256 windows of tokens a batch. ``--data`` is a folder of the comparison with other loaders
(``benches/peers.sh``); without it a small one is made. ``--rust`` is the program of ``cargo bench --bench peers``;
without it cargo builds it. All figures are medians of the rounds, each beside what it is to be. A loop's own time is
that of its thread on a core, which other programs move least. ``--record`` writes the same as a page for
``benches/record``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# The least share of Rust's rate.
WORKLOADS = {"image-train-u8": 0.97, "csv": 0.9, "tokens": 0.9}
EPOCHS = {"image-train-u8": 5, "csv": 15, "tokens": 3}
# Batches of the loop whose own time is measured.
TINY = 50_000

MOST_IMPORT_MS = 50.0
MOST_FIRST_MS = 100.0
MOST_OWN_US = 20.0


def workload(rust: str, name: str, data: str) -> dict[str, float]:
    """In a process of its own: the first batch, from before the import on, and the median epoch's rate."""
    line = [rust, "--settings", "--data", data, "--workload", name]
    settings = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    try:
        import torch  # noqa: F401

        form = "torch"
    except ImportError:
        import numpy  # noqa: F401

        form = "numpy"
    begin = time.perf_counter()
    import ringfeed

    loader = ringfeed.Loader(settings)
    loops = getattr(loader, form)("tuple")
    samples, first = 0, 0.0
    for arrays in loops:
        first = first or time.perf_counter() - begin
        samples += len(arrays[0])
    seconds = []
    for _ in range(EPOCHS[name]):
        begin = time.perf_counter()
        for _ in loops:
            pass
        seconds.append(time.perf_counter() - begin)
    return {"rate": samples / median(seconds), "first": first * 1e3}


IMPORT = """
from time import perf_counter, process_time
begin, begin_here = perf_counter(), process_time()
import ringfeed
print(perf_counter() - begin, process_time() - begin_here)
"""


def to_import() -> tuple[float, float]:
    """Milliseconds by the clock, and of the process's time."""
    done = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    wall, here = map(float, done.stdout.split())
    return wall * 1e3, here * 1e3


def loop(batches: Iterable[object], count: int) -> tuple[float, float]:
    """Microseconds for each batch of an epoch: by the clock, and of this thread's time."""
    begin, begin_here = time.perf_counter(), time.thread_time()
    assert sum(1 for _ in batches) == count
    wall, here = time.perf_counter() - begin, time.thread_time() - begin_here
    return wall / count * 1e6, here / count * 1e6


def tiny() -> dict[str, tuple[float, float]]:
    """In a process of its own: the loop's time by the form of batches."""
    import numpy as np

    import ringfeed

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, np.zeros((4 * TINY, 2), np.float32))
        source = {"format": "npy", "path": path, "fields": {"x": "array"}}
        loader = ringfeed.Loader(sources=[source], batch_size=4, prefetch=64, workers=1)
        forms: dict[str, Iterable[object]] = {"batches": loader, "tuples of NumPy arrays": loader.numpy()}
        for name, module in (("PyTorch tensors", "torch"), ("JAX arrays", "jax")):
            try:
                __import__(module)
            except ImportError:
                continue
            forms[f"tuples of {name}"] = getattr(loader, module)()
        found = {}
        for name, form in forms.items():
            loop(form, TINY)
            found[name] = loop(form, TINY)
        return found


def built() -> str:
    """The program in Rust."""
    line = ["cargo", "bench", "--no-run", "--bench", "peers", "--message-format", "json"]
    done = subprocess.run(line, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    for said in map(json.loads, done.stdout.splitlines()):
        if said.get("executable") and said["target"]["name"] == "peers":
            return str(said["executable"])
    raise SystemExit("cargo built no program")


def last_line(line: list[str]) -> Any:
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def machine() -> str:
    model = "an unknown processor"
    for said in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if said.startswith("model name"):
            model = said.partition(":")[2].strip()
            break
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {system}"


class Table:
    """What was measured beside what it is to be."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    def add(self, what: str, figure: str, bound: str, is_met: bool) -> None:
        self.rows.append((what, figure, bound, "yes" if is_met else "no"))
        print(f"{what}: {figure} ({bound}: {self.rows[-1][3]})", flush=True)

    def page(self, about: list[str]) -> str:
        head = ["| what | measured | to be | is so |", "| --- | ---: | ---: | --- |"]
        return "\n".join([*about, "", *head, *(f"| {' | '.join(row)} |" for row in self.rows)]) + "\n"


def measure(rust: str, data: str, rounds: int, table: Table) -> None:
    figures: dict[Any, list[float]] = defaultdict(list)
    here = [sys.executable, __file__, "--one"]
    for _ in range(rounds):
        for name in WORKLOADS:
            line = [rust, "--data", data, "--workload", name, "--epochs", str(EPOCHS[name])]
            there = last_line(line)
            figures[name, "rust"].append(there["samples"] / there["seconds"])
            figures[name, "rust first"].append(there["ttfb"] * 1e3)
            ours = last_line([*here, name, "--rust", rust, "--data", data])
            figures[name, "python"].append(ours["rate"])
            figures[name, "python first"].append(ours["first"])
        for form, (wall, own) in last_line([*here, "tiny"]).items():
            figures[form, "wall"].append(wall)
            figures[form, "own"].append(own)
        wall, own = to_import()
        figures["import", "wall"].append(wall)
        figures["import", "own"].append(own)
    middle = {key: median(values) for key, values in figures.items()}
    for name, least in WORKLOADS.items():
        python, there = middle[name, "python"], middle[name, "rust"]
        said = f"{python / there:.3f} of Rust's ({python:,.0f} of {there:,.0f} samples/s)"
        table.add(f"{name}, rate", said, f"at least {least}", python >= least * there)
    for name in WORKLOADS:
        more = middle[name, "python first"] - middle[name, "rust first"]
        said = f"{more:.1f} ms more than Rust's {middle[name, 'rust first']:.1f} ms, the import among them"
        table.add(f"{name}, first batch", said, f"less than {MOST_FIRST_MS:.0f} ms", more < MOST_FIRST_MS)
    wall, own = middle["import", "wall"], middle["import", "own"]
    said = f"{wall:.1f} ms by the clock, {own:.1f} ms on the core"
    table.add("import ringfeed", said, f"less than {MOST_IMPORT_MS:.0f} ms", wall < MOST_IMPORT_MS)
    for form in [key[0] for key in middle if key[1] == "own" and key[0] != "import"]:
        own, wall = middle[form, "own"], middle[form, "wall"]
        said = f"{own:.2f} us a batch on the core, {wall:.2f} us by the clock"
        table.add(f"loop over {form}", said, f"less than {MOST_OWN_US:.0f} us", own < MOST_OWN_US)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data")
    parser.add_argument("--rust")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(tiny() if args.one == "tiny" else workload(args.rust, args.one, args.data)))
        return
    import ringfeed

    rust, table = args.rust or built(), Table()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        data = args.data
        if data is None:
            data = folder
            subprocess.run([rust, "--make", folder], check=True)
        measure(rust, data, args.rounds, table)
    given = "a small set made for it" if args.data is None else "the comparison's own"
    about = [
        f"# What Python adds, {date.today()}",
        "",
        f"{machine()}. Ringfeed {ringfeed.__version__}; data: {given}. Medians of {args.rounds} rounds, in which Rust",
        f"and Python took turns. The load before was {load:.2f}, and {os.getloadavg()[0]:.2f} behind.",
        "",
        "`python python/benches/overhead.py` says what is measured.",
    ]
    if args.record is not None:
        args.record.write_text(table.page(about))


if __name__ == "__main__":
    main()
