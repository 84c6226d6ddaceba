"""Standardizes the columns of a table that is larger than the memory of a worker.

    python python/examples/larger_than_memory.py --megabytes 1000 --limit 400MB

The table lies on disk as Zarr, and the result is written as Zarr next to it. Each worker has a block
or two in its memory at a time. Needs Dask with its cluster, and Zarr.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from typing import Any

import dask.array as da
import fuseloop as fl
import numpy as np
import zarr
from distributed import Client, LocalCluster

SOURCE = "fn standardized(x: f32[n, m]) = (x - mean(x, axis = 0)) / std(x, axis = 0)"
COLUMNS = 1000
ROWS = 5120  # a multiple of 256, where the order of a sum across rows can be cut


def run(folder: pathlib.Path, megabytes: int, limit: str, workers: int = 2) -> Any:
    """Writes a table, lets the workers standardize it, and returns both as they lie on disk."""
    blocks = max(1, megabytes * 1_000_000 // (4 * COLUMNS * ROWS))
    shape = (blocks * ROWS, COLUMNS)
    table = zarr.create_array(folder / "table.zarr", shape=shape, chunks=(ROWS, COLUMNS), dtype="f4", compressors=None)
    rng = np.random.default_rng(1)
    for block in range(blocks):
        table[block * ROWS : (block + 1) * ROWS] = rng.normal(block, 2, (ROWS, COLUMNS)).astype(np.float32)
    standardized = fl.compile(SOURCE).standardized
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=limit, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        x = da.from_zarr(table)
        fl.dask.apply(standardized, x).to_zarr(folder / "standardized.zarr")
    return table, zarr.open_array(folder / "standardized.zarr", mode="r")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="the size of the table")
    parser.add_argument("--limit", default="400MB", help="the memory of each worker")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table, result = run(pathlib.Path(folder), given.megabytes, given.limit)
        last = result[-ROWS:]
        print(f"{table.nbytes / 1e6:.0f} MB of {table.shape[0]} rows; the last block: mean {last.mean():.4f}")


if __name__ == "__main__":
    main()
