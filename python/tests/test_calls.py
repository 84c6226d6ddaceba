"""Programs, and calls with NumPy arrays."""

from __future__ import annotations

import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import fuseloop as fl
from fuseloop import _turned

SOURCE = """
# Each row, scaled to a sum of 1.
fn softmax(x: f32[n, m]) {
    let y[i, j] = exp(x[i, j] - max(x[i]))
    let z[i, j] = y[i, j] / sum(y[i])
    z
}
fn extremes(x: f64[n]) -> (lo: f64, hi: f64) = (min(x), max(x))
fn scaled(x: f32[n], by: f32) = x * by
fn identity(x: f32[n]) = x[:]
fn twice(x: float[n], by: float) = 2 * x + by
"""


@pytest.fixture(scope="module")
def module() -> fl.Module:
    return fl.compile(SOURCE)


def test_a_program_from_a_file(examples: pathlib.Path) -> None:
    module = fl.load(examples / "softmax.fl")
    assert "softmax_rows" in module.functions and "softmax_rows" in dir(module)
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(module.softmax_rows(x), e / e.sum(axis=1, keepdims=True), rtol=1e-6)


def test_files_that_a_program_uses(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib.fl").write_text("fn twice(x: f32[n]) = 2 * x")
    (tmp_path / "main.fl").write_text('use "lib.fl"\nfn main(x: f32[n]) = twice(x) + 1')
    module = fl.load(tmp_path / "main.fl")
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(module.main(x), [3, 3, 3])
    dumped = pickle.dumps(module)
    (tmp_path / "lib.fl").unlink()
    np.testing.assert_array_equal(pickle.loads(dumped).main(x), [3, 3, 3])


def test_functions_are_attributes(module: fl.Module) -> None:
    assert module.functions == ["softmax", "extremes", "scaled", "identity", "twice"]
    assert module.softmax is module["softmax"]
    assert list(module) == module.functions and len(module) == 5
    assert "scaled" in module and "other" not in module
    assert module.softmax.__name__ == "softmax"
    assert module.softmax.__doc__ == "Each row, scaled to a sum of 1.\n\nfn softmax(x: f32[n, m]) -> f32[n, m]"
    assert module.scaled.params == ["f32[n]", "f32"] and module.scaled.results == ["f32[n]"]
    with pytest.raises(AttributeError, match="there is no function `other`"):
        _ = module.other
    with pytest.raises(KeyError, match="there is no function `other`"):
        _ = module["other"]


def test_several_results_are_a_named_tuple(module: fl.Module) -> None:
    result = module.extremes(np.array([3.0, 1.0, 2.0]))
    assert result == (1.0, 3.0) and result.lo == 1.0 and result.hi == 3.0
    assert isinstance(result.lo, np.float64)


def test_scalars(module: fl.Module) -> None:
    x = np.ones(2, np.float32)
    for by in (3, 3.0, np.float32(3), np.array(3, np.float32)):
        np.testing.assert_array_equal(module.scaled(x, by), [3, 3])
    np.testing.assert_array_equal(module.scaled(x=x, by=2), [2, 2])
    np.testing.assert_array_equal(module.scaled(x, by=2), [2, 2])


def test_float_takes_the_type_of_the_arguments(module: fl.Module) -> None:
    assert module.twice(np.ones(2, np.float32), 0.5).dtype == np.float32
    assert module.twice(np.ones(2), 0.5).dtype == np.float64


def test_every_type_goes_in_and_out(rng: np.random.Generator) -> None:
    names = {"bool": "bool_", "f16": "float16", "f32": "float32", "f64": "float64"}
    names |= {f"{k}{bits}": f"{n}{bits}" for k, n in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}
    for ours, theirs in names.items():
        keep = fl.compile(f"fn keep(x: {ours}[n, m], y: {ours}) = (transpose(x), y)").keep
        x = (rng.random((3, 4)) * 100).astype(theirs)
        turned, y = keep(x, x[0, 0])
        assert turned.dtype == x.dtype and y.dtype == x.dtype
        np.testing.assert_array_equal(turned, x.T)
        assert y == x[0, 0]
    for other in (np.longlong, np.ulonglong):
        x = np.arange(3, dtype=other)
        name = "i64" if other is np.longlong else "u64"
        np.testing.assert_array_equal(fl.compile(f"fn f(x: {name}[n]) = x + 1").f(x), x + 1)


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
    y = fl.compile("fn f(x: bf16[n]) = bf16(x * 2)").f(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), [2, 5, -6])


def test_nothing_is_copied(module: fl.Module) -> None:
    """The result lies in memory of its own; what goes in is read where it lies."""
    size = 1 << 22
    x = np.arange(size, dtype=np.float32)
    y = module.identity(x)
    assert y.flags.writeable and y.flags.c_contiguous and not y.flags.owndata
    assert y.base.__class__.__name__ == "Buffer"
    assert not np.shares_memory(x, y)
    doubled = module.scaled(x, 2)
    np.testing.assert_array_equal(doubled[:3], [0, 2, 4])
    # A view of an array is read at its own address: the elements around it stay out.
    np.testing.assert_array_equal(module.identity(x[5:9]), [5, 6, 7, 8])
    z = np.empty(size, np.float32)
    before = z.ctypes.data
    returned = module.scaled(x, 2, out=z)
    assert returned is z and z.ctypes.data == before
    np.testing.assert_array_equal(z, 2 * x)


def test_results_outlive_everything(module: fl.Module) -> None:
    y = fl.compile("fn f(n: i64) = iota(n)").f(1000)
    tail = y[990:]
    del y
    np.testing.assert_array_equal(tail, np.arange(990, 1000))


def test_read_only_memory_goes_in(module: fl.Module, tmp_path: pathlib.Path) -> None:
    x = np.ones(4, np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(module.scaled(x, 3), [3, 3, 3, 3])
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(module.scaled(mapped, 3), [3, 3, 3, 3])


def test_out_and_threads(module: fl.Module, rng: np.random.Generator) -> None:
    x = rng.random((100, 50), np.float32)
    expected = module.softmax(x)
    for threads in (0, 1, 2, 64):
        out = np.full_like(x, np.nan)
        assert module.softmax(x, out=out, threads=threads) is out
        np.testing.assert_array_equal(out, expected)
    lo, hi = np.zeros(()), np.zeros(())
    module.extremes(np.array([2.0, 5.0]), out=(lo, hi))
    assert (lo, hi) == (2, 5)


def test_empty_arrays(module: fl.Module) -> None:
    assert module.softmax(np.zeros((0, 5), np.float32)).shape == (0, 5)
    assert module.scaled(np.zeros(0, np.float32), 1).shape == (0,)
    assert module.scaled(np.zeros(0, np.float32), 1, out=np.zeros(0, np.float32)).shape == (0,)
    assert module.extremes(np.zeros(0)) == (np.inf, -np.inf)


def test_unaligned_memory(module: fl.Module) -> None:
    raw = np.zeros(41, np.uint8)
    x = raw[1:].view(np.float32)
    x[:] = np.arange(10)
    assert not x.flags.aligned
    np.testing.assert_array_equal(module.scaled(x, 2), 2 * np.arange(10))
    module.scaled(np.arange(10, dtype=np.float32), 3, out=x)
    np.testing.assert_array_equal(x, 3 * np.arange(10))


def test_reports(module: fl.Module) -> None:
    explanation = module.softmax.explain(n=10, m=20)
    assert "softmax:" in str(explanation) and explanation.kernels_after <= explanation.kernels_before
    assert explanation.bytes_after is not None and module.softmax.explain().bytes_after is None
    assert explanation._repr_html_().startswith("<iframe")
    assert explanation.to_json().startswith("{")
    assert module.check().startswith("fn softmax(x: f32[n, m]) -> f32[n, m]")
    assert module.scaled.check() == "fn scaled(x: f32[n], by: f32) -> f32[n]"
    assert "kernel" in module.scaled.emit("ir")
    with pytest.raises(fl.Error, match="there is no size `k`"):
        module.softmax.explain(k=1)


def test_bench(module: fl.Module) -> None:
    measured = module.scaled.bench(n=1000)
    assert measured.seconds > 0 and "scaled" in str(measured)


def test_programs_pickle_as_their_source(module: fl.Module) -> None:
    x = np.ones((2, 3), np.float32)
    again = pickle.loads(pickle.dumps(module))
    assert again.source == module.source
    np.testing.assert_array_equal(again.softmax(x), module.softmax(x))
    function = pickle.loads(pickle.dumps(module.softmax))
    np.testing.assert_array_equal(function(x), module.softmax(x))
    limited = pickle.loads(pickle.dumps(fl.compile(SOURCE, max_memory=10)))
    with pytest.raises(fl.Error, match="E0240"):
        limited.softmax(x)


def test_format() -> None:
    assert fl.format("fn f(x:f32[n])=x*2") == "fn f(x: f32[n]) = x * 2\n"


def test_the_interpreter_runs_while_a_kernel_does() -> None:
    slow = fl.compile("fn slow(n: i64) -> f64 = sum[i < n, j < 1000](sin(f64(i * j)))", threads=1).slow
    slow(1)
    counted = 0
    done = threading.Event()

    def work() -> None:
        slow(30_000)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    thread.join()
    assert counted > 10


def test_calls_from_many_threads(module: fl.Module, rng: np.random.Generator) -> None:
    xs = [rng.random((40, 30 + k), np.float32) for k in range(8)]
    fresh = fl.compile(SOURCE)
    results: list[np.ndarray | None] = [None] * len(xs)

    def work(k: int) -> None:
        for _ in range(50):
            results[k] = fresh.softmax(xs[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(xs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(xs, results, strict=True):
        np.testing.assert_array_equal(y, module.softmax(x))


INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    import fuseloop as fl

    HANDLER
    forever = fl.compile("fn forever() -> f64 = sum[i < 400000, j < 400000](sin(f64(i * j)))").forever
    short = fl.compile("fn short(x: f32[n]) = x + 1").short
    short(np.ones(3, np.float32))
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.time()
    try:
        forever()
    except (KeyboardInterrupt, TimeoutError) as error:
        print(type(error).__name__, time.time() - begin < 10)
    print(short(np.ones(2, np.float32)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
@pytest.mark.parametrize("own", [False, True])
def test_control_c_ends_a_call(own: bool) -> None:
    handler = ""
    if own:
        handler = textwrap.dedent("""
            seen = []
            def handler(*_):
                seen.append(1)
                if len(seen) > 1:
                    raise TimeoutError
                threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            signal.signal(signal.SIGINT, handler)
        """)
    script = textwrap.dedent(INTERRUPTED).replace("HANDLER", handler)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    name = "TimeoutError" if own else "KeyboardInterrupt"
    assert run.stdout == f"{name} True\n[2. 2.]\n", run.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_arrays_in_another_order_are_not_copied(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_turned, "SMALL", 0)
    module = fl.compile("""
    fn both(x: f64[n, m], y: f64[m]) -> (a: f64[n], b: f64[n, m]) = (x @ y, x + y)
    fn deep(x: float[n, m, k], by: float) = x * by
    fn sized(x: f32[2 * n, m]) where m >= n = sum(x, axis = 1)
    """)
    x, y = rng.random((4, 3)), rng.random(4)
    for other in (x.T, np.asfortranarray(x.T)):
        result = module.both(other, y)
        np.testing.assert_allclose(result.a, other @ y)
        np.testing.assert_array_equal(module.both(y=y, x=other).b, other + y)
    out = (np.zeros(3), np.zeros((3, 4)))
    assert module.both(x.T, y, out=out) is out
    np.testing.assert_array_equal(out[1], x.T + y)
    for dtype in (np.float32, np.float64):
        z = rng.random((2, 3, 4)).astype(dtype)
        for order in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            turned = module.deep(z.transpose(order), 2.0)
            assert turned.dtype == dtype
            np.testing.assert_array_equal(turned, 2 * z.transpose(order))
    w = np.asfortranarray(rng.random((4, 5), np.float32))
    np.testing.assert_allclose(module.sized(w), w.sum(axis=1), rtol=1e-6)
    with pytest.raises(fl.Error, match="E0211|E02"):
        module.sized(w[:, :1])
    np.testing.assert_allclose(module.both(x.T[:, ::2], y[::2]).a, x.T[:, ::2] @ y[::2])


def test_functions_do_not_keep_their_module_alive() -> None:
    module = fl.compile(SOURCE)
    before = sys.getrefcount(module)
    function = module.scaled
    assert sys.getrefcount(module) == before and "scaled" in vars(module)
    del module
    np.testing.assert_array_equal(function(np.ones(2, np.float32), 3), [3, 3])
    assert function.module.functions[0] == "softmax"
