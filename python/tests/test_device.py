"""Batches on a device: on the host's, which every machine has, on a simulated driver of CUDA, and on a GPU."""

from __future__ import annotations

import ctypes.util
import itertools
import os
import pickle
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed
from ringfeed import Class, Image

Make = Callable[..., ringfeed.Loader]


def seen(loader: ringfeed.Loader, epochs: int = 2) -> list[Any]:
    def of(batch: ringfeed.Batch) -> tuple[Any, ...]:
        numbers = (batch.epoch, batch.index, batch.sample_ids, batch.positions, batch.padding, batch.size)
        return (*numbers, batch.bad_records, batch.state, batch["x"].tolist(), batch["y"].numpy().tolist())

    return [of(batch) for _ in range(epochs) for batch in loader]


def test_a_device_gives_the_batches_of_the_host(numbers: Make) -> None:
    settings = {"shuffle": 3, "last_batch": "pad", "batch_size": 7}
    loader = numbers(device="host", **settings)
    assert seen(loader) == seen(numbers(**settings)) and len(loader) == 15
    assert loader.stats()["upload"]["batches"] >= 30 and loader.stats()["held"] == 0
    state = next(itertools.islice(loader, 4, None)).state
    for device in (None, "host"):
        resumed = numbers(device=device, **settings)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state and next(iter(resumed)).index == 5
    copy = pickle.loads(pickle.dumps(loader))
    assert copy._terms["device"] == "host" and copy.state_dict() == loader.state_dict()


def test_its_places_are_few_and_never_overwritten_while_they_are_seen(numbers: Make) -> None:
    loader = numbers(1000, device="host")
    places, before = set(), None
    for x, y in loader.numpy():
        assert before is None or before[1].tolist()[0] + 10 == y.tolist()[0]
        places.add(x.__array_interface__["data"][0])
        before = x, y
    assert len(places) <= 5 and loader.stats()["copied"] == 0


def test_holding_more_may_be_an_error_on_a_device_too(numbers: Make) -> None:
    loop = iter(numbers(1000, device="host", on_hold="error"))
    kept = [next(loop) for _ in range(3)]
    with pytest.raises(ringfeed.ExhaustedError, match="3 batches are held, and there are places for 3 on host"):
        next(loop)
    assert [batch["y"].tolist()[0] for batch in kept] == [0, 10, 20]
    tensor = kept.pop(0)["x"].numpy()
    with pytest.raises(ringfeed.ExhaustedError):
        next(loop)
    del tensor
    assert next(loop)["y"].tolist()[0] == 30


def test_batches_beyond_those_places_get_memory_of_their_own_with_one_warning(numbers: Make) -> None:
    loader = numbers(1000, device="host")
    with pytest.warns(ringfeed.HoldWarning, match="places for 3 on host: further ones get memory of their own") as said:
        batches = list(loader)
    assert len(said) == 1 and loader.stats()["copied"] == 97 and loader.stats()["held"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches += list(loader)
    for number, batch in enumerate(batches):
        epoch, index = divmod(number, 100)
        assert (batch.epoch, batch.index, batch.state["position"]) == (epoch, index, 10 * index + 10)
        assert batch["y"].tolist() == list(range(10 * index, 10 * index + 10))
    assert len({batch["x"].data_ptr for batch in batches}) == 200
    array = batches[150]["y"].numpy()
    loader.close()
    del batches, batch, loader
    assert array.tolist() == list(range(500, 510))


def test_they_are_within_the_budget_and_none_is_lost(numbers: Make) -> None:
    loader = numbers(5000, device="host", memory={"budget_bytes": 100_000})
    loop, kept = iter(loader), []
    with pytest.warns(ringfeed.HoldWarning), pytest.raises(ringfeed.BudgetError, match="held"):
        for _ in range(500):
            kept.append(next(loop))
    here = len(kept)
    assert loader.stats()["memory_bytes"] <= 100_000
    kept.clear()
    assert next(loop).index == here, "what was refused is not lost"
    strict = numbers(100, device="host", hold=0)
    first = next(loop := iter(strict))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ringfeed.HoldWarning):
            next(loop)
    assert (first.index, next(loop).index, strict.state_dict()["position"]) == (0, 1, 20)


def test_tensors_of_the_host_device_go_to_every_library(numbers: Make) -> None:
    batch = next(iter(numbers(device="host")))
    x = batch["x"]
    assert (x.device, x.__dlpack_device__(), x.dtype, x.shape) == ("host", (1, 0), "f32", (10, 2))
    assert "x f32 [10, 2]" in repr(batch) and "<table>" in batch._repr_html_()
    for array in (x.numpy(), np.from_dlpack(x), np.asarray(memoryview(x)), np.asarray(x)):
        assert array.__array_interface__["data"][0] == x.data_ptr and array[:, 0].tolist() == list(range(10))
    with pytest.raises(ringfeed.UnsupportedError, match="lies on host"):
        batch.detach()
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr


def test_tensors_are_converted_on_the_way(tmp_path: Path) -> None:
    fields = {"image": Image(16, 24, dtype="u8"), "label": Class()}
    for folder, photo in (("a", "china.jpg"), ("b", "coffee.png")):
        (tmp_path / folder).mkdir()
        shutil.copy(FIXTURES / "photos" / photo, tmp_path / folder)
    plain = next(iter(ringfeed.open(tmp_path, fields=fields)))
    pixels = plain["image"].numpy()

    def converted(**convert: Any) -> dict[str, np.ndarray]:
        loader = ringfeed.open(tmp_path, fields=fields, device="host", convert=convert)
        return {name: array.copy() for name, array in next(iter(loader)).numpy().items()}

    kinds = ringfeed.open(tmp_path, fields=fields, device="host", convert={"image": "f16", "label": {"one_hot": 2}})
    said = [(tensor["name"], tensor["dtype"], tensor["shape"]) for tensor in kinds.tensors]
    assert said == [("image", "f16", [3, 16, 24]), ("label", "f32", [2])] and kinds.tensors[1]["classes"] == ["a", "b"]
    found = converted(image="f16", label={"one_hot": 2})
    assert found["image"].dtype == np.float16 and found["image"].shape == (2, 3, 16, 24)
    np.testing.assert_array_equal(found["image"], pixels.astype(np.float16))
    assert found["label"].tolist() == [[1, 0], [0, 1]]
    # The host looks for labels that are no classes, as the device can't.
    one: dict[str, Any] = {"device": "host", "convert": {"label": {"one_hot": 1}}}
    with pytest.raises(ringfeed.DataError, match="class 1 of 1"):
        next(iter(ringfeed.open(tmp_path, fields=fields, **one)))
    (left,) = list(ringfeed.open(tmp_path, fields=fields, bad_records="skip", **one))
    assert left["label"].numpy().tolist() == [[1]] and left.bad_records == 1
    found = converted(image={"image": "f32", "normalise": "imagenet", "order": "nhwc"})
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (pixels.transpose(0, 2, 3, 1) / 255 - mean) / deviation
    np.testing.assert_allclose(found["image"], expected, atol=1e-5)


def test_the_end_of_the_list_of_transforms_is_done_on_the_device() -> None:
    fields = {"image": Image(16, 24, dtype="u8")}
    cast = [{"kind": "cast", "tensor": "image", "dtype": "f16"}]

    def pictures(**settings: Any) -> tuple[ringfeed.Loader, list[Any]]:
        loader = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2, transforms=cast, **settings)
        return loader, [batch["image"].numpy().copy() for batch in loader]

    (_, expected), (loader, found) = pictures(), pictures(device="host")
    assert all(a.dtype == np.float16 and (a == b).all() for a, b in zip(found, expected)) and len(found) > 1
    assert loader.tensors[0]["dtype"] == "f16"
    samples = sum(len(images) for images in found)
    uploaded = loader.stats()["upload"]
    # Bytes travelled, and numbers of two bytes were made of them there.
    assert uploaded["bytes"] / uploaded["samples"] < 1.5 * 3 * 16 * 24 and uploaded["samples"] >= samples


@pytest.mark.parametrize("device", ["host", "cuda:7"])
def test_a_plan_says_what_tensors_are_on_the_device(device: str) -> None:
    fields = {"image": Image(16, 24, dtype="u8")}
    cast = [{"kind": "cast", "tensor": "image", "dtype": "f16"}]
    bytes_travel = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2).plan()["slot_bytes"]
    by_list = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2, transforms=cast, device=device).plan()
    convert = {"image": {"image": "f32", "order": "nhwc"}}
    by_table = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2, device=device, convert=convert).plan()
    for plan, dtype, shape in ((by_list, "f16", [2, 3, 16, 24]), (by_table, "f32", [2, 16, 24, 3])):
        [tensor] = plan["tensors"]
        assert (plan["device"], tensor["dtype"], tensor["shape"]) == (device, dtype, shape)
        assert plan["slot_bytes"] == bytes_travel
    plain = ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=2, transforms=cast).plan()
    assert plain["device"] is None and plain["tensors"][0]["dtype"] == "f16" and plain["slot_bytes"] > bytes_travel
    with pytest.raises(ringfeed.SchemaError, match="an image has three dimensions"):
        ringfeed.open(FIXTURES / "iris.csv", device=device, convert={"features": "f16"}).plan()


def test_what_makes_no_sense_is_said_where_it_is_written(numbers: Make) -> None:
    for settings, message in (
        ({"device": "gpu"}, 'no device "gpu"; there are `host` and `cuda:0`'),
        ({"convert": {"x": "f16"}}, "set `device`, too"),
        ({"device": "host", "convert": {"x": "f64"}}, "convert: unknown variant `f64`"),
        ({"device": "host", "convert": {"x": {"one_hot": 2, "bias": 1}}}, "`bias` does not go with `one_hot`"),
        ({"device": "host", "hold": 62}, "hold: a device has places for 61"),
    ):
        with pytest.raises(ringfeed.ConfigError, match=message):
            numbers(**settings)
    with pytest.raises(ringfeed.SchemaError, match="an image has three dimensions"):
        len(numbers(device="host", convert={"x": "f16"}))


@pytest.mark.skipif(ctypes.util.find_library("cuda") is not None, reason="there is a driver of CUDA")
def test_without_a_driver_the_error_says_so(numbers: Make) -> None:
    loader = numbers(device="cuda:0")
    with pytest.raises(ringfeed.DeviceError, match=r"no CUDA driver: none of libcuda.so, libcuda.so.1, .* loaded"):
        next(iter(loader))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a program that finds the simulated driver, which ends it when it is used wrongly. Where a GPU
    is demanded, that of the real one."""
    if "RINGFEED_REQUIRE_GPU" in os.environ:
        return {}
    source = FIXTURES.parent / "tests/cuda_driver/lib.rs"
    rustc = shutil.which(os.environ.get("RUSTC", "rustc"))
    if not os.path.exists("/proc/self") or rustc is None or not source.exists():
        pytest.skip("the simulated driver of CUDA is built by rustc, for Linux")
    folder = tmp_path_factory.mktemp("driver")
    line = [rustc, "--edition=2024", "--crate-type=cdylib", "--crate-name=cuda", "-Copt-level=1", "-Cpanic=abort"]
    line += ["-Clink-arg=-Wl,-soname,libcuda.so", os.fspath(source), "-o", os.fspath(folder / "libcuda.so.1")]
    subprocess.run(line, check=True, capture_output=True, timeout=600)
    return {"LD_LIBRARY_PATH": os.fspath(folder), "SIMULATED_CUDA": "late_us=2000"}


CONSUMER = """
import ctypes, warnings, numpy as np, ringfeed, gc, tempfile
from ctypes import byref, c_int32, c_size_t, c_uint, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    code = getattr(cuda, name)(*args)
    assert code == 0, (name, code)
context = c_size_t()
def new(name, *args):
    handle = c_size_t()
    call(name, byref(handle), *args)
    return handle
def begin():
    global context
    call("cuInit", c_uint(0))
    context = new("cuDevicePrimaryCtxRetain", c_int32(0))
    call("cuCtxPushCurrent_v2", context)
def end():
    call("cuCtxPopCurrent_v2", byref(c_size_t()))
    call("cuDevicePrimaryCtxRelease_v2", c_int32(0))
def kind(address):
    found = c_uint()
    return found.value if cuda.cuPointerGetAttribute(byref(found), c_uint(2), c_uint64(address)) == 0 else None
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
class Taken:
    # A tensor in the hands of who took it out of its capsule.
    def __init__(self, tensor, **asked):
        capsule = tensor.__dlpack__(**asked)
        self.name = b"dltensor_versioned" if "versioned" in repr(capsule) else b"dltensor"
        self.used = b"used_" + self.name
        self.managed = api.PyCapsule_GetPointer(capsule, self.name)
        api.PyCapsule_SetName(capsule, self.used)
        begin, deleter = (32, 16) if self.name.endswith(b"versioned") else (0, 56)
        self.address = c_uint64.from_address(self.managed + begin).value
        self.device = tuple(c_int32.from_address(self.managed + begin + at).value for at in (8, 12))
        self.deleter = c_uint64.from_address(self.managed + deleter).value
    def delete(self):
        ctypes.CFUNCTYPE(None, c_void_p)(self.deleter)(self.managed)
folder = tempfile.mkdtemp()
np.save(folder + "/y.npy", np.arange(400))
def make(**settings):
    source = {"format": "npy", "path": folder + "/y.npy", "fields": {"y": "array"}}
    return ringfeed.Loader(sources=[source], **{"batch_size": 10, "workers": 2, **settings})
loader = make(device="cuda:0")
assert len(loader) == 40
begin()
"""

# Reads each batch in a stream of its own, late, into page-locked memory, and lets it go at once.
READ = """
told, other = (new("cuStreamCreate", c_uint(1)) for _ in range(2))
target = new("cuMemHostAlloc", c_size_t(3200), c_uint(1))
ahead = new("cuEventCreate", c_uint(2))
for batch in loader:
    taken = Taken(batch["y"], stream={stream}, max_version={version})
    assert taken.device == (2, 0) and kind(taken.address) == 2
    if {joined}:
        call("cuEventRecord", ahead, told)
        call("cuStreamWaitEvent", {used}, ahead, c_uint(0))
    to = c_size_t(target.value + 80 * batch.index)
    call("cuMemcpyDtoHAsync_v2", to, c_uint64(taken.address), c_size_t(80), {used})
    del batch
    taken.delete()
call("cuStreamSynchronize", {used})
assert np.ctypeslib.as_array((ctypes.c_int64 * 400).from_address(target.value)).tolist() == list(range(400))
loader.close()
call("cuMemFreeHost", target)
call("cuEventDestroy_v2", ahead)
[call("cuStreamDestroy_v2", stream) for stream in (told, other)]
end()
print("read all")
"""


@pytest.mark.parametrize(
    "consumer",
    [
        {"stream": "told.value", "version": "(1, 0)", "used": "told", "joined": False},
        {"stream": "None", "version": "(1, 0)", "used": "c_size_t(0)", "joined": False},
        {"stream": "1", "version": "(1, 3)", "used": "c_size_t(0)", "joined": False},
        {"stream": "-1", "version": "(1, 0)", "used": "other", "joined": False},
        # As JAX does it: it names a stream that the one which works waits for.
        {"stream": "told.value", "version": "None", "used": "other", "joined": True},
    ],
)
def test_a_consumers_work_is_ordered_after_the_copy_and_before_the_next_one(
    simulated: dict[str, str], consumer: dict[str, Any]
) -> None:
    assert run(CONSUMER + READ.format(**consumer), env=simulated).stdout == "read all\n"


@pytest.mark.parametrize(
    "consumer",
    [
        {"stream": "told.value", "version": "(1, 0)", "used": "other", "joined": False},
        {"stream": "told.value", "version": "(1, 0)", "used": "other", "joined": True},
    ],
)
def test_the_simulated_driver_sees_work_that_is_not_ordered(
    simulated: dict[str, str], consumer: dict[str, Any]
) -> None:
    if not simulated:
        pytest.skip("a real driver does not check this")
    done = run(CONSUMER + READ.format(**consumer), env=simulated, check=False)
    assert done.returncode != 0 and "simulated CUDA driver: " in done.stderr, done


def test_streams_that_can_not_be_ordered_are_refused(simulated: dict[str, str]) -> None:
    run(
        CONSUMER
        + """
def refused(error, **asked):
    try:
        tensor.__dlpack__(**asked)
    except error:
        return True
tensor = next(iter(loader))["y"]
assert refused(ValueError, stream=0) and refused(BufferError, stream=2) and refused(ValueError, stream=-7)
assert refused(BufferError, dl_device=(2, 1)) and refused(BufferError, copy=True)
assert refused(BufferError, dl_device=(1, 0), copy=False)
del tensor
loader.close()
end()
""",
        env=simulated,
    )


def test_page_locked_memory_never_leaves_as_a_tensor_of_the_host(simulated: dict[str, str]) -> None:
    """PyTorch's copies that are not waited for would read it after it was given back."""
    run(
        CONSUMER
        + """
LOCKED, DEVICE = 1, 2
batch = next(iter(loader))
y = batch["y"]
assert kind(y.data_ptr) == DEVICE and y.device == "cuda:0" and y.__dlpack_device__() == (2, 0)
for host in (y.numpy, y.tolist, y.__array__, lambda: np.asarray(y), batch.numpy, batch.detach):
    try:
        host()
        assert False, host
    except ringfeed.UnsupportedError as error:
        assert "cuda:0" in str(error)
try:
    memoryview(y)
    assert False
except BufferError as error:
    assert "cuda:0" in str(error)
copy = np.from_dlpack(y, device="cpu")
assert copy.tolist() == list(range(10)) and kind(copy.__array_interface__["data"][0]) is None
assert "cuda:0" in batch._repr_html_()
del batch, y, copy
loader.close()

# A ring that is page-locked for a device, but whose batches go nowhere, gives copies.
warnings.simplefilter("ignore", ringfeed.HoldWarning)
loader = make(memory={"kind": {"page_locked": {"device": "cuda:0"}}})
for batch in loader:
    assert kind(batch["y"].data_ptr) is None and batch["y"].tolist()[0] == 10 * batch.index
assert loader.stats()["copied"] == 40
del batch
loader.close()
end()
""",
        env=simulated,
    )


def test_batches_that_are_kept_there_have_memory_of_their_own(simulated: dict[str, str]) -> None:
    run(
        CONSUMER
        + """
warnings.simplefilter("ignore", ringfeed.HoldWarning)
for epoch in range(2):
    batches = list(loader)
    assert [np.from_dlpack(batch["y"], device="cpu").tolist() for batch in batches] == [
        list(range(10 * number, 10 * number + 10)) for number in range(40)
    ]
    assert len({batch["y"].data_ptr for batch in batches}) == 40
    # The first ones give their memory back while the others, and what is uploaded next, are at work.
    del batches[::2]
assert loader.stats()["copied"] == 37 + 38
kept = batches[7]["y"]
del batches
loader.close()
assert np.from_dlpack(kept, device="cpu").tolist() == list(range(150, 160))
del kept
end()
""",
        env=simulated,
    )


def test_on_a_gpu(numbers: Make) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() and "RINGFEED_REQUIRE_GPU" not in os.environ:
        pytest.skip("there is no GPU, or PyTorch was installed without CUDA")
    busy = torch.randn(4096, 4096, device="cuda:0")
    sums = []
    for x, y in numbers(10_000, device="cuda:0", shuffle=3).torch():
        assert x.device == y.device == torch.device("cuda:0")
        busy = torch.tanh(busy @ busy)  # What is read below is read long after the tensors died here.
        sums.append((x[:, 0].double() - y + busy[0, 0].double() * 0).abs().sum() + y.sum())
    total = torch.stack(sums).sum().item()
    assert total == 10_000 * 9_999 / 2
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX was installed without CUDA")
    arrays = [y * 1 for _, y in numbers(10_000, device="cuda:0").jax()]
    assert sum(int(array.sum()) for array in arrays) == 10_000 * 9_999 // 2
