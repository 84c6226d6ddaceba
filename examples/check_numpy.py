"""Holds every example against NumPy, on both devices.

    python examples/check_numpy.py [path of the fuseloop binary]

Each example runs on sizes that include 0, 1 and primes, from .npy files to .npy files. Three things must hold: the
results agree with NumPy (bit for bit where the arithmetic is exact, else within the tolerance shown, against float64);
the two devices write identical files (unless a contraction takes part, whose order of summation is free); and every
example is in the table below.
"""

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BINARY = sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "target/release/fuseloop"
rng = np.random.default_rng(1)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def small(*shape):
    """Integers as floats: their products and sums are exact in any order."""
    return rng.integers(-8, 9, shape).astype(np.float32)


def ints(high, *shape):
    return rng.integers(0, high, shape).astype(np.int32)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, gain, bias):
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    return (x - mu) / np.sqrt(var + 1e-5) * gain + bias


def attention(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v


def cross_entropy(logits, label):
    hi = logits.max(axis=1)
    lse = hi + np.log(np.exp(logits - hi[:, None]).sum(axis=1))
    return (lse - logits[np.arange(len(label)), label]).mean()


def windows(x, r, s):
    return np.lib.stride_tricks.sliding_window_view(x, (r, s), axis=(-2, -1))


def conv_bn_relu(x, k, gain, shift):
    y = np.einsum("nzijuv,ozuv->noij", windows(x, *k.shape[2:]), k)
    return np.maximum(y * gain[:, None, None] + shift[:, None, None], 0)


erf = np.vectorize(math.erf, otypes=[float])


def gelu(x):
    return x * (1 + erf(x / math.sqrt(2))) / 2


def digits(x, label, w1, b1, w2, b2):
    predicted = (np.maximum(x / 16 @ w1 + b1, 0) @ w2 + b2).argmax(axis=1)
    confusion = np.zeros((10, 10), np.int64)
    np.add.at(confusion, (label, predicted), 1)
    return np.float32((predicted == label).mean()), confusion


def digits_data(name):
    return np.load(HERE / "digits" / f"{name}.npy")


EXACT = None
FREE = "the order of a contraction is free"

# file, function, arguments for each size, NumPy's answer, tolerance, whether a contraction takes part
CASES = [
    ("relu_axpb", "relu_axpb", [dict(x=f32(n), b=f32(n)) for n in (0, 1, 7, 1009, 65536)],
     lambda x, b: np.maximum(x * 2 + b, 0), EXACT, None),
    ("softmax", "softmax", [dict(x=f32(n)) for n in (1, 127, 4099)], softmax, 1e-5, None),
    ("softmax", "softmax_rows", [dict(x=f32(n, m)) for n, m in ((0, 5), (3, 1), (13, 101), (37, 4099))],
     softmax, 1e-5, None),
    ("layer_norm", "layer_norm", [dict(x=f32(n), gain=f32(n), bias=f32(n)) for n in (2, 127, 4099)],
     layer_norm, 1e-5, None),
    ("layer_norm", "layer_norm_rows", [dict(x=f32(n, d), gain=f32(d), bias=f32(d)) for n, d in ((5, 3), (17, 769))],
     layer_norm, 1e-5, None),
    ("matmul", "matmul", [dict(a=small(n, k), b=small(k, m)) for n, k, m in ((1, 1, 1), (2, 0, 3), (7, 13, 5), (64, 127, 97))],
     lambda a, b: a @ b, EXACT, None),
    ("linear_relu", "linear_relu",
     [dict(x=f32(n, k), w=f32(k, m), bias=f32(m)) for n, k, m in ((1, 1, 1), (13, 67, 31), (61, 128, 100))],
     lambda x, w, bias: np.maximum(x @ w + bias, 0), 1e-5, FREE),
    ("attention", "softmax", [dict(x=f32(127))], softmax, 1e-5, None),
    ("attention", "attention", [dict(q=f32(s, d), k=f32(t, d), v=f32(t, d)) for s, t, d in ((1, 1, 1), (17, 31, 8))],
     attention, 1e-5, FREE),
    ("attention", "multi_head", [dict(q=f32(2, 3, 11, 8), k=f32(2, 3, 13, 8), v=f32(2, 3, 13, 8))],
     attention, 1e-5, FREE),
    ("cross_entropy", "cross_entropy", [dict(logits=f32(n, c), label=ints(c, n)) for n, c in ((1, 1), (101, 10), (257, 131))],
     cross_entropy, 1e-5, None),
    ("blur", "blur", [dict(x=f32(n, m)) for n, m in ((3, 3), (17, 101))],
     lambda x: windows(x, 3, 3).sum(axis=(-2, -1)) / 9, 1e-5, None),
    ("shift", "shift", [dict(x=f32(n)) for n in (0, 1, 2, 1009)], lambda x: np.append([0], x[:-1])[: len(x)], EXACT, None),
    ("strided", "strided", [dict(x=f32(m), y=f32((m + 1) // 2)) for m in (0, 1, 2, 1009)], lambda x, y: x[::2] + y, EXACT, None),
    ("gathered", "gathered", [dict(x=f32(m), idx=ints(m, n), y=f32(n)) for m, n in ((1, 5), (101, 0), (101, 1009))],
     lambda x, idx, y: x[idx] + y, EXACT, None),
    ("transposed", "transposed", [dict(x=f32(n, m), y=f32(m, n)) for n, m in ((1, 7), (31, 101))],
     lambda x, y: x.T + y, EXACT, None),
    ("cumsum", "cumsum", [dict(x=small(n)) for n in (0, 1, 17, 4099, 10007)], lambda x: np.cumsum(x), EXACT, None),
    ("cumsum", "cumsum", [dict(x=abs(f32(10007)))], lambda x: np.cumsum(x), 1e-5, None),
    ("sincos", "sincos", [dict(x=f32(n) * 100) for n in (1, 1009)], lambda x: (np.sin(x), np.cos(x)), 1e-5, None),
    ("conv_bn_relu", "conv_bn_relu",
     [dict(x=f32(2, 3, 11, 13), k=f32(5, 3, 3, 2), gain=f32(5), shift=f32(5))], conv_bn_relu, 1e-5, FREE),
    ("rms", "rms", [dict(x=f32(n)) for n in (1, 127, 10007)], lambda x: np.sqrt((x * x).mean()), 1e-5, None),
    ("gelu_mlp", "gelu_mlp", [dict(x=f32(13, 32), w1=f32(32, 61), b1=f32(61), w2=f32(61, 32), b2=f32(32))],
     lambda x, w1, b1, w2, b2: x + gelu(x @ w1 + b1) @ w2 + b2, 1e-5, FREE),
    ("statistics", "statistics", [dict(x=rng.standard_normal(s)) for s in ((1, 1), (101, 31))],
     lambda x: (x.mean(0), x.std(0), x.min(0), x.argmax(0)), 1e-12, None),
    ("edges", "edges", [dict(x=f32(n)) for n in (2, 1010)],
     lambda x: np.append(x[:1], np.diff(x)).reshape(-1, 2), EXACT, None),
    ("histogram", "histogram", [dict(x=ints(b + 2, n), bins=np.int64(b)) for n, b in ((0, 3), (1009, 11))],
     lambda x, bins: np.bincount(x, minlength=bins)[:bins], EXACT, None),
    ("activations", "activations", [dict(x=f32(n) * 3) for n in (1, 1009)],
     lambda x: (1 / (1 + np.exp(-x)), np.tanh(x), gelu(x), erf(x), x.clip(-1, 1), x.round()), 1e-5, None),
    ("digits", "main", [{k: digits_data(k) for k in ("x", "label", "w1", "b1", "w2", "b2")}], digits, 1e-6, FREE),
    ("digits", "logits", [{k: digits_data(k) for k in ("x", "w1", "b1", "w2", "b2")}],
     lambda x, w1, b1, w2, b2: np.maximum(x / 16 @ w1 + b1, 0) @ w2 + b2, 1e-5, FREE),
    ("digits", "classify", [{k: digits_data(k) for k in ("x", "w1", "b1", "w2", "b2")}],
     lambda x, w1, b1, w2, b2: (np.maximum(x / 16 @ w1 + b1, 0) @ w2 + b2).argmax(axis=1), EXACT, FREE),
]


def run(folder, file, function, arguments, results, device):
    """The results by name, and the milliseconds from text to callable."""
    command = [BINARY, "run", HERE / f"{file}.fl", "--fn", function, "--device", device, "--time"]
    for name, value in arguments.items():
        np.save(folder / f"{name}.npy", value)
        command.append(f"{name}={folder / name}.npy")
    for name in results:
        command += ["-o", f"{name}={folder / name}.{device}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{device}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    times = dict(line.rsplit(maxsplit=2)[:2] for line in done.stderr.splitlines())
    return [folder / f"{name}.{device}.npy" for name in results], float(times["text to callable"])


def signatures(file):
    """Result names by function."""
    done = subprocess.run([BINARY, "check", HERE / f"{file}.fl"], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"check: exit code {done.returncode}\n{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("fn "):
            results = line.rsplit(" -> ", 1)[1]
            names = [part.split(":")[0] for part in results.strip("()").split(", ") if ":" in part]
            found[line[3:].split("(")[0]] = names or ["out"]
    return found


def compare(found, expected, tolerance):
    """The error in units of the tolerance."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape, f"shape {found.shape}, NumPy has {expected.shape}"
    if tolerance is EXACT or found.dtype.kind != "f":
        assert (found == expected).all(), f"{found}\nNumPy has\n{expected}"
        return 0.0
    if found.size == 0:
        return 0.0
    scale = np.maximum(abs(expected), max(np.abs(expected).mean(), 1e-3))
    error = (abs(found - expected) / scale).max() / tolerance
    assert error <= 1, f"off by {error * tolerance:.3g} of its scale, {tolerance} allowed"
    return error


def main():
    failures = 0
    slowest = (0.0, "")
    print(f"{'example':14} {'function':16} {'sizes':>5}  {'tolerance':>9} {'worst':>6}  devices")
    for file, function, inputs, reference, tolerance, free in CASES:
        try:
            worst, fastest = 0.0, math.inf
            for arguments in inputs:
                with tempfile.TemporaryDirectory() as name:
                    folder = Path(name)
                    results = signatures(file)[function]
                    cpu, time = run(folder, file, function, arguments, results, "cpu")
                    interp, _ = run(folder, file, function, arguments, results, "interp")
                    fastest = min(fastest, time)
                    wide = arguments
                    if tolerance is not EXACT:
                        wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arguments.items()}
                    expected = reference(**wide)
                    expected = expected if isinstance(expected, tuple) else (expected,)
                    for one, other, value in zip(cpu, interp, expected, strict=True):
                        if free is None:
                            assert one.read_bytes() == other.read_bytes(), "the devices differ"
                        for path in (one, other):
                            worst = max(worst, compare(np.load(path), value, tolerance))
            slowest = max(slowest, (fastest, function))
            verdict = "identical" if free is None else "agree"
        except AssertionError as e:
            failures += 1
            verdict = f"FAILED\n{e}"
        bound = "exact" if tolerance is EXACT else f"{tolerance:g}"
        print(f"{file:14} {function:16} {len(inputs):5}  {bound:>9} {worst:6.2f}  {verdict}")
    tested = {(file, function) for file, function, *_ in CASES}
    for file in sorted(path.stem for path in HERE.glob("*.fl")):
        try:
            missing = [function for function in signatures(file) if (file, function) not in tested]
            assert not missing, f"not tested here: {', '.join(missing)}"
        except AssertionError as e:
            failures += 1
            print(f"{file}: {e}")
    print(f"{len(CASES)} functions, {failures} failures, at most {slowest[0]:.2f} ms ({slowest[1]}) from text to callable")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
