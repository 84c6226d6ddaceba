"""Functions over NumPy arrays as people write them, compiled as they are and compared with NumPy.

Each runs with two sets of sizes: one trace serves both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuseloop as fl

Make = Callable[[np.random.Generator, int], tuple[Any, ...]]
PROGRAMS: list[tuple[Callable[..., Any], Make]] = []


def program(make: Make) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of the table, with the arguments for sizes that grow with a number."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append((function, make))
        return function

    return put


@program(lambda rng, k: (rng.normal(size=(3 * k, 5 * k)).astype(np.float32),))
def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@program(lambda rng, k: (rng.normal(size=(7 * k, 4 * k)),))
def zscore(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


@program(lambda rng, k: (rng.normal(size=(5 * k, 3)), rng.normal(size=(4 * k, 3))))
def pairwise_distances(a, b):
    diff = a[:, None, :] - b[None, :, :]
    return np.sqrt((diff**2).sum(axis=-1))


@program(lambda rng, k: (rng.normal(size=(5 * k, 3)), rng.normal(size=(4 * k, 3)), 0.5))
def rbf_kernel(x, y, gamma):
    sq = np.sum(x**2, axis=1)[:, np.newaxis] + np.sum(y**2, axis=1)[np.newaxis, :] - 2 * np.dot(x, y.T)
    return np.exp(-gamma * sq)


@program(lambda rng, k: (rng.normal(size=40 * k), 5))
def moving_average(x, window):
    c = np.cumsum(np.insert(x, 0, 0))
    return (c[window:] - c[:-window]) / window


@program(lambda rng, k: (rng.normal(size=40 * k), rng.normal(size=7)))
def fir_filter(signal, taps):
    return np.convolve(signal, taps, mode="same")


@program(lambda rng, k: (rng.uniform(50, 150, 20 * k), 100.0, 0.5, 0.02, 0.3))
def black_scholes(s, strike, t, r, sigma):
    def cdf(x):
        return 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    d1 = (np.log(s / strike) + (r + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)
    call = s * cdf(d1) - strike * np.exp(-r * t) * cdf(d2)
    put = call - s + strike * np.exp(-r * t)
    return call, put


@program(lambda rng, k: (rng.random((12 * k, 9 * k)),))
def box_blur(img):
    p = np.pad(img, 1, mode="edge")
    out = np.zeros_like(img)
    for dy in range(3):
        for dx in range(3):
            out += p[dy : dy + img.shape[0], dx : dx + img.shape[1]]
    return out / 9


@program(lambda rng, k: (rng.random((12 * k, 9 * k)),))
def sobel(img):
    gx = img[:-2, 2:] + 2 * img[1:-1, 2:] + img[2:, 2:] - img[:-2, :-2] - 2 * img[1:-1, :-2] - img[2:, :-2]
    gy = img[2:, :-2] + 2 * img[2:, 1:-1] + img[2:, 2:] - img[:-2, :-2] - 2 * img[:-2, 1:-1] - img[:-2, 2:]
    return np.hypot(gx, gy)


@program(lambda rng, k: (rng.integers(0, 256, (16 * k, 12 * k)).astype(np.uint8),))
def equalize_histogram(img):
    hist, _ = np.histogram(img.flatten(), 256, [0, 256])
    cdf = hist.cumsum()
    cdf = (cdf - cdf.min()) * 255 // (cdf.max() - cdf.min())
    return cdf[img].astype(np.uint8)


@program(lambda rng, k: (rng.normal(size=(9 * k, 6)), rng.integers(0, 6, 9 * k)))
def cross_entropy(logits, labels):
    shifted = logits - logits.max(axis=1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -logp[np.arange(len(labels)), labels].mean()


@program(lambda rng, k: (rng.normal(size=30 * k), rng.normal(size=30 * k)))
def huber_loss(y, pred, delta=1.0):
    r = np.abs(y - pred)
    return np.where(r <= delta, 0.5 * r**2, delta * (r - 0.5 * delta)).mean()


@program(lambda rng, k: (rng.normal(size=(20 * k, 3)), rng.normal(size=(4, 3))))
def kmeans_step(points, centers):
    d = ((points[:, None] - centers[None]) ** 2).sum(-1)
    labels = d.argmin(axis=1)
    onehot = (labels[:, None] == np.arange(len(centers))).astype(points.dtype)
    counts = onehot.sum(axis=0)
    return labels, (onehot.T @ points) / np.maximum(counts, 1)[:, None]


@program(lambda rng, k: (rng.normal(size=(20 * k, 5)), rng.normal(size=5)))
def pca_step(x, v):
    """One step of power iteration on the covariance."""
    xc = x - x.mean(axis=0)
    cov = xc.T @ xc / (x.shape[0] - 1)
    w = cov @ v
    return w / np.linalg.norm(w)


@program(lambda rng, k: (rng.normal(size=(15 * k, 8)), np.ones(8), np.zeros(8)))
def layer_norm(x, gain, bias, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(var + eps) + bias


@program(lambda rng, k: (rng.normal(size=(6 * k, 8)), rng.normal(size=(5 * k, 8)), rng.normal(size=(5 * k, 4))))
def attention(q, k, v):
    scores = q @ k.T / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


@program(lambda rng, k: (rng.normal(size=(10 * k, 10 * k)), 0.1))
def heat_step(u, alpha):
    new = u.copy()
    new[1:-1, 1:-1] = u[1:-1, 1:-1] + alpha * (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )
    return new


@program(lambda rng, k: (rng.integers(0, 2, (9 * k, 11 * k)),))
def game_of_life(board):
    n = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | ((board == 1) & (n == 2))).astype(int)


@program(lambda rng, k: (rng.uniform(-90, 90, 9 * k), rng.uniform(-180, 180, 9 * k), 48.1, 11.6))
def haversine(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = map(np.radians, [lat1, lon1, lat2, lon2])
    a = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 6371 * 2 * np.arcsin(np.sqrt(a))


@program(lambda rng, k: (rng.normal(size=(12 * k, 4)), rng.normal(size=4), 0.1, rng.integers(0, 2, 12 * k)))
def logistic_gradient_step(X, w, lr, y):
    p = 1 / (1 + np.exp(-(X @ w)))
    grad = X.T @ (p - y) / len(y)
    return w - lr * grad


@program(lambda rng, k: (rng.random((10 * k, 12 * k, 3)),))
def to_gray(rgb):
    return np.dot(rgb[..., :3], [0.2989, 0.5870, 0.1140])


@program(lambda rng, k: (rng.normal(size=(8 * k, 6 * k)),))
def max_pool(x):
    h, w = x.shape
    return x.reshape(h // 2, 2, w // 2, 2).max(axis=(1, 3))


@program(lambda rng, k: (rng.normal(size=(25 * k, 4)),))
def correlation_matrix(x):
    return np.corrcoef(x, rowvar=False)


@program(lambda rng, k: (rng.normal(size=30 * k).cumsum() + 100,))
def drawdown(prices):
    peak = np.maximum.accumulate(prices)
    return ((peak - prices) / peak).max()


@program(lambda rng, k: (rng.normal(size=50 * k), 20, -3.0, 3.0))
def normalized_histogram(x, bins, low, high):
    counts, edges = np.histogram(x, bins=bins, range=(low, high))
    return counts / (counts.sum() * np.diff(edges))


@program(lambda rng, k: (np.sort(rng.random(10 * k)), rng.random(10 * k)))
def trapezoid(x, y):
    return np.sum((y[1:] + y[:-1]) * np.diff(x)) / 2


@program(lambda rng, k: (rng.normal(size=(12 * k, 2)), rng.normal(size=12 * k) ** 2))
def gravity(pos, mass, softening=0.1):
    dx = pos[:, 0:1].T - pos[:, 0:1]
    dy = pos[:, 1:2].T - pos[:, 1:2]
    inv_r3 = (dx**2 + dy**2 + softening**2) ** -1.5
    ax = (dx * inv_r3) @ mass
    ay = (dy * inv_r3) @ mass
    return np.column_stack((ax, ay))


@program(lambda rng, k: (rng.integers(0, 6, 9 * k),))
def one_hot(labels, classes=6):
    out = np.zeros((labels.size, classes))
    out[np.arange(labels.size), labels] = 1
    return out


@program(lambda rng, k: (rng.normal(size=(30 * k,)),))
def clean_outliers(x):
    q1, q3 = np.percentile(x, [25, 75])
    iqr = q3 - q1
    y = x.copy()
    y[(x < q1 - 1.5 * iqr) | (x > q3 + 1.5 * iqr)] = np.median(x)
    return y


@program(lambda rng, k: (np.linspace(-2, 1, 6 * k), np.linspace(-1.5, 1.5, 5 * k)))
def mandelbrot(re, im):
    cx, cy = np.meshgrid(re, im)
    x, y = np.zeros_like(cx), np.zeros_like(cy)
    count = np.zeros(cx.shape, dtype=np.int32)
    for _ in range(10):
        inside = x * x + y * y <= 4
        count += inside
        x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
    return count


def _same(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert isinstance(actual, tuple) and len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            _same(a, e)
        return
    assert np.shape(actual) == np.shape(expected)
    assert np.asarray(actual).dtype == np.asarray(expected).dtype
    loose = np.asarray(expected).dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-5 if loose else 1e-11, atol=1e-6 if loose else 1e-12)


@pytest.mark.parametrize(("function", "make"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_as_it_is(function: Callable[..., Any], make: Make, rng: np.random.Generator) -> None:
    compiled = fl.jit(function)
    for size in (1, 2):
        arguments = make(rng, size)
        _same(compiled(*arguments), function(*arguments))
    assert len(compiled._known) == 1
    assert compiled.source.startswith(f"fn {function.__name__}(")


def test_there_are_thirty() -> None:
    assert len(PROGRAMS) == 30
