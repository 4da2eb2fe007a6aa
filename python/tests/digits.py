"""Training programs for the digits, with the state of model and loader in one checkpoint."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ringfeed

MNIST = Path(__file__).parents[2] / "fixtures" / "mnist"
SCALE = {"kind": "standardise", "axis": None, "mean": [33.318], "deviation": [78.567]}


def loader(part: str, **settings: Any) -> ringfeed.Loader:
    """The digits, `features` f32 [n, 28, 28] and `labels` i64 [n]."""
    images: dict[str, Any] = {"format": "idx", "path": MNIST / f"{part}-images-idx3-ubyte.gz"}
    images["fields"] = {"features": "f32"}
    labels: dict[str, Any] = {"format": "idx", "path": MNIST / f"{part}-labels-idx1-ubyte.gz"}
    labels["fields"] = {"labels": {"array": [], "role": "label"}}
    return ringfeed.Loader(sources=[images, labels], batch_size=128, normalise={"features": SCALE}, **settings)


class Torch:
    """A network of 256 hidden units in PyTorch."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(1)
        torch.set_num_threads(1)  # The same sums in every run.
        self.torch = torch
        layers = torch.nn.Flatten(), torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.loops: Callable[[ringfeed.Loader], Any] = lambda loader: loader.torch()

    def step(self, images: Any, labels: Any) -> float:
        loss = self.torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def right(self, images: Any, labels: Any) -> int:
        return int((self.model(images).argmax(1) == labels).sum())

    def state(self) -> Any:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: Any) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class Jax:
    """The same in JAX, with momentum."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        keys = jax.random.split(jax.random.key(1))
        weights = [jax.random.normal(keys[0], (784, 256)) * 0.05, jnp.zeros(256)]
        weights += [jax.random.normal(keys[1], (256, 10)) * 0.08, jnp.zeros(10)]
        self.weights = (weights, [jnp.zeros_like(weight) for weight in weights])

        def scores(weights: Any, images: Any) -> Any:
            hidden = jax.nn.relu(images.reshape(len(images), -1) @ weights[0] + weights[1])
            return hidden @ weights[2] + weights[3]

        def loss(weights: Any, images: Any, labels: Any) -> Any:
            return -jnp.mean(jax.nn.log_softmax(scores(weights, images))[jnp.arange(len(labels)), labels])

        @jax.jit
        def step(both: Any, images: Any, labels: Any) -> Any:
            weights, speeds = both
            value, slopes = jax.value_and_grad(loss)(weights, images, labels)
            speeds = [0.9 * speed + slope for speed, slope in zip(speeds, slopes)]
            return value, ([weight - 0.05 * speed for weight, speed in zip(weights, speeds)], speeds)

        self._step, self._scores = step, jax.jit(scores)
        self.loops: Callable[[ringfeed.Loader], Any] = lambda loader: loader.jax()

    def step(self, images: Any, labels: Any) -> float:
        loss, self.weights = self._step(self.weights, images, labels)
        return float(loss)

    def right(self, images: Any, labels: Any) -> int:
        return int((self._scores(self.weights[0], images).argmax(1) == labels).sum())

    def state(self) -> Any:
        return [[np.asarray(weight) for weight in part] for part in self.weights]

    def load(self, state: Any) -> None:
        self.weights = tuple(state)


class Numpy:
    """The same in NumPy."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.weights = [rng.standard_normal((784, 256), np.float32) * 0.05, np.zeros(256, np.float32)]
        self.weights += [rng.standard_normal((256, 10), np.float32) * 0.08, np.zeros(10, np.float32)]
        self.speeds = [np.zeros_like(weight) for weight in self.weights]
        self.loops: Callable[[ringfeed.Loader], Any] = lambda loader: loader.numpy()

    def scores(self, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.maximum(images @ self.weights[0] + self.weights[1], 0)
        return hidden, hidden @ self.weights[2] + self.weights[3]

    def step(self, images: np.ndarray, labels: np.ndarray) -> float:
        images, rows = images.reshape(len(images), -1), np.arange(len(images))
        hidden, scores = self.scores(images)
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        loss = float(-np.log(chances[rows, labels]).mean())
        chances[rows, labels] -= 1
        chances /= len(images)
        back = (chances @ self.weights[2].T) * (hidden > 0)
        slopes = [images.T @ back, back.sum(0), hidden.T @ chances, chances.sum(0)]
        self.speeds = [0.9 * speed + slope for speed, slope in zip(self.speeds, slopes)]
        self.weights = [weight - 0.05 * speed for weight, speed in zip(self.weights, self.speeds)]
        return loss

    def right(self, images: np.ndarray, labels: np.ndarray) -> int:
        return int((self.scores(images.reshape(len(images), -1))[1].argmax(1) == labels).sum())

    def state(self) -> Any:
        return self.weights, self.speeds

    def load(self, state: Any) -> None:
        self.weights, self.speeds = state


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["torch", "jax", "numpy"])
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--die-at", type=int)
    args = parser.parse_args()
    learner: Any = {"torch": Torch, "jax": Jax, "numpy": Numpy}[args.framework]()
    train = loader("train", shuffle=42, **args.settings)
    losses: list[float] = []
    if args.checkpoint and args.checkpoint.exists():
        saved = pickle.loads(args.checkpoint.read_bytes())
        learner.load(saved["learner"])
        train.load_state_dict(saved["loader"])
        losses = saved["losses"]
    total = args.epochs * len(train)
    while len(losses) < total:
        for images, labels in learner.loops(train):
            losses.append(learner.step(images, labels))
            if args.checkpoint and len(losses) % 100 == 0:
                saved = {"learner": learner.state(), "loader": train.state_dict(), "losses": losses}
                args.checkpoint.with_suffix(".new").write_bytes(pickle.dumps(saved))
                args.checkpoint.with_suffix(".new").rename(args.checkpoint)
            if len(losses) == args.die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if len(losses) == total:
                break
    test = loader("t10k")
    right = sum(learner.right(images, labels) for images, labels in learner.loops(test))
    figures = {"accuracy": right / 10_000, "losses": losses, "copied": train.stats()["copied"]}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
