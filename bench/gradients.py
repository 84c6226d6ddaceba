"""The derivatives of tests/gradients compared with JAX (`jax.grad`) and PyTorch (`torch.compile`, then `torch.autograd.grad`), where these are
installed.

    cargo build --release -p cli && python bench/gradients.py target/release/fuseloop [--device gpu] [--threads 2] [--only NAME ...]

Each derivative is measured in turns, so that what disturbs the machine disturbs all: a row has the median of each one's medians, how far
the others lie apart, and the best peer's time over ours. On a GPU the arrays are in its memory, PyTorch's calls are one CUDA graph, and
products of f32 are products of f32: peers may not round their factors to TF32.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from formulas import Jax, Torch

ROOT = Path(__file__).resolve().parent.parent

#: The least time that calls are repeated for, in seconds.
SHORTEST = 0.2


def attention(xp, q, k, v, dy):
    return (xp.softmax(q @ k.T / q.shape[1] ** 0.5) @ v * dy).sum()


def batch_norm(xp, x, gain, bias, dy):
    d = x - x.mean(0)
    return ((d * xp.rsqrt((d * d).mean(0) + 1e-5) * gain + bias) * dy).sum()


def black_scholes(xp, spot, strike, years, rate, volatility):
    cdf = lambda z: 0.5 * (1 + xp.erf(z * 0.7071067811865476))  # noqa: E731
    spread = volatility * xp.sqrt(years)
    d1 = (xp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return (spot * cdf(d1) - strike * xp.exp(-rate * years) * cdf(d1 - spread)).sum()


def conv(xp, x, k, dy):
    return (xp.conv(x, k) * dy).sum()


def embedding(xp, table, w, id, y):
    return ((table[id] @ w - y) ** 2).mean()


def gelu_mlp(xp, x, w1, b1, w2, b2, dy):
    return ((x + xp.gelu_erf(x @ w1 + b1) @ w2 + b2) * dy).sum()


def gru(xp, x, h, wz, uz, wr, ur, wn, un, dy):
    keep, look = xp.sigmoid(x @ wz + h @ uz), xp.sigmoid(x @ wr + h @ ur)
    return ((keep * h + (1 - keep) * xp.tanh(x @ wn + (look * h) @ un)) * dy).sum()


def kmeans(xp, centre, x):
    # As the program is written: no expansion of the square.
    return ((x[:, None] - centre) ** 2).sum(2).min(1).mean() if xp.jax else ((x[:, None] - centre) ** 2).sum(2).amin(1).mean()


def layer_norm(xp, x, gain, bias, dy):
    return (xp.layernorm(x, gain, bias) * dy).sum()


def log_sum_exp(xp, x, dy):
    return (xp.logsumexp(x) * dy).sum()


def logistic(xp, w, b, x, y):
    return xp.softplus(-y * (x @ w + b)).mean()


def nbody(xp, at, mass, softening):
    d = at[None] - at[:, None]
    return -0.5 * (mass[:, None] * mass * xp.rsqrt((d * d).sum(2) + softening**2)).sum()


def ridge(xp, w, b, x, y, penalty):
    return ((x @ w + b - y) ** 2).mean() + penalty * (w * w).sum()


def rms_norm(xp, x, gain, dy):
    return (x * xp.rsqrt(xp.mean(x * x) + 1e-5) * gain * dy).sum()


def softmax_cross_entropy(xp, w, x, label):
    z = x @ w
    return (xp.logsumexp(z) - xp.pick(z, label)).mean()


#: The loss of each program, its sizes, and the shapes of its inputs: ("of", SHAPE, N) are integers below N. `wrt` numbers those that it is
#: derived in.
ROWS = {
    "attention": (attention, dict(s=1024, t=1024, d=64), lambda s, t, d: [(s, d), (t, d), (t, d), (s, d)], (0, 1, 2)),
    "batch_norm": (batch_norm, dict(n=8192, d=256), lambda n, d: [(n, d), (d,), (d,), (n, d)], (0, 1, 2)),
    "black_scholes": (black_scholes, dict(n=1_000_000), lambda n: [(n,)] * 5, (0, 2, 3, 4)),
    "conv": (
        conv,
        dict(b=8, c=16, h=64, w=64, f=16),
        lambda b, c, h, w, f: [(b, c, h, w), (f, c, 3, 3), (b, f, h - 2, w - 2)],
        (0, 1),
    ),
    "embedding": (embedding, dict(v=10_000, d=64, n=100_000), lambda v, d, n: [(v, d), (d,), ("of", (n,), v), (n,)], (0, 1)),
    "gelu_mlp": (
        gelu_mlp,
        dict(n=2048, d=256, h=1024),
        lambda n, d, h: [(n, d), (d, h), (h,), (h, d), (d,), (n, d)],
        (0, 1, 2, 3, 4),
    ),
    "gru": (
        gru,
        dict(b=512, d=256, k=256),
        lambda b, d, k: [(b, d), (b, k), (d, k), (k, k), (d, k), (k, k), (d, k), (k, k), (b, k)],
        (0, 1, 2, 3, 4, 5, 6, 7),
    ),
    "kmeans": (kmeans, dict(n=100_000, d=16, k=10), lambda n, d, k: [(k, d), (n, d)], (0,)),
    "layer_norm": (layer_norm, dict(n=8192, d=1024), lambda n, d: [(n, d), (d,), (d,), (n, d)], (0, 1, 2)),
    "log_sum_exp": (log_sum_exp, dict(n=8192, m=1024), lambda n, m: [(n, m), (n,)], (0,)),
    "logistic": (logistic, dict(n=100_000, d=64), lambda n, d: [(d,), (), (n, d), (n,)], (0, 1)),
    "nbody": (nbody, dict(n=4096), lambda n: [(n, 3), (n,), ()], (0,)),
    "ridge": (ridge, dict(n=100_000, d=64), lambda n, d: [(d,), (), (n, d), (n,), ()], (0, 1)),
    "rms_norm": (rms_norm, dict(n=8192, d=1024), lambda n, d: [(n, d), (d,), (n, d)], (0, 1)),
    "softmax_cross_entropy": (
        softmax_cross_entropy,
        dict(n=8192, d=256, c=64),
        lambda n, d, c: [(d, c), (n, d), ("of", (n,), c)],
        (0,),
    ),
}


def seconds(call, wait):
    """The time of a call, from as many as take a while."""
    times, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(times):
            call()
        wait()
        spent = time.perf_counter() - start
        if spent > SHORTEST:
            return spent / times
        times = max(2 * times, int(1.2 * times * SHORTEST / max(spent, 1e-6)))


class OfTorch(Torch):
    """PyTorch, compiled."""

    jax = None

    def __init__(self, device, threads):
        super().__init__()
        self.device = "cuda" if device == "gpu" else "cpu"
        # By default, convolutions of f32 on a GPU have factors of 11 bits.
        self.module.backends.cudnn.allow_tf32 = False
        self.module.set_num_threads(threads)
        self.softplus = self.nn.softplus

    def conv(self, x, k):
        return self.nn.conv2d(x, k)

    def prepare(self, name):
        torch = self.module
        loss, sizes, inputs, wrt = ROWS[name]
        dtype = torch.float64 if name == "black_scholes" else torch.float32
        make = lambda shape: (  # noqa: E731
            torch.randint(shape[2], shape[1], device=self.device) if shape[:1] == ("of",) else torch.rand(shape, dtype=dtype, device=self.device)
        )
        arrays = [make(shape) for shape in inputs(**sizes)]
        leaves = [arrays[number].requires_grad_() for number in wrt]
        torch._dynamo.reset()
        compiled = torch.compile(lambda *arrays: loss(self, *arrays), dynamic=False, fullgraph=True)
        step = lambda: torch.autograd.grad(compiled(*arrays), leaves)  # noqa: E731
        if self.device == "cpu":
            step()
            return lambda: seconds(step, lambda: None)
        # As on any machine: once on a stream of its own, then recorded.
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            step(), step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return lambda: seconds(graph.replay, torch.cuda.synchronize)


class OfJax(Jax):
    """JAX, on the CPU or where it finds a GPU."""

    def __init__(self, device, threads):
        super().__init__()
        found = self.jax.default_backend()
        if (found != "cpu") != (device == "gpu"):
            raise ImportError
        self.jax.config.update("jax_enable_x64", True)
        # By default, products of f32 on a GPU have factors of 11 bits.
        self.jax.config.update("jax_default_matmul_precision", "highest")
        self.softplus = self.jax.nn.softplus

    def conv(self, x, k):
        return self.jax.lax.conv(x, k, (1, 1), "VALID")

    def prepare(self, name):
        loss, sizes, inputs, wrt = ROWS[name]
        dtype = self.module.float64 if name == "black_scholes" else self.module.float32
        key = self.jax.random.key(1)
        make = lambda shape: (  # noqa: E731
            self.jax.random.randint(key, shape[1], 0, shape[2]) if shape[:1] == ("of",) else self.jax.random.uniform(key, shape, dtype)
        )
        arrays = [make(shape) for shape in inputs(**sizes)]
        step = self.jax.jit(self.jax.grad(lambda *arrays: loss(self, *arrays), wrt))
        last = [self.jax.block_until_ready(step(*arrays))]

        def call():
            last[0] = step(*arrays)

        return lambda: seconds(call, lambda: self.jax.block_until_ready(last[0]))


def ours(command, name, options):
    sizes = [f"{size}={n}" for size, n in ROWS[name][1].items()]
    call = [command, "bench", str(ROOT / f"tests/gradients/{name}.fl"), "--fn", "derived", *sizes, "--format", "json", "--device", options.device]
    if options.device == "cpu":
        call += ["--threads", str(options.threads)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["fused"]["total"]["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(ROWS))
    options = parser.parse_args()
    peers = {}
    for peer, of in (("jax", OfJax), ("torch", OfTorch)):
        try:
            peers[peer] = of(options.device, options.threads)
        except ImportError:
            print(f"{peer} is not installed for this device")
    print(f"{'derivative':<24}{'fuseloop':>12}" + "".join(f"{peer:>12}" for peer in peers) + f"{'best / ours':>14}{'spread':>9}")
    for name in options.only:
        measure = {"fuseloop": lambda name=name: ours(options.command, name, options)}
        measure |= {peer: of.prepare(name) for peer, of in peers.items()}
        found = {who: [] for who in measure}
        for _ in range(options.rounds):
            for who, one in measure.items():
                found[who].append(one())
        middle = {who: statistics.median(times) for who, times in found.items()}
        spread = max(max(times) / min(times) for times in found.values()) - 1
        best = min((middle[peer] for peer in peers), default=float("nan")) / middle["fuseloop"]
        print(f"{name:<24}" + "".join(f"{middle[who] * 1e6:>9.1f} us" for who in measure) + f"{best:>14.2f}{spread:>8.0%}", flush=True)


if __name__ == "__main__":
    main()
