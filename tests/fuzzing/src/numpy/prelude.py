# The language's operations in NumPy, written from its reference: integers wrap and a division by zero is 0, `/` truncates,
# conversions from floats saturate, `min` and `max` give NaN and put -0 below +0. Programs and their calls follow.
import numpy as np

np.seterr(all="ignore")
np.set_printoptions(threshold=20)

TYPES = {
    "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32,
    "i64": np.int64, "u32": np.uint32, "u64": np.uint64, "f32": np.float32, "f64": np.float64,
}


def is_float(x):
    return np.issubdtype(x.dtype, np.floating)


def literal(ty, value):
    return np.asarray(value, dtype=TYPES[ty])


def cast(ty, x):
    x, to = np.asarray(x), TYPES[ty]
    if ty == "bool":
        return x != 0
    if not is_float(x) or not np.issubdtype(to, np.integer):
        return x.astype(to)
    least, greatest = np.iinfo(to).min, np.iinfo(to).max
    x = np.trunc(x.astype(np.float64))
    inside = (x > float(least)) & (x < float(greatest))
    wide = np.where(inside, x, 0).astype(np.uint64 if ty == "u64" else np.int64).astype(to)
    beyond = np.where(x >= float(greatest), to(greatest), np.where(x <= float(least), to(least), to(0)))
    return np.where(inside, wide, beyond)


def divide(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if is_float(a):
        return a / b
    quotient, rest = floor_divide(a, b)
    towards_zero = quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype)
    return np.where(b == 0, a.dtype.type(0), towards_zero)


def floor_divide(a, b):
    divisor = np.where(b == 0, a.dtype.type(1), b)
    quotient = a // divisor
    return quotient, a - quotient * divisor


def remainder(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if is_float(a):
        return np.fmod(a, b)
    return np.where(b == 0, a.dtype.type(0), a - divide(a, b) * b)


def floor_div(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if is_float(a):
        return np.floor_divide(a, b)
    return np.where(b == 0, a.dtype.type(0), floor_divide(a, b)[0])


def mod(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if is_float(a):
        return np.mod(a, b)
    return np.where(b == 0, a.dtype.type(0), floor_divide(a, b)[1])


def larger(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if not is_float(a):
        return np.maximum(a, b)
    greater = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type("nan"), greater)


def smaller(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if not is_float(a):
        return np.minimum(a, b)
    less = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type("nan"), less)


def clamp(x, low, high):
    return smaller(larger(x, low), high)


def relu(x):
    return larger(x, np.asarray(x).dtype.type(0))


def sign(x):
    x = np.asarray(x)
    if is_float(x):
        return np.where((x == 0) | np.isnan(x), x, np.copysign(x.dtype.type(1), x))
    return np.sign(x)


def power(x, exponent):
    x = np.asarray(x)
    square = x * x
    return {0: np.ones_like(x), 1: x, 2: square, 3: square * x, 4: square * square}[exponent]


def shift(a, b, left):
    a, b = np.asarray(a), np.asarray(b)
    width = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    by = np.where(inside, b, b.dtype.type(0))
    if left:
        return np.where(inside, a << by, a.dtype.type(0))
    return np.where(inside, a >> by, a >> a.dtype.type(width - 1) if np.issubdtype(a.dtype, np.signedinteger) else a.dtype.type(0))


def choose(condition, then, otherwise):
    return np.where(condition, then, otherwise)


def at(array, *subscripts):
    """Elements of an array. What is outside stands under a condition that does not take it."""
    if array.size == 0:
        return np.zeros(np.broadcast_shapes(*(np.shape(s) for s in subscripts)), array.dtype)
    inside = [np.clip(np.asarray(s).astype(np.int64), 0, n - 1) for s, n in zip(subscripts, array.shape)]
    return array[tuple(inside)]


def grid(*lengths):
    """The indices of an array of these lengths."""
    if any(n < 0 for n in lengths):
        raise Refused
    return np.indices(lengths, dtype=np.int64)


def filled(value, *lengths):
    return np.broadcast_to(value, lengths)


def tail(array):
    """All rows but the first, which there must be."""
    if array.shape[0] == 0:
        raise Refused
    return array[1:]


def agree(*operands):
    """Arrays that are combined have axes of one length, counted from the last, where that is not the literal 1."""
    for back in range(1, max(array.ndim for array, _ in operands) + 1):
        lengths = {array.shape[-back] for array, ones in operands if array.ndim >= back and not ones[-back]}
        if len(lengths) > 1:
            raise Refused


def row(array):
    """The first row, which there must be, unless rows have no elements."""
    if array.shape[0] == 0 and array.shape[1] > 0:
        raise Refused
    return at(array, np.int64(0), np.arange(array.shape[1]))


def least(ty):
    return -np.inf if ty.startswith("f") else np.iinfo(TYPES[ty]).min


def greatest(ty):
    return np.inf if ty.startswith("f") else np.iinfo(TYPES[ty]).max


def reduce(op, ty, body, bound, *indices, is_sure=False):
    """`op[k < bound](body)` at each setting of the indices around it; `ty` is the type of the body, widened. It may not be computed
    at all, or over fewer elements than `k` has values, unless that is sure."""
    bound = np.asarray(bound)
    bound = np.minimum(bound, np.iinfo(np.int64).max).astype(np.int64)
    length = max(0, int(bound.max(initial=0)))
    k = np.arange(length, dtype=np.int64)
    around = [np.asarray(i)[..., None] for i in indices]
    value = np.asarray(body(*around, k))
    taken = k < bound[..., None]
    shape = np.broadcast_shapes(value.shape, taken.shape, *(i.shape for i in around))
    value, taken = np.broadcast_to(value, shape), np.broadcast_to(taken, shape)
    return fold(op, ty, value, taken, is_sure)


def fold(op, ty, value, taken, is_sure=True):
    global unsure
    to = TYPES[ty]
    if op.startswith("arg") and (taken.shape[-1] == 0 or not taken.any(axis=-1).all()):
        # There is no first of nothing, even where the loops around have no iterations.
        if is_sure:
            raise Refused
        unsure = True
    if op == "any":
        return (value & taken).any(axis=-1)
    if op == "all":
        return (value | ~taken).all(axis=-1)
    empty = {"sum": 0, "prod": 1, "max": least, "argmax": least, "min": greatest, "argmin": greatest}[op]
    empty = to(empty(ty) if callable(empty) else empty)
    value = np.where(taken, value, empty)
    if op == "sum":
        return np.add.reduce(value, axis=-1, dtype=to)
    if op == "prod":
        return np.multiply.reduce(value, axis=-1, dtype=to)
    result = np.full(value.shape[:-1], empty, to)
    place = np.zeros(value.shape[:-1], np.int64)
    better = larger if op.endswith("max") else smaller
    for n in range(value.shape[-1]):
        candidate, here = value[..., n], taken[..., n]
        if n == 0:
            takes = here
        elif op == "argmax":
            takes = here & ((candidate > result) | (np.isnan(candidate) & ~np.isnan(result)))
        elif op == "argmin":
            takes = here & ((candidate < result) | (np.isnan(candidate) & ~np.isnan(result)))
        place = np.where(takes, n, place)
        if op.startswith("arg"):
            result = np.where(takes, candidate, result)
        else:
            result = np.where(here, better(result, candidate), result)
    return place if op.startswith("arg") else result


class Refused(Exception):
    """The program has no results here."""


# Whether there may be no results: for a place that there is not, if anything needs it.
unsure = False


def array(ty, shape, text):
    return np.frombuffer(bytes.fromhex(text), TYPES[ty]).reshape(shape)


def same(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if is_float(a):
        nan = np.isnan(a)
        return bool((nan == np.isnan(b)).all()) and a[~nan].tobytes() == b[~nan].tobytes()
    return a.tobytes() == b.tobytes()


compared = refused = 0


def call(number, function, arguments, expected):
    """Compares a call's results with what NumPy gives."""
    global compared, refused, unsure
    unsure = False
    try:
        found = function(*arguments)
    except Refused:
        refused += 1
        if expected is not None:
            print(f"differs {number}: NumPy has no results")
        return
    if expected is None:
        refused += 1
        if not unsure:
            print(f"differs {number}: Fuseloop has no results")
        return
    compared += 1
    for n, (a, b) in enumerate(zip(found, expected, strict=True)):
        a = np.asarray(a)
        if not same(a, b):
            shown = f"NumPy has {a.dtype}{list(a.shape)} {a}, Fuseloop {b.dtype}{list(b.shape)} {b}"
            print(f"differs {number}: result {n}: {' '.join(shown.split())}")
