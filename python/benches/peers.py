"""One workload of the comparison with other loaders, through Python, in one process: ``benches/peers.sh`` has it called
by the program that calls the others too, in the folder of that harness, whose own loop measures it.

``--rust PROGRAM`` is the same comparison's program in Rust, which says the settings of a workload. ``train`` feeds the
harness's own network, with settings that stand here; as with the others, it names the loader's threads (``--threads``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ringfeed
from ringfeed import Class, Image

# Pixels a side of what the network of `train` sees.
SIDE = 96
# Batches that the harness keeps of the first epoch, for as long as it runs.
KEPT = 8


def trained(asked: argparse.Namespace, threads: int) -> ringfeed.Loader:
    augment = ["random_resized_crop", "horizontal_flip"]
    fields = {"image": Image(SIDE, SIDE, dtype="u8", augment=augment), "label": Class()}
    folder = os.path.join(asked.data, "imagenet")
    return ringfeed.open(
        folder, format="images", fields=fields, batch_size=asked.batch, shuffle=20, workers=threads, hold=KEPT + 2
    )


def measured(asked: argparse.Namespace, rust: str) -> ringfeed.Loader:
    line = [rust, "--settings", "--data", asked.data, "--workload", asked.workload, "--batch", str(asked.batch)]
    settings = subprocess.run([*line, "--workers", str(asked.workers)], check=True, capture_output=True, text=True)
    return ringfeed.Loader(json.loads(settings.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust")
    parser.add_argument("--threads", type=int, default=1)
    own, rest = parser.parse_known_args()
    # The harness's modules lie where it calls this, and read the rest of the arguments.
    sys.path.insert(0, os.getcwd())
    sys.argv[1:] = [*rest, "--peer", "ringfeed-python"]
    import common

    asked = common.args()
    versions = {"ringfeed": ringfeed.__version__}

    def epochs(loader: ringfeed.Loader) -> Callable[[], Any]:
        return lambda: iter(loader.torch())

    if asked.workload != "train":
        assert own.rust is not None, "--rust says which program knows the settings"
        rust = own.rust
        common.drive(asked, lambda: epochs(measured(asked, rust)), versions)
        return
    import peer_image
    import peer_train

    peer_image.PEERS["ringfeed-python"] = lambda given: (epochs(trained(given, given.workers)), versions)
    peer_train.LOADERS["ringfeed-python"] = ("ringfeed-python", own.threads)
    peer_train.main()


if __name__ == "__main__":
    main()
