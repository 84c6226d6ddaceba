//! Programs from source text: their lowered form, which must mean the same.

use ir::checked::Checked;

use super::{agrees, kernels, whole};

pub fn checked(source: &str) -> Checked {
    let file = grammar::parse(source).unwrap_or_else(|errors| panic!("{errors:?}"));
    let name = file.functions.last().expect("a function").name.text.clone();
    compiler::check::check(&file, &name).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Shows the kernels of the last function of a program, and compares them with its meaning.
macro_rules! lowers {
    ($name:ident, $source:expr) => {
        #[test]
        fn $name() {
            let checked = checked($source);
            insta::assert_snapshot!(stringify!($name), format!("{}\n----\n{}", $source.trim(), kernels(&checked)));
            assert!(agrees(&checked, whole) > 0);
        }
    };
}

lowers!(
    softmax_rows,
    "
fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}
fn softmax_rows(x: f32[n, m]) -> f32[n, m] {
    let y[i] = softmax(x[i])
    y
}"
);
lowers!(
    layer_norm,
    "
fn layer_norm(x: f32[d], gain: f32[d], bias: f32[d]) -> f32[d] {
    let mu = mean(x)
    let var = mean((x - mu) ^ 2)
    (x - mu) * rsqrt(var + 1e-5) * gain + bias
}"
);
lowers!(
    matmul,
    "
fn linear_relu(x: f32[n, k], w: f32[k, m], bias: f32[m]) = relu(x @ w + bias)"
);
lowers!(
    attention,
    "
fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}
fn attention(q: f32[s, d], k: f32[t, d], v: f32[t, d]) -> f32[s, d] {
    let score[i, j] = sum[c](q[i, c] * k[j, c]) / sqrt(f32(d))
    let p[i] = softmax(score[i])
    p @ v
}"
);
lowers!(
    cross_entropy,
    "
fn cross_entropy(logits: f32[n, c], label: i32[n]) -> f32 {
    let hi[i] = max(logits[i])
    let lse[i] = hi[i] + log(sum[j](exp(logits[i, j] - hi[i])))
    mean[i](lse[i] - logits[i, label[i]])
}"
);
lowers!(
    blur,
    "
fn blur(x: f32[n, m]) {
    let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s]) / 9
    y
}"
);
lowers!(
    shift,
    "
fn shift(x: f32[n]) {
    let y[i < n] = if i > 0 then x[i - 1] else 0
    y
}"
);
lowers!(
    strided,
    "
fn strided(x: f32[m], y: f32[n]) = x[::2] + y"
);
lowers!(
    gathered,
    "
fn gathered(x: f32[m], idx: i32[n], y: f32[n]) = x[idx] + y"
);
lowers!(
    transposed,
    "
fn transposed(x: f32[n, m], y: f32[m, n]) {
    let z[i, j] = x[j, i] + y[i, j]
    z
}"
);
lowers!(
    cumsum,
    "
fn cumsum(x: f32[n, m]) {
    let c[i, j] = sum[k <= i](x[k, j] * 2)
    c
}"
);
lowers!(
    exclusive,
    "
fn exclusive(x: i32[n]) {
    let c[i < n] = max[k < i](x[k])
    c
}"
);
lowers!(
    convolution,
    "
fn conv_bn_relu(x: f32[b, c, h, w], k: f32[f, c, r, s], gain: f32[f], shift: f32[f]) {
    let y[n, o, i, j] = relu(sum[z, u, v](x[n, z, i + u, j + v] * k[o, z, u, v]) * gain[o] + shift[o])
    y
}"
);
lowers!(
    triangular,
    "
fn triangular(x: f64[n, n], y: f64[n]) {
    let z[i] = sum[j <= i](x[i, j] * y[j] + y[i])
    z
}"
);
lowers!(
    ragged,
    "
fn ragged(x: i32[n, m], len: i64[n]) {
    let z[i] = sum[j < len[i]](x[i, j] * x[i, 0])
    z
}"
);
lowers!(
    concatenated,
    "
fn concatenated(x: f32[n], y: f32[m]) = concat(x * 2, y)"
);
lowers!(
    reshaped,
    "
fn reshaped(x: f32[n, m], y: f32[n, k]) {
    let a[i] = reshape(y[i], 1, k)
    let b = reshape(reshape(x, m, n) * 2, n * m)
    (a, reshape(x, m, n), b)
}"
);
lowers!(copies, "
fn copies(x: f32[n, m], b: f32[m], s: f32) -> (t: f32[m, n], x: f32[n, m], wide: f32[n, m], twice: f32[m], again: f32[m], s: f32, one: i64) {
    let wide[i < n] = exp(b)
    let e = b + 1
    (transpose(x), x, wide, e, e, s, 1)
}");
lowers!(
    inline,
    "
fn inline(x: f32[n], s: f32) {
    let scale = s * 2 + f32(n)
    let y[i] = x[i] * scale + f32(iota(n)[i] * 3)
    (y, sum(x) / f32(size(x, 0)))
}"
);
lowers!(
    literals,
    "
fn literals(x: f32[n]) {
    let w = [1.0, 2, 3]
    let v = [x[0], 2, sum(x)]
    let y[i, j] = x[i] * w[j] + v[j]
    y
}"
);
// Nothing may be loaded if an index that a subscript does not mention has no value.
lowers!(
    mentioned,
    "
fn mentioned(x: f32[n], y: f32[m]) {
    let z[i] = sum[k](x[k] * exp(y[0]))  + y[i]
    z
}"
);
lowers!(
    widened,
    "
fn widened(x: f16[n], y: bf16[n, m]) = (transpose(f32(x) + y[:, 0]), sum(y), y @ x[:m] + 1)"
);
lowers!(
    places,
    "
fn places(x: f32[n, m]) {
    let y[i] = argmax(x[i])
    let z[i] = argmax[k <= i](x[0, k])
    (y, z)
}"
);
// Repeated expressions become one kernel, even if a result stores one of them. A check at another
// place in the source is not merged.
lowers!(
    twice,
    "
fn twice(x: f32[n], idx: i32[n]) {
    let a = (x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2))
    let b[i] = sum[k](x[k] - mean(x)) + x[idx[i]] * x[idx[i]]
    (a, b, mean(x), mean(x))
}"
);
lowers!(
    a_product_behind_a_constant_condition,
    "
fn never(x: f32[k, m], z: i8[3, k, m]) where k == m {
    let a = x @ x
    let b[i] = if 0 >= 1 then [z[i, 0, 0], 1, 1, i8(a[0, 0])] else 1
    b
}"
);
lowers!(
    products_with_vectors,
    "
fn products(a: f32[k], v: f32[k, m], x: f32[n, k], w: f32[m, k]) {
    let down[j, i] = sum[c](x[i, c] * w[j, c])
    (down, a @ v)
}"
);
