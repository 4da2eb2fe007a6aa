"""Settings are those of the library, by their own names, and what is wrong with them is said in its words."""

from __future__ import annotations

import builtins
import importlib.util
import io
import json
import os
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import (
    Array,
    Audio,
    Boxes,
    Category,
    Class,
    Field,
    Image,
    IndexMap,
    Keypoints,
    Numbers,
    Text,
    Tokenizer,
    Tokens,
)

IRIS = FIXTURES / "iris-species.csv"


def ids(loader: ringfeed.Loader) -> list[int]:
    return [sample for batch in loader for sample in batch.sample_ids]


def test_a_wrong_type_says_what_is_expected() -> None:
    with pytest.raises(ringfeed.ConfigError, match=r"shard: expected \(index, count\).* found 3"):
        len(ringfeed.open(IRIS, shard=3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="transform: expected a function of a sample, or a list of them, found 3"):
        ringfeed.open(IRIS, transform=3)  # type: ignore[arg-type]
    with pytest.raises(ringfeed.ConfigError, match='"float32" is not allowed; did you mean "f32"'):
        len(ringfeed.open(IRIS, fields={"x": {"from": "petal_length", "numbers": "float32"}}))
    with pytest.raises(ringfeed.ConfigError, match="split: expected a table, found a list of 2; write split = { train"):
        ringfeed.open(IRIS, split=[0.8, 0.2])


def test_a_wrong_name_says_what_may_be_meant() -> None:
    with pytest.raises(ringfeed.ConfigError, match='batchsize: .* did you mean "batch_size"') as raised:
        ringfeed.open(IRIS, batchsize=3)
    assert raised.value.kind == "config" and raised.value.line is None and isinstance(raised.value, ValueError)
    with pytest.raises(ringfeed.ConfigError, match=r'fields.x.*"imago".*did you mean "image"'):
        ringfeed.open(IRIS, fields={"x": {"imago": [2, 2]}})
    with pytest.raises(ringfeed.ConfigError, match="batch_size: expected a whole number"):
        ringfeed.open(IRIS, batch_size="many")
    with pytest.raises(ringfeed.NotFoundError, match="iris-species.csv") as missing:
        ringfeed.open(FIXTURES / "iris-specie.csv")
    assert missing.value.path == str(FIXTURES / "iris-specie.csv")
    with pytest.raises(ringfeed.ConfigError, match="2 faults"):
        ringfeed.open(IRIS, batch_size=0, workers=0)
    with pytest.raises(ringfeed.ConfigError, match="worker_nice: 20; it is 0"):
        ringfeed.open(IRIS, worker_nice=20)
    with pytest.raises(TypeError, match="numbers, texts, lists and tables"):
        ringfeed.open(IRIS, batch_size=object())
    for there, here in (("num_workers", "workers"), ("drop_last", "last_batch"), ("pin_memory", "device")):
        with pytest.raises(ringfeed.ConfigError, match=f"{there}: there is no such setting; here it is {here}"):
            ringfeed.open(IRIS, **{there: True})  # type: ignore[arg-type]
    with pytest.raises(ringfeed.ConfigError, match="shuffle: it is the seed"):
        ringfeed.open(IRIS, shuffle=True)
    with pytest.raises(TypeError, match="not a ndarray: from_reader takes"):
        ringfeed.open(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="on_hold"):
        ringfeed.open(IRIS, on_hold="wait")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="yields"):
        ringfeed.open(IRIS, yields="list")  # type: ignore[arg-type]


def test_a_wrong_key_in_a_file_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(f'batch_size = 4\n[source]\npth = "{IRIS}"\n')
    with pytest.raises(ringfeed.ConfigError, match='did you mean "path"') as raised:
        ringfeed.Loader(tmp_path / "train.toml")
    assert raised.value.line == 3 and raised.value.path == str(tmp_path / "train.toml")


def test_a_file_a_table_and_keywords_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "iris.csv").write_bytes(IRIS.read_bytes())
    (tmp_path / "train.toml").write_text(
        'batch_size = 40\nshuffle = 3\nsource = { path = "iris.csv" }\nbad_records = "skip"\n'
        '[fields]\nspecies = "class"\n'
    )
    table = {
        "batch_size": 40,
        "shuffle": 3,
        "source": {"path": IRIS},
        "bad_records": "skip",
        "fields": {"species": "class"},
    }
    by_file = ringfeed.Loader(tmp_path / "train.toml")
    loaders = [
        by_file,
        ringfeed.Loader(str(tmp_path / "train.toml")),
        ringfeed.Loader(table),
        ringfeed.Loader(**table),
        ringfeed.Loader({**table, "batch_size": 1}, batch_size=np.int32(40)),
        ringfeed.open(IRIS, batch_size=40, shuffle=3, bad_records="skip", fields={"species": Class()}),
    ]
    orders = [ids(loader) for loader in loaders]
    assert sorted(orders[0]) == list(range(150)) and all(order == orders[0] for order in orders)
    assert [len(loader) for loader in loaders] == [4] * 6
    assert ids(ringfeed.Loader(tmp_path / "train.toml", shuffle=4)) != orders[0]
    assert by_file.settings["shuffle"] == 3


def niceness(thread: int) -> int | None:
    try:
        return os.getpriority(os.PRIO_PROCESS, thread)
    except ProcessLookupError:  # another loader's thread, which has ended
        return None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells and sets them")
def test_workers_keep_to_their_cores_and_are_as_nice_as_they_are_told() -> None:
    core = max(os.sched_getaffinity(0))
    loader = ringfeed.open(IRIS, batch_size=10, workers=1, worker_cores=[core], worker_nice=9, worker_share=0.9)
    assert len(ids(loader)) == 150
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    kept = [thread for thread in threads if niceness(thread) == 9]
    assert len(kept) == 2 and all(os.sched_getaffinity(thread) == {core} for thread in kept)


def test_workers_and_batches_ahead_may_be_found() -> None:
    loader = ringfeed.open(IRIS, batch_size=10, shuffle=3, workers="auto", prefetch="auto")
    assert ids(loader) == ids(ringfeed.open(IRIS, batch_size=10, shuffle=3, shield=True))
    tuned = loader.tuned()
    assert isinstance(tuned["workers"], int) and tuned["workers"] >= 1 and tuned["prefetch"] == 8
    assert loader.settings["workers"] == "auto" and len(ids(ringfeed.Loader(tuned))) == 150
    with pytest.raises(ringfeed.ConfigError, match='workers: .*or "auto"'):
        ringfeed.open(IRIS, workers="many")


def test_arrays_are_lists_and_their_elements_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": [[1, 2, 3], [4, 5, 6]]}\n')
    for shape in (np.array([2, 3]), np.array([2, 3], np.float32).astype(np.uint8), (np.int64(2), np.int32(3))):
        loader = ringfeed.open(path, fields={"x": Numbers(shape=shape)}, batch_size=np.array(1))
        assert loader.tensors[0]["shape"] == [2, 3]
    one = ringfeed.open(IRIS, fields={"x": Numbers(from_=np.array([1]))})
    assert one.tensors[0]["shape"] == [1]
    with pytest.raises(ringfeed.ConfigError, match="shape"):
        ringfeed.open(path, fields={"x": Numbers(shape=np.eye(2))})


def test_fields_are_short_for_tables() -> None:
    pairs: list[tuple[Field, object]] = [
        (Image(8, 9), {"image": [8, 9]}),
        (Audio(16_000, length=99, crop="random"), {"audio": 16_000, "length": 99, "crop": "random"}),
        (
            Image(8, 9, augment=["horizontal_flip"], dtype="u8", order="nhwc", from_="jpg", geometry="g"),
            {
                "from": "jpg",
                "image": [8, 9],
                "augment": ["horizontal_flip"],
                "dtype": "u8",
                "order": "nhwc",
                "geometry": "g",
            },
        ),
        (Image(8, 9, from_="path", file=True), {"from": "path", "file": {"image": [8, 9]}}),
        (IndexMap(8, 9, role="feature"), {"role": "feature", "index_map": [8, 9]}),
        (
            Image(8, 8, augment="simclr", resize="bicubic"),
            {"image": [8, 8], "augment": "simclr", "resize": "bicubic"},
        ),
        (
            Boxes(9, box_format="xywh", result_format="relative_cxcywh", geometry="g", size_from=("w", "h")),
            {
                "boxes": 9,
                "box_format": "xywh",
                "result_format": "relative_cxcywh",
                "geometry": "g",
                "size_from": ["w", "h"],
            },
        ),
        (Keypoints(17, from_="points"), {"from": "points", "keypoints": 17}),
        (
            Keypoints(3, point_format="xy", result_format="relative_xy", size_from=("w", "h")),
            {"keypoints": 3, "point_format": "xy", "result_format": "relative_xy", "size_from": ["w", "h"]},
        ),
        (Class(), {"class": []}),
        (Class(["a", "b"], one_hot=True), {"class": ["a", "b"], "one_hot": True}),
        (Category(missing=-1), {"category": [], "missing": -1}),
        (Numbers("f64", shape=(), from_=[0, "b"]), {"from": [0, "b"], "numbers": "f64", "shape": []}),
        (Text(9, longer="cut"), {"text": 9, "longer": "cut"}),
        (Numbers("i64", max_len=4, pad=-1, longer="cut"), {"numbers": "i64", "max_len": 4, "pad": -1, "longer": "cut"}),
        (Numbers("f32", ragged=True, max_len=9), {"numbers": "f32", "max_len": 9, "ragged": True}),
        (Numbers(missing="nan"), {"numbers": "f32", "missing": "nan"}),
        (Tokens(8, pad=0), {"tokens": 8, "pad": 0}),
        (Tokens(from_="ids"), {"from": "ids", "numbers": "i64", "list": True}),
        (Numbers("f32", list=True), {"numbers": "f32", "list": True}),
        (Array(), {"array": []}),
        (Array((2, 3), dtype="f16", file=True), {"file": {"array": [2, 3], "dtype": "f16"}}),
        (Array((), stored="u16", endian="big"), {"array": [], "stored": "u16", "endian": "big"}),
    ]
    for made, table in pairs:
        assert json.loads(json.dumps(made.settings())) == table
    loader = ringfeed.open(IRIS, fields={"species": Class(), "size": Numbers(from_=[0, 1])}, batch_size=150)
    other = ringfeed.open(IRIS, fields={"species": "class", "size": {"from": [0, 1], "numbers": "f32"}}, batch_size=150)
    for name in ("species", "size"):
        np.testing.assert_array_equal(next(iter(loader))[name], next(iter(other))[name])


def test_element_types_go_by_the_names_of_array_libraries(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    names: list[object] = ["f16", "float16", np.float16, np.dtype("float16")]
    if importlib.util.find_spec("torch"):
        import torch

        names += [torch.float16, "torch.float16"]
    for name in names:
        fields = {"x": Numbers(name, from_="a"), "y": Array(dtype=name)}  # type: ignore[arg-type]
        assert (fields["x"].table["numbers"], fields["x"].settings()["numbers"]) == (name, "f16")
        assert fields["y"].settings()["dtype"] == "f16"
        loader = ringfeed.open(tmp_path / "t.csv", fields={"x": fields["x"]})
        loader.map("z", lambda sample: 1, shape=(), dtype=name)  # type: ignore[arg-type]
        assert [tensor["dtype"] for tensor in loader.tensors] == ["f16", "f16"]
    assert [Numbers(name).settings()["numbers"] for name in ("uint8", "int64", "bfloat16")] == ["u8", "i64", "bf16"]
    with pytest.raises(ringfeed.ConfigError, match='"float31" is not allowed; it is "u8"'):
        ringfeed.open(tmp_path / "t.csv", fields={"x": Numbers("float31", from_="a")})


def test_what_others_call_a_setting_is_answered_by_what_it_is_here() -> None:
    for there, here in (("seed", "shuffle"), ("validation_split", "split="), ("epochs", "one epoch")):
        with pytest.raises(ringfeed.ConfigError, match=f"{there}: there is no such setting; here it is .*{here}"):
            ringfeed.open(IRIS, **{there: 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not a list: from_reader takes what has a length"):
        ringfeed.Loader([1, 2, 3])  # type: ignore[arg-type]


def test_messages_say_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ringfeed.ConfigError, match=r'is an operation; write a list of them: \["horizontal_flip"\]'):
        ringfeed.open(IRIS, fields={"i": Image(2, 2, augment="horizontal_flip")})
    with pytest.raises(ringfeed.ConfigError, match=r"windows.part: two numbers from 0 to 1, .* found \[0, 1.5\]"):
        ringfeed.open(IRIS, windows={"length": 2, "part": [0, 1.5]})
    (tmp_path / "t.csv").write_text('x\n"1,000"\n')
    with pytest.raises(ringfeed.DataError, match='thousands=","'):
        next(iter(ringfeed.open(tmp_path / "t.csv", fields={"x": "f32"})))
    with pytest.raises(ringfeed.DataError, match="for lists of different lengths, set `list` to true"):
        list(ringfeed.from_reader([{"x": [1]}, {"x": [1, 2]}]))


def test_what_is_no_setting_is_named_by_its_key() -> None:
    with pytest.raises(TypeError, match=r"^fields.i: .* a class is none of them: write Numbers\(\)$"):
        ringfeed.open(IRIS, fields={"i": Numbers})
    with pytest.raises(TypeError, match="^fields.i.from: .* a class is none of them$"):
        ringfeed.open(IRIS, fields={"i": {"from": int}})
    with pytest.raises(
        TypeError, match=r"^filter: .* is none of them; filter_by\(fields, function\) takes a function$"
    ):
        ringfeed.open(IRIS, filter=lambda row: True)
    with pytest.raises(TypeError, match="^workers: settings are numbers, texts"):
        ringfeed.open(IRIS, workers=object())


def test_all_names_of_the_package_leave_pythons_own_as_they_are() -> None:
    names: dict[str, object] = {}
    exec("from ringfeed import *", names)
    assert names["Loader"] is ringfeed.Loader
    assert not {name for name in names if hasattr(builtins, name) and not name.startswith("__")}


def test_lists_may_lie_one_behind_another(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"x": [1, 2, 3]}\n{"x": []}\n{"x": [4]}\n')
    loader = ringfeed.open(tmp_path / "t.jsonl", fields={"x": Numbers("f32", ragged=True)}, batch_size=3)
    batch = next(iter(loader))
    assert batch["x"].tolist() == [1, 2, 3, 4] and batch["x_offsets"].tolist() == [0, 3, 3, 4]
    assert [(tensor["rows"], tensor["shape"]) for tensor in loader.tensors] == [("ragged", [None]), ("offsets", [None])]
    assert [tensor["shape"] for tensor in loader.plan()["tensors"]] == [[None], [4]]
    kept = batch.detach()
    np.testing.assert_array_equal(kept["x"].numpy(), batch.numpy()["x"])


def test_sparse_rows_are_a_matrix_of_compressed_rows() -> None:
    expected = json.loads((FIXTURES / "libsvm" / "expected.json").read_text())["base-1.svm"]
    for settings in ({}, {"shield": True}):
        batch = next(iter(ringfeed.open(FIXTURES / "libsvm" / "base-1.svm", batch_size=20, **settings)))
        assert batch["values_offsets"].tolist() == expected["indptr"]
        assert batch["indices"].tolist() == expected["indices"]
        assert batch["values"].tolist() == [float.fromhex(value) for value in expected["values"]]


def test_texts_become_tokens(tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / "tokenizers" / "expected.json").read_text())
    lines = [json.dumps({"text": text}) for text in expected["texts"]]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines) + "\n")
    field = Tokenizer(FIXTURES / "tokenizers" / "wordpiece.json", max_len=8, longer="cut", pad=3, from_="text")
    batch = next(iter(ringfeed.open(tmp_path / "texts.jsonl", batch_size=len(lines), fields={"ids": field})))
    wanted = [row + [3] * (8 - len(row)) for row in expected["wordpiece"]["cut_to_8"]]
    assert np.asarray(batch["ids"]).tolist() == wanted


def test_the_same_bytes_for_any_workers_batches_ahead_and_for_the_shield() -> None:
    fields = {"image": Image(24, 32, augment=["random_resized_crop", "horizontal_flip"])}

    def pictures(**settings: object) -> list[bytes]:
        loader = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2, shuffle=5, **settings)
        return [bytes(batch["image"]) for _ in range(2) for batch in loader]

    first = pictures(workers=1)
    assert len(first) > 1 and len(set(first)) == len(first)
    assert pictures(workers=3, prefetch=4) == first and pictures(shield=True) == first


def test_the_setting_maps_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0))
    source = {"format": "npy", "path": tmp_path / "x.npy", "options": {"access": "map"}}
    loader = ringfeed.Loader(sources=[source])
    assert next(iter(next(iter(loader)).values())).tolist() == [0, 1, 2, 3, 4, 5]
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path / "x.npy") in maps.read_text()


def test_a_plan_says_what_a_run_will_do() -> None:
    plan = ringfeed.open(IRIS, batch_size=64, shard=(1, 2)).plan()
    assert plan["samples"] == 150 and plan["samples_per_shard"] == 75 and plan["batches_per_epoch"] == 2
    plan = ringfeed.open(IRIS, batch_size=64).plan()
    assert plan["batches_per_epoch"] == 3 and plan["tensors"][0]["dtype"] == "f32"
    loader = ringfeed.open(IRIS, batch_size=64, hold=5)
    list(loader.numpy(yields=lambda arrays: None))
    planned = loader.plan()
    assert planned["ring_slots"] == plan["ring_slots"] + 3 == loader.stats()["ring"]["slots"]
    assert planned["ring_bytes"] == planned["ring_slots"] * planned["slot_bytes"]


def test_verify_names_every_bad_sample(tmp_path: Path) -> None:
    assert ringfeed.verify(IRIS)["checked"] == "form" and ringfeed.open(IRIS).verify()["checked"] == "values"
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.jpg").write_bytes((FIXTURES / "photos" / "rocket.jpg").read_bytes())
    (tmp_path / "b.jpg").write_bytes((tmp_path / "b.jpg").read_bytes()[:300])
    seen = []
    report = ringfeed.verify(tmp_path, workers=1, on_progress=lambda *progress: seen.append(progress))
    assert not report and report["samples"] == 3 and report["bad_samples"] == 1 and report["ended_by"] is None
    bad = report["bad"][0]
    assert isinstance(bad, ringfeed.Error) and bad.path == str(tmp_path / "b.jpg") and bad.record == 1
    assert seen[-1] == (3, 1, 3)
    with pytest.raises(ZeroDivisionError):
        ringfeed.verify(tmp_path, on_progress=lambda *_: 1 / 0)


def test_errors_say_where_in_attributes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,x\n")
    loader = ringfeed.open(tmp_path / "t.csv", fields={"v": Numbers(from_=["a", "b"])}, batch_size=2)
    with pytest.raises(ringfeed.DataError) as raised:
        list(loader)
    error = raised.value
    assert (error.path, error.record, error.line, error.column) == (str(tmp_path / "t.csv"), 1, 3, "b")
    assert error.kind == "data" and error.message in str(error) and ":3: record 1" in str(error)
    assert isinstance(error, ValueError) and isinstance(error, ringfeed.Error)
    skipping = ringfeed.open(tmp_path / "t.csv", fields={"v": Numbers(from_=["a", "b"])}, bad_records="skip")
    assert [batch.size for batch in skipping] == [1]
    assert skipping.stats()["skipped"] == 1 and len(skipping.bad_records()) == 1


def test_errors_say_which_member_and_byte(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        info = tarfile.TarInfo("0.jpg")
        info.size = 16
        tar.addfile(info, io.BytesIO(b"\xff\xd8\xff\xe0 and no more"))
    with pytest.raises(ringfeed.FormatError) as raised:
        list(ringfeed.open(tmp_path / "t.tar", fields={"image": Image(8, 8, from_="jpg")}))
    error = raised.value
    # Behind the member's header.
    assert (error.path, error.record, error.member, error.byte) == (str(tmp_path / "t.tar"), 0, "0.jpg", 512 + 16)


def test_many_files_are_one_data_set(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"part-{at}.csv").write_text(f"a,kind\n{at},{'xyz'[at]}\n")
    paths = [tmp_path / f"part-{at}.csv" for at in range(3)]
    fields = {"a": {"numbers": "f32"}, "kind": "class"}
    for source in (tmp_path / "part-*.csv", paths):
        (batch,) = list(ringfeed.open(source, fields=fields))
        assert np.asarray(batch["kind"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("pad", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_does_not_have(tmp_path: Path, pad: float) -> None:
    (tmp_path / "x.jsonl").write_text('{"x": [1, 2]}\n{"x": [3]}\n')
    settings = {"source": tmp_path / "x.jsonl", "fields": {"x": ringfeed.Numbers("f32", max_len=2, pad=pad)}}
    toml = f'source = "{tmp_path}/x.jsonl"\nfields.x = {{ numbers = "f32", max_len = 2, pad = {pad} }}\n'
    (tmp_path / "x.toml").write_text(toml)
    for loader in (ringfeed.Loader(settings), ringfeed.Loader(tmp_path / "x.toml")):
        (batch,) = loader
        assert str(batch["x"].tolist()[1][1]) == str(pad)
