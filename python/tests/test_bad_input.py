"""Bad arguments are errors that say what to do, and nothing is written."""

from __future__ import annotations

import gc
import pickle
import threading

import numpy as np
import pytest

import fuseloop as fl

MODULE = fl.compile("""
fn scaled(x: f32[n], by: f32) = x * by
fn rows(x: f32[n, m], y: f32[m]) = x + y
fn both(x: f64[n]) -> (a: f64[n], b: f64[n]) = (x + 1, x + 2)
fn count(k: u8, flag: bool) = if flag then k else k
fn taken(x: f32[n], at: i64[m]) = x[at]
""")


def refused(code: str | None, message: str, help: str, function: fl.Function, *args: object, **kwargs: object) -> None:
    """A call that must be refused, with these words."""
    with pytest.raises(fl.Error) as caught:
        function(*args, **kwargs)
    error = caught.value
    assert error.code == code, error
    assert message in error.message, error
    assert help in (error.help or ""), error


def test_types() -> None:
    x = np.ones(3, np.float32)
    scaled = MODULE.scaled
    refused("E0202", "`x` has elements of type f32, the array given has f64", "x.astype(numpy.float32)", scaled, np.ones(3), 1)
    refused("E0202", "the array given has i64", "x.astype(numpy.float32)", scaled, np.arange(3), 1)
    refused("E0202", "`by` has elements of type f32", "", scaled, x, np.float64(1))
    refused(None, "elements of type object", "astype", scaled, np.array([1, "a"], object), 1)
    refused(None, "elements of type complex128", "astype", scaled, np.ones(3, complex), 1)
    refused(None, "elements of type str", "astype", scaled, np.array(["a"]), 1)
    refused(None, "elements of type datetime64", "astype", scaled, np.zeros(2, "M8[s]"), 1)
    refused(None, "elements of type void", "astype", scaled, np.zeros(2, [("a", "f4")]), 1)
    refused(None, "bytes in the order of another machine", "newbyteorder", scaled, x.astype(">f4"), 1)


def test_objects() -> None:
    scaled = MODULE.scaled
    for other in ([1.0, 2.0], (1.0,), None, "text", {}, object(), range(3)):
        refused(None, "`x` is f32[n], an object of type", "numpy.asarray(x, dtype=numpy.float32)", scaled, other, 1)
    refused("E0203", "`x` is f32[n], the array given has shape []", "", scaled, 1.0, 1)


def test_subclasses() -> None:
    masked = np.ma.masked_array(np.ones(3, np.float32), [True, False, False])
    refused(None, "`x` is a masked array", "x.filled(...)", MODULE.scaled, masked, 1)
    for kind in (np.ma.masked_array, np.matrix):
        with pytest.raises(fl.Error, match="cannot be traced"):
            fl.jit(lambda x: x + 1)(kind([[1.0, 2.0]]))


def test_numbers() -> None:
    x = np.ones(3, np.float32)
    count = MODULE.count
    assert count(200, True) == 200
    refused(None, "`k` is u8, 256 is not a value of that type", "", count, 256, True)
    refused(None, "`k` is u8, -1 is not", "", count, -1, True)
    refused(None, "`k` is u8, 1.5 is not", "", count, 1.5, True)
    refused(None, "`k` is u8, true is not", "", count, True, True)
    refused(None, "`flag` is bool, 1 is not", "", count, 1, 1)
    refused(None, "`by` is f32, 1e+300 is not", "", MODULE.scaled, x, 1e300)
    assert np.isinf(MODULE.scaled(x, float("inf"))).all()
    refused(None, "`by` is f32, an object of type `complex`", "", MODULE.scaled, x, 1j)
    refused(None, f"`by` is f32, {10**400} is not", "", MODULE.scaled, x, 10**400)


def test_ranks_and_sizes() -> None:
    x, y = np.ones((2, 3), np.float32), np.ones(4, np.float32)
    refused("E0203", "`y` is f32[m], the array given has shape [2, 3]", "", MODULE.rows, x, x)
    with pytest.raises(fl.Error) as caught:
        MODULE.rows(x, y)
    assert caught.value.code == "E0201" or caught.value.code == "E0204"
    assert "m" in str(caught.value)
    refused(None, "has 17 axes, more than 16", "reshape", MODULE.scaled, np.ones([1] * 17, np.float32), 1)


def test_layouts() -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    y = np.ones(6, np.float32)
    for other in (a[:, ::2], a[::-1], a[:, 1:], np.broadcast_to(y, (3, 6))):
        np.testing.assert_array_equal(MODULE.rows(other, y[: other.shape[1]]), other + 1)
    # These are row-major, whatever their strides say.
    assert MODULE.rows(a[1:3], y).shape == (2, 6)
    assert MODULE.rows(a[:0, ::2], y[:3]).shape == (0, 3)
    assert MODULE.rows(a[1:2, ::1], y).shape == (1, 6)


def test_counts() -> None:
    x = np.ones(3, np.float32)
    for call in (
        lambda: MODULE.scaled(x),
        lambda: MODULE.scaled(x, 1, 2),
        lambda: MODULE.scaled(x, x=x),
        lambda: MODULE.scaled(x, 1, by=2),
        lambda: MODULE.scaled(x, 1, other=2),
    ):
        with pytest.raises(TypeError, match="scaled"):
            call()
    with pytest.raises((TypeError, OverflowError)):
        MODULE.scaled(x, 1, threads=-1)
    with pytest.raises(TypeError):
        MODULE.scaled(x, 1, threads="two")


def test_outputs() -> None:
    x = np.ones(4, np.float32)
    scaled = MODULE.scaled
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    refused(None, "is read-only", "leave `out` away", scaled, x, 2, out=locked)
    refused("E0231", "`out` is f32[4], the array to write to is f64[4]", "", scaled, x, 2, out=np.zeros(4))
    refused("E0231", "`out` is f32[4], the array to write to is f32[5]", "", scaled, x, 2, out=np.zeros(5, np.float32))
    refused("E0230", "1 result", "", scaled, x, 2, out=(np.zeros(4, np.float32), np.zeros(4, np.float32)))
    refused(None, "an object of type `str`", "", scaled, x, 2, out="here")
    refused(None, "there is no array to write `b` to", "", MODULE.both, np.ones(2), out=(np.ones(2), None))
    assert (locked == 0).all() and (x == 1).all()


def test_outputs_that_overlap() -> None:
    memory = np.ones(10, np.float32)
    refused(None, "shares memory with the argument `x`", "another array", MODULE.scaled, memory, 2, out=memory)
    refused(None, "shares memory with the argument `x`", "another array", MODULE.scaled, memory[:6], 2, out=memory[4:])
    MODULE.scaled(memory[:5], 2, out=memory[5:])
    np.testing.assert_array_equal(memory, [1] * 5 + [2] * 5)
    out = np.zeros(3)
    refused(None, "to write `a` and `b` to share memory", "another array", MODULE.both, np.ones(3), out=(out, out))
    wide = np.zeros(5)
    refused(None, "share memory", "another array", MODULE.both, np.ones(3), out=(wide[:3], wide[2:]))
    assert (out == 0).all() and (wide == 0).all()


def test_a_bad_access_leaves_outputs_alone() -> None:
    x = np.arange(3, dtype=np.float32)
    out = np.full(2, 7, np.float32)
    refused("E0220", "subscript 3 is outside", "", MODULE.taken, x, np.array([0, 3]), out=out)
    refused("E0220", "subscript -1 is outside", "", MODULE.taken, x, np.array([0, -1]), out=out)
    assert (out == 7).all()


def test_bools_that_are_neither() -> None:
    f = fl.compile("fn f(x: bool[n]) = !x").f
    refused(None, "neither 0 nor 1", "astype(bool)", f, np.array([0, 2], np.uint8).view(bool))


def test_sources() -> None:
    with pytest.raises(fl.Error) as caught:
        fl.compile("fn f(x: f32[n]) = y + z")
    error = caught.value
    assert error.code == "E0101" and error.span == (18, 19)
    assert "<source>:1:19" in str(error) and "^" in str(error)
    assert [each.span for each in error.errors] == [(18, 19), (22, 23)]
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.span, str(again)) == (error.code, error.span, str(error))
    with pytest.raises(fl.Error, match="E0001"):
        fl.compile("# " + "a" * (17 << 20))
    with pytest.raises(fl.Error, match="there is no device `tpu`"):
        fl.compile("fn f() = 1", device="tpu")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        fl.load("/nowhere/at/all.fl")


def test_a_limit_of_steps() -> None:
    f = fl.compile("fn f(x: f64) = loop y = x while y > 0 { y + 1 }", max_steps=100).f
    refused("E0244", "more than 100 steps", "raise the limit", f, 1.0)


def test_memory_that_is_not_there() -> None:
    f = fl.compile("fn f(n: i64) = iota(n)").f
    with pytest.raises(fl.Error) as caught:
        f(1 << 47)
    assert caught.value.code in ("E0241", "E0240", "E0209")


def test_errors_in_threads() -> None:
    failures: list[fl.Error] = []

    def work() -> None:
        for _ in range(100):
            try:
                MODULE.scaled(np.ones(3), 1)
            except fl.Error as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 400 and {error.code for error in failures} == {"E0202"}


def test_nothing_leaks() -> None:
    x = np.ones(1 << 18, np.float32)
    import resource

    def used() -> int:
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(50):
        MODULE.scaled(x, 2)
    before = used()
    for _ in range(2000):
        MODULE.scaled(x, 2)
        try:
            MODULE.scaled(x.astype(np.float64), 2)
        except fl.Error:
            pass
    assert used() - before < 20_000
