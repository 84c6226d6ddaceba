//! The workloads, with their sizes, their ceilings, and the shares of these that they should reach.

/// A function at some sizes.
pub struct Workload {
    pub name: &'static str,
    pub function: &'static str,
    pub sizes: &'static [&'static [(&'static str, i64)]],
    pub draw: Draw,
    pub held: Held,
    /// The share to reach at each size.
    goals: &'static [f64],
}

/// The contents of inputs.
#[derive(Clone, Copy)]
pub enum Draw {
    /// Normal numbers.
    Normal,
    /// Numbers from 0.5 to 1.5.
    Positive,
}

/// The ceiling.
#[derive(Clone, Copy)]
pub enum Held {
    /// The memory bandwidth of a copy.
    Copy,
    /// The memory bandwidth of a read.
    Read,
    /// The rate of cuBLAS for products of matrices of 8192 x 8192 on an H200, in operations per
    /// second.
    Products(f64),
    /// The rate of cuDNN for attention over 4096 tokens on an H200, in operations per second: twice
    /// the products of queries and keys.
    Attention(f64),
}

impl Workload {
    /// The share to reach at a size.
    pub fn goal(&self, sizes: &[(&str, i64)]) -> Option<f64> {
        self.goals.get(self.sizes.iter().position(|known| *known == sizes)?).copied()
    }
}

const M: i64 = 1 << 20;

type Sizes = &'static [&'static [(&'static str, i64)]];

const VECTORS: Sizes = &[&[("n", 16 * M)], &[("n", 64 * M)]];
const LONG: Sizes = &[&[("n", 256 * M)]];
const ROWS: Sizes = &[&[("n", 16384), ("m", 4096)], &[("n", 65536), ("m", 256)], &[("n", 1024), ("m", 65536)]];
const ROW: Sizes = &[&[("n", 16384), ("m", 4096)]];
const SQUARE: Sizes = &[&[("n", 8192), ("m", 8192)]];

const CUBES: Sizes = &[&[("n", 2048), ("k", 2048), ("m", 2048)], &[("n", 4096), ("k", 4096), ("m", 4096)]];

const CUBE: Sizes = &[&[("n", 4096), ("k", 4096), ("m", 4096)]];
const FEW_ROWS: Sizes = &[&[("n", 16), ("k", 4096), ("m", 4096)], &[("n", 1), ("k", 4096), ("m", 16384)]];

const WORDS: Sizes = &[&[("b", 8), ("s", 256), ("h", 768), ("v", 30522)]];

const HEADS: Sizes = &[&[("h", 64), ("s", 4096), ("t", 4096), ("d", 128)]];

const fn workload(
    name: &'static str,
    function: &'static str,
    sizes: Sizes,
    draw: Draw,
    held: Held,
    goals: &'static [f64],
) -> Workload {
    Workload { name, function, sizes, draw, held, goals }
}

/// All of them. Where there is a peer, the goal is the peer's best time over ours, as a share of
/// the ceiling.
pub const WORKLOADS: &[Workload] = &[
    workload("relu_bias", "relu_bias", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("chain5", "chain5", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("gelu", "exact_gelu", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("gelu_tanh", "approximate_gelu", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("swiglu", "swiglu", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("sincos", "sincos", VECTORS, Draw::Normal, Held::Copy, &[0.94, 0.97]),
    workload("black_scholes", "black_scholes", VECTORS, Draw::Positive, Held::Copy, &[0.94, 0.97]),
    workload("sum", "total", LONG, Draw::Normal, Held::Read, &[0.98]),
    workload("mse", "mse", LONG, Draw::Normal, Held::Read, &[0.98]),
    workload("softmax", "softmax", ROWS, Draw::Normal, Held::Copy, &[0.95, 0.90, 0.85]),
    workload("layernorm", "layernorm", ROWS, Draw::Normal, Held::Copy, &[0.95, 0.90, 0.85]),
    workload("cross_entropy", "cross_entropy", ROW, Draw::Normal, Held::Copy, &[0.87]),
    workload("dropout", "dropout", SQUARE, Draw::Normal, Held::Copy, &[0.97]),
    workload("stencil", "stencil5", SQUARE, Draw::Normal, Held::Copy, &[0.91]),
    workload("row_cumsum", "row_cumsum", ROW, Draw::Normal, Held::Copy, &[0.95]),
    workload("transpose_add", "transpose_add", SQUARE, Draw::Normal, Held::Copy, &[0.99]),
    workload("column_sums", "column_sums", ROW, Draw::Normal, Held::Copy, &[1.00]),
    workload("matmul_bf16", "matmul_bf16", CUBES, Draw::Normal, Held::Products(703e12), &[]),
    workload("matmul_rows", "matmul_bf16", FEW_ROWS, Draw::Normal, Held::Products(703e12), &[]),
    workload("gelu_bf16", "gelu_bf16", CUBE, Draw::Normal, Held::Products(703e12), &[]),
    workload("splade_bf16", "splade_bf16", WORDS, Draw::Normal, Held::Products(703e12), &[]),
    workload("matmul_fast", "matmul_fast", CUBES, Draw::Normal, Held::Products(376e12), &[]),
    workload("matmul_f32", "matmul", CUBES, Draw::Normal, Held::Products(50.7e12), &[]),
    workload("attention_bf16", "attention_bf16", HEADS, Draw::Normal, Held::Attention(656e12), &[0.6]),
    workload("attention_fast", "attention_fast", HEADS, Draw::Normal, Held::Attention(656e12), &[1.0]),
    workload("cumsum", "cumsum", VECTORS, Draw::Normal, Held::Copy, &[]),
];
