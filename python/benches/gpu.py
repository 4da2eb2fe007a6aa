"""How long a GPU waits for its loader: ResNet-18 of torchvision trains on JPEG photographs, fed in several ways.

    python python/benches/gpu.py [--images 20000] [--batch 256] [--workers CORES] [--rounds 2] [--record FILE.md]

``ideal`` trains on batches that lie on the GPU already. ``ringfeed`` uploads bytes, which become normalised numbers of
16 bits there. ``DataLoader`` is PyTorch's, with torchvision's transforms, files read by Pillow or by torchvision's own
decoder, one process for each worker, page-locked memory and copies that are not waited for; its processes live for all
epochs, as ringfeed's threads do. All crop and flip randomly to 224 x 224. Photographs are random crops of those in
``fixtures/photos``, 500 x 375, made in a folder of their own. Each figure is that of an epoch, ways in turn, medians of
the rounds; the share of ``ideal`` is how much of the time the GPU was at work.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torchvision
from PIL import Image as Photo
from torchvision.transforms import v2

import ringfeed
from ringfeed import Class, Image

ROOT = Path(__file__).resolve().parents[2]
SIDE, CLASSES = 224, 10
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


def photograph(target: str, number: int) -> None:
    chance = random.Random(number)
    found = sorted((ROOT / "fixtures/photos").iterdir())
    photo = Photo.open(found[number % len(found)]).convert("RGB")
    width = min(photo.width, photo.height * 4 // 3)
    width = int(width * chance.uniform(0.5, 1.0))
    height = width * 3 // 4
    left, top = chance.randint(0, photo.width - width), chance.randint(0, photo.height - height)
    photo.resize((500, 375), box=(left, top, left + width, top + height)).save(target, quality=90)


def photographs(folder: Path, count: int) -> None:
    for label in range(CLASSES):
        (folder / f"class{label}").mkdir(parents=True)
    targets = [str(folder / f"class{number % CLASSES}" / f"{number}.jpg") for number in range(count)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(photograph, targets, range(count), chunksize=16))


def by_ringfeed(folder: Path, batch: int, workers: int) -> ringfeed.Loader:
    augment = ["random_resized_crop", "horizontal_flip"]
    fields = {"image": Image(SIDE, SIDE, dtype="u8", augment=augment), "label": Class()}
    settings: dict[str, Any] = {"batch_size": batch, "shuffle": 1, "workers": workers, "last_batch": "drop"}
    transforms = [
        {"kind": "cast", "tensor": "image", "dtype": "bf16"},
        {"kind": "normalise", "tensor": "image", "normaliser": "imagenet"},
    ]
    return ringfeed.open(folder, fields=fields, device="cuda:0", transforms=transforms, **settings)


def by_data_loader(folder: Path, batch: int, workers: int, pillow: bool) -> Batches:
    steps = [v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip()]
    if pillow:
        photos = torchvision.datasets.ImageFolder(folder, v2.Compose([*steps, v2.PILToTensor()]))
    else:
        photos = torchvision.datasets.ImageFolder(folder, v2.Compose(steps), loader=torchvision.io.decode_image)
    mean = torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1) * 255
    deviation = torch.tensor(DEVIATION, device="cuda").view(1, 3, 1, 1) * 255
    loader = torch.utils.data.DataLoader(
        photos, batch, shuffle=True, num_workers=workers, pin_memory=True, drop_last=True, persistent_workers=True
    )

    class Uploaded:
        def __iter__(self) -> Any:
            for image, label in loader:
                image = image.to("cuda", non_blocking=True)
                yield ((image - mean) / deviation).bfloat16(), label.to("cuda", non_blocking=True)

    return Uploaded()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet18(num_classes=CLASSES).to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step(image: torch.Tensor, label: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(
                model(image.contiguous(memory_format=torch.channels_last)), label.long()
            )
        loss.backward()
        optimizer.step()

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "photos"
        photographs(folder, args.images)
        images = torch.randn(4, args.batch, 3, SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        labels = torch.randint(CLASSES, (4, args.batch), device="cuda")
        held = [(images[at % 4], labels[at % 4]) for at in range(args.images // args.batch)]
        ours = by_ringfeed(folder, args.batch, args.workers)
        by_pillow, by_torch = (by_data_loader(folder, args.batch, args.workers, pillow) for pillow in (True, False))
        ways: dict[str, Callable[[], Batches]] = {
            "ideal": lambda: held,
            "ringfeed": ours.torch,
            "ringfeed, no training": ours.torch,
            "DataLoader, Pillow": lambda: by_pillow,
            "DataLoader, torchvision": lambda: by_torch,
        }
        rates: dict[str, list[float]] = defaultdict(list)
        for turn in range(args.rounds + 1):
            for name, batches in ways.items():
                torch.cuda.synchronize()
                begin, seen = time.perf_counter(), 0
                for image, label in batches():
                    if not name.endswith("no training"):
                        step(image, label)
                    seen += len(label)
                torch.cuda.synchronize()
                if turn > 0:  # The first one warms up.
                    rates[name].append(seen / (time.perf_counter() - begin))

    ideal = median(rates["ideal"])
    card = torch.cuda.get_device_name(0)
    names = (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    processor = next(names, "unknown processor")
    lines = [
        f"# {date.today()}: a GPU and its loader",
        "",
        f"- Machine: {card}, {processor}, {args.workers} workers, {platform.system()} {platform.release()}",
        f"- PyTorch {torch.__version__}, torchvision {torchvision.__version__}, ringfeed {ringfeed.__version__}",
        f"- Command: `python python/benches/gpu.py {' '.join(sys.argv[1:])}`".rstrip("` ") + "`",
        "",
        " ".join(" ".join(__doc__.split("\n\n")[2:]).replace("``", "`").split()),
        "",
        "| way | images/s | share of ideal |",
        "|---|---:|---:|",
    ]
    lines += [f"| {name} | {median(rates[name]):.0f} | {median(rates[name]) / ideal:.3f} |" for name in ways]
    text = "\n".join(lines)
    print(text)
    print(f"\nringfeed's own words: {ours.verdict()}")
    if args.record:
        args.record.write_text(text + "\n")


if __name__ == "__main__":
    main()
