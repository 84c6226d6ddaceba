//! Memory planning: which temporaries become scratch, which share a slot, and the peak memory of
//! calls.

use std::fmt::Write;

use compiler::plan::peak::Peak;
use compiler::plan::plan;
use interp::nest::run;
use ir::array::ArrayRef;
use ir::nest::{BufferId, Program, Role};
use ir::{Array, Dtype, Scalar, Size, verify};

fn parse(text: &str) -> Program {
    let program: Program = format!("program @p {{ {text} }}").parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    program
}

/// The planned program, checked to be valid and to give the same bits.
fn planned(program: &Program) -> Program {
    let mut after = program.clone();
    plan(&mut after);
    verify::verify(&after).unwrap_or_else(|e| panic!("{e}\n{after}"));
    for lengths in [[0, 0], [1, 1], [3, 5], [6, 2]] {
        let inputs: Vec<Array> = program.inputs().into_iter().map(|id| input(program, id, lengths)).collect();
        let inputs: Vec<ArrayRef<'_>> = inputs.iter().map(Array::as_ref).collect();
        let [expected, found] = [program, &after].map(|p| run(p, &inputs).unwrap_or_else(|e| panic!("{e:?}\n{p}")));
        for (expected, found) in expected.outputs.iter().zip(&found.outputs) {
            assert_eq!(expected.bytes(), found.bytes(), "{after}");
        }
    }
    after
}

fn input(program: &Program, id: BufferId, lengths: [i64; 2]) -> Array {
    let buffer = &program.buffers[id];
    let length = |size: &Size| size.eval(&|s| lengths[s.as_u32() as usize]).unwrap();
    let shape: Vec<usize> = buffer.shape.iter().map(|n| usize::try_from(length(n)).unwrap()).collect();
    let element = |n: usize| Scalar::F32((n * 7 % 13) as f32 + id.as_u32() as f32);
    Array::from_scalars(Dtype::F32, &shape, &(0..shape.iter().product()).map(element).collect::<Vec<_>>()).unwrap()
}

/// Temporaries, scratch and slots as text, and the peak as a formula.
fn memory(program: &Program) -> String {
    let text = program.to_string();
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.retain(|line| ["temp", "scratch", "slot"].iter().any(|word| line.starts_with(word)));
    let names: Vec<String> = program.symbols.values().map(|s| s.name.clone()).collect();
    let size = |size: &Size| size.display(&|s| names[s.as_u32() as usize].as_str()).to_string();
    format!("{}\npeak {}\n", lines.join("\n"), Peak::of(program).formula(&size))
}

/// `%to[i] = %from[at] + ...`, a kernel.
fn map(name: &str, from: &[(&str, &str)], (to, length): (&str, &str)) -> String {
    let mut text = format!("kernel @{name} {{ parallel i < {length} {{ v0 = const f32 0.5 ");
    for (k, (buffer, at)) in from.iter().enumerate() {
        write!(text, "v{} = load %{buffer}[{at}] v{} = add v{}, v{} ", 2 * k + 1, 2 * k + 2, 2 * k, 2 * k + 1).unwrap();
    }
    write!(text, "store %{to}[i], v{} }} }} ", 2 * from.len()).unwrap();
    text
}

const SOFTMAX: &str = "
    symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
    input %x: f32[n, m] output %y: f32[n, m]
    temp %hi: f32[n] temp %d: f32[n, m] temp %e: f32[n, m] temp %z: f32[n]
    kernel @max { parallel i < n {
        v1 = reduce j < m { v0 = load %x[i, j] } with max free v0
        store %hi[i], v1 } }
    kernel @sub { parallel i < n, j < m {
        v0 = load %x[i, j] v1 = load %hi[i] v2 = sub v0, v1 store %d[i, j], v2 } }
    kernel @square { parallel i < n, j < m { v0 = load %d[i, j] v1 = mul v0, v0 store %e[i, j], v1 } }
    kernel @sum { parallel i < n {
        v1 = reduce j < m { v0 = load %e[i, j] } with sum lanes v0
        store %z[i], v1 } }
    kernel @div { parallel i < n, j < m {
        v0 = load %e[i, j] v1 = load %z[i] v2 = div v0, v1 store %y[i, j], v2 } }";

#[test]
fn operations_one_after_another_share_memory() {
    let after = planned(&parse(SOFTMAX));
    // `d`, `e` and the result are computed in place; `hi` and `z` are never needed at once.
    insta::assert_snapshot!(memory(&after), @r"
    temp %hi: f32[n]
    temp %d: f32[n, m]
    temp %e: f32[n, m]
    temp %z: f32[n]
    slot0 = %hi, %z
    slot1 = %d, %e, %y
    peak 4 * n + 8 * n * m
    ");
    let sizes = |size: &Size| size.eval(&|s| [100, 10][s.as_u32() as usize]).unwrap();
    assert_eq!(Peak::of(&after).at(&sizes, 4), 8400);
    assert_eq!(Peak::of(&parse(SOFTMAX)).at(&sizes, 4), 8000 + 8000 + 800);
}

#[test]
fn rows_of_one_kernel_become_scratch() {
    let row = |more: &str| {
        parse(&format!(
            "symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
             input %x: f32[n, m] output %y: f32[n, m] temp %e: f32[n, m] temp %unused: f32[n]
             kernel @rows {{ v9 = const f32 2.0 parallel i < n {{
                 v2 = reduce j < m {{ v0 = load %x[i, j] v1 = mul v0, v9 store %e[i, j], v1 }} with sum lanes v1
                 parallel k < m {{ v3 = load %e[i, k] v4 = div v3, v2 store %y[i, k], v4 }} }} {more} }}"
        ))
    };
    let after = planned(&row(""));
    insta::assert_snapshot!(memory(&after), @r"
    scratch %e: f32[m]
    peak 8 * n * m + threads * 4 * m
    ");
    let text = after.to_string();
    assert!(text.contains("store %e[j], ") && text.contains("load %e[k]"), "{text}");
    // Its rows are all needed at once.
    let twice = row("parallel l < n, p < m { v5 = load %e[l, p] }");
    insta::assert_snapshot!(memory(&planned(&twice)), @r"
    temp %e: f32[n, m]
    slot0 = %e
    peak 12 * n * m
    ");
}

#[test]
fn axes_go_where_they_are_the_outermost_loops() {
    // Columns of `c`; a row of `p`, seen through another shape; one element of `w`.
    let after = planned(&parse(
        "symbol n = dim 0 of input 0 symbol m = dim 1 of input 0
         input %x: f32[n, m] output %y: f32[n, m]
         temp %c: f32[n, m] temp %p: f32[m, 2 * n] temp %w: f32[n + m]
         kernel @columns { v9 = const f32 3.0 parallel j < m {
             parallel i < n {
                 v0 = load %x[i, j] store %c[i, j], v0 v1 = neg v0
                 store %p[j, 2 * i], v0 store %p[j, 2 * i + 1], v1 }
             store %w[n + j], v9
             parallel k < n {
                 v2 = load %c[n - k - 1, j] v3 = load %p as [m, n, 2][j, k, 1] v4 = add v2, v3
                 v5 = load %w as [n + m, 1][n + j, 0] v6 = add v4, v5
                 store %y[k, j], v6 } } }",
    ));
    insta::assert_snapshot!(memory(&after), @r"
    scratch %c: f32[n]
    scratch %p: f32[2 * n]
    scratch %w: f32
    peak 8 * n * m + threads * (12 * n + 4)
    ");
    insta::assert_snapshot!(ir::print::kernel(&after, after.kernels.values().next().unwrap()), @r"
    kernel @columns {
      v9 = const f32 3.0
      parallel j < m {
        parallel i < n {
          v0 = load %x[i, j]
          store %c[i], v0
          v1 = neg v0
          store %p[2 * i], v0
          store %p[2 * i + 1], v1
        }
        store %w[], v9
        parallel k < n {
          v2 = load %c[n - 1 - k]
          v3 = load %p as [n, 2][k, 1]
          v4 = add v2, v3
          v5 = load %w as [1][0]
          v6 = add v4, v5
          store %y[k, j], v6
        }
      }
    }
    ");
}

#[test]
fn the_largest_choose_first() {
    let header =
        "symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 input %x: f32[n] input %z: f32[m] output %y: f32[n]
        temp %a: f32[n] temp %b: f32[n * m] temp %c: f32[n * m] temp %d: f32[m] ";
    let kernels = [
        map("k0", &[("x", "i")], ("a", "n")),
        map("k1", &[("a", "0")], ("b", "n * m")),
        map("k2", &[("b", "n * m - i - 1")], ("c", "n * m")),
        map("k3", &[("c", "i")], ("d", "m")),
        map("k4", &[("c", "i"), ("d", "0")], ("y", "n")),
    ];
    let text = format!("{header} {}", kernels.concat());
    let program = text.replace("load %c[i]", "load %c[0]");
    let program: Program = format!("program @p {{ {program} }}").parse().unwrap();
    let mut after = program.clone();
    plan(&mut after);
    verify::verify(&after).unwrap();
    insta::assert_snapshot!(memory(&after), @r"
    temp %a: f32[n]
    temp %b: f32[n * m]
    temp %c: f32[n * m]
    temp %d: f32[m]
    slot0 = %a, %y
    slot1 = %b, %d
    slot2 = %c
    peak 8 * n + 4 * n * m + 4 * m + max(4 * n * m, 4 * m)
    ");
}

/// A loop over kernels exchanges two sets of memory. They are needed as long as its result is, and
/// so is what it begins with; temporaries of its body share memory with those before and after it.
#[test]
fn loops_over_kernels_exchange_two_sets_of_memory() {
    let first = map("first", &[("x", "i")], ("w", "n")) + &map("second", &[("w", "n - i - 1")], ("b", "n"));
    let step = map("make", &[("a", "n - i - 1")], ("u", "n")) + &map("step", &[("u", "n - i - 1")], ("next", "n"));
    let last = map("third", &[("x", "i")], ("z", "n")) + &map("end", &[("a", "i"), ("z", "n - i - 1")], ("y", "n"));
    let names = ["w", "b", "a", "next", "u", "z"];
    let temps: String = names.iter().map(|name| format!("temp %{name}: f32[n] ")).collect();
    let program = |trips: &str| {
        parse(&format!(
            "symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] {temps} {first}
             repeat {trips} with %a = %b then %next {{ {step} }} {last}"
        ))
    };
    insta::assert_snapshot!(memory(&planned(&program("n"))), @r"
    temp %w: f32[n]
    temp %b: f32[n]
    temp %a: f32[n]
    temp %next: f32[n]
    temp %u: f32[n]
    temp %z: f32[n]
    slot0 = %w, %u, %y
    slot1 = %b
    slot2 = %a
    slot3 = %next
    slot4 = %z
    peak 24 * n
    ");
    assert_eq!(memory(&planned(&program("0"))), memory(&planned(&program("n"))));
    // Of loops one in another, each exchanges two sets.
    let inner = map("inner", &[("c", "n - i - 1"), ("a", "i")], ("c1", "n"));
    let outer = map("outer", &[("c", "n - i - 1")], ("next", "n"));
    let end = map("end", &[("a", "i")], ("y", "n"));
    let nested = parse(&format!(
        "symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n]
         temp %a: f32[n] temp %next: f32[n] temp %c: f32[n] temp %c1: f32[n]
         repeat n with %a = %x then %next {{ repeat 2 with %c = %a then %c1 {{ {inner} }} {outer} }} {end}"
    ));
    insta::assert_snapshot!(memory(&planned(&nested)), @r"
    temp %a: f32[n]
    temp %next: f32[n]
    temp %c: f32[n]
    temp %c1: f32[n]
    slot0 = %a
    slot1 = %next
    slot2 = %c
    slot3 = %c1, %y
    peak 20 * n
    ");
}

#[test]
fn ten_thousand_operations_take_two_arrays() {
    let chain = |at: &str| {
        let mut text = String::from("symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] ");
        let name = |k: usize| match k {
            0 => "x".to_owned(),
            10_000 => "y".to_owned(),
            k => format!("t{k}"),
        };
        (1..10_000).for_each(|k| write!(text, "temp %t{k}: f32[n] ").unwrap());
        (0..10_000).for_each(|k| text += &map(&format!("k{k}"), &[(&name(k), at)], (&name(k + 1), "n")));
        let mut program: Program = format!("program @p {{ {text} }}").parse().unwrap();
        let start = std::time::Instant::now();
        plan(&mut program);
        println!("planned in {:?}", start.elapsed());
        verify::verify(&program).unwrap();
        program
    };
    let sizes = |size: &Size| size.eval(&|_| 1000).unwrap();
    // In place, all lie in the result; otherwise in the result and one more array.
    let peaks = ["i", "n - i - 1"].map(|at| Peak::of(&chain(at)).at(&sizes, 1));
    assert_eq!(peaks, [8000, 12_000]);
}

/// Random programs: kernels of random sizes that load some of the elements stored by earlier ones,
/// at various positions.
#[test]
fn random_programs_keep_their_bits() {
    let mut seed = 1u64;
    let mut below = move |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let (mut slots, mut temps, mut in_place) = (0, 0, 0);
    for _ in 0..400 {
        let lengths = ["n", "n + m", "n", "m + 1", "2 * n"];
        let mut text = String::from(
            "symbol n = dim 0 of input 0 symbol m = dim 0 of input 1 input %x: f32[n] input %z: f32[m] input %a: f32[n + 1] ",
        );
        let count = 3 + below(15);
        let mut kernels = String::new();
        let mut known: Vec<(String, &str)> = vec![];
        for k in 0..count {
            let choices = 1 + 4 * below(2);
            let length = lengths[below(choices)];
            let name = format!("b{k}");
            let role = if k + 1 == count || below(6) == 0 { "output" } else { "temp" };
            write!(text, "{role} %{name}: f32[{length}] ").unwrap();
            let mut from: Vec<(&str, String)> = vec![("a", "0".into())];
            for _ in 0..1 + below(3) {
                if let Some((buffer, its)) = known.get((known.len().max(4) - 4) + below(4)) {
                    let at = match below(4) {
                        0 => format!("{its} - i - 1"),
                        _ => "i".to_owned(),
                    };
                    // A shorter one is not read beyond its end.
                    if *its == length {
                        from.push((buffer, at));
                    }
                }
            }
            let from: Vec<(&str, &str)> = from.iter().map(|(b, at)| (*b, at.as_str())).collect();
            kernels += &map(&format!("k{k}"), &from, (&name, length));
            known.push((name, length));
        }
        let after = planned(&parse(&format!("{text} {kernels}")));
        slots += after.slots.len();
        temps += after.buffers.values().filter(|b| b.role == Role::Temp).count();
        let lives = ir::live::Lives::of(&after);
        let pairs = after.slots.values().flat_map(|members| members.windows(2));
        in_place += pairs.filter(|pair| lives.in_place(pair[0], pair[1])).count();
    }
    println!("{temps} temporaries in {slots} slots, {in_place} in place");
    assert!(slots * 3 < temps * 2 && in_place > 100, "{temps} temporaries in {slots} slots, {in_place} in place");
}
