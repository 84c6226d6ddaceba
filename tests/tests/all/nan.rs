//! Files and printed text of results with NaNs are equal byte for byte on every engine, with every
//! vector width and any number of threads, fused or not. The arguments contain NaNs with all kinds
//! of signs and payloads. In memory the NaNs of results may differ, and the test checks that some
//! do.

use backends::cpu::Simd;
use fuseloop::files::{self, Packing, Place};
use fuseloop::print;
use ir::array::Array;
use ir::{Dtype, Scalar};
use tests::engines::{Engine, Outcome, compile};

const ENGINES: [Engine; 9] = [
    Engine::Source,
    Engine::Nest,
    Engine::Cpu(1, Simd::Auto),
    Engine::Cpu(4, Simd::Auto),
    Engine::Cpu(1, Simd::W128),
    Engine::Cpu(4, Simd::W128),
    Engine::Cpu(1, Simd::W256),
    Engine::Cpu(1, Simd::W512),
    Engine::Ptx,
];

/// Bodies that produce NaNs or pass them on, of functions of `x` and `y`, arrays of the same type.
const BODIES: &[&str] = &[
    "x",
    "x[n - 1 - i] over i",
    "-x",
    "abs(x)",
    "max(x)",
    "min(x)",
    "sum(x)",
    "prod(x)",
    "mean(x)",
    "max(x, y)",
    "min(x, y)",
    "relu(x)",
    "clamp(x, 0, 1)",
    "(relu(x), clamp(x, 0, 1), -x, abs(x))",
    "x + y",
    "x - y",
    "x * y",
    "x / y",
    "x % y",
    "x ^ y",
    "fma(x, y, x)",
    "sqrt(x)",
    "exp(x)",
    "log(x)",
    "sin(x)",
    "tanh(x)",
    "floor(x)",
    "round(x)",
    "sign(x)",
    "exp(x - max(x)) / sum(exp(x - max(x)))",
    "x / sum(x)",
    "if x[i] > y[i] then x[i] else y[i] over i",
    "sum[k <= i](x[k]) over i",
    "max[k <= i](x[k]) over i",
    "f16(x)",
    "bf16(x)",
    "f32(x)",
    "f64(x)",
    "f16(f32(x) * 1.0005)",
    "bf16(f64(x))",
    "concat(x, y)",
];

/// The function with a body. `BODY over i` computes `BODY` for each `i`.
fn source(dtype: Dtype, body: &str) -> String {
    match body.strip_suffix(" over i") {
        None => format!("fn f(x: {dtype}[n], y: {dtype}[n]) = {body}"),
        Some(body) => format!("fn f(x: {dtype}[n], y: {dtype}[n]) {{\n    let z[i < n] = {body}\n    z\n}}"),
    }
}

/// Quiet and signalling NaNs of both signs with low, high and full payloads, among numbers, zeros
/// and infinities.
fn elements(dtype: Dtype, count: usize, shift: usize) -> Array {
    let (fraction, width) = match dtype {
        Dtype::F16 => (10, 16),
        Dtype::Bf16 => (7, 16),
        Dtype::F32 => (23, 32),
        _ => (52, 64),
    };
    let (sign, quiet) = (1u64 << (width - 1), 1u64 << (fraction - 1));
    let infinity = (sign - 1) & !((1 << fraction) - 1);
    let nans = [quiet, quiet | 1, 1, quiet - 1, 2 * quiet - 1, 0x55 & (quiet - 1)].map(|payload| infinity | payload);
    let numbers =
        ["1", "-2.5", "0", "-0", "inf", "-inf", "0.001", "7"].map(|text| Scalar::parse(dtype, text).unwrap().bits());
    let signed = nans.iter().flat_map(|nan| [*nan, *nan | sign]);
    let all: Vec<u64> = signed.chain(numbers).collect();
    // NaNs are sparser in longer arrays, so that numbers meet numbers too.
    let value = |n: usize| {
        if n.is_multiple_of(1 + count / 16) { all[(n + shift) % all.len()] } else { all[12 + (n * 3 + shift) % 8] }
    };
    let values: Vec<Scalar> = (0..count).map(|n| Scalar::from_bits(dtype, value(n))).collect();
    Array::from_scalars(dtype, &[count], &values).unwrap()
}

/// The bytes of files in each format that supports the type, and the printed text.
fn leaving(folder: &std::path::Path, results: &[Array]) -> Vec<Vec<u8>> {
    let mut all = vec![];
    for result in results {
        let names: &[&str] = match result.dtype() {
            Dtype::Bf16 => &["a.safetensors:x"],
            _ => &["a.npy", "a.npz:x", "a.safetensors:x"],
        };
        for name in names {
            let place = Place::parse(folder.join(name).to_str().expect("a temporary folder has a plain name")).unwrap();
            let packing = if name.contains("npz") { Packing::Deflated } else { Packing::Stored };
            files::save(&[(place.clone(), result.as_ref())], packing).unwrap();
            all.push(std::fs::read(place.path().expect("it is no stream")).unwrap());
        }
        all.push(print::to_text(result.as_ref(), &print::Format::default()).into_bytes());
    }
    all
}

fn hold(dtype: Dtype) {
    let folder = tempfile::tempdir().unwrap();
    let mut differ_in_memory = 0;
    for body in BODIES {
        let source = source(dtype, body);
        let compiled = compile(&source, "f").unwrap_or_else(|why| panic!("{source}\n{why:?}"));
        for count in [1, 17, 4099] {
            let (x, y) = (elements(dtype, count, 0), elements(dtype, count, 5));
            let inputs = [x.as_ref(), y.as_ref()];
            let mut expected = None;
            for form in &compiled.forms {
                // The emulator is slow, and long arrays add no new cases for it.
                for engine in ENGINES.into_iter().filter(|engine| *engine != Engine::Ptx || count < 1000) {
                    let results = match form.run(&compiled.checked, engine, &inputs) {
                        Outcome::Results(results) => results,
                        other => panic!("{source}\n{engine}: {other:?}"),
                    };
                    let found = leaving(folder.path(), &results);
                    let (first, bytes) = expected.get_or_insert_with(|| (results.clone(), found.clone()));
                    assert!(*bytes == found, "{source}\n{count} elements, {engine}: {results:?}");
                    let same = first.iter().zip(&results).all(|(a, b)| a.bytes() == b.bytes());
                    differ_in_memory += usize::from(!same);
                }
            }
        }
    }
    assert!(differ_in_memory > 0, "the arguments show nothing: every engine gives the same NaNs in memory too");
}

#[test]
fn f32_results_leave_as_the_same_bytes() {
    hold(Dtype::F32);
}

#[test]
fn f64_results_leave_as_the_same_bytes() {
    hold(Dtype::F64);
}

#[test]
fn f16_results_leave_as_the_same_bytes() {
    hold(Dtype::F16);
}

#[test]
fn bf16_results_leave_as_the_same_bytes() {
    hold(Dtype::Bf16);
}
