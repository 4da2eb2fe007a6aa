"""Tables in memory as sources: what tensors hold is what pyarrow, pandas and polars say that the table holds."""

from __future__ import annotations

import datetime
import decimal
import gc
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed
from ringfeed import Class, Image, Numbers, Text

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.feather")
pytest.importorskip("pyarrow.parquet")

PHOTOS = sorted((FIXTURES / "photos").glob("*.*"))
COUNT = 1000


def plain() -> Any:
    """Numbers of every type, in columns that lie in several pieces."""
    at = np.arange(COUNT)
    columns: dict[str, Any] = {
        name: pa.array((at % 100).astype(name))
        for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64")
    }
    columns["flag"] = pa.array(at % 3 == 0)
    columns["id"] = pa.array(at)
    table = pa.table(columns)
    return pa.concat_tables([table.slice(0, 10), table.slice(10, 0), table.slice(10, 333), table.slice(343)])


def gathered(loader: ringfeed.Loader) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for batch in loader:
        for name, tensor in batch.items():
            found.setdefault(name, []).extend(np.asarray(tensor).tolist())
    return found


def test_numbers_are_those_of_the_table_in_any_order() -> None:
    table = plain()
    expected = table.to_pydict()
    assert gathered(ringfeed.open(table, batch_size=64)) == expected
    shuffled = gathered(ringfeed.open(table, batch_size=64, shuffle=3, workers=3))
    assert shuffled["id"] != expected["id"]
    for name, column in expected.items():
        assert [column[at] for at in shuffled["id"]] == shuffled[name], name
    assert gathered(ringfeed.Loader(table=table, batch_size=64, shuffle=3, shield=True)) == shuffled
    parts = [gathered(ringfeed.open(table, shuffle=3, batch_size=10, shard=(rank, 4)))["id"] for rank in range(4)]
    assert sorted(sum(parts, [])) == expected["id"]


def test_a_table_is_read_where_it_lies() -> None:
    values = np.arange(COUNT, dtype=np.float32)
    table = pa.table({"x": pa.array(values)})
    loader = ringfeed.open(table, batch_size=COUNT)
    values[:] = -values
    assert gathered(loader)["x"] == (-np.arange(COUNT)).tolist()


def test_unsigned_numbers_of_64_bits_are_exact_where_they_are_asked_for(tmp_path: Path) -> None:
    numbers = [0, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    table = pa.table(
        {"x": pa.array(numbers, pa.uint64()), "several": pa.array([[x, 1] for x in numbers], pa.list_(pa.uint64()))}
    )
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    for source in table, tmp_path / "x.parquet":
        fields = {"x": Numbers("u64"), "several": Numbers("u64", shape=[2])}
        batch = next(iter(ringfeed.open(source, fields=fields, batch_size=5)))
        assert batch["x"].tolist() == numbers and batch["several"].tolist() == [[x, 1] for x in numbers]
        left = ringfeed.open(source, fields={"x": Numbers("i64")}, batch_size=5, bad_records="skip")
        assert next(iter(left))["x"].tolist() == numbers[:3] and "9223372036854775808" in str(left.bad_records())


def test_missing_values_are_those_of_the_table() -> None:
    numbers = [1.5, None, float("nan"), 4.0] * 5
    table = pa.table({"x": pa.array(numbers), "i": pa.array([1, None, 3, None] * 5)})
    fields = {"x": Numbers("f64", missing="nan"), "i": Numbers("i64", missing=-1)}
    found = gathered(ringfeed.open(table, fields=fields, batch_size=7))
    np.testing.assert_array_equal(found["x"], [1.5, np.nan, np.nan, 4.0] * 5)
    assert found["i"] == [1, -1, 3, -1] * 5
    with pytest.raises(ringfeed.DataError, match="no value") as raised:
        list(ringfeed.open(table, fields={"i": Numbers("i64")}))
    assert (raised.value.path, raised.value.record, raised.value.column) == ("Table", 1, "i")
    skipping = ringfeed.open(table, fields={"i": Numbers("i64")}, bad_records="skip")
    assert gathered(skipping)["i"] == [1, 3] * 5


def test_texts_lists_dictionaries_structs_and_times() -> None:
    when = [datetime.datetime(2024, 5, day + 1, tzinfo=datetime.UTC) for day in range(4)]
    table = pa.table(
        {
            "text": pa.array(["one", "two", "three", "ü"]),
            "view": pa.array(["one", "two", "a text of more than twelve bytes", "ü"], pa.string_view()),
            "kind": pa.array(["b", "a", "b", "c"]).dictionary_encode(),
            "list": pa.array([[1, 2], [3], [], [4, 5, 6]]),
            "fixed": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], pa.list_(pa.float32(), 2)),
            "point": pa.array([{"x": at, "name": f"n{at}"} for at in range(4)]),
            "when": pa.array(when, pa.timestamp("s", "UTC")),
            "price": pa.array(
                [decimal.Decimal("1.25"), decimal.Decimal("-0.5"), decimal.Decimal(3), decimal.Decimal(4)]
            ),
        }
    )
    fields = {
        "text": Text(8),
        "view": Text(40),
        "kind": Class(),
        "list": Numbers("i64", max_len=4, pad=-1),
        "fixed": Numbers("f32"),
        "x": Numbers("i64", from_="point.x"),
        "name": Text(4, from_="point.name"),
        "when": Numbers("i64"),
        "price": Numbers("f64"),
    }
    for pieces in (table, pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        loader = ringfeed.open(pieces, fields=fields, batch_size=4)
        (batch,) = list(loader)
        assert batch.text("text") == table["text"].to_pylist() and batch.text("view") == table["view"].to_pylist()
        classes = batch["kind"].classes
        assert [classes[code] for code in batch["kind"].tolist()] == table["kind"].to_pylist()
        assert batch["list"].tolist() == [[1, 2, -1, -1], [3, -1, -1, -1], [-1] * 4, [4, 5, 6, -1]]
        assert batch["fixed"].tolist() == table["fixed"].to_pylist()
        assert batch["x"].tolist() == [0, 1, 2, 3] and batch.text("name") == ["n0", "n1", "n2", "n3"]
        assert batch["when"].tolist() == [int(time.timestamp()) for time in when]
        assert batch["price"].tolist() == [float(value) for value in table["price"].to_pylist()]


def test_arrays_of_a_fixed_shape_keep_it(tmp_path: Path) -> None:
    arrays = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    table = pa.table({"a": pa.FixedShapeTensorArray.from_numpy_ndarray(arrays)})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    pa.feather.write_feather(table, tmp_path / "a.arrow")
    for source in (table, tmp_path / "a.parquet", tmp_path / "a.arrow"):
        batch = next(iter(ringfeed.open(source, fields={"a": Numbers("f32")}, batch_size=4)))
        assert batch["a"].shape == (4, 2, 3) and (batch["a"].numpy() == arrays).all()
        with pytest.raises(ringfeed.Error, match=r"\[2, 3\]"):
            next(iter(ringfeed.open(source, fields={"a": Numbers("f32", shape=[3, 2])}, batch_size=4)))
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 3], permutation=[1, 0])
    stored = pa.FixedSizeListArray.from_arrays(pa.array(arrays.ravel()), 6)
    table = pa.table({"a": pa.ExtensionArray.from_storage(kind, stored)})
    pa.parquet.write_table(table, tmp_path / "b.parquet")
    for source in (table, tmp_path / "b.parquet"):
        with pytest.raises(ringfeed.Error, match=r"permutation \[1, 0\]"):
            next(iter(ringfeed.open(source, fields={"a": Numbers("f32")})))


def test_files_in_a_column_are_decoded() -> None:
    table = pa.table({"image": [{"bytes": path.read_bytes(), "path": path.name} for path in PHOTOS]})
    loader = ringfeed.open(table, fields={"image": Image(16, 24, from_="image.bytes")}, batch_size=len(PHOTOS))
    reader = ringfeed.from_reader(
        [path.read_bytes() for path in PHOTOS], names=["image"], fields={"image": Image(16, 24)}, batch_size=len(PHOTOS)
    )
    np.testing.assert_array_equal(next(iter(loader))["image"], next(iter(reader))["image"])


def test_damaged_tables_are_errors_and_never_read_beyond_their_memory() -> None:
    offsets = pa.py_buffer(np.array([0, 5, 900, 12], np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"hello world!")])
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 7, 1]), pa.array(["a", "b"]), safe=False)
    utf8 = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xff")]
    )
    for column in (texts, keys, utf8):
        loader = ringfeed.open(pa.table({"t": column}), fields={"t": Text(1000)})
        with pytest.raises(ringfeed.DataError, match="the column is damaged") as raised:
            list(loader)
        assert raised.value.column == "t"


def test_a_table_travels_and_goes_on() -> None:
    loader = ringfeed.open(plain(), batch_size=100, shuffle=3)
    whole = gathered(loader)["id"]
    loop = iter(loader)
    again = [value for _ in range(4) for value in next(loop)["id"].tolist()]
    resumed = pickle.loads(pickle.dumps(loader))
    rest = gathered(resumed)["id"]
    assert sorted(again + rest) == sorted(whole) and len(resumed) == 10
    other = ringfeed.open(plain().slice(1), batch_size=100, shuffle=3)
    len(other)  # It is open, so that the state is checked at once.
    with pytest.raises(ringfeed.Error):
        other.load_state_dict(loader.state_dict())


def test_what_is_no_table_is_said() -> None:
    with pytest.raises(TypeError, match="none of them"):
        ringfeed.from_table([1, 2])
    with pytest.raises(ringfeed.FormatError, match="can't be taken over"):
        ringfeed.from_table(pa.array([1, 2]))
    for used in (len, iter, lambda loader: loader.tensors, lambda loader: next(iter(loader.numpy()))):
        with pytest.raises(ValueError, match=r"t \(text\)"):
            used(ringfeed.open(pa.table({"t": ["a"]})))
    ringfeed.open(pa.table({"t": ["a"]})).close()
    with pytest.raises(ringfeed.NotFoundError, match='did you mean "price"'):
        len(ringfeed.open(pa.table({"price": [1.0]}), fields={"x": Numbers(from_="prize")}))
    with pytest.raises(TypeError, match="no format"):
        ringfeed.open(pa.table({"x": [1]}), format="arrow")
    with pytest.raises(TypeError, match=r"not a dict: pandas.DataFrame\(given\)"):
        ringfeed.open({"x": [1, 2]})
    with pytest.raises(TypeError, match=r"InMemoryDataset: to_table\(\) makes a table"):
        ringfeed.open(pytest.importorskip("pyarrow.dataset").dataset(pa.table({"x": [1]})))
    with pytest.raises(TypeError, match="from one of them"):
        ringfeed.Loader(table=pa.table({"x": [1]}), reader=[1])
    assert list(ringfeed.open(pa.table({"x": pa.array([], pa.int64())}))) == []


def test_other_objects_of_arrows_interface() -> None:
    class Single:
        """What gives one array of records."""

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return pa.record_batch({"x": np.arange(5)}).slice(1).__arrow_c_array__()

    assert gathered(ringfeed.open(Single()))["x"] == [1, 2, 3, 4]
    reader = pa.RecordBatchReader.from_batches(plain().schema, plain().to_batches())
    assert gathered(ringfeed.open(reader))["id"] == list(range(COUNT))

    class Failing:
        def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
            def batches() -> Any:
                yield from plain().to_batches()[:1]
                raise OSError("the well is dry")

            return pa.RecordBatchReader.from_batches(plain().schema, batches()).__arrow_c_stream__()

    with pytest.raises(ringfeed.FormatError, match="the well is dry"):
        ringfeed.open(Failing())


def test_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(FIXTURES / "penguins.csv")
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "if"]
    texts = [name for name in frame.columns if name not in numbers]
    found = gathered(ringfeed.open(frame, fields={name: Numbers("f64", missing="nan") for name in numbers}))
    for name in numbers:
        np.testing.assert_array_equal(found[name], frame[name].to_numpy(np.float64), err_msg=name)
    kept = frame.dropna(subset=texts)
    kept[texts] = kept[texts].astype("category")
    loader = ringfeed.open(kept, fields={name: Class() for name in texts}, shuffle=3, batch_size=50)
    for batch in loader:
        for name in texts:
            classes = batch[name].classes
            said = [classes[code] for code in batch[name].tolist()]
            assert said == kept[name].iloc[batch.sample_ids].tolist()


def test_a_null_in_place_of_a_list_makes_a_bad_record() -> None:
    kind = pa.list_(pa.list_(pa.float64()))
    for bad in ([None], [[1.0, 2.0], None, [3.0]]):
        table = pa.table({"x": pa.array([[[1.0], [2.0, None]], [], None, bad], kind)})
        batches = iter(ringfeed.open(table, fields={"x": Numbers("f64", max_len=4, missing="nan")}, batch_size=1))
        assert [sum(next(batches)["x_mask"].tolist()[0]) for _ in range(3)] == [3, 0, 0]
        with pytest.raises(ringfeed.DataError, match="a list is missing among lists"):
            next(batches)


def test_nan_is_missing_to_inspect_whatever_holds_it(tmp_path: Path) -> None:
    numbers = np.array([1.0, np.nan, 3.0, np.nan])
    pa.parquet.write_table(pa.table({"x": numbers}), tmp_path / "x.parquet")
    pa.feather.write_feather(pa.table({"x": pa.array([*numbers[:3], None], from_pandas=False)}), tmp_path / "x.feather")
    np.save(tmp_path / "x.npy", numbers)
    np.savez(tmp_path / "x.npz", x=numbers)
    for path in sorted(tmp_path.iterdir()):
        (found,) = ringfeed.inspect(path)["fields"]
        figures = [found[name] for name in ("count", "missing", "sum", "mean")]
        assert figures == [2, 2, 4.0, 2.0], f"{path.name}: {found}"
    # A list of NaN is a list.
    pa.parquet.write_table(pa.table({"x": [[np.nan], [2.0], None]}), tmp_path / "lists.parquet")
    (found,) = ringfeed.inspect(tmp_path / "lists.parquet")["fields"]
    assert (found["count"], found["missing"], found["mean"]) == (2, 1, 2.0)


def test_inspect_gives_exact_integers(tmp_path: Path) -> None:
    signed = np.array([2**53 + 1, 2], np.int64)
    unsigned = np.array([2**64 - 1, 2**64 - 1], np.uint64)
    pa.parquet.write_table(pa.table({"i": signed, "u": unsigned}), tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", i=signed, u=unsigned)
    for path in sorted(tmp_path.iterdir()):
        found = {field["name"]: field for field in ringfeed.inspect(path)["fields"]}
        for name, numbers in (("i", signed), ("u", unsigned)):
            figures = [found[name][figure] for figure in ("sum", "min", "max")]
            wanted = [int(number) for number in numbers]
            assert figures == [sum(wanted), min(wanted), max(wanted)], f"{path.name}: {found}"
            assert all(type(figure) is int for figure in figures), f"{path.name}: {found}"
        assert [found[name]["dtype"] for name in "iu"] == ["i64", "u64"]


def test_the_unnamed_index_of_a_frame_is_no_feature(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": np.arange(10.0), "y": np.arange(10) ** 2})
    some = frame.take([1, 2, 5])
    some.to_parquet(tmp_path / "some.parquet")
    assert [tensor["name"] for tensor in ringfeed.open(some).tensors] == ["x", "y"]
    for source in (some, tmp_path / "some.parquet"):
        found = gathered(ringfeed.open(source, fields={"features": Numbers("f64", from_="*")}))
        np.testing.assert_array_equal(found["features"], some.to_numpy())
        found = gathered(ringfeed.open(source, fields={"row": Numbers("i64", from_="__index_level_0__")}))
        np.testing.assert_array_equal(found["row"], some.index)


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "id": range(COUNT),
            "text": [f"number {at} of a thousand" for at in range(COUNT)],
            "kind": [f"k{at % 7}" for at in range(COUNT)],
            "list": [[at, at + 1] for at in range(COUNT)],
        },
        schema_overrides={"kind": polars.Categorical},
    )
    frame = polars.concat([frame.slice(0, 300), frame.slice(300)], rechunk=False)
    fields = {"id": Numbers("i64"), "text": Text(40), "kind": Class(), "list": Numbers("i64", shape=[2])}
    for batch in ringfeed.open(frame, fields=fields, shuffle=3, batch_size=100):
        rows = frame[batch["id"].tolist()]
        assert batch.text("text") == rows["text"].to_list() and batch["list"].tolist() == rows["list"].to_list()
        classes = batch["kind"].classes
        assert [classes[code] for code in batch["kind"].tolist()] == rows["kind"].to_list()
    with pytest.raises(TypeError, match="collect"):
        ringfeed.from_table(frame.lazy())


def test_columns_of_polars_that_arrow_does_not_have_are_named() -> None:
    polars = pytest.importorskip("polars")
    wide = polars.Series("wide", [1, 2], polars.Int128)
    for column in (wide, polars.Series("wide", [[1], [2]], polars.List(polars.Int128))):
        frame = polars.DataFrame([polars.Series("x", [0.5, 1.5]), column])
        with pytest.raises(
            ringfeed.UnsupportedError, match="which Arrow does not have: leave the column out"
        ) as raised:
            ringfeed.open(frame)
        assert raised.value.column == "wide"
        assert gathered(ringfeed.open(frame.drop("wide")))["x"] == [0.5, 1.5]
    assert gathered(ringfeed.open(polars.DataFrame([wide.cast(polars.Int64)])))["wide"] == [1, 2]
    # Whether a column without a type is one of missing values, or is refused, is for the version of polars.
    frame = polars.DataFrame({"x": [0.5, 1.5], "empty": [None, None]})
    try:
        assert gathered(ringfeed.open(frame)) == {"x": [0.5, 1.5]}
    except ringfeed.UnsupportedError as error:
        assert "leave it out, or cast it" in str(error) and error.column == "empty"
    filled = frame.cast({"empty": polars.Float32})
    np.testing.assert_array_equal(
        gathered(ringfeed.open(filled, fields={"empty": Numbers(missing="nan")}))["empty"], [np.nan, np.nan]
    )


def hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets")


def test_data_sets_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = hugging_face(tmp_path, monkeypatch)
    made = datasets.Dataset.from_dict({"x": [at / 2 for at in range(COUNT)], "y": [f"t{at}" for at in range(COUNT)]})
    made.save_to_disk(tmp_path / "stored", num_shards=3)
    stored = datasets.load_from_disk(tmp_path / "stored")
    turns: list[Callable[[Any], Any]] = [
        lambda data: data,
        lambda data: data.shuffle(seed=5),
        lambda data: data.filter(lambda row: row["x"] % 3 == 0),
        lambda data: data.shuffle(seed=5).select(range(10, 200)).shuffle(seed=6),
        lambda data: data.select([5, 5, 1, 999]),
        lambda data: data.train_test_split(test_size=0.2, seed=1)["test"],
        lambda data: datasets.concatenate_datasets([data.select([1, 2]), data.select([7, 3])]),
        lambda data: data.select([]),
    ]
    for data in (made, stored):
        for turn in turns:
            turned = turn(data)
            loader = ringfeed.open(turned, fields={"x": Numbers("f64"), "y": Text(5)}, batch_size=32)
            seen = [pair for batch in loader for pair in zip(batch["x"].tolist(), batch.text("y"))]
            assert seen == [(row["x"], row["y"]) for row in turned]
    shuffled = made.shuffle(seed=5)
    loader = ringfeed.open(shuffled, batch_size=32, shuffle=1)
    assert sorted(gathered(loader)["x"]) == sorted(made["x"])
    loader.load_state_dict(ringfeed.open(shuffled, batch_size=32, shuffle=1).state_dict())
    with pytest.raises(ringfeed.Error):
        loader.load_state_dict(ringfeed.open(made.shuffle(seed=6), batch_size=32, shuffle=1).state_dict())
    with pytest.raises(TypeError, match='"train"'):
        ringfeed.from_table(datasets.DatasetDict(train=made))


def test_pictures_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = hugging_face(tmp_path, monkeypatch)
    rows = {"image": [{"bytes": path.read_bytes(), "path": None} for path in PHOTOS], "label": [0] * len(PHOTOS)}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["photo"])})
    data = datasets.Dataset.from_dict(rows, features=features).shuffle(seed=2)
    fields = {"image": Image(12, 8, from_="image.bytes"), "label": Numbers("i64")}
    (batch,) = list(ringfeed.open(data, fields=fields, batch_size=len(PHOTOS)))
    order = [PHOTOS[place].read_bytes() for place in data._indices.table.column(0).to_pylist()]
    reader = ringfeed.from_reader(order, names=["image"], fields={"image": Image(12, 8)}, batch_size=len(PHOTOS))
    np.testing.assert_array_equal(batch["image"], next(iter(reader))["image"])


def test_a_stream_may_wait_for_threads_that_run_python() -> None:
    # In a process of its own, which would never end otherwise: Arrow's threads call the generator.
    done = run(
        """
import threading
import pyarrow as pa, pyarrow.dataset, ringfeed

schema = pa.schema([("x", pa.int64())])
makers = set()

def batches():
    for n in range(5):
        makers.add(threading.get_ident())
        yield pa.record_batch([pa.array([n, n + 100])], schema=schema)

scanner = pa.dataset.Scanner.from_batches(batches(), schema=schema)
loader = ringfeed.open(scanner.to_reader(), batch_size=10)
print(sorted(next(iter(loader))["x"].tolist()))
assert threading.get_ident() not in makers
""",
        timeout=120,
    )
    assert done.stdout.strip() == "[0, 1, 2, 3, 4, 100, 101, 102, 103, 104]"


def test_the_table_is_let_go_with_the_loader() -> None:
    values = np.arange(COUNT, dtype=np.float32)
    gone = weakref.ref(values)
    loader = ringfeed.open(pa.table({"x": pa.array(values)}), batch_size=100)
    next(iter(loader))
    del values
    gc.collect()
    assert gone() is not None
    del loader
    gc.collect()
    assert gone() is None


def test_the_interpreter_ends_with_a_table_half_read() -> None:
    done = run(
        """
import numpy as np, pyarrow as pa, ringfeed
loader = ringfeed.open(pa.table({"x": pa.array(np.arange(1e5))}), batch_size=10, workers=3)
loop = iter(loader)
print(next(loop)["x"].tolist()[1])
"""
    )
    assert done.stdout.strip() == "1.0"


def test_what_can_become_a_table_is_told_how() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for made in (ringfeed.open, ringfeed.from_table):
        for column in (pandas.Series([1, 2], name="x"), polars.Series("x", [1, 2])):
            with pytest.raises(TypeError, match=r"a column is no table: to_frame\(\) makes one"):
                made(column)
            assert gathered(ringfeed.open(column.to_frame()))["x"] == [1, 2]
        with pytest.raises(TypeError, match=r"LazyFrame.*: collect\(\) it first"):
            made(polars.LazyFrame({"x": [1]}))


def test_other_data_sets_of_hugging_face_are_told_what_to_do() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"x": [1, 2]})
    for made in (ringfeed.open, ringfeed.from_table):
        with pytest.raises(TypeError, match="IterableDataset.*: give it to from_iterable"):
            made(rows.to_iterable_dataset())
        with pytest.raises(TypeError, match=r'DatasetDict.*: take one of its splits, such as given\["train"\]'):
            made(datasets.DatasetDict({"train": rows}))
    loader = ringfeed.from_iterable(rows.to_iterable_dataset(), batch_size=2)
    assert next(iter(loader))["x"].tolist() == [1, 2]
