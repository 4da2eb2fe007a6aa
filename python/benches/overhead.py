"""What Python adds: the time of a loop over tiny batches, by the clock and on the core of the thread that loops, and of
``import ringfeed``.

    python python/benches/overhead.py [--batches 50000] [--rounds 7]

Medians of the rounds. The time on the core is our own overhead, less than 20 us a batch: it does not grow while other
programs run, or while the loader is waited for. ``cargo bench --bench hand_off`` is the same loop in Rust. Say with a
result what else the machine did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np

import ringfeed

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    walls, heres = zip(*(to_import() for _ in range(args.rounds)))
    print(f"import ringfeed: {median(heres):.1f} ms on the core, {median(walls):.1f} ms by the clock")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, np.zeros((4 * args.batches, 2), np.float32))
        source = {"format": "npy", "path": path, "options": {"name": "x"}}
        loader = ringfeed.Loader(sources=[source], batch_size=4, prefetch=64, workers=1)
        forms: dict[str, Iterable[object]] = {"batches": loader, "tuples of NumPy arrays": loader.numpy()}
        for name, module in (("PyTorch tensors", "torch"), ("JAX arrays", "jax")):
            try:
                __import__(module)
            except ImportError:
                continue
            forms[f"tuples of {name}"] = getattr(loader, module)()
        for name, form in forms.items():
            loop(form, args.batches)
            walls, heres = zip(*(loop(form, args.batches) for _ in range(args.rounds)))
            print(f"{name}: {median(heres):.2f} us a batch on the core, {median(walls):.2f} us by the clock")


if __name__ == "__main__":
    main()
