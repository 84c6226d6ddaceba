//! Indices with ends that are zero, negative or overflow 64 bits for some arguments. The end of a
//! reducer's index means the same as the expression elsewhere, on every engine, and a length
//! without a value is reported as an error.

use fuseloop::{Array, Device, Dtype, Options, Passes, Program, Scalar, Simd};

/// The results of a function of scalars, or the code of its error, checked to be the same on every
/// engine.
fn outcome(source: &str, arguments: &[Array]) -> Result<Vec<Array>, String> {
    let program = Program::parse(source).unwrap_or_else(|errors| panic!("{errors}"));
    let mut outcomes = vec![];
    for (device, simd) in [(Device::Interp, Simd::Auto), (Device::Cpu, Simd::Auto), (Device::Cpu, Simd::W128)] {
        for fuse in [Passes::ALL, Passes::NONE] {
            let options = Options { device, simd, fuse, threads: 2, ..Options::default() };
            let kernel = program.main().unwrap().compile(&options).unwrap();
            outcomes.push(kernel.call(arguments).map_err(|error| error.code().to_string()));
        }
    }
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{source}: {outcomes:?}");
    outcomes.swap_remove(0)
}

fn scalars(values: &[i64]) -> Vec<Array> {
    values.iter().map(|v| Array::scalar(Scalar::I64(*v))).collect()
}

/// The value of a single scalar result.
fn value(source: &str, arguments: &[i64]) -> Result<i64, String> {
    match outcome(source, &scalars(arguments))?[0].get(0) {
        Some(Scalar::I64(value)) => Ok(value),
        other => panic!("{source}: {other:?}"),
    }
}

#[test]
fn a_division_in_an_end_is_the_division_of_the_language() {
    for body in [
        "sum[k < n / m](k)",
        "{ let s = n / m\n sum[k < s](k) }",
        "sum[k < max(n / m, 0)](k)",
        "sum[l < 1, k < n / m](k)",
        "{ let y[i < 1] = sum[k < n / m](k)\n y[0] }",
    ] {
        let source = match body.starts_with('{') {
            true => format!("fn main(n: i64, m: i64) {body}"),
            false => format!("fn main(n: i64, m: i64) = {body}"),
        };
        for (n, m) in [(5, 0), (5, 2), (-5, 2), (5, -2), (-7, -2), (0, 0), (i64::MIN, -1), (i64::MAX, i64::MAX)] {
            let end = if m == 0 { 0 } else { n.wrapping_div(m) };
            if end < 1000 {
                assert_eq!(value(&source, &[n, m]), Ok((0..end).sum()), "{source}: {n} {m}");
            }
        }
    }
    // Sizes round down, integers truncate.
    for n in [-7, -3, -1, 0, 1, 3, 7] {
        assert_eq!(value("fn main(n: i64) = sum[k < n / 2 + 4](1)", &[n]), Ok((n / 2 + 4).max(0)));
        assert_eq!(value("fn main(n: i64) = sum[k <= n / 2 + 4](1)", &[n]), Ok((n / 2 + 5).max(0)));
    }
}

#[test]
fn an_end_wraps_as_the_same_expression_does() {
    assert_eq!(value("fn main(n: i64) = sum[k < n * n](k + 1)", &[1 << 32]), Ok(0));
    assert_eq!(value("fn main(n: i64) = sum[k < n * n + 3](k + 1)", &[1 << 32]), Ok(6));
    assert_eq!(value("fn main(n: i64) = sum[k < 4 * n](k + 1)", &[1 << 62]), Ok(0));
    assert_eq!(value("fn main(n: i64) = sum[k < 4 * n - 4 * n + 3](k + 1)", &[1 << 62]), Ok(6));
    assert_eq!(value("fn main(n: i64) = sum[k < 4611686018427387904 * n](k + 1)", &[4]), Ok(0));
    assert_eq!(value("fn main(n: i64) = sum[k < n](k)", &[i64::MIN + 1]), Ok(0));
    assert_eq!(value("fn main(n: i64) = sum[i < 3, k < i * n](k + 1)", &[i64::MIN]), Ok(0));
}

#[test]
fn a_guard_guards_an_end() {
    for (source, arguments) in [
        ("fn main(n: i64, m: i64) = if m > 0 then sum[k < n / m](k) else -1", [5, 0]),
        ("fn main(n: i64, m: i64) = if m > 0 then sum[k < n * n * m](k) else -1", [1 << 40, 0]),
        ("fn main(n: i64, m: i64) = if n < 100 then sum[k <= n](k) else -1", [i64::MAX, 0]),
        ("fn main(n: i64, m: i64) = if n < 100 then sum[k < n](k) else -1", [i64::MAX, 0]),
    ] {
        assert_eq!(value(source, &arguments), Ok(-1), "{source}");
    }
}

/// The end of an index may be of any integer type: a `u64` is clamped to `i64::MAX`, whatever
/// expression the end is.
#[test]
fn ends_of_every_integer_type_mean_one_thing() {
    let values = |v: u64| -> Vec<Scalar> {
        let narrow = i8::try_from(v).into_iter().map(Scalar::I8).chain(u8::try_from(v).into_iter().map(Scalar::U8));
        let i32s = i32::try_from(v).into_iter().map(Scalar::I32);
        let rest = u32::try_from(v).into_iter().map(Scalar::U32).chain(i64::try_from(v).into_iter().map(Scalar::I64));
        narrow.chain(i32s).chain(rest).chain([Scalar::U64(v)]).collect()
    };
    for v in [0, 1, 5, 127] {
        for scalar in values(v) {
            for end in ["y", "max(y, y)", "x[0]"] {
                let dtype = scalar.dtype();
                let source = format!("fn main(y: {dtype}, x: {dtype}[1]) = sum[k < {end}](k + 1)");
                let mut array = Array::zeros(dtype, &[1]).unwrap();
                array.set(0, scalar);
                let results = outcome(&source, &[Array::scalar(scalar), array]).unwrap();
                let expected = i64::try_from(v * (v + 1) / 2).unwrap();
                assert_eq!(results[0].get(0), Some(Scalar::I64(expected)), "{source}: {v}");
            }
        }
    }
    for end in ["y", "max(y, y)"] {
        let source = format!(
            "fn main(y: u64) = if y < 100 then 0 else argmax[i < 3](if i < 2 then 1 else sum[k < min({end}, 7)](k))"
        );
        assert_eq!(outcome(&source, &[Array::scalar(Scalar::U64(u64::MAX))]).unwrap()[0].get(0), Some(Scalar::I64(2)));
    }
}

#[test]
fn a_length_without_a_value_is_an_error() {
    for (source, arguments) in [
        ("fn main(n: i64, m: i64) = sum(iota(n / m))", [5, 0]),
        ("fn main(n: i64, m: i64) = iota(n / m)", [5, -1]),
        ("fn main(n: i64, m: i64) { let y[i < n * m] = 1\n sum(y) }", [1 << 32, 1 << 31]),
        ("fn main(n: i64, m: i64) { let y[i < n * n] = i + m\n y }", [1 << 32, 1]),
        ("fn main(n: i64, m: i64) = sum(concat(iota(n), iota(m)))", [1 << 62, 1 << 62]),
    ] {
        assert_eq!(outcome(source, &scalars(&arguments)), Err("E0210".to_owned()), "{source}");
    }
    let mut x = Array::zeros(Dtype::F32, &[5]).unwrap();
    (0..5).for_each(|k| _ = x.set(k, Scalar::F32(k as f32)));
    let none = Array::zeros(Dtype::F32, &[0]).unwrap();
    let groups = "fn main(x: f32[n], y: f32[m]) { let z[i < m] = sum[k < n / m](x[i * (n / m) + k])\n z }";
    assert_eq!(outcome(groups, &[x.clone(), none.clone()]).unwrap()[0].shape(), [0]);
    assert_eq!(
        outcome("fn main(x: f32[n], y: f32[m]) = sum[k < n / m](k)", &[x, none]).unwrap()[0].get(0),
        Some(Scalar::I64(0))
    );
}

/// Coefficients and offsets of subscripts may overflow 64 bits in intermediate results, as long as
/// the subscript itself is in bounds.
#[test]
fn subscripts_wrap_on_the_way_to_an_element() {
    let mut x = Array::zeros(Dtype::I64, &[4]).unwrap();
    (0..4).for_each(|k| _ = x.set(k, Scalar::I64(10 + k as i64)));
    let get = |source: &str, more: &[i64]| {
        let arguments: Vec<Array> = [x.clone()].into_iter().chain(scalars(more)).collect();
        let result = outcome(source, &arguments)?.swap_remove(0);
        Ok::<_, String>((0..result.len()).map(|k| result.get(k).unwrap()).collect::<Vec<_>>())
    };
    let source = "fn main(x: i64[n]) { let y[i < n] = if i * i == 4 then x[i * 4611686018427387904 * 2] else 7\n y }";
    assert_eq!(get(source, &[]).unwrap(), [7, 7, 10, 7].map(Scalar::I64));
    let source = "fn main(x: i64[m], n: i64) { let y[i < m] = if i > 100 then x[i - n * n] else 7\n y }";
    assert_eq!(get(source, &[1 << 32]).unwrap(), [7; 4].map(Scalar::I64));
    // `w - v` may wrap to a greater value, so the proof that `x[k]` is in bounds requires it to
    // have an exact value, as it has here.
    let source = "fn main(x: i64[m], w: i64, v: i64) = sum[k < w - v](if k < m then x[k] else 0)";
    assert_eq!(get(source, &[3, 1]).unwrap(), [Scalar::I64(21)]);
}

/// A requirement of an access does not apply if its loops have no iterations. Arrays that are read
/// at a constant index, one by way of another, leave accesses without the index of such a loop,
/// which must stay inside it.
#[test]
fn nothing_is_read_for_loops_without_iterations() {
    let zeros = |shape: &[usize]| Array::zeros(Dtype::F32, shape).unwrap();
    for (source, shapes) in [
        (
            "fn main(z: f32[3, m, m]) { let d[i, j, l < m] = z[i, j, 1]\n let e[i, l] = d[i, 1, l]\n (e, d) }",
            vec![vec![3, 0, 0]],
        ),
        ("fn main(z: f32[n], w: f32[m]) { let d[i < 4, l] = z[i] * w[l]\n let e[l] = d[3, l]\n e }", vec![vec![4], vec![0]]),
        (
            "fn main(z: f32[m, n], w: f32[4, m]) { let d[j, i < n] = z[j, min(i + 1, n - 1)]\n let e[k < 4, j] = w[k, j] + sum[i](d[j, i])
               (e, d) }",
            vec![vec![0, 0], vec![4, 0]],
        ),
        (
            "fn main(z: f32[n, n]) { let d[j, i < n] = z[j, min(i, n - 1)]\n let e[k < 4, j] = d[j, 3] + f32(k)\n (e, d) }",
            vec![vec![0, 0]],
        ),
    ] {
        let arguments: Vec<_> = shapes.iter().map(|shape| zeros(shape)).collect();
        let results = outcome(source, &arguments).unwrap_or_else(|code| panic!("{source}: {code}"));
        assert!(results.iter().all(|array| array.shape().contains(&0)), "{source}");
    }
}
