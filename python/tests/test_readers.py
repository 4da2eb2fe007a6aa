"""Data sets of the user's own as sources: read in Python, decoded in Rust, ordered and resumed as any other."""

from __future__ import annotations

import datetime
import itertools
import pickle
import threading
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import Audio, Class, Image, Numbers, Text, Tokens

PHOTOS = sorted((FIXTURES / "photos").glob("*.*"))


class Rows:
    """Rows of numbers, by name."""

    def __init__(self, count: int = 100) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, i: int) -> dict[str, Any]:
        return {"x": np.array([i, -i], np.float32), "y": i, "part": i / 2, "pixels": np.full((2, 3), i % 256, np.uint8)}


def test_arrays_and_numbers_become_tensors() -> None:
    loader = ringfeed.from_reader(Rows(), batch_size=10, shuffle=3)
    assert [(t["name"], t["dtype"], t["shape"]) for t in loader.tensors] == [
        ("x", "f32", [2]),
        ("y", "i64", []),
        ("part", "f64", []),
        ("pixels", "u8", [2, 3]),
    ]
    seen = []
    for batch in loader:
        y = batch["y"].numpy()
        np.testing.assert_array_equal(batch["x"].numpy(), np.stack([y, -y], 1))
        np.testing.assert_array_equal(batch["part"].numpy(), y / 2)
        np.testing.assert_array_equal(batch["pixels"].numpy()[:, 1, 2], y)
        assert batch.sample_ids == y.tolist()
        seen += y.tolist()
    assert sorted(seen) == list(range(100)) and len(loader) == 10


def test_an_array_becomes_no_tensor_of_another_shape() -> None:
    class Pictures(Rows):
        def read(self, i: int) -> dict[str, Any]:
            return {"x": np.arange(6).reshape((2, 3) if i < 2 else (3, 2))}

    batches = iter(ringfeed.from_reader(Pictures(3), batch_size=1))
    for _ in range(2):
        np.testing.assert_array_equal(next(batches)["x"].numpy(), [[[0, 1, 2], [3, 4, 5]]])
    with pytest.raises(ringfeed.DataError, match=r"shape \[3, 2\], where \[2, 3\]"):
        next(batches)


def test_all_settings_hold() -> None:
    def order(**settings: Any) -> list[int]:
        return [y for batch in ringfeed.from_reader(Rows(), batch_size=10, **settings) for y in batch["y"].tolist()]

    first = order(shuffle=3)
    assert order(shuffle=3, workers=4, prefetch=5) == first == order(shuffle=3, shield=True)
    assert sorted(order(shuffle=3, shard=(0, 2)) + order(shuffle=3, shard=(1, 2))) == list(range(100))
    loader = ringfeed.from_reader(Rows(), batch_size=10, shuffle=3)
    loop = iter(loader)
    for _ in range(4):
        next(loop)
    resumed = pickle.loads(pickle.dumps(loader))
    assert [y for batch in resumed for y in batch["y"].tolist()] == first[40:]
    assert loader.plan()["samples"] == 100 and loader.verify()["samples"] == 100


def test_a_masked_number_is_no_number() -> None:
    class Masked(Rows):
        def read(self, i: int) -> dict[str, Any]:
            return {"x": np.ma.array([1.0, 2.0, 3.0], mask=[False, i == 2, False])}

    seen = []
    with pytest.raises(ringfeed.DataError, match="masked numbers"):
        for batch in ringfeed.from_reader(Masked(3), batch_size=1):
            seen += batch["x"].tolist()
    assert seen == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(ringfeed.Error, match="x: an array with masked numbers"):
        next(iter(ringfeed.from_reader(Rows(2), transform=lambda sample: {"x": np.ma.masked_less(sample["x"], 0.5)})))


class Photos:
    """Files, as bytes."""

    def __len__(self) -> int:
        return len(PHOTOS)

    def __getitem__(self, i: int) -> tuple[bytes, str, list[int]]:
        return PHOTOS[i].read_bytes(), PHOTOS[i].stem, list(range(i % 3 + 1))


def test_bytes_are_decoded_in_rust() -> None:
    fields = {
        "image": Image(24, 32, dtype="u8", augment=["horizontal_flip"]),
        "name": Text(40),
        "tokens": Tokens(4),
        "class": Class(from_="name"),
    }
    loader = ringfeed.from_reader(Photos(), names=["image", "name", "tokens"], fields=fields, batch_size=len(PHOTOS))
    batch = next(iter(loader))
    assert batch["image"].shape == (len(PHOTOS), 3, 24, 32) and batch.text("name") == [path.stem for path in PHOTOS]
    assert batch["tokens"].tolist()[2] == [0, 1, 2, 0] and batch["tokens_mask"].tolist()[2] == [1, 1, 1, 0]
    assert [batch["class"].classes[code] for code in batch["class"].tolist()] == batch.text("name")
    plain = {"image": Image(24, 32, dtype="u8")}
    ours = next(iter(ringfeed.from_reader(Photos(), names=["image", "n", "t"], fields=plain, batch_size=len(PHOTOS))))
    files = ringfeed.open(FIXTURES / "photos", fields=plain, batch_size=len(PHOTOS))
    np.testing.assert_array_equal(ours["image"].numpy(), next(iter(files))["image"].numpy())


def test_a_torch_dataset_is_a_source() -> None:
    torch = pytest.importorskip("torch")

    class Squares(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 50

        def __getitem__(self, i: int) -> Any:
            return torch.tensor([i, i * i], dtype=torch.float32), i % 2

    loader = ringfeed.from_reader(Squares(), names=["x", "label"], batch_size=25, shuffle=1)
    for x, label in loader.torch():
        assert torch.equal(x[:, 1], x[:, 0] ** 2) and torch.equal(label, x[:, 0].long() % 2)


def test_numbers_of_numpy_keep_their_type_as_arrays_do() -> None:
    torch = pytest.importorskip("torch")

    def record(i: int) -> tuple[Any, ...]:
        sized = np.float16(i), np.float32(i / 10), np.float64(i), np.int8(-i), np.int32(i), np.uint64(2**64 - 1 - i)
        return *sized, np.bool_(i % 2), torch.tensor(i % 2 == 0), bool(i % 2), i, i / 2

    records = [record(i) for i in range(4)]
    batch = next(iter(ringfeed.from_reader(records, batch_size=4)))
    wanted = ["f16", "f32", "f64", "i8", "i32", "u64", "u8", "u8", "i64", "i64", "f64"]
    assert [batch[name].dtype for name in batch] == wanted
    for number, name in enumerate(batch):
        assert batch[name].tolist() == [record[number] for record in records]
    # A class may be any of them.
    classes = ringfeed.from_reader(
        [np.uint8(i % 3) for i in range(6)], names=["c"], fields={"c": Class()}, batch_size=6
    )
    assert next(iter(classes))["c"].tolist() == [0, 1, 2, 0, 1, 2]


def test_values_that_are_no_data_are_named_with_their_field_and_record() -> None:
    torch = pytest.importorskip("torch")
    for value, said in [
        (torch.ones(2, dtype=torch.bfloat16), r"NumPy has no bf16: return it as .float\(\)"),
        (torch.ones(2, requires_grad=True), r"requires a gradient is no data: return it as .detach\(\)"),
        ({"a": 1}, "found dict of object: return its entries as fields"),
        (1j, "complex128: return its real and imaginary part"),
        (datetime.datetime(2020, 1, 1), "a number, such as .timestamp"),
        (np.datetime64("2020-01-01"), "a number, such as .timestamp"),
        (2**64, "more than 64 bits"),
        ([[1, 2], [3]], "found a list that NumPy refuses"),
    ]:
        with pytest.raises((TypeError, OverflowError), match=f"record 0: 'x': .*{said}"):
            ringfeed.from_reader([{"x": value}])
        later = ringfeed.from_reader([{"x": 0.0}, {"x": value}], fields={"x": Numbers()})
        with pytest.raises(ringfeed.DataError, match=f"'x': .*{said}") as raised:
            list(later)
        assert raised.value.record == 1
        if not isinstance(value, int):
            with pytest.raises(TypeError, match=f"'x': .*{said}"):
                ringfeed.from_iterable([{"x": value}])
        with pytest.raises((TypeError, OverflowError), match=f"'x': .*{said}"):
            ringfeed.serve(fields={"x": Numbers()}).apply(x=value)


class Bad(Rows):
    """Fails at its thirteenth record."""

    def read(self, i: int) -> dict[str, Any]:
        if i == 13:
            raise ZeroDivisionError("of record 13")
        return super().read(i)


def test_an_exception_is_that_of_its_record() -> None:
    loader = ringfeed.from_reader(Bad(), batch_size=5)
    with pytest.raises(ringfeed.DataError, match="raised ZeroDivisionError: of record 13") as raised:
        for _ in loader:
            pass
    assert raised.value.record == 13 and raised.value.path == "Bad"
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    skipping = ringfeed.from_reader(Bad(), batch_size=5, bad_records="skip")
    assert [y for batch in skipping for y in batch["y"].tolist()] == [i for i in range(100) if i != 13]


class Large:
    """Unsigned numbers of 64 bits, of which record 2 has one that i64 does not hold."""

    def __init__(self, dtype: str = "u8") -> None:
        self.dtype = dtype

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"x": np.array([[i, 2**64 - 1 if i == 2 else 2**63 - 1]], self.dtype)}


@pytest.mark.parametrize("dtype", ["<u8", ">u8"])
def test_unsigned_numbers_of_64_bits_stay_what_they_are(dtype: str) -> None:
    large = np.stack([Large(dtype)[i]["x"] for i in range(4)])

    def samples() -> Any:
        return (Large(dtype)[i] for i in range(4))

    for loader in ringfeed.from_reader(Large(dtype), batch_size=4), ringfeed.from_iterable(samples, batch_size=4):
        x = next(iter(loader))["x"]
        assert x.dtype == "u64" and x.numpy().dtype == np.uint64
        assert x.numpy().tolist() == memoryview(x).tolist() == large.tolist()
    empty = ringfeed.from_reader([{"x": np.zeros((0, 2), dtype)}] * 3, batch_size=3)
    assert next(iter(empty))["x"].shape == (3, 0, 2)


@pytest.mark.parametrize("dtype", ["<u8", ">u8"])
def test_an_unsigned_number_that_i64_does_not_hold_is_a_bad_record(dtype: str) -> None:
    def good(**settings: Any) -> list[Any]:
        loader = ringfeed.from_reader(Large(dtype), fields={"x": Numbers("i64", shape=[1, 2])}, **settings)
        return [row for batch in loader for row in batch["x"].tolist()]

    assert good(bad_records="skip", batch_size=4) == [[[i, 2**63 - 1]] for i in (0, 1, 3)]
    with pytest.raises(ringfeed.DataError, match="expected i64, found 18446744073709551615") as raised:
        good()
    assert raised.value.record == 2
    as_floats = ringfeed.from_reader(Large(dtype), fields={"x": Numbers("f32", shape=[1, 2])}, batch_size=4)
    wanted = [[[i, 2.0**64 if i == 2 else 2.0**63]] for i in range(4)]
    assert next(iter(as_floats))["x"].tolist() == wanted


def test_what_is_no_reader_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="length, which list_iterator has not: from_iterable takes"):
        ringfeed.from_reader(iter([1]))
    with pytest.raises(ValueError, match="'name' holds text: .* such as Text"):
        len(ringfeed.from_reader([{"name": "a"}]))
    with pytest.raises(TypeError, match="read"):
        ringfeed.from_reader(type("Empty", (), {"__len__": lambda self: 3})())
    with pytest.raises(ValueError, match="holds bytes: .* in `fields`"):
        next(iter(ringfeed.from_reader(Photos(), names=["image", "name", "tokens"]).numpy()))
    with pytest.raises(ValueError, match="names for 2 values"):
        ringfeed.from_reader(Photos(), names=["image", "name"])
    with pytest.raises(ringfeed.NotFoundError, match='did you mean "part"'):
        len(ringfeed.from_reader(Rows(), fields={"z": Numbers(from_="prt")}))
    with pytest.raises(ringfeed.ConfigError, match="samples of your own"):
        ringfeed.from_reader(Rows(), source={"path": FIXTURES / "iris.csv"})
    with pytest.raises(ringfeed.ConfigError, match="did you mean"):
        ringfeed.from_reader(Rows(), batchsize=3)


def test_records_are_read_a_job_at_a_time_in_the_workers() -> None:
    threads = set()

    class Spy(Rows):
        def read(self, i: int) -> dict[str, Any]:
            threads.add(threading.get_ident())
            return super().read(i)

    loader = ringfeed.from_reader(Spy(), batch_size=10, workers=2)
    threads.clear()
    assert sum(batch.size for batch in loader) == 100
    assert threading.get_ident() not in threads and len(threads) <= 2


def test_a_list_is_a_data_set(tmp_path: Path) -> None:
    loader = ringfeed.from_reader([1.5, 2.5, 3.5], names=["value"], batch_size=3)
    assert next(iter(loader))["value"].tolist() == [1.5, 2.5, 3.5]


def squares() -> Any:
    """A generator of samples."""
    for i in range(25):
        yield {"x": np.full(3, i, np.float32), "square": i * i}


def test_an_iterable_is_a_source_in_its_own_order() -> None:
    loader = ringfeed.from_iterable(squares, batch_size=10, hold=8)
    assert [(t["name"], t["dtype"], t["shape"]) for t in loader.tensors] == [("x", "f32", [3]), ("square", "i64", [])]
    for _ in range(2):
        batches = [batch.numpy() for batch in loader]
        assert [len(batch["x"]) for batch in batches] == [10, 10, 5]
        assert np.concatenate([batch["square"] for batch in batches]).tolist() == [i * i for i in range(25)]
    assert loader.epoch == 1
    with pytest.raises(TypeError, match="stream"):
        len(loader)
    loop = iter(loader)
    next(loop)
    resumed = pickle.loads(pickle.dumps(loader))
    assert [batch["square"].tolist()[0] for batch in resumed] == [100, 400]
    assert "samples" in loader.plan()["unknown"][0]


def test_an_iterator_serves_one_epoch() -> None:
    loader = ringfeed.from_iterable(((i, i / 2) for i in range(7)), names=["n", "half"], batch_size=4)
    assert [batch["half"].tolist() for batch in loader] == [[0, 0.5, 1, 1.5], [2, 2.5, 3]]
    with pytest.raises(ringfeed.UnsupportedError, match="single epoch"):
        next(iter(loader))
    with pytest.raises(TypeError, match="function"):
        pickle.dumps(loader)


def test_a_function_that_returns_one_iterator_again_and_again_loses_no_sample_silently() -> None:
    class Reads:
        def __init__(self, once: Any) -> None:
            self.once = once

        def __iter__(self) -> Any:
            return self.once

    once, items = squares(), iter([1, 2, 3])
    for loader in (
        ringfeed.from_iterable(lambda: once),
        ringfeed.from_iterable(lambda: items),
        ringfeed.from_iterable(Reads(squares())),
    ):
        for _ in range(2):
            with pytest.raises(ringfeed.IoError, match="the same iterator each time"):
                list(loader)
    assert len(list(ringfeed.from_iterable(lambda: iter([1, 2, 3]), batch_size=1))) == 3


def test_an_iterator_may_begin_again() -> None:
    class Again:
        def __iter__(self) -> Any:
            self.next = 0
            return self

        def __next__(self) -> int:
            self.next += 1
            if self.next > 3:
                raise StopIteration
            return self.next

    again = Again()
    loader = ringfeed.from_iterable(lambda: again, names=["n"], batch_size=2)
    for _ in range(2):
        assert [n for batch in loader for n in batch["n"].tolist()] == [1, 2, 3]

    assert [n for batch in ringfeed.from_iterable(Again(), names=["n"]) for n in batch["n"].tolist()] == [1, 2, 3]

    class Once(Again):
        def __init__(self) -> None:
            self.next = 0

        def __iter__(self) -> Any:
            return self

    once = Once()
    with pytest.raises(ringfeed.IoError, match="the same iterator each time"):
        list(ringfeed.from_iterable(lambda: once, names=["n"]))
    alike = iter([1.0] * 4)
    with pytest.raises(ringfeed.IoError, match="the same iterator each time"):
        list(ringfeed.from_iterable(lambda: alike, names=["n"]))

    class Unknown(Again):
        def __next__(self) -> Any:
            return np.array([np.nan, float(super().__next__())])

    assert sum(len(batch["n"]) for batch in ringfeed.from_iterable(Unknown(), names=["n"])) == 3


def test_what_an_iterable_can_not_do_is_said_at_once() -> None:
    for settings in ({"shuffle": 3}, {"shard": {"index": 0, "count": 2}}, {"last_batch": "pad"}):
        with pytest.raises(ringfeed.ConfigError, match="its own order"):
            ringfeed.from_iterable(squares, **settings)  # type: ignore[arg-type]
    with pytest.raises(ringfeed.ConfigError, match="gives tensors"):
        ringfeed.from_iterable(squares, fields={"x": Numbers()})
    with pytest.raises(ValueError, match="empty"):
        ringfeed.from_iterable([])


def test_an_exception_ends_the_epoch_and_an_odd_sample_is_bad() -> None:
    def fails() -> Any:
        yield from itertools.islice(squares(), 12)
        raise ZeroDivisionError("behind twelve")

    loader = ringfeed.from_iterable(fails, batch_size=5)
    with pytest.raises(ringfeed.IoError, match="raised ZeroDivisionError: behind twelve") as raised:
        list(loader)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)

    def odd() -> Any:
        yield from ([1.0, 2], [3.0, 4], [np.zeros(2), 5], [6.0], [7.0, 8])

    with pytest.raises(ringfeed.DataError, match="expected f64"):
        list(ringfeed.from_iterable(odd, names=["a", "b"]))
    skipping = ringfeed.from_iterable(odd, names=["a", "b"], bad_records="skip")
    assert [value for batch in skipping for value in batch["b"].tolist()] == [2, 4, 8]


def test_fields_say_what_becomes_of_sounds_tokens_and_arrays(tmp_path) -> None:
    tokens = np.arange(1000, dtype="<u2")
    tokens.tofile(tmp_path / "tokens.bin")
    fields = {"x": Numbers("i32", from_="inputs"), "y": Numbers("i64", from_="targets")}
    options = {"window": 8, "cut": "contiguous"}
    path = tmp_path / "tokens.bin"
    batch = next(iter(ringfeed.open(path, format="tokens", options=options, fields=fields, batch_size=2)))
    assert batch["x"].dtype == "i32" and batch["x"].tolist() == [list(range(8)), list(range(8, 16))]
    assert batch["y"].dtype == "i64" and batch["y"].tolist() == [list(range(1, 9)), list(range(9, 17))]
    with pytest.raises(ringfeed.ConfigError, match="write beside the path: fields = "):
        ringfeed.open(tmp_path / "tokens.bin", format="tokens", options={"dtype": "i32"}, shuffle=1)

    for kind in ("high", "low"):
        (tmp_path / "words" / kind).mkdir(parents=True)
        with wave.open(str(tmp_path / "words" / kind / "1.wav"), "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(2)
            out.setframerate(8000)
            out.writeframes(np.arange(100, dtype="<i2").tobytes())
    sounds: dict[str, Any] = {
        "sound": Audio(8000, length=50, crop="start", dtype="i16"),
        "kind": Class(["low", "high"]),
    }
    batch = next(iter(ringfeed.open(tmp_path / "words", fields=sounds, batch_size=2)))
    assert batch["sound"].tolist() == [list(range(50))] * 2 and batch["kind"].tolist() == [1, 0]

    np.save(tmp_path / "kind.npy", np.array([0, 2, 1], dtype=np.uint8))
    batch = next(iter(ringfeed.open(tmp_path / "kind.npy", fields={"kind": Class(["a", "b", "c"], one_hot=True)})))
    assert batch["kind"].tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_names_of_records_with_names_are_refused() -> None:
    assert ringfeed.from_reader(Rows(), names=["y", "x", "part", "pixels"]).tensors[0]["name"] == "x"
    with pytest.raises(ValueError, match=r"name their values .*leave out `names`"):
        ringfeed.from_reader(Rows(), names=["image", "label"])
    with pytest.raises(ValueError, match="leave out `names`"):
        ringfeed.from_iterable([{"x": 1.0}], names=["y"])
