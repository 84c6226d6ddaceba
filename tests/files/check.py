"""Holds what the command writes against NumPy and safetensors, and what it reads against what they wrote.

    python tests/files/check.py [path of the fuseloop binary]

An array of every type, of several shapes, goes through a program that gives it back: from each format that has the type to
each such format and through standard input and output. What NumPy and safetensors then read must be the array, bit for bit, but
for NaNs: of those a type has just one in files.
"""

import io
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file, save_file

BINARY = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "target/release/fuseloop"
TYPES = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "i64": "i8", "u32": "u4", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "bf16": ml_dtypes.bfloat16,
}
SHAPES = [(), (0,), (7,), (5, 3), (2, 0, 3), (2, 3, 4)]
rng = np.random.default_rng(1)


def array(dtype, shape):
    """Any bits at all, but for truth values."""
    width = np.dtype(dtype).itemsize
    raw = rng.integers(0, 2 if dtype == "?" else 256, (*shape, width), np.uint8)
    return raw.reshape(-1).view(dtype).reshape(shape)


def canonical(x):
    """The array with canonical NaNs, as files have them."""
    bits = {"e": 0x7E00, "f": 0x7FC00000, "d": 0x7FF8000000000000}.get(x.dtype.char)
    if x.dtype == ml_dtypes.bfloat16:
        bits = 0x7FC0
    if bits is None:
        return x
    words = np.atleast_1d(x.copy()).view(f"u{x.itemsize}")
    words[np.isnan(np.atleast_1d(x))] = bits
    return words.view(x.dtype).reshape(x.shape)


def inputs(folder, x):
    """Each way to give an array: an argument, and what is on standard input."""
    save_file({"other": np.zeros(1, "c8"), "key": x}, folder / "in.safetensors")
    yield f"{folder}/in.safetensors:key", None
    if x.dtype == ml_dtypes.bfloat16:
        return
    np.save(folder / "in.npy", x)
    yield f"{folder}/in.npy", None
    yield "-", (folder / "in.npy").read_bytes()
    np.save(folder / "swapped.npy", np.asarray(x.astype(x.dtype.newbyteorder(">")), order="F"))
    yield f"{folder}/swapped.npy", None
    np.savez(folder / "in.npz", x, key=x)
    yield f"{folder}/in.npz:key", None
    np.savez_compressed(folder / "small.npz", key=x)
    yield f"{folder}/small.npz", None


def outputs(folder, x):
    """Each way to take one: options, and how to read it back from a file or standard output."""
    yield f"{folder}/out.safetensors", lambda _: load_file(folder / "out.safetensors")["out"]
    if x.dtype == ml_dtypes.bfloat16:
        return
    yield f"out={folder}/out.npy", lambda _: np.load(folder / "out.npy")
    yield f"{folder}/out.npz:key", lambda _: np.load(folder / "out.npz")["key"]
    yield f"{folder}/small_out.npz:key --compress", lambda _: np.load(folder / "small_out.npz")["key"]
    yield "out=-", lambda stdout: np.load(io.BytesIO(stdout))


def main():
    runs = 0
    for (name, dtype), shape in itertools.product(TYPES.items(), SHAPES):
        x = array(dtype, shape)
        axes = ", ".join("nmk"[: len(shape)])
        with tempfile.TemporaryDirectory() as at:
            folder = Path(at)
            program = folder / "same.fl"
            program.write_text(f"fn same(x: {name}{f'[{axes}]' if axes else ''}) = x\n")
            for (value, stdin), (options, read) in itertools.product(inputs(folder, x), outputs(folder, x)):
                command = [BINARY, "run", program, f"x={value}", "-o", *options.split()]
                done = subprocess.run(command, input=stdin, capture_output=True)
                shown = f"{name} {shape}, x={value} -o {options}"
                assert done.returncode == 0, f"{shown}: {done.stderr.decode()}"
                back = read(done.stdout)
                assert (back.dtype, back.shape) == (x.dtype, x.shape), f"{shown}: {back.dtype} {back.shape}"
                assert back.tobytes() == canonical(x).tobytes(), f"{shown}: {back}\nis not\n{x}"
                runs += 1
    print(f"{runs} arrays through the command, in and out of NumPy's and safetensors' files")


if __name__ == "__main__":
    main()
