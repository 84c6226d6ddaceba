//! Counts of loads and stores: polynomials, and numbers compared with the counts of a run.

use interp::scalar::ARITHMETIC;
use ir::nest::{Program, SymbolSource};
use ir::{Array, Scalar};

use super::{lowered, program, shown};
use compiler::analysis::cost;
use compiler::analysis::traffic::{Count, polynomials, predict};

/// The loads and stores of every buffer, as text.
fn counts(program: &Program) -> String {
    let mut lines = vec![];
    for kernel in program.kernels.values() {
        for (buffer, traffic) in polynomials(program, kernel).traffic {
            for (count, what) in [(traffic.loads, "loads"), (traffic.stores, "stores")] {
                let elements = count.elements.as_ref().map(|n| shown(program, n));
                let shown = match (elements, count.exact) {
                    (Some(n), _) if n == "0" => continue,
                    (Some(n), true) => n,
                    (Some(n), false) => format!("at most {n}"),
                    (None, _) => "unknown".into(),
                };
                lines.push(format!("{}: {shown} {what}", program.buffers[buffer].name));
            }
        }
    }
    lines.join("\n")
}

/// Inputs of a program for the values of its sizes; integers are `0, 1, 0, 1, ...`.
fn inputs(program: &Program, sizes: &[i64]) -> Vec<Array> {
    let value = |symbol: ir::SymbolId| sizes[symbol.as_u32() as usize];
    let array = |(n, id): (usize, ir::nest::BufferId)| {
        let buffer = &program.buffers[id];
        let source = SymbolSource::Scalar { input: n };
        let shape: Vec<usize> =
            buffer.shape.iter().map(|s| usize::try_from(s.eval(&value).unwrap()).unwrap()).collect();
        let number = |k: usize| match program.symbols.iter().find(|(_, s)| s.source == source) {
            Some((symbol, _)) => Scalar::I64(value(symbol)),
            None => Scalar::I64(i64::try_from(k % 2).unwrap()),
        };
        let elements: Vec<Scalar> =
            (0..shape.iter().product()).map(|k| interp::scalar::cast(buffer.dtype, number(k))).collect();
        Array::from_scalars(buffer.dtype, &shape, &elements).unwrap()
    };
    program.inputs().into_iter().enumerate().map(array).collect()
}

/// Compares predictions with a run's counts. Returns how many there are and how many of them are
/// exact.
fn held(program: &Program, sizes: &[i64]) -> (usize, usize) {
    let arrays = inputs(program, sizes);
    let borrowed: Vec<_> = arrays.iter().map(Array::as_ref).collect();
    let found = interp::nest::run(program, &borrowed).unwrap_or_else(|e| panic!("{e:?} {sizes:?}\n{program}")).traffic;
    let (mut all, mut exact) = (0, 0);
    for (predicted, found) in
        predict(program, &|symbol| sizes[symbol.as_u32() as usize], &ARITHMETIC).iter().zip(&found)
    {
        assert!(found.keys().all(|buffer| predicted.traffic.contains_key(buffer)));
        for (buffer, traffic) in &predicted.traffic {
            let found = found.get(buffer).copied().unwrap_or_default();
            for (count, found) in [(traffic.loads, found.loads), (traffic.stores, found.stores)] {
                let place = format!("{} {sizes:?} {count:?} {found}\n{program}", program.buffers[*buffer].name);
                match count {
                    Count { elements, exact: true } => assert_eq!(elements, Some(found), "{place}"),
                    Count { elements, exact: false } => assert!(elements.is_none_or(|n| n >= found), "{place}"),
                }
                all += 1;
                exact += usize::from(count.exact);
            }
        }
    }
    (all, exact)
}

/// Compares all counts of a program, each of them exact, with runs at several sizes.
fn exact(program: &Program, sizes: &[&[i64]]) {
    for sizes in sizes {
        let (all, exact) = held(program, sizes);
        assert_eq!(all, exact, "{sizes:?}\n{program}");
    }
}

#[test]
fn boxes() {
    let blur = lowered("fn f(x: f32[n, m]) {\n let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s])\n y\n}");
    assert_eq!(counts(&blur), "x: 9 * n * m - 18 * n - 18 * m + 36 loads\nout: n * m - 2 * n - 2 * m + 4 stores");
    exact(&blur, &[&[2, 2], &[3, 7], &[2, 9]]);
    let product = lowered("fn f(x: f32[n, k], w: f32[k, m], bias: f32[m]) = relu(x @ w + bias)");
    exact(&product, &[&[3, 4, 5], &[3, 0, 5], &[0, 1, 1]]);
    let views = lowered("fn f(x: f32[n, m]) = reshape(reshape(x, m, n) * 2, n * m)");
    exact(&views, &[&[3, 4], &[0, 1]]);
    let scan = lowered("fn f(x: f32[n, m]) {\n let c[i, j] = sum[k <= i](x[k, j])\n c\n}");
    assert_eq!(counts(&scan), "x: n * m loads\nout: n * m stores");
    exact(&scan, &[&[3, 4], &[0, 1]]);
    let gather = lowered("fn f(x: f32[m], idx: i32[n], y: f32[n]) = x[idx] + y");
    exact(&gather, &[&[2, 5], &[3, 0]]);
    let scratch = program(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input %x: f32[n, m]
         output %y: f32[n, m] scratch %e: f32[m]
         kernel @k { parallel i < n {
           v2 = reduce j < m { v0 = load %x[i, j] v1 = mul v0, v0 store %e[j], v1 } with sum lanes v1
           parallel k < m { v3 = load %e[k] v4 = div v3, v2 store %y[i, k], v4 } } } }",
    );
    assert_eq!(counts(&scratch), "x: n * m loads\ny: n * m stores\ne: n * m loads\ne: n * m stores");
    exact(&scratch, &[&[3, 4], &[0, 1]]);
}

#[test]
fn triangles() {
    let lower = lowered("fn f(x: f64[n, n], y: f64[n]) {\n let z[i] = sum[j <= i](x[i, j] * y[j])\n z\n}");
    let pairs = "n + (n * n - n) / 2";
    assert_eq!(counts(&lower), format!("x: {pairs} loads\ny: {pairs} loads\nout: n stores"));
    exact(&lower, &[&[0], &[1], &[2], &[9]]);
    let upper = lowered("fn f(x: f64[n, n]) {\n let z[i < n] = sum[j < n - i](x[i, j])\n z\n}");
    assert_eq!(counts(&upper), "x: n * n - (n * n - n) / 2 loads\nout: n stores");
    exact(&upper, &[&[1], &[2], &[9]]);
    // The first extent is -1, which counts as 0, so there is no polynomial.
    let strict = lowered("fn f(x: f64[n, n]) {\n let z[i < n] = sum[j < i - 1](x[i, j])\n z\n}");
    assert_eq!(counts(&strict), "x: at most n * n - 2 * n loads\nout: n stores");
    exact(&strict, &[&[2], &[3], &[9]]);
}

#[test]
fn guards() {
    let shift =
        lowered("fn f(x: f32[n]) {\n let y[i < n] = if i > 0 && i < n - 1 then x[i - 1] + x[i + 1] else 0\n y\n}");
    assert_eq!(counts(&shift), "x: at most 2 * n loads\nout: n stores");
    exact(&shift, &[&[0], &[1], &[2], &[3], &[1000]]);
    let both = lowered("fn f(x: f32[n], y: f32[m]) = concat(x, y)");
    exact(&both, &[&[0, 3], &[3, 0], &[100, 37]]);
    let corner = lowered("fn f(x: f32[n, n]) {\n let y[i < n, j < n] = if i + j < n then x[i + j, j] else 0\n y\n}");
    exact(&corner, &[&[0], &[1], &[40]]);
    let odd = lowered("fn f(x: f32[n]) {\n let y[i < 2 * n] = if i % 2 == 1 then x[i / 2] else 0\n y\n}");
    exact(&odd, &[&[0], &[1], &[40]]);
    let scalar = lowered("fn f(x: f32[n], k: i64) {\n let y[i < n] = if i < k then x[i] else 0\n y\n}");
    exact(&scalar, &[&[4, 9], &[-4, 9], &[40, 9]]);
}

#[test]
fn data_decide() {
    let ragged = lowered("fn f(x: i32[n, m], len: i64[n]) {\n let z[i] = sum[j < len[i]](x[i, j])\n z\n}");
    assert_eq!(counts(&ragged), "x: unknown loads\nlen: n loads\nout: n stores");
    assert_eq!(held(&ragged, &[4, 3]), (6, 5));
    let predicted = &predict(&ragged, &|symbol| [4, 3][symbol.as_u32() as usize], &ARITHMETIC)[0].traffic;
    let x = predicted[&ragged.inputs()[0]].loads;
    // A subscript that is checked at run time stays within the axis.
    assert_eq!(x, Count { elements: Some(12), exact: false });
    let chosen =
        lowered("fn f(x: f32[n], y: f32[n]) {\n let z[i < n] = if i > 0 && y[i] > 0 then x[i - 1] else 0\n z\n}");
    let (all, exact) = held(&chosen, &[9]);
    assert_eq!(all - exact, 1);
}

/// A guard costs a few steps whatever the size, and counts that would take too many steps are only
/// bounded.
#[test]
fn sizes_do_not_matter() {
    let shift =
        lowered("fn f(x: f32[n, m]) {\n let y[i < n, j < m] = if i > 0 && j < 5 then x[i - 1, j] else 0\n y\n}");
    let start = std::time::Instant::now();
    let sizes = [1i64 << 20, 1 << 30];
    let traffic = predict(&shift, &|symbol| sizes[symbol.as_u32() as usize], &ARITHMETIC);
    let x = traffic[0].traffic[&shift.inputs()[0]].loads;
    assert_eq!(x, Count { elements: Some(5 * ((1 << 20) - 1)), exact: true });
    let lower = lowered("fn f(x: f64[n, n]) {\n let z[i] = sum[j <= i](x[i, j])\n z\n}");
    let traffic = predict(&lower, &|_| 1 << 30, &ARITHMETIC);
    let x = traffic[0].traffic[&lower.inputs()[0]].loads;
    assert!(!x.exact && x.elements.is_some_and(|n| ((1 << 59) + (1 << 29)..=1 << 60).contains(&n)), "{x:?}");
    assert!(start.elapsed().as_secs() < 10);
}

/// A kernel counts as often as the loops over kernels around it run it.
#[test]
fn loops_over_kernels_repeat_counts() {
    let copy = |name: &str, from: &str, to: &str| {
        format!("kernel @{name} {{ parallel i < n {{ v0 = load %{from}[i] store %{to}[i], v0 }} }}")
    };
    let inner = format!("repeat t - 2 with %b = %a then %b1 {{ {} }}", copy("inner", "b", "b1"));
    let text = format!(
        "program @p {{ symbol n = dim 0 of input 0 symbol t = value of input 1 input %x: f32[n] input %t: i64
         output %y: f32[n] temp %a: f32[n] temp %a1: f32[n] temp %b: f32[n] temp %b1: f32[n]
         repeat t with %a = %x then %a1 {{ {inner} {} }} {} }}",
        copy("outer", "b", "a1"),
        copy("end", "a", "y")
    );
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
    for n in [0, 1, 7] {
        for trips in [-3, 0, 1, 2, 3, 5] {
            let (all, exact) = held(&program, &[n, trips]);
            assert_eq!(all, exact, "{n} elements, {trips} iterations");
        }
    }
    let runs = cost::runs(&program, &cost::given(|symbol| [7, 5][symbol.as_u32() as usize]));
    assert_eq!(runs, [15.0, 5.0, 1.0]);
    assert_eq!(cost::runs(&program, &cost::given(|_| -1)), [0.0, 0.0, 1.0]);
}
