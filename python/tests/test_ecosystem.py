"""Trainers and loaders of others."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed

Make = Callable[..., ringfeed.Loader]


def worker_values(loader: ringfeed.Loader) -> list[int]:
    return [value for batch in loader for value in batch["y"].tolist()]


def test_a_worker_of_torchs_dataloader_takes_its_part(numbers: Make) -> None:
    data = pytest.importorskip("torch.utils.data")

    class Wrapped(data.IterableDataset):  # type: ignore[misc, name-defined]
        def __init__(self, loader: ringfeed.Loader) -> None:
            self.loader = loader

        def __iter__(self) -> Any:
            return iter(worker_values(self.loader))

    # Python 3.14 would send the data set to the workers, and a class that lies in a function can't be.
    how = {"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork"}
    found = list(data.DataLoader(Wrapped(numbers(shuffle=3, shard="auto")), **how))
    assert sorted(int(value) for value in found) == list(range(100))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_new_workers_of_torchs_dataloader_begin_where_they_are_told(method: str, tmp_path: Path) -> None:
    pytest.importorskip("torch.utils.data")
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys, numpy as np, ringfeed
from torch.utils import data
class Wrapped(data.IterableDataset):
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        return iter([value for batch in self.loader for value in batch["y"].tolist()])
def values(loader):
    return list(data.DataLoader(Wrapped(loader), batch_size=None, num_workers=2, multiprocessing_context=sys.argv[2]))
if __name__ == "__main__":
    np.save(sys.argv[1] + "/y.npy", np.arange(100))
    source = {"format": "npy", "path": sys.argv[1] + "/y.npy", "fields": {"y": "array"}}
    make = lambda: ringfeed.Loader(sources=[source], shuffle=3, batch_size=10, shard="auto", workers=1)
    loader, epochs = make(), []
    for epoch in range(2):
        loader.set_epoch(epoch)
        epochs.append(values(loader))
        assert sorted(epochs[-1]) == list(range(100)), epochs
    assert epochs[0] != epochs[1]
    state = make().state_dict() | {"epoch": 1, "position": 60}
    loader.load_state_dict(state)
    assert len(values(loader)) == 40 and set(values(loader)) < set(range(100))
    if sys.argv[2] != "fork":
        len(loader)  # It is open.
        assert len(values(loader)) == 40
"""
    )
    argv = ["program", str(tmp_path), method]
    run(f"import runpy; sys.argv = {argv!r}; runpy.run_path({str(program)!r}, run_name='__main__')")


def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "ranks.py"
    program.write_text(
        f"""
import gc, json, os, sys
import torch, torch.distributed as dist
import ringfeed
dist.init_process_group("gloo")
torch.set_num_threads(1)
loader = ringfeed.open({os.fspath(FIXTURES / "iris-species.csv")!r}, shuffle=3, batch_size=10, shard="auto",
    fields={{"v": ringfeed.Numbers(from_=[0, 1, 2, 3]), "species": ringfeed.Class()}})
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    loader.set_epoch(epoch)
    for values, species in loader.torch():
        loss = torch.nn.functional.cross_entropy(model(values), species)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
loader.set_epoch(5)
ids = [sample for batch in loader for sample in batch.sample_ids]
found = [None, None]
dist.all_gather_object(found, (len(loader), ids, next(iter(model.parameters())).tolist()))
if dist.get_rank() == 0:
    (one, first, weights), (other, second, same) = found
    assert one == other == 8 and sorted(first + second) == list(range(150)) and weights == same
    print("two ranks: every sample once")
dist.destroy_process_group()
# Ends Gloo's threads: the interpreter's end may crash in one that lets go of a tensor (pytorch/pytorch#190489).
del model, optimizer
gc.collect()
"""
    )
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0 and "every sample once" in done.stdout, done.stderr


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_step_takes_the_tensors(
    numbers: Make, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    if backend == "inductor":
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            pytest.skip("it compiles by a compiler of C++")
        from torch._inductor import config

        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.fspath(tmp_path / "cache"))
        monkeypatch.setattr(config, "compile_threads", 1)
    layer = torch.nn.Linear(2, 1)

    def loss(x: Any, y: Any) -> Any:
        return torch.nn.functional.mse_loss(layer(x).flatten(), y.float())

    def step(function: Callable[..., Any], x: Any, y: Any) -> list[Any]:
        layer.zero_grad()
        value = function(x, y)
        value.backward()
        return [value.detach(), *(parameter.grad.clone() for parameter in layer.parameters())]

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    loader = numbers(shuffle=3)
    losses = set()
    for x, y in loader.torch():
        expected = step(loss, x, y)
        torch.testing.assert_close(step(compiled, x, y), expected)
        losses.add(float(expected[0]))
    assert len(losses) == 10 and loader.stats()["copied"] == 0


def test_lightning_fits_validates_and_goes_on_in_the_middle_of_an_epoch(numbers: Make, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.seen: list[list[int]] = []
            self.validated = 0

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            self.seen.append(y.tolist())
            return self.layer(x).square().mean() * 1e-6

        def validation_step(self, batch: Any, _: int) -> None:
            self.validated += len(batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def loops() -> Any:
        return numbers(shuffle=3, hold=8).torch()

    def trainer(**more: Any) -> Any:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
        return lightning.Trainer(
            max_epochs=3, default_root_dir=tmp_path, **{**quiet, "enable_checkpointing": True, **more}
        )

    whole = Model()
    every = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=tmp_path, every_n_train_steps=7, save_top_k=-1)
    trainer(callbacks=[every]).fit(whole, loops(), loops())
    expected = loops()
    assert whole.seen == [y.tolist() for _ in range(3) for _, y in expected]
    assert whole.validated >= 300
    for steps in (7, 14):
        [place] = tmp_path.glob(f"*step={steps}.ckpt")
        resumed = Model()
        trainer(callbacks=[]).fit(resumed, loops(), ckpt_path=place, weights_only=False)
        assert resumed.seen == whole.seen[steps:], steps


def test_accelerate_leaves_the_loader_as_it_is(numbers: Make) -> None:
    accelerate = pytest.importorskip("accelerate")
    loader = numbers(shuffle=3)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    assert sorted(worker_values(prepared)) == list(range(100))


def test_batches_that_are_accumulated_are_whole(numbers: Make) -> None:
    """As trainers do that keep the batches of several steps before they make one."""
    loader = numbers(200, hold=8)
    loop = iter(loader)
    for first in range(0, 200, 40):
        kept = [batch.numpy() for batch in itertools.islice(loop, 4)]
        np.testing.assert_array_equal(np.concatenate([arrays["y"] for arrays in kept]), np.arange(first, first + 40))
    assert loader.stats()["copied"] == 0


def test_the_trainer_of_hugging_face_fits(numbers: Make, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)
            self.seen: list[int] = []

        def forward(self, x: Any, y: Any) -> Any:
            if self.training:
                self.seen += y.tolist()
            return {"loss": self.layer(x).square().mean() * 1e-6}

    class Trainer(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            return numbers(shuffle=3, hold=8).torch("dict")

    options = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=2, gradient_accumulation_steps=4, remove_unused_columns=False, **options
    )
    model = Model()
    Trainer(model, arguments).train()
    loader = numbers(shuffle=3)
    assert model.seen == [value for _ in range(2) for value in worker_values(loader)]


def test_a_data_set_of_torch_is_a_source() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(200.0).reshape(100, 2), torch.arange(100))
    loader = ringfeed.from_reader(data, names=["x", "y"], batch_size=10, shuffle=3)
    seen = [(x.clone(), y.clone()) for x, y in loader.torch()]
    assert sorted(int(value) for _, y in seen for value in y) == list(range(100)) and len(seen) == 10
    assert all(x.tolist() == [[2 * value, 2 * value + 1] for value in y.tolist()] for x, y in seen)
