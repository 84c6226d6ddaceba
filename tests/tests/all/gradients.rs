//! Derivatives held to backward programs that a person would write: at most one kernel more, and a
//! tenth more bytes, as `explain` counts them, and the same values. Each file of `tests/gradients`
//! has a `loss`, its derivative `derived`, and the program `by_hand`.

use std::path::Path;

use compiler::pipeline::{self, compile};
use fuseloop::{Options, Program};
use ir::checked::{Checked, Param};
use ir::{Array, Dtype, Scalar, SymbolId};

/// The program, and the sizes that bytes are counted at.
type Row = (&'static str, &'static [(&'static str, i64)]);

const ROWS: &[Row] = &[
    ("attention", &[("s", 1024), ("t", 1024), ("d", 64)]),
    ("batch_norm", &[("n", 8192), ("d", 256)]),
    ("black_scholes", &[("n", 1_000_000)]),
    ("conv", &[("b", 8), ("c", 16), ("h", 64), ("w", 64), ("f", 16)]),
    ("embedding", &[("v", 10_000), ("d", 64), ("n", 100_000)]),
    ("gelu_mlp", &[("n", 2048), ("d", 256), ("h", 1024)]),
    ("gru", &[("b", 512), ("d", 256), ("k", 256)]),
    ("kmeans", &[("n", 100_000), ("d", 16), ("k", 10)]),
    ("layer_norm", &[("n", 8192), ("d", 1024)]),
    ("log_sum_exp", &[("n", 8192), ("m", 1024)]),
    ("logistic", &[("n", 100_000), ("d", 64)]),
    ("nbody", &[("n", 4096)]),
    ("ridge", &[("n", 100_000), ("d", 64)]),
    ("rms_norm", &[("n", 8192), ("d", 1024)]),
    ("softmax_cross_entropy", &[("n", 8192), ("d", 256), ("c", 64)]),
];

/// The most that values may differ, relative to the greatest of an array.
const TOLERANCE: f64 = 1e-4;

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("gradients").join(format!("{name}.fl"));
    std::fs::read_to_string(path).expect("the program is there")
}

/// Kernels, and bytes at some sizes.
fn figures(program: &Program, function: &str, sizes: &[(&str, i64)]) -> (usize, u64) {
    let function = program.function(function).expect("the function is there");
    let explanation = function.explain(&Options::default(), sizes).expect("it compiles");
    (explanation.kernels_after(), explanation.bytes_after().expect("the sizes are known"))
}

#[test]
fn derivatives_take_no_more_than_programs_by_hand() {
    let mut wrong = vec![];
    for (name, sizes) in ROWS {
        let program = Program::parse(source(name).as_str()).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let (kernels, bytes) = figures(&program, "derived", sizes);
        let (fewest, least) = figures(&program, "by_hand", sizes);
        if kernels > fewest + 1 || bytes > least + least / 10 {
            wrong.push(format!("{name}: {kernels} kernels and {bytes} bytes, by hand {fewest} and {least}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn checked(name: &str, function: &str) -> Checked {
    let file = grammar::parse(&source(name)).expect("it has no errors");
    compiler::check::check(&file, function).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// Arguments of a function, with axes of 4 to 7: floats between 0.2 and 1.2, integers below 3.
fn arguments(checked: &Checked) -> Vec<Array> {
    let value = |symbol: SymbolId| 4 + i64::from(symbol.as_u32() % 4);
    let argument = |(k, param): (usize, &Param)| {
        let shape: Vec<usize> =
            param.ty.shape.iter().map(|size| usize::try_from(size.eval(&value).unwrap()).unwrap()).collect();
        let element = |n: usize| match param.ty.dtype.is_float() {
            true => {
                let part = ((n + 1) * (2 * k + 7) * 37) % 101;
                interp::scalar::cast(param.ty.dtype, Scalar::F64(0.2 + part as f64 / 101.0))
            }
            false => interp::scalar::cast(param.ty.dtype, Scalar::I64(((n * 2 + k) % 3) as i64)),
        };
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(element).collect();
        Array::from_scalars(param.ty.dtype, &shape, &elements).expect("there is memory")
    };
    checked.params.iter().enumerate().map(argument).collect()
}

fn floats(array: &Array) -> Vec<f64> {
    let float = |k: usize| match interp::scalar::cast(Dtype::F64, array.get(k).expect("it is inside")) {
        Scalar::F64(value) => value,
        other => panic!("{other:?}"),
    };
    (0..array.len()).map(float).collect()
}

#[test]
fn derivatives_have_the_values_of_programs_by_hand() {
    for (name, _) in ROWS {
        let [found, expected] = ["derived", "by_hand"].map(|function| {
            let checked = checked(name, function);
            let arguments = arguments(&checked);
            let arguments: Vec<_> = arguments.iter().map(Array::as_ref).collect();
            let program = compile(&checked, &pipeline::Options::default()).expect("it compiles").program;
            interp::nest::run(&program, &arguments).unwrap_or_else(|error| panic!("{name}: {error:?}")).outputs
        });
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.shape(), expected.shape(), "{name}");
            let (found, expected) = (floats(found), floats(expected));
            let greatest = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            for (found, expected) in found.iter().zip(&expected) {
                let near = (found - expected).abs() <= TOLERANCE * greatest;
                assert!(near, "{name}: {found}, by hand {expected}");
            }
        }
    }
}
