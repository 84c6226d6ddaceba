"""Holds every example, and the libraries `nn` and `stats`, against NumPy, on both devices.

    python examples/check_numpy.py [--only FILE] [path of the fuseloop binary]

Each function of each example is a row of the table CASES, and each of a library one of LIBRARIES: arguments of small, awkward sizes (0, 1, primes), NumPy's
answer in float64, and how far from it a result may be, with the reason. Nothing is "close enough":

- EXACT   every value equal: integers, and floats where NumPy does the same roundings in the same order, or none;
- ulp     this many units in the last place of each value: a function's stated accuracy;
- rounds  this many roundings (a relative 2^-24 in f32, 2^-53 in f64) of a magnitude: an analysis of the program. For a sum the
          magnitude is the sum of what the terms come to without their signs, and the roundings are those that a term passes through.

The two devices must write identical files, unless a contraction takes part, whose order of summation is free. Every
function of every example has a row.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parent
rng = np.random.default_rng(1)

# ---- arguments


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def f64(*shape):
    return rng.standard_normal(shape)


def unit(*shape):
    """In (0, 1]: sums of these do not cancel."""
    return (1 - rng.random(shape)).astype(np.float32)


def small(*shape, dtype=np.float32):
    """Integers as floats: their products and sums are exact in any order."""
    return rng.integers(-8, 9, shape).astype(dtype)


def ints(high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


def places(n):
    return np.stack([rng.uniform(-80, 80, n), rng.uniform(-180, 180, n)], axis=1)


def digits_data(*names):
    return {name: np.load(HERE / "digits" / f"{name}.npy") for name in names}


# ---- how far off a result may be


class Tolerance:
    """Whether NumPy computes in float64, a line for the reader, and the error allowed of each result."""

    def __init__(self, label, why, allowed):
        self.label, self.why, self.allowed = label, why, allowed


EXACT = Tolerance("exact", "", None)


def ulp(k, why):
    def allowed(results, expected, _):
        return [k * np.spacing(abs(e).astype(r.dtype)).astype(float) for r, e in zip(results, expected)]

    return Tolerance(f"{k} ulp", why, allowed)


def rounds(k, why, of=None):
    """`k` roundings, a number or a function of the arguments, of the magnitude `of`: one for each result, one for all, or the result."""

    def allowed(results, expected, arguments):
        number = k(**arguments) if callable(k) else k
        scale = of(**arguments) if of else [abs(e) for e in expected]
        scale = scale if isinstance(scale, (tuple, list)) else [scale] * len(results)
        return [number * np.finfo(r.dtype).eps / 2 * s if r.dtype.kind == "f" else 0 for r, s in zip(results, scale)]

    return Tolerance("rounds", why, allowed)


def lanes(n):
    """Additions that a term of a sum by lanes of n elements passes through: its lane, the lanes' tree, the chunks' tree."""
    return math.ceil(min(n, 4096) / 128) + 7 + math.ceil(math.log2(max(n / 4096, 1)))


def blocks(n):
    """The same by blocks of rows."""
    return min(n, 256) + math.ceil(math.log2(max(n / 256, 1)))


def prefix(n):
    """The same for a scan: log steps in a group of 16, the groups of a chunk, the chunks."""
    return 4 + min(math.ceil(n / 16), 256) + math.ceil(n / 4096)


def r32(x):
    """Rounded to f32 once, as an operation of the language does."""
    return np.asarray(x).astype(np.float32).astype(np.float64)


# ---- NumPy's answers

erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])  # 1 - erf without the cancellation


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * erfc(-x / math.sqrt(2)) / 2


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=-1, keepdims=True)


def normalised(x, gain, bias, axis):
    mu = x.mean(axis=axis, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=axis, keepdims=True)
    return (x - mu) / np.sqrt(var + 1e-5) * gain + bias


def layer_norm(x, gain, bias):
    return normalised(x, gain, bias, -1)


def batch_norm(x, gain, bias):
    return normalised(x, gain[:, None, None], bias[:, None, None], (0, 2, 3))


def normalised_size(x, gain, bias, axis):
    """The magnitude of the terms of a normalization: the mean's error is one of sum |x| / n."""
    size = abs(x) + abs(x).mean(axis=axis, keepdims=True)
    return size / np.sqrt(x.var(axis=axis, keepdims=True) + 1e-5) * abs(gain) + abs(bias)


def attention(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v


def attention_rounds(q, k, v):
    """A score's error is its exponential's relative error."""
    d, t = q.shape[-1], k.shape[-2]
    size = (abs(q) @ abs(np.swapaxes(k, -1, -2))).max() / np.sqrt(d)
    return 2 * ((d + 4) * size + lanes(t)) + t + 8


def cross_entropy(logits, label):
    hi = logits.max(axis=1)
    lse = hi + np.log(np.exp(logits - hi[:, None]).sum(axis=1))
    return (lse - logits[np.arange(len(label)), label]).mean()


def windows(x, r, s):
    return np.lib.stride_tricks.sliding_window_view(x, (r, s), axis=(-2, -1))


def conv_bn_relu(x, k, gain, shift):
    y = np.einsum("nzijuv,ozuv->noij", windows(x, *k.shape[2:]), k)
    return relu(y * gain[:, None, None] + shift[:, None, None])


def gelu_mlp(x, w1, b1, w2, b2):
    return x + gelu(x @ w1 + b1) @ w2 + b2


def gru(x, h, wz, uz, wr, ur, wn, un):
    keep, look = sigmoid(x @ wz + h @ uz), sigmoid(x @ wr + h @ ur)
    return keep * h + (1 - keep) * np.tanh(x @ wn + (look * h) @ un)


def gru_size(x, h, wz, uz, wr, ur, wn, un):
    return 1 + sum(abs(x) @ abs(w) + abs(h) @ abs(u) for w, u in ((wz, uz), (wr, ur), (wn, un))) * (1 + abs(h))


def rope(x):
    s, _, d, _ = x.shape
    angle = (np.arange(s)[:, None] * 10000.0 ** (-np.arange(d) / d))[:, None]
    a, b, c, e = x[..., 0], x[..., 1], np.cos(angle), np.sin(angle)
    return np.stack([a * c - b * e, a * e + b * c], axis=-1)


def digits_logits(x, w1, b1, w2, b2):
    return relu(x / 16 @ w1 + b1) @ w2 + b2


def digits(x, label, w1, b1, w2, b2):
    predicted = digits_logits(x, w1, b1, w2, b2).argmax(axis=1)
    confusion = np.zeros((10, 10), np.int64)
    np.add.at(confusion, (label, predicted), 1)
    return np.float32((predicted == label).mean()), confusion


def black_scholes(spot, strike, years, rate, volatility):
    cdf = lambda z: erfc(-z / math.sqrt(2)) / 2
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    discounted = strike * np.exp(-rate * years)
    d2 = d1 - spread
    return spot * cdf(d1) - discounted * cdf(d2), discounted * cdf(-d2) - spot * cdf(-d1)


def call_price(spot, strike, years, rate, volatility):
    return black_scholes(spot, strike, years, rate, volatility)[0]


def call_slopes(spot, strike, years, rate, volatility):
    """The closed forms: delta, vega, theta, rho."""
    cdf, pdf = lambda z: erfc(-z / math.sqrt(2)) / 2, lambda z: np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    discounted = strike * np.exp(-rate * years) * cdf(d1 - spread)
    vega = spot * pdf(d1) * np.sqrt(years)
    return cdf(d1), vega, -vega * volatility / (2 * years) - rate * discounted, years * discounted


def call_bends(spot, strike, years, rate, volatility):
    """The closed forms: gamma, vanna, volga."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    pdf = np.exp(-d1 * d1 / 2) / math.sqrt(2 * math.pi)
    d2 = d1 - spread
    return pdf / (spot * spread), -pdf * d2 / volatility, spot * pdf * np.sqrt(years) * d1 * d2 / volatility


def greeks(**market):
    return *call_slopes(**market), *call_bends(**market)


def chord(a, b, east):
    return np.sin((b - a) / 2) ** 2 + np.cos(a) * np.cos(b) * np.sin(east / 2) ** 2


def haversine(here, there):
    a, b = np.radians(here)[:, None], np.radians(there)[None]
    return 12742 * np.arcsin(np.sqrt(np.minimum(chord(a[..., 0], b[..., 0], b[..., 1] - a[..., 1]), 1)))


def haversine_size(here, there):
    """Where the distance nears half the globe, asin is steep."""
    return 12742 / np.cos(haversine(here, there) / 12742)


def nearest_place(here, there):
    d = haversine(here, there)
    return d.argmin(axis=1), d.min(axis=1)


def pulls(at, mass, softening):
    apart = at[None] - at[:, None]
    return (mass / ((apart**2).sum(-1) + softening**2) ** 1.5)[..., None] * apart


def heat_step(t, up, down, left, right, k):
    """In f32, with the roundings of the source."""
    return t + k * (up + down + left + right - 4 * t)


def heat_inner(t, k):
    return heat_step(t[1:-1, 1:-1], t[:-2, 1:-1], t[2:, 1:-1], t[1:-1, :-2], t[1:-1, 2:], k)


def heat_fixed(t, k):
    y = t.copy()
    if min(t.shape) > 2:
        y[1:-1, 1:-1] = heat_inner(t, k)
    return y


def heat_insulated(t, k):
    p = np.pad(t, 1, mode="edge")
    return heat_step(t, p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:], k)


def squares(query, base):
    return ((query[:, None] - base[None]) ** 2).sum(axis=-1)


def nearest3(query, base):
    s = squares(query, base)
    index = s.argsort(axis=1, kind="stable")[:, :3]
    return index, np.sqrt(np.take_along_axis(s, index, axis=1))


def without(s, gone):
    s = s.copy()
    s[np.arange(len(s)), gone] = np.inf
    return s


def centres(x, cluster, centre):
    of = [x[cluster == j] for j in range(len(centre))]
    return np.stack([part.sum(0) / np.float32(len(part)) if len(part) else c for part, c in zip(of, centre)])


def kmeans(x, start):
    first = x[start : start + 10]
    cluster = squares(x, first).argmin(axis=1)
    return centres(x, cluster, first), np.bincount(cluster, minlength=10), cluster


def glow(heat):
    return (255 * np.clip(3 * heat[..., None] - np.arange(3, dtype=np.float32), 0, 1)).astype(np.uint8)


def mandelbrot_picture(height, width, limit):
    steps = mandelbrot(height, width, limit)
    return glow(np.where(steps == limit, 0, np.sqrt(np.float32(steps) / np.float32(limit))).astype(np.float32))


def far(x, y):
    re, im = x * x * x - 3 * x * y * y - 1, 3 * x * x * y - y * y * y
    return re * re + im * im > 1e-6


def shade(re, im, limit, channel):
    x, y, steps = float(re), float(im), 0
    while steps < limit and far(x, y):
        square = x * x + y * y
        scale = 3 * square * square
        x, y = 2 * x / 3 + (x * x - y * y) / scale, 2 * y / 3 - 2 * x * y / scale
        steps += 1
    root = 0 if x > 0 else 1 if y > 0 else 2
    return np.uint8(255 - min(12 * steps, 200) if root == channel else 0)


def newton_picture(height, width, limit):
    place = lambda i, j: (j / float(width) * 3 - 1.5, i / float(height) * 3 - 1.5)
    each = [shade(*place(i, j), limit, c) for i in range(height) for j in range(width) for c in range(3)]
    return np.array(each, np.uint8).reshape(height, width, 3)


def drop(i, j, at, across):
    return np.maximum(1 - np.float32((i - at) ** 2 + (j - across) ** 2) / np.float32(80), np.float32(0))


def wave_picture(height, width, steps):
    i, j = np.indices((height, width))
    u = drop(i, j, height // 2, width // 3) + drop(i, j, height // 3, 3 * width // 4)
    before = u
    for _ in range(steps):
        after, inner = u.copy(), u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner
        after[1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1] + np.float32(0.25) * around
        u, before = after, u
    blue = 90 + 40 * np.arange(3, dtype=np.float32)
    return np.clip(blue + 320 * u[..., None], 0, 255).astype(np.uint8)


def heat_picture(height, width, steps):
    i, j = np.indices((height, width))
    across = j % (width // 3)
    hot = (i > height // 4) & (i < 3 * height // 4) & (across > width // 9) & (across < width // 5)
    u = hot.astype(np.float32)
    for _ in range(steps):
        after = u.copy()
        after[1:-1, 1:-1] = np.float32(0.25) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = after
    return glow(u)


def life_picture(height, width, generations):
    i, j = np.indices((height, width))
    cell = ((i * i * 7 + j * j * 13 + i * j * 5) % 11 < 4).astype(np.uint8)
    before = cell
    for _ in range(generations):
        cell, before = generation(cell), cell
    return np.where(cell[..., None] == 1, 255, np.where(before[..., None] == 1, 50 * np.arange(3), 0)).astype(np.uint8)


def lorenz_picture(height, width, orbits, steps):
    at = (np.arange(orbits)[:, None] % 17 + 3 * np.arange(3)) / 8 + 1
    visits = np.zeros((height, width), np.int64)
    for step in range(steps + 1):
        row = np.floor((50 - at[:, 2]) / 50 * height).astype(int)
        column = np.floor((at[:, 0] + 22) / 44 * width).astype(int)
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        np.add.at(visits, (row[inside], column[inside]), 1)
        at = at + 0.004 * velocity(at)
    return glow(np.sqrt(np.sqrt(np.float32(visits) / np.float32(max(visits.max(initial=0), 1)))))


def groupby(x, group, groups):
    each = [x[group == g] for g in range(groups)]
    total, count = np.array([part.sum() for part in each]), np.array([len(part) for part in each])
    return (count, total, total / count, np.array([part.min(initial=np.inf) for part in each]),
            np.array([part.max(initial=-np.inf) for part in each]))


def components(a, b, n):
    label = np.arange(n)
    while True:
        least, after = np.minimum(label[a], label[b]), label.copy()
        np.minimum.at(after, a, least)
        np.minimum.at(after, b, least)
        if (after == label).all():
            return label, np.int64(len(np.unique(label)))
        label = after


def shortest_paths(n, source, length, to, **edges):
    start, distance = edges["from"], np.where(np.arange(n) == source, 0, np.inf)
    for _ in range(n):
        np.minimum.at(distance, to, distance[start] + length)
    before = np.full(n, -1)
    last = (to != source) & (distance[start] + length == distance[to]) & np.isfinite(distance[to])
    np.maximum.at(before, to[last], start[last])
    return distance, before


def ways(coin, amount):
    w = np.array([1] + [0] * int(amount))
    for value in coin[coin >= 1]:
        for a in range(value, len(w)):
            w[a] += w[a - value]
    return w[-1]


def fewest(coin, amount):
    f = [0.0]
    for a in range(1, int(amount) + 1):
        f.append(1 + min((f[a - value] for value in coin if 1 <= value <= a), default=np.inf))
    return np.int64(f[-1] if f[-1] < np.inf else -1)


def join(item, quantity, id, price):
    row = np.array([np.append(np.flatnonzero(id == p), -1)[0] for p in item], np.int64)
    found = row >= 0
    value, revenue = np.full(len(item), np.nan), np.zeros(len(id))
    value[found] = quantity[found] * price[row[found]]
    np.add.at(revenue, row[found], value[found])
    return value, revenue, np.sum(~found)


def encode(x):
    begin = np.flatnonzero(np.append(True, x[1:] != x[:-1])) if len(x) else np.array([], np.int64)
    fill = lambda a: np.append(a, np.zeros(len(x) - len(a), np.int64))
    return np.int64(len(begin)), fill(x[begin]), fill(np.diff(np.append(begin, len(x))))


def longest(x):
    begin = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    length = np.diff(np.append(begin, len(x)))
    return begin[length.argmax()], length.max()


def equalize(picture):
    up_to = np.bincount(picture.ravel(), minlength=256).cumsum()
    darkest = up_to[picture.min()]
    if darkest == picture.size:
        return np.zeros_like(picture)
    return np.round(255 * (up_to - darkest) / (picture.size - darkest)).clip(0, 255).astype(np.uint8)[picture]


def kalman(seen, drift, noise):
    level, variance = [], []
    for z in seen:
        if level:
            ahead = variance[-1] + drift
            gain = ahead / (ahead + noise)
            level.append(level[-1] + gain * (z - level[-1]))
            variance.append((1 - gain) * ahead)
        else:
            level, variance = [z], [noise]
    return np.array(level, float), np.array(variance, float)


def roc(score, positive):
    hit, miss = score[positive][:, None], score[~positive]
    return np.sum((hit > miss) + (hit == miss) / 2) / (len(hit) * len(miss))


def grid(x, y, low, high):
    a, b = (np.floor((v - low) / (high - low) * np.float32(16)) for v in (x, y))
    inside = (a >= 0) & (a < 16) & (b >= 0) & (b < 16)
    h = np.zeros((16, 16), np.int64)
    np.add.at(h, (a[inside].astype(int), b[inside].astype(int)), 1)
    return h


def exponential(x, keep):
    y, last = [], 0.0
    for value in x:
        last = keep * last + (1 - keep) * value
        y.append(last)
    return np.array(y)


def ema(x, a):
    y = x.copy()
    for t in range(1, len(x)):
        y[t] = a * x[t] + (1 - a) * y[t - 1]
    return y


def edit_distance(a, b):
    d = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1)).astype(np.int32)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
    return d[-1, -1]


def heat(u0, steps):
    u = u0.copy()
    for _ in range(steps):
        u[1:-1, 1:-1] = np.float32(0.25) * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def rnn(x, w, u):
    s = np.zeros(u.shape[1], np.float32)
    for row in x @ w:
        s = np.tanh(row + s @ u)
    return s


def summary(x):
    return np.quantile(x, [0, 0.25, 0.5, 0.75, 1], axis=0)


def outliers(x):
    middle = np.median(x, axis=0)
    return abs(x - middle) > 3 * np.median(abs(x - middle), axis=0)


def best(score, k):
    order = np.argsort(-score, kind="stable")[:k]
    return score[order], order


def rank(score):
    return np.argsort(np.argsort(-score, kind="stable"))


def bins(x, edge):
    return np.bincount(np.searchsorted(edge, x), minlength=len(edge) + 1)


def escape(re0, im0, limit):
    re, im, steps = np.float32(re0), np.float32(im0), 0
    while steps < limit and re * re + im * im < 4:
        re, im, steps = re * re - im * im + re0, 2 * re * im + im0, steps + 1
    return np.int64(steps)


def mandelbrot(height, width, limit):
    re = np.arange(width, dtype=np.float32) / np.float32(width) * np.float32(3) - np.float32(2.25)
    im = np.arange(height, dtype=np.float32) / np.float32(height) * np.float32(2.5) - np.float32(1.25)
    steps = [[escape(x, y, limit) for x in re] for y in im]
    return np.array(steps, np.int64).reshape(height, width)


def root(a):
    x, t = a, 0
    while t < 200 and abs(x * x - a) > 1e-15 * a:
        x, t = (x + a / x) / 2, t + 1
    return x


def kepler(mean, e):
    x = mean
    for _ in range(50):
        x = x - (x - e * np.sin(x) - mean) / (1 - e * np.cos(x))
    return x


def velocity(a):
    x, y, z = a.T
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=1)


def lorenz(at, h, steps):
    for _ in range(steps):
        k1 = velocity(at)
        k2 = velocity(at + h / 2 * k1)
        k3 = velocity(at + h / 2 * k2)
        k4 = velocity(at + h * k3)
        at = at + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return at


def sparse(rows, entries):
    """A matrix by rows, with this many entries in each on average."""
    lengths = rng.integers(0, 2 * entries + 1, rows)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return dict(ptr=ptr, col=rng.integers(0, 7, ptr[-1]), val=small(ptr[-1]), x=small(7))


def csr(ptr, col, val, x):
    return np.array([(val[a:b] * x[col[a:b]]).sum() for a, b in zip(ptr, ptr[1:])], np.float32)


def coo(row, col, val, x, n):
    y = np.zeros(n, np.float32)
    np.add.at(y, row, val * x[col])
    return y


def pagerank(n, steps, **links):
    source, target = links["from"], links["to"]
    out = np.bincount(source, minlength=n)
    rank = np.full(n, 1 / n)
    for _ in range(steps):
        given = np.where(out > 0, rank / np.maximum(out, 1), 0)
        got = np.bincount(target, given[source], minlength=n)
        rank = 0.15 / n + 0.85 * (got + rank[out == 0].sum() / n)
    return rank


def laplacian(u):
    p = np.pad(u, 1)
    return 4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]


def poisson(b, steps):
    n = len(b)
    matrix = np.array([laplacian(e.reshape(n, n)).ravel() for e in np.eye(n * n)])
    return np.linalg.solve(matrix, b.ravel()).reshape(n, n)


def viterbi(first, move, seen):
    best, origin = seen[0] + first, []
    for row in seen[1:]:
        paths = best[:, None] + move
        origin.append(paths.argmax(axis=0))
        best = row + paths.max(axis=0)
    path = [best.argmax()]
    for step in reversed(origin):
        path.append(step[path[-1]])
    return np.array(path[::-1], np.int64)


def smith_waterman(a, b, gap):
    h = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            met = h[i - 1, j - 1] + (3 if a[i - 1] == b[j - 1] else -3)
            h[i, j] = max(met, 0, h[i - 1, j] - gap, h[i, j - 1] - gap)
    return h.max()


def lstm(a, u):
    c, h = np.zeros(u.shape[2]), np.zeros(u.shape[2])
    for row in a:
        z = row + np.einsum("qkj,k->qj", u, h)
        c = sigmoid(z[0]) * c + sigmoid(z[1]) * np.tanh(z[2])
        h = sigmoid(z[3]) * np.tanh(c)
    return h


def wave_step(u, before, c):
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    after = u.copy()
    after[1:-1, 1:-1] = 2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + c * near
    return after


def wave(u0, c, steps):
    u, before = u0, u0
    for _ in range(steps):
        u, before = wave_step(u, before, c), u
    return u


def bodies_pull(x, mass):
    d = x[None] - x[:, None]
    far = (d**2).sum(axis=2) + 0.01
    return (mass[None, :, None] * d / (far * np.sqrt(far))[:, :, None]).sum(axis=1)


def bodies(at, speed, mass, h, steps):
    x, v = at, speed
    for _ in range(steps):
        half = v + h / 2 * bodies_pull(x, mass)
        x = x + h * half
        v = half + h / 2 * bodies_pull(x, mass)
    return x


def neighbours_of(cell):
    return sum(np.roll(cell.astype(np.int32), (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - cell


def generation(cell):
    around = neighbours_of(cell)
    return ((around == 3) | (around == 2) & (cell == 1)).astype(np.uint8)


def generations(cell):
    cell = (cell > 5).astype(np.uint8)
    for _ in range(1000):
        cell = generation(cell)
    return cell


def photo():
    return dict(image=np.asarray(Image.open(HERE / "photo" / "photo.png")))


def binomial(image):
    p = np.pad(image.astype(float), ((2, 2), (2, 2), (0, 0)), mode="edge")
    kernel = np.array([1, 4, 6, 4, 1]) / 16
    p = sum(k * p[:, j : j + image.shape[1]] for j, k in enumerate(kernel))
    return sum(k * p[i : i + image.shape[0]] for i, k in enumerate(kernel)).round()


def grey(image):
    return image.astype(int) @ [77, 150, 29] // 256


def outlines(image):
    w = windows(grey(image), 3, 3)
    across = np.einsum("ijrs,r,s->ij", w, [1, 2, 1], [-1, 0, 1])
    down = np.einsum("ijrs,r,s->ij", w, [-1, 0, 1], [1, 2, 1])
    return np.minimum(np.sqrt((across**2 + down**2).astype(np.float32)), 255).astype(int)


def life(cell):
    block = sum(np.roll(cell.astype(int), (r, s), (0, 1)) for r in (-1, 0, 1) for s in (-1, 0, 1))
    return (block == 3) | (block == 4) & (cell == 1)


def quantize(x):
    """In f32, with the roundings of the source."""
    scale = abs(x).max(axis=1) / np.float32(127)
    return np.nan_to_num((x / scale[:, None]).round()), scale


def quantized(x):
    q, scale = quantize(x)
    back = q * scale[:, None]
    return back, abs(back - x).max()


def quantized_product(x, w):
    (a, row), (b, column) = quantize(x), quantize(w)
    return (a.astype(int) @ b.astype(int).T).astype(np.float32) * row[:, None] * column


def bf16(x):
    """Rounded to even at 8 bits of significand, by the bits."""
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def philox(seed, a, b):
    """Philox2x32 with 7 rounds, as published: two words of 32 bits for each counter (a, b)."""
    word = np.uint64(0xFFFFFFFF)
    key, left, right = (np.asarray(v).astype(np.uint64) for v in (seed, a, b))
    for _ in range(7):
        product = left * np.uint64(0xD256D193)
        left, right = (product >> np.uint64(32)) ^ key ^ right, product & word
        key = (key + np.uint64(0x9E3779B9)) & word
    return left, right


# The known answers that its authors publish.
assert philox(0, 0, 0) == (0x257A3673, 0xCD26BE2A)
assert philox(0x13198A2E, 0x243F6A88, 0x85A308D3) == (0xBEDBBE6B, 0xE4C770B3)


def uniform(seed, i, j):
    """24 bits of the first word. The inner index comes first; a constant in the outer one tells two indices from one."""
    return (philox(seed, j, np.asarray(i) ^ 0x5BD1E995)[0] >> np.uint64(8)) / 2.0**24


def dropout(x, rate, seed):
    drops = uniform(seed, *np.indices(x.shape)) < rate
    spread = math.sqrt(rate * (1 - rate) / max(x.size, 1))
    assert x.size < 1000 or abs(drops.mean() - rate) < 4 * spread, "another share than the rate is dropped"
    return np.where(drops, 0, x / (1 - rate))


def darts(darts, seed):
    i = np.arange(darts)
    squares = [(uniform(seed, i, c).astype(np.float32)) ** 2 for c in (0, 1)]
    estimate = 4 * (squares[0] + squares[1] < 1).mean()
    assert abs(estimate - np.pi) < 4 * math.sqrt(np.pi * (4 - np.pi) / darts), "this is not pi"
    return estimate


def near(bound, why):
    return Tolerance(f"{bound}", why, lambda results, expected, _: [bound for _ in results])


def trained(x, label, first1, first2, steps, rate, noise, seed):
    """Descends by the slopes of the mean cross entropy, with noise of NumPy's own."""
    own, losses = np.random.default_rng(seed), []
    p = [first1.astype(float), np.zeros(first1.shape[1]), first2.astype(float), np.zeros(first2.shape[1])]
    for _ in range(steps):
        inputs = (x + noise * own.standard_normal(x.shape)) / 16
        hidden = relu(inputs @ p[0] + p[1])
        losses.append(cross_entropy(hidden @ p[2] + p[3], label))
        dz = softmax(hidden @ p[2] + p[3])
        dz[np.arange(len(x)), label] -= 1
        dz /= len(x)
        back = (dz @ p[2].T) * (hidden > 0)
        slopes = inputs.T @ back, back.sum(axis=0), hidden.T @ dz, dz.sum(axis=0)
        p = [one - rate * slope for one, slope in zip(p, slopes)]
    return *p, np.array(losses)


def learnt(x, label, steps, rate, seed):
    own = np.random.default_rng(seed)
    first = math.sqrt(2 / 64) * own.standard_normal((64, 64)), math.sqrt(2 / 64) * own.standard_normal((64, 10))
    return trained(x, label, *first, steps, rate, 3.2, seed)


def train_digits(train_x, train_label, x, label, steps, rate, seed):
    *weights, losses = learnt(train_x, train_label, steps, rate, seed)
    share = (digits_logits(x, *weights).argmax(axis=1) == label).mean()
    assert share > 0.75, "NumPy does not learn to read"
    return share, losses


RHYME = np.array([0 if c == " " else ord(c) - 96 for c in "row row row your boat gently down the stream " + "merrily " * 4 + "life is but a dream "])


def char_states(text, w, u):
    states = [np.zeros(u.shape[0])]
    for letter in text:
        states.append(np.tanh(w[letter] + states[-1] @ u))
    return np.array(states)


def char_scores(text, w, u, v):
    return char_states(text, w, u)[1:] @ v


def char_loss(text, w, u, v):
    return cross_entropy(char_scores(text, w, u, v)[:-1], text[1:])


def char_trained(text, w0, u0, v0, steps, rate):
    """Descends by back-propagation through time."""
    w, u, v = (x.astype(float) for x in (w0, u0, v0))
    losses = []
    for _ in range(steps):
        losses.append(char_loss(text, w, u, v))
        s = char_states(text, w, u)
        dz = softmax(s[1:] @ v)
        dz[np.arange(len(text) - 1), text[1:]] -= 1
        dz[-1] = 0
        dz /= len(text) - 1
        ds, dw, du, dv = dz @ v.T, np.zeros_like(w), np.zeros_like(u), s[1:].T @ dz
        for t in reversed(range(len(text))):
            da = ds[t] * (1 - s[t + 1] ** 2)
            dw[text[t]] += da
            du += np.outer(s[t], da)
            if t:
                ds[t - 1] += da @ u.T
        w, u, v = w - rate * dw, u - rate * du, v - rate * dv
    return w, u, v, np.array(losses)


def char_first(seed):
    own = np.random.default_rng(seed)
    return 0.3 * own.standard_normal((27, 32)), 0.15 * own.standard_normal((32, 32)), 0.3 * own.standard_normal((32, 27))


def char_rnn(steps, rate, seed):
    first = char_first(seed)
    *last, losses = char_trained(RHYME, *first, steps, rate)
    right = (char_scores(RHYME, *last)[:-1].argmax(axis=1) == RHYME[1:]).mean()
    assert right > 0.9, "NumPy does not learn the rhyme"
    return losses, right


def logistic_loss(w, x, label):
    z = x @ w
    return (np.logaddexp(0, z) - label * z).mean() + 0.001 * (w * w).sum()


def logistic_slope(w, x, label):
    return x.T @ (sigmoid(x @ w) - label) / len(x) + 0.002 * w


def logistic_hessian(w, x):
    p = sigmoid(x @ w)
    return (x.T * (p * (1 - p))) @ x / len(x) + 0.002 * np.eye(len(w))


def logistic_fit(x, label, steps):
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        w = w - np.linalg.solve(logistic_hessian(w, x), logistic_slope(w, x, label))
    return w, abs(logistic_slope(w, x, label)).max()


def logistic_curve(x, label, steps):
    return np.array([logistic_loss(logistic_fit(x, label, t)[0], x, label) for t in range(steps)])


def oscillator_swing(k, count, dt):
    place, speed = np.zeros(count, k.dtype), np.zeros(count, k.dtype)
    for t in range(count):
        place[t] = 1 if t == 0 else place[t - 1] + dt * speed[t - 1]
        speed[t] = 0 if t == 0 else speed[t - 1] - dt * (k[0] ** 2 * place[t] + 2 * k[1] * speed[t - 1])
    return place


def oscillator_misfit(k, seen, dt):
    return ((oscillator_swing(k, len(seen), dt) - seen) ** 2).sum() / 2


def oscillator_change(k, seen, dt):
    # A step in the imaginary direction has no cancellation.
    step = 1e-30
    return np.array([oscillator_swing(k + step * 1j * way, len(seen), dt).imag / step for way in np.eye(2)])


def oscillator_slope(k, seen, dt):
    return oscillator_change(k, seen, dt) @ (oscillator_swing(k, len(seen), dt) - seen)


def oscillator_better(k, seen, dt):
    change = oscillator_change(k, seen, dt)
    return k - np.linalg.solve(change @ change.T, oscillator_slope(k, seen, dt))


def oscillator_fit(seen, dt, start, steps):
    k = start
    for _ in range(steps):
        k = oscillator_better(k, seen, dt)
    return k, oscillator_misfit(k, seen, dt)


def oscillator_curve(k, count, dt, start, steps):
    seen = oscillator_swing(k, count, dt)
    return np.log10([oscillator_fit(seen, dt, start, t)[1] for t in range(steps)])


def case(file, function, inputs, reference, within=EXACT, free=False):
    return file, function, inputs, reference, within, free


mlp = lambda x, w1, b1, w2, b2: abs(x) @ abs(w1) + abs(b1)
weights = digits_data("w1", "b1", "w2", "b2")
image = digits_data("x")

digit_steps = dict(x=digits_data("train_x")["train_x"][:200], label=digits_data("train_label")["train_label"][:200], rate=np.float32(0.5), seed=np.int64(2))

# file, function, arguments for each size, NumPy's answer, what may differ and why, whether a contraction takes part
CASES = [
    case("relu_axpb", "relu_axpb", [dict(x=f32(n), b=f32(n)) for n in (0, 1, 7, 1009, 65536)], lambda x, b: relu(x * 2 + b)),
    case("softmax", "softmax", [dict(x=f32(n)) for n in (1, 127, 4099)], softmax,
         rounds(lambda x: lanes(x.size) + 2 * np.ptp(x) + 6, "the sum; x - max, through exp; exp, division")),
    case("softmax", "softmax_rows", [dict(x=f32(n, m)) for n, m in ((0, 5), (3, 1), (13, 101), (5, 4099))], softmax,
         rounds(lambda x: lanes(x.shape[1]) + 2 * np.ptp(x) + 6 if x.size else 0, "the sum; x - max, through exp; exp, division")),
    case("layer_norm", "layer_norm", [dict(x=f32(n), gain=f32(n), bias=f32(n)) for n in (2, 127, 4099)], layer_norm,
         rounds(lambda x, **_: 3 * lanes(x.size) + 10, "two means, the first twice", lambda **a: normalised_size(**a, axis=-1))),
    case("layer_norm", "layer_norm_rows", [dict(x=f32(n, d), gain=f32(d), bias=f32(d)) for n, d in ((5, 3), (17, 769))], layer_norm,
         rounds(lambda x, **_: 3 * lanes(x.shape[1]) + 10, "two means, the first twice", lambda **a: normalised_size(**a, axis=-1))),
    case("matmul", "matmul", [dict(a=small(n, k), b=small(k, m)) for n, k, m in ((1, 1, 1), (2, 0, 3), (7, 13, 5), (64, 127, 97))],
         lambda a, b: a @ b),
    case("linear_relu", "linear_relu",
         [dict(x=f32(n, k), w=f32(k, m), bias=f32(m)) for n, k, m in ((1, 1, 1), (13, 67, 31), (61, 128, 100))],
         lambda x, w, bias: relu(x @ w + bias),
         rounds(lambda x, **_: x.shape[1] + 2, "the product", lambda x, w, bias: abs(x) @ abs(w) + abs(bias)), free=True),
    case("attention", "softmax", [dict(x=f32(127))], softmax, rounds(lambda x: lanes(x.size) + 2 * np.ptp(x) + 6, "as in softmax")),
    case("attention", "attention", [dict(q=f32(s, d), k=f32(t, d), v=f32(t, d)) for s, t, d in ((1, 1, 1), (17, 31, 8))], attention,
         rounds(attention_rounds, "scores, through exp; the sum; the product", lambda q, k, v: attention(q, k, abs(v))), free=True),
    case("attention", "multi_head", [dict(q=f32(2, 3, 11, 8), k=f32(2, 3, 13, 8), v=f32(2, 3, 13, 8))], attention,
         rounds(attention_rounds, "scores, through exp; the sum; the product", lambda q, k, v: attention(q, k, abs(v))), free=True),
    case("cross_entropy", "cross_entropy", [dict(logits=f32(n, c), label=ints(c, n)) for n, c in ((1, 1), (101, 10), (257, 131))],
         cross_entropy,
         rounds(lambda logits, **_: lanes(len(logits)) + lanes(logits.shape[1]) + 10, "two sums, exp, log, the differences",
                lambda logits, label: 1 + 3 * abs(logits).max())),
    case("blur", "blur", [dict(x=f32(n, m)) for n, m in ((3, 3), (17, 101))], lambda x: windows(x, 3, 3).sum(axis=(-2, -1)) / 9,
         rounds(9, "nine terms, a division", lambda x: windows(abs(x), 3, 3).sum(axis=(-2, -1)) / 9)),
    case("shift", "shift", [dict(x=f32(n)) for n in (0, 1, 2, 1009)], lambda x: np.append([0], x[:-1])[: len(x)]),
    case("strided", "strided", [dict(x=f32(m), y=f32((m + 1) // 2)) for m in (0, 1, 2, 1009)], lambda x, y: x[::2] + y),
    case("gathered", "gathered", [dict(x=f32(m), idx=ints(m, n), y=f32(n)) for m, n in ((1, 5), (101, 0), (101, 1009))],
         lambda x, idx, y: x[idx] + y),
    case("transposed", "transposed", [dict(x=f32(n, m), y=f32(m, n)) for n, m in ((1, 7), (31, 101))], lambda x, y: x.T + y),
    case("cumsum", "cumsum", [dict(x=small(n)) for n in (0, 1, 17, 4099, 10007)], lambda x: np.cumsum(x)),
    case("cumsum", "cumsum", [dict(x=f32(10007))], lambda x: np.cumsum(x),
         rounds(lambda x: prefix(x.size), "the scan", lambda x: np.cumsum(abs(x)))),
    case("sincos", "sincos", [dict(x=f32(n) * 100) for n in (1, 1009)], lambda x: (np.sin(x), np.cos(x)), ulp(1.6, "sin, cos")),
    case("conv_bn_relu", "conv_bn_relu", [dict(x=f32(2, 3, 11, 13), k=f32(5, 3, 3, 2), gain=f32(5), shift=f32(5))], conv_bn_relu,
         rounds(3 * 3 * 2 + 3, "the product, gain, shift", lambda **a: conv_bn_relu(**{k: abs(v) for k, v in a.items()})), free=True),
    case("splade", "splade", [dict(x=f32(b, s, h), e=f32(v, h), bias=f32(v)) for b, s, h, v in ((1, 1, 1, 1), (2, 5, 16, 31))],
         lambda x, e, bias: np.log1p(relu(x @ e.T + bias)).max(axis=1),
         rounds(lambda x, **_: x.shape[2] + 4, "the product; log1p grows slower than its argument",
                lambda x, e, bias: (abs(x) @ abs(e).T + abs(bias)).max(axis=1)), free=True),
    case("rms", "rms", [dict(x=f32(n)) for n in (1, 127, 10007)], lambda x: np.sqrt((x * x).mean()),
         rounds(lambda x: lanes(x.size) / 2 + 2, "the sum, through a root")),
    case("gelu_mlp", "gelu_mlp", [dict(x=f32(13, 32), w1=f32(32, 61), b1=f32(61), w2=f32(61, 32), b2=f32(32))], gelu_mlp,
         rounds(1.2 * 34 + 5 + 63, "two products; gelu, which grows at most 1.13 as fast as its argument",
                lambda **a: abs(a["x"]) + mlp(**a) @ abs(a["w2"]) + abs(a["b2"])), free=True),
    case("gru", "gru", [dict(x=f32(b, d), h=f32(b, k), **{n: f32(d if n[0] == "w" else k, k) for n in ("wz", "uz", "wr", "ur", "wn", "un")})
                        for b, d, k in ((1, 1, 1), (7, 5, 13))], gru,
         rounds(lambda x, h, **_: 2 * (x.shape[1] + h.shape[1]) + 12, "three products through sigmoid and tanh", gru_size), free=True),
    case("rope", "rope", [dict(x=f32(s, h, d, 2)) for s, h, d in ((1, 1, 1), (13, 3, 8))], rope,
         rounds(lambda x: 32 * len(x) + 8, "some 30 roundings of an angle of at most the position", lambda x: abs(x).sum(-1, keepdims=True))),
    case("batch_norm", "batch_norm", [dict(x=f32(b, c, h, w), gain=f32(c), bias=f32(c)) for b, c, h, w in ((1, 1, 1, 2), (3, 5, 7, 11))],
         batch_norm,
         rounds(lambda x, **_: 3 * lanes(x.size) + 10, "two means, the first twice",
                lambda x, gain, bias: normalised_size(x, gain[:, None, None], bias[:, None, None], (0, 2, 3)))),
    case("statistics", "statistics", [dict(x=f64(*s)) for s in ((1, 1), (101, 31))], lambda x: (x.mean(0), x.std(0), x.min(0), x.argmax(0)),
         rounds(lambda x: 4 * blocks(len(x)) + 10, "two means, the first twice; NumPy's roundings as many", lambda x: abs(x).mean(0) + x.std(0))),
    case("edges", "edges", [dict(x=f32(n)) for n in (2, 1010)], lambda x: np.append(x[:1], np.diff(x)).reshape(-1, 2)),
    case("histogram", "histogram", [dict(x=ints(b + 2, n), bins=np.int64(b)) for n, b in ((0, 3), (1009, 11))],
         lambda x, bins: np.bincount(x, minlength=bins)[:bins]),
    case("groupby", "main", [dict(x=small(n, dtype=np.float64), group=rng.integers(-1, 4, n), groups=np.int64(3)) for n in (40, 20011)], groupby),
    case("components", "main", [dict(a=rng.integers(0, n, m), b=rng.integers(0, n, m), n=np.int64(n)) for n, m in ((0, 0), (3, 0), (5, 3), (1009, 700))], components),
    case("shortest_paths", "main", [{"from": rng.integers(0, n, m), "to": rng.integers(0, n, m), "length": rng.random(m), "n": np.int64(n), "source": np.int64(0)}
                                    for n, m in ((1, 0), (5, 7), (211, 700))], shortest_paths),
    case("coins", "ways", [dict(coin=rng.integers(-1, 9, n), amount=np.int64(a)) for n, a in ((0, 0), (3, 7), (5, 101))], ways),
    case("coins", "fewest", [dict(coin=rng.integers(-1, 30, n), amount=np.int64(a)) for n, a in ((0, 0), (0, 3), (3, 7), (5, 101))], fewest),
    case("join", "main", [dict(item=rng.integers(0, 99, n), quantity=small(n, dtype=np.float64), id=rng.permutation(99)[:m], price=small(m, dtype=np.float64))
                          for n, m in ((0, 3), (3, 0), (1, 1), (1009, 61))], join),
    case("runs", "longest", [dict(x=rng.integers(0, 2, n)) for n in (1, 2, 1009)], longest),
    case("runs", "encode", [dict(x=rng.integers(0, 2, n)) for n in (0, 1, 1009)], encode),
    case("runs", "distinct", [dict(x=rng.integers(-9, 99, n)) for n in (0, 1, 1009)], lambda x: encode(np.sort(x))),
    case("equalize", "main", [dict(picture=rng.integers(low, 200, size).astype(np.uint8)) for low, *size in ((0, 1, 1), (0, 1, 3), (199, 3, 3), (90, 101, 37))], equalize),
    case("kalman", "main", [dict(seen=f64(n), drift=np.float64(0.1), noise=np.float64(0.5)) for n in (0, 1, 101)], kalman),
    case("roc", "main", [dict(score=small(n, dtype=np.float64), positive=np.arange(n) % 3 == 0) for n in (2, 5, 1009)], roc),
    case("histogram2d", "bin", [dict(x=np.float32(x), low=np.float32(-2), high=np.float32(2), bins=np.int64(16)) for x in (-3, -2, 0.3, 2)],
         lambda x, low, high, bins: np.int64(np.floor((x - low) / (high - low) * np.float32(bins)))),
    case("histogram2d", "main", [dict(x=f32(n), y=f32(n), low=np.float32(-2), high=np.float32(2)) for n in (0, 1, 10007)], grid),
    case("activations", "activations", [dict(x=f32(n) * 3) for n in (1, 1009)],
         lambda x: (sigmoid(x), np.tanh(x), gelu(x), erf(x), x.clip(-1, 1), x.round()), ulp(2.5, "sigmoid and gelu, 2.1; tanh 1.4; erf 0.9")),
    case("chains", "relu_chain", [dict(x=f32(n), y=f32(n)) for n in (0, 1, 1009)],
         lambda x, y: sigmoid(r32(relu(r32(x + y) * 2) - 1)), ulp(2.5, "sigmoid")),
    case("chains", "long_chain", [dict(x=f32(n)) for n in (0, 1, 1009)],
         lambda x: sigmoid(r32(relu(r32(x + 1) * 2) - 0.5)), ulp(2.5, "sigmoid")),
    case("chains", "gate", [dict(x=f32(n)) for n in (0, 1, 1009)], lambda x: sigmoid(x) * np.tanh(r32(x + 1)),
         rounds(2 * 2.1 + 2 * 1.4 + 1, "sigmoid, tanh, a product")),
    case("chains", "log_relu", [dict(x=f32(n, m), b=f32(m)) for n, m in ((0, 3), (1, 1), (13, 101))],
         lambda x, b: np.log(relu(r32(x + b))), ulp(1, "log")),
    case("chains", "case_a", [dict(x=f32(n)) for n in (0, 1, 1009)], lambda x: relu(x + 1) * 2),
    case("chains", "case_b", [dict(x=unit(n)) for n in (0, 1, 127, 4099)], lambda x: x / x.sum(), rounds(lambda x: lanes(x.size) + 1, "the sum")),
    case("chains", "case_c", [dict(x=f32(n)) for n in (0, 1, 127, 4099)], lambda x: np.sqrt((x * x).sum()),
         rounds(lambda x: lanes(x.size) / 2 + 2, "the sum, through a root")),
    case("chains", "case_d", [dict(x=f32(n), y=f32(n)) for n in (0, 1, 1009)], lambda x, y: relu(x) + sigmoid(y),
         rounds(2 * 2.1 + 1, "sigmoid, a sum")),
    case("apart", "share", [dict(x=unit(n, m)) for n, m in ((0, 3), (1, 1), (13, 331))], lambda x: x / x.sum(),
         rounds(lambda x: lanes(x.size) + 1, "the sum")),
    case("apart", "shares", [dict(x=unit(n, m)) for n, m in ((0, 3), (1, 1), (13, 331))], lambda x: x / x.sum(axis=1, keepdims=True),
         rounds(lambda x: lanes(x.shape[1]) + 1, "the sum")),
    case("apart", "smooth_exp", [dict(x=f32(n)) for n in (2, 3, 1009)], lambda x: (np.exp(x)[:-2] + np.exp(x)[1:-1] + np.exp(x)[2:]) / 3,
         rounds(4 + 2 * 1, "exp, two sums, a division")),
    case("apart", "smooth_double", [dict(x=unit(n)) for n in (2, 3, 1009)], lambda x: (2 * x[:-2] + 2 * x[1:-1] + 2 * x[2:]) / 3,
         rounds(3, "two sums, a division")),
    case("apart", "softmax_columns", [dict(x=f32(n, m)) for n, m in ((3, 0), (1, 3), (331, 17))], lambda x: softmax(x.T).T,
         rounds(lambda x: blocks(x.shape[0]) + 2 * np.ptp(x) + 6 if x.size else 0, "the sum; x - max, through exp; exp, division")),
    case("apart", "margins", [dict(x=unit(n, m)) for n, m in ((0, 3), (1, 1), (331, 17))], lambda x: (x.sum(axis=1), x.sum(axis=0)),
         rounds(lambda x: max(lanes(x.shape[1]), blocks(x.shape[0])), "the sums")),
    case("apart", "weighted", [dict(x=unit(n), w=unit(n)) for n in (0, 1, 13, 331, 20011)], lambda x, w: np.sort(x) * w),
    case("apart", "means", [dict(x=small(n), group=rng.integers(-1, k + 1, n), k=np.int64(k)) for n, k in ((0, 0), (0, 2), (13, 3), (20011, 331))],
         lambda x, group, k: np.array([x[group == g].sum() for g in range(k)], "f4") / np.array([(group == g).sum() for g in range(k)], "f4")),
    case("black_scholes", "normal_cdf", [dict(z=np.float64(z)) for z in (-9, -0.5, 0, 3)], lambda z: erfc(-z / math.sqrt(2)) / 2,
         rounds(8, "1 + erf, which cancels", lambda z: 1.0)),
    case("black_scholes", "black_scholes",
         [dict(spot=rng.uniform(50, 150, n), strike=rng.uniform(50, 150, n), years=rng.uniform(0.1, 3, n), rate=np.float64(0.03),
               volatility=np.float64(0.3)) for n in (0, 1, 101)], black_scholes,
         rounds(40, "a dozen roundings of d, |d N'(d)| < 1/4; erf, exp; NumPy's as many", lambda spot, strike, **_: spot + strike)),
    case("greeks", "normal_cdf", [dict(z=np.float64(z)) for z in (-9, -0.5, 0, 3)], lambda z: erfc(-z / math.sqrt(2)) / 2,
         rounds(8, "1 + erf, which cancels", lambda z: 1.0)),
    *(case("greeks", name,
           [dict(spot=np.float64(s), strike=np.float64(100), years=np.float64(y), rate=np.float64(0.03), volatility=np.float64(0.3))
            for s, y in ((100, 1), (60, 0.1), (130, 3))], answer, rounds(50, "d has a dozen roundings, a second slope some thirty; NumPy's as many", lambda **_: 100.0))
      for name, answer in (("price", call_price), ("slopes", call_slopes), ("bends", call_bends))),
    case("greeks", "greeks",
         [dict(spot=rng.uniform(50, 150, n), strike=rng.uniform(50, 150, n), years=rng.uniform(0.1, 3, n), rate=np.float64(0.03),
               volatility=np.float64(0.3)) for n in (0, 1, 101)], greeks,
         rounds(50, "d has a dozen roundings, a second slope some thirty; NumPy's as many", lambda **_: 100.0)),
    case("haversine", "radians", [dict(degrees=np.float64(d)) for d in (0, 90, -180)], lambda degrees: degrees * np.pi / 180),
    case("haversine", "haversine", [dict(here=places(n), there=places(m)) for n, m in ((0, 2), (1, 1), (13, 31))], haversine,
         rounds(40, "angles that cancel; sin, cos, asin; NumPy's as many", haversine_size)),
    case("haversine", "nearest", [dict(here=places(n), there=places(m)) for n, m in ((1, 1), (13, 31))], nearest_place,
         rounds(40, "as above", lambda here, there: haversine_size(here, there).max())),
    case("nbody", "accelerations", [dict(at=f32(n, 3), mass=unit(n), softening=np.float32(0.1)) for n in (1, 2, 101)],
         lambda **a: pulls(**a).sum(axis=1), rounds(lambda at, **_: blocks(len(at)) + 20, "the sum; a dozen in each pull", lambda **a: abs(pulls(**a)).sum(axis=1))),
    case("stencil", "inner", [dict(t=f32(n, m), k=np.float32(0.1)) for n, m in ((2, 5), (3, 3), (13, 101))], heat_inner),
    case("stencil", "fixed", [dict(t=f32(n, m), k=np.float32(0.1)) for n, m in ((0, 3), (1, 1), (2, 5), (3, 3), (13, 101))], heat_fixed),
    case("stencil", "insulated", [dict(t=f32(n, m), k=np.float32(0.1)) for n, m in ((1, 1), (2, 5), (13, 101))], heat_insulated),
    case("neighbours", "distances", [dict(query=small(n, d), base=small(m, d)) for n, m, d in ((0, 1, 1), (7, 31, 5))], squares),
    case("neighbours", "without", [dict(s=f32(7, 5), gone=rng.integers(0, 5, 7))], without),
    case("neighbours", "main", [dict(query=small(n, d), base=small(m, d)) for n, m, d in ((1, 3, 1), (7, 31, 5))], nearest3),
    case("kmeans", "assign", [dict(x=small(n, d), centre=small(k, d)) for n, d, k in ((0, 1, 1), (101, 3, 5))],
         lambda x, centre: squares(x, centre).argmin(axis=1)),
    case("kmeans", "update", [dict(x=small(101, 3), cluster=rng.integers(0, 3, 101), centre=small(5, 3))], centres),
    case("kmeans", "main", [dict(**image, start=np.int64(7))], kmeans),
    case("moving", "moving_mean", [dict(x=small(n, dtype=np.float64), w=np.int64(w)) for n, w in ((1, 1), (17, 5), (5000, 100))],
         lambda x, w: np.lib.stride_tricks.sliding_window_view(x, w).sum(axis=1) / w),
    case("moving", "exponential", [dict(x=abs(f64(n)), keep=np.float64(0.9)) for n in (0, 1, 17, 101)], exponential,
         rounds(lambda x, keep: prefix(x.size) + x.size * (2 - 6 * math.log(keep)) + 10, "the scan; exponents, through exp; NumPy's recurrence")),
    case("ema", "ema", [dict(x=f32(n), a=np.float32(0.25)) for n in (0, 1, 17, 1009)], ema),
    case("edit_distance", "distance", [dict(a=ints(4, n), b=ints(4, m)) for n, m in ((0, 0), (0, 3), (1, 1), (31, 40))], edit_distance),
    case("heat", "heat", [dict(u0=f32(n, m), steps=np.int64(steps)) for n, m, steps in ((1, 1, 3), (3, 3, 0), (17, 31, 20))], heat),
    case("rnn", "rnn", [dict(x=f32(n, d), w=f32(d, h), u=f32(h, h) / 8) for n, d, h in ((0, 2, 3), (1, 1, 1), (9, 5, 7))], rnn,
         rounds(lambda x, w, u: 8 * (len(x) + 1) * (x.shape[1] + len(u) + 16), "a product and a tanh in each step",
                lambda x, w, u: 1 + abs(x).max(initial=0) * abs(w).sum()), free=True),
    case("percentile", "summary", [dict(x=f64(n, m)) for n, m in ((1, 1), (2, 3), (101, 5))], summary),
    case("percentile", "outliers", [dict(x=f64(n, m) ** 3) for n, m in ((1, 1), (10, 2), (101, 5))], outliers),
    case("percentile", "best", [dict(score=small(n), k=np.int64(k)) for n, k in ((0, 0), (5, 5), (1000, 7))], best),
    case("percentile", "rank", [dict(score=small(n)) for n in (0, 1, 31, 1000)], rank),
    case("percentile", "bins", [dict(x=small(n), edge=np.sort(f32(k) * 4)) for n, k in ((0, 0), (101, 1), (1000, 5))], bins),
    case("mandelbrot", "main", [dict(height=np.int64(n), width=np.int64(m), limit=np.int64(k)) for n, m, k in ((0, 3, 5), (1, 1, 0), (13, 17, 50))], mandelbrot),
    case("mandelbrot", "escape", [dict(re0=np.float32(0.3), im0=np.float32(0.5), limit=np.int64(k)) for k in (-1, 0, 200)], escape),
    case("pictures", "mandelbrot", [dict(height=np.int64(n), width=np.int64(m), limit=np.int64(k)) for n, m, k in ((1, 1, 1), (13, 17, 50))], mandelbrot_picture),
    case("pictures", "glow", [dict(heat=f32(n, m)) for n, m in ((0, 3), (7, 5))], glow),
    case("pictures", "newton", [dict(height=np.int64(n), width=np.int64(m), limit=np.int64(k)) for n, m, k in ((0, 3, 5), (7, 9, 30))], newton_picture),
    case("pictures", "shade", [dict(re=np.float64(0.3), im=np.float64(-0.7), limit=np.int64(k), channel=np.int64(c)) for k, c in ((0, 0), (30, 2), (30, 0))], shade),
    case("pictures", "far", [dict(x=np.float64(x), y=np.float64(y)) for x, y in ((1, 0), (2, 1))], far),
    case("pictures", "wave", [dict(height=np.int64(n), width=np.int64(m), steps=np.int64(k)) for n, m, k in ((3, 4, 0), (13, 17, 9))], wave_picture),
    case("pictures", "drop", [dict(i=np.int64(i), j=np.int64(3), at=np.int64(2), across=np.int64(1)) for i in (0, 2, 40)], drop),
    case("pictures", "heat", [dict(height=np.int64(n), width=np.int64(m), steps=np.int64(k)) for n, m, k in ((3, 9, 0), (13, 27, 9))], heat_picture),
    case("pictures", "life", [dict(height=np.int64(n), width=np.int64(m), generations=np.int64(k)) for n, m, k in ((3, 4, 0), (13, 17, 9))], life_picture),
    case("pictures", "lorenz", [dict(height=np.int64(n), width=np.int64(m), orbits=np.int64(o), steps=np.int64(k)) for n, m, o, k in ((5, 7, 1, 0), (13, 17, 5, 200))], lorenz_picture),
    case("pictures", "escape", [dict(re0=np.float32(0.3), im0=np.float32(0.5), limit=np.int64(k)) for k in (-1, 0, 200)], escape),
    case("pictures", "around", [dict(cell=rng.integers(0, 2, (5, 7), np.uint8), i=np.int64(4), j=np.int64(0))], lambda cell, i, j: neighbours_of(cell)[i, j]),
    case("pictures", "alive", [dict(cell=np.uint8(c), around=np.int32(k)) for c in (0, 1) for k in (1, 2, 3, 4)],
         lambda cell, around: np.uint8(around == 3 or around == 2 and cell == 1)),
    case("pictures", "velocity", [dict(a=f64(n, 3)) for n in (0, 1, 13)], velocity),
    case("newton", "roots", [dict(a=f64(n) * 100) for n in (0, 1, 37)], lambda a: np.array([root(v) if v > 0 else 0 for v in a], float)),
    case("newton", "kepler", [dict(mean=f64(n), e=np.float64(0.6)) for n in (0, 1, 37)], kepler,
         rounds(10000, "it ends within 1e-12 of the root; sin, cos", lambda mean, e: np.full(mean.shape, 1 / (1 - e)))),
    case("lorenz", "main", [dict(at=f64(n, 3), h=np.float64(0.01), steps=np.int64(k)) for n, k in ((0, 3), (1, 0), (13, 20))], lorenz),
    case("lorenz", "velocity", [dict(a=f64(n, 3)) for n in (0, 1, 13)], velocity),
    case("spmv", "rows", [sparse(n, k) for n, k in ((0, 1), (1, 3), (31, 5))], csr),
    case("spmv", "entries", [dict(row=rng.integers(0, n, e), col=rng.integers(0, 7, e), val=small(e), x=small(7), n=np.int64(n)) for n, e in ((1, 0), (3, 1), (31, 500))], coo),
    case("pagerank", "pagerank", [{"from": rng.integers(0, n, e), "to": rng.integers(0, n, e), "n": np.int64(n), "steps": np.int64(k)} for n, e, k in ((1, 0, 3), (5, 7, 0), (31, 100, 30))],
         pagerank, rounds(200, "sums by page, in each step", lambda n, **_: np.full(n, 1.0))),
    case("conjugate_gradient", "main", [dict(b=f64(n, n), steps=np.int64(k)) for n, k in ((1, 1), (2, 6), (7, 60))], poisson,
         rounds(1e5, "it has converged; NumPy eliminates", lambda b, steps: abs(poisson(b, steps)).max() * np.ones(b.shape))),
    case("conjugate_gradient", "laplacian", [dict(u=f64(n, n)) for n in (0, 1, 2, 31)], laplacian),
    case("viterbi", "viterbi", [dict(first=f32(k), move=f32(k, k), seen=f32(t, k)) for k, t in ((1, 1), (3, 1), (5, 40))], viterbi),
    case("smith_waterman", "score", [dict(a=ints(4, n), b=ints(4, m), gap=np.int32(2)) for n, m in ((0, 0), (0, 3), (1, 1), (31, 40))], smith_waterman),
    case("lstm", "lstm", [dict(a=f32(n, 4, d), u=f32(4, d, d) / 8) for n, d in ((0, 3), (1, 1), (9, 5))], lstm,
         rounds(lambda a, u: 16 * (len(a) + 1) * (u.shape[1] + 24), "products, sigmoids and tanhs in each step", lambda a, u: np.full(u.shape[2], 1 + abs(a).max(initial=0))), free=True),
    case("wave", "main", [dict(u0=f32(n, m), c=np.float32(0.25), steps=np.int64(k)) for n, m, k in ((1, 1, 3), (3, 3, 0), (17, 31, 20))], wave),
    case("wave", "step", [dict(u=f32(n, m), before=f32(n, m), c=np.float32(0.25)) for n, m in ((1, 1), (3, 3), (17, 31))], wave_step),
    case("nbody_steps", "main", [dict(at=f64(n, 3), speed=f64(n, 3), mass=abs(f64(n)), h=np.float64(0.01), steps=np.int64(k)) for n, k in ((1, 3), (2, 0), (13, 20))], bodies,
         rounds(2000, "sums, roots and quotients in each step", lambda at, speed, **_: abs(at) + abs(speed) + 1)),
    case("nbody_steps", "pull", [dict(x=f64(n, 3), mass=abs(f64(n))) for n in (1, 2, 31)], bodies_pull,
         rounds(lambda x, mass: lanes(len(mass)) + 20, "the sum; a dozen in each pull", lambda x, mass: 1000 * np.full(x.shape, mass.sum()))),
    case("game_of_life_1000", "main", [dict(cell=rng.integers(0, 10, s, np.uint8)) for s in ((1, 1), (3, 5), (13, 17))], generations),
    case("game_of_life_1000", "step", [dict(cell=rng.integers(0, 2, s, np.uint8)) for s in ((1, 1), (3, 5), (13, 17))], generation),
    case("game_of_life_1000", "around", [dict(cell=rng.integers(0, 2, (5, 7), np.uint8), i=np.int64(4), j=np.int64(0))], lambda cell, i, j: neighbours_of(cell)[i, j]),
    case("game_of_life_1000", "alive", [dict(cell=np.uint8(c), around=np.int32(k)) for c in (0, 1) for k in (1, 2, 3, 4)],
         lambda cell, around: np.uint8(around == 3 or around == 2 and cell == 1)),
    case("photo", "blur", [photo(), dict(image=rng.integers(0, 256, (1, 2, 3), np.uint8))], binomial),
    case("photo", "grey", [photo()], grey),
    case("photo", "outlines", [photo(), dict(image=rng.integers(0, 256, (3, 7, 3), np.uint8))], outlines),
    case("life", "alive", [dict(cell=rng.integers(0, 10, (5, 7), np.uint8))], lambda cell: cell > 5),
    case("life", "step", [dict(cell=rng.integers(0, 2, s, np.uint8)) for s in ((1, 1), (3, 5), (31, 17))], life),
    case("life", "main", [dict(cell=rng.integers(0, 10, (31, 17), np.uint8))], lambda cell: life((cell > 5).astype(np.uint8))),
    case("quantize", "quantize", [dict(x=f32(n, m)) for n, m in ((1, 1), (7, 31))] + [dict(x=np.zeros((2, 3), np.float32))], quantize),
    case("quantize", "dequantize", [dict(q=rng.integers(-128, 128, (7, 5), np.int8), scale=f32(7))], lambda q, scale: q * scale[:, None]),
    case("quantize", "product", [dict(x=f32(n, k), w=f32(m, k)) for n, k, m in ((1, 1, 1), (7, 131, 5))], quantized_product),
    case("quantize", "round_trip", [dict(x=f32(7, 31))], quantized),
    case("mixed_precision", "dense", [dict(x=small(n, k).astype(np.float16), w=small(k, m).astype(np.float16), bias=small(m)) for n, k, m in ((1, 1, 1), (7, 13, 5))],
         lambda x, w, bias: relu(x.astype(float) @ w + bias).astype(np.float16)),
    case("mixed_precision", "softmax", [dict(x=f32(101).astype(np.float16))], lambda x: softmax(x.astype(float)),
         ulp(0.51, "one rounding to f16; those in f32 are some thousand times finer")),
    case("mixed_precision", "softmax_rows", [dict(x=f32(7, 31).astype(np.float16))], lambda x: softmax(x.astype(float)), ulp(0.51, "the same")),
    case("mixed_precision", "product", [dict(x=small(n, k) * np.float32(1 + 2**-9), w=small(k, m)) for n, k, m in ((1, 1, 1), (7, 13, 5))],
         lambda x, w: bf16(x) @ w),
    case("mixed_precision", "attention", [{x: f32(*shape).astype(np.float16) for x, shape in dict(q=(s, d), k=(t, d), v=(t, e)).items()} for s, t, d, e in ((1, 1, 1, 1), (7, 13, 5, 3), (70, 130, 64, 16))],
         lambda q, k, v: attention(*(x.astype(float) for x in (q, k, v))),
         rounds(2**14, "weights with 11 bits", lambda q, k, v: attention(*(x.astype(float) for x in (q, k, abs(v)))))),
    case("mixed_precision", "through_bf16", [dict(x=f32(n)) for n in (0, 1, 1009)], bf16),
    case("dropout", "dropout",
         [dict(x=f32(n, m), rate=np.float32(r), seed=np.uint32(s)) for n, m, r, s in ((0, 3, 0.5, 0), (1, 1, 0, 1), (401, 509, 0.1, 7), (401, 509, 0.75, 2**32 - 1))],
         dropout),
    case("monte_carlo", "main", [dict(darts=np.int64(n), seed=np.uint32(s)) for n, s in ((1009, 0), (100_003, 1))], darts),
    case("digits", "main", [dict(**image, **weights, **digits_data("label"))], digits, free=True),
    case("train_digits", "logits", [dict(**image, **weights)], digits_logits,
         rounds(2 * 64 + 5, "two products", lambda x, **w: mlp(x / 16, **w) @ abs(w["w2"]) + abs(w["b2"])), free=True),
    case("train_digits", "loss", [dict(score=f32(n, c), label=ints(c, n)) for n, c in ((1, 1), (101, 10), (257, 131))],
         lambda score, label: cross_entropy(score, label),
         rounds(lambda score, **_: lanes(len(score)) + lanes(score.shape[1]) + 10, "two sums, exp, log, the differences",
                lambda score, label: 1 + 3 * abs(score).max())),
    case("train_digits", "trained",
         [dict(x=rng.integers(0, 17, (n, 5)).astype(np.uint8), label=ints(3, n), first1=f32(5, 4), first2=f32(4, 3), steps=np.int64(k),
               rate=np.float32(0.1), noise=np.float32(0), seed=np.int64(1)) for n, k in ((1, 1), (7, 0), (50, 5))], trained,
         near(2e-6, "a few hundred roundings of weights near 1"), free=True),
    case("train_digits", "main",
         [dict(**{name: data[:200] for name, data in digits_data("train_x", "train_label", "x", "label").items()},
               steps=np.int64(30), rate=np.float32(0.5), seed=np.int64(2))],
         train_digits, near(1.5, "NumPy draws other weights and other noise"), free=True),
    case("train_digits", "learnt", [dict(**digit_steps, steps=np.int64(0))], learnt, near(2, "NumPy draws other weights"), free=True),
    case("char_rnn", "rhyme", [{}], lambda: RHYME),
    *(case("char_rnn", name, [dict(text=rng.integers(0, 5, n), w=f32(5, 3), u=f32(3, 3), v=f32(3, 5)) for n in (2, 13, 53)], answer,
           near(2e-5, "a hundred roundings of scores of some units"), free=True)
      for name, answer in (("scores", char_scores), ("loss", char_loss))),
    case("char_rnn", "trained",
         [dict(text=rng.integers(0, 5, n), w0=0.3 * f32(5, 3), u0=0.3 * f32(3, 3), v0=0.3 * f32(3, 5), steps=np.int64(k), rate=np.float32(0.1))
          for n, k in ((2, 1), (13, 0), (53, 5))], char_trained, near(2e-5, "a few hundred roundings of weights near 1"), free=True),
    case("char_rnn", "first", [dict(seed=np.int64(1))], char_first, near(2.5, "NumPy draws other weights")),
    case("char_rnn", "main", [dict(steps=np.int64(100), rate=np.float32(0.5), seed=np.int64(1))], char_rnn,
         near(1.5, "NumPy draws other weights"), free=True),
    *(case("logistic", name, [dict(w=f64(d), x=f64(n, d), label=rng.random(n), **more) for n, d, more in shapes], answer,
           near(1e-12, "some hundred roundings of numbers near 1, through one solution of a system"), free=True)
      for name, shapes, answer in (
          ("loss", ((1, 1, {}), (101, 4, {})), logistic_loss),
          ("slope", ((1, 1, {}), (101, 4, {})), logistic_slope),
          ("bend", ((5, 2, dict(dw=f64(2))), (101, 4, dict(dw=f64(4)))), lambda w, x, label, dw: logistic_hessian(w, x) @ dw),
          ("solved", ((50, 2, dict(g=f64(2))), (101, 4, dict(g=f64(4)))),
           lambda w, x, label, g: np.linalg.solve(logistic_hessian(w, x), g)))),
    case("logistic", "fit", [dict(x=f64(n, 3), label=rng.random(n), steps=np.int64(6)) for n in (60, 201)], logistic_fit,
         near(1e-12, "the same"), free=True),
    case("logistic", "curve", [dict(x=f64(n, 3), label=rng.random(n), steps=np.int64(6)) for n in (60, 201)], logistic_curve,
         near(1e-12, "the same"), free=True),
    case("oscillator", "swing", [dict(k=np.array([2, 0.3]), count=np.int64(n), dt=np.float64(0.05)) for n in (0, 1, 200)],
         oscillator_swing, near(1e-12, "a few roundings a step of places that are 1 at most")),
    *(case("oscillator", name,
           [dict(k=np.array([1.5, 0.1]), seen=oscillator_swing(np.array([2, 0.3]), n, 0.05), dt=np.float64(0.05)) for n in (50, 200)],
           answer, near(1e-10, "some thousand roundings of numbers up to 100"))
      for name, answer in (("misfit", oscillator_misfit), ("slope", oscillator_slope), ("better", oscillator_better))),
    case("oscillator", "fit",
         [dict(seen=oscillator_swing(np.array([2, 0.3]), 200, 0.05), dt=np.float64(0.05), start=np.array([1.5, 0.1]), steps=np.int64(n))
          for n in (0, 3, 12)], oscillator_fit, near(1e-9, "the same, through solutions of systems")),
    case("oscillator", "found",
         [dict(k=np.array([2, 0.3]), count=np.int64(200), dt=np.float64(0.05), start=np.array([1.5, 0.1]), steps=np.int64(9))],
         lambda k, count, dt, start, steps: (k, 0), near(1e-12, "the method of Gauss and Newton has come there")),
    case("oscillator", "curve",
         [dict(k=np.array([2, 0.3]), count=np.int64(200), dt=np.float64(0.05), start=np.array([1.5, 0.1]), steps=np.int64(6))],
         oscillator_curve, near(1e-6, "logarithms of misfits down to 1e-5")),
    case("digits", "logits", [dict(**image, **weights)], digits_logits,
         rounds(2 * 64 + 5, "two products", lambda x, **w: mlp(x / 16, **w) @ abs(w["w2"]) + abs(w["b2"])), free=True),
    case("digits", "classify", [dict(**image, **weights)], lambda **a: digits_logits(**a).argmax(axis=1), free=True),
]

# ---- the libraries


def log_softmax(x):
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def softmax_rounds(x):
    return lanes(x.size) + 2 * np.ptp(x) + 8


def mlp_size(x, w1, b1, w2, b2):
    return (abs(x) @ abs(w1) + abs(b1)) @ abs(w2) + abs(b2)


def mlp_rounds(x, w1, **_):
    return x.shape[1] + w1.shape[1] + 16


def causal(q, k, v):
    scores = q @ k.T / math.sqrt(q.shape[1])
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf)) @ v


def entropy(x, label):
    return -np.mean([log_softmax(row)[c] for row, c in zip(x, label)])


def huber(x, y, delta):
    d = abs(x - y)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2)).mean()


def zscore(x, axis=None):
    return (x - x.mean(axis=axis)) / x.std(axis=axis)


def pairs(x, y):
    return x[:, None] - y


def histogram(x, low, high, k):
    return np.histogram(x, int(k), (low, high))[0]


def averages(x, alpha):
    y = np.array(x)
    for t in range(1, len(x)):
        y[t] = alpha * x[t] + (1 - alpha) * y[t - 1]
    return y


def autocorrelation(x, k):
    c = x - x.mean()
    return (c[k:] * c[: len(x) - k]).sum() / (c * c).sum()


def moments(x, *_, **__):
    """Roundings of a mean of products of differences from a mean."""
    return 4 * lanes(x.shape[0]) + 16


def windows_of(reduce):
    return lambda x, k: reduce(np.lib.stride_tricks.sliding_window_view(x, int(k)), axis=1)


three = [dict(x=f32(n)) for n in (1, 17, 1009)]
some = [dict(x=f32(n)) for n in (2, 17, 1009)]
two = [dict(x=f32(n), y=f32(n)) for n in (1, 17, 1009)]
many = [dict(x=f32(n), y=f32(n)) for n in (2, 17, 1009)]
layers = [dict(x=f32(n, k), w1=f32(k, h), b1=f32(h), w2=f32(h, m), b2=f32(m)) for n, k, h, m in ((1, 1, 1, 1), (5, 13, 31, 7))]
tables = [dict(x=f32(n, d), y=f32(m, d)) for n, m, d in ((1, 1, 1), (7, 31, 5))]
queries = [dict(q=f32(n, d), k=f32(n, d), v=f32(n, e)) for n, d, e in ((1, 1, 1), (17, 8, 5))]
labelled = [dict(x=f32(n, c), label=ints(c, n).astype(np.int64)) for n, c in ((1, 1), (101, 10))]
one = lambda *_, **__: 1.0
greatest = lambda x, **_: 1 + 3 * abs(x).max()
scale_of = lambda x, **_: (1 + abs(x).max()) ** 4

LIBRARIES = [
    case("nn", "softmax", three, softmax, rounds(softmax_rounds, "the sum; exp of differences; division")),
    case("nn", "log_softmax", three, log_softmax, rounds(lambda x: lanes(x.size) + 8, "the sum, exp and log; differences", lambda x: 3 * np.ptp(x) + 8)),
    case("nn", "log_sum_exp", three, lambda x: x.max() + np.log(np.exp(x - x.max()).sum()),
         rounds(lambda x: lanes(x.size) + 8, "the sum, exp and log; differences", lambda x: 3 * np.ptp(x) + abs(x).max() + 8)),
    case("nn", "layer_norm", [dict(x=f32(n), scale=f32(n), shift=f32(n), eps=np.float32(1e-5)) for n in (2, 127, 1009)],
         lambda x, scale, shift, eps: (x - x.mean()) / np.sqrt(x.var() + eps) * scale + shift,
         rounds(lambda x, **_: 3 * lanes(x.size) + 12, "two means, the first twice", lambda x, scale, shift, eps: normalised_size(x=x, gain=scale, bias=shift, axis=-1))),
    case("nn", "rms_norm", [dict(x=f32(n), scale=f32(n), eps=np.float32(1e-5)) for n in (1, 127, 1009)],
         lambda x, scale, eps: x / np.sqrt((x * x).mean() + eps) * scale, rounds(lambda x, **_: lanes(x.size) + 6, "a mean, a root")),
    case("nn", "batch_norm", [dict(x=f32(n, m), average=f32(m), variance=unit(m), scale=f32(m), shift=f32(m), eps=np.float32(1e-5)) for n, m in ((0, 3), (7, 5))],
         lambda x, average, variance, scale, shift, eps: (x - average) / np.sqrt(variance + eps) * scale + shift,
         rounds(8, "each operation", lambda x, average, variance, scale, shift, eps: (abs(x) + abs(average)) / np.sqrt(variance + eps) * abs(scale) + abs(shift))),
    case("nn", "linear", [dict(x=small(n, k), weight=small(k, m), bias=small(m)) for n, k, m in ((1, 1, 1), (5, 13, 7))],
         lambda x, weight, bias: x @ weight + bias, free=True),
    case("nn", "relu_mlp", layers, lambda x, w1, b1, w2, b2: relu(x @ w1 + b1) @ w2 + b2, rounds(mlp_rounds, "two products", mlp_size), free=True),
    case("nn", "gelu_mlp", layers, lambda x, w1, b1, w2, b2: gelu(x @ w1 + b1) @ w2 + b2, rounds(mlp_rounds, "two products, gelu", mlp_size), free=True),
    case("nn", "attention", [dict(q=f32(n, d), k=f32(m, d), v=f32(m, e)) for n, m, d, e in ((1, 1, 1, 1), (17, 31, 8, 5))], attention,
         rounds(attention_rounds, "scores, through exp; the sum; the product", lambda q, k, v: attention(q, k, abs(v))), free=True),
    case("nn", "causal_attention", queries, causal,
         rounds(attention_rounds, "scores, through exp; the sum; the product", lambda q, k, v: causal(q, k, abs(v))), free=True),
    case("nn", "cross_entropy", labelled, entropy,
         rounds(lambda x, label: lanes(len(label)) + lanes(x.shape[1]) + 10, "two sums, exp, log, the differences", greatest)),
    case("nn", "binary_cross_entropy", [dict(x=f32(n), target=unit(n)) for n in (1, 17, 1009)],
         lambda x, target: (np.logaddexp(0, x) - x * target).mean(), rounds(lambda x, **_: lanes(x.size) + 8, "the mean; exp, log", greatest)),
    case("nn", "accuracy", labelled, lambda x, label: (x.argmax(axis=1) == label).mean(), rounds(1, "a division")),
    case("nn", "mse", two, lambda x, y: ((x - y) ** 2).mean(), rounds(lambda x, y: lanes(x.size) + 4, "the mean")),
    case("nn", "mae", two, lambda x, y: abs(x - y).mean(), rounds(lambda x, y: lanes(x.size) + 4, "the mean")),
    case("nn", "huber", [dict(**a, delta=np.float32(0.75)) for a in two], huber, rounds(lambda x, **_: lanes(x.size) + 8, "the mean", lambda x, y, delta: abs(x - y).mean())),
    case("nn", "kl_divergence", [dict(p=unit(n), q=unit(n)) for n in (1, 17, 1009)] + [dict(p=np.zeros(3, np.float32), q=unit(3))],
         lambda p, q: np.where(p > 0, p * np.log(p / q), 0).sum(),
         rounds(lambda p, q: lanes(p.size) + 6, "the sum; log of a quotient", lambda p, q: (p * abs(np.log(np.maximum(p, 1e-9) / q)) + p).sum() + 1)),
    case("nn", "one_hot", [dict(label=ints(5, n).astype(np.int64), k=np.int64(5)) for n in (0, 1, 17)], lambda label, k: np.eye(k)[label]),
    case("nn", "embedding", [dict(table=f32(11, 3), token=ints(11, n).astype(np.int64)) for n in (0, 1, 17)], lambda table, token: table[token]),
    case("stats", "zscore", some, zscore, rounds(moments, "two means", lambda x: 1 + abs(zscore(x)).max() * (1 + abs(x.mean()) / x.std()))),
    case("stats", "rescale", some, lambda x: (x - x.min()) / np.ptp(x), rounds(4, "two differences, a division", one)),
    case("stats", "sample_variance", some, lambda x: x.var(ddof=1), rounds(moments, "two means", scale_of)),
    case("stats", "standard_error", some, lambda x: np.sqrt(x.var(ddof=1) / x.size), rounds(moments, "two means", scale_of)),
    case("stats", "weighted_mean", [dict(x=unit(n), w=unit(n)) for n in (1, 17, 1009)], lambda x, w: np.average(x, weights=w),
         rounds(lambda x, w: 2 * lanes(x.size) + 3, "two sums")),
    case("stats", "geometric_mean", [dict(x=unit(n)) for n in (1, 17, 1009)], lambda x: np.exp(np.log(x).mean()),
         rounds(lambda x: (lanes(x.size) + 4) * (1 + abs(np.log(x)).max()) + 4, "the mean, through exp")),
    case("stats", "harmonic_mean", [dict(x=unit(n)) for n in (1, 17, 1009)], lambda x: 1 / (1 / x).mean(), rounds(lambda x: lanes(x.size) + 4, "the mean")),
    case("stats", "skewness", some[1:], lambda x: (zscore(x) ** 3).mean(), rounds(moments, "three means", lambda x: 4 * (abs(zscore(x)) ** 3).mean() + 4)),
    case("stats", "kurtosis", some[1:], lambda x: (zscore(x) ** 4).mean() - 3, rounds(moments, "three means", lambda x: 4 * (zscore(x) ** 4).mean() + 8)),
    case("stats", "covariance", many, lambda x, y: np.cov(x, y, ddof=0)[0, 1], rounds(moments, "three means", lambda x, y: (1 + abs(x).max()) * (1 + abs(y).max()))),
    case("stats", "covariance_matrix", [dict(x=f32(n, m)) for n, m in ((1, 2), (101, 3))], lambda x: np.cov(x, rowvar=False, ddof=0),
         rounds(lambda x: 2 * blocks(len(x)) + len(x) + 16, "means of columns, a product", lambda x: (1 + abs(x).max()) ** 2), free=True),
    case("stats", "correlation", many, lambda x, y: np.corrcoef(x, y)[0, 1],
         rounds(moments, "five means", lambda x, y: (1 + abs(x).max()) * (1 + abs(y).max()) / (x.std() * y.std()))),
    case("stats", "correlation_matrix", [dict(x=f32(101, 3))], lambda x: np.corrcoef(x, rowvar=False),
         rounds(lambda x: 4 * blocks(len(x)) + len(x) + 16, "means of columns, a product", lambda x: (1 + abs(x).max()) ** 2), free=True),
    case("stats", "fit_line", many, lambda x, y: tuple(np.polyfit(x, y, 1)),
         rounds(moments, "four means", lambda x, y: (1 + abs(x).max()) ** 2 * (1 + abs(y).max()) / x.var())),
    case("stats", "histogram", [dict(x=small(n), low=np.float32(-4), high=np.float32(4), k=np.int64(k)) for n, k in ((0, 3), (1, 1), (1009, 8))], histogram),
    case("stats", "distances", tables, lambda x, y: np.sqrt((pairs(x, y) ** 2).sum(axis=-1)), rounds(lambda x, y: lanes(x.shape[1]) + 4, "the sum, a root")),
    case("stats", "manhattan_distances", tables, lambda x, y: abs(pairs(x, y)).sum(axis=-1), rounds(lambda x, y: lanes(x.shape[1]) + 2, "the sum")),
    case("stats", "cosine_similarity", two, lambda x, y: x @ y / np.sqrt((x @ x) * (y @ y)),
         rounds(lambda x, y: 2 * lanes(x.size) + 6, "three sums", lambda x, y: abs(x) @ abs(y) / np.sqrt((x @ x) * (y @ y)))),
    case("stats", "nearest", [dict(x=small(n, d), y=small(m, d)) for n, m, d in ((1, 1, 1), (7, 31, 5))], lambda x, y: (pairs(x, y) ** 2).sum(axis=-1).argmin(axis=1)),
    case("stats", "moving_average", [dict(x=abs(f32(n)), k=np.int64(k)) for n, k in ((1, 1), (101, 7))], windows_of(np.mean), rounds(lambda x, k: k + 1, "the sum")),
    case("stats", "moving_max", [dict(x=f32(n), k=np.int64(k)) for n, k in ((1, 1), (101, 7))], windows_of(np.max)),
    case("stats", "moving_min", [dict(x=f32(n), k=np.int64(k)) for n, k in ((1, 1), (101, 7))], windows_of(np.min)),
    case("stats", "exponential_average", [dict(x=f32(n), alpha=np.float32(0.25)) for n in (0, 1, 17, 101)], averages,
         rounds(16, "each step; earlier errors shrink", lambda x, alpha: abs(x).max(initial=0))),
    case("stats", "autocorrelation", [dict(x=f32(n), k=np.int64(k)) for n, k in ((2, 1), (101, 7), (101, 0))], autocorrelation, rounds(moments, "three sums", one)),
]

# ---- running them


def path_of(file):
    library = ROOT / "compiler/src/library" / f"{file}.fl"
    return library if library.exists() else HERE / f"{file}.fl"


def fuseloop(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done


def signatures(file):
    """Result names by function."""
    found = {}
    for line in fuseloop("check", path_of(file)).stdout.splitlines():
        if line.startswith("fn "):
            results = line.rsplit(" -> ", 1)[1]
            names = [part.split(":")[0] for part in results.strip("()").split(", ") if ":" in part]
            found[line[3:].split("(")[0]] = names or ["out"]
    return found


def run(folder, file, function, arguments, results, device):
    """The results' files, and the milliseconds from text to callable."""
    command = ["run", path_of(file), "--fn", function, "--device", device, "--time"]
    for name, value in arguments.items():
        np.save(folder / f"{name}.npy", value)
        command.append(f"{name}={folder / name}.npy")
    for name in results:
        command += ["-o", f"{name}={folder / name}.{device}.npy"]
    times = dict(line.rsplit(maxsplit=2)[:2] for line in fuseloop(*command).stderr.splitlines())
    return [folder / f"{name}.{device}.npy" for name in results], float(times["text to callable"])


def wide(value):
    return value.astype(np.float64) if value.dtype == np.float32 else value


def compare(results, expected, tolerance, arguments):
    """The worst error as a share of what is allowed."""
    worst = 0.0
    for result, value in zip(results, expected, strict=True):
        assert result.shape == value.shape, f"shape {result.shape}, NumPy has {value.shape}"
    limits = [0] * len(results) if tolerance is EXACT else tolerance.allowed(results, expected, arguments)
    for result, value, limit in zip(results, expected, limits):
        equal = (result == value) | ((result != result) & (value != value))
        if result.dtype.kind != "f" or tolerance is EXACT:
            assert equal.all(), f"{result}\nNumPy has\n{value}"
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(equal, 0, abs(result - value) / limit)
        assert (share <= 1).all(), f"{np.nanmax(share):.2f} times what is allowed ({tolerance.label}, {tolerance.why})"
        worst = max(worst, share.max(initial=0))
    return worst


def check(file, function, inputs, reference, tolerance, free):
    """The worst error and the least time, or an AssertionError."""
    worst, fastest = 0.0, math.inf
    results = signatures(file)
    assert function in results, f"no function {function}"
    for arguments in inputs:
        with tempfile.TemporaryDirectory() as name:
            one, time = run(Path(name), file, function, arguments, results[function], "cpu")
            other, _ = run(Path(name), file, function, arguments, results[function], "interp")
            fastest = min(fastest, time)
            if not free:
                assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other)), "the devices differ"
            if tolerance is not EXACT:
                arguments = {k: wide(v) for k, v in arguments.items()}
            with np.errstate(all="ignore"):
                expected = reference(**arguments)
            expected = [np.asarray(v) for v in (expected if isinstance(expected, tuple) else (expected,))]
            for paths in one, other:
                worst = max(worst, compare([np.load(path) for path in paths], expected, tolerance, arguments))
    return worst, fastest


def main():
    failures, slowest = 0, (0.0, "")
    print(f"{'example':16} {'function':16} {'sizes':>5}  {'allowed':>8} {'of it':>6}  why")
    every = CASES + LIBRARIES
    cases = [row for row in every if options.only in (None, row[0])]
    for file, function, inputs, reference, tolerance, free in cases:
        try:
            worst, time = check(file, function, inputs, reference, tolerance, free)
            slowest = max(slowest, (time, f"{file}.{function}"))
            why = tolerance.why + (" (any order)" if free else "")
            print(f"{file:16} {function:16} {len(inputs):5}  {tolerance.label:>8} {worst:6.2f}  {why}".rstrip())
        except AssertionError as e:
            failures += 1
            print(f"{file:16} {function:16} FAILED: {e}")
    rows = {(file, function) for file, function, *_ in every}
    files = sorted(path.stem for path in HERE.glob("*.fl")) + ["nn", "stats"]
    for file in files if options.only is None else []:
        try:
            missing = [function for function in signatures(file) if (file, function) not in rows]
            assert not missing, f"without a row here: {', '.join(missing)}"
        except AssertionError as e:
            failures += 1
            print(f"{file}: {e}")
    print(f"{len(cases)} rows, {failures} failures, at most {slowest[0]:.2f} ms ({slowest[1]}) from text to callable")
    sys.exit(failures != 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="FILE", help="the rows of one example or library")
    parser.add_argument("binary", nargs="?", default=ROOT / "target/release/fuseloop")
    options = parser.parse_args()
    BINARY = options.binary
    main()
