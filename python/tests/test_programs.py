"""Programs that users write, which are to stay as short as they are here: each runs as it stands, on real data."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import shutil
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed

NAMES = """
import numpy, ringfeed
from ringfeed import Audio, Boxes, Class, Image, IndexMap, Numbers, Text, Tokenizer
from ringfeed.prepare import Prepared, Recipe, category, date, number
"""


def play(program: str, lines: int, **given: Any) -> dict[str, Any]:
    """Runs a program of at most so many lines, in the current folder, and gives its names."""
    program = program.strip("\n")
    assert len(program.splitlines()) <= lines, program
    names = dict(given)
    exec(NAMES + program, names)
    return names


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def photos(here: Path) -> Path:
    for kind, name in (("space", "rocket.jpg"), ("people", "astronaut.png"), ("people", "coffee.png")):
        (here / "photos/train" / kind).mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / "photos" / name, here / "photos/train" / kind)
    return here


class Steps(list[Any]):
    """The trainer: keeps what it was given."""

    def __call__(self, *arrays: Any) -> None:
        self.append([np.asarray(array).copy() for array in arrays])


def test_photos_in_class_folders_into_a_trainer(photos: Path) -> None:
    pytest.importorskip("torch")
    step = Steps()
    program = """
train = ringfeed.open("photos/train", batch_size=64, shuffle=42,
    fields={"image": Image(224, 224, augment=["random_resized_crop", "horizontal_flip"]), "label": Class()})
for epoch in range(90):
    for image, label in train.torch(): step(image, label)     # or .jax(), .numpy(); no copy
"""
    play(program.replace("90", "3"), 4, step=step)
    assert [image.shape for image, _ in step] == [(3, 3, 224, 224)] * 3
    assert all(sorted(label) == [0, 0, 1] for _, label in step) and (step[0][0] != step[1][0]).any()


def test_parquet_as_the_hub_lays_it_out(here: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    shutil.copy(FIXTURES / "tokenizers/wordpiece.json", here / "tokenizer.json")
    for part, name in enumerate(("rocket.jpg", "coffee.png")):
        image = {"bytes": (FIXTURES / "photos" / name).read_bytes(), "path": name}
        pq.write_table(
            pa.Table.from_pylist([{"image": image, "label": part, "text": "the cat"}]), f"train-{part}.parquet"
        )
    program = """
train = ringfeed.open("train-*.parquet", fields={
    "image": Image(224, 224, from_="image.bytes"),
    "label": Numbers("i64"),
    "caption": Tokenizer("tokenizer.json", max_len=77, from_="text")})
"""
    batch = next(iter(play(program, 6)["train"]))
    assert batch["image"].shape == (2, 3, 224, 224) and batch["label"].tolist() == [0, 1]
    assert batch["caption"].shape == (2, 77) and batch["caption_mask"].numpy().any()


def test_lines_that_name_other_files(here: Path) -> None:
    shutil.copy(FIXTURES / "audio/wav-pcm_16.wav", here / "a.wav")
    lines = [{"path": "a.wav", "label": label} for label in ("yes", "no", "yes")]
    (here / "clips.jsonl").write_text("\n".join(map(json.dumps, lines)))
    program = """
train = ringfeed.open("clips.jsonl", shuffle=42, fields={
    "audio": Audio(16000, length=1600, crop="random", from_="/path", file=True),
    "label": Class(["yes", "no"], from_="/label")})
"""
    batch = next(iter(play(program, 5)["train"]))
    assert batch["audio"].shape == (3, 1600) and sorted(batch["label"].tolist()) == [0, 0, 1]


def test_a_table_with_gaps_fitted_trained_on_and_served(here: Path) -> None:
    cities = ["Oslo", "Rome", "Bonn"]
    rows = [f"{i},{20 + i % 41 if i % 7 else ''},{cities[i % 3]},2024-{1 + i % 12:02}-01,{i * 2}" for i in range(200)]
    (here / "train.csv").write_text("\n".join(["id,age,city,joined,price", *rows]) + "\n")
    program = """
recipe = Recipe(
    age=number(impute="median", mask=True, scale="standardise"),
    city=category(unknown=True),
    joined=date(cyclic=["month"]))
rows = ringfeed.open("train.csv", split={"train": 0.8, "test": 0.2, "part": "train"})
recipe.fit(rows).save("prepared.json")                  # one pass, over the training part alone
train = ringfeed.open("train.csv", prepared="prepared.json", fields={"price": Numbers("f32")}, batch_size=256)

prepared = Prepared.load("prepared.json")               # in the server: the bytes that training saw
row = prepared.apply_json('{"age": null, "city": "Oslo", "joined": "2024-01-01"}')
"""
    names = play(program, 11)
    batch, row = next(iter(names["train"])), names["row"]
    assert batch["features"].shape == (200, 4) and batch["price"].numpy()[199] == 398
    assert 100 < names["prepared"].records < 200
    assert row["features"].tobytes() == batch["features"].numpy()[0].tobytes()


def test_the_users_own_code_in_the_workers(here: Path) -> None:
    rng = np.random.default_rng(1)
    np.save(here / "clips.npy", rng.standard_normal((6, 400)).astype("f4"))
    loader = ringfeed.open("clips.npy", format="npy", fields={"audio": ringfeed.Array()}, shuffle=42)

    def mel(audio: np.ndarray) -> np.ndarray:
        return np.resize(np.abs(np.fft.rfft(audio.reshape(4, 100))) ** 2, (80, 101)).astype("f4")

    program = 'loader.map("spectrogram", shape=(80, 101), fn=lambda sample, rng: mel(sample["audio"]))'
    play(program, 1, loader=loader, mel=mel)
    batch = next(iter(loader))
    for audio, spectrogram in zip(batch["audio"].numpy(), batch["spectrogram"].numpy()):
        np.testing.assert_array_equal(spectrogram, mel(audio))


def test_a_batch_mixed_up_behind_the_users_own_code(here: Path) -> None:
    """What is `.map_batch(mixup(0.2))` in Rust."""
    fields = {"flower": ringfeed.Numbers(from_=[0, 1, 2, 3]), "species": ringfeed.Class()}
    settings = {"fields": fields, "batch_size": 50, "shuffle": 42}
    [batch, *_] = ringfeed.open(FIXTURES / "iris-species.csv", **settings).numpy(lambda arrays: dict(arrays))
    flowers, species = batch["flower"].copy(), batch["species"].copy()
    program = 'train = ringfeed.open(path, transforms=[{"kind": "mixup", "alpha": 0.2}], **settings)'
    train = play(program, 1, path=FIXTURES / "iris-species.csv", settings=settings)["train"]
    mixed, weights = next(iter(train.numpy()))
    assert weights.shape == (50, 3) and np.allclose(weights.sum(axis=1), 1)
    # Each is itself and another one of the batch, by the weights that its label has got.
    own = weights[np.arange(50), species]
    assert ((own < 1) & (own > 0)).any()
    for row in np.flatnonzero((own < 0.999) & (own > 0.001)):
        partners = (mixed[row] - own[row] * flowers[row]) / (1 - own[row])
        near = np.abs(flowers - partners).max(axis=1)
        other = species[near.argmin()]
        assert near.min() < 0.01 / (1 - own[row]) and np.isclose(weights[row, other], 1 - own[row], atol=1e-4)


def test_two_views_of_one_picture(photos: Path) -> None:
    program = """
train = ringfeed.open("photos/train", fields={
    "view1": Image(64, 64, augment="simclr", from_="image"),
    "view2": Image(64, 64, augment="simclr", from_="image")})     # another key, the same sample
"""
    batch = next(iter(play(program, 3)["train"]))
    one, two = batch["view1"].numpy(), batch["view2"].numpy()
    assert one.shape == two.shape == (3, 3, 64, 64) and all((a != b).any() for a, b in zip(one, two))


def test_a_picture_its_map_and_its_boxes(here: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    picture = np.zeros((40, 60, 3), "u1")
    picture[10:30, 20:50] = 255
    with tarfile.open("scenes.tar", "w") as tar:
        for sample in range(8):
            members = {"json": json.dumps({"boxes": [[20, 10, 50, 30]]}).encode()}
            for name, pixels in (("jpg", picture), ("png", picture[:, :, 0] // 255)):
                file = io.BytesIO()
                pillow.fromarray(pixels).save(file, "JPEG" if name == "jpg" else "PNG", **{"quality": 95})
                members[name] = file.getvalue()
            for name, data in members.items():
                info = tarfile.TarInfo(f"{sample}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    program = """
train = ringfeed.open("scenes.tar", shuffle=1, fields={
    "image": Image(64, 64, augment=["random_resized_crop", "horizontal_flip"], geometry="scene", from_="jpg"),
    "map": IndexMap(64, 64, augment=["random_resized_crop", "horizontal_flip"], geometry="scene", from_="png"),
    "boxes": Boxes(32, geometry="scene", from_="json:/boxes")})
"""
    batch = next(iter(play(program, 4)["train"]))
    for image, indices, boxes, there in zip(*(batch[name].numpy() for name in ("image", "map", "boxes", "boxes_mask"))):
        bright = image.mean(axis=0) > 127
        assert set(np.unique(indices)) <= {0, 1} and (bright == (indices == 1)).mean() > 0.97
        if there[0] and bright.any():
            rows, columns = np.nonzero(bright)
            found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_allclose(boxes[0], found, atol=2)


def test_sequences_of_many_lengths(here: Path) -> None:
    (here / "texts.jsonl").write_text("\n".join(json.dumps({"ids": [7] * (1 + i * 37 % 512)}) for i in range(200)))
    program = (
        'train = ringfeed.open("texts.jsonl", fields={"ids": "i64"}, '
        'bucket={"by": "ids", "bounds": [64, 128, 256, 512], "tokens_per_batch": 8192})'
    )
    train = play(program, 1)["train"]
    batches = [(batch["ids"].shape, batch.state) for batch in train]
    assert all(width in (64, 128, 256, 512) and rows * width <= 8192 for (rows, width), _ in batches)
    assert sum(rows for (rows, _), _ in batches) == 200
    again = play(program, 1)["train"]
    again.load_state_dict(batches[4][1])
    assert [batch["ids"].shape for batch in again] == [shape for shape, _ in batches[5:]]


def test_several_sources_in_proportion_over_a_cluster_resumed_tomorrow(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, first, rows in (("web", 0, 420), ("books", 1000, 180)):
        with open(name, "wb") as file:
            np.save(file, np.arange(first, first + rows))
    program = """
train = ringfeed.mix({"web": 0.7, "books": 0.3}, seed=42, shard="auto")     # torchrun, SLURM, MPI, Ray Train
train.load_state_dict(checkpoint["loader"])                                 # any number of ranks, mid-epoch, exact
"""

    def ranks(count: int, checkpoint: Any = None) -> list[ringfeed.Loader]:
        loaders = []
        for rank in range(count):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", str(count))
            lines = program.strip().splitlines()[: 1 if checkpoint is None else 2]
            train = play("\n".join(lines), 2, checkpoint=checkpoint)["train"]
            train.tensors  # A loader's part is that of the process that asks it first.
            loaders.append(train)
        return loaders

    def positions(batch: ringfeed.Batch) -> list[int]:
        return batch.positions[: batch.size - batch.padding]

    first = ranks(2)
    loops = [iter(train) for train in first]
    before = [position for _ in range(3) for loop in loops for position in positions(next(loop))]
    checkpoint = {"loader": json.loads(json.dumps(first[0].state_dict()))}
    assert len(before) == 3 * 2 * 32
    for count in (1, 3):
        after = [position for train in ranks(count, checkpoint) for batch in train for position in positions(batch)]
        assert Counter(before + after) == Counter(range(600)), count
    drawn = [value for batch in ranks(1)[0] for (value,) in zip(*(tensor.tolist() for tensor in batch.values()))]
    assert abs(sum(value < 1000 for value in drawn) - 420) < 6


def test_onto_the_gpu(photos: Path) -> None:
    torch = pytest.importorskip("torch")
    step = Steps()
    program = (
        'for image, label in ringfeed.open("photos/train", fields=fields, '
        'device="cuda:0", convert={"image": "f16"}).torch(): step(image, label)'
    )
    fields = {"image": ringfeed.Image(32, 32, dtype="u8"), "label": ringfeed.Class()}
    if not torch.cuda.is_available():
        program = program.replace("cuda:0", "host")
    play(program, 1, fields=fields, step=lambda image, label: step(image.cpu(), label.cpu()))
    plain = next(iter(ringfeed.open("photos/train", fields=fields)))
    np.testing.assert_array_equal(step[0][0], plain["image"].numpy().astype("f2"))
    assert step[0][1].tolist() == plain["label"].tolist()


def test_debugging(photos: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (photos / "photos/train/people/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    threads: set[str] = set()
    program = 'loader = ringfeed.open("photos/train", fields=fields, shield=True, transform=own)'

    def own(sample: dict[str, Any]) -> None:
        import threading

        threads.add(threading.current_thread().name)

    fields = {"image": ringfeed.Image(32, 32), "label": ringfeed.Class()}
    loader = play(program, 1, fields=fields, own=own)["loader"]
    with pytest.raises(ringfeed.Error, match="broken.png"):
        list(loader)
    assert threads <= {"MainThread"}
    report = play('report = ringfeed.verify("photos/train")', 1)["report"]
    assert not report and [error.path.endswith("broken.png") for error in report["bad"]] == [True]
    shutil.copy(FIXTURES / "parquet/images.parquet", "x.parquet")
    assert play('found = ringfeed.inspect("x.parquet")', 1)["found"]["format"] == "parquet"
    # An interpreter finds its packages by the name that it is started by.
    for typed, status, shown in (("verify photos/train", 1, "broken.png"), ("inspect x.parquet", 0, "parquet")):
        command = [sys.executable, "-m", "ringfeed", *typed.split(), "--json"]
        assert os.spawnv(os.P_WAIT, sys.executable, command) == status
        assert shown in json.dumps(json.loads(capfd.readouterr().out))


def test_evaluation_with_no_memory_of_its_own(here: Path) -> None:
    fields = {"flower": ringfeed.Numbers(from_=[0, 1, 2, 3]), "species": ringfeed.Class()}
    test = ringfeed.open(FIXTURES / "iris-species.csv", fields=fields, batch_size=16)
    table = np.loadtxt(FIXTURES / "iris-species.csv", delimiter=",", skiprows=1, usecols=range(4), dtype="f4")
    centres = np.stack([part.mean(axis=0) for part in np.split(table, 3)])
    program = """
scores, right = numpy.empty((16, 3), "f4"), 0
for flower, species in test.numpy():
    now = scores[: len(flower)]
    numpy.matmul(flower, centres.T, out=now)
    now -= (centres**2).sum(axis=1) / 2
    right += (now.argmax(axis=1) == species).sum()
"""
    assert play(program, 7, test=test, centres=centres)["right"] > 135
    assert test.stats()["copied"] == test.stats()["detached"] == 0


STARVES = """
print(train.verdict())
train.report().save("run.html")
"""


def unspoilt(run: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
    """The first of some runs that a busy machine has not spoilt; at last whatever it is."""
    return next((found for found in (run() for _ in range(10)) if is_right(found)), None) or run()


def limit(stats: dict[str, Any]) -> str:
    """What limits by a verdict. Where others have the cores, that is said instead of what the workers do."""
    workers, limit = stats["workers"], stats["verdict"]["limit"]
    is_crowded = (workers["queued_seconds"] or 0) > 0.1 * workers["thread_seconds"]
    return "workers" if limit == "machine_busy" and is_crowded else limit


def test_why_does_it_starve(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(here / "x.npy", np.arange(200, dtype="f4"))
    # Nothing is made ahead after the loop, so that figures asked for later are the same.
    settings = {"format": "npy", "fields": {"x": "array"}, "batch_size": 4, "workers": 1, "prefetch": 2}
    settings["across_epochs"] = False

    def slow(sample: dict[str, np.ndarray], rng: object) -> np.ndarray:
        time.sleep(0.003)
        return sample["x"]

    def run(step: float, closure: bool) -> ringfeed.Loader:
        train = ringfeed.open("x.npy", **settings)
        if closure:
            train.map("y", shape=(), fn=slow)
        for _ in train:
            time.sleep(step)
        return train

    starving = unspoilt(lambda: run(0, True), lambda train: limit(train.stats()) == "workers")
    names = play(STARVES, 2, train=starving)
    said, page = capsys.readouterr().out.strip(), (here / "run.html").read_text()
    head, evidence, *_ = said.split("; ")
    assert head.startswith("input-bound: the trainer waited ") and "the transforms' code is the limit" in evidence, said
    assert "1 worker" in evidence and "% busy" in evidence, said
    verdict = starving.stats()["verdict"]
    assert (limit(starving.stats()), verdict["stage"]) == ("workers", "transform"), verdict
    assert verdict["waited"] > 0.9 and verdict["evidence"] in said and verdict["advice"] in said, verdict
    transform = next(stage for stage in starving.stats()["stages"] if stage["name"] == "transform")
    assert transform["times"]["count"] >= 200 and transform["times"]["p50_seconds"] > 0.0025, transform
    assert "<b>input-bound</b>the trainer waited " in page and "transform" in page
    names["train"].report().save("run.json")
    data = json.loads((here / "run.json").read_text())
    assert data["verdict"]["stage"] == "transform" and data["stats"]["samples"] == 200

    fed = unspoilt(lambda: run(0.01, False), lambda train: limit(train.stats()) == "trainer")
    play(STARVES, 2, train=fed)
    said, verdict = capsys.readouterr().out.strip(), fed.stats()["verdict"]
    assert said.startswith("trainer-bound: the trainer waited ") and "a faster loader would gain" in said, said
    assert (verdict["limit"], verdict["stage"], verdict["change"]) == ("trainer", None, None), verdict
    assert verdict["waited"] < 0.05 and "<b>trainer-bound</b>" in (here / "run.html").read_text()


def test_each_part_of_a_run_has_a_verdict_of_its_own(here: Path) -> None:
    np.save(here / "x.npy", np.arange(160, dtype="f4"))
    cost = [0.0]

    def own(sample: dict[str, np.ndarray], rng: object) -> np.ndarray:
        time.sleep(cost[0])
        return sample["x"]

    def run() -> list[ringfeed.Stats]:
        train = ringfeed.open(
            "x.npy", format="npy", fields={"x": "array"}, batch_size=4, workers=1, prefetch=2, across_epochs=False
        ).map("y", shape=(), fn=own)
        seen = [train.stats()]
        for cost[0], step in ((0.003, 0.0), (0.0, 0.02)):
            for _ in train:
                time.sleep(step)
            seen.append(train.stats())
        return seen

    def limits(seen: list[ringfeed.Stats]) -> list[str]:
        return [limit(later - earlier) for earlier, later in zip(seen, seen[1:])]

    seen = unspoilt(run, lambda seen: limits(seen) == ["workers", "trainer"])
    begin, middle, end = seen
    assert limits(seen) == ["workers", "trainer"], [str(part) for part in seen]
    starving, fed = middle - begin, end - middle
    assert [part["trainer"]["batches"] for part in (starving, fed, end)] == [40, 40, 80]
    assert starving["verdict"]["stage"] == "transform" and "the transforms' code" in starving.verdict()
    assert fed.verdict().startswith("trainer-bound") and (end - end)["samples"] == 0
    # For people a table, and for programs a dict that travels.
    assert "stage " in str(fed) and "p90" in str(fed) and repr(fed).startswith("{")
    for copied in (json.loads(json.dumps(fed)), pickle.loads(pickle.dumps(fed)), copy.deepcopy(fed)):
        assert type(copied) is dict and copied == dict(fed)
    with pytest.raises(TypeError, match="unsupported operand"):
        fed - 1  # type: ignore[operator]


def test_a_loader_that_tunes_itself_says_what_it_found(photos: Path) -> None:
    fields = {"image": ringfeed.Image(64, 64), "label": ringfeed.Class()}
    train = ringfeed.open("photos/train", fields=fields, workers="auto")
    for _ in range(3):
        list(train)
    tuning = train.stats()["tuning"]
    assert tuning["workers"] and tuning["why"], tuning
    assert train.tuned()["workers"] == train.stats()["workers"]["threads"] >= 1


def test_a_format_of_the_users_own(here: Path) -> None:
    (here / "shouting.txt").write_text("SHOUT\nhear\nme\n")
    program = """
class Shouting:                                         # any object with a length, and records by their number
    def __init__(self, path): self.lines = open(path).read().splitlines()[1:]
    def __len__(self): return len(self.lines)
    def read(self, i): return {"text": self.lines[i].upper()}
train = ringfeed.from_reader(Shouting("shouting.txt"), fields={"text": Text(8)})
"""
    train = play(program, 7)["train"]
    assert next(iter(train)).text("text") == ["HEAR", "ME"] and train.verify()
