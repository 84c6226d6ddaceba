//! Calls: rejected arguments, unaligned memory, many modules, many threads, many sizes.

use backends::cpu::RunError;
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::{Dtype, Scalar};

use crate::harness::{LENGTHS, Random, agree, check, compile, inputs, outputs, parse, run};

const ADD: &str = "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] input 1 %b: f32[n] output %y: f32[n]
    require n == n as \"a\", \"b\" at 0..0
    kernel @k { parallel i < n { v0 = load %x[i] v1 = load %b[i] v2 = add v0, v1 store %y[i], v2 } } }";

#[test]
fn outputs_are_checked() {
    let program = parse(ADD);
    let module = compile(&program);
    let inputs = inputs(&program, &[5], &mut Random(1), false);
    let refs: Vec<ArrayRef<'_>> = inputs.iter().map(Array::as_ref).collect();
    let try_with = |mut outputs: Vec<Array>| {
        let mut given: Vec<ArrayMut<'_>> = outputs.iter_mut().map(Array::as_mut).collect();
        module.run(&refs, &mut given, 1)
    };
    let zeros = |dtype, shape: &[usize]| Array::zeros(dtype, shape).unwrap();
    assert_eq!(try_with(vec![zeros(Dtype::F32, &[5])]), Ok(()));
    assert_eq!(try_with(vec![]), Err(RunError::OutputCount { expected: 1, found: 0 }));
    let wrong = RunError::OutputDtype { output: 0, expected: Dtype::F32, found: Dtype::F64 };
    assert_eq!(try_with(vec![zeros(Dtype::F64, &[5])]), Err(wrong));
    let wrong = RunError::OutputShape { output: 0, expected: vec![5], found: vec![6] };
    assert_eq!(try_with(vec![zeros(Dtype::F32, &[6])]), Err(wrong));
    assert!(matches!(module.run(&refs[..1], &mut [], 1), Err(RunError::Bind(_))));
}

#[test]
fn arrays_need_not_be_aligned() {
    let program = parse(ADD);
    let module = compile(&program);
    let inputs = inputs(&program, &[1000], &mut Random(2), false);
    let expected = run(&program, &module, &inputs, 1).1;
    for shift in [1, 2, 3, 4] {
        let shifted: Vec<Vec<u8>> = inputs.iter().map(|a| [&vec![0; shift], a.bytes()].concat()).collect();
        let refs: Vec<_> =
            shifted.iter().map(|bytes| ArrayRef::new(Dtype::F32, &[1000], &bytes[shift..]).unwrap()).collect();
        let mut out = vec![0; 4000 + shift];
        let mut given = [ArrayMut::new(Dtype::F32, &[1000], &mut out[shift..]).unwrap()];
        module.run(&refs, &mut given, 2).unwrap();
        assert_eq!(Array::from_bytes(Dtype::F32, &[1000], &out[shift..]).unwrap(), expected[0]);
    }
}

#[test]
fn one_module_serves_many_threads_and_sizes() {
    let program = parse(ADD);
    let module = compile(&program);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (program, module) = (&program, &module);
            scope.spawn(move || {
                for n in [0, 1, 100, 10_000] {
                    let inputs = inputs(program, &[n], &mut Random(seed), false);
                    agree(program, module, &inputs, "shared");
                }
            });
        }
    });
}

/// The state of a call is reused by the next one. Interleaves calls with other sizes, rejected
/// calls, and calls of the same shape with other arguments.
#[test]
fn no_call_is_taken_for_another() {
    let program = parse(
        "program @p { symbol n = dim 0 of input 0 symbol m = value of input 1 input 0 %x: f32[n] input 1 %m: i64[]
         output %y: f32[m, n] temp %t: f32[n]
         kernel @k { parallel i < n { v0 = load %x[i] v1 = add v0, v0 store %t[i], v1 } }
         kernel @l { parallel i < m, j < n { v0 = load %t[j] v1 = affine i v2 = cast f32 v1 v3 = mul v0, v2 store %y[i, j], v3 } } }",
    );
    let module = compile(&program);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (program, module) = (&program, &module);
            scope.spawn(move || {
                let mut random = Random(seed);
                for round in 0..200 {
                    let n = [0, 1, 16, 100, 700][(random.next() % 5) as usize];
                    let m = [-1, 0, 1, 3, 3, i64::MAX][(random.next() % 6) as usize];
                    let inputs = inputs(program, &[n, m], &mut random, false);
                    let refs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
                    if m < 0 || (m == i64::MAX && n > 0) {
                        assert!(module.run(&refs, &mut [], 2).is_err());
                    } else if m < i64::MAX {
                        agree(program, module, &inputs, &format!("round {round}"));
                    }
                }
            });
        }
    });
}

/// More callers than cores, each with its own number of threads.
#[test]
fn callers_at_once_get_what_each_alone_would() {
    let program = parse(ADD);
    let module = compile(&program);
    let inputs: Vec<_> = [10, 3_000, 50_000].iter().map(|n| inputs(&program, &[*n], &mut Random(7), false)).collect();
    let expected: Vec<_> = inputs.iter().map(|inputs| run(&program, &module, inputs, 1).1).collect();
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (program, module, inputs, expected) = (&program, &module, &inputs, &expected);
            scope.spawn(move || {
                for round in 0..300 {
                    let at = (caller + round) % 3;
                    let (result, found) = run(program, module, &inputs[at], 1 + (caller + round / 3) % 8);
                    assert_eq!((result, &found), (Ok(()), &expected[at]));
                }
            });
        }
    });
}

#[test]
fn modules_come_and_go() {
    for _ in 0..200 {
        let program = parse(ADD);
        let inputs = inputs(&program, &[3], &mut Random(3), false);
        assert!(run(&program, &compile(&program), &inputs, 1).0.is_ok());
    }
}

#[test]
fn threads_change_nothing() {
    let program = parse(
        "program @p { symbol n = dim 0 of input 0 symbol m = dim 1 of input 0 input 0 %x: f32[n, m] output %y: f32[n, m]
         kernel @k { parallel i < n, j < m { v0 = load %x[i, j] v1 = load %x[i, 0] v2 = div v0, v1 store %y[i, j], v2 } } }",
    );
    let module = compile(&program);
    for sizes in [[1, 1000], [1000, 1], [7, 13], [3, 0]] {
        let inputs = inputs(&program, &sizes, &mut Random(4), false);
        let one = run(&program, &module, &inputs, 1).1;
        for threads in [2, 3, 8, 1000] {
            assert_eq!(run(&program, &module, &inputs, threads).1, one, "{threads} threads");
        }
    }
}

#[test]
fn the_first_fault_is_reported_at_any_number_of_threads() {
    let program = parse(
        "program @p { symbol n = dim 0 of input 0 input 0 %j: i64[n] output %y: i64[n]
         site0 = axis 0 of \"x\" at 0..0
         kernel @k { parallel i < n { v0 = load %j[i] v1 = check v0 < n at site0 store %y[i], v1 } } }",
    );
    let module = compile(&program);
    let mut indices: Vec<Scalar> = (0..50_000).map(Scalar::I64).collect();
    indices[20_000] = Scalar::I64(-7);
    indices[20_001] = Scalar::I64(99_999);
    indices[49_000] = Scalar::I64(i64::MIN);
    let inputs = [Array::from_scalars(Dtype::I64, &[50_000], &indices).unwrap()];
    for threads in [1, 2, 3] {
        for _ in 0..20 {
            let (result, after) = run(&program, &module, &inputs, threads);
            let Err(RunError::Fault(fault)) = result else { panic!("{result:?}") };
            assert_eq!((fault.index, fault.bound), (-7, 50_000));
            assert_eq!(after, outputs(&program, &inputs));
        }
    }
}

#[test]
fn a_size_without_a_value_is_refused() {
    let program = parse(
        "program @p { symbol n = value of input 0 input 0 %n: i64[] output %y: i64[]
         kernel @k { v0 = affine n * n * n store %y[], v0 } }",
    );
    let module = compile(&program);
    for n in [3, i64::MAX] {
        agree(&program, &module, &inputs(&program, &[n], &mut Random(5), false), "cube");
    }
}

#[test]
fn long_kernels_compile_and_longer_ones_are_refused() {
    let long = |operations: usize| {
        let mut text = String::from(
            "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n]
             kernel @k { parallel i < n { v0 = load %x[i]\n",
        );
        for k in 1..=operations {
            // Each value is used twice, the second time much later.
            text += &format!("v{k} = add v{}, v{}\n", k - 1, k / 2);
        }
        text + &format!("store %y[i], v{operations} }} }} }}")
    };
    for operations in [500, 5_000] {
        let program = parse(&long(operations));
        let started = std::time::Instant::now();
        let module = compile(&program);
        assert!(started.elapsed().as_secs() < 60, "{operations} operations");
        agree(&program, &module, &inputs(&program, &[37], &mut Random(6), false), "long");
    }
    let refused = schedule::schedule(&parse(&long(30_000)), schedule::Machine::CPU);
    assert!(matches!(refused, Err(schedule::ScheduleError::TooLarge { .. })));
}

#[test]
fn buffers_share_memory_one_after_another() {
    check(
        "program @p { symbol n = dim 0 of input 0 input 0 %x: f32[n] output %y: f32[n] output 1 %s: f32[]
         temp %a: f32[n] temp %b: i32[n] temp %c: f32[n] temp %d: f64[n]
         slot0 = %a, %b, %y slot1 = %c, %d
         kernel @k { parallel i < n { v0 = load %x[i] v1 = mul v0, v0 store %a[i], v1 } }
         kernel @l { parallel i < n { v0 = load %a[i] v1 = cast i32 v0 store %b[i], v1 } parallel j < n { v2 = load %x[n - 1 - j] store %c[j], v2 } }
         kernel @m { parallel i < n { v0 = load %b[i] v1 = load %c[n - 1 - i] v2 = cast f32 v0 v3 = add v2, v1 store %y[i], v3 } }
         kernel @o { parallel i < n { v0 = load %y[i] v1 = cast f64 v0 store %d[i], v1 } }
         kernel @q { v1 = reduce i < n { v0 = load %d[i] } with max free v0 v2 = cast f32 v1 store %s[], v2 } }",
        LENGTHS,
    );
}

#[test]
fn a_temporary_that_no_kernel_mentions_takes_no_memory() {
    let program = parse(&ADD.replace("kernel", "temp %t: f64[n, n, n] kernel"));
    let inputs = inputs(&program, &[100_000], &mut Random(7), false);
    assert_eq!(run(&program, &compile(&program), &inputs, 2).0, Ok(()));
}

/// In place, in a result that begins later, with other sizes and types; and if a run may fail, so
/// that results are held back.
#[test]
fn buffers_of_a_slot_share_memory() {
    let program = |check: &str| {
        format!(
            "program @p {{ symbol n = dim 0 of input 0 input %x: f32[n] output %y: f32[n] output %z: f32[n]
             temp %t: f32[n] temp %u: f32[n] temp %b: bf16[n + 1] temp %d: f64[n] temp %e: i64[n]
             slot0 = %t, %u, %y
             slot1 = %b, %e
             slot2 = %d
             site0 = axis 0 of \"x\" at 0..0
             kernel @k0 {{ parallel i < n {{
                 v0 = load %x[i] {check} store %t[i], v0
                 v1 = cast bf16 v0 store %b[n - i], v1 }} }}
             kernel @k1 {{ parallel i < n {{
                 v0 = load %t[i] v1 = mul v0, v0 v2 = load %b[i + 1] v3 = cast f32 v2 v4 = sub v1, v3
                 store %u[i], v4 v5 = cast f64 v3 store %d[i], v5 }} }}
             kernel @k2 {{ parallel i < n {{
                 v0 = load %d[n - i - 1] v1 = cast i64 v0 store %e[i], v1
                 v2 = load %u[i] v3 = load %x[n - i - 1] v4 = add v2, v3 store %y[i], v4 }} }}
             kernel @k3 {{ parallel i < n {{
                 v0 = load %e[i] v1 = cast f32 v0 v2 = load %y[0] v3 = add v1, v2 store %z[i], v3 }} }} }}"
        )
    };
    check(&program(""), LENGTHS);
    check(&program("v7 = affine i v8 = check v7 < 4096 at site0"), LENGTHS);
}
