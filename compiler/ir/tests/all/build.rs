//! Names and conversions that a builder adds by itself.

use ir::build::Builder;
use ir::nest::Program;
use ir::{Dtype, Scalar};

#[test]
fn fresh_names_count_on() {
    let cases = [
        (["i", "i", "i"], ["i", "i_1", "i_2"]),
        // The size has the name already.
        (["n", "n", "n_1"], ["n_1", "n_2", "n_3"]),
        // If a number is taken, another is chosen.
        (["i_1", "i_1", "i"], ["i_1", "i_2", "i"]),
        (["i_x", "i_x", "i_1"], ["i_x", "i_x_1", "i_1"]),
        (["_1", "_1", "_1"], ["_1", "_1_1", "_1_2"]),
    ];
    for (asked, given) in cases {
        let mut program: Program = "program @p { symbol n = value of input 0 input %n: i64 }".parse().unwrap();
        let mut builder = Builder::new(&mut program);
        for name in asked {
            builder.index(name);
        }
        let kernel = builder.into_kernel("k".into(), vec![]);
        assert_eq!(kernel.indices.values().map(|i| i.name.as_str()).collect::<Vec<_>>(), given, "{asked:?}");
    }
}

#[test]
fn a_value_of_the_type_already_stays_as_it_is() {
    let mut program = Program::default();
    let mut builder = Builder::new(&mut program);
    let narrow = builder.constant(Scalar::F32(1.0));
    assert_eq!(builder.cast(Dtype::F32, narrow), narrow);
    let wide = builder.cast(Dtype::F64, narrow);
    assert_eq!((wide == narrow, builder.dtype(wide)), (false, Dtype::F64));
}
