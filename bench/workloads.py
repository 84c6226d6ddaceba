"""The measured workloads: each one's sizes, inputs, results and tolerance.

A formula of the same name stands in formulas.py (NumPy, JAX, torch), loops.py (Numba) and expressions.py (numexpr), and a
function in workloads.fl.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

M = 1 << 20

#: Samples of each result that are compared: about this many, evenly spaced.
SAMPLES = 1 << 17


def sample(flat):
    """About SAMPLES elements of a flat array. The step is odd, so that it meets every column and every lane."""
    return flat[:: flat.size // SAMPLES | 1]


@dataclass(frozen=True)
class Input:
    """An input's name and shape, and what it holds: "normal", ("uniform", lo, hi), ("below", n), ("sorted", n),
    ("every", n): 0, n, 2 n, ... or "integers" (of 64 bits)."""

    name: str
    shape: tuple
    draw: str | tuple = "normal"
    #: Of floats.
    dtype: type = np.float32

    def make(self, seed):
        rng = np.random.default_rng([seed, *self.name.encode()])
        match self.draw:
            case "normal":
                return rng.standard_normal(self.shape, dtype=self.dtype)
            case ("uniform", lo, hi):
                return rng.random(self.shape, dtype=self.dtype) * self.dtype(hi - lo) + self.dtype(lo)
            case ("below", n):
                return rng.integers(0, n, self.shape, dtype=np.int32)
            case ("sorted", n):
                return np.sort(rng.integers(0, n, self.shape, dtype=np.int32))
            case ("every", n):
                return np.arange(0, n * self.shape[0], n, dtype=np.int32)
            case "integers":
                return rng.integers(-(2**63), 2**63, self.shape, dtype=np.int64)


@dataclass(frozen=True)
class Workload:
    name: str
    group: str
    #: Label to dimensions.
    sizes: dict
    #: Dimensions to inputs.
    inputs: Callable
    #: Dimensions to the shapes of the results.
    outputs: Callable
    #: Dimensions to floating-point operations, where these bound it and not memory.
    flops: Callable | None = None
    #: How far results may be from NumPy's in float64, relative to themselves and to their mean magnitude.
    tolerance: float = 1e-4
    #: Its function in workloads.fl, if that has another name.
    function: str | None = None
    #: Of the results.
    dtype: type = np.float32

    def bytes(self, dims):
        """The bytes that must cross between memory and caches: inputs once, results once. Integers here have 4 bytes."""
        width = lambda dtype: np.dtype(dtype).itemsize
        read = sum(int(np.prod(i.shape)) * width(i.dtype) for i in self.inputs(*dims))
        written = sum(int(np.prod(shape)) for shape in self.outputs(*dims)) * width(self.dtype)
        return read, written

    def ceiling(self, dims):
        """The ceiling that it is held to: the mix of streams that is most like its own."""
        read, written = self.bytes(dims)
        if self.flops:
            return "fma"
        if written * 8 < read:
            return "read"
        return "copy" if read < 1.5 * written else "triad"


ALL = {}


def add(name, group, sizes, inputs, outputs, **more):
    sizes = {label: dims if isinstance(dims, tuple) else (dims,) for label, dims in sizes.items()}
    ALL[name] = Workload(name, group, sizes, inputs, outputs, **more)


SMALL = {"1e4": 10_000, "1e6": 1_000_000}
TO_16M = {**SMALL, "16M": 16 * M}
TO_64M = {**TO_16M, "64M": 64 * M}
ROWS = {"64x128": (64, 128), "4096x1024": (4096, 1024), "1024x16384": (1024, 16384), "65536x256": (65536, 256)}
SQUARE = {"4000sq": (4000, 4000)}
IMAGES = {"256sq": (256, 256), "1024sq": (1024, 1024), "4096sq": (4096, 4096)}


def vectors(*names):
    return lambda n: [Input(name, (n,)) for name in names]


def same(count=1):
    """So many results of the size of the first input."""
    return lambda *dims: [dims] * count


def scalars(count=1):
    return lambda *dims: [()] * count


def rows(**more):
    """A matrix x, and vectors along its rows."""
    return lambda n, m: [Input("x", (n, m))] + [Input(name, (m,), draw) for name, draw in more.items()]


# ---- elementwise

add("tiny", "elementwise", {"16": 16}, vectors("x"), same(), function="chain5")
add("relu_bias", "elementwise", TO_64M, vectors("x", "y"), same())
add("relu_bias_row", "elementwise", ROWS, rows(b="normal"), same())
add("chain5", "elementwise", TO_64M, vectors("x"), same())
add("chain_xy", "elementwise", TO_64M, vectors("x", "y"), same())
add("chain_sq", "elementwise", TO_64M, vectors("x"), same())
add("sig_tanh", "elementwise", TO_16M, vectors("x"), same())
add("log_relu", "elementwise", TO_64M, vectors("x", "y"), same())
add("gelu_tanh", "elementwise", TO_16M, vectors("x"), same(), function="approximate_gelu")
add("gelu_erf", "elementwise", TO_16M, vectors("x"), same(), function="exact_gelu")
add("swiglu", "elementwise", TO_64M, vectors("x", "y"), same())
add("relu_plus_sig", "elementwise", TO_64M, vectors("x", "y"), same())
add("pw_xwb", "elementwise", TO_16M, vectors("x", "w", "b"), same())
add("sincos", "elementwise", TO_16M, vectors("x"), same(2))

# ---- reductions and prefixes; float sums differ by their order

add("mse", "reductions", TO_64M, vectors("x", "y"), scalars(), tolerance=1e-3)
# The sum of 64M products of random signs is some 8,000, that of their magnitudes 40 million.
add("dot", "reductions", TO_64M, vectors("x", "y"), scalars(), tolerance=5e-2)
add("l2norm", "reductions", TO_64M, vectors("x"), scalars(), tolerance=1e-3)
UNIT = ("uniform", 0.5, 1.5)
add("x_over_sum", "reductions", TO_16M, lambda n: [Input("x", (n,), UNIT)], same(), tolerance=1e-3)
add("variance", "reductions", TO_64M, vectors("x"), scalars(), tolerance=1e-3)
# One running f32, as some peers have, is off by so much after many terms, and stands still in the end.
add("multi_reduce", "reductions", TO_64M, lambda n: [Input("x", (n,), UNIT)], scalars(4), tolerance=0.1)
add("cumsum", "reductions", TO_16M, lambda n: [Input("x", (n,), UNIT)], same(), tolerance=5e-2)

# ---- rows and columns

add("logsumexp", "rows", ROWS, rows(), lambda n, m: [(n,)])
add("softmax", "rows", ROWS, rows(), same())
add("layernorm", "rows", ROWS, rows(g="normal", b="normal"), same(), tolerance=1e-3)
add("rmsnorm", "rows", ROWS, rows(g="normal"), same())
add(
    "cross_entropy",
    "rows",
    ROWS,
    lambda n, m: [Input("x", (n, m)), Input("label", (n,), ("below", m))],
    scalars(),
)
add("argmax", "rows", ROWS, rows(), lambda n, m: [(n,)], tolerance=0, function="argmax_rows")
pair = lambda n, m: [Input("x", (n, m)), Input("y", (n, m))]
add("colsum_xy", "rows", ROWS, pair, lambda n, m: [(m,)], tolerance=1e-3)
add("sums", "rows", ROWS, rows(), lambda n, m: [(n,), (m,)], tolerance=1e-3)
# A weight for each row leaves the order of the sum, and its price, what they are without.
for dtype, suffix in ((np.float32, ""), (np.float64, "_f64")):
    matrix = lambda n, m, dtype=dtype: [Input("x", (n, m), dtype=dtype)]
    weights = lambda n, m, dtype=dtype: [Input("w", (n,), dtype=dtype), Input("x", (n, m), dtype=dtype)]
    for name, inputs in (("colsum", matrix), ("colsum_weighted", weights)):
        add(name + suffix, "rows", SQUARE, inputs, lambda n, m: [(m,)], tolerance=1e-3, dtype=dtype)

# ---- science and finance

option = lambda n: [
    Input("spot", (n,), ("uniform", 5, 30)),
    Input("strike", (n,), ("uniform", 1, 100)),
    Input("years", (n,), ("uniform", 0.25, 10)),
]
add("black_scholes", "science", TO_16M, option, same(2), tolerance=1e-3)
globe = lambda n: [Input("lat", (n,), ("uniform", -1.5, 1.5)), Input("lon", (n,), ("uniform", -3, 3))]
add("haversine", "science", TO_16M, globe, same(), tolerance=1e-3)
plane = lambda n: [Input("cr", (n,), ("uniform", -2, 0.5)), Input("ci", (n,), ("uniform", -1.2, 1.2))]
# Where an orbit grazes |z| = 2, rounding decides about a step; elsewhere counts are exact.
add("mandelbrot", "science", {**SMALL, "4M": 4 * M}, plane, same(), tolerance=1)
bodies = lambda n: [*vectors("x", "y", "z")(n), Input("m", (n,), ("uniform", 0.1, 1))]
NBODY = {"512": 512, "2048": 2048, "8192": 8192}
add("nbody", "science", NBODY, bodies, same(3), flops=lambda n: 20 * n * n, tolerance=1e-3)

# ---- moving data

inner = lambda n, m: [(n - 2, m - 2)]
add("stencil5", "moving", IMAGES, rows(), inner)
add("blur3x3", "moving", IMAGES, rows(), inner)
# All lines of x are touched, so it counts in full.
add("strided", "moving", TO_16M, lambda n: [Input("x", (2 * n,)), Input("y", (n,))], same())
add(
    "gather",
    "moving",
    TO_16M,
    lambda n: [Input("x", (n,)), Input("index", (n,), ("below", n)), Input("y", (n,))],
    same(),
)
add("transpose_add", "moving", IMAGES, lambda n, m: [Input("x", (n, m)), Input("y", (m, n))], lambda n, m: [(m, n)])
add("concat", "moving", TO_16M, vectors("x", "y"), lambda n: [(2 * n,)], function="concat_both")

# ---- by key

KEYS = {"16": 16, "1000": 1000, "1m": 1_000_000}
TO_64M_BY_KEY = {"5M": 5_000_000, "64M": 64 * M}
for keys, count in KEYS.items():
    for order, draw in {"": ("below", count), "_equal": ("below", 1), "_sorted": ("sorted", count)}.items():
        add(
            f"sum_{keys}_keys{order}",
            "by key",
            TO_64M_BY_KEY,
            lambda n, draw=draw: [Input("x", (n,)), Input("key", (n,), draw)],
            lambda n, count=count: [(count,)],
            function=f"sum_{keys}_keys",
        )
    add(
        f"count_{keys}_keys",
        "by key",
        TO_64M_BY_KEY,
        lambda n, count=count: [Input("key", (n,), ("below", count))],
        lambda n, count=count: [(count,)],
        dtype=np.int64,
    )
add(
    "histogram_2d",
    "by key",
    TO_64M_BY_KEY,
    lambda n: [Input("x", (n,), ("below", 100)), Input("y", (n,), ("below", 100))],
    lambda n: [(100, 100)],
    dtype=np.int64,
)

# ---- sorting

TO_16M_SORTED = {"1e4": 10_000, "1e6": 1_000_000, "16M": 16 * M}
add("sort", "sorting", TO_16M_SORTED, vectors("x"), same(), function="sort_all")
add(
    "sort_i64",
    "sorting",
    TO_16M_SORTED,
    lambda n: [Input("x", (n,), "integers", np.int64)],
    same(),
    dtype=np.int64,
)
add("argsort", "sorting", TO_16M_SORTED, vectors("x"), same(), dtype=np.int64, function="sort_numbers")
add("sort_rows", "sorting", {"1000sq": (1000, 1000), "100000x16": (100_000, 16)}, rows(), same())
add("median", "sorting", TO_16M_SORTED, vectors("x"), scalars(), function="median_all")
add("top_100", "sorting", TO_16M_SORTED, lambda n: [Input("x", (n,)), Input("places", (100,))], lambda n: [(100,)])

# ---- steps

add(
    "escape",
    "steps",
    {"1024sq": M},
    lambda n: [Input("re", (n,), ("uniform", -2.25, 0.75)), Input("im", (n,), ("uniform", -1.25, 1.25))],
    same(),
    dtype=np.int64,
)
add("ema", "steps", {"1e6": 1_000_000, "16M": 16 * M}, vectors("x"), same())
add("ema_rows", "steps", {"4096sq": (4096, 4096)}, rows(), same())
add(
    "edit_distance",
    "steps",
    {"1024": 1024, "8192": 8192},
    lambda n: [Input(name, (n,), ("below", 4)) for name in "ab"],
    scalars(),
    dtype=np.int32,
)
add("heat", "steps", {"400sq": (400, 400), "4096sq": (4096, 4096)}, lambda n, m: [Input("u0", (n, m))], same())
add("heat_1d", "steps", {"1e6": 1_000_000, "16M": 16 * M}, lambda n: [Input("u0", (n,))], same())
add("short_steps", "steps", {"64": 64}, vectors("u0"), same())
add(
    "kmeans",
    "steps",
    {"1e5x16k16": (100_000, 16, 16), "1e6x8k10": (1_000_000, 8, 10)},
    lambda n, d, k: [Input("x", (n, d)), Input("first", (k, d))],
    lambda n, d, k: [(k, d)],
    tolerance=1e-2,  # points between two centres go to either
)
add(
    "conjugate_gradient",
    "steps",
    {"256sq": 256, "1024sq": 1024, "4096sq": 4096},
    lambda n: [Input("b", (n, n))],
    lambda n: [(n, n)],
    tolerance=1e-2,
)
add(
    "rnn",
    "steps",
    {"512x256": (512, 256)},
    lambda n, h: [Input("x", (n, h)), Input("w", (h, h)), Input("u", (h, h))],
    lambda n, h: [(h,)],
    tolerance=1e-3,
)
add(
    "spmv",
    "steps",
    {"1e6x9": (1_000_000, 9)},
    lambda n, k: [
        Input("ptr", (n + 1,), ("every", k)),
        Input("col", (n * k,), ("below", n)),
        Input("val", (n * k,)),
        Input("x", (n,)),
    ],
    lambda n, k: [(n,)],
)

# ---- contractions

matrices = lambda n: [Input("a", (n, n)), Input("b", (n, n)), Input("bias", (n,))]
add(
    "mm_bias_relu",
    "contractions",
    {"512": 512, "1024": 1024, "2048": 2048},
    matrices,
    lambda n: [(n, n)],
    flops=lambda n: 2 * n**3,
    tolerance=1e-3,
)
add(
    "mm_resid_ln",
    "contractions",
    {"1024": 1024},
    lambda n: [*(Input(x, (n, n)) for x in "abr"), Input("g", (n,)), Input("bias", (n,))],
    lambda n: [(n, n)],
    flops=lambda n: 2 * n**3,
    tolerance=1e-3,
)
heads = lambda h, s, d: [Input(name, (h, s, d)) for name in "qkv"]
HEADS = {"h8s512d64": (8, 512, 64), "h8s1024d64": (8, 1024, 64)}
for name in ("attention", "attention_lib"):  # the second: from each library's own operator
    add(
        name,
        "contractions",
        HEADS,
        heads,
        same(),
        flops=lambda h, s, d: 4 * h * s * s * d,
        tolerance=1e-3,
        function="attention",
    )
add(
    "splade",
    "contractions",
    {"b4s128d256v30522": (4, 128, 256, 30522)},
    lambda b, s, d, v: [Input("x", (b, s, d)), Input("e", (d, v)), Input("bias", (v,))],
    lambda b, s, d, v: [(b, v)],
    flops=lambda b, s, d, v: 2 * b * s * d * v,
    tolerance=1e-3,
)
