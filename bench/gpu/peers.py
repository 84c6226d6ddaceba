"""PyTorch and JAX on the workloads of bench-gpu, where they are installed, in addition to its report.

    cargo run --release -p bench-gpu >ours.json && python bench/gpu/peers.py ours.json >all.json

Each workload of the report is measured at the same sizes with as many calls taking turns: PyTorch (eager and compiled) as one CUDA graph
of all calls by the device's clock, JAX as called, one after another and waited for at the end. Each row gets `peers`: microseconds
by name.
"""

import json
import statistics
import sys
import time

SAMPLES = 7


def formulas(np, nn):
    """Each workload by its name, in terms of a module of arrays and one of functions on them."""
    cdf = lambda z: 0.5 + 0.5 * nn.erf(z * 0.7071067811865476)  # noqa: E731

    def black_scholes(spot, strike, years):
        spread = 0.3 * np.sqrt(years)
        d1 = (np.log(spot / strike) + (0.02 + 0.3**2 / 2) * years) / spread
        discounted = strike * np.exp(-0.02 * years)
        call = spot * cdf(d1) - discounted * cdf(d1 - spread)
        return call, call - spot + discounted

    def stencil(x):
        return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])

    return {
        "relu_bias": lambda x, y: nn.relu(x * 2 + y),
        "chain5": lambda x: nn.sigmoid(nn.relu((x + 1) * 2) - 0.5),
        "gelu": nn.gelu,
        "gelu_tanh": nn.gelu_tanh,
        "swiglu": lambda x, y: nn.silu(x) * y,
        "sincos": lambda x: (np.sin(x), np.cos(x)),
        "black_scholes": black_scholes,
        "sum": lambda x: x.sum(),
        "mse": lambda x, y: ((x - y) ** 2).mean(),
        "softmax": nn.softmax,
        "layernorm": nn.layernorm,
        "cross_entropy": nn.cross_entropy,
        "dropout": nn.dropout,
        "stencil": stencil,
        "row_cumsum": lambda x: np.cumsum(x, 1),
        "transpose_add": lambda x, y: x.T + y,
        "column_sums": lambda x: x.sum(0),
        "cumsum": lambda x: np.cumsum(x, 0),
        "matmul_f32": lambda x, y: x @ y,
        "matmul_bf16": lambda x, y: x @ y,
        "matmul_rows": lambda x, y: x @ y,
        "gelu_bf16": lambda x, y, c: nn.narrow(nn.gelu_tanh(x @ y + c)),
        "splade_bf16": lambda x, e, c: nn.greatest(np.log1p(nn.relu(x @ e.T + c))),
        "attention_bf16": nn.attention,
        "attention_fast": nn.attention,
    }


def arguments(name, sizes, normal, narrow, uniform, below):
    """The inputs of a workload, in the order of its parameters: `narrow` draws normal numbers in bf16."""
    shape = tuple(n for _, n in sizes)
    match name:
        case "black_scholes":
            return [uniform(shape) for _ in range(3)]
        case "relu_bias" | "swiglu" | "mse":
            return [normal(shape) for _ in range(2)]
        case "layernorm":
            return [normal(shape), normal(shape[1:]), normal(shape[1:])]
        case "cross_entropy":
            return [normal(shape), below(shape[0], shape[1])]
        case "matmul_f32":
            return [normal(shape[:2]), normal(shape[1:])]
        case "matmul_bf16" | "matmul_rows":
            return [narrow(shape[:2]), narrow(shape[1:])]
        case "gelu_bf16":
            return [narrow(shape[:2]), narrow(shape[1:]), normal(shape[2:])]
        case "splade_bf16":
            batch, tokens, inner, words = shape
            return [narrow((batch, tokens, inner)), narrow((words, inner)), normal((words,))]
        case "attention_bf16" | "attention_fast":
            heads, queries, keys, inner = shape
            return [narrow((heads, length, inner)) for length in (queries, keys, keys)]
        case "transpose_add":
            return [normal(shape), normal(shape[::-1])]
        case _:
            return [normal(shape)]


def with_torch(rows):
    import torch
    from types import SimpleNamespace
    from torch.nn import functional as f
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(q, k, v):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            return f.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    nn = SimpleNamespace(
        relu=torch.relu, sigmoid=torch.sigmoid, silu=f.silu, gelu=f.gelu, erf=torch.erf,
        gelu_tanh=lambda x: f.gelu(x, approximate="tanh"),
        softmax=lambda x: torch.softmax(x, 1),
        layernorm=lambda x, g, b: f.layer_norm(x, x.shape[1:], g, b),
        cross_entropy=lambda x, label: f.cross_entropy(x, label),
        dropout=lambda x: f.dropout(x, 0.25),
        narrow=lambda x: x.bfloat16(),
        greatest=lambda x: x.amax(1),
        attention=attention,
    )  # fmt: skip
    made = {"device": "cuda"}
    known = formulas(torch, nn)
    for row in rows:
        name = row["name"]
        if name not in known:
            continue
        draw = lambda: arguments(  # noqa: E731
            name,
            row["sizes"],
            lambda shape: torch.randn(shape, **made),
            lambda shape: torch.randn(shape, **made).bfloat16(),
            lambda shape: torch.rand(shape, **made) + 0.5,
            lambda n, most: torch.randint(0, most, (n,), **made),
        )
        calls = [draw() for _ in range(row["calls"])]
        function = known[name]
        for peer, run in (("torch eager", function), ("torch compile", torch.compile(function, dynamic=False))):
            try:
                row.setdefault("peers", {})[peer] = graphed(torch, run, calls)
            except Exception as error:  # a peer that cannot is no reason to stop
                print(f"{name} {peer}: {error}", file=sys.stderr)
            torch._dynamo.reset()
        del calls
        torch.cuda.empty_cache()


def graphed(torch, run, calls):
    """Microseconds a call, as a graph of all calls whose results each have their place."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run(*calls[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [run(*call) for call in calls]  # noqa: F841
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def time_of(times):
        start.record()
        for _ in range(times):
            graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / times / len(calls)

    time_of(2)
    times = max(1, int(10_000 / (time_of(2) * len(calls))))
    return statistics.median(time_of(times) for _ in range(SAMPLES))


def with_jax(rows):
    import jax
    import jax.numpy as jnp
    import numpy
    from types import SimpleNamespace

    def layernorm(x, g, b):
        d = x - x.mean(1, keepdims=True)
        return d * jax.lax.rsqrt((d**2).mean(1, keepdims=True) + 1e-5) * g + b

    def cross_entropy(x, label):
        return (jax.nn.logsumexp(x, 1) - jnp.take_along_axis(x, label[:, None], 1)[:, 0]).mean()

    def dropout(x):
        keep = jax.random.bernoulli(jax.random.key(7), 0.75, x.shape)
        return jnp.where(keep, x / 0.75, 0)

    def attention(q, k, v):
        turned = [x.transpose(1, 0, 2)[None] for x in (q, k, v)]
        return jax.nn.dot_product_attention(*turned, implementation="cudnn")

    nn = SimpleNamespace(
        relu=jax.nn.relu, sigmoid=jax.nn.sigmoid, silu=jax.nn.silu, erf=jax.scipy.special.erf,
        gelu=lambda x: jax.nn.gelu(x, approximate=False), gelu_tanh=jax.nn.gelu,
        softmax=lambda x: jax.nn.softmax(x, 1), layernorm=layernorm, cross_entropy=cross_entropy, dropout=dropout,
        narrow=lambda x: x.astype(jnp.bfloat16), greatest=lambda x: x.max(1), attention=attention,
    )  # fmt: skip
    # By default, products of f32 on a GPU have factors of 11 bits.
    jax.config.update("jax_default_matmul_precision", "highest")
    rng = numpy.random.default_rng(1)
    known = formulas(jnp, nn)
    for row in rows:
        name = row["name"]
        if name not in known:
            continue
        draw = lambda: arguments(  # noqa: E731
            name,
            row["sizes"],
            lambda shape: jax.device_put(rng.standard_normal(shape, dtype=numpy.float32)),
            lambda shape: jax.device_put(rng.standard_normal(shape, dtype=numpy.float32)).astype(jnp.bfloat16),
            lambda shape: jax.device_put(rng.random(shape, dtype=numpy.float32) + 0.5),
            lambda n, most: jax.device_put(rng.integers(0, most, n, dtype=numpy.int32)),
        )
        calls = [draw() for _ in range(row["calls"])]
        run = jax.jit(known[name])
        try:
            jax.block_until_ready(run(*calls[0]))
        except Exception as error:  # a peer that cannot is no reason to stop
            print(f"{name} jax: {error}", file=sys.stderr)
            continue
        samples = []
        for _ in range(SAMPLES):
            begin = time.perf_counter()
            for call in calls:
                result = run(*call)
            jax.block_until_ready(result)
            samples.append((time.perf_counter() - begin) * 1e6 / len(calls))
        row.setdefault("peers", {})["jax as called"] = statistics.median(samples)


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    rows = report["workloads"]
    for name, measure in (("torch", with_torch), ("jax", with_jax)):
        try:
            measure(rows)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    for row in rows:
        peers = row.get("peers", {})
        if peers:
            best = min(peers, key=peers.get)
            sizes = "x".join(str(n) for _, n in row["sizes"])
            line = f"{row['name']:20} {sizes:>14} {row['us'][0]:10.1f} us, {best} {peers[best]:10.1f} us"
            print(f"{line}: {peers[best] / row['us'][0]:.2f}x", file=sys.stderr)
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
