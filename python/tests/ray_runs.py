"""A program for Ray Train: a run whose second worker is killed in the middle of an epoch, and runs that go on from its
last checkpoint with other numbers of workers. Prints what each had seen. Workers are sent the functions of a program,
but not those of a module that they can't import: so it is one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import ringfeed
import ringfeed.ray

BATCH = 5


def train(config: dict[str, Any]) -> None:
    """Goes through what is left of an epoch, and writes down which positions each step had."""
    settings = {"source": {"path": config["path"]}, "fields": {"species": "class"}, "batch_size": BATCH, "shuffle": 3}
    loader = ringfeed.ray.loader(settings)
    rank, _ = ringfeed.ray.shard()
    if config["state"] is not None:
        loader.load_state_dict(config["state"])
    with open(Path(config["seen"]) / f"{rank}.jsonl", "w") as seen:
        for step, batch in enumerate(loader):
            if rank == 1 and step == config["dies_at"]:
                os.kill(os.getpid(), signal.SIGKILL)
            positions = batch.positions[: batch.size - batch.padding]
            seen.write(json.dumps({"step": step, "positions": positions}) + "\n")
            seen.flush()
            # Workers wait for each other here: what rank 0 saves, all have done.
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "loader.json").write_text(json.dumps({"step": step, "state": loader.state_dict()}))
                checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
                ray.train.report({"step": step}, checkpoint=checkpoint)


def run(folder: Path, path: str, workers: int, state: Any = None, dies_at: int | None = None) -> list[dict[str, Any]]:
    seen = folder / f"seen-{workers}"
    seen.mkdir()
    trainer = TorchTrainer(
        train,
        train_loop_config={"path": path, "seen": str(seen), "state": state, "dies_at": dies_at},
        scaling_config=ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(name=f"run-{workers}", storage_path=str(folder / "storage")),
    )
    if dies_at is None:
        trainer.fit()
    else:
        with contextlib.suppress(ray.train.TrainingFailedError):
            trainer.fit()
            raise AssertionError("a worker was killed, and the run went on")
    lines = [line for file in sorted(seen.glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def main(path: str, dies_at: int) -> None:
    # The sockets of a cluster need a short path.
    with tempfile.TemporaryDirectory(prefix="rf", dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        ray.init(
            num_cpus=4,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=100_000_000,
            _temp_dir=str(folder / "ray"),
        )
        found: dict[str, Any] = {"killed": run(folder, path, 2, dies_at=dies_at)}
        checkpoints = [json.loads(file.read_text()) for file in folder.glob("storage/run-2/checkpoint*/loader.json")]
        found["checkpoint"] = max(checkpoints, key=lambda checkpoint: int(checkpoint["step"]))
        for workers in (1, 3):
            found[f"resumed by {workers}"] = run(folder, path, workers, found["checkpoint"]["state"])
        ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
