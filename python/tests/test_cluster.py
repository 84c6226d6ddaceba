"""A cluster of processes: the same bits when one is killed, when an array is larger than the memory
of a worker, and a clear error where a worker lacks the package."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import fuseloop as fl
import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="Dask's cluster is not installed")
da = pytest.importorskip("dask.array", reason="Dask's arrays are not installed")

STANDARDIZED = "fn standardized(x: f64[n, m]) = (x - mean(x, axis = 0)) / std(x, axis = 0)"


def cluster(workers: int, **options: Any) -> Any:
    """Processes with a thread each."""
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, **options
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(3) as processes, distributed.Client(processes) as client:
        yield client


def slowly(block: Any) -> Any:
    time.sleep(0.05)
    return block


def applied(function: Any, *args: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return fl.dask.apply(function, *args)


def test_workers_compile_from_source(client: Any, rng: np.random.Generator) -> None:
    standardized = fl.compile(STANDARDIZED).standardized
    x = rng.random((9000, 20))
    for chunks in ((1000, 7), (2560, 20), (9000, 5)):
        lazy = applied(standardized, da.from_array(x, chunks=chunks))
        assert lazy.compute().tobytes() == standardized(x).tobytes()


def test_an_error_of_a_task_is_that_of_the_call(client: Any) -> None:
    gathered = fl.compile("fn gathered(x: f32[m], i: i64[n]) = x[i]").gathered
    lazy = applied(gathered, np.ones(3, np.float32), da.from_array(np.array([0, 1, 5, 2]), chunks=2))
    with pytest.raises(fl.Error, match="x\\[i\\]"):
        lazy.compute()


def test_a_worker_is_killed(client: Any, rng: np.random.Generator) -> None:
    standardized = fl.compile(STANDARDIZED).standardized
    x = rng.random((20_000, 30))
    lazy = applied(standardized, da.from_array(x, chunks=(1000, 15)).map_blocks(slowly))
    future = client.compute(lazy)
    time.sleep(0.5)
    assert not future.done()
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    assert future.result(timeout=120).tobytes() == standardized(x).tobytes()


def test_a_worker_without_the_package() -> None:
    total = fl.compile("fn total(x: f64[n]) = sum(x)").total
    missing = "import sys; sys.modules['fuseloop'] = None"
    with cluster(1, preload=missing) as processes, distributed.Client(processes):
        with pytest.raises(RuntimeError, match="cannot import the package fuseloop .* install it where each worker runs"):
            applied(total, da.ones(8192, chunks=4096)).compute()


def test_an_array_larger_than_the_memory_of_a_worker(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("zarr", reason="Zarr is not installed")
    file = pathlib.Path(__file__).parents[1] / "examples/larger_than_memory.py"
    spec = importlib.util.spec_from_file_location("larger_than_memory", file)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    limit = 400_000_000
    table, result = example.run(tmp_path, megabytes=450, limit=str(limit))
    assert table.nbytes > limit
    expected = fl.compile(example.SOURCE).standardized(table[:])
    assert np.array_equal(result[:].view(np.uint32), expected.view(np.uint32))
