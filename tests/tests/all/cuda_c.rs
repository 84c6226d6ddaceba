//! CUDA C as people read it. (`gpu cuda-c` holds its bits to the meaning of programs, where
//! NVIDIA's run-time compiler is there.)

use backends::cuda_c::Module;
use insta::assert_snapshot;
use schedule::{Machine, schedule};
use tests::engines::compile;

/// The text of a function without the functions before its kernels.
fn written(source: &str) -> String {
    let compiled = compile(source, "main").unwrap_or_else(|rejected| panic!("{rejected:?}"));
    let scheduled = schedule(&compiled.forms[1].program, Machine::PTX).unwrap();
    let text = Module::new(&scheduled).and_then(|module| module.text(|_| vec![]));
    let text = text.unwrap_or_else(|error| format!("{error}\n"));
    text.find("// Launch").map_or(text.clone(), |at| text[at..].to_owned())
}

#[test]
fn kernels_read_like_their_source() {
    let programs = [
        // Neighbours, the end of a range, and a constant.
        "fn main(x: f32[n], a: f32) = a * x + 1",
        // Rows that may not be aligned, and values that several elements share.
        "fn main(x: f32[n, m], t: f64[n]) { let out[i, j] = f64(x[i, j]) / sqrt(t[i])\n out }",
        // Checks and gathers.
        "fn main(x: f16[m], at: i32[n]) = x[at]",
        // A stencil.
        "fn main(t: f32[n + 2, m]) { let out[i < n, j < m] = t[i, j] + t[i + 1, j] - 2 * t[i + 2, j]\n out }",
        // Tiles through shared memory.
        "fn main(x: i32[n, m], y: i32[m, n]) { let out[i, j] = max(x[j, i], y[i, j])\n out }",
        // A branch, a choice, a bool and a random number.
        "fn main(x: f32[n], lo: f32) { let out[i] = if x[i] > lo && i > 2 then exp(x[i]) else x[i - i]\n out }",
        // A loop of scalars.
        "fn main(x: f32[n]) { let out[i] = loop v = x[i], k < 10 while v < 100 { v * v + f32(k) }\n out }",
        // Work in place of names that C has: identifiers of their own.
        "fn main(double: f32[n], add: i64[n]) { let short[i] = double[i] * f32(add[i] + 1)\n short }",
        // A block for each row, with scratch.
        "fn main(x: f32[n, m]) { let e = exp(x)\n let out[i, j] = e[i, j] / sum(e[i])\n out }",
        // Chunks, and one block that joins their results; a state of several values.
        "fn main(x: f32[n]) = argmax(x)",
        // Blocks of rows, and a thread for each column.
        "fn main(x: f64[n, m]) = sum(x, axis = 0)",
        // Blocks of elements across memory.
        "fn main(x: f32[n, m]) = sum[i](x[i, 0])",
        // A thread alone: lanes, and a running sum.
        "fn main(x: f32[n, 5]) { let y[i, j] = sum[k <= j](x[i, k])\n let s[i] = sum(x[i])\n (y, s) }",
        // Chunks of a long running sum, with a block that relays what is before each.
        "fn main(x: f32[n]) { let y[i] = sum[k <= i](x[k])\n y }",
        // Products are not covered.
        "fn main(x: f32[n, m], y: f32[m, k]) = x @ y",
    ];
    assert_snapshot!(
        programs.map(|source| format!("// {}\n{}", source.replace('\n', " "), written(source))).join("\n")
    );
}
