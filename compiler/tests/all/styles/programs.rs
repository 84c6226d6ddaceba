//! The programs, each in three styles.

/// A name, the number of kernels, and a program in three styles.
pub const PROGRAMS: &[(&str, usize, [&str; 3])] = &[
    (
        "a chain",
        1,
        [
            "fn f(x: f32[n, m], b: f32[m]) = relu(x * 2 + b)",
            "fn f(x: f32[n, m], b: f32[m]) { let y[i, j] = max(x[i, j] * 2 + b[j], 0)
               y }",
            "fn scale(x: f32) = x * 2
             fn f(x: f32[n, m], b: f32[m]) { let s = scale(x)
               let y[i] = relu(s[i] + b)
               y }",
        ],
    ),
    (
        "softmax of rows",
        1,
        [
            "fn f(x: f32[n, m]) { let e = exp(x - reshape(max(x, axis = 1), n, 1))
               e / reshape(sum(e, axis = 1), n, 1) }",
            "fn f(x: f32[n, m]) { let t[i] = max[j](x[i, j])
               let e[i, j] = exp(x[i, j] - t[i])
               let s[i] = sum[j](e[i, j])
               let y[i, j] = e[i, j] / s[i]
               y }",
            "fn softmax(x: f32[m]) { let e = exp(x - max(x))
               e / sum(e) }
             fn f(x: f32[n, m]) { let y[i] = softmax(x[i])
               y }",
        ],
    ),
    (
        "softmax of columns",
        1,
        [
            "fn f(x: f32[n, m]) { let e = exp(x - max(x, axis = 0))
               e / sum(e, axis = 0) }",
            "fn f(x: f32[n, m]) { let t[j] = max[i](x[i, j])
               let e[i, j] = exp(x[i, j] - t[j])
               let s[j] = sum[i](e[i, j])
               let y[i, j] = e[i, j] / s[j]
               y }",
            "fn softmax(x: f32[m]) { let e = exp(x - max(x))
               e / sum(e) }
             fn f(x: f32[n, m]) { let t = transpose(x)
               let y[j] = softmax(t[j])
               transpose(y) }",
        ],
    ),
    (
        "softmax of everything",
        3,
        [
            "fn f(x: f32[n, m]) { let e = exp(x - max(x))
               e / sum(e) }",
            "fn f(x: f32[n, m]) { let t = max[i, j](x[i, j])
               let e[i, j] = exp(x[i, j] - t)
               let s = sum[i, j](e[i, j])
               let y[i, j] = e[i, j] / s
               y }",
            "fn softmax(x: f32[m]) { let e = exp(x - max(x))
               e / sum(e) }
             fn f(x: f32[n, m]) = reshape(softmax(reshape(x, n * m)), n, m)",
        ],
    ),
    (
        "layer norm",
        1,
        [
            "fn f(x: f32[n, m], g: f32[m], b: f32[m]) {
               let v = x - reshape(mean(x, axis = 1), n, 1)
               v / reshape(sqrt(mean(v * v, axis = 1) + 0.01), n, 1) * g + b }",
            "fn f(x: f32[n, m], g: f32[m], b: f32[m]) {
               let a[i] = mean[j](x[i, j])
               let s[i] = sqrt(mean[j]((x[i, j] - a[i]) * (x[i, j] - a[i])) + 0.01)
               let y[i, j] = (x[i, j] - a[i]) / s[i] * g[j] + b[j]
               y }",
            "fn norm(x: f32[m], g: f32[m], b: f32[m]) { let v = x - mean(x)
               v / sqrt(mean(v * v) + 0.01) * g + b }
             fn f(x: f32[n, m], g: f32[m], b: f32[m]) { let y[i] = norm(x[i], g, b)
               y }",
        ],
    ),
    (
        "layer norm over two of four axes",
        1,
        [
            "fn f(x: f32[a, b, c, d]) { let r = reshape(x, a * b, c * d)
               let v = r - reshape(mean(r, axis = 1), a * b, 1)
               reshape(v / reshape(sqrt(mean(v * v, axis = 1) + 0.01), a * b, 1), a, b, c, d) }",
            "fn f(x: f32[a, b, c, d]) {
               let t[i, j] = mean[k, l](x[i, j, k, l])
               let s[i, j] = sqrt(mean[k, l]((x[i, j, k, l] - t[i, j]) * (x[i, j, k, l] - t[i, j])) + 0.01)
               let y[i, j, k, l] = (x[i, j, k, l] - t[i, j]) / s[i, j]
               y }",
            "fn f(x: f32[a, b, c, d]) {
               let r[i < a * b, j < c * d] = x[i / b, i % b, j / d, j % d]
               let t[i] = mean(r[i])
               let v[i, j] = r[i, j] - t[i]
               let z[i] = v[i] / sqrt(mean(v[i] * v[i]) + 0.01)
               let y[i < a, j < b, k < c, l < d] = z[b * i + j, d * k + l]
               y }",
        ],
    ),
    (
        "rows less their greatest",
        1,
        [
            "fn f(x: f32[2, 3, 4, 5]) { let r = reshape(x, 6, 20)
               reshape(r - reshape(max(r, axis = 1), 6, 1), 2, 3, 4, 5) }",
            "fn f(x: f32[2, 3, 4, 5]) { let t[i, j] = max[k, l](x[i, j, k, l])
               let y[i, j, k, l] = x[i, j, k, l] - t[i, j]
               y }",
            "fn f(x: f32[2, 3, 4, 5]) {
               let r[i < 6, j < 20] = x[i / 3, i % 3, j / 5, j % 5]
               let t[i] = max(r[i])
               let y[i < 2, j < 3, k < 4, l < 5] = r[i * 3 + j, k * 5 + l] - t[i * 3 + j]
               y }",
        ],
    ),
    (
        "a mean and a variance",
        1,
        [
            "fn f(x: f32[n, m]) { let a = mean(x)
               (a, mean(x * x) - a * a) }",
            "fn f(x: f32[n, m]) { let a = mean[i, j](x[i, j])
               let q = mean[i, j](x[i, j] * x[i, j])
               (a, q - a * a) }",
            "fn f(x: f32[n, m]) { let r = reshape(x, n * m)
               let a = mean(r)
               (a, mean(x * x) - a * a) }",
        ],
    ),
    (
        "a quotient of sums",
        1,
        [
            "fn f(x: f32[n, m]) = sum(exp(x)) / sum(x * x)",
            "fn f(x: f32[n, m]) = sum[i, j](exp(x[i, j])) / sum[i, j](x[i, j] * x[i, j])",
            "fn f(x: f32[n, m]) { let (u, w) = (exp(x), x * x)
               let (a, b) = (sum(reshape(u, n * m)), sum(w))
               a / b }",
        ],
    ),
    (
        "a kept axis",
        1,
        [
            "fn f(x: f32[n, m]) = reshape(sqrt(sum(x * x)), 1, 1)",
            "fn f(x: f32[n, m]) { let y[i < 1, j < 1] = sqrt(sum[r, s](x[r, s] * x[r, s]))
               y }",
            "fn f(x: f32[n, m]) { let q = x * x
               let s[i < 1, j < 1] = sum(q)
               sqrt(s) }",
        ],
    ),
    (
        "a product",
        1,
        [
            "fn f(x: f32[n, k], w: f32[k, m], b: f32[m]) = relu(x @ w + b)",
            "fn f(x: f32[n, k], w: f32[k, m], b: f32[m]) {
               let y[i, j] = relu(sum[r](x[i, r] * w[r, j]) + b[j])
               y }",
            "fn dense(x: f32[k], w: f32[k, m], b: f32[m]) { let y[j] = sum[r](x[r] * w[r, j]) + b[j]
               y }
             fn f(x: f32[n, k], w: f32[k, m], b: f32[m]) { let y[i] = relu(dense(x[i], w, b))
               y }",
        ],
    ),
    (
        "a product of transposed factors",
        1,
        [
            "fn f(x: f32[k, n], w: f32[m, k]) = transpose(x) @ transpose(w)",
            "fn f(x: f32[k, n], w: f32[m, k]) { let y[i, j] = sum[r](x[r, i] * w[j, r])
               y }",
            "fn f(x: f32[k, n], w: f32[m, k]) { let z[j, i] = sum[r](w[j, r] * x[r, i])
               transpose(z) }",
        ],
    ),
    (
        "a product with scaled factors",
        1,
        [
            "fn f(x: f32[2, 4, 8], w: f32[2, 4, 8]) {
               let (a, b) = (x * 0.5, w * 0.5)
               let t[i, r, j] = b[i, j, r]
               a @ t }",
            "fn f(x: f32[2, 4, 8], w: f32[2, 4, 8]) {
               let y[i, j, k] = sum[r](x[i, j, r] * 0.5 * (w[i, k, r] * 0.5))
               y }",
            "fn half(x: f32) = x * 0.5
             fn f(x: f32[2, 4, 8], w: f32[2, 4, 8]) { let (a, b) = (half(x), half(w))
               let y[i, j, k] = sum[r](a[i, j, r] * b[i, k, r])
               y }",
        ],
    ),
    (
        "a product of one batch",
        1,
        [
            "fn f(q: f32[1, n, k], x: f32[1, k, m]) = q @ x",
            "fn f(q: f32[1, n, k], x: f32[1, k, m]) { let y[i < 1, j, l] = sum[r](q[0, j, r] * x[0, r, l])
               y }",
            "fn f(q: f32[1, n, k], x: f32[1, k, m]) = reshape(reshape(q, n, k) @ reshape(x, k, m), 1, n, m)",
        ],
    ),
    (
        "a product in a row",
        1,
        [
            "fn f(q: f32[n, k], x: f32[k, m], z: f32[n * m]) = reshape(q @ x, n * m) + z",
            "fn f(q: f32[n, k], x: f32[k, m], z: f32[n * m]) { let p[i, j] = sum[r](q[i, r] * x[r, j])
               let y[l < n * m] = p[l / m, l % m] + z[l]
               y }",
            "fn f(q: f32[n, k], x: f32[k, m], z: f32[n * m]) = reshape(q @ x + reshape(z, n, m), n * m)",
        ],
    ),
    (
        "heads split",
        1,
        [
            "fn f(x: f32[b, t, k], w: f32[k, 32]) { let p = reshape(x @ w, b, t, 4, 8)
               let y[i, h, j, d] = p[i, j, h, d]
               y }",
            "fn f(x: f32[b, t, k], w: f32[k, 32]) {
               let y[i, h < 4, j, d < 8] = sum[r](x[i, j, r] * w[r, 8 * h + d])
               y }",
            "fn f(x: f32[b, t, k], w: f32[k, 32]) { let p = x @ w
               let y[i, h < 4, j, d < 8] = p[i, j, 8 * h + d]
               y }",
        ],
    ),
    (
        "heads merged",
        1,
        [
            "fn f(a: f32[b, 4, t, s], v: f32[b, 4, s, 8]) { let p = a @ v
               let q[i, j, h, d] = p[i, h, j, d]
               reshape(q, b, t, 32) }",
            "fn f(a: f32[b, 4, t, s], v: f32[b, 4, s, 8]) {
               let p[i, h, j, d] = sum[r](a[i, h, j, r] * v[i, h, r, d])
               let y[i, j, l < 32] = p[i, l / 8, j, l % 8]
               y }",
            "fn heads(a: f32[h, t, s], v: f32[h, s, d]) { let p[k, j, l] = sum[r](a[k, j, r] * v[k, r, l])
               p }
             fn f(a: f32[b, 4, t, s], v: f32[b, 4, s, 8]) { let p[i] = heads(a[i], v[i])
               let y[i, j, l < 32] = p[i, l / 8, j, l % 8]
               y }",
        ],
    ),
    (
        "norms of split heads",
        1,
        [
            "fn f(x: f32[b, t, 32]) { let q = reshape(x, b, t, 4, 8)
               q / reshape(sqrt(sum(q * q, axis = 3) + 0.01), b, t, 4, 1) }",
            "fn f(x: f32[b, t, 32]) {
               let s[i, j, h < 4] = sqrt(sum[d < 8](x[i, j, 8 * h + d] * x[i, j, 8 * h + d]) + 0.01)
               let y[i, j, h, d < 8] = x[i, j, 8 * h + d] / s[i, j, h]
               y }",
            "fn unit(x: f32[d]) = x / sqrt(sum(x * x) + 0.01)
             fn f(x: f32[b, t, 32]) { let q[i, j, h < 4, d < 8] = x[i, j, h * 8 + d]
               let y[i, j, h] = unit(q[i, j, h])
               y }",
        ],
    ),
    (
        "a reduction seen in three axes",
        1,
        [
            "fn f(x: f32[n, 64, k]) = reshape(sum(x, axis = 2), n, 8, 8)",
            "fn f(x: f32[n, 64, k]) { let y[i, j < 8, l < 8] = sum[r](x[i, 8 * j + l, r])
               y }",
            "fn f(x: f32[n, 64, k]) { let s[i, j] = sum(x[i, j])
               let y[i, j < 8, l < 8] = s[i, l + 8 * j]
               y }",
        ],
    ),
    (
        "a reduction in a row",
        1,
        [
            "fn f(x: f32[n, m, k], z: f32[n * m]) = sqrt(reshape(sum(x, axis = 2), n * m)) + z",
            "fn f(x: f32[n, m, k], z: f32[n * m]) { let s[i, j] = sum[r](x[i, j, r])
               let y[l < n * m] = sqrt(s[l / m, l % m]) + z[l]
               y }",
            "fn f(x: f32[n, m, k], z: f32[n * m]) = sqrt(sum(reshape(x, n * m, k), axis = 1)) + z",
        ],
    ),
    (
        "repeated heads",
        1,
        [
            "fn f(q: f32[2, 9, 4, 8], x: f32[2, 3, 6, 8]) {
               let r[i, h < 9, l, d] = x[i, h / 3, l, d]
               let t[i, h, d, l] = r[i, h, l, d]
               q @ t }",
            "fn f(q: f32[2, 9, 4, 8], x: f32[2, 3, 6, 8]) {
               let y[i, h, k, l] = sum[r](q[i, h, k, r] * x[i, h / 3, l, r])
               y }",
            "fn f(q: f32[2, 9, 4, 8], x: f32[2, 3, 6, 8]) {
               let r[i, h < 9] = x[i, h / 3]
               let y[i, h, k, l] = sum[s](q[i, h, k, s] * r[i, h, l, s])
               y }",
        ],
    ),
    (
        "a moving mean",
        1,
        [
            "fn f(x: f32[n]) = (x[:n - 2] + x[1:n - 1] + x[2:]) / 3",
            "fn f(x: f32[n]) { let y[i] = (x[i] + x[i + 1] + x[i + 2]) / 3
               y }",
            "fn f(x: f32[n]) { let (a, b) = (x[1:], x[:n - 1])
               let s = b[:n - 2] + a[:n - 2]
               (s + a[1:]) / 3 }",
        ],
    ),
    (
        "distances",
        1,
        [
            "fn f(x: f32[n, 3], y: f32[m, 3]) {
               let d = reshape(x, n, 1, 3) - reshape(y, 1, m, 3)
               sqrt(sum(d * d, axis = 2)) }",
            "fn f(x: f32[n, 3], y: f32[m, 3]) {
               let z[i, j] = sqrt(sum[k]((x[i, k] - y[j, k]) * (x[i, k] - y[j, k])))
               z }",
            "fn distance(p: f32[3], q: f32[3]) { let d = p - q
               sqrt(sum(d * d)) }
             fn f(x: f32[n, 3], y: f32[m, 3]) { let z[i, j] = distance(x[i], y[j])
               z }",
        ],
    ),
    (
        "an outer product and its rows",
        1,
        [
            "fn f(x: f32[n], y: f32[m]) = sum(exp(reshape(x, n, 1) + y), axis = 1)",
            "fn f(x: f32[n], y: f32[m]) { let z[i] = sum[j](exp(x[i] + y[j]))
               z }",
            "fn f(x: f32[n], y: f32[m]) { let o[i] = exp(x[i] + y)
               let z[i] = sum(o[i])
               z }",
        ],
    ),
    (
        "a prefix of products",
        1,
        [
            "fn f(x: f32[n], y: f32[n]) { let p = x * y
               let c[i] = sum[k <= i](p[k])
               c * 2 }",
            "fn f(x: f32[n], y: f32[n]) { let c[i] = sum[k <= i](x[k] * y[k]) * 2
               c }",
            "fn sums(x: f32[n]) { let c[i] = sum[k <= i](x[k])
               c }
             fn f(x: f32[n], y: f32[n]) = sums(x * y) * 2",
        ],
    ),
    (
        "cross entropy",
        1,
        [
            "fn f(x: f32[n, m], t: f32[n, m]) {
               let z = x - reshape(max(x, axis = 1), n, 1)
               -sum(t * (z - reshape(log(sum(exp(z), axis = 1)), n, 1)), axis = 1) }",
            "fn f(x: f32[n, m], t: f32[n, m]) {
               let a[i] = max[j](x[i, j])
               let s[i] = log(sum[j](exp(x[i, j] - a[i])))
               let y[i] = -sum[j](t[i, j] * (x[i, j] - a[i] - s[i]))
               y }",
            "fn entropy(x: f32[m], t: f32[m]) { let z = x - max(x)
               -sum(t * (z - log(sum(exp(z))))) }
             fn f(x: f32[n, m], t: f32[n, m]) { let y[i] = entropy(x[i], t[i])
               y }",
        ],
    ),
    (
        "batch norm",
        1,
        [
            "fn f(x: f32[n, m]) { let v = x - mean(x, axis = 0)
               v / sqrt(mean(v * v, axis = 0) + 0.01) }",
            "fn f(x: f32[n, m]) { let a[j] = mean[i](x[i, j])
               let s[j] = sqrt(mean[i]((x[i, j] - a[j]) * (x[i, j] - a[j])) + 0.01)
               let y[i, j] = (x[i, j] - a[j]) / s[j]
               y }",
            "fn norm(x: f32[m]) { let v = x - mean(x)
               v / sqrt(mean(v * v) + 0.01) }
             fn f(x: f32[n, m]) { let y[j] = norm(transpose(x)[j])
               transpose(y) }",
        ],
    ),
    (
        "attention",
        1,
        [
            "fn f(q: f32[b, t, d], k: f32[b, d, s], v: f32[b, s, e]) {
               let w = exp(q @ k)
               (w / reshape(sum(w, axis = 2), b, t, 1)) @ v }",
            "fn f(q: f32[b, t, d], k: f32[b, d, s], v: f32[b, s, e]) {
               let p[i, j, l] = sum[r](q[i, j, r] * k[i, r, l])
               let w[i, j, l] = exp(p[i, j, l])
               let z[i, j] = sum[l](w[i, j, l])
               let y[i, j, l] = sum[r](w[i, j, r] / z[i, j] * v[i, r, l])
               y }",
            "fn head(q: f32[t, d], k: f32[d, s], v: f32[s, e]) {
               let w = exp(q @ k)
               let a[i] = w[i] / sum(w[i])
               a @ v }
             fn f(q: f32[b, t, d], k: f32[b, d, s], v: f32[b, s, e]) { let y[i] = head(q[i], k[i], v[i])
               y }",
        ],
    ),
    (
        "pooling",
        1,
        [
            "fn f(x: f32[n, 8, 6]) = max(max(reshape(x, n, 4, 2, 3, 2), axis = 4), axis = 2)",
            "fn f(x: f32[n, 8, 6]) {
               let r[i, j < 8, l < 3] = max[s < 2](x[i, j, 2 * l + s])
               let y[i, j < 4, l] = max[s < 2](r[i, 2 * j + s, l])
               y }",
            "fn f(x: f32[n, 8, 6]) { let p = reshape(x, n, 4, 2, 3, 2)
               let r[i, j, k, l] = max(p[i, j, k, l])
               let y[i, j, l] = max[k](r[i, j, k, l])
               y }",
        ],
    ),
    (
        "a blend in halves",
        1,
        [
            "fn f(x: f32[n, m], t: f32) = x * (1 - t) + reshape(x, n, m) * t",
            "fn f(x: f32[n, m], t: f32) { let y[i, j] = x[i, j] * (1 - t) + x[i, j] * t
               y }",
            "fn mix(a: f32, b: f32, t: f32) = a * (1 - t) + b * t
             fn f(x: f32[n, m], t: f32) { let r = reshape(x, n * m)
               reshape(mix(r, r, t), n, m) }",
        ],
    ),
    (
        "heads of any number",
        1,
        [
            "fn f(x: f32[b, t, k], w: f32[k, h * d], z: f32[b, t, h, d]) = reshape(x @ w, b, t, h, d) + z",
            "fn f(x: f32[b, t, k], w: f32[k, h * d], z: f32[b, t, h, d]) {
               let y[i, j, l, e] = sum[r](x[i, j, r] * w[r, d * l + e]) + z[i, j, l, e]
               y }",
            "fn f(x: f32[b, t, k], w: f32[k, h * d], z: f32[b, t, h, d]) { let p = x @ w
               let y[i, j, l, e] = p[i, j, l * d + e] + z[i, j, l, e]
               y }",
        ],
    ),
    (
        "heads of any number merged",
        1,
        [
            "fn f(a: f32[b, h, t, s], v: f32[b, h, s, d]) { let p = a @ v
               let q[i, j, l, e] = p[i, l, j, e]
               reshape(q, b, t, h * d) }",
            "fn f(a: f32[b, h, t, s], v: f32[b, h, s, d]) {
               let p[i, l, j, e] = sum[r](a[i, l, j, r] * v[i, l, r, e])
               let y[i, j, l < h * d] = p[i, l / d, j, l % d]
               y }",
            "fn f(a: f32[b, h, t, s], v: f32[b, h, s, d]) {
               let p[i, j, l, e] = sum[r](a[i, l, j, r] * v[i, l, r, e])
               reshape(p, b, t, h * d) }",
        ],
    ),
    (
        "group norm",
        1,
        [
            "fn f(x: f32[n, 32, s]) { let r = reshape(x, n, 8, 4 * s)
               let v = r - reshape(mean(r, axis = 2), n, 8, 1)
               reshape(v / reshape(sqrt(mean(v * v, axis = 2) + 0.01), n, 8, 1), n, 32, s) }",
            "fn f(x: f32[n, 32, s]) {
               let a[i, g < 8] = mean[c < 4, l](x[i, 4 * g + c, l])
               let q[i, g < 8] = sqrt(mean[c < 4, l]((x[i, 4 * g + c, l] - a[i, g]) * (x[i, 4 * g + c, l] - a[i, g])) + 0.01)
               let y[i, c, l] = (x[i, c, l] - a[i, c / 4]) / q[i, c / 4]
               y }",
            "fn norm(x: f32[m]) { let v = x - mean(x)
               v / sqrt(mean(v * v) + 0.01) }
             fn f(x: f32[n, 32, s]) { let r = reshape(x, n, 8, 4 * s)
               let y[i, g] = norm(r[i, g])
               reshape(y, n, 32, s) }",
        ],
    ),
    (
        "sums of blocks",
        1,
        [
            "fn f(x: f32[n, m, 4, k]) = sum(sum(x * x, axis = 3), axis = 2)",
            "fn f(x: f32[n, m, 4, k]) { let y[i, j] = sum[r](sum[s](x[i, j, r, s] * x[i, j, r, s]))
               y }",
            "fn f(x: f32[n, m, 4, k]) { let r = reshape(x, n, m * 4, k)
               let s[i, j] = sum(r[i, j] * r[i, j])
               let y[i, j < m] = sum[a < 4](s[i, 4 * j + a])
               y }",
        ],
    ),
    (
        "softmax of flattened axes",
        1,
        [
            "fn f(x: f32[b, n, m]) { let r = reshape(x, b, n * m)
               let e = exp(r - reshape(max(r, axis = 1), b, 1))
               reshape(e / reshape(sum(e, axis = 1), b, 1), b, n, m) }",
            "fn f(x: f32[b, n, m]) { let e[i, j, k] = exp(x[i, j, k] - max(x[i]))
               let y[i, j, k] = e[i, j, k] / sum(e[i])
               y }",
            "fn softmax(x: f32[m]) { let e = exp(x - max(x))
               e / sum(e) }
             fn f(x: f32[b, n, m]) { let y[i] = reshape(softmax(reshape(x[i], n * m)), n, m)
               y }",
        ],
    ),
    (
        "patches times a matrix",
        2,
        [
            "fn f(x: f32[n, 8, 12], w: f32[16, m]) { let r = reshape(x, n, 2, 4, 3, 4)
               let p[i, a, b, c, d] = r[i, a, c, b, d]
               reshape(p, n, 6, 16) @ w }",
            "fn f(x: f32[n, 8, 12], w: f32[16, m]) {
               let p[i, a < 2, b < 3, c < 4, d < 4] = x[i, 4 * a + c, 4 * b + d]
               let y[i, j, l] = sum[k](reshape(p, n, 6, 16)[i, j, k] * w[k, l])
               y }",
            "fn patch(x: f32[2, 4, 3, 4]) { let p[a, b, c, d] = x[a, c, b, d]
               reshape(p, 6, 16) }
             fn f(x: f32[n, 8, 12], w: f32[16, m]) { let p[i] = patch(reshape(x[i], 2, 4, 3, 4))
               p @ w }",
        ],
    ),
    (
        "pixels shuffled",
        1,
        [
            "fn f(x: f32[n, 8, h, w]) { let r = reshape(relu(x), n, 2, 2, 2, h, w)
               let p[i, c, y, a, z, b] = r[i, c, a, b, y, z]
               reshape(p, n, 2, h * 2, w * 2) }",
            "fn f(x: f32[n, 8, h, w]) {
               let p[i, c < 2, y, a < 2, z, b < 2] = relu(x[i, 4 * c + 2 * a + b, y, z])
               reshape(p, n, 2, h * 2, w * 2) }",
            "fn f(x: f32[n, 8, h, w]) {
               let p[i, c, y, a, z, b] = reshape(x, n, 2, 2, 2, h, w)[i, c, a, b, y, z]
               relu(reshape(p, n, 2, h * 2, w * 2)) }",
        ],
    ),
    (
        "pairs turned",
        1,
        [
            "fn f(x: f32[n, m * 2], c: f32[m], s: f32[m]) { let r = reshape(x, n, m, 2)
               let (a, b) = (r[:, :, 0], r[:, :, 1])
               let y[i, j, k < 2] = if k == 0 then a[i, j] * c[j] - b[i, j] * s[j] else a[i, j] * s[j] + b[i, j] * c[j]
               reshape(y, n, m * 2) }",
            "fn f(x: f32[n, m * 2], c: f32[m], s: f32[m]) {
               let t[i, j < m] = x[i, 2 * j] * c[j] - x[i, 2 * j + 1] * s[j]
               let u[i, j < m] = x[i, 2 * j] * s[j] + x[i, 2 * j + 1] * c[j]
               let y[i, j, k < 2] = if k == 0 then t[i, j] else u[i, j]
               reshape(y, n, m * 2) }",
            "fn f(x: f32[n, m * 2], c: f32[m], s: f32[m]) {
               let (a, b) = (x[:, ::2], x[:, 1::2])
               let y[i, j, k < 2] = if k == 0 then a[i, j] * c[j] - b[i, j] * s[j] else a[i, j] * s[j] + b[i, j] * c[j]
               reshape(y, n, m * 2) }",
        ],
    ),
];
