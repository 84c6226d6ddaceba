"""Arrays in the memory of a GPU. Without a GPU, or without torch, only the errors are tested."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuseloop as fl

SOURCE = """
fn scaled(x: f32[n, m], by: f32) = x * by
fn shares(x: f32[n]) = x / sum(x)
fn extremes(x: i32[n]) -> (lo: i32, all: i32[n]) = (min(x), x + 1)
fn first(k: i64, x: f32[n]) = x[:k]
fn half(x: bf16[n]) = bf16(x * 0.5)
fn turned(x: bool[n]) = !x
fn taken(x: f32[n], at: i64[k]) -> f32[k] {
    let y[i] = x[at[i]]
    y
}
"""


class Fake:
    """An object that says that it is on a GPU."""

    def __init__(self, **fields: Any) -> None:
        usual = {"version": 3, "shape": (4,), "typestr": "<f4", "data": (4096, False), "strides": None}
        self.__cuda_array_interface__ = usual | fields


class FakeTensor:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody asks for the memory of a GPU")


def test_a_program_for_the_cpu_refuses_arrays_on_a_gpu() -> None:
    module = fl.compile(SOURCE)
    for there in (Fake(), FakeTensor()):
        with pytest.raises(fl.Error, match="`x` is in the memory of a GPU, and the program is compiled for the CPU") as e:
            module.shares(there)
        assert 'device="gpu"' in str(e.value)
    with pytest.raises(fl.Error, match="in the memory of a GPU"):
        module.shares(np.ones(4, np.float32), out=Fake())
    with pytest.raises(fl.Error, match="`stream` orders calls on arrays in the memory of a GPU"):
        module.shares(np.ones(4, np.float32), stream=1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": None}, "has no `shape`"),
        ({"shape": (-1,)}, "has no `shape`"),
        ({"shape": (1,) * 17}, "has 17 axes, more than 16"),
        ({"typestr": None}, "has no `typestr`"),
        ({"typestr": "<c8"}, "has elements of type `<c8`, which the language lacks"),
        ({"typestr": ">f4"}, "has elements of type `>f4`"),
        ({"data": None}, "has no `data`"),
        ({"data": (-4, False)}, "has no `data`"),
        ({"mask": object()}, "is a masked array"),
        ({"strides": (8,)}, "not one after another in memory"),
        ({"strides": (3,)}, "not one after another in memory"),
        ({"strides": (4, 4)}, "not one after another in memory"),
        ({"strides": "no"}, "`strides` that are no integers"),
        ({"stream": 0}, "names 0 as its stream"),
        ({"stream": "no"}, "names no as its stream"),
    ],
)
def test_wrong_interfaces(fields: dict[str, Any], message: str) -> None:
    module = fl.compile(SOURCE, device="gpu")
    with pytest.raises(fl.Error, match=message):
        module.shares(Fake(**fields))


def test_an_interface_that_is_no_dictionary() -> None:
    fake = Fake()
    fake.__cuda_array_interface__ = 3  # type: ignore[assignment]
    with pytest.raises(fl.Error, match="another form than a dictionary"):
        fl.compile(SOURCE, device="gpu").shares(fake)


@pytest.mark.parametrize("device", ["gpu", "auto"])
def test_arrays_on_a_gpu_and_on_the_host(device: Any) -> None:
    module = fl.compile(SOURCE, device=device)
    with pytest.raises(fl.Error, match="`at` is in the memory of the host, and another array of the call in that of a GPU"):
        module.taken(Fake(), np.zeros(2, np.int64))
    with pytest.raises(fl.Error, match="is in the memory of the host"):
        module.shares(Fake(), out=np.zeros(4, np.float32))
    with pytest.raises(fl.Error, match="shares memory with the argument `x`"):
        module.shares(Fake(), out=Fake(data=(4100, False)))


def test_no_memory_there() -> None:
    # Without a driver the error is about that; with one, the address is asked for.
    with pytest.raises(fl.Error, match="E0260|`x` is not in the memory of a GPU"):
        fl.compile(SOURCE, device="gpu").shares(Fake())


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    yield torch


@pytest.fixture(scope="module")
def module(torch: Any) -> Any:
    return fl.compile(SOURCE, device="gpu")


class Shown:
    """A tensor of torch as an array that has nothing but `__cuda_array_interface__`."""

    def __init__(self, tensor: Any, **fields: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | {"version": 3} | fields


def test_tensors_of_torch(torch: Any, module: Any) -> None:
    x = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
    y = module.scaled(x, 2)
    assert isinstance(y, torch.Tensor) and y.is_cuda and torch.equal(y, 2 * x)
    out = torch.zeros(2, 3, device="cuda")
    where = out.data_ptr()
    assert module.scaled(x, np.float32(3), out=out) is out and out.data_ptr() == where
    assert torch.equal(out, 3 * x)
    both = module.extremes(torch.tensor([3, 1], dtype=torch.int32, device="cuda"))
    assert both.lo.item() == 1 and both.all.tolist() == [4, 2]
    half = module.half(torch.tensor([1.0, 3.0], dtype=torch.bfloat16, device="cuda"))
    assert half.dtype == torch.bfloat16 and half.tolist() == [0.5, 1.5]
    assert module.turned(torch.tensor([True, False], device="cuda")).tolist() == [False, True]
    assert module.first(2, torch.arange(5.0, device="cuda")).tolist() == [0, 1]
    assert torch.equal(module.scaled(x.T, 2), 2 * x.T)
    assert module.scaled(torch.zeros(0, 3, device="cuda"), 2).shape == (0, 3)


def test_the_bits_of_the_cpu(torch: Any, module: Any) -> None:
    x = torch.rand(100_003, device="cuda")
    there = module.shares(x)
    here = fl.compile(SOURCE).shares(x.cpu())
    assert torch.equal(there.cpu(), here)
    auto = fl.compile(SOURCE, device="auto").shares(x)
    assert torch.equal(auto.cpu(), here)


def test_errors_on_a_gpu(torch: Any, module: Any) -> None:
    x = torch.arange(4, dtype=torch.float32, device="cuda")
    with pytest.raises(fl.Error, match="E0202"):
        module.shares(x.double())
    with pytest.raises(fl.Error, match="shares memory"):
        module.shares(x, out=x)
    with pytest.raises(fl.Error, match="is in the memory of the host"):
        module.taken(x, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(fl.Error, match="is in the memory of the host"):
        module.shares(x, out=torch.zeros(4))
    with pytest.raises(fl.Error, match="in the memory of a GPU, and another array of the call is not"):
        module.shares(x.cpu(), out=torch.zeros(4, device="cuda"))
    with pytest.raises(fl.Error, match="read-only"):
        module.shares(x, out=Shown(torch.zeros(4, device="cuda"), data=(x.data_ptr() + 512, True)))
    with pytest.raises(fl.Error, match="E0220"):
        module.taken(x, torch.tensor([0, 9], device="cuda"))
    assert module.taken(x, torch.tensor([3, 1], device="cuda")).tolist() == [3, 1]
    odd = torch.tensor([0, 2], dtype=torch.uint8, device="cuda").view(torch.bool)
    with pytest.raises(fl.Error, match="no truth values"):
        module.turned(odd)
    with pytest.raises(fl.Error, match="`stream` is a stream of CUDA"):
        module.shares(x, stream="main")
    with pytest.raises(fl.Error, match=r"pass x\.cpu\(\)"):
        fl.compile(SOURCE).shares(x)


def test_memory_that_was_freed(torch: Any, module: Any) -> None:
    host = np.ones(4, np.float32)
    with pytest.raises(fl.Error, match="`x` is not in the memory of a GPU"):
        module.shares(Shown(torch.ones(4, device="cuda"), data=(host.ctypes.data, False)))
    runtime = torch.cuda.cudart()
    assert runtime is not None
    driver = ctypes.CDLL("libcuda.so.1")
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 24)) == 0
    there = Shown(torch.ones(4, device="cuda"), data=(address.value, False))
    module.shares(there)
    assert driver.cuMemFree_v2(address) == 0
    with pytest.raises(fl.Error, match="`x` is not in the memory of a GPU.*or it was freed"):
        module.shares(there)


def test_the_interface_in_and_out(torch: Any, module: Any) -> None:
    x = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
    torch.cuda.synchronize()
    y = module.scaled(Shown(x), 2)
    assert isinstance(y, fl.DeviceArray) and y.shape == (2, 3) and y.dtype == "float32"
    interface = y.__cuda_array_interface__
    assert interface["typestr"] == "<f4" and interface["version"] == 3 and interface["stream"] > 2
    assert y.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(y.numpy(), 2 * x.cpu().numpy())
    again = torch.from_dlpack(y)
    assert again.data_ptr() == interface["data"][0]
    third = module.scaled(y, 2)
    del y
    gc.collect()
    assert torch.equal(again, 2 * x)
    np.testing.assert_array_equal(third.numpy(), 4 * x.cpu().numpy())
    with pytest.raises(BufferError):
        third.__dlpack__(stream=1, dl_device=(1, 0))


@pytest.mark.parametrize("how", ["current", "argument", "number", "interface"])
def test_calls_are_in_the_order_of_the_stream(torch: Any, module: Any, how: str) -> None:
    n = 1 << 22
    stream = torch.cuda.Stream()
    module.shares(torch.ones(n, device="cuda"))  # compiled before anything is timed
    torch.cuda.synchronize()
    for round in range(1, 6):
        with torch.cuda.stream(stream):
            x = torch.zeros(n, device="cuda")
            torch.cuda._sleep(100_000_000)  # some 50 ms
            x += round
            if how == "current":
                y = module.scaled(x.reshape(2, -1), 2)
            elif how == "interface":
                given = Shown(x.reshape(2, -1), stream=stream.cuda_stream)
                y = torch.from_dlpack(module.scaled(given, 2))
            else:
                named = stream if how == "argument" else stream.cuda_stream
                y = torch.from_dlpack(module.scaled(Shown(x.reshape(2, -1)), 2, stream=named))
            # What comes next on the stream comes after the call, although it overwrites its argument.
            x.fill_(-1)
            again = y + 1
        stream.synchronize()
        assert bool((again == 2 * round + 1).all()), (how, round)


def test_memory_is_not_taken_back_too_early(torch: Any, module: Any) -> None:
    n = 1 << 22
    for round in range(20):
        x = torch.full((2, n), float(round), device="cuda")
        y = module.scaled(x, 2)
        del x
        z = torch.full((2, n), -1.0, device="cuda")  # probably where `x` was
        w = module.scaled(y, 2)
        del y
        assert bool((w == 4 * round).all()) and bool((z == -1).all())


def test_jit_takes_tensors(torch: Any) -> None:
    @fl.jit
    def shares(x: Any) -> Any:
        return x / x.sum()

    x = torch.rand(1000, device="cuda")
    y = shares(x)
    assert y.is_cuda and torch.equal(y.cpu(), shares(x.cpu()))
