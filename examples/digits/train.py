"""Trains the perceptron of ../digits.fl and writes the .npy files next to this script.

    python -m venv venv && venv/bin/pip install numpy==2.4.6 scikit-learn==1.9.1
    venv/bin/python examples/digits/train.py

NumPy does the training; scikit-learn is here only for its copy of the data (1,797 images, see README.md).
The split is drawn once from a fixed seed: 1,198 rows to train on, 599 held out and never looked at. The
held-out rows are in x.npy and label.npy, the others are in train_x.npy and train_label.npy,
for ../train_digits.fl.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
HELD_OUT = 599
HIDDEN = 64
EPOCHS = 120
BATCH = 32
RATE = 2e-3
DECAY = 1e-3


def forward(p, x):
    z = x @ p["w1"] + p["b1"]
    h = np.maximum(z, 0)
    return z, h, h @ p["w2"] + p["b2"]


def gradients(p, x, label):
    """Of the mean cross-entropy."""
    z, h, logits = forward(p, x)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    d = e / e.sum(axis=1, keepdims=True)
    d[np.arange(len(x)), label] -= 1
    d /= len(x)
    back = (d @ p["w2"].T) * (z > 0)
    return {"w1": x.T @ back, "b1": back.sum(0), "w2": h.T @ d, "b2": d.sum(0)}


def main():
    rng = np.random.default_rng(2)
    pixels, label = load_digits(return_X_y=True)
    order = rng.permutation(len(pixels))
    train, held = order[HELD_OUT:], np.sort(order[:HELD_OUT])
    x, y = pixels[train] / 16, label[train]

    p = {
        "w1": rng.standard_normal((64, HIDDEN)) * np.sqrt(2 / 64),
        "b1": np.zeros(HIDDEN),
        "w2": rng.standard_normal((HIDDEN, 10)) * np.sqrt(2 / HIDDEN),
        "b2": np.zeros(10),
    }
    first = {k: np.zeros_like(v) for k, v in p.items()}
    second = {k: np.zeros_like(v) for k, v in p.items()}
    step = 0
    for _ in range(EPOCHS):
        shuffled = rng.permutation(len(x))
        for at in range(0, len(x), BATCH):
            rows = shuffled[at : at + BATCH]
            step += 1
            for k, g in gradients(p, x[rows], y[rows]).items():  # Adam, with decoupled weight decay
                first[k] = 0.9 * first[k] + 0.1 * g
                second[k] = 0.999 * second[k] + 0.001 * g * g
                m, v = first[k] / (1 - 0.9**step), second[k] / (1 - 0.999**step)
                p[k] -= RATE * (m / (np.sqrt(v) + 1e-8) + DECAY * p[k])

    for k, v in p.items():
        np.save(HERE / f"{k}.npy", v.astype(np.float32))
    np.save(HERE / "x.npy", pixels[held].astype(np.float32))
    np.save(HERE / "label.npy", label[held].astype(np.int32))

    np.save(HERE / "train_x.npy", pixels[train].astype(np.uint8))
    np.save(HERE / "train_label.npy", label[train].astype(np.int32))

    saved = {k: np.load(HERE / f"{k}.npy") for k in p}
    for name, rows in ("trained on", train), ("held out", held):
        logits = forward(saved, (pixels[rows] / 16).astype(np.float32))[2]
        hits = int((logits.argmax(axis=1) == label[rows]).sum())
        print(f"{name}: {hits} of {len(rows)} right, {hits / len(rows):.4f}")


if __name__ == "__main__":
    main()
