"""Derives the constants of the expansions and prints `coefficients.rs`.

    python3 compiler/src/math/derive.py | rustfmt > compiler/src/math/coefficients.rs

Needs mpmath (and is faster with gmpy2). Each polynomial is a weighted minimax fit by the Remez exchange in 60
digits. Its coefficients are rounded one at a time, the most significant first, and the others are fitted again
after each, so that rounding costs little. The error printed with a table is that of the rounded polynomial in
exact arithmetic, as a power of two.
"""

import struct
import sys

import mpmath as mp

mp.mp.dps = 60
F32, F64 = 24, 53


def nearest(x, bits):
    """x rounded to a float of that many bits, to nearest."""
    if x == 0:
        return mp.mpf(0)
    _, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(x, bits - e)), e - bits)


def solve_levelled(basis, target, weight, points):
    """Coefficients whose weighted error has one size and alternating signs at the points, and that size."""
    n = len(basis)
    a = mp.matrix(n + 1, n + 1)
    b = mp.matrix(n + 1, 1)
    for i, x in enumerate(points):
        for j, f in enumerate(basis):
            a[i, j] = f(x)
        a[i, n] = (-1) ** i / weight(x)
        b[i] = target(x)
    solution = mp.lu_solve(a, b)
    return [solution[j] for j in range(n)], abs(solution[n])


def remez(basis, target, weight, lo, hi, rounds=30, grid=1500):
    """The weighted minimax fit of `target` on [lo, hi]; returns coefficients and the greatest weighted error."""
    n = len(basis)
    mid, half = (mp.mpf(lo) + hi) / 2, (mp.mpf(hi) - lo) / 2
    points = [mid - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / (n + 1)) for i in range(n + 1)]
    xs = [mid - half * mp.cos(mp.pi * i / grid) for i in range(grid + 1)]
    # A removable 0/0 of a weight: step off it.
    xs = [x if abs(x) > mp.mpf(10) ** -20 else mp.mpf(10) ** -20 for x in xs]
    rows = [[f(x) for f in basis] for x in xs]
    values, weights = [target(x) for x in xs], [weight(x) for x in xs]
    coefficients, worst = None, None
    for _ in range(rounds):
        coefficients, level = solve_levelled(basis, target, weight, points)
        errors = [(v - mp.fdot(row, coefficients)) * w for row, v, w in zip(rows, values, weights)]
        extrema = []
        for x, e in zip(xs, errors):
            if extrema and (extrema[-1][1] > 0) == (e > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (x, e)
            else:
                extrema.append((x, e))
        while len(extrema) > n + 1:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < n + 1 or worst < level * (1 + mp.mpf(10) ** -3):
            break
        points = [x for x, _ in extrema]
    return coefficients, worst


def rounded_fit(exponents, target, weight, lo, hi, bits):
    """A minimax polynomial with the given exponents, coefficients rounded to `bits`; (coefficients, error)."""
    exponents = list(exponents)
    # The fit is of target / x^k, k the least exponent: its error alternates, and x^k may change sign.
    least = exponents[0]
    fit, _ = remez(
        [lambda x, e=e: x**e for e in exponents],
        target,
        lambda x: abs(weight(x)) * mp.sign(x) ** least,
        lo,
        hi,
    )
    return rounded(fit, exponents, target, weight, lo, hi, bits)


def rounded(fit, exponents, target, weight, lo, hi, bits):
    """Rounds the coefficients of a fit; (coefficients, error). Those still to be rounded take over, by least squares,
    what rounding takes from the others."""
    fit = list(fit)
    count = 6 * len(fit)
    xs = [(mp.mpf(lo) + hi) / 2 - (mp.mpf(hi) - lo) / 2 * mp.cos(mp.pi * (i + 0.5) / count) for i in range(count)]
    weights = [weight(x) for x in xs]
    for k, e in enumerate(exponents):
        exact, fit[k] = fit[k], nearest(fit[k], bits)
        rest = exponents[k + 1 :]
        if rest:
            a = mp.matrix([[w * x**r for r in rest] for x, w in zip(xs, weights)])
            b = mp.matrix([w * (exact - fit[k]) * x**e for x, w in zip(xs, weights)])
            for j, d in enumerate(mp.lu_solve(a.T * a, a.T * b)):
                fit[k + 1 + j] += d
    grid = [mp.mpf(lo) + (mp.mpf(hi) - lo) * i / 1001 for i in range(1002)]
    grid = [x for x in grid if abs(x) > mp.mpf(10) ** -12]
    worst = max(abs((target(x) - sum(c * x**e for c, e in zip(fit, exponents))) * weight(x)) for x in grid)
    return fit, worst


def split(x, bits, parts):
    """x as a sum of floats of `bits` bits, each the nearest to what the earlier ones leave."""
    out = []
    for _ in range(parts):
        out.append(nearest(x, bits))
        x -= out[-1]
    return out


def literal(c, bits):
    """A Rust literal that reads back as exactly c."""
    if bits == F32:
        c32 = struct.unpack("f", struct.pack("f", float(c)))[0]
        assert mp.mpf(c32) == c, c
        for digits in range(6, 12):
            text = f"{c32:.{digits}g}"
            if struct.unpack("f", struct.pack("f", float(text)))[0] == c32:
                break
    else:
        assert mp.mpf(float(c)) == c, c
        text = repr(float(c))
    return text if any(ch in text for ch in ".en") else text + ".0"


def emit(name, doc, pair):
    """Prints one constant: `pair` holds (value or values, error or None) for f32 and for f64."""
    errors = [f"2^{float(mp.log(error, 2)):.1f}" for _, error in pair if error is not None]
    note = f" Error {' and '.join(errors)}." if errors else ""
    texts = []
    for (values, _), bits in zip(pair, (F32, F64)):
        if isinstance(values, list):
            texts.append(f"&[{', '.join(literal(c, bits) for c in values)}]")
        else:
            texts.append(literal(nearest(values, bits), bits))
    kind = "&[f64]" if isinstance(pair[0][0], list) else "f64"
    print(f"/// {doc}{note}")
    print(f"pub(super) const {name}: PerFloat<{kind}> = PerFloat {{ f32: {texts[0]}, f64: {texts[1]} }};\n")


def emit_part(name, doc, i, terms):
    """Prints part `i` of a sum that stands for a number."""
    suffixes = ("", "_LO", "_LOLO")
    doc = doc if i == 0 else f"The rounding error of {name}{suffixes[i - 1]}."
    emit(name + suffixes[i], doc, [(term, None) for term in terms])


def emit_constant(name, doc, value, parts=1):
    """Prints a constant, or a sum that stands for it to `parts` times the precision."""
    for i, terms in enumerate(zip(*(split(value, bits, parts) for bits in (F32, F64)))):
        emit_part(name, doc, i, terms)


def emit_parts(name, doc, sums):
    """Prints a sum that stands for a number, given for each type by all parts but the last, and the number."""
    for i in range(len(sums[0])):
        terms = [parts[i] if i + 1 < len(parts) else parts[i] - sum(parts[:i]) for parts in sums]
        emit_part(name, doc, i, terms)


def truncated(x, bits):
    """x rounded to a float of that many bits, towards zero."""
    _, e = mp.frexp(x)
    return mp.ldexp(mp.floor(mp.ldexp(x, bits - e)), e - bits)


def odd_fit(f, lead, terms, limit, bits):
    """(f(x) - lead x) / x^3 in powers of x^2 for 0 <= x <= limit, the error relative to f."""
    return rounded_fit(range(3, 3 + 2 * terms, 2), lambda x: f(x) - lead * x, lambda x: 1 / f(x), 1e-5, limit, bits)


def exponential():
    def fit(degree, bits):
        return rounded_fit(range(2, degree + 1), lambda r: mp.expm1(r) - r, lambda r: mp.exp(-r), -0.348, 0.348, bits)

    emit("EXP", "(e^r - 1 - r) / r^2 in powers of r, for |r| <= 0.348.", [fit(6, F32), fit(11, F64)])

    def wide(degree, bits):
        return rounded_fit(range(2, degree + 1), lambda r: mp.expm1(r) - r, lambda r: mp.exp(-r), -0.694, 0.694, bits)

    emit("EXP_WIDE", "(e^r - 1 - r) / r^2 in powers of r, for |r| <= 0.694.", [wide(7, F32), wide(13, F64)])

    def slope2(degree, bits):
        return rounded_fit(range(1, degree + 1), lambda r: mp.mpf(2) ** r - 1, lambda r: mp.mpf(2) ** -r, -0.5, 0.5, bits)

    emit("EXP2", "(2^r - 1) / r in powers of r, for |r| <= 1/2.", [slope2(6, F32), slope2(11, F64)])
    emit_constant("LOG2_E", "1 / log 2.", 1 / mp.log(2), 2)
    emit_constant("LN_2", "log 2.", mp.log(2), 2)


def logarithm():
    third = mp.mpf(1) / 3
    fit = rounded_fit(range(2, 11), lambda f: mp.log1p(f) - f, lambda f: 1 / mp.log1p(f), -third, third * 1.0001, F32)
    print("/// (log(1 + f) - f) / f^2 in powers of f, for |f| <= 1/3." + f" Error 2^{float(mp.log(fit[1], 2)):.1f}.")
    print(f"pub(super) const LOG_DIRECT: &[f64] = &[{', '.join(literal(c, F32) for c in fit[0])}];\n")
    fit = odd_fit(lambda s: 2 * mp.atanh(s), 2, 7, 0.1717, F64)
    print("/// (2 atanh(s) - 2 s) / s^3 in powers of s^2, for |s| <= 0.1717." + f" Error 2^{float(mp.log(fit[1], 2)):.1f}.")
    print(f"pub(super) const LOG_ATANH: &[f64] = &[{', '.join(literal(c, F64) for c in fit[0])}];\n")
    emit_constant("LOG10_E", "1 / log 10.", 1 / mp.log(10), 2)
    emit_constant("LOG10_2", "log10(2).", mp.log10(2), 2)


def hyperbolic():
    fits = [odd_fit(mp.tanh, 1, terms, 0.3, bits) for terms, bits in ((4, F32), (8, F64))]
    emit("TANH", "(tanh x - x) / x^3 in powers of x^2, for |x| <= 0.3.", fits)
    fits = [odd_fit(mp.sinh, 1, terms, 1, bits) for terms, bits in ((4, F32), (8, F64))]
    emit("SINH", "(sinh x - x) / x^3 in powers of x^2, for |x| <= 1.", fits)


def trigonometry():
    # A quarter of pi and a little more: the nearest multiple of pi / 2 is found in rounded arithmetic.
    limit = 0.7875

    def cos_fit(terms, bits):
        return rounded_fit(
            range(4, 4 + 2 * terms, 2), lambda x: mp.cos(x) - 1 + x * x / 2, lambda x: 1 / mp.cos(x), 1e-5, limit, bits
        )

    emit("SIN", "(sin x - x) / x^3 in powers of x^2.", [odd_fit(mp.sin, 1, 3, limit, F32), odd_fit(mp.sin, 1, 6, limit, F64)])
    emit("COS", "(cos x - 1 + x^2 / 2) / x^4 in powers of x^2.", [cos_fit(3, F32), cos_fit(6, F64)])
    half_turn = 1.5745
    # For `f32` found by a random walk from the fit: the one of least error, its evaluation's rounding included, whose sines are at
    # most 1, and 1 at pi / 2.
    walked = [mp.mpf(nearest(mp.mpf(c), F32)) for c in ("-0.16666663", "0.008333043", "-0.00019805082", "2.5930851e-06")]
    xs = [mp.mpf(half_turn) * i / 1000 for i in range(1, 1001)]
    error = max(abs(x + sum(c * x ** (3 + 2 * i) for i, c in enumerate(walked)) - mp.sin(x)) / mp.sin(x) for x in xs)
    fits = [(walked, error), odd_fit(mp.sin, 1, 8, half_turn, F64)]
    emit("SIN_WIDE", "(sin x - x) / x^3 in powers of x^2, for |x| <= pi / 2.", fits)
    emit_constant("FRAC_1_PI", "1 / pi.", 1 / mp.pi)
    parts = []
    for bits in (F32, F64):
        high = truncated(mp.pi, bits)
        parts.append([high, truncated(mp.pi - high, bits), mp.pi])
    emit_parts("PI", "pi, rounded down, so that all parts are positive.", parts)
    emit_constant("FRAC_2_PI", "2 / pi.", 2 / mp.pi)
    emit_constant("FRAC_PI_2", "pi / 2.", mp.pi / 2, 3)
    emit_constant("TAU", "2 pi.", 2 * mp.pi, 2)
    with mp.workdps(400):
        words = [int(mp.floor(mp.ldexp(1 / (2 * mp.pi), 64 * (i + 1) - 16))) % 2**64 for i in range(19)]
    print("/// The bits of 1 / (2 pi) behind the point, after 16 zeros.")
    print(f"pub(super) const TURN: [u64; 19] = [{', '.join(f'{w:#018x}' for w in words)}];\n")


def error_function():
    fits = [
        rounded_fit(range(1, 1 + 2 * terms, 2), lambda x: mp.erf(x) - x, lambda x: 1 / mp.erf(x), 1e-5, 1, bits)
        for terms, bits in ((7, F32), (13, F64))
    ]
    emit("ERF", "(erf x - x) / x in powers of x^2, for |x| <= 1.", fits)
    fits = [
        rounded_fit(
            range(degree + 1), lambda x: mp.log(mp.erfc(x), 2), lambda x: mp.erfc(x) * mp.log(2) / mp.erf(x), 0.99, limit, bits
        )
        for degree, limit, bits in ((6, 4, F32), (18, 6, F64))
    ]
    emit("ERFC_LOG2", "log2(1 - erf x) in powers of x, from 1 to where erf is 1; the error is that of erf.", fits)


def normal_tail(degree, k, limit, bits):
    """g with P(X > a) e^(a^2/2) = g / (1 + k a) for a normal X, in powers of u - c with u = a / (1 + k a); (fit, c).

    Further left the sum would cancel where g is small, further right the rounding of u - c would weigh; of
    centres about the middle the one is taken whose coefficients round best."""
    k = mp.mpf(k)
    top = limit / (1 + k * limit)
    memo = {}

    def g(u):
        if u not in memo:
            a = u / (1 - k * u)
            memo[u] = mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2) * (1 + k * a)
        return memo[u]

    exponents = list(range(degree + 1))
    exact, error = remez([lambda x, e=e: x**e for e in exponents], g, lambda u: 1 / g(u), 0, top)

    def unrounded(u):
        return mp.polyval(exact[::-1], u)

    best = None
    for i in range(24):
        c = nearest(top * 0.65 + mp.mpf(i) / 96, 12)
        shifted = [sum(exact[n] * mp.binomial(n, j) * c ** (n - j) for n in range(j, degree + 1)) for j in exponents]
        fit, loss = rounded(
            shifted, exponents, lambda v: unrounded(v + c), lambda v: 1 / unrounded(v + c), -c, top - c, bits
        )
        if best is None or loss < best[1]:
            best = (fit, loss, c)
    return best[0], error + best[1], best[2]


def emit_f32(name, doc, fit):
    """Prints coefficients that only the functions of `f32` use."""
    print(f"/// {doc} Error 2^{float(mp.log(fit[1], 2)):.1f}.")
    print(f"pub(super) const {name}: &[f64] = &[{', '.join(literal(c, F32) for c in fit[0])}];\n")


def single_gelu():
    """The parts of 2 P(X > a) = 2^(-w / period) (1 + g) for a normal X, where w is a^2 + a up to 3 and a^2 + level
    beyond. With that w, g is from -0.2 to 0.7, so that its rounding weighs little.

    The period is near 2 log 2. It has 16 bits, so that its small multiples are exact; of such numbers it is the one
    whose powers round best. The centres are those whose coefficients do, and `level` is found by trial."""
    period, split, limit, level = mp.mpf(44754) / 2**15, 3, mp.mpf("14.45"), mp.mpf("3.453125")

    def tail(a, w):
        return mp.erfc(a / mp.sqrt(2)) * mp.mpf(2) ** (w / period)

    half = period / 2 + mp.mpf("1e-4")
    fit = rounded_fit(
        range(1, 7), lambda r: mp.mpf(2) ** (-r / period) - 1, lambda r: mp.mpf(2) ** (r / period), -half, half, F32
    )
    emit_f32("GELU_EXP", "(2^(-r / GELU_PERIOD) - 1) / r in powers of r, for |r| <= GELU_PERIOD / 2.", fit)
    near, far = mp.mpf("1.25"), mp.mpf(7)
    fit = rounded_fit(
        range(11),
        lambda v: (tail(v + near, (v + near) ** 2 + v + near) - 1) / (v + near),
        lambda v: (v + near) / tail(v + near, (v + near) ** 2 + v + near),
        mp.mpf("1e-6") - near,
        split - near,
        F32,
    )
    emit_f32("GELU_NEAR", "(2 P(X > a) 2^((a^2 + a) / GELU_PERIOD) - 1) / a in powers of a - center, up to 3.", fit)
    fit = rounded_fit(
        range(17),
        lambda v: tail(v + far, (v + far) ** 2 + level) - 1,
        lambda v: 1 / tail(v + far, (v + far) ** 2 + level),
        split - far,
        limit - far,
        F32,
    )
    emit_f32("GELU_FAR", "2 P(X > a) 2^((a^2 + GELU_LEVEL) / GELU_PERIOD) - 1 in powers of a - center, from 3 to 14.45.", fit)
    for name, doc, value in (
        ("PERIOD", "About 2 log 2, so that e^(-a^2 / 2) is about 2^(-a^2 / GELU_PERIOD).", period),
        ("INVERSE_PERIOD", "1 / GELU_PERIOD.", nearest(1 / period, F32)),
        ("LEVEL", "The constant that keeps the function of GELU_FAR near 0.", level),
        ("NEAR_CENTER", "The center of GELU_NEAR.", near),
        ("FAR_CENTER", "The center of GELU_FAR.", far),
    ):
        print(f"/// {doc}\npub(super) const GELU_{name}: f64 = {literal(value, F32)};\n")


def gelu():
    single_gelu()
    k, bits = mp.mpf("0.1875"), F64
    tail, error, c = normal_tail(22, k, 39, bits)
    doc = "P(X > a) e^(a^2 / 2) (1 + k a) for a normal X, in powers of a / (1 + k a) - c, for 0 <= a <= 39; `f64` only."
    emit_f64("NORMAL_TAIL", doc, (tail, error))
    for name, value in (("k", k), ("c", c)):
        print(f"/// {name} of NORMAL_TAIL.\npub(super) const NORMAL_TAIL_{name.upper()}: f64 = {literal(value, bits)};\n")
    outer = 2 * mp.sqrt(2 / mp.pi) / mp.log(2)
    emit_parts("GELU_TANH_LINEAR", "2 sqrt(2 / pi) / log 2, of half the bits.", [[nearest(outer, bits // 2), outer] for bits in (F32, F64)])
    emit_constant("GELU_TANH_CUBIC", "0.044715 times that.", outer * mp.mpf("0.044715"), 2)


def emit_f64(name, doc, fit):
    """Prints coefficients that only `f64` arithmetic uses, in both types' functions."""
    print(f"/// {doc} Error 2^{float(mp.log(fit[1], 2)):.1f}.")
    print(f"pub(super) const {name}: &[f64] = &[{', '.join(literal(c, F64) for c in fit[0])}];\n")


def inverse():
    for name, f, limit, terms in (
        ("ASIN", mp.asin, 0.5, (5, 13)),
        ("ATAN", mp.atan, 1.01, (9, 19)),
        ("ASINH", mp.asinh, 0.5, (5, 12)),
        ("ATANH", mp.atanh, 0.1717, (3, 7)),
    ):
        word = name.lower()
        fits = [odd_fit(f, 1, n, limit, bits) for n, bits in zip(terms, (F32, F64))]
        emit(name, f"({word} x - x) / x^3 in powers of x^2, for |x| <= {limit}.", fits)

    def root(degree, bits):
        return rounded_fit(range(degree + 1), lambda m: m ** (-mp.mpf(1) / 3), lambda m: mp.cbrt(m), 1, 2, bits)

    emit("INVERSE_CBRT", "1 / cbrt(m) in powers of m, for 1 <= m <= 2.", [root(4, F32), root(6, F64)])
    emit("CBRT_2", "cbrt(2).", [(mp.cbrt(2), None), (mp.cbrt(2), None)])


def power():
    unit = 2 / mp.log(2)

    def per_s(s):
        return unit * (mp.atanh(s) / s if s else 1)

    fit = rounded_fit(range(0, 12, 2), per_s, lambda s: 1 / per_s(s), 1e-5, 0.1717, F64)
    emit_f64("POW_LOG2", "2 atanh(s) / (s log 2) in powers of s^2, for |s| <= 0.1717; `f32` only.", fit)
    fit = rounded_fit(range(1, 8), lambda r: mp.mpf(2) ** r - 1, lambda r: mp.mpf(2) ** -r, -0.5, 0.5, F64)
    emit_f64("POW_EXP2", "(2^r - 1) / r in powers of r, for |r| <= 1/2; `f32` only.", fit)

    def tail(z):
        # The series itself: a difference would lose all digits near 0.
        return mp.nsum(lambda k: z**k / (2 * k + 7), [0, mp.inf])

    fit = rounded_fit(range(7), tail, lambda z: z**3, 1e-7, mp.mpf("0.0295"), F64)
    emit_f64("POW_LOG_TAIL", "(atanh(s) / s - 1 - z / 3 - z^2 / 5) / z^3 in powers of z = s^2, for |s| <= 0.1717; the error is that of atanh(s) / s.", fit)
    fit = rounded_fit(range(2, 12), lambda r: mp.mpf(2) ** r - 1 - r * mp.log(2), lambda r: mp.mpf(2) ** -r, -0.5, 0.5, F64)
    emit_f64("POW_EXP2_BEND", "(2^r - 1 - r log 2) / r^2 in powers of r, for |r| <= 1/2.", fit)
    emit_constant("THIRD", "1 / 3.", mp.mpf(1) / 3, 2)
    emit_constant("FIFTH", "1 / 5.", mp.mpf(1) / 5, 2)

def inverse_error_function():
    def factor(w):
        if w < mp.mpf(10) ** -25:
            return mp.sqrt(mp.pi) / 2
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x

    def fit(terms, f, lo, hi, c, bits):
        lo, hi, c = map(mp.mpf, (lo, hi, c))
        return rounded_fit(range(terms), lambda v: f(v + c), lambda v: 1 / f(v + c), lo - c, hi - c, bits)

    def tail(terms, lo, hi, c, bits):
        return fit(terms, lambda root: factor(root**2), lo, hi, c, bits)

    # For `f32` the centre is the one whose coefficients round best.
    fits = [fit(10, factor, 0, 5, "1.875", F32), fit(25, factor, 0, "6.25", "3.125", F64)]
    emit("ERF_INV", "The inverse of erf at x, over x, in powers of w - 1.875 and w - 3.125, for w = -log(1 - x^2) up to 5 and 6.25.", fits)
    fits = [tail(11, "2.236", 4, 3, F32), tail(21, "2.5", 4, "3.25", F64)]
    emit("ERF_INV_TAIL", "The same in powers of sqrt(w) - 3 and sqrt(w) - 3.25, for sqrt(w) <= 4.", fits)
    fit = tail(20, 4, "6.01", 5, F64)
    emit_f64("ERF_INV_FAR", "The same in powers of sqrt(w) - 5, for sqrt(w) from 4 to 6.01; `f64` only.", fit)


def gamma():
    half_log_tau = mp.log(2 * mp.pi) / 2
    half = mp.mpf(1) / 2

    def off(v, *poles):
        """v, moved away from removable singularities."""
        near = [p for p in poles if abs(v - p) < mp.mpf(10) ** -19]
        return near[0] + mp.mpf(10) ** -20 if near else v

    def near(v):
        v = off(v, -1, 0)
        return mp.loggamma(2 + v) / ((1 + v) * v)

    def near_digamma(v):
        v = off(v, root - 2)
        return mp.digamma(2 + v) / (2 + v - root)

    def stirling(f, bernoulli):
        """f of a = 1 / sqrt(w), and its limit at w = 0."""
        return lambda w: f(1 / mp.sqrt(w)) if w > mp.mpf(10) ** -14 else bernoulli

    binet = stirling(
        lambda a: a * (mp.loggamma(a) - (a - half) * mp.log(a) + a - half_log_tau), mp.mpf(1) / 12
    )
    rest = stirling(lambda a: a * a * (mp.log(a) - half / a - mp.digamma(a)), mp.mpf(1) / 12)
    far = mp.mpf(1) / 9

    def relative(f):
        return lambda v: 1 / f(v)

    fit = rounded_fit(range(29), near, relative(near), -1, 1, F64)
    emit_f64("LGAMMA_NEAR", "log gamma(2 + v) / (v (1 + v)) in powers of v, for |v| <= 1.", fit)
    fit = rounded_fit(range(12), binet, relative(binet), 0, far, F64)
    emit_f64("LGAMMA_FAR", "a (log gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2) in powers of 1 / a^2, for a >= 3.", fit)
    root = mp.findroot(mp.digamma, 1.46)
    emit_constant("DIGAMMA_ROOT", "The positive zero of digamma.", root, 2)
    fit = rounded_fit(range(30), near_digamma, relative(near_digamma), -1, 1, F64)
    emit_f64("DIGAMMA_NEAR", "digamma(2 + v) / (2 + v - root) in powers of v, for |v| <= 1.", fit)
    fit = rounded_fit(range(13), rest, relative(rest), 0, far, F64)
    emit_f64("DIGAMMA_FAR", "a^2 (log a - 1 / (2 a) - digamma(a)) in powers of 1 / a^2, for a >= 3.", fit)
    fit = rounded_fit(
        range(3, 19, 2), lambda r: mp.sin(mp.pi * r) / mp.pi - r, lambda r: mp.pi / mp.sin(mp.pi * r), 1e-5, half, F64
    )
    emit_f64("SIN_PI", "(sin(pi r) / pi - r) / r^3 in powers of r^2, for |r| <= 1/2.", fit)

    def cotangent(square):
        r = mp.sqrt(off(square, 0))
        return (1 - mp.pi * r * mp.cot(mp.pi * r)) / r**2

    fit = rounded_fit(range(15), cotangent, relative(cotangent), 0, half**2, F64)
    emit_f64("COT_PI", "(1 / r - pi cot(pi r)) / r in powers of r^2, for |r| <= 1/2.", fit)
    emit_constant("HALF_LOG_TAU_LESS", "(log(2 pi) - 1) / 2.", half_log_tau - half)
    emit_constant("HALF_LOG_TAU_MORE", "(log(2 pi) + 1) / 2.", half_log_tau + half)


def main():
    print("//! Constants of the expansions, generated by `derive.py`, which documents them. Do not edit.\n")
    print('#![expect(clippy::approx_constant, reason = "the literals are the constants, rounded to each float type")]\n')
    print("use super::builder::PerFloat;\n")
    exponential()
    logarithm()
    hyperbolic()
    trigonometry()
    error_function()
    inverse_error_function()
    gelu()
    inverse()
    power()
    gamma()


if __name__ == "__main__":
    sys.exit(main())
