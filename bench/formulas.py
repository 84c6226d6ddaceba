"""The workloads over any of NumPy, JAX and torch: `xp` gives what these spell differently.

Written as their users would. Where a library has the whole thing as one function, its Namespace overrides the formula.
"""

import math

LAT, LON = 0.70984286, 1.2389197
GELU = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
RATE, VOLATILITY = 0.02, 0.3


def tiny(xp, x):
    return chain5(xp, x)


def relu_bias(xp, x, y):
    return xp.relu(x * 2 + y)


relu_bias_row = relu_bias


def chain5(xp, x):
    return xp.sigmoid(xp.relu((x + 1) * 2) - 0.5)


def chain_xy(xp, x, y):
    return xp.sigmoid(xp.relu((x + y) * 2) - 1)


def chain_sq(xp, x):
    return xp.relu((x + 1) * 2) ** 2


def sig_tanh(xp, x):
    return xp.sigmoid(x) * xp.tanh(x + 1)


def log_relu(xp, x, y):
    return xp.log(xp.relu(x + y) + 1e-3)


def gelu_tanh(xp, x):
    return 0.5 * x * (1 + xp.tanh(GELU * (x + 0.044715 * x * x * x)))


def gelu_erf(xp, x):
    return 0.5 * x * (1 + xp.erf(x * ROOT_HALF))


def swiglu(xp, x, y):
    return x * xp.sigmoid(x) * y


def relu_plus_sig(xp, x, y):
    return xp.relu(x) + xp.sigmoid(y)


def pw_xwb(xp, x, w, b):
    return xp.relu(x * w + b) * 0.5


def sincos(xp, x):
    return xp.sin(x), xp.cos(x)


def mse(xp, x, y):
    d = x - y
    return (d * d).mean()


def dot(xp, x, y):
    return (x * y).sum()


def l2norm(xp, x):
    return xp.sqrt((x * x).sum())


def x_over_sum(xp, x):
    return x / x.sum()


def variance(xp, x):
    d = x - x.mean()
    return (d * d).mean()


def multi_reduce(xp, x):
    return x.sum(), (x * x).sum(), x.min(), x.max()


def cumsum(xp, x):
    return xp.cumsum(x)


def logsumexp(xp, x):
    hi = xp.max(x)
    return (xp.log(xp.sum(xp.exp(x - hi))) + hi)[:, 0]


def softmax(xp, x):
    e = xp.exp(x - xp.max(x))
    return e / xp.sum(e)


def layernorm(xp, x, g, b):
    d = x - xp.mean(x)
    return d * xp.rsqrt(xp.mean(d * d) + 1e-5) * g + b


def rmsnorm(xp, x, g):
    return x * xp.rsqrt(xp.mean(x * x) + 1e-5) * g


def cross_entropy(xp, x, label):
    return (xp.logsumexp(x) - xp.pick(x, label)).mean()


def argmax(xp, x):
    return x.argmax(1)


def colsum_xy(xp, x, y):
    return (x * y).sum(0)


def colsum(xp, x):
    return x.sum(0)


def colsum_weighted(xp, w, x):
    return w @ x


colsum_f64, colsum_weighted_f64 = colsum, colsum_weighted


def sums(xp, x):
    return x.sum(1), x.sum(0)


def black_scholes(xp, spot, strike, years):
    def cdf(z):
        return 0.5 + 0.5 * xp.erf(z * ROOT_HALF)

    spread = VOLATILITY * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (RATE + VOLATILITY**2 / 2) * years) / spread
    discounted = strike * xp.exp(-RATE * years)
    call = spot * cdf(d1) - discounted * cdf(d1 - spread)
    return call, call - spot + discounted


def haversine(xp, lat, lon):
    a = xp.sin((lat - LAT) * 0.5) ** 2 + math.cos(LAT) * xp.cos(lat) * xp.sin((lon - LON) * 0.5) ** 2
    return 7918.0 * xp.arcsin(xp.sqrt(a))


def mandelbrot(xp, cr, ci):
    re, im, steps = cr * 0, cr * 0, cr * 0
    for _ in range(20):
        inside = re * re + im * im <= 4
        re, im = xp.where(inside, re * re - im * im + cr, re), xp.where(inside, 2 * re * im + ci, im)
        steps = steps + inside
    return steps


def nbody(xp, x, y, z, m):
    dx, dy, dz = (v[None, :] - v[:, None] for v in (x, y, z))
    r2 = dx * dx + dy * dy + dz * dz + 0.01
    pull = m / (r2 * xp.sqrt(r2))
    return (dx * pull).sum(1), (dy * pull).sum(1), (dz * pull).sum(1)


def stencil5(xp, x):
    return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def blur3x3(xp, x):
    across = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) * (1 / 3)
    return (across[:-2] + across[1:-1] + across[2:]) * (1 / 3)


def strided(xp, x, y):
    return x[::2] + y


def gather(xp, x, index, y):
    return x[index] + y


def transpose_add(xp, x, y):
    return x.T + y


def concat(xp, x, y):
    return xp.concatenate([x * 2, y + 1])


def sums_by_key(keys):
    return lambda xp, x, key: xp.sum_by_key(x, key, keys)


def counts(keys):
    return lambda xp, key: xp.count_by_key(key, keys)


sum_16_keys = sum_16_keys_equal = sum_16_keys_sorted = sums_by_key(16)
sum_1000_keys = sum_1000_keys_equal = sum_1000_keys_sorted = sums_by_key(1000)
sum_1m_keys = sum_1m_keys_equal = sum_1m_keys_sorted = sums_by_key(1_000_000)
count_16_keys, count_1000_keys, count_1m_keys = counts(16), counts(1000), counts(1_000_000)


def histogram_2d(xp, x, y):
    return xp.count_by_key(x * 100 + y, 10_000).reshape(100, 100)


def sort(xp, x):
    return xp.sorted(x)


sort_i64 = sort_rows = sort


def argsort(xp, x):
    return xp.numbers(x)


def median(xp, x):
    return xp.middle(x)


def heat(xp, u0):
    def step(u):
        inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return xp.inside(u, (slice(1, -1), slice(1, -1)), inner)

    return xp.repeat(100, step, u0)


def smoothed(xp, u0, steps):
    return xp.repeat(steps, lambda u: xp.inside(u, slice(1, -1), 0.5 * u[1:-1] + 0.25 * (u[:-2] + u[2:])), u0)


def heat_1d(xp, u0):
    return smoothed(xp, u0, 100)


def short_steps(xp, u0):
    return smoothed(xp, u0, 1000)


def kmeans(xp, x, first):
    def step(centre):
        # The square of x is the same for all centres.
        nearest = ((centre * centre).sum(1) - 2 * (x @ centre.T)).argmin(1)
        count = xp.count_by_key(nearest, len(centre))[:, None]
        total = xp.rows_by_key(x, nearest, len(centre))
        return xp.where(count > 0, total / (count + (count == 0)), centre)

    return xp.repeat(20, step, first)


def laplacian(xp, u):
    y = 4 * u
    y = xp.added(y, slice(1, None), -u[:-1])
    y = xp.added(y, slice(None, -1), -u[1:])
    y = xp.added(y, (slice(None), slice(1, None)), -u[:, :-1])
    return xp.added(y, (slice(None), slice(None, -1)), -u[:, 1:])


def conjugate_gradient(xp, b):
    def step(state):
        x, r, p, rr = state
        ap = laplacian(xp, p)
        by = rr / (p * ap).sum()
        r = r - by * ap
        rest = (r * r).sum()
        return x + by * p, r, r + rest / rr * p, rest

    return xp.repeat(100, step, (b * 0, b, b, (b * b).sum()))[0]


def rnn(xp, x, w, u):
    seen = x @ w
    return xp.scan(lambda s, seen: xp.tanh(0.05 * (seen + s @ u)), 0 * seen[0], seen)


def mm_bias_relu(xp, a, b, bias):
    return xp.relu(a @ b + bias)


def mm_resid_ln(xp, a, b, r, g, bias):
    return xp.layernorm(a @ b + r, g, bias)


def attention(xp, q, k, v):
    return xp.softmax(q @ k.swapaxes(1, 2) * 0.125) @ v


def splade(xp, x, e, bias):
    return xp.log1p(xp.relu(x @ e + bias)).max(1)


class Namespace:
    """The functions that a formula may use as `xp`; reductions here are along the last axis, which stays with length 1."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def formula(self, name):
        """The workload of that name as a function of its inputs; None if this library has none."""
        own = getattr(type(self), name, None)
        if own:
            return lambda *inputs: own(self, *inputs)
        general = globals().get(name)
        return general and (lambda *inputs: general(self, *inputs))

    def relu(self, x):
        return self.module.maximum(x, 0)

    def sigmoid(self, x):
        return 1 / (1 + self.module.exp(-x))

    def rsqrt(self, x):
        return 1 / self.module.sqrt(x)

    def max(self, x):
        return x.max(-1, keepdims=True)

    def sum(self, x):
        return x.sum(-1, keepdims=True)

    def mean(self, x):
        return x.mean(-1, keepdims=True)

    def pick(self, x, label):
        return x[self.module.arange(x.shape[0]), label]

    def softmax(self, x):
        return softmax(self, x)

    def logsumexp(self, x):
        return logsumexp(self, x)

    def layernorm(self, x, g, b):
        return layernorm(self, x, g, b)

    def sorted(self, x):
        return self.module.sort(x)

    def middle(self, x):
        return self.module.median(x)

    def inside(self, u, at, values):
        """A copy of u with other values in one part."""
        copy = u + 0
        copy[at] = values
        return copy

    def added(self, u, at, values):
        """u with values added to one part; u is not needed any more."""
        u[at] += values
        return u

    def repeat(self, times, step, state):
        for _ in range(times):
            state = step(state)
        return state

    def scan(self, step, state, inputs):
        for one in inputs:
            state = step(state, one)
        return state


class NumPy(Namespace):
    """NumPy, with SciPy's erf. In float64 it is the reference."""

    def __init__(self):
        import numpy
        from scipy.special import erf

        super().__init__(numpy)
        self.erf = erf

    def sum_by_key(self, x, key, keys):
        return self.module.bincount(key, x, keys)

    def count_by_key(self, key, keys):
        return self.module.bincount(key, minlength=keys)

    def rows_by_key(self, x, key, keys):
        return (key == self.module.arange(keys)[:, None]).astype(x.dtype) @ x

    def numbers(self, x):
        return self.module.argsort(x, kind="stable")

    def top_100(self, x, places):
        return -self.module.sort(self.module.partition(-x, 99)[:100])

    def escape(self, re, im):
        # In f32 as everywhere: on the border, a rounding decides.
        re0, im0 = self.module.float32(re), self.module.float32(im)
        re, im, steps = re0.copy(), im0.copy(), self.module.zeros(re.size, self.module.int64)
        left = self.module.arange(re.size)
        for _ in range(1000):
            inside = re * re + im * im < 4
            left, re, im = left[inside], re[inside], im[inside]
            re, im = re * re - im * im + re0[left], 2 * re * im + im0[left]
            steps[left] += 1
        return steps

    def ema(self, x):
        from scipy.signal import lfilter

        return lfilter([0.1], [1, -0.9], x, zi=0.9 * x[..., :1])[0]

    ema_rows = ema

    def edit_distance(self, a, b):
        numbers = self.module.arange(b.size + 1, dtype=self.module.int32)
        row = numbers
        for i, one in enumerate(a):
            # From above and from the diagonal; then from the left, by the least so far of a difference.
            best = self.module.concatenate([[i + 1], self.module.minimum(row[1:] + 1, row[:-1] + (b != one))])
            row = self.module.minimum.accumulate(best - numbers) + numbers
        return row[-1]

    def spmv(self, ptr, col, val, x):
        from scipy.sparse import csr_array

        return csr_array((val, col, ptr), (ptr.size - 1, x.size)) @ x

    def splade(self, x, e, bias):
        flat = x.reshape(-1, x.shape[2]) @ e  # one product, not one a batch
        return self.log1p(self.relu(flat + bias)).reshape(*x.shape[:2], -1).max(1)


class Jax(Namespace):
    """XLA on the CPU."""

    def __init__(self):
        import jax

        super().__init__(jax.numpy)
        self.jax, self.relu, self.sigmoid = jax, jax.nn.relu, jax.nn.sigmoid
        self.rsqrt, self.erf = jax.lax.rsqrt, jax.lax.erf

    def sum_by_key(self, x, key, keys):
        return self.jax.ops.segment_sum(x, key, keys)

    def count_by_key(self, key, keys):
        return self.module.bincount(key, length=keys)

    def rows_by_key(self, x, key, keys):
        return self.jax.ops.segment_sum(x, key, keys)

    def numbers(self, x):
        return self.module.argsort(x)

    def top_100(self, x, places):
        return self.jax.lax.top_k(x, 100)[0]

    def inside(self, u, at, values):
        return u.at[at].set(values)

    def added(self, u, at, values):
        return u.at[at].add(values)

    def repeat(self, times, step, state):
        return self.jax.lax.fori_loop(0, times, lambda _, state: step(state), state)

    def scan(self, step, state, inputs):
        return self.jax.lax.scan(lambda state, one: (step(state, one), None), state, inputs)[0]

    def gelu_tanh(self, x):
        return self.jax.nn.gelu(x, approximate=True)

    def gelu_erf(self, x):
        return self.jax.nn.gelu(x, approximate=False)

    def swiglu(self, x, y):
        return self.jax.nn.silu(x) * y

    def softmax(self, x):
        return self.jax.nn.softmax(x, axis=-1)

    def logsumexp(self, x):
        return self.jax.nn.logsumexp(x, axis=1)

    def attention_lib(self, q, k, v):
        q, k, v = (x.swapaxes(0, 1)[None] for x in (q, k, v))
        return self.jax.nn.dot_product_attention(q, k, v)[0].swapaxes(0, 1)


class Torch(Namespace):
    """torch: eager, and what Inductor compiles."""

    def __init__(self):
        import torch

        super().__init__(torch)
        self.nn = torch.nn.functional
        self.relu, self.sigmoid, self.rsqrt = torch.relu, torch.sigmoid, torch.rsqrt

    def sum_by_key(self, x, key, keys):
        return self.module.zeros(keys, dtype=x.dtype).index_add_(0, key, x)

    def count_by_key(self, key, keys):
        return self.module.bincount(key, minlength=keys)

    def rows_by_key(self, x, key, keys):
        return self.module.zeros(keys, x.shape[1], dtype=x.dtype).index_add_(0, key, x)

    def max(self, x):
        return x.amax(-1, keepdim=True)

    def cumsum(self, x):
        return self.module.cumsum(x, 0)

    def sorted(self, x):
        return self.module.sort(x)[0]

    def numbers(self, x):
        return self.module.argsort(x, stable=True)

    def middle(self, x):
        # torch's own is the lower one of the middle two.
        return self.module.quantile(x, 0.5) if x.numel() < 1 << 24 else self.module.sort(x)[0][x.numel() // 2 - 1 :][:2].mean()

    def top_100(self, x, places):
        return self.module.topk(x, 100)[0]

    def gelu_tanh(self, x):
        return self.nn.gelu(x, approximate="tanh")

    def gelu_erf(self, x):
        return self.nn.gelu(x)

    def swiglu(self, x, y):
        return self.nn.silu(x) * y

    def softmax(self, x):
        return self.nn.softmax(x, -1)

    def logsumexp(self, x):
        return self.module.logsumexp(x, 1)

    def layernorm(self, x, g, b):
        return self.nn.layer_norm(x, (x.shape[-1],), g, b, 1e-5)

    def cross_entropy(self, x, label):
        return self.nn.cross_entropy(x, label.long())

    def attention_lib(self, q, k, v):
        return self.nn.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    def splade(self, x, e, bias):
        return self.log1p(self.relu(x @ e + bias)).amax(1)
