"""Every setting of the library does from Python what its name says: each has a test, and each test a setting."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import Array, Class, Image, Numbers, _ringfeed

IRIS = FIXTURES / "iris-species.csv"
SIZES = {"sizes": Numbers("f32", from_=[0, 1, 2, 3])}


def iris(**settings: Any) -> ringfeed.Loader:
    return ringfeed.open(IRIS, **{"fields": {**SIZES, "species": Class()}, **settings})


def ids(loader: ringfeed.Loader) -> list[int]:
    return [sample for batch in loader for sample in batch.sample_ids]


def species(loader: ringfeed.Loader) -> Counter[str]:
    return Counter(batch["species"].classes[code] for batch in loader for code in batch["species"].tolist())


def table(folder: Path, rows: list[str], name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(rows) + "\n")
    return path


def bad_rows(folder: Path, **settings: Any) -> ringfeed.Loader:
    path = table(folder, ["x,y", "1,1", "2,none", "3,3", "4,4"])
    return ringfeed.open(path, fields={"y": Numbers("f32")}, batch_size=4, **settings)


def sources(folder: Path) -> None:
    for name, rows in (("x", 6), ("y", 6), ("longer", 8)):
        np.save(folder / f"{name}.npy", np.arange(float(rows)))

    def of(*names: str, **settings: Any) -> ringfeed.Loader:
        return ringfeed.Loader(
            sources=[{"format": "npy", "path": folder / f"{name}.npy", "fields": {name: "array"}} for name in names],
            **settings,
        )

    batch = next(iter(of("x", "y")))
    assert list(batch) == ["x", "y"] and batch["x"].tolist() == batch["y"].tolist()
    with pytest.raises(ringfeed.Error, match="records"):
        len(of("x", "longer"))
    assert ids(of("x", "longer", shorter=True)) == list(range(6))


def source(folder: Path) -> None:
    assert len(ids(ringfeed.Loader(source={"path": IRIS}))) == 150
    assert len(ids(ringfeed.Loader(source={"format": "csv", "path": [IRIS, IRIS]}))) == 300


def fields(folder: Path) -> None:
    assert [tensor["name"] for tensor in iris().tensors] == ["sizes", "species"]
    others = {"rest": Numbers("f32", from_="*", except_=[0]), "species": Class(dtype="u8")}
    batch = next(iter(ringfeed.open(IRIS, fields=others)))
    assert batch["rest"].shape == (32, 3) and batch["species"].numpy().dtype == np.uint8
    photos = {"photo": Image(dtype="u8", jpeg="auto", strict=True, max_pixels=1 << 20)}
    batch = next(iter(ringfeed.open(FIXTURES / "photos", fields=photos, batch_size=2)))
    assert list(batch) == ["photo", "photo_mask"] and batch["photo"].shape[:2] == (2, 3)
    with pytest.raises(ringfeed.Error, match="max_pixels"):
        next(iter(ringfeed.open(FIXTURES / "photos", fields={"photo": Image(max_pixels=9)})))
    path = FIXTURES / "raw" / "raw.tfrecord"
    both = {name: Array((2, 3), stored="f32", endian=name, from_=f"f32-{name}") for name in ("little", "big")}
    batch = next(iter(ringfeed.open(path, fields=both)))
    assert batch["big"].numpy().dtype == np.float32 and batch["big"].shape == (3, 2, 3)
    np.testing.assert_array_equal(batch["big"].numpy(), batch["little"].numpy())


def prepared(folder: Path) -> None:
    recipe = ringfeed.Recipe({"petal_length": ringfeed.prepare.number(scale="standardise")})
    recipe.fit(ringfeed.open(IRIS)).save(folder / "prepared.json")
    features = [batch["features"].numpy().copy() for batch in ringfeed.open(IRIS, prepared=folder / "prepared.json")]
    assert abs(np.concatenate(features).mean()) < 1e-6


def prepare(folder: Path) -> None:
    # What `ringfeed fit` reads from a file; a loader only looks whether it makes sense.
    recipe = {"columns": {"petal_length": {"number": {}}}}
    with pytest.raises(ringfeed.ConfigError, match="prepared"):
        ringfeed.open(IRIS, prepare=recipe)


def mix(folder: Path) -> None:
    few = table(folder, ["x", *map(str, range(10))], "few.csv")
    many = table(folder, ["x", *map(str, range(100, 140))], "many.csv")
    settings: dict[str, Any] = {"fields": {"x": Numbers("f32")}, "samples_per_epoch": 160, "batch_size": 40}
    loader = ringfeed.mix({str(few): 0.75, str(many): 0.25}, seed=5, **settings)
    drawn = Counter(value for batch in loader for value in batch["x"].tolist())
    assert drawn == {**dict.fromkeys(range(10), 12), **dict.fromkeys(range(100, 140), 1)}
    both = [{"format": "csv", "path": few}, {"format": "csv", "path": many}]
    other = ringfeed.Loader(sources=both, mix=[0.75, 0.25], shuffle=5, **settings)
    assert ids(other) == ids(ringfeed.mix([(few, 3), (many, 1)], seed=5, **settings))
    named = ringfeed.Loader(mix={str(few): 0.75, str(many): 0.25}, shuffle=5, **settings)
    assert ids(named) == ids(ringfeed.mix([(few, 3), (many, 1)], seed=5, **settings))
    parts = [ids(ringfeed.mix([(few, 3), (many, 1)], seed=5, shard=(rank, 4), **settings)) for rank in range(4)]
    assert sorted(sum(parts, [])) == sorted(ids(other))
    with pytest.raises(ringfeed.ConfigError, match="mix: 1 weights for 2 sources"):
        ringfeed.Loader(sources=both, mix=[1], fields={"x": Numbers("f32")})


def batch_size(folder: Path) -> None:
    assert [batch.size for batch in iris(batch_size=40)] == [40, 40, 40, 30]


def shuffle(folder: Path) -> None:
    assert ids(iris(shuffle=1)) != ids(iris(shuffle=2)) and sorted(ids(iris(shuffle=1))) == ids(iris())
    assert ids(iris(shuffle={"seed": 1, "blocks": 2})) == ids(iris(shuffle=1, shuffle_blocks=2))


def shuffle_blocks(folder: Path) -> None:
    loader = ringfeed.open(table(folder, ["x", *map(str, range(5000))]), shuffle=1, shuffle_blocks=1, batch_size=100)
    first = ids(loader)[:500]
    assert max(first) - min(first) < 1024 and first != sorted(first)


def split(folder: Path) -> None:
    def part(name: str) -> set[int]:
        return set(ids(iris(split={"train": 0.5, "validation": 0.25, "test": 0.25, "seed": 3, "part": name})))

    train, validation, test = part("train"), part("validation"), part("test")
    assert len(train | validation | test) == len(train) + len(validation) + len(test) == 150 and len(train) > 50


def folds(folder: Path) -> None:
    held = [set(ids(iris(folds={"fold": fold, "count": 3, "held_out": True}))) for fold in range(3)]
    assert sum(map(len, held)) == len(set().union(*held)) == 150
    assert set(ids(iris(folds={"fold": 0, "count": 3}))) == held[1] | held[2]


def filter_(folder: Path) -> None:
    assert species(iris(filter="species != 'setosa' and petal_length >= 1.5")) == {"versicolor": 50, "virginica": 50}
    assert species(iris(filter="len(species) > 9")) == {"versicolor": 50}
    (folder / "lists.jsonl").write_text('{"ids": [1, 2, 3]}\n{"ids": []}\n{"ids": [4]}\n')
    lists = ringfeed.open(folder / "lists.jsonl", fields={"ids": Numbers("i64")}, filter="len(ids) > 0")
    assert next(iter(lists))["ids"].numpy().tolist() == [[1, 2, 3], [4, 0, 0]]


def stratify(folder: Path) -> None:
    part = {"train": 0.8, "test": 0.2, "part": "test"}
    assert set(species(iris(split=part, stratify="species")).values()) == {10}


def group(folder: Path) -> None:
    rows = ["x,who", *(f"{at},p{at // 5}" for at in range(100))]
    path = table(folder, rows)
    halves = [
        set(
            sample // 5
            for sample in ids(ringfeed.open(path, split={"train": 0.5, "test": 0.5, "part": part}, group="who"))
        )
        for part in ("train", "test")
    ]
    assert not halves[0] & halves[1] and halves[0] | halves[1] == set(range(20))


def class_balanced(folder: Path) -> None:
    path = table(folder, ["x,kind", *(f"{at},{'rare' if at < 10 else 'common'}" for at in range(200))])
    loader = ringfeed.open(
        path, fields={"kind": Class()}, class_balanced=True, shuffle=1, samples_per_epoch=2000, batch_size=100
    )
    drawn = Counter(code for batch in loader for code in batch["kind"].tolist())
    assert 850 < drawn[0] < 1150


def weight_by(folder: Path) -> None:
    path = table(folder, ["x,often", *(f"{at},{at % 4}" for at in range(200))])
    loader = ringfeed.open(path, weight_by="often", shuffle=1, samples_per_epoch=6000, batch_size=100)
    drawn = Counter(sample % 4 for sample in ids(loader))
    assert drawn[0] == 0 and 800 < drawn[1] < 1200 and 2800 < drawn[3] < 3200
    assert loader.plan()["weight_by"] == "often"
    with pytest.raises(ringfeed.ConfigError, match="weight_by: .* seed"):
        ringfeed.open(path, weight_by="often")


def bucket(folder: Path) -> None:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps({"ids": list(range(1 + at % 40))}) + "\n" for at in range(200)))
    loader = ringfeed.open(
        path,
        fields={"ids": Numbers("i64", from_="ids")},
        bucket={"by": "ids", "bounds": [10, 20, 40], "tokens_per_batch": 200},
        shuffle=1,
    )
    shapes = [batch["ids"].shape for batch in loader]
    assert sum(rows for rows, _ in shapes) == 200 and all(rows * width <= 200 for rows, width in shapes)
    assert {width for _, width in shapes} != {40}


def samples_per_epoch(folder: Path) -> None:
    loader = iris(samples_per_epoch=60, shuffle=1)
    seen = [ids(loader) for _ in range(5)]
    assert [len(epoch) for epoch in seen] == [60] * 5 and set(Counter(sum(seen, [])).values()) == {2}


def shard(folder: Path) -> None:
    parts = [ids(iris(shard={"index": rank, "count": 3}, shuffle=1)) for rank in range(3)]
    assert sorted(sum(parts, [])) == list(range(150))


def remainder(folder: Path) -> None:
    def of(rank: int, **settings: Any) -> int:
        return len(ids(iris(shard=(rank, 4), **settings)))

    assert [of(rank) for rank in range(4)] == [38] * 4 and [of(rank, remainder="drop") for rank in range(4)] == [37] * 4


def last_batch(folder: Path) -> None:
    sizes = {how: [batch.size for batch in iris(batch_size=100, last_batch=how)] for how in ("keep", "drop", "pad")}
    assert sizes == {"keep": [100, 50], "drop": [100], "pad": [100, 100]}


def bad_records(folder: Path) -> None:
    with pytest.raises(ringfeed.DataError):
        list(bad_rows(folder))
    (batch,) = list(bad_rows(folder, bad_records="skip"))
    assert batch["y"].tolist() == [1, 3, 4] and batch.bad_records == 1
    (batch,) = list(bad_rows(folder, bad_records="replace"))
    assert batch.size == 4 and batch.bad_records == 1
    with pytest.raises(ringfeed.TooManyBadError):
        list(bad_rows(folder, bad_records={"skip": {"share": 0.1, "count": 0}}))


def normalise(folder: Path) -> None:
    plain, scaled = (
        next(iter(iris(normalise=how)))["sizes"].numpy()
        for how in ({}, {"sizes": {"kind": "standardise", "axis": None, "mean": [1.0], "deviation": [0.5]}})
    )
    np.testing.assert_allclose(scaled, (plain - 1) / 0.5, rtol=1e-6)
    linear = next(iter(iris(normalise={"sizes": {"kind": "linear", "scale": 0.5, "bias": 1.0}})))
    np.testing.assert_allclose(linear["sizes"].numpy(), plain * 0.5 + 1, rtol=1e-6)


def augment(folder: Path) -> None:
    plain, noisy = (
        next(iter(iris(augment=how)))["sizes"].numpy() for how in ({}, {"sizes": [{"kind": "noise", "deviation": 0.1}]})
    )
    assert 0.05 < (noisy - plain).std() < 0.2


def transforms(folder: Path) -> None:
    plain, logs = (
        next(iter(iris(transforms=how)))["sizes"].numpy() for how in ([], [{"kind": "log1p", "tensor": "sizes"}])
    )
    np.testing.assert_allclose(logs, np.log1p(plain), rtol=1e-5)
    rows = folder / "rows.jsonl"
    rows.write_text('{"x": [0.5, 2.0], "at": [0, 3]}\n{"x": [1.0, 4.0], "at": [2, 9]}\n')
    fields = {"x": Numbers("f32", from_="x"), "at": Numbers("i64", from_="at")}
    dense = [{"kind": "dense", "tensor": "x", "indices": "at", "columns": 4}]
    batch = next(iter(ringfeed.open(rows, fields=fields, transforms=dense)))
    assert batch["x"].numpy().tolist() == [[0.5, 0, 0, 2.0], [0, 0, 1.0, 0]]
    image = {"image": Image(6, 8, dtype="u8")}
    photos = ringfeed.open(FIXTURES / "photos", fields=image)
    turned = ringfeed.open(
        FIXTURES / "photos", fields=image, transforms=[{"kind": "layout", "tensor": "image", "order": "nhwc"}]
    )
    before, after = (next(iter(loader))["image"].numpy() for loader in (photos, turned))
    assert (before.transpose(0, 2, 3, 1) == after).all()
    with pytest.raises(ringfeed.SchemaError, match="three dimensions"):
        next(iter(iris(transforms=[{"kind": "flip", "tensor": "sizes", "by": "species"}])))


def workers(folder: Path) -> None:
    assert iris(workers=3).stats()["workers"]["threads"] == 3


def worker_cores(folder: Path) -> None:
    core = min(os.sched_getaffinity(0))
    assert ids(iris(worker_cores=[core])) == list(range(150))
    with pytest.raises(ringfeed.ConfigError, match="worker_cores"):
        iris(worker_cores=["first"])


def worker_nice(folder: Path) -> None:
    loader = iris(worker_nice=3)
    loop = iter(loader)
    next(loop)
    nices = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # It may have ended meanwhile.
            nices.append(os.getpriority(os.PRIO_PROCESS, int(thread)))
    assert 3 in nices and 150 - 32 == sum(batch.size for batch in loop)


def worker_share(folder: Path) -> None:
    assert ids(iris(worker_share=0.5)) == list(range(150))
    with pytest.raises(ringfeed.ConfigError, match="worker_share"):
        iris(worker_share=2)


def prefetch(folder: Path) -> None:
    assert iris(prefetch=7).stats()["queue"]["prefetch"] == 7


def across_epochs(folder: Path) -> None:
    for across in (False, True):
        loader = iris(across_epochs=across, shuffle=1, batch_size=50)
        assert [len(ids(loader)) for _ in range(2)] == [150, 150] and loader.plan()["across_epochs"] is across


def fetch_limit(folder: Path) -> None:
    loader = iris(fetch_limit={"time_ms": 60_000, "replacements": 1})
    assert len(ids(loader)) == 150 and loader.plan()["fetch_limit"] == {"time_ms": 60_000, "replacements": 1}
    with pytest.raises(ringfeed.ConfigError, match="fetch_limit"):
        iris(fetch_limit={"time_ms": 0, "replacements": 1})


def shield(folder: Path) -> None:
    loader = iris(shield=True, shuffle=1)
    assert ids(loader) == ids(iris(shuffle=1)) and loader.plan()["workers"] == 0


def trace(folder: Path) -> None:
    loader = iris(trace=folder / "trace.json")
    assert len(ids(loader)) == 150
    loader.close()
    assert json.loads((folder / "trace.json").read_text())


def windows(folder: Path) -> None:
    path = table(folder, ["x", *map(str, range(20))])
    fields = {
        "before": {"from": "x", "numbers": "f32"},
        "after": {"from": "x", "numbers": "f32", "role": "label"},
    }
    loader = ringfeed.open(path, fields=fields, windows={"length": 4, "horizon": 2}, batch_size=15)
    batch = next(iter(loader))
    assert batch["before"].tolist()[3] == [3, 4, 5, 6] and batch["after"].tolist()[3] == [7, 8]


def sequences(folder: Path) -> None:
    path = table(folder, ["id,x", "a,1", "a,2", "b,3"])
    loader = ringfeed.open(path, fields={"x": "f32"}, sequences={"by": "id"}, batch_size=2)
    batch = next(iter(loader))
    assert batch["x"].tolist() == [[1, 2], [3, 0]] and batch["steps_mask"].tolist() == [[1, 1], [1, 0]]


def metrics(folder: Path) -> None:
    # Served by a feature of the library, which the package may have been built without.
    with pytest.raises(ringfeed.ConfigError, match="metrics"):
        iris(metrics="nowhere")


def memory(folder: Path) -> None:
    with pytest.raises(ringfeed.ConfigError, match="budget_bytes"):
        iris(memory={"budget_byte": 1})


def memory_budget_bytes(folder: Path) -> None:
    with pytest.raises(ringfeed.BudgetError):
        list(iris(memory={"budget_bytes": 4096}))


def memory_overflow(folder: Path) -> None:
    # No slot may hold more than its share of the budget; what does not fit comes from ordinary memory.
    small = {"budget_bytes": 60_000, "overflow": "spill"}
    assert len(ids(iris(memory=small, batch_size=150, prefetch=4, hold=0))) == 150
    with pytest.raises(ringfeed.ConfigError, match="overflow"):
        iris(memory={"overflow": "wait"})


def memory_kind(folder: Path) -> None:
    kinds = {"temp_file": {"limit_bytes": 1 << 20, "folder": str(folder)}}
    assert ids(iris(memory={"kind": kinds})) == list(range(150))
    with pytest.warns(ringfeed.HoldWarning, match="page-locked"):
        assert ids(iris(memory={"kind": {"page_locked": {"device": "host"}}})) == list(range(150))


def memory_lease_wait_ms(folder: Path) -> None:
    loader = iris(memory={"lease_wait_ms": 1}, batch_size=10, hold=0, on_hold="error")
    with pytest.raises(ringfeed.ExhaustedError):
        list(loader)


def memory_close_wait_ms(folder: Path) -> None:
    with iris(memory={"close_wait_ms": 60_000}) as loader:
        next(iter(loader))


TESTS: dict[str, Callable[[Path], None]] = {
    "sources": sources,
    "shorter": sources,
    "source": source,
    "fields": fields,
    "prepared": prepared,
    "prepare": prepare,
    "mix": mix,
    "batch_size": batch_size,
    "shuffle": shuffle,
    "shuffle_blocks": shuffle_blocks,
    "split": split,
    "folds": folds,
    "filter": filter_,
    "stratify": stratify,
    "group": group,
    "class_balanced": class_balanced,
    "weight_by": weight_by,
    "bucket": bucket,
    "samples_per_epoch": samples_per_epoch,
    "shard": shard,
    "remainder": remainder,
    "last_batch": last_batch,
    "bad_records": bad_records,
    "normalise": normalise,
    "augment": augment,
    "transforms": transforms,
    "workers": workers,
    "worker_cores": worker_cores,
    "worker_nice": worker_nice,
    "worker_share": worker_share,
    "prefetch": prefetch,
    "across_epochs": across_epochs,
    "fetch_limit": fetch_limit,
    "shield": shield,
    "trace": trace,
    "windows": windows,
    "sequences": sequences,
    "metrics": metrics,
    "memory": memory,
    "memory.budget_bytes": memory_budget_bytes,
    "memory.overflow": memory_overflow,
    "memory.kind": memory_kind,
    "memory.lease_wait_ms": memory_lease_wait_ms,
    "memory.close_wait_ms": memory_close_wait_ms,
}


def test_each_setting_has_a_test() -> None:
    assert sorted(TESTS) == sorted(_ringfeed.setting_names())


@pytest.mark.parametrize("name", TESTS)
def test_the_setting_does_what_its_name_says(name: str, tmp_path: Path) -> None:
    TESTS[name](tmp_path)
