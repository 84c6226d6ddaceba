//! The rewrites that a fusion pass consists of, combined as in a pass.

use ir::nest::{Kernel, LoopKind, Program, Statement};
use ir::rewrite::{Copier, erase_unused, extremes, renumber, replace_loads};
use ir::{print, verify, visit};

/// Inlines the first kernel, one parallel loop that stores its iterations' elements, into the
/// second.
fn fuse(text: &str) -> String {
    let program: Program = text.parse().unwrap();
    verify::verify(&program).unwrap();
    let kernels: Vec<&Kernel> = program.kernels.values().collect();
    let (producer, mut consumer) = (kernels[0], kernels[1].clone());
    let [Statement::Loop(l)] = &producer.body[..] else { panic!() };
    assert!(matches!(l.kind, LoopKind::Parallel));
    let Some((Statement::Store { buffer, value, .. }, computed)) = l.body.split_last() else { panic!() };
    replace_loads(&mut consumer, *buffer, |consumer, view, at, out| {
        assert!(view.is_none());
        let mut copier = Copier::new(&program, producer, consumer);
        for ((index, _), at) in l.dims.iter().zip(at) {
            copier.map_index(*index, at.clone());
        }
        copier.copy(computed, out);
        copier.value(*value)
    });
    erase_unused(&mut consumer.body);
    assert!(!visit::loads(&consumer.body).contains(buffer));
    let fused = renumber(&program, &consumer);
    let text = print::kernel(&program, &fused);
    let mut program = program;
    program.kernels.clear();
    program.body.clear();
    program.push_kernel(fused);
    verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(program.to_string().parse::<Program>().unwrap(), program);
    text
}

const HEADER: &str = "program @p {
  symbol n = dim 0 of input 0
  symbol m = dim 1 of input 0
  input %x: f32[n, m]
  input %k: i64[n]
  output %y: f32[n]
  temp %t: f32[n, m]
  site0 = axis 0 of \"t\" at 0..0";

#[test]
fn affine_subscripts() {
    let producer = "kernel @a { parallel i < n, j < m { v0 = load %x[i, j] v1 = affine 2 * i v2 = cast f32 v1 v3 = mul v0, v2 v9 = neg v3 store %t[i, j], v3 } }";
    let consumer = "kernel @b {
        parallel i < n {
          v0 = load %t[n - 1 - i, 0]
          v2 = reduce j < m { v1 = load %t[i, j] } with sum lanes v1
          v3 = add v0, v2
          store %y[i], v3
        }
      }";
    insta::assert_snapshot!(fuse(&format!("{HEADER} {producer} {consumer} }}")), @r"
    kernel @b {
      parallel i < n {
        v0 = load %x[n - 1 - i, 0]
        v1 = affine 2 * n - 2 - 2 * i
        v2 = cast f32 v1
        v3 = mul v0, v2
        v8 = reduce j < m {
          v4 = load %x[i, j]
          v5 = affine 2 * i
          v6 = cast f32 v5
          v7 = mul v4, v6
        } with sum lanes v7
        v9 = add v3, v8
        store %y[i], v9
      }
    }
    ");
}

#[test]
fn gathered_subscripts_and_inner_loops() {
    let producer = "kernel @a {
        parallel i < n, j < m {
          v1 = reduce l < 2 * i + n { v0 = load %x[l - 2 * i, j + 1] } with max free v0
          store %t[i, j], v1
        }
      }";
    let consumer = "kernel @b {
        parallel l < n {
          v0 = load %k[l]
          v1 = check v0 < n at site0
          v2 = load %t[v1, l]
          store %y[l], v2
        }
      }";
    insta::assert_snapshot!(fuse(&format!("{HEADER} {producer} {consumer} }}")), @r"
    kernel @b {
      parallel l < n {
        v0 = load %k[l]
        v1 = check v0 < n at site0
        v2 = affine 2
        v3 = mul v2, v1
        v4 = affine n
        v5 = add v3, v4
        v11 = reduce l_1 < v5 {
          v6 = affine -2
          v7 = mul v6, v1
          v8 = affine l_1
          v9 = add v7, v8
          v10 = load %x[v9, l + 1]
        } with max free v10
        store %y[l], v11
      }
    }
    ");
}

/// The first kernel of a program, without code that has no effect.
fn without_unused(text: &str) -> String {
    let program: Program = text.parse().unwrap();
    let mut kernel = program.kernels.values().next().cloned().unwrap();
    erase_unused(&mut kernel.body);
    print::kernel(&program, &renumber(&program, &kernel))
}

#[test]
fn unused_code_is_erased_and_checks_stay() {
    let text = format!(
        "{HEADER} kernel @k {{
          parallel i < n {{
            v0 = load %k[i]
            v1 = check v0 < n at site0
            v2 = load %x[v1, 0]
            v4, v5 = reduce j < m {{ v3 = load %x[i, j] v6 = neg v3 }} with max free v3, min free v6
            v7 = reduce l < m {{ v8 = load %x[i, l] }} with max free v8
            v9 = gt v4, v4
            v13 = if v9 {{ v10 = neg v2 yield v10 }} else {{ v11 = load %k[i] v12 = check v11 < n at site0 yield v4 }}
            parallel p < n {{ v14 = neg v4 }}
            store %y[i], v4
          }}
        }} }}"
    );
    insta::assert_snapshot!(without_unused(&text), @r"
    kernel @k {
      parallel i < n {
        v0 = load %k[i]
        v1 = check v0 < n at site0
        v3 = reduce j < m {
          v2 = load %x[i, j]
        } with max free v2
        v4 = gt v3, v3
        if v4 {
        } else {
          v5 = load %k[i]
          v6 = check v5 < n at site0
        }
        store %y[i], v3
      }
    }
    ");
}

/// A scan without any prefix left computes each element by itself.
#[test]
fn a_scan_without_a_prefix_is_a_parallel_loop() {
    let text = format!(
        "{HEADER} kernel @k {{
          scan i < n {{ v0 = load %k[i] v1 = prefix max v0 v2 = cast f32 v0 store %y[i], v2 }}
        }} }}"
    );
    insta::assert_snapshot!(without_unused(&text), @r"
    kernel @k {
      parallel i < n {
        v0 = load %k[i]
        v1 = cast f32 v0
        store %y[i], v1
      }
    }
    ");
}

/// A branch is removed when nothing is left in it, but not while its result is used.
#[test]
fn empty_branches_are_erased() {
    let text = format!(
        "{HEADER} kernel @k at 3..9 {{
          parallel i < n {{
            v0 = load %x[i, 0]
            v1 = load %x[i, 1]
            v2 = gt v0, v1
            if v2 {{ v3 = neg v0 }} else {{ v4 = neg v1 }}
            v5 = if v2 {{ yield v0 }} else {{ yield v1 }}
            v6 = if v2 {{ yield v1 }} else {{ yield v0 }}
            store %y[i], v5
          }}
        }} }}"
    );
    insta::assert_snapshot!(without_unused(&text), @r"
    kernel @k at 3..9 {
      parallel i < n {
        v0 = load %x[i, 0]
        v1 = load %x[i, 1]
        v2 = gt v0, v1
        v3 = if v2 {
          yield v0
        } else {
          yield v1
        }
        store %y[i], v3
      }
    }
    ");
}

#[test]
fn what_is_free_in_a_block() {
    let text = format!(
        "{HEADER} kernel @k {{
          parallel i < n {{
            v0 = load %k[i]
            v2 = reduce j < v0, l < i {{ v1 = load %x[j, l + i] }} with max free v1
            store %y[i], v2
          }}
        }} }}"
    );
    let program: Program = text.parse().unwrap();
    let kernel = program.kernels.values().next().unwrap();
    let Some(Statement::Loop(outer)) = kernel.body.first() else { panic!() };
    let reduce = outer.body[1..2].to_vec();
    assert_eq!(format!("{:?}", visit::free_indices(&reduce)), "{i0}");
    assert_eq!(format!("{:?}", visit::free_values(&reduce)), "{v0}");
    assert!(visit::free_indices(&kernel.body).is_empty() && visit::free_values(&kernel.body).is_empty());
}

/// Monotone functions of one element leave the loops that find the greatest and the least. Values
/// with other uses stay, and so do functions that are not monotone.
#[test]
fn extremes_before_monotone_functions() {
    let kernel = "kernel @b {
        parallel i < n {
          v9 = const f32 2.0
          v4, v5, v6 = reduce j < m {
            v0 = load %t[i, j]
            v1 = abs v0
            v2 = mul v1, v9
            v3 = sub v9, v2
            v7 = sqrt v1
          } with max free v3, min free v3, max free v7
          v10 = add v4, v5
          v11 = add v10, v6
          v14 = reduce k < m {
            v12 = load %t[i, k]
            v13 = sqrt v12
          } with max free v13
          v15 = add v11, v14
          store %y[i], v15
        }
      }";
    let mut program: Program = format!("{HEADER} {kernel} }}").parse().unwrap();
    let id = program.kernels.keys().next().unwrap();
    let mut kernel = program.kernels[id].clone();
    assert_eq!(extremes(&program, &mut kernel), 3);
    let kernel = renumber(&program, &kernel);
    let text = print::kernel(&program, &kernel);
    program.kernels[id] = kernel;
    verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    insta::assert_snapshot!(text);
}
