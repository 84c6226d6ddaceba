"""Measures functions on a cluster of Dask, on this machine, against the library alone.

    python bench/cluster.py

Two workers with a thread each stand against one call with two threads, the array being in the
memory of the workers before and after. Its blocks go to the workers in turn, so that each has half
of them, and with each block those of other arrays that belong to it; `--scattered` leaves their
places to Dask. Needs the Python package and Dask with its cluster; both take turns, and the best of
several rounds counts.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import fuseloop as fl
import numpy as np
from distributed import Client, LocalCluster, wait

SOURCE = """
fn black_scholes(s: f64[n], k: f64[n], t: f64[n], r: f64, v: f64) -> (call: f64[n], put: f64[n]) {
    let d1 = (log(s / k) + (r + v * v / 2) * t) / (v * sqrt(t))
    let d2 = d1 - v * sqrt(t)
    let lower = k * exp(-r * t)
    let call = s * 0.5 * (1 + erf(d1 / sqrt(2))) - lower * 0.5 * (1 + erf(d2 / sqrt(2)))
    (call, call - s + lower)
}
fn kmeans(x: f32[n, d], center: f32[k, d]) -> f32[k, d] {
    let far[i, c] = sum[j]((x[i, j] - center[c, j]) ^ 2)
    let label = argmin(far, axis = 1)
    let next[c < k, j] = mean[i where label[i] == c](x[i, j])
    next
}
fn scaled(x: f32[n], by: f32) = x * by
fn neighbours(x: f32[n, m], by: f32) {
    let y[i, j] = by * x[i, j] + x[i + 1, j]
    y
}
"""


def best(rounds: int, *runs: Callable[[], Any]) -> list[float]:
    """The least time of each, which take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, own in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            own.append(time.perf_counter() - start)
    return [min(own) for own in times]


def in_blocks(client: Client, function: Any, *args: Any, last: Callable[[int], Any]) -> Callable[[], Any]:
    """A call on a cluster that has its arguments, and leaves the results there. `last` gives another
    last argument for each call, since Dask does not compute again what it still has."""
    calls = itertools.count()

    def run() -> None:
        result = fl.dask.apply(function, *args, last(next(calls)))
        wait(client.persist(list(result) if isinstance(result, tuple) else result))

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scattered", action="store_true")
    options = parser.parse_args()
    rounds = options.rounds
    warnings.simplefilter("ignore")
    module = fl.compile(SOURCE)
    rng = np.random.default_rng(1)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    with cluster, Client(cluster) as client:

        workers = sorted(client.scheduler_info()["workers"])

        def of_block(key: Any) -> str | None:
            return workers[key[1] % len(workers)] if isinstance(key, tuple) else None

        def there(array: Any, chunks: Any) -> Any:
            with dask.annotate(**({} if options.scattered else {"workers": of_block})):
                lazy = client.persist(da.from_array(array, chunks=chunks), optimize_graph=False)
            wait(lazy)
            return lazy

        n = 1 << 27
        given = [rng.uniform(low, high, n) for low, high in ((10, 50), (10, 50), (0.2, 2))]
        blocks = [there(array, n // 8) for array in given]
        alone, apart = best(
            rounds,
            lambda: module.black_scholes(*given, 0.05, 0.2, threads=2),
            in_blocks(client, module.black_scholes, *blocks, 0.05, last=lambda k: 0.2 + k / 1000),
        )
        print(f"Black-Scholes, {n} options, 8 blocks: {alone:.3f} s alone, {apart:.3f} s on workers: {apart / alone:.2f}")

        points, centers = rng.random((1 << 22, 16), np.float32), rng.random((256, 16), np.float32)
        lazy = there(points, (1 << 19, 16))
        alone, apart = best(
            rounds,
            lambda: module.kmeans(points, centers, threads=2),
            in_blocks(client, module.kmeans, lazy, last=lambda k: centers + np.float32(k / 1000)),
        )
        print(f"k-means, {len(points)} points, 8 blocks: {alone:.3f} s alone, {apart:.3f} s on workers: {apart / alone:.2f}")

        factors = map(np.float32, itertools.count())
        for count in (100, 1000):
            small = there(rng.random(count * 1000, np.float32), 1000)
            (apart,) = best(3, in_blocks(client, module.scaled, small, last=float))
            (own,) = best(3, lambda: wait(client.persist(small * next(factors))))
            print(f"{count} blocks of 1,000: {apart / count * 1e3:.2f} ms a block, {own / count * 1e3:.2f} by Dask's own product")

        wide = rng.random((64, 1 << 20), np.float32)
        pair = there(wide, (8, 1 << 20))
        (apart,) = best(3, in_blocks(client, module.neighbours, pair, last=float))
        (alone,) = best(3, lambda: module.neighbours(wide, 2.0, threads=2))
        print(f"8 blocks of 32 MB that read 4 MB of a neighbour: {apart:.3f} s, {alone:.3f} s alone")


if __name__ == "__main__":
    main()
