"""The workloads as loops for Numba, by hand: parallel, with fast-math, into memory that is there.

Numba does arithmetic of an f32 and a literal in f64, so constants are named here.
"""

import math

import numpy as np
from numba import njit, prange

f32 = np.float32
ZERO, ONE, TWO, FOUR, HALF, FIFTH, THIRD = f32(0), f32(1), f32(2), f32(4), f32(0.5), f32(0.2), f32(1 / 3)
SMALL, EPSILON, SOFTENING = f32(1e-3), f32(1e-5), f32(0.01)
TENTH, NINE_TENTHS, QUARTER = f32(0.1), f32(0.9), f32(0.25)
GELU, CUBIC, ROOT_HALF = f32(math.sqrt(2 / math.pi)), f32(0.044715), f32(math.sqrt(0.5))
LAT, LON, COS_LAT, DIAMETER = f32(0.70984286), f32(1.2389197), f32(math.cos(0.70984286)), f32(7918)
RATE, VOLATILITY, DRIFT = f32(0.02), f32(0.3), f32(0.02 + 0.3**2 / 2)

#: The loops by workload. Results are written to the last parameters.
LOOPS = {}


def loops(f, parallel=True):
    LOOPS[f.__name__] = njit(f, parallel=parallel, fastmath=True, error_model="numpy", cache=True)
    return f


@njit(fastmath=True)
def sigmoid(x):
    return ONE / (ONE + math.exp(-x))


@loops
def tiny(x, out):
    for i in prange(x.size):
        out[i] = sigmoid(max((x[i] + ONE) * TWO, ZERO) - HALF)


@loops
def relu_bias(x, y, out):
    for i in prange(x.size):
        out[i] = max(x[i] * TWO + y[i], ZERO)


@loops
def relu_bias_row(x, b, out):
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = max(x[i, j] * TWO + b[j], ZERO)


@loops
def chain5(x, out):
    for i in prange(x.size):
        out[i] = sigmoid(max((x[i] + ONE) * TWO, ZERO) - HALF)


@loops
def chain_xy(x, y, out):
    for i in prange(x.size):
        out[i] = sigmoid(max((x[i] + y[i]) * TWO, ZERO) - ONE)


@loops
def chain_sq(x, out):
    for i in prange(x.size):
        r = max((x[i] + ONE) * TWO, ZERO)
        out[i] = r * r


@loops
def sig_tanh(x, out):
    for i in prange(x.size):
        out[i] = sigmoid(x[i]) * math.tanh(x[i] + ONE)


@loops
def log_relu(x, y, out):
    for i in prange(x.size):
        out[i] = math.log(max(x[i] + y[i], ZERO) + SMALL)


@loops
def gelu_tanh(x, out):
    for i in prange(x.size):
        v = x[i]
        out[i] = HALF * v * (ONE + math.tanh(GELU * (v + CUBIC * v * v * v)))


@loops
def gelu_erf(x, out):
    for i in prange(x.size):
        out[i] = HALF * x[i] * (ONE + math.erf(x[i] * ROOT_HALF))


@loops
def swiglu(x, y, out):
    for i in prange(x.size):
        out[i] = x[i] * sigmoid(x[i]) * y[i]


@loops
def relu_plus_sig(x, y, out):
    for i in prange(x.size):
        out[i] = max(x[i], ZERO) + sigmoid(y[i])


@loops
def pw_xwb(x, w, b, out):
    for i in prange(x.size):
        out[i] = max(x[i] * w[i] + b[i], ZERO) * HALF


@loops
def sincos(x, s, c):
    for i in prange(x.size):
        s[i] = math.sin(x[i])
        c[i] = math.cos(x[i])


@loops
def mse(x, y, out):
    total = ZERO
    for i in prange(x.size):
        d = x[i] - y[i]
        total += d * d
    out[()] = total / x.size


@loops
def dot(x, y, out):
    total = ZERO
    for i in prange(x.size):
        total += x[i] * y[i]
    out[()] = total


@loops
def l2norm(x, out):
    total = ZERO
    for i in prange(x.size):
        total += x[i] * x[i]
    out[()] = math.sqrt(total)


@loops
def x_over_sum(x, out):
    total = ZERO
    for i in prange(x.size):
        total += x[i]
    factor = ONE / total
    for i in prange(x.size):
        out[i] = x[i] * factor


@loops
def variance(x, out):
    total = ZERO
    for i in prange(x.size):
        total += x[i]
    mean = f32(total / x.size)
    squares = ZERO
    for i in prange(x.size):
        squares += (x[i] - mean) * (x[i] - mean)
    out[()] = squares / x.size


@loops
def multi_reduce(x, total, squares, lo, hi):
    t, s, a, b = ZERO, ZERO, x[0], x[0]
    for i in prange(x.size):
        t += x[i]
        s += x[i] * x[i]
        a = min(a, x[i])
        b = max(b, x[i])
    total[()], squares[()], lo[()], hi[()] = t, s, a, b


def cumsum(x, out):
    total = ZERO
    for i in range(x.size):
        total += x[i]
        out[i] = total


loops(cumsum, parallel=False)


@loops
def logsumexp(x, out):
    for i in prange(x.shape[0]):
        hi = x[i, 0]
        for j in range(x.shape[1]):
            hi = max(hi, x[i, j])
        total = ZERO
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - hi)
        out[i] = math.log(total) + hi


@loops
def softmax(x, out):
    for i in prange(x.shape[0]):
        hi = x[i, 0]
        for j in range(x.shape[1]):
            hi = max(hi, x[i, j])
        total = ZERO
        for j in range(x.shape[1]):
            e = math.exp(x[i, j] - hi)
            out[i, j] = e
            total += e
        factor = ONE / total
        for j in range(x.shape[1]):
            out[i, j] *= factor


@loops
def layernorm(x, g, b, out):
    n = f32(x.shape[1])
    for i in prange(x.shape[0]):
        total = ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        squares = ZERO
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        factor = ONE / math.sqrt(squares / n + EPSILON)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * factor * g[j] + b[j]


@loops
def rmsnorm(x, g, out):
    n = f32(x.shape[1])
    for i in prange(x.shape[0]):
        squares = ZERO
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        factor = ONE / math.sqrt(squares / n + EPSILON)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * factor * g[j]


@loops
def cross_entropy(x, label, out):
    loss = ZERO
    for i in prange(x.shape[0]):
        hi = x[i, 0]
        for j in range(x.shape[1]):
            hi = max(hi, x[i, j])
        total = ZERO
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - hi)
        loss += math.log(total) + hi - x[i, label[i]]
    out[()] = loss / x.shape[0]


@loops
def argmax(x, out):
    for i in prange(x.shape[0]):
        best, place = x[i, 0], 0
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best, place = x[i, j], j
        out[i] = place


@loops
def colsum_xy(x, y, out):
    block = 64
    for k in prange((x.shape[1] + block - 1) // block):
        lo, hi = k * block, min(k * block + block, x.shape[1])
        for j in range(lo, hi):
            out[j] = ZERO
        for i in range(x.shape[0]):
            for j in range(lo, hi):
                out[j] += x[i, j] * y[i, j]


@loops
def colsum(x, out):
    block = 64
    for k in prange((x.shape[1] + block - 1) // block):
        lo, hi = k * block, min(k * block + block, x.shape[1])
        for j in range(lo, hi):
            out[j] = ZERO
        for i in range(x.shape[0]):
            for j in range(lo, hi):
                out[j] += x[i, j]


@loops
def colsum_weighted(w, x, out):
    block = 64
    for k in prange((x.shape[1] + block - 1) // block):
        lo, hi = k * block, min(k * block + block, x.shape[1])
        for j in range(lo, hi):
            out[j] = ZERO
        for i in range(x.shape[0]):
            for j in range(lo, hi):
                out[j] += w[i] * x[i, j]


LOOPS |= {f"{name}_f64": LOOPS[name] for name in ("colsum", "colsum_weighted")}


@loops
def black_scholes(spot, strike, years, call, put):
    for i in prange(spot.size):
        spread = VOLATILITY * math.sqrt(years[i])
        d1 = (math.log(spot[i] / strike[i]) + DRIFT * years[i]) / spread
        n1 = HALF + HALF * math.erf(d1 * ROOT_HALF)
        n2 = HALF + HALF * math.erf((d1 - spread) * ROOT_HALF)
        discounted = strike[i] * math.exp(-RATE * years[i])
        c = spot[i] * n1 - discounted * n2
        call[i] = c
        put[i] = c - spot[i] + discounted


@loops
def haversine(lat, lon, out):
    for i in prange(lat.size):
        s, t = math.sin((lat[i] - LAT) * HALF), math.sin((lon[i] - LON) * HALF)
        out[i] = DIAMETER * math.asin(math.sqrt(s * s + COS_LAT * math.cos(lat[i]) * t * t))


@loops
def mandelbrot(cr, ci, out):
    for i in prange(cr.size):
        re, im, steps = ZERO, ZERO, ZERO
        for _ in range(20):
            inside = re * re + im * im <= FOUR
            steps += ONE if inside else ZERO
            next_re = re * re - im * im + cr[i]
            im = TWO * re * im + ci[i] if inside else im
            re = next_re if inside else re
        out[i] = steps


@loops
def nbody(x, y, z, m, ax, ay, az):
    for i in prange(x.size):
        sx, sy, sz = ZERO, ZERO, ZERO
        for j in range(x.size):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            r2 = dx * dx + dy * dy + dz * dz + SOFTENING
            pull = m[j] / (r2 * math.sqrt(r2))
            sx += dx * pull
            sy += dy * pull
            sz += dz * pull
        ax[i], ay[i], az[i] = sx, sy, sz


@loops
def stencil5(x, out):
    for i in prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i - 1, j - 1] = FIFTH * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@loops
def blur3x3(x, out):
    for i in prange(x.shape[0] - 2):
        for j in range(x.shape[1] - 2):
            a = (x[i, j] + x[i, j + 1] + x[i, j + 2]) * THIRD
            b = (x[i + 1, j] + x[i + 1, j + 1] + x[i + 1, j + 2]) * THIRD
            c = (x[i + 2, j] + x[i + 2, j + 1] + x[i + 2, j + 2]) * THIRD
            out[i, j] = (a + b + c) * THIRD


@loops
def strided(x, y, out):
    for i in prange(y.size):
        out[i] = x[2 * i] + y[i]


@loops
def gather(x, index, y, out):
    for i in prange(y.size):
        out[i] = x[index[i]] + y[i]


@loops
def transpose_add(x, y, out):
    block = 32
    n, m = y.shape
    for k in prange((n + block - 1) // block):
        for l in range((m + block - 1) // block):
            for i in range(k * block, min(n, k * block + block)):
                for j in range(l * block, min(m, l * block + block)):
                    out[i, j] = x[j, i] + y[i, j]


@loops
def concat(x, y, out):
    n = x.size
    for i in prange(n):
        out[i] = x[i] * TWO
    for i in prange(y.size):
        out[n + i] = y[i] + ONE


def sum_by_key(x, key, out):
    out[:] = ZERO
    for i in range(x.size):
        out[key[i]] += x[i]


def count_by_key(key, out):
    out[:] = 0
    for i in range(key.size):
        out[key[i]] += 1


def histogram_2d(x, y, out):
    out[:] = 0
    for i in range(x.size):
        out[x[i], y[i]] += 1


# Threads would add to the same elements.
for f in (sum_by_key, count_by_key, histogram_2d):
    loops(f, parallel=False)
for keys in ("16", "1000", "1m"):
    LOOPS[f"count_{keys}_keys"] = LOOPS["count_by_key"]
    for order in ("", "_equal", "_sorted"):
        LOOPS[f"sum_{keys}_keys{order}"] = LOOPS["sum_by_key"]


def escape(re, im, out):
    for i in prange(re.size):
        x, y, steps = re[i], im[i], 0
        while steps < 1000 and x * x + y * y < FOUR:
            x, y = x * x - y * y + re[i], TWO * x * y + im[i]
            steps += 1
        out[i] = steps


# Without fast-math: on the border, a rounding decides.
LOOPS["escape"] = njit(escape, parallel=True, error_model="numpy", cache=True)


def ema(x, out):
    y = x[0]
    for t in range(x.size):
        y = TENTH * x[t] + NINE_TENTHS * y
        out[t] = y


loops(ema, parallel=False)


@loops
def ema_rows(x, out):
    for i in prange(x.shape[0]):
        y = x[i, 0]
        for t in range(x.shape[1]):
            y = TENTH * x[i, t] + NINE_TENTHS * y
            out[i, t] = y


def edit_distance(a, b, out):
    above, here = np.arange(b.size + 1).astype(np.int32), np.empty(b.size + 1, np.int32)
    for i in range(a.size):
        here[0] = i + 1
        for j in range(b.size):
            other = above[j] + (0 if a[i] == b[j] else 1)
            here[j + 1] = min(min(above[j + 1], here[j]) + 1, other)
        above, here = here, above
    out[()] = above[b.size]


loops(edit_distance, parallel=False)


@loops
def heat(u0, out):
    old, new = u0.copy(), u0.copy()
    for _ in range(100):
        for i in prange(1, old.shape[0] - 1):
            for j in range(1, old.shape[1] - 1):
                new[i, j] = QUARTER * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])
        old, new = new, old
    out[:] = old


@loops
def heat_1d(u0, out):
    old, new = u0.copy(), u0.copy()
    for _ in range(100):
        for i in prange(1, old.size - 1):
            new[i] = HALF * old[i] + QUARTER * (old[i - 1] + old[i + 1])
        old, new = new, old
    out[:] = old


def short_steps(u0, out):
    old, new = u0.copy(), u0.copy()
    for _ in range(1000):
        for i in range(1, old.size - 1):
            new[i] = HALF * old[i] + QUARTER * (old[i - 1] + old[i + 1])
        old, new = new, old
    out[:] = old


loops(short_steps, parallel=False)


@loops
def kmeans(x, first, out):
    n, d = x.shape
    k = first.shape[0]
    parts = 64
    out[:] = first
    for _ in range(20):
        totals = np.zeros((parts, k, d), np.float32)
        counts = np.zeros((parts, k), np.int64)
        for part in prange(parts):
            for i in range(n * part // parts, n * (part + 1) // parts):
                nearest, least = 0, f32(np.inf)
                for j in range(k):
                    distance = ZERO
                    for p in range(d):
                        one = x[i, p] - out[j, p]
                        distance += one * one
                    if distance < least:
                        nearest, least = j, distance
                counts[part, nearest] += 1
                for p in range(d):
                    totals[part, nearest, p] += x[i, p]
        for j in range(k):
            count = counts[:, j].sum()
            if count > 0:
                for p in range(d):
                    out[j, p] = totals[:, j, p].sum() / f32(count)


@loops
def conjugate_gradient(b, out):
    n, m = b.shape
    r, p, ap = b.copy(), b.copy(), np.empty_like(b)
    out[:] = ZERO
    rr = ZERO
    for i in prange(n):
        for j in range(m):
            rr += b[i, j] * b[i, j]
    for _ in range(100):
        product = ZERO
        for i in prange(n):
            for j in range(m):
                y = FOUR * p[i, j]
                y -= p[i - 1, j] if i > 0 else ZERO
                y -= p[i + 1, j] if i + 1 < n else ZERO
                y -= p[i, j - 1] if j > 0 else ZERO
                y -= p[i, j + 1] if j + 1 < m else ZERO
                ap[i, j] = y
                product += p[i, j] * y
        by, rest = rr / product, ZERO
        for i in prange(n):
            for j in range(m):
                out[i, j] += by * p[i, j]
                r[i, j] -= by * ap[i, j]
                rest += r[i, j] * r[i, j]
        factor = rest / rr
        for i in prange(n):
            for j in range(m):
                p[i, j] = r[i, j] + factor * p[i, j]
        rr = rest


@loops
def spmv(ptr, col, val, x, out):
    for r in prange(ptr.size - 1):
        total = ZERO
        for k in range(ptr[r], ptr[r + 1]):
            total += val[k] * x[col[k]]
        out[r] = total
