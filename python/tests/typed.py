"""What a type checker must accept of those who use the package, and what it must refuse."""

from __future__ import annotations

from collections.abc import Mapping

import ringfeed
from ringfeed import Class, Image, Numbers


def good() -> None:
    fields = {"image": Image(8, 8, augment=["horizontal_flip"], from_="jpg"), "label": Class(["a", "b"])}
    loader = ringfeed.open("photos", batch_size=64, shuffle=42, fields=fields, shard="auto", hold=4)
    table: Mapping[str, ringfeed.Tensor] = next(iter(loader))
    shape: tuple[int, ...] = table["image"].shape
    count: int = len(loader) + len(shape) + loader.epoch
    loader.load_state_dict(loader.state_dict())
    ringfeed.Loader({"sources": []}, yields=lambda batch: batch.size + count)
    for image, label in loader.torch():
        print(image, label)
    first: float = float(table["image"]) + table["image"][0, 0].sum() + len([row for row in table["label"]])
    for arrays in loader.numpy(yields=lambda arrays: arrays["image"]):
        print(arrays, first, table["label"] == 3)
    ringfeed.mix({"web": 0.7, "books": 0.3}, seed=42).report(note=1).save("run.html")
    for batch in ringfeed.progress(ringfeed.from_table(object())):
        print(batch)
    try:
        assert ringfeed.verify("photos", on_progress=lambda done, bad, all: None)
    except ringfeed.ConfigError as error:
        line: int | None = error.line
        print(line)


def bad() -> None:
    ringfeed.mix({"web": "much"})  # type: ignore[dict-item]
    ringfeed.verify("photos", on_progress="line")  # type: ignore[arg-type]
    ringfeed.Loader(shard="all")  # type: ignore[arg-type]
    ringfeed.Loader(on_hold="wait")  # type: ignore[arg-type]
    ringfeed.Loader(["photos"])  # type: ignore[arg-type]
    Image("8", 8)  # type: ignore[arg-type]
    Numbers(shape=3)  # type: ignore[arg-type]
    ringfeed.open("photos").state()  # type: ignore[attr-defined]
