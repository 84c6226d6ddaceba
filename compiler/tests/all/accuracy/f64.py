"""Makes `f64.txt`: arguments and correctly rounded results for the f64 expansions.

    python3 compiler/tests/all/accuracy/f64.py > compiler/tests/all/accuracy/f64.txt

Needs mpmath. Each section is a function's name and lines of three: the bits of an argument, the bits of the result rounded to
nearest, and what rounding took from it in thousandths of a unit in the last place. Arguments are random in
exponent and in the intervals where most happens, near multiples of pi / 2, and about thresholds. An argument
to the script is the number of points for each function.
"""

import random
import struct
import sys

import mpmath as mp

mp.mp.dps = 60
POINTS = int(sys.argv[1]) if len(sys.argv) > 1 else 400


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(b):
    return struct.unpack("<d", struct.pack("<Q", b))[0]


def rounded(exact):
    """The double nearest to `exact`, and (exact - it) in thousandths of its unit in the last place."""
    if exact == 0:
        return 0.0, 0
    exponent = max(mp.frexp(exact)[1], -1021) - 53
    units = mp.nint(mp.ldexp(exact, -exponent))
    rest = mp.ldexp(exact, -exponent) - units
    if abs(units) >= 2**53 and exponent == 971:
        return float("inf") if units > 0 else float("-inf"), 0
    value = float(mp.ldexp(units, exponent))
    if value == 0 and exact < 0:
        value = -0.0
    return value, int(mp.nint(rest * 1000))


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def gelu_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))


def lgamma(x):
    if x > 0:
        return mp.loggamma(x)
    return mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


# For each function: its value, the range of the argument's binary exponent, whether arguments may be negative, and
# the intervals and thresholds that get points of their own.
FUNCTIONS = {
    "exp": (mp.exp, (-60, 10), True, [(-746, -700), (-1, 1), (-710, 710)], [0.34657, 709.78271289338397, -745.1332191019411]),
    "log": (mp.log, (-1074, 1023), False, [(0.5, 2), (0.99, 1.01)], [0.70710678118654752, 1.0, 1.4142135623730951, 2.0**-1022]),
    "sin": (mp.sin, (-60, 1023), True, [(-10, 10), (-1000, 1000), (0, 2.0**41)], [2.0**40, 0.7853981633974483]),
    "cos": (mp.cos, (-60, 1023), True, [(-10, 10), (-1000, 1000), (0, 2.0**41)], [2.0**40, 0.7853981633974483]),
    "tanh": (mp.tanh, (-60, 6), True, [(-1, 1), (0.4, 0.7)], [0.55, 19.0]),
    "sigmoid": (sigmoid, (-60, 10), True, [(-750, -690), (-5, 5), (-40, 40)], [-708.4, -745.13]),
    "erf": (mp.erf, (-60, 3), True, [(-1, 1), (0.9, 1.1), (1, 6)], [1.0, 5.92]),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), (-1074, 1023), False, [(0.5, 4)], [1.0]),
    "gelu": (gelu, (-60, 6), True, [(-1, 1), (-8, 3), (-39, 0), (-38.6, -37)], [-38.4, -37.5]),
    "exp2": (lambda x: mp.mpf(2) ** x, (-60, 10), True, [(-1076, -1000), (-1, 1), (-1024, 1024)], [0.5, 1023.99, -1074.9]),
    "expm1": (mp.expm1, (-1074, 10), True, [(-1, 1), (0.3, 1.1), (-40, 40), (-710, 710)], [0.34657, 1.0397, 709.782]),
    "log2": (lambda x: mp.log(x) / mp.log(2), (-1074, 1023), False, [(0.5, 2), (0.99, 1.01)], [0.70710678118654752, 1.0]),
    "log10": (mp.log10, (-1074, 1023), False, [(0.5, 2), (0.99, 1.01)], [0.70710678118654752, 1.0]),
    "log1p": (mp.log1p, (-70, 1023), False, [(-0.999, 1), (-0.1, 0.1), (0, 8)], [-0.29289, 0.41421, 1.0]),
    "tan": (mp.tan, (-60, 1023), True, [(-10, 10), (-1000, 1000), (0, 2.0**41)], [2.0**40, 0.7853981633974483]),
    "sinh": (mp.sinh, (-60, 9), True, [(-3, 3), (-711, 711)], [1.0, 710.4758600739439]),
    "cosh": (mp.cosh, (-30, 9), True, [(-3, 3), (-711, 711)], [710.4758600739439]),
    "silu": (lambda x: x * sigmoid(x), (-60, 10), True, [(-751, -690), (-5, 5), (-40, 40)], [-708.4, -745.13]),
    "gelu_tanh": (gelu_tanh, (-60, 5), True, [(-1, 1), (-8, 3), (-22, 0)], [-20.5, -21.0]),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), (-60, 10), True, [(-750, -690), (-5, 5), (-40, 40)], [-708.4, 0.5]),
}
FUNCTIONS |= {
    "asin": (mp.asin, (-60, -1), True, [(-1, 1), (0.49, 0.51), (0.9, 1)], [0.5, 1 - 2.0**-50]),
    "acos": (mp.acos, (-60, -1), True, [(-1, 1), (0.49, 0.51), (0.9, 1), (-0.51, -0.49)], [0.5, -0.5, 1 - 2.0**-50]),
    "atan": (mp.atan, (-1074, 1023), True, [(-1, 1), (0.4, 0.45), (0, 4)], [0.41421357, 1.0, 2.414213562373095]),
    "asinh": (mp.asinh, (-1074, 1023), True, [(-1, 1), (0.4, 0.6), (0, 10)], [0.5, 2.0**53, 2.0**511]),
    "acosh": (mp.acosh, (0, 1023), False, [(1, 1.001), (1, 2), (1, 100)], [1 + 2.0**-50, 2.0**53, 2.0**511]),
    "atanh": (mp.atanh, (-1074, -1), True, [(-1, 1), (0.16, 0.18), (0.99, 1)], [0.1716, 0.5, 1 - 2.0**-50]),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), (-1074, 1023), True, [(-1, 1), (1, 8)], [1.0, 2.0, 4.0, 8.0, 2.0**-1022]),
    "pow": (mp.power,),
    "atan2": (mp.atan2,),
}
# Between negative integers, where the results are infinite, there are fractions.
BELOW = [(-1, 0), (-3, -1), (-4, -2), (-20, -3), (-1000, 0), (-1e12, 0)]
FUNCTIONS |= {
    "erf_inv": (mp.erfinv, (-1074, -1), True, [(-1, 1), (0.99, 1), (0.998, 0.9982)], [1 - 2.0**-50, 1 - 2.0**-24, 0.99903]),
    "lgamma": (lgamma, (-1074, 1012), False, [(0, 4), (0.7, 1.3), (1.9, 2.1), (3, 100), *BELOW], [1.0, 2.0, 3.0, 2.5563481638716905e305]),
    "digamma": (mp.digamma, (-1022, 1023), False, [(0, 4), (1.4, 1.5), (3, 100), *BELOW], [1.0, 1.4616321449683622, 2.0, 3.0]),
}
TRIGONOMETRIC = {"sin", "cos", "tan"}


def arguments(name, exponents, negative, intervals, thresholds):
    random.seed(name)
    for i in range(POINTS):
        kind = i % (len(intervals) + 2)
        if kind < len(intervals):
            yield random.uniform(*intervals[kind])
        elif kind == len(intervals) and (thresholds or name in TRIGONOMETRIC):
            if name in TRIGONOMETRIC and i % 3:
                # The double nearest to a multiple of pi / 2, small or huge.
                x = float(mp.mpf(random.getrandbits(random.randint(1, 60))) * mp.pi / 2)
            else:
                x = random.choice(thresholds)
            yield from_bits(max(bits(x) + random.randint(-3, 3), 1)) if x else 0.0
        else:
            x = mp.ldexp(random.uniform(1, 2), random.randint(*exponents))
            yield float(-x if negative and random.random() < 0.5 else x)


def pairs(name):
    """Arguments of the functions of two."""
    random.seed(name)
    draw = PAIRS[name]
    count = 0
    while count < 2 * POINTS:
        pair = draw[count % len(draw)]()
        if all(x == x and x not in (0, float("inf"), float("-inf")) for x in pair):
            yield pair
            count += 1


def anything():
    return float(mp.ldexp(random.uniform(1, 2), random.randint(-1074, 1023)))


def power_with(x, least, most):
    """x and an exponent so that log2 of the power lies between the two."""
    return x, float(random.uniform(least, most) / mp.log(x, 2)) if x != 1 else 0.0


def near_one():
    return 1 + random.choice((1, -0.5)) * random.randint(1, 2 ** random.randint(1, 40)) * 2.0**-52


PAIRS = {
    "pow": [
        lambda: power_with(anything(), -1074, 1024),
        lambda: power_with(near_one(), -1074, 1024),
        lambda: power_with(random.uniform(0.5, 2), -1074, 1024),
        lambda: power_with(random.uniform(0.5, 2), -2, 2),
        lambda: power_with(anything(), -1076, -1020),
        lambda: power_with(anything(), 1020, 1024),
        lambda: (float(random.randint(2, 50)), float(random.randint(-20, 20))),
        lambda: (from_bits(bits(2**-0.5) + random.randint(-9, 9)), random.uniform(-2000, 2000)),
        lambda: (from_bits(bits(2**0.5) + random.randint(-9, 9)), random.uniform(-2000, 2000)),
        lambda: (anything(), random.choice((0.5, -0.5, 1 / 3, 2.0, -1.0, 1.5, 0.25))),
    ],
    "atan2": [
        lambda: (random.uniform(-1, 1), random.uniform(-1, 1)),
        lambda: (random.choice((-1, 1)) * anything(), random.choice((-1, 1)) * anything()),
        lambda: (x := random.choice((-1, 1)) * anything(), x * random.uniform(0.1, 10)),
        lambda: (x := anything(), x * random.uniform(2.4, 2.43)),
        lambda: (x := anything(), -x * random.uniform(0.41, 0.42)),
        lambda: (x := anything(), x * random.uniform(0.999999, 1.000001)),
        lambda: (random.randint(1, 2**20) * 2.0**-1074, random.randint(-(2**20), 2**20) * 2.0**-1074),
        lambda: (random.uniform(0.5, 1) * 2.0**1023, random.uniform(-1, 1) * 2.0**1023),
        lambda: (x := random.uniform(0.5, 1) * 2.0**-1000, random.uniform(0.5, 1) * 2.0 ** random.randint(-1, 74)),
    ],
}


def main():
    for name, (function, *where) in FUNCTIONS.items():
        print(name)
        for x in pairs(name) if name in PAIRS else ((x,) for x in arguments(name, *where)):
            value, rest = rounded(function(*map(mp.mpf, x)))
            print(*(f"{bits(part):x}" for part in x), f"{bits(value):x} {rest}")
        print()


if __name__ == "__main__":
    main()
