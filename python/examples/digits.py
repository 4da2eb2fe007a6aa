"""A small network of PyTorch learns handwritten digits. Stop it with Ctrl-C and start it again: it goes on with the
very next batch.

    python python/examples/digits.py [--data fixtures/mnist] [--epochs 3] [--checkpoint digits.pt] [--report run.html]

``torchrun --nproc-per-node=2 python/examples/digits.py`` trains on two ranks, each with its part of every batch.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

import ringfeed

# Mean and deviation of the pixels of the training part.
SCALE = {"kind": "standardise", "axis": None, "mean": [33.318], "deviation": [78.567]}


def digits(folder: str, part: str, **settings: Any) -> ringfeed.Loader:
    """Pictures, f32 [n, 28, 28], and labels, i64 [n]."""
    pictures = {"format": "idx", "path": f"{folder}/{part}-images-idx3-ubyte.gz", "fields": {"features": "f32"}}
    labels = {"format": "idx", "path": f"{folder}/{part}-labels-idx1-ubyte.gz", "fields": {"labels": "array"}}
    return ringfeed.Loader(sources=[pictures, labels], normalise={"features": SCALE}, **settings)


def save(place: Path, **parts: Any) -> None:
    """Whole or not at all, whenever the program is stopped."""
    torch.save(parts, place.with_suffix(".new"))
    os.replace(place.with_suffix(".new"), place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fixtures/mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    shard = "auto" if ranks > 1 else None
    train = digits(args.data, "train", batch_size=128 // ranks, shuffle=42, last_batch="pad", shard=shard)
    torch.manual_seed(1)
    network: nn.Module = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    if args.checkpoint is not None and args.checkpoint.exists():
        saved = torch.load(args.checkpoint)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        train.load_state_dict(saved["loader"])
        print(f"goes on at sample {saved['loader']['position']} of epoch {saved['loader']['epoch']}")
    model = nn.parallel.DistributedDataParallel(network) if ranks > 1 else network

    def keep() -> None:
        if args.checkpoint is not None and int(os.environ.get("RANK", "0")) == 0:
            save(
                args.checkpoint,
                network=network.state_dict(),
                optimizer=optimizer.state_dict(),
                loader=train.state_dict(),
            )

    loss = torch.zeros(())
    for epoch in range(train.epoch, args.epochs):
        try:
            for pictures, labels in ringfeed.progress(train.torch(), desc=f"epoch {epoch}"):
                loss = nn.functional.cross_entropy(model(pictures), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        finally:
            keep()
    with torch.no_grad():
        answers = [(network(x).argmax(1) == y).float() for x, y in digits(args.data, "t10k", batch_size=500).torch()]
    print(f"loss {loss.item():.4f}, {100 * torch.cat(answers).mean():.2f} % of the test's digits are right")
    print(train.verdict())
    if args.report is not None:
        train.report(epochs=args.epochs).save(args.report)
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
