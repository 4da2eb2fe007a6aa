"""Single records in memory, by the fields and transforms of a loader."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import Category, Class, Image, Numbers, Tokens

FIELDS = {"image": Image(48, 64), "label": Class()}
NORMALISE = {"image": {"kind": "channels", "mean": [0.485, 0.456, 0.406], "deviation": [0.229, 0.224, 0.225]}}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for kind, name in (("space", "rocket.jpg"), ("people", "astronaut.png"), ("people", "chelsea.png")):
        (tmp_path / "photos" / kind).mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / "photos" / name, tmp_path / "photos" / kind)
    return tmp_path / "photos"


def test_bf16_without_ml_dtypes_is_said_to_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    served = ringfeed.serve(fields={"x": Numbers("bf16")})
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ringfeed.UnsupportedError, match="install ml_dtypes") as raised:
        served.apply(x=1)
    assert raised.value.kind == "unsupported"


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob("*.*"))]


def loaded(loader: ringfeed.Loader, name: str) -> list[Any]:
    return [image.copy() for batch in loader for image in batch[name].numpy()]


def test_the_bytes_of_an_image_are_those_that_the_loader_gives(photos: Path) -> None:
    valid = ringfeed.open(photos, fields=FIELDS, normalise=NORMALISE)
    expected = loaded(valid, "image")
    elsewhere = ringfeed.serve({"source": {"path": "nowhere"}}, fields=FIELDS, normalise=NORMALISE)
    for served in (valid.serve(), elsewhere):
        assert served.field_names == ["image"] and served.tensors == [{"name": "image", "dtype": "f32"}]
        for file, image in zip(files(photos), expected):
            for given in (file, bytearray(file), memoryview(file)):
                found = served.apply(image=given)["image"]
                assert found.tobytes() == image.tobytes() and found.shape == (3, 48, 64)
                found += 1  # it is a copy


def test_many_threads_serve_at_once(photos: Path) -> None:
    valid = ringfeed.open(photos, fields=FIELDS, normalise=NORMALISE)
    expected, served = loaded(valid, "image"), valid.serve()
    wrong: list[int] = []

    def ask(turn: int) -> None:
        for nth in range(12):
            at = (nth + turn) % 3
            if served.apply({"image": files(photos)[at]})["image"].tobytes() != expected[at].tobytes():
                wrong.append(at)

    threads = [threading.Thread(target=ask, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_and_other_fields_serve_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"x": [at, 2 * at], "n": at, "y": at % 2}) + "\n" for at in range(5)))
    fields = {"x": Numbers("f32", shape=[2]), "n": Numbers("i64"), "y": Class()}
    sums = ringfeed.Map("sum", lambda sample: sample["x"].sum(keepdims=True), shape=[1])
    loader = ringfeed.open(path, fields=fields, transform=sums, batch_size=5)
    served = ringfeed.serve(fields=fields, transform=sums)
    batch = next(iter(loader))
    for at in range(5):
        row = served.apply({"x": np.array([at, 2 * at]), "n": at})
        for name in ("x", "n", "sum"):
            assert row[name].tolist() == batch[name].numpy()[at].tolist()
    assert list(loader.serve().apply(x=[1, 2], n=3)) == ["x", "n", "sum"]


def test_lists_are_served_as_in_a_batch_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lists: list[list[int]] = [[3, 4, 5], [], [6], [1, 2, 3, 4, 5]]
    path.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in lists))
    ragged: dict[str, Any] = {"fields": {"ids": Numbers("i64", ragged=True)}}
    padded: dict[str, Any] = {"fields": {"ids": Numbers("i64")}, "bucket": {"by": "ids", "bounds": [2, 4, 8]}}
    plain: dict[str, Any] = {"fields": {"ids": Tokens()}}
    for settings, name in ((ragged, "ids_offsets"), (padded, "ids_mask"), (plain, "ids_mask")):
        served = ringfeed.serve(settings)
        alone = {
            int(batch.sample_ids[0]): (batch["ids"].numpy().copy(), batch[name].numpy().copy())
            for batch in ringfeed.open(path, batch_size=1, **settings)
        }
        for at, ids in enumerate(lists):
            row = served.apply(ids=ids)
            assert row["ids"].tolist() == alone[at][0].flatten().tolist()
            assert row[name].tolist() == alone[at][1].flatten().tolist()
    assert ringfeed.serve(ragged).apply(ids=[7, 8])["ids_offsets"].tolist() == [0, 2]
    with pytest.raises(ringfeed.DataError, match="give it `list`, `ragged`, `max_len` or `shape`"):
        ringfeed.serve(fields={"ids": Numbers("i64")}).apply(ids=[7, 8])


def test_what_cannot_be_served_says_why(photos: Path) -> None:
    with pytest.raises(ringfeed.ConfigError, match="random operations are for training"):
        ringfeed.serve(fields={"image": Image(8, 8, augment=["horizontal_flip"])})
    with pytest.raises(ringfeed.ConfigError, match="list them"):
        ringfeed.serve(fields={"city": Category()})
    with pytest.raises(ringfeed.ConfigError, match="batchsize"):
        ringfeed.serve(fields=FIELDS, batchsize=3)
    served = ringfeed.serve(fields=FIELDS)
    with pytest.raises(ringfeed.NotFoundError, match='did you mean "image"'):
        served.apply(imag=b"")
    for wrong in (b"no image", files(photos)[0][:1000]):
        with pytest.raises(ringfeed.FormatError) as caught:
            served.apply(image=wrong)
        assert caught.value.column == "image"
    with pytest.raises(ringfeed.DataError):
        served.apply()


def test_what_a_server_lacks_is_said() -> None:
    with pytest.raises(ringfeed.ConfigError, match=r"no array to look at: give its `dtype`"):
        ringfeed.serve(fields={"n": ringfeed.Array([2, 3])})
    with pytest.raises(ringfeed.ConfigError, match=r'all of them are labels \(\["c"\]\)'):
        ringfeed.serve(fields={"c": Class()})


def test_windows_are_served_as_the_loader_makes_them(tmp_path: Path) -> None:
    rows = [(n * 0.25, 1000.0 - n) for n in range(12)]
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    settings: dict[str, Any] = {
        "fields": {"both": Numbers("f32", from_=["x", "y"])},
        "windows": {"length": 3, "horizon": 0},
        "normalise": {"both": {"kind": "linear", "scale": 0.5, "bias": 1.0}},
    }

    loader = ringfeed.open(tmp_path / "rows.csv", batch_size=100, **settings)
    batch = next(iter(loader))["both"].numpy()
    assert batch.shape == (10, 3, 2)
    window = loader.serve().window()
    made = [window.latest()["both"] for x, y in rows if window.push(x=x, y=y)]
    assert np.stack(made).tobytes() == batch.tobytes() and len(window) == 3
    with pytest.raises(ringfeed.DataError):
        window.push(x="much", y=1)
    assert window.latest()["both"].tobytes() == batch[-1].tobytes()
    window.clear()
    with pytest.raises(ringfeed.DataError, match="0 of its 3 records"):
        window.latest()
    with pytest.raises(ringfeed.ConfigError, match="push them to a `window`"):
        loader.serve().apply(x=1, y=2)


def test_functions_that_draw_random_numbers_are_for_training_alone() -> None:
    def noise(sample: Any, rng: Any) -> None:
        sample["x"] += rng.normal()

    with pytest.raises(ringfeed.ConfigError, match="draws random numbers"):
        ringfeed.serve(fields={"x": Numbers()}, transform=noise)


def test_a_missing_number_may_be_nan(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n,3\n")
    (batch,) = ringfeed.open(path, fields={"x": Numbers(missing=float("nan"))})
    assert str(batch["x"].tolist()) == "[1.0, nan]"


def test_missing_values_of_pandas_are_those_of_its_tables() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, float("nan")]})
    fields = {"x": Numbers("f32", missing=-1)}
    loader = ringfeed.open(frame, fields=fields)
    expected = np.concatenate([batch["x"].numpy().copy() for batch in loader])
    served = loader.serve()
    found = [served.apply(frame.iloc[row])["x"] for row in range(2)]
    assert np.array_equal(np.stack(found).reshape(-1), expected.reshape(-1)) and expected.reshape(-1)[1] == -1
    mixed = pandas.DataFrame({"x": pandas.array([1, None], dtype="Int64")})
    assert served.apply(mixed.iloc[1])["x"] == -1
