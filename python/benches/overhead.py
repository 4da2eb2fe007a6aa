"""What Python adds to a batch: the time of a loop over tiny batches, less that of the same loop in Rust.

    python python/benches/overhead.py [--batches 200000]

Rust's figure comes from ``cargo bench --bench hand_off``. Best of five rounds; say with a
result what else the machine did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import ringfeed


def best(rounds: int, loader: ringfeed.Loader, form: object, batches: int) -> float:
    """Microseconds for each batch in the fastest of some epochs."""
    fastest = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        count = sum(1 for _ in form)  # type: ignore[attr-defined]
        assert count == batches
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / batches * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare = time.perf_counter() - started
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import ringfeed"], check=True)
    print(f"import ringfeed: {(time.perf_counter() - started - bare) * 1e3:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, np.zeros((4 * args.batches, 2), np.float32))
        source = {"format": "npy", "path": path, "options": {"name": "x"}}
        loader = ringfeed.Loader(sources=[source], batch_size=4, prefetch=64, workers=1)
        forms: dict[str, object] = {"batches": loader, "tuples of NumPy arrays": loader.numpy()}
        for name, module in (("PyTorch tensors", "torch"), ("JAX arrays", "jax")):
            try:
                __import__(module)
            except ImportError:
                continue
            forms[f"tuples of {name}"] = getattr(loader, module)()
        for name, form in forms.items():
            print(f"{name}: {best(args.rounds, loader, form, args.batches):.2f} us a batch")


if __name__ == "__main__":
    main()
