"""Makes the files of this folder: arrays as NumPy and safetensors themselves write them.

    pip install numpy==2.4.6 ml_dtypes==0.6.0 safetensors==0.8.0 && python tests/files/make.py

`expected.txt` says what each place holds: type, shape and the elements' bytes, row-major and the low byte first; or the
code of the error that reading it gives. `tests/tests/files.rs` holds the reader to it.
"""

import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).parent
NAMES = {
    "bool": "?", "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "i64": "i8", "u32": "u4", "u64": "u8",
    "f16": "f2", "f32": "f4", "f64": "f8", "bf16": ml_dtypes.bfloat16,
}
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 3), (2, 3, 2)]
expected = []


def name(dtype):
    return next(key for key, value in NAMES.items() if np.dtype(value) == np.dtype(dtype).newbyteorder("="))


def holds(place, array):
    little = array.astype(array.dtype.newbyteorder("<"))
    shape = "x".join(map(str, array.shape)) or "-"
    expected.append(f"{place} {name(array.dtype)} {shape} {little.tobytes().hex() or '-'}")


def fails(place, code):
    expected.append(f"{place} error {code}")


def array(dtype, shape):
    """Every element another, the sign and the top byte in use."""
    count = int(np.prod(shape))
    n = np.arange(count)
    values = n % 2 if np.dtype(dtype) == bool else n * 37 % 128 - (0 if np.dtype(dtype).kind == "u" else 60)
    if np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize > 1:
        values = values << 4 * np.dtype(dtype).itemsize
    return np.asarray(values).astype(dtype).reshape(shape)


arrays = {}
for key, dtype in NAMES.items():
    if key == "bf16":
        continue
    for shape in SHAPES:
        for order in "<>":
            for layout in "CF":
                made = np.asarray(array(dtype, shape), dtype=np.dtype(dtype).newbyteorder(order), order=layout)
                arrays[f"{key}-{'x'.join(map(str, shape))}-{'le' if order == '<' else 'be'}-{layout}"] = made

np.savez(HERE / "stored.npz", **arrays)
np.savez_compressed(HERE / "deflated.npz", **arrays)
for key, made in arrays.items():
    holds(f"stored.npz:{key}", made)
    holds(f"deflated.npz:{key}.npy", made)

# The files that NumPy itself writes, in each version of the format.
grid = array("f4", (2, 3))
for version in (1, 2, 3):
    with open(HERE / f"version{version}.npy", "wb") as file:
        np.lib.format.write_array(file, grid, version=(version, 0))
    holds(f"version{version}.npy", grid)
for file, made in {
    "scalar.npy": np.float64(2.5),
    "fortran.npy": np.asfortranarray(grid),
    "swapped.npy": grid.astype(">f4"),
    "view.npy": np.arange(24, dtype="i4").reshape(4, 6)[::2, ::-3],
    "empty.npy": np.zeros((3, 0, 2), "u1"),
}.items():
    np.save(HERE / file, made)
    holds(file, np.asarray(made))
np.savez(HERE / "one.npz", grid)
holds("one.npz", grid)
holds("one.npz:arr_0", grid)
np.savez(HERE / "none.npz")
fails("none.npz", "E0319")
# As NumPy writes it where it cannot go back: sizes follow the data.
with open(HERE / "streamed.npz", "wb") as file:
    class Stream(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            return file.write(data)

    np.savez_compressed(Stream(), x=grid)
holds("streamed.npz:x", grid)
# An archive of another writer, with a comment, a folder and a part that is no array.
with zipfile.ZipFile(HERE / "other.npz", "w", zipfile.ZIP_DEFLATED) as file:
    file.comment = b"a comment"
    file.writestr(zipfile.ZipInfo("readme.txt"), "no array")
    file.writestr(zipfile.ZipInfo("folder/"), "")
    with file.open("folder/x.npy", "w") as part:
        np.save(part, grid)
    with file.open(zipfile.ZipInfo("b.npy"), "w") as part:
        np.save(part, grid[0])
holds("other.npz:folder/x", grid)
holds("other.npz:b", grid[0])
fails("other.npz:readme.txt", "E0318")
with zipfile.ZipFile(HERE / "bzip2.npz", "w", zipfile.ZIP_BZIP2) as file, file.open("x.npy", "w") as part:
    np.save(part, grid)
fails("bzip2.npz:x", "E0312")

# Types that the language does not have.
foreign = {
    "c8": np.zeros(2, "c8"), "c16": np.zeros(2, "c16"),
    "longdouble": np.zeros(2, "g"), "bytes": np.array([b"a"]), "text": np.array(["a"]), "date": np.zeros(2, "M8[s]"),
    "span": np.zeros(2, "m8[s]"), "void": np.zeros(2, "V3"), "record": np.zeros(2, [("a", "f4"), ("b", "i4", 2)]),
    "object": np.array([1, None]), "bf16": np.zeros(2, ml_dtypes.bfloat16), "f8": np.zeros(2, ml_dtypes.float8_e4m3fn),
}
np.savez_compressed(HERE / "foreign.npz", **foreign)
for key in foreign:
    fails(f"foreign.npz:{key}", "E0307")

tensors = {}
for key, dtype in NAMES.items():
    for shape in SHAPES:
        tensors[f"{key}-{'x'.join(map(str, shape))}"] = array(dtype, shape)
save_file(tensors, HERE / "all.safetensors", metadata={"format": "np"})
for key, made in tensors.items():
    holds(f"all.safetensors:{key}", made)
save_file({"w": grid}, HERE / "one.safetensors")
holds("one.safetensors", grid)
save_file({"c64": np.zeros(2, "c8"), "f8": np.zeros(3, ml_dtypes.float8_e4m3fn), "x": grid}, HERE / "foreign.safetensors")
fails("foreign.safetensors:c64", "E0307")
fails("foreign.safetensors:f8", "E0307")
holds("foreign.safetensors:x", grid)

# The files that the writer must reproduce, byte for byte.
mixed = {"b": array("f4", (2, 3)), "a": array("i8", (3,)), "c": np.array(True)}
np.savez(HERE / "written.npz", **mixed)
save_file(mixed, HERE / "written.safetensors")

(HERE / "expected.txt").write_text("\n".join(expected) + "\n")
