//! Programs with a function `f` that is derived in its parameters of floats.

pub const ALL: &[&str] = &[
    "fn f(x: f64[n]) = sum(x * x * exp(x))",
    "fn f(x: f64) = x * x + sin(x)",
    "fn f(x: f64[n, m], w: f64[m], b: f64) = sum((x * w + b) ^ 2)",
    "fn f(x: f64[n, m], s: f64[n, 1]) = sum(x / s)",
    "fn f(a: f64[n, k], b: f64[k, m]) = sum((a @ b) ^ 2)",
    "fn f(a: f64[n, k], x: f64[k]) = sum(tanh(a @ x))",
    "fn f(x: f64[n]) = log(sum(exp(x)))",
    "fn f(x: f64[n, m]) = sum(log(sum(exp(x), axis = 1)))",
    "fn f(x: f64[n, m]) = sum(transpose(x)[0] * mean(x, axis = 1))",
    "fn f(x: f64[n]) = var(x) + norm(x)",
    "fn f(x: f64[n]) = max(x) * min(x)",
    "fn f(x: f64[n, m]) = max(x) + sum(max(x, axis = 1) * min(x, axis = 1))",
    "fn f(x: f64[n]) = prod(x)",
    "fn f(x: f64[n, m]) = sum(prod(x, axis = 0))",
    "fn f(x: f64[n]) = sum(x[1:] * x[:n - 1])",
    "fn f(x: f64[n]) = sum(x[::2] ^ 3)",
    "fn f(x: f64[n], y: f64[2 * n]) = sum(x * y[1::2])",
    "fn f(x: f64[n], i: i64[m]) where n > 2 = sum(x[i] ^ 2)",
    "fn f(x: f64[n, m], i: u8[k]) where n > 2 = sum(x[i] ^ 2)",
    "fn f(x: f64[n], w: f64[k]) where n >= k { let y[i] = sum[j](x[i + j] * w[j])
     sum(y * y) }",
    "fn f(x: f64[n, 6]) { let y[i, p < 3] = max[r < 2](x[i, 2 * p + r])
     sum(y * y) }",
    "fn f(x: f64[6], w: f64[3]) { let y[i < 2] = sum[j < 3](x[2 * i + j] * w[j])
     sum(y * y) }",
    "fn f(x: f64[n]) { let y[i] = x[n - 1 - i] * x[i]
     sum(y * sin(x)) }",
    "fn f(x: f64[n]) { let y[i] = sum[k <= i](x[k] ^ 2)
     sum(y * y * x) }",
    "fn f(x: f64[n]) { let y[i] = sum[k < i](x[k] ^ 2)
     sum(sin(y)) }",
    "fn f(x: f64[n]) { let y[i] = sum[i <= k < n](x[k] * 2)
     sum(y ^ 2 * x) }",
    "fn f(x: f64[n]) { let y[i] = max[k <= i](sin(7 * x[k]))
     sum(y * y * x) }",
    "fn f(x: f64[n], w: f64[n, m]) { let y[i, j] = min[k <= i](x[k] * w[k, j])
     let z[i, j] = y[i, j] * x[i]
     sum(z) }",
    "fn f(x: f64[n]) { let y[i < n] = max[k < i](sin(7 * x[k]))
     let z[i < n] = if i > 0 then y[i] * x[i] else 0
     sum(z * z) }",
    "fn f(x: f64[n]) { let y[i < n] = min[i < k < n](sin(7 * x[k]))
     let z[i < n] = if i < n - 1 then y[i] * x[i] else 0
     sum(z * z) }",
    "fn f(x: f64[n]) { let y[i] = max[i <= k < n](x[k] * x[k])
     sum(y * y * x) }",
    "fn f(x: f64[n]) { let y[i] = sum[k <= i](x[k] * x[i])
     sum(y * y) }",
    "fn f(x: f64[n]) { let y[i < n] = if i > 0 then x[i - 1] * x[i] else 1
     sum(y * y) }",
    "fn f(x: f64[n]) = sum(if x > 0.5 then x * x else sin(x))",
    // The key is inside only where the other subscript is in range.
    "fn f(x: f64[n, 3], k: i64[n]) where n > 1 { sum[t < n - 1](x[t, k[t + 1]] ^ 2) }",
    // The branch of another index than the one around the access.
    "fn f(x: f64[n, 2], y: f64[3]) { let d[i < n] = min[r < 3](if r >= 1 then x[i, r - 1] + y[r] else 2)
     sum(d) }",
    "fn f(x: f64[n]) = sum[i where x[i] > 0.5](x[i] ^ 2)",
    "fn f(x: f64[n], k: i64[n]) { let s[c < 3] = sum[i where k[i] == c](x[i] * x[i])
     sum(s * s) }",
    "fn f(x: f64[n, m]) { let y = reshape(x, m, n)
     sum(y * y[0]) }",
    "fn f(x: f64[n]) = sum(concat(x, x * x, [x[0], 1, 2])) + sum([x[0], x[1]] ^ 2)",
    "fn f(x: f64[n]) = sum(sort(x) * f64(iota(n)))",
    "fn f(x: f64[n, m]) { let y[i] = sort(x[i])
     let z[i, j] = y[i, j] * j
     sum(z * z) }",
    "fn f(x: f64[n]) where n > 1 = median(x) + std(x)",
    "fn f(x: f64[n], y: f64[n]) = sum(fma(x, y, x) + max(x, y) * min(x, y) + clamp(x, y, 0.8))",
    "fn f(x: f64[n], y: f64[n]) = sum(x ^ y + atan2(x, y) + abs(x - y) + x % y + mod(x, y) + select(x > y, x, y))",
    "fn f(x: f64[n]) = sum(floor(x * 10) * x + round(x) * x + sign(x - 0.5) * x)",
    "fn softmax(x: f64[m]) = exp(x - max(x)) / sum(exp(x - max(x)))
     fn f(x: f64[n, m], l: i64[n]) where m > 2 { let p[i] = softmax(x[i])
     let y[i] = -log(p[i, l[i]])
     mean(y) }",
    // Maxima that the value does not depend on, and others that are like these.
    "fn f(x: f64[n]) = max(x) + log(sum(exp(x - max(x))))",
    "fn f(x: f64[n]) { let s = max(abs(x)) + 0
     s * sqrt(sum((x / s) ^ 2)) }",
    "fn f(x: f64[n]) { let s = max(x) + 1
     s * sqrt(sum((x / s) ^ 2)) }",
    "fn f(x: f64[n]) = sum(exp(x - max(x))) + sum(x - min(x))",
    "fn f(x: f64[n]) = mean(x - max(x)) + max(x) * log(sum(exp(x - max(x))))",
    "fn f(x: f64[n], m: f64[n]) = sum(exp(x - max(x)) * m) / sum(exp(m - max(x)))",
    "fn f(x: f64[n, m]) { let e[i] = exp(x[i] - max(x[i]))
     let s[j] = sum[i](e[i, j])
     sum(s * s) / sum(s) ^ 2 }",
    "fn f(x: f64[n, m]) { let g[i] = max(x[i])
     let e[i, j] = exp(x[i, j] - g[i])
     let p[i, j] = e[i, j] / sum[k](e[i, k])
     sum(p ^ 2) }",
    "fn f(x: f64[n], y: f64[n]) { let z[i < n] = if y[i] > 0.5 then x[i] else -inf
     let e = exp(z - max(z))
     if max(y) > 0.5 then sum(e * y) / sum(e) else 0 }",
    "fn both(x: f64[n]) = (sum(x), sum(x * x))
     fn f(x: f64[n]) { let (a, b) = both(x)
     let (c, d) = both(x * a)
     a * b + c * d }",
    "fn f(x: f64[n]) { let g = grad[x](sum(x ^ 4))
     sum(g * g) }",
    "fn g(x: f64[m]) = grad[x](sum(x ^ 3) * x[0])
     fn f(x: f64[n, m]) where m > 0 { let y[i] = g(x[i])
     sum(y * y) }",
    "fn f(x: f64[n]) { let d = x * 2
     jvp[x](sum(x ^ 3), d) }",
    "fn f(x: f64[n], a: f64[n, n]) = sum(x * (a @ x)) + sum[i](a[i, i] * x[i])",
    "fn f(q: f64[n, d], k: f64[m, d]) {
     let s = q @ transpose(k)
     let p[i] = exp(s[i]) / sum(exp(s[i]))
     sum((p @ k) * q) }",
    "fn f(x: f64[n, m]) { let y[i, j] = sum[r < 2](x[i, j] * (r + 1)) * x[i, 0]
     mean(y * y) }",
    "fn f(x: f64[n]) = sum(f64(f32(x)) * 0) + sum(x * x)",
    // A subscript that is inside only in a branch.
    "fn f(x: f64[n], l: i64[n]) where n > 2 {
     let y[i < n] = if i > 0 then x[l[i - 1]] * x[i] else x[l[i]]
     sum(y * y) }",
    "fn f(x: f64[n], l: i64[n]) = sum[i](if l[i] < 2 then x[l[i] * 0 + i] * x[i] else 0)",
    "fn of_first(a: f64[n], b: f64[n]) = grad[a](sum(a * b * b))
     fn f(x: f64[n]) = sum(of_first(x, x) * x)",
    "fn of_first(a: f64, b: f64) = grad[a](a * a * b)
     fn f(x: f64[n]) = sum(of_first(x, x) * x)",
    "fn f(x: f64[n]) = sum(exp(x) + exp2(x) + expm1(x) + log(x) + log2(x) + log10(x) + log1p(x))",
    "fn f(x: f64[n]) = sum(sin(x) * cos(x) + tan(x) + asin(x * 0.8) + acos(x * 0.8) + atan(x))",
    "fn f(x: f64[n]) = sum(sinh(x) + cosh(x) + tanh(x) + asinh(x) + acosh(x + 1) + atanh(x * 0.8))",
    "fn f(x: f64[n]) = sum(sigmoid(x - 1) + silu(x - 1) + softplus(x) + gelu(x - 1) + gelu_tanh(x - 1) + relu(x - 0.5))",
    "fn f(x: f64[n]) = sum(erf(x) + erf_inv(x * 0.8) + lgamma(x) + rsqrt(x) + cbrt(x) + sqrt(x) + 1 / x)",
    "fn f(x: f64[n]) = sum(x ^ 0.5 + 2 ^ x + x ^ 3 + x ^ -2 + floor_div(x, 0.1) * x)",
    // The sum of an array of products is no contraction.
    "fn f(a: f64[n, k], b: f64[m, k]) { let c[i, j] = sum(a[i] * b[j])
     sum(c * c) }",
];

/// Programs with loops.
pub const LOOPS: &[&str] = &[
    "fn f(x: f64) = loop y = x, t < 3 { y * y }",
    "fn f(x: f64, a: f64) = loop y = x, t < 5 { sin(y) * a + x }",
    "fn f(x: f64) { let (a, b) = loop a = x, b = 1, t < 4 { (a * b, a + b * x) }
     a * b }",
    "fn g(x: f64) = loop y = x, t < 3 { sin(y) * x }
     fn f(x: f64) = jvp[x](g(x), x) * x",
    // Long ones, whose states are kept in blocks.
    "fn f(x: f64, a: f64) = loop y = x, t < 70 { sin(y) * a + x * f64(t) * 0.01 }",
    "fn f(x: f64[n], w: f64[n], z: f64[17 * n]) {
     let (y, v) = loop y = x, v = w, t < 17 * n { (y + 0.1 * v + z[t], v - 0.1 * (sin(y) + w * v)) }
     sum(y * v) }",
    "fn f(x: f64[n], a: f64[n, m]) { let y[i] = loop p = x[i], t < 65 { sin(p) * a[i, t % m] }
     sum(y * y) }",
    "fn g(x: f64, n: i64) where n >= 0 = loop y = x, t < 40 * n { sin(y * 2) * x }
     fn f(x: f64[n], k: i64[n]) where n > 0 = g(x[0], n) + grad[x](sum(x) * g(x[0], 2))[0]",
    "fn f(x: f64) { let (a, _) = loop a = 1, b = x, t < 4 { (b, a * x) }
     a }",
    "fn f(x: f64, y: f64) { let (a, k) = loop a = x, k = 0, t < 4 { (if k % 2 == 0 then a * y else sin(a), k + 1) }
     a * f64(k) }",
    "fn f(x: f64[n], w: f64[n, n]) { let y = loop y = x, t < 3 { tanh(w @ y) }
     sum(y * y) }",
    "fn f(x: f64[n], w: f64[n]) { let y = loop y = x * x, t < n { y * w[t] + x }
     sum(y) }",
    "fn f(x: f64[n], k: i64[m]) where n > 2 { let y = loop y = x, t < m { y * x[k[t]] }
     sum(y) }",
    "fn f(x: f64[n]) { let y[i] = loop p = 1, t < 4 { p * x[i] }
     sum(y) }",
    "fn f(x: f64[n], a: f64[n, m]) { let y[i] = loop p = x[i], t < m { sin(p) * a[i, t] }
     sum(y * y) }",
    "fn f(x: f64[n]) { let y = loop y = x, t < 2 { loop z = y, s < 3 { z * x + y } }
     sum(y) }",
    // The step decides that the state depends on the value, and so does that of the inner loop.
    "fn f(x: f64) = loop y = 0.5, t < 3 { loop z = y, s < 2 { z * x } }",
    "fn f(x: f64[n]) { let y = loop y = x, t < 3 { if t > 1 then y * x else sin(y) }
     sum(y) }",
    "fn f(x: f64[n]) { let y[i] = x[i] * 2
     let s = loop s = 0, t < n { s + y[t] * x[t] }
     s * s }",
    "fn f(x: f64[n]) { let z = loop y = x, t < 3 { sort(y) * x }
     let (a, b) = loop a = z, b = x, t < 2 { (b * x, a + z[0]) }
     sum(a * b) }",
    "fn f(x: f64[n], r: f64) { let w = loop w = x, t < 3 { w - r * grad[w](sum(w ^ 4) + sum(w * x)) }
     sum(w * w) }",
    "fn f(x: f64[n]) { let (w, s) = loop w = x, s = 1, t < 3 { (w - 0.1 * s * grad[w](sum(w ^ 4) * s), s * x[0]) }
     sum(w * w) * s }",
    "fn f(x: f64[n, m]) { let y[i] = loop s = x[i], t < 2 { sin(s) * x[i] }
     sum(y) }",
    "fn f(x: f64, k: i64) = loop y = x, t < k { y * x + sin(y) }",
    "fn g(x: f64) = loop y = x, t < 3 { sin(y) * x }
     fn f(x: f64) = grad[x](g(x)) * jvp[x](g(x), x)",
    "fn g(x: f64[n], w: f64[n]) { let y = loop y = x, t < 2 { tanh(y * w) + x }
     sum(y * y) }
     fn f(x: f64[n], w: f64[n]) { let (a, b) = grad[x, w](g(x, w))
     sum(a * b) }",
    "fn f(x: f64[n]) { let y = loop y = x, t < 3 { let c[i] = sum[k <= i](y[k])
     let z[i < n] = if i > 0 then c[i] * y[i - 1] else c[i]
     z / max(z) }
     sum(y) }",
    "fn f(x: f64[n, m]) { let y = loop y = x, t < 2 { y @ transpose(x) @ y * 0.1 }
     sum(y) }",
    "fn f(x: f64[n]) { let (a, b) = loop y = x, s = x, t < n { (y * 0.9 + s[t], s) }
     sum(a * b) }",
    // States of several types, and loops that data ends or that have no counter.
    "fn f(x: f64[n], k: f64) {
     let (y, e, ok) = loop y = k, e = 1, ok = true, t < 5 {
        let z = 0.5 * (y + sum(x) / y)
        (z, e * 2, ok && z < 100)
     }
     y * f64(e) + (if ok then y else 0) }",
    "fn f(x: f64[n], k: i64[n]) {
     let c[i] = loop c = 0, t < k[i] + 3 { c + t }
     let (a, b, _)[i] = loop a = k[i], b = f32(1.5), s = u8(1) while a < 20 && s < u8(9) {
        (a * 2 + 1, b * 1.5, u8(s + s)) }
     sum(x * f64(c) * x * f64(a) + f64(b) * x) }",
    "fn f(x: f64, y: f64) { let h = loop h = y, a < 9 { h }
     let b = loop b = 7, a < 3 { loop c = b, d < a { c + d } }
     x * h * f64(b) }",
    // Names that hide others, and the number of steps as a parameter.
    "fn f(n: f64, k: f64[m]) where m > 0 = loop n = n, i < 3 { n * k[i % m] + n * n }",
    "fn swing(at: f64, damping: f64, steps: i64) where steps >= 0 {
     let (x, _) = loop x = at, v = 0, t < steps { (x + 0.01 * v, v - 0.01 * (x + damping * v)) }
     x }
     fn f(at: f64, damping: f64, steps: i64) where steps >= 0 = swing(at, damping, 33 * steps + 1)",
    "fn f(x: f64[n, m]) where n > 0 {
     let (y, z) = loop t = x, zeros = x * 2, step < 3 { let once = t * zeros
        (once + f64(step), zeros + x[0] * 0.5) }
     sum(y * z) }",
    // Under conditions that guard an access, in elements of a recurrence, and with one in a step.
    "fn f(x: f64[n], k: i64[n]) {
     let y[i < n] = if k[i] > 0 && k[i] < n then x[i] * f64(loop c = k[k[i]], t < 5 { c * 2 + t }) else x[i]
     sum(y * y) }",
    "fn g(a: i64, b: i64) { let (p, _) = loop p = a, q = b, t < 5 { (q, p + q + t) }
     p }
     fn f(x: f64[n], k: i64[n]) {
     let y[i < n] = if k[i] > 0 && k[i] < n then x[i] * f64(g(k[k[i]], i)) else x[i]
     sum(y * y) }",
    "fn g(a: i64, b: i64) { let (p, _) = loop p = a, q = b, t < 5 { (q, (p + q + t) % 1000) }
     p }
     fn f(x: f64[n]) {
     let rec y[t < n] = if t == 0 then x[t] else x[t] * 0.5 + sin(y[t - 1])
     let rec c[t < n] = if t == 0 then 1 else g(c[t - 1], t) + (loop s = c[t - 1], r < 3 {
        let u = s * 2 + r
        u * u % 7 + u / 2
     })
     sum(y * f64(c)) }",
    "fn f(x: f64[n, m]) where m > 0 {
     let y[i] = loop s = x[i], t < 3 { s * x[i] + sum(s) * 0.1 }
     let z[i] = loop s = y[i], t < 2 {
        let rec r[k < m] = if k == 0 then s[k] else r[k - 1] * 0.5 + s[k] * x[i, k]
        r
     }
     sum(z * y) }",
];

/// Programs with recurrences, or with derivatives that are some.
pub const RECURRENCES: &[&str] = &[
    // Running products.
    "fn f(x: f64[n], w: f64[n]) { let y[i] = prod[k <= i](x[k] * w[k] + 0.3)
     sum(y * w) }",
    "fn f(x: f64[n]) { let y[i < n] = prod[k < i](x[k] * 2)
     sum(y * x) }",
    "fn f(x: f64[n]) { let y[i] = prod[i <= k < n](sin(x[k]) + 1)
     sum(y * x) }",
    "fn f(x: f64[n]) { let y[i < n] = prod[i < k < n](x[k])
     sum(y * sin(x)) }",
    "fn f(x: f64[n], w: f64[n, m]) { let y[i, j] = prod[k <= i](x[k] + w[k, j])
     let z[i, j] = y[i, j] * x[i]
     sum(z) }",
    // Products with factors that are 0.
    "fn f(x: f64[n]) { let y[i] = prod[k <= i](x[k] - x[n / 2])
     sum(y * x) + sum[i](prod[k < i](x[k] - x[n / 2]) * sin(x[i])) }",
    "fn f(x: f64[n], a: f64) { let rec y[t < n] = if t == 0 then x[t] else a * x[t] + (1 - a) * y[t - 1]
     sum(y * y) }",
    "fn f(x: f64[n], a: f64) where n > 0 { let rec y[t < n] = if t == 0 then x[t] else sin(a * y[t - 1] + x[t])
     y[n - 1] }",
    // From the end, and twice over.
    "fn f(x: f64[n]) { let rec y[t < n] = if t == n - 1 then x[t] else x[t] * y[t + 1]
     let rec z[t < n] = if t == 0 then y[0] else z[t - 1] * 0.5 + y[t] * y[t]
     sum(z * x) }",
    // Elements further back, and initial values.
    "fn f(x: f64[n], a: f64, b: f64) {
     let rec y[t < n] = if t < 2 then x[t] * a else a * y[t - 1] + b * sin(y[t - 2]) * x[t]
     sum(y * y) }",
    "fn f(x: f64[n], a: f64) { let rec y[t <= n] = if t == 0 then a else tanh(y[t - 1] + y[t / 2] * x[t - 1])
     y[n] * a }",
    "fn f(x: f64[n], lag: i64) where 0 < lag && lag < 4 {
     let rec y[t < n] = if t < lag then x[t] else y[t - lag] * x[t] + x[t - lag]
     sum(y) }",
    // Several arrays, that read each other at the same step too.
    "fn f(x: f64[n], w: f64, d: f64) {
     let rec p[t <= n] = if t == 0 then 1 else p[t - 1] + 0.1 * v[t - 1],
             v[t <= n] = if t == 0 then 0 else v[t - 1] - 0.1 * (w * sin(p[t]) + d * v[t - 1]) + x[t - 1]
     sum(p * p) + v[n] }",
    "fn f(x: f64[n]) { let rec k[t <= n] = if t == 0 then 1 else (k[t - 1] * 3 + 1) % 5,
             y[t <= n] = if t == 0 then 1 else y[t - 1] * x[t - 1] + f64(k[t]) * x[t - 1]
     sum(y) }",
    "fn f(x: f64[n]) { let rec a[t <= n] = if t == 0 then 0.5 else a[t - 1] * 0.3 + 1,
             y[t <= n] = if t == 0 then 1 else y[t - 1] * x[t - 1] * a[t],
             z[t <= n] = if t == 0 then 1 else z[t - 1] * y[t]
     sum(y) * a[n] }",
    // Other axes, free ones and reduced ones.
    "fn f(x: f64[n, m], a: f64) { let rec y[i < n, j < m] =
        if i == 0 || j == 0 then x[i, j] else a * y[i - 1, j] * x[i, j] + sin(y[i, j - 1] - y[i - 1, j - 1])
     sum(y * y) }",
    "fn f(u: f64[n, m], k: f64) {
     let rec h[t <= 2, i < n, j < m] = if t == 0 then u[i, j]
        else if i == 0 || j == 0 || i == n - 1 || j == m - 1 then h[t - 1, i, j]
        else h[t - 1, i, j] + k * (h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] - h[t - 1, i, j + 1])
     sum(h[2] ^ 3) }",
    // A triangular system.
    "fn f(a: f64[n, n], b: f64[n]) {
     let rec y[i < n] = (b[i] - sum[j < i](a[i, j] * y[j])) / a[i, i]
     sum(y * y) }",
    "fn f(a: f64[n, n]) { let rec c[j < n, i < n] =
        if i < j then 0 else if i == j then sqrt(a[i, j] + 9 - sum[k < j](c[k, j] ^ 2))
        else (a[i, j] - sum[k < j](c[k, i] * c[k, j])) / c[j, j]
     sum(c) }",
    "fn f(x: f64[n], p: i64[n]) { let rec y[t < n] = if 0 <= p[t] && p[t] < t then sin(y[p[t]]) * x[t] else x[t]
     sum(y * y) }",
    // Least distances.
    "fn f(x: f64[n], y: f64[m]) { let rec d[i <= n, j <= m] =
        if i == 0 then j * 0.3 else if j == 0 then i * 0.3
        else min(min(d[i - 1, j], d[i, j - 1]) + 0.3, d[i - 1, j - 1] + (x[i - 1] - y[j - 1]) ^ 2)
     d[n, m] }",
    // One for each value of an index, and one in steps of a loop.
    "fn g(x: f64[n], a: f64) { let rec y[t < n] = if t == 0 then x[t] else a * x[t] + (1 - a) * y[t - 1]
     y }
     fn f(x: f64[m, n], a: f64[m]) { let y[i] = g(x[i], a[i])
     sum(y * y * y) }",
    "fn g(x: f64[n], a: f64) { let rec y[t < n] = if t == 0 then x[t] else sin(a * x[t] + y[t - 1])
     sum(y * y) }
     fn h(x: f64[n], a: f64) = grad[x](g(x, a))
     fn f(x: f64[m, n], a: f64[m]) { let y[i] = h(x[i], a[i])
     sum(y * x) }",
    // Loops, recurrences and sorts that read a neighbour.
    "fn f(x: f64[n]) { let y[i < n - 1] = loop s = x[i], t < 2 { max(s, x[i + 1]) * s }
     sum(y * y) }",
    "fn f(x: f64[n]) { let y[i < n - 1] = loop s = x[i] / x[i + 1], t < 2 { loop z = s, r <= 1 { sin(z) * x[i + 1] } }
     sum(y * y) }",
    // Conditions that read elements which only some of the elements that are derived in have.
    "fn f(x: f64[n, m]) where n > 3 { let a[i < n - 2, j] = sum[r < 3](x[i + r, j])
     let b = x * x - sin(x)
     let y[i, j] = if a[i, j] < 5 then b[i, j] * x[i + 1, j] else b[i + 1, j]
     sum(y * y) }",
    "fn f(x: f64[n], a: f64[n]) {
     let y[i] = if a[i] < 1 then sum[r <= i](x[r]) * max[r <= i](x[r]) else prod[r < i](x[r])
     sum(y * y) }",
    // Whole arrays in branches that depend on other indices.
    "fn f(x: f64[n, m]) = sum(median(if x > 1 then x * x else sin(x), axis = 1))",
    "fn f(x: f64[n, m]) = sum(median(if reshape(iota(m * n), n, m) <= 1 then x - 1 else x, axis = 0) ^ 2)",
    "fn f(x: f64[n, m]) = sum(max(if isinf(x) then 1.5 else select(x > 1, x, 2 * x * x), axis = 1))",
    "fn f(x: f64[n]) { let y = loop s = x, i < 2 {
        let rec y[t < n] = if t == 0 then s[t] else s[t] * y[t - 1] + x[t]
        y * s }
     sum(y * y) }",
    "fn f(x: f64[n], w: f64) { let rec y[t <= n] = if t == 0 then w else y[t - 1] - 0.1 * slope(y[t - 1], x[t - 1])
     y[n] }
     fn slope(w: f64, x: f64) = grad[w]((w - x) ^ 4)",
    "fn g(x: f64[n], a: f64) { let rec y[t < n] = if t == 0 then x[t] else sin(a * y[t - 1]) * x[t]
     sum(y * y) }
     fn f(x: f64[n], a: f64) { let (p, q) = grad[x, a](g(x, a))
     sum(p * p) * q + jvp[a](g(x, a), a) }",
    "fn f(x: f64[n]) { let rec y[t < n] = if t == 0 then x[t] else y[t - 1] * x[t]
     let g = grad[y](sum(y * y * y * x))
     sum(g) }",
    "fn h(x: f64[k], s: i64) {
     let rec a[t <= k] = if t == 0 then 1 else a[t - 1] * x[t - 1] + b[t - 1],
             b[t <= k] = if t == 0 then f64(s) else 0.5 * b[t - 1] + a[t]
     a }
     fn f(x: f64[n, m, k]) { let y[i, j] = h(x[i, j], i)
     sum(y * y) }",
    "fn g(x: f64[k], a: f64) where k > 0 {
     let rec y[t < k] = if t == 0 then x[t] else a * x[t] + sum(y[t - 1] * x) * 0.1
     y[k - 1] }
     fn f(x: f64[n, k], a: f64[n]) where k > 0 { let y[i] = g(x[i], a[i])
     sum(y * y) }",
    // Networks.
    "fn f(x: f64[n, d], w: f64[d, h], u: f64[h, h]) {
     let rec s[t <= n, j < h] =
        if t == 0 then 0 else tanh(sum[i](x[t - 1, i] * w[i, j]) + sum[k](u[k, j] * s[t - 1, k]))
     sum(s[n] * s[n]) }",
    "fn f(text: i64[n], w: f64[c, h], u: f64[h, h], v: f64[h, c]) where n > 1 && c > 2 {
     let rec s[t < n, j < h] = tanh(w[text[t], j] + (if t == 0 then 0 else sum[k](u[k, j] * s[t - 1, k])))
     let score = s @ v
     let lse[t] = max(score[t]) + log(sum(exp(score[t] - max(score[t]))))
     mean[t < n - 1](lse[t] - score[t, text[t + 1]]) }",
];

/// Programs with derivatives that have no text: those with sums of products over two indices within
/// a recurrence, those with arrays under conditions that guard an access, and those with conditions
/// of loops on arrays that are not elementwise.
pub const UNWRITTEN: &[&str] = &[
    "fn step(x: f64[d], s: f64[d], u: f64[d, d]) { let z = tanh(u @ s)
     z * x + z / (1 + sum(z * z)) }
     fn f(x: f64[n, d], u: f64[d, d], s: f64[d]) {
     let rec y[t <= n] = if t == 0 then s else step(x[t - 1], y[t - 1], u)
     sum(y[n] * y[n]) }",
    "fn f(a: f64[n, 4, d], u: f64[4, d, d]) {
     let rec z[t < n, q < 4, j < d] = a[t, q, j] + sum[k](u[q, k, j] * h[t, k]),
             c[t <= n, j < d] = if t == 0 then 0
                else sigmoid(z[t - 1, 0, j]) * c[t - 1, j] + sigmoid(z[t - 1, 1, j]) * tanh(z[t - 1, 2, j]),
             h[t <= n, j < d] = if t == 0 then 0 else sigmoid(z[t - 1, 3, j]) * tanh(c[t, j])
     sum(h[n] * h[n]) }",
    "fn g(x: f64[k]) = loop s = x, t < 2 { sort(s) * s + x }
     fn f(x: f64[n, m]) { let y[i < n / 2, j < m - 1] = sum(g(x[2 * i + 1])) * x[2 * i, j + 1]
     sum(y * y) }",
    "fn g(x: f64[k]) { let rec y[t < k] = if t == 0 then x[t] else sin(y[t - 1]) * x[t]
     y }
     fn f(x: f64[n, m]) { let y[i < n - 1] = g(x[i] * x[i + 1])
     sum(y * y) }",
    "fn f(x: f64[n, m]) { let y[i < n - 1] = sort(x[i] * x[i + 1])
     sum(y * f64(iota(m))) }",
    "fn f(x: f64[n], k: i64[n]) = sum((if x > 1 then x[k] * x else x) ^ 2)",
    "fn f(x: f64[n], c: i64[n]) { let k = loop s = c, t < 5 while sum(sort(s)) < 9 { s * 2 + 1 }
     sum(x * x * f64(k)) }",
];

/// Programs with random numbers.
pub const RANDOM: &[&str] = &[
    "fn f(x: f64[n, m], rate: f64, seed: u32) {
     let y[i, j] = if uniform(seed, i, j) < 0.3 then 0 else x[i, j] / (1 - rate)
     sum(y * y) }",
    "fn f(x: f64[n, m], w: f64[m, h], u: f64[h], seed: i64) {
     let z = tanh(x @ w)
     let d[i, k] = if uniform(seed, i, k) < 0.5 then 0 else z[i, k] * 2
     mean((d @ u) ^ 2) }",
    "fn f(x: f64[n], s: i64) = sum(x * normal(s, iota(n)) + sin(x) * uniform(s + 1, iota(n)))",
    // Numbers of another type than the context, constants, and more than two indices.
    "fn f(x: f64[n], s: i64) =
     sum(f64(f32(normal(s, 3))) * x * uniform(7, 1, 2, 3) + x ^ 2 * normal(s, -1, 5, 2, 9))",
    "fn f(x: f64[n], k: i32[n], s: u8) {
     let y[i] = x[i] * uniform(s, i, k[i], k[i] * 3) + x[i] * exp(-uniform(s, k[i])) + f64(-uniform(s, i))
     sum(y * y) }",
    "fn f(x: f64[n], s: u64) { let u = uniform(s, 2)
     sum(x * x * f64(u) + f64(exp(u * 2 + normal(s, iota(n))))) }",
    // In the steps of loops, of few and of many steps, and of recurrences.
    "fn f(x: f64[n], s: i64) {
     let (y, k) = loop y = x, k = s, t < 5 { (y * x + 0.1 * normal(k, t), k * 3 + 1) }
     sum(y) * f64(k % 10) }",
    "fn f(x: f64[n], s: i64) {
     let y[i] = loop p = x[i], t < 70 { sin(p) + 0.1 * normal(s, t, i) * x[i] }
     sum(y * y) }",
    "fn f(x: f64[n], s: i64) {
     let rec y[t < n] = if t == 0 then x[t] else sin(y[t - 1]) * uniform(s, t) + x[t]
     sum(y * y) }",
];

/// Programs with loops that only `jvp` goes through.
pub const FORWARD: &[&str] = &[
    "fn f(x: f64[n]) { let y[i] = loop y = 0.5, t < 3 { loop z = y + f64(t), s <= t { z * x[i] + f64(s) } }
     sum(y) }",
    "fn f(x: f64) = loop y = x while y < 5 { y * y + 1 }",
    "fn f(x: f64[n]) { let y[i] = loop y = x[i], t < 9 while y < 5 { y * y + x[i] }
     sum(y) }",
    "fn f(x: f64, k: i64[n]) { let y[i] = loop y = x, t < k[i] { sin(y) + x }
     sum(y) }",
];
