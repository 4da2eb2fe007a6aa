"""Batches are the loader's own memory: seen without a copy, never overwritten, and given back with the last view."""

from __future__ import annotations

import ctypes
import gc
import itertools
import pickle
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed

Make = Callable[..., ringfeed.Loader]


def held(loader: ringfeed.Loader) -> int:
    gc.collect()
    stats = loader.stats()
    assert stats["held"] == stats["ring"]["leased"]
    return int(stats["held"])


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def test_numpy_sees_the_memory_itself(numbers: Make) -> None:
    loader = numbers()
    batch = next(iter(loader))
    for array in (
        np.asarray(batch["x"]),
        np.from_dlpack(batch["x"]),
        np.asarray(memoryview(batch["x"])),
        batch["x"].numpy(),
        batch.numpy()["x"],
        np.array(batch["x"], copy=False),
    ):
        assert address(array) == batch["x"].data_ptr
        assert array.dtype == np.float32 and array.shape == (10, 2) and array.flags.writeable
        np.testing.assert_array_equal(array[:, 0], np.arange(10))
    assert loader.stats()["detached"] == loader.stats()["copied"] == 0


def test_torch_sees_the_memory_itself(numbers: Make) -> None:
    torch = pytest.importorskip("torch")
    loader = numbers()
    batch = next(iter(loader))
    for tensor in (torch.from_dlpack(batch["x"]), batch["x"].torch(), batch.torch()["x"]):
        assert tensor.data_ptr() == batch["x"].data_ptr
        assert tensor.dtype == torch.float32 and tuple(tensor.shape) == (10, 2)
    x, y = next(iter(loader.torch()))
    assert x[:, 0].tolist() == y.tolist() == list(range(10))


def test_jax_sees_the_memory_itself(numbers: Make) -> None:
    jax = pytest.importorskip("jax")
    loader = numbers()
    batch = next(iter(loader))
    assert batch["x"].data_ptr % 64 == 0, "what JAX asks of memory that it does not copy"
    for array in (jax.numpy.from_dlpack(batch["x"]), batch["x"].jax(), batch.jax()["x"]):
        assert array.unsafe_buffer_pointer() == batch["x"].data_ptr
        np.testing.assert_array_equal(np.asarray(array)[:, 1], -np.arange(10))
    on_device = jax.device_put(batch["x"].numpy())
    np.testing.assert_array_equal(np.asarray(on_device)[:, 0], np.arange(10))


@pytest.mark.parametrize("view", ["batch", "tensor", "numpy", "dlpack", "memoryview", "torch", "jax", "slice"])
def test_the_slot_comes_home_when_the_last_view_dies(numbers: Make, view: str) -> None:
    if view in ("torch", "jax"):
        pytest.importorskip(view)
    make = {
        "batch": lambda batch: batch,
        "tensor": lambda batch: batch["y"],
        "numpy": lambda batch: batch["x"].numpy(),
        "dlpack": lambda batch: np.from_dlpack(batch["x"]),
        "memoryview": lambda batch: memoryview(batch["x"]),
        "torch": lambda batch: batch["x"].torch(),
        "jax": lambda batch: batch["x"].jax(),
        "slice": lambda batch: batch["x"].numpy()[3:, 0],
    }[view]
    loader = numbers()
    loop = iter(loader)
    kept = make(next(loop))
    other = make(next(loop))
    assert held(loader) == 2
    del other
    assert held(loader) == 1
    for batch in loop:
        assert batch.index > 1
    del batch
    assert held(loader) == 1
    first = kept["x"] if view == "batch" else kept
    if view != "slice":
        assert np.asarray(first).ravel()[:2].tolist() == ([0, 1] if view == "tensor" else [0, 0])
    del kept, first
    assert held(loader) == 0


def test_a_view_may_die_on_another_thread(numbers: Make) -> None:
    loader = numbers(1000, hold=8)
    loop = iter(loader)
    views = [next(loop)["x"].numpy() for _ in range(8)]

    def drop() -> None:
        while views:
            views.pop()

    threads = [threading.Thread(target=drop) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert held(loader) == 0


def test_a_deleter_needs_no_interpreter_lock(numbers: Make) -> None:
    """As XLA does it: a consumer takes the tensor out of the capsule and deletes it on a thread of its own."""
    loader = numbers()
    batch = next(iter(loader))
    capsules = [batch["x"].__dlpack__(), batch["x"].__dlpack__(max_version=(1, 0))]
    del batch
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    # Where the deleter lies: behind tensor and context, or behind version and context.
    for capsule, name, used, place in (
        (capsules[0], b"dltensor", b"used_dltensor", 48 + 8),
        (capsules[1], b"dltensor_versioned", b"used_dltensor_versioned", 8 + 8),
    ):
        assert held(loader) == 1
        managed = get(capsule, name)
        rename(capsule, used)
        deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(managed + place).value or 0)
        # `CFUNCTYPE` lets go of the lock for as long as the call lasts.
        thread = threading.Thread(target=deleter, args=(managed,))
        thread.start()
        thread.join()
    del capsule, capsules
    assert held(loader) == 0


def test_a_capsule_that_nobody_takes_gives_the_tensor_up(numbers: Make) -> None:
    loader = numbers()
    batch = next(iter(loader))
    capsules = [
        batch["x"].__dlpack__(),
        batch["x"].__dlpack__(max_version=(1, 1)),
        batch["x"].__dlpack__(max_version=(0, 8)),
    ]
    assert ['"dltensor"' in repr(capsule) for capsule in capsules] == [True, False, True]
    del batch
    assert held(loader) == 1
    del capsules
    assert held(loader) == 0


def test_dlpack_gives_what_it_is_asked_for(numbers: Make) -> None:
    batch = next(iter(numbers()))
    assert batch["x"].__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="on the host"):
        batch["x"].__dlpack__(dl_device=(2, 0))
    copy = np.from_dlpack(batch["x"], copy=True)
    assert address(copy) != batch["x"].data_ptr
    np.testing.assert_array_equal(copy, batch["x"].numpy())
    batch["x"].__dlpack__(stream=None, max_version=(2, 0), what_comes_later=1)


def test_arrays_convert_by_the_rules_of_numpy(numbers: Make) -> None:
    batch = next(iter(numbers()))
    assert np.asarray(batch["y"], dtype=np.float64).dtype == np.float64
    assert address(batch["y"].__array__(dtype=np.int64)) == batch["y"].data_ptr
    assert address(batch["y"].__array__(copy=True)) != batch["y"].data_ptr
    with pytest.raises(ValueError, match="copy"):
        batch["y"].__array__(dtype=np.float64, copy=False)
    assert batch["y"].tolist() == list(range(10))


def test_looping_while_the_last_batch_is_kept_copies_nothing(numbers: Make) -> None:
    loader = numbers(1000)
    before = None
    for batch in loader:
        assert before is None or before["y"].tolist()[0] + 10 == batch["y"].tolist()[0]
        before = batch
    assert loader.stats()["copied"] == 0
    loader = numbers(1000, hold=8)  # `zip` keeps its first tuple, too.
    for accumulated in zip(*[iter(loader)] * 3):
        assert len(accumulated) == 3
    assert loader.stats()["copied"] == 0


def test_holding_more_copies_with_one_warning_and_overwrites_nothing(numbers: Make) -> None:
    loader = numbers(1000)
    with pytest.warns(ringfeed.HoldWarning, match="hold") as said:
        batches = list(loader)
    assert len(said) == 1
    assert len(batches) == 100 and held(loader) == 3
    assert loader.stats()["copied"] == 97
    for number, batch in enumerate(batches):
        assert batch.index == number and batch["y"].tolist() == list(range(10 * number, 10 * number + 10))
        assert batch.state["position"] == 10 * number + 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = list(loader)
    assert [batch["y"].tolist() for batch in again] == [batch["y"].tolist() for batch in batches]
    assert len({batch["x"].data_ptr for batch in batches + again}) == 200


def test_a_warning_that_is_an_error_loses_no_batch(numbers: Make) -> None:
    loader = numbers(100, hold=0)
    loop = iter(loader)
    kept = [next(loop)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ringfeed.HoldWarning):
            next(loop)
    assert loader.state_dict()["position"] == 10
    kept.append(next(loop))
    assert [batch.index for batch in kept] == [0, 1] and loader.state_dict()["position"] == 20


def test_holding_more_may_be_an_error_that_loses_nothing(numbers: Make) -> None:
    loader = numbers(100, hold=1, on_hold="error")
    loop = iter(loader)
    kept = [next(loop), next(loop)]
    with pytest.raises(ringfeed.ExhaustedError, match="2 batches are held"):
        next(loop)
    kept.pop(0)
    assert next(loop)["y"].tolist() == list(range(20, 30))


def test_two_loaders_take_turns_in_one_workspace(numbers: Make) -> None:
    """Validation in the memory of training, and by its threads."""
    train = numbers(1000, shuffle=3, workers=1)
    valid = numbers(200, shuffle=4, workers=7, prefetch=30, hold=9, workspace=train)
    expected = [batch["y"].tolist() for batch in numbers(1000, shuffle=3)]
    alone = [batch["y"].tolist() for batch in numbers(200, shuffle=4)]
    places, seen = set(), []
    for batch in train:
        places.add(batch["x"].data_ptr)
        seen.append(batch["y"].tolist())
        if batch.index == 60:
            kept = batch
            found = [(each["y"].tolist(), each["x"].data_ptr) for each in valid]
            assert [values for values, _ in found] == alone
            assert {place for _, place in found} <= places, "no memory of its own"
            assert valid.stats()["workers"]["threads"] == train.stats()["workers"]["threads"] == 1
    assert seen == expected and kept["y"].tolist() == expected[60]
    del kept, batch
    # There are places for both together.
    loops = [iter(train), iter(valid)]
    batches = [next(loops[turn % 2]) for turn in range(3)]
    assert held(train) == 3 == valid.stats()["held"] and train.stats()["copied"] == 0
    with pytest.warns(ringfeed.HoldWarning, match="3 batches are held"):
        batches.append(next(loops[1]))
    assert valid.stats()["copied"] == 1
    batches.clear()
    copied = pickle.loads(pickle.dumps(numbers(200, shuffle=4, workspace=numbers(1000, shuffle=3))))
    assert [batch["y"].tolist() for batch in copied] == alone
    train.close()
    assert sum(batch.size for batch in valid) == 200, "threads end with the last of them"
    with pytest.raises(ringfeed.EndedError, match="closed"):
        next(iter(numbers(200, workspace=train)))
    with pytest.raises(ringfeed.ConfigError, match="memory of their own"):
        numbers(200, workspace=numbers(device="host"))
    with pytest.raises(TypeError, match="workspace: expected a loader"):
        numbers(workspace="train")


def test_the_plan_of_a_loader_in_a_workspace_is_that_of_the_workspace(numbers: Make) -> None:
    train = numbers(1000, workers=3, prefetch=5, hold=4, batch_size=40, memory={"budget_bytes": 10_000_000})
    valid = numbers(200, workers=7, prefetch=30, hold=9, workspace=train, memory={"budget_bytes": 1})
    ahead, own, shared = train.plan(), numbers(200, workers=7, prefetch=30, hold=9).plan(), valid.plan()
    assert sum(1 for _ in train) == 25 and sum(1 for _ in valid) == 20
    for loader in (train, valid):
        stats = loader.stats()
        assert shared["ring_slots"] == stats["ring"]["slots"] and shared["ring_bytes"] == stats["ring"]["bytes"]
        assert shared["workers"] == stats["workers"]["threads"] and shared["prefetch"] == stats["queue"]["prefetch"]
    assert shared["budget_bytes"] == ahead["budget_bytes"] and shared["fits"] is True
    of_ring = {"workers", "prefetch", "ring_slots", "slot_bytes", "ring_bytes", "budget_bytes", "fits", "held_bytes"}
    assert {name: shared[name] for name in shared.keys() - of_ring} == {
        name: own[name] for name in own.keys() - of_ring
    }


def test_copies_are_within_the_budget(numbers: Make) -> None:
    loader = numbers(5000, memory={"budget_bytes": 100_000})
    loop, kept = iter(loader), []
    with pytest.warns(ringfeed.HoldWarning), pytest.raises(ringfeed.BudgetError, match="held"):
        for _ in range(500):
            kept.append(next(loop))
    here = len(kept)
    assert loader.stats()["memory_bytes"] <= 100_000
    kept.clear()
    assert next(loop).index == here, "what was refused is not lost"


def test_a_batch_may_be_copied_out(numbers: Make) -> None:
    loader = numbers()
    batch = next(iter(loader))
    copy = batch.detach()
    assert copy["x"].data_ptr != batch["x"].data_ptr and copy.sample_ids == batch.sample_ids
    np.testing.assert_array_equal(copy["x"].numpy(), batch["x"].numpy())
    del batch
    assert held(loader) == 0


def test_batches_outlive_their_loader(numbers: Make) -> None:
    loader = numbers()
    batch = next(iter(loader))
    array = batch["y"].numpy()
    loader.close()
    del loader, batch
    gc.collect()
    assert array.tolist() == list(range(10))


def test_page_locked_memory_never_leaves_as_an_array(numbers: Make) -> None:
    """A copy to a device that is not waited for may read it long after the array is gone: so it is copied here."""
    loader = numbers(memory={"kind": {"page_locked": {"device": "host"}}})
    with pytest.warns(ringfeed.HoldWarning, match="page-locked"):
        batches = list(itertools.islice(loader, 2))
    assert held(loader) == 0 and loader.stats()["copied"] == 2
    assert [batch["y"].tolist()[0] for batch in batches] == [0, 10]


def test_a_buffer_in_the_order_of_fortran_is_refused(numbers: Make) -> None:
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes, release.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], [ctypes.c_void_p]
    view = ctypes.create_string_buffer(256)
    batch = next(iter(numbers()))
    c, fortran, either = 0x38, 0x58, 0x98
    with pytest.raises(BufferError, match="columns"):
        get(batch["x"], view, fortran)
    for tensor, flags in ((batch["y"], fortran), (batch["x"], c), (batch["x"], either)):
        assert get(tensor, view, flags) == 0
        release(view)


@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"])
def test_every_element_type_goes_to_every_library(tmp_path, dtype: str) -> None:
    names = {"u": "uint", "i": "int", "f": "float", "b": "bfloat"}
    name = names[dtype[0]] + dtype.lstrip("bfiu")
    values = np.arange(6).reshape(3, 2)
    stored = values.astype(np.float32 if dtype == "bf16" else name)
    np.save(tmp_path / "x.npy", stored)
    source = {"format": "npy", "path": tmp_path / "x.npy", "fields": {"x": dtype}}
    loader = ringfeed.Loader(sources=[source], batch_size=3)
    tensor = next(iter(loader))["x"]
    assert tensor.dtype == dtype and tensor.shape == (3, 2) and tensor.nbytes == 6 * (int(dtype.lstrip("bfiu")) // 8)
    if dtype == "bf16":
        with pytest.raises(BufferError, match="u16"):
            memoryview(tensor)
        bits = tensor.view("u16").numpy().astype(np.uint32) << 16
        np.testing.assert_array_equal(bits.view(np.float32), values)
        with pytest.raises(ringfeed.SchemaError, match="bytes"):
            tensor.view("f32")
    else:
        array = np.asarray(tensor)
        assert array.dtype == np.dtype(name) and address(array) == tensor.data_ptr
        np.testing.assert_array_equal(array, values)
        np.testing.assert_array_equal(np.from_dlpack(tensor), values)
        assert tensor.tolist() == values.tolist()
    try:
        import torch
    except ImportError:
        return
    there = torch.from_dlpack(tensor)
    assert there.dtype == getattr(torch, name) and there.data_ptr() == tensor.data_ptr
    assert there.to(torch.float64).tolist() == values.tolist()


def test_bf16_is_an_array_where_ml_dtypes_is(tmp_path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    source = {"format": "npy", "path": tmp_path / "x.npy", "fields": {"x": "bf16"}}
    loader = ringfeed.Loader(sources=[source])
    array = next(iter(loader))["x"].numpy()
    assert array.dtype == ml_dtypes.bfloat16 and array.astype(np.float32).tolist() == [0, 1, 2, 3]


def test_text_comes_as_strings(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("word,n\nfir,1\nÖland,2\n,3\n")
    loader = ringfeed.open(tmp_path / "t.csv", fields={"word": ringfeed.Text(8), "n": ringfeed.Numbers("i64")})
    batch = next(iter(loader))
    assert batch.text("word") == ["fir", "Öland", ""]
    with pytest.raises(ringfeed.NotFoundError, match="did you mean"):
        batch.text("wort")


def test_texts_of_several_columns_or_records_come_in_lists(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("first,last\nAda,Byron\nAlan,Turing\nÖ,\n")
    names = ringfeed.Text(8, from_=["first", "last"])
    batch = next(iter(ringfeed.open(path, fields={"name": names})))
    assert batch.text("name") == [["Ada", "Byron"], ["Alan", "Turing"], ["Ö", ""]]
    windows = ringfeed.open(
        path, fields={"first": ringfeed.Text(8), "name": names}, windows={"length": 2, "horizon": 0}
    )
    batch = next(iter(windows))
    assert batch.text("first") == [["Ada", "Alan"], ["Alan", "Ö"]]
    assert batch.text("name") == [[["Ada", "Byron"], ["Alan", "Turing"]], [["Alan", "Turing"], ["Ö", ""]]]


def test_a_batch_is_a_mapping_that_says_what_it_is(numbers: Make) -> None:
    from collections.abc import Mapping

    loader = numbers(shuffle=7)
    batch = next(iter(loader))
    assert isinstance(batch, Mapping) and list(batch) == batch.keys() == ["x", "y"] and len(batch) == 2
    assert dict(batch.items()).keys() == {"x", "y"} and [t.name for t in batch.values()] == ["x", "y"]
    assert "x" in batch and "z" not in batch and 3 not in batch and batch.get("z") is None and batch.get("z", 5) == 5
    assert (batch.size, batch.epoch, batch.index, batch.padding, batch.bad_records) == (10, 0, 0, 0, 0)
    assert batch.sample_ids == batch["y"].tolist() and batch.positions == list(range(10))
    assert [tensor.role for tensor in batch.values()] == ["feature", "label"]
    assert "x f32 [10, 2]" in repr(batch) and repr(batch["y"]) == 'Tensor("y", i64 [10])'
    with pytest.raises(KeyError, match="y2") as raised:
        batch["y2"]
    assert isinstance(raised.value.__cause__, ringfeed.NotFoundError)
    with pytest.raises(ringfeed.UnsupportedError):
        pickle.dumps(batch)


def test_unpacking_a_batch_is_an_error_that_says_what_to_say(numbers: Make) -> None:
    """A mapping gives its names: `for x, y in loader` would silently have two strings in place of two tensors."""
    loader = numbers()
    for unpack in (
        lambda: [x for x, y in loader],
        lambda: [x for (x, y), _ in zip(loader, loader)],
        lambda: [x for x, *_ in loader],
    ):
        with pytest.raises(TypeError, match=r"""the names, 'x', 'y': say yields="tuple", take loader.torch\(\)"""):
            unpack()
    batch = next(iter(loader))
    with pytest.raises(TypeError, match="batch.values"):
        x, y = batch
    # What asks the batch only while it is unpacked itself would give names, too.
    with pytest.raises(TypeError, match=r"batch.keys\(\) gives the names"):
        x, y, *rest = itertools.chain(batch, batch)
    x, y, *rest = itertools.chain(batch.keys(), batch.keys())
    assert (x, y, rest) == ("x", "y", ["x", "y"])
    x, y = batch.values()
    assert (x.name, y.name) == ("x", "y")
    # All else that goes through a mapping has its names.
    assert [name for name in batch] == list(batch) == sorted(batch) == [*batch] == ["x", "y"]
    assert dict(batch).keys() == {**batch}.keys() == {"x", "y"} and max(batch) == "y"
    first, second = iter(batch)
    assert (first, second) == ("x", "y")
    for yields in ("tuple", tuple):
        for x, y in numbers(yields=yields):
            assert (x.name, y.name) == ("x", "y")
    assert isinstance(next(iter(numbers(yields=dict))), ringfeed.Batch)


def test_a_batch_says_how_it_is_taken(numbers: Make) -> None:
    batch = next(iter(numbers()))
    with pytest.raises(
        TypeError, match=r"""tensors by name, \["x", "y"\], and a tensor has samples: write batch\["x"\]\[0\]"""
    ):
        batch[0]
    with pytest.raises(ringfeed.SchemaError, match='"y" holds no text'):
        batch.text("y")
    # As trainers do that change the tensors of a mapping.
    with pytest.raises(TypeError, match=r"give it loader.torch\(\)"):
        type(batch)(dict(batch.items()))


def test_a_function_gets_what_its_loop_gives(numbers: Make) -> None:
    assert next(iter(numbers(yields=lambda batch: batch["y"].name))) == "y"
    sums = [total for total in numbers().numpy(yields=lambda arrays: arrays["y"].sum())]
    assert sums == [45 + 100 * index for index in range(10)]
    with pytest.raises(ValueError, match="yields"):
        numbers().torch("list")  # type: ignore[arg-type]


def test_a_tensor_is_looked_at_as_its_array_is(numbers: Make) -> None:
    batch = next(iter(numbers()))
    x, y = batch.values()
    assert len(x) == 10 and x.shape == (10, 2) and x.ndim == 2
    np.testing.assert_array_equal(x[3], [3, -3])
    assert x[3, 1] == -3 and y[-1] == 9 and y[2:4].tolist() == [2, 3] and x[..., 0].shape == (10,)
    assert address(x[0]) == x.data_ptr, "without a copy"
    np.testing.assert_array_equal(y[y > 7], [8, 9])
    assert [row.tolist() for row in x][:2] == [[0, 0], [1, -1]] and list(y) == list(range(10))
    assert (y == 3).sum() == 1 and (y != np.arange(10)).sum() == 0 and (x < y[:, None]).any()
    assert len({x, y, x}) == 2
    x[0] = 7
    assert x.numpy()[0].tolist() == [7, 7]
    one = next(iter(numbers(batch_size=1)))["y"]
    assert (float(one), int(one), one.item(), bool(one)) == (0.0, 0, 0, False) and type(one.item()) is int
    for several in (float, int, bool, lambda tensor: tensor.item()):
        with pytest.raises((TypeError, ValueError)):
            several(y)
    with pytest.raises(IndexError):
        y[10]
    for name in ("mean", "to", "reshape"):
        with pytest.raises(AttributeError, match=f'"{name}": convert it by .numpy'):
            getattr(x, name)
    assert not hasattr(x, "cuda")


def test_tensors_go_into_other_libraries_functions(numbers: Make) -> None:
    batch = next(iter(numbers()))
    x, y = batch.values()
    assert (np.arange(10) + y).tolist() == list(range(0, 20, 2)) and np.sum(y) == 45
    assert np.concatenate([x, x]).shape == (20, 2) and np.array(y).tolist() == list(range(10))
    torch = pytest.importorskip("torch")
    for taken in (torch.as_tensor(x), torch.tensor(x)):
        assert taken.dtype == torch.float32 and taken.shape == (10, 2) and taken[3].tolist() == [3, -3]
    with pytest.raises(RuntimeError, match="buffer"):
        torch.asarray(x)  # It would make one dimension of two.


def test_bytes_go_by_a_memoryview(numbers: Make, tmp_path: Path) -> None:
    """Whoever asks for bytes alone does not learn their shape and type, and makes something else of them."""
    x = next(iter(numbers()))["x"]
    with pytest.raises(BufferError, match=r"take the tensor as .torch\(\) or .numpy\(\), or its bytes as memoryview"):
        zlib.crc32(x)
    assert zlib.crc32(memoryview(x)) == zlib.crc32(x.numpy().tobytes()) == zlib.crc32(bytes(x))
    (tmp_path / "x").write_bytes(memoryview(x))
    assert (tmp_path / "x").read_bytes() == bytes(x)


def test_without_numpy_a_tensor_says_what_it_needs_it_for() -> None:
    run(
        """
sys.modules["numpy"] = None
import ringfeed
fields = {"v": ringfeed.Numbers(from_=[0, 1])}
batch = next(iter(ringfeed.open(FIXTURES + "/iris-species.csv", fields=fields, batch_size=2)))
for ask in (lambda: batch["v"][0], lambda: list(batch["v"]), lambda: float(batch["v"]), lambda: batch["v"] == 1):
    try:
        ask()
        assert False
    except ringfeed.UnsupportedError as error:
        assert "by NumPy, which is not installed: take it as torch()" in str(error), error
assert len(batch["v"]) == 2 and len(batch["v"].tolist()[0]) == 2
"""
    )


def test_classes_have_their_names() -> None:
    loader = ringfeed.open(FIXTURES / "iris-species.csv", fields={"species": ringfeed.Class()})
    assert next(iter(loader))["species"].classes == ["setosa", "versicolor", "virginica"]
    assert loader.tensors[0]["classes"] == ["setosa", "versicolor", "virginica"]
