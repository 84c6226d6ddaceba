//! Calls from the point of view of a user: every size, every device, every kind of mistake.

use ir::{Dtype, Scalar};

use super::*;
use crate::{Program as Source, Style};

const DEVICES: [Device; 3] = [Device::Cpu, Device::Auto, Device::Interp];

fn kernel(source: &str, device: Device) -> Kernel {
    let options = Options { device, ..Options::default() };
    Source::parse(source).unwrap().main().unwrap().compile(&options).unwrap()
}

#[test]
fn one_kernel_serves_every_size_and_thread() {
    for device in DEVICES {
        let kernel = kernel("fn f(x: f32[n], by: f32) = x * by", device);
        std::thread::scope(|scope| {
            for n in [0usize, 1, 2, 127, 128, 1009] {
                let kernel = &kernel;
                scope.spawn(move || {
                    let x: Vec<f32> = (0u16..).take(n).map(f32::from).collect();
                    let out = kernel.call((&x, 0.5f32)).unwrap();
                    assert_eq!(out, [Array::from(x.iter().map(|v| v * 0.5).collect::<Vec<_>>())]);
                });
            }
        });
    }
}

#[test]
fn shapes_follow_from_shapes_and_values() {
    for device in DEVICES {
        let kernel = kernel(
            "fn f(x: f32[n], m: i64) -> (a: f32[n, 2], b: i64[m + 1]) { let a[i, j < 2] = x[i]\n (a, iota(m + 1)) }",
            device,
        );
        let x = [1.0f32; 3];
        assert_eq!(kernel.output_shapes((x, 4i64)).unwrap(), [vec![3, 2], vec![5]]);
        let error = kernel.call((x, -5i64)).unwrap_err().render(Style::Plain);
        assert!(error.contains("-4") && error.contains("m = -5, from the argument m"), "{error}");
        let error = kernel.call((x, i64::MAX)).unwrap_err().to_string();
        assert!(error.contains("beyond 64 bits"), "{error}");
    }
}

#[test]
fn says_what_does_not_fit() {
    for device in DEVICES {
        let k = kernel("fn f(x: f32[n], y: f32[n, 3]) = mean(x) + sum(y)", device);
        let (x, y) = ([1.0f32, 2.0], Array::zeros(Dtype::F32, &[2, 3]).unwrap());
        assert_eq!(k.call((x, &y)).unwrap(), [Array::scalar(1.5f32)]);
        assert_eq!(k.call(()).unwrap_err().to_string(), "the function takes 2 arguments (x, y), 0 given");
        let found = k.call(([1i64, 2], &y)).unwrap_err();
        assert_eq!(found.to_string(), "`x` has elements of type f32, the array given has i64");
        let found = k.call((x, x)).unwrap_err();
        assert_eq!(found.to_string(), "`y` is f32[n, 3], the array given has shape [2]");
        let wide = Array::zeros(Dtype::F32, &[2, 4]).unwrap();
        let found = k.call((x, &wide)).unwrap_err();
        assert_eq!(found.to_string(), "axis 1 of `y` is 4, its declared size is 3");
        assert!(!found.render(Style::Plain).contains("note"), "{}", found.render(Style::Plain));
        let long = Array::zeros(Dtype::F32, &[5, 3]).unwrap();
        let found = k.call((x, &long)).unwrap_err();
        assert!(matches!(found.kind(), RunErrorKind::Sizes { left, .. } if left.value == 5));
        assert!(found.render(Style::Plain).contains("n = 2, from axis 0 of x"), "{}", found.render(Style::Plain));
    }
}

/// Errors show a `u64` as it was given, although the engines clamp it.
#[test]
fn says_the_values_of_u64_arguments() {
    let refusals = [
        ("fn f(x: f32[n], k: u64) = x[:k]", "the end of the slice is 18446744073709551615, beyond axis 0 of `x`: 2"),
        ("fn f(x: f32[n], k: u64) = x[:k / 2]", "the end of the slice is 9223372036854775807, beyond axis 0 of `x`: 2"),
        (
            "fn f(x: f32[n], k: u64) = x[:k / 4 - 1]",
            "the end of the slice is 4611686018427387902, beyond axis 0 of `x`: 2",
        ),
        ("fn f(x: f32[n], k: u64) = x[k]", "the length that this access needs is beyond 64 bits: `k + 1`"),
    ];
    for (source, said) in refusals {
        for device in DEVICES {
            let found = kernel(source, device).call(([1.0f32, 2.0], u64::MAX)).unwrap_err();
            assert_eq!(found.to_string(), said);
        }
    }
}

#[test]
fn a_failed_call_leaves_outputs_alone() {
    for device in DEVICES {
        let k = kernel("fn f(x: f32[n], at: i64[m]) -> (d: f32[n], p: f32[m]) = (x * 2, x[at])", device);
        let x = [1.0f32, 2.0, 3.0];
        let (mut d, mut p) = ([7.0f32; 3], [8.0f32; 2]);
        let found = k.call_into((x, [0i64, -1]), (&mut d, &mut p)).unwrap_err();
        assert!(
            matches!(found.kind(), RunErrorKind::Access { index: -1, bound: 3, axis: 0, array, .. } if array.contains('x'))
        );
        assert_eq!((d, p), ([7.0; 3], [8.0; 2]));
        k.call_into((x, [2i64, 0]), (&mut d, &mut p)).unwrap();
        assert_eq!((d, p), ([2.0, 4.0, 6.0], [3.0, 1.0]));

        let found = k.call_into((x, [0i64; 2]), (&mut d,)).unwrap_err();
        assert_eq!(found.to_string(), "the function gives 2 results (d, p), 1 array to write to");
        let found = k.call_into((x, [0i64; 2]), (&mut d, &mut [0.0f32; 3])).unwrap_err();
        assert_eq!(found.to_string(), "`p` is f32[2], the array to write to is f32[3]");
    }
}

#[test]
fn arguments_may_have_names() {
    let k = kernel("fn f(x: f32[n], by: f32, at: i64) = x[at] * by", Device::Cpu);
    let x = vec![1.0f32, 2.0];
    assert_eq!(k.call_named(&[("at", &1i64), ("x", &x), ("by", &3.0f32)]).unwrap(), [Array::scalar(6.0f32)]);
    let error = |inputs: &[(&str, &dyn Input)]| {
        let error = k.call_named(inputs).unwrap_err();
        assert_eq!(error.code().to_string(), "E0212");
        error.to_string()
    };
    assert_eq!(error(&[("y", &x)]), "the function has no parameter `y`, but `x`, `by`, `at`");
    assert_eq!(error(&[("x", &x), ("x", &x)]), "the argument `x` is given twice");
    assert_eq!(error(&[("x", &x), ("by", &3.0f32)]), "the argument `at` is missing");
    let k = kernel("fn f() = 1", Device::Cpu);
    assert_eq!(k.call_named(&[("x", &x)]).unwrap_err().to_string(), "the function has no parameter `x`, nor any");
    // A type of another kind than the parameter's is refused as elsewhere.
    let k = kernel("fn f(x: f32[n]) = x", Device::Cpu);
    assert_eq!(k.call_named(&[("x", &1.0f32)]).unwrap_err().code().to_string(), "E0203");
}

#[test]
fn refuses_calls_beyond_the_memory_allowed() {
    let program = Source::parse("fn f(n: i64) = iota(n)").unwrap();
    for device in DEVICES {
        let kernel = program
            .main()
            .unwrap()
            .compile(&Options { device, max_memory: Some(1000), threads: 1, ..Options::default() })
            .unwrap();
        let call = |n| kernel.call((n,));
        assert_eq!(call(100).unwrap()[0].len(), 100);
        for n in [1000i64, 1 << 40, i64::MAX] {
            let error = call(n).unwrap_err();
            assert!(matches!(error.kind(), RunErrorKind::Memory { limit: 1000, .. }), "{error}");
        }
    }
}

/// The states that a derivative keeps of a loop are as few as the memory allowed asks for.
#[test]
fn keeps_fewer_states_where_memory_is_short() {
    let source = "fn slope(x: f64[n], steps: i64) -> f64[n] where steps >= 0 = grad[x](sum(loop s = x, t < steps {
        s + 0.001 * sin(s) * f64(t)
    }))";
    let program = Source::parse(source).unwrap();
    let x = Array::from_slice(&[20], &(0..20).map(|k| f64::from(k) / 7.0).collect::<Vec<_>>()).unwrap();
    for device in DEVICES {
        let call = |max_memory, steps: i64| {
            let options = Options { device, max_memory, threads: 1, ..Options::default() };
            program.main().unwrap().compile(&options).unwrap().call((&x, steps))
        };
        // The interpreter is slow.
        for steps in [0, 1, 70, 40_000].into_iter().filter(|steps| *steps < 100 || device == Device::Cpu) {
            let needed = |limit| match call(Some(limit), steps) {
                Ok(_) => None,
                Err(error) => match error.kind() {
                    RunErrorKind::Memory { needed, .. } => Some(*needed),
                    other => panic!("{other:?}"),
                },
            };
            let all = needed(1000).unwrap();
            let few = u64::try_from(all).unwrap() - 1;
            assert_eq!(needed(few), if steps > 1024 { None } else { Some(all) }, "{steps}");
            if steps > 1024 {
                assert_eq!(call(Some(few), steps).unwrap(), call(None, steps).unwrap(), "{steps}");
            }
        }
    }
    let explained = program.main().unwrap().explain(&Options::default(), &[("n", 10), ("steps", 5000)]).unwrap();
    let text = explained.render(Style::Plain);
    assert!(text.contains("keeps the states of 68 steps, of 5,000 in all: 5,440 bytes"), "{text}");
    assert!(text.contains("computes the steps twice more; all states would take 400,000 bytes"), "{text}");
}

/// Arrays that are not needed at the same time share memory, fused or not.
#[test]
fn takes_no_more_memory_than_is_needed_at_once() {
    let lines: Vec<String> = (1..100).map(|k| format!("    let y{k}[i < n] = y{}[n - i - 1] + 1\n", k - 1)).collect();
    let source = format!("fn f(y0: f32[n]) {{\n{}    y99\n}}", lines.concat());
    let program = Source::parse(source.as_str()).unwrap();
    let x = Array::zeros(Dtype::F32, &[100]).unwrap();
    for device in DEVICES {
        // The argument, the result, and without fusion one more array.
        for (fuse, needed) in [(Passes::NONE, 1200), (Passes::ALL, 800)] {
            let call = |limit| {
                let options = Options { device, fuse, max_memory: Some(limit), threads: 2, ..Options::default() };
                program.main().unwrap().compile(&options).unwrap().call((&x,))
            };
            assert_eq!(call(needed).unwrap()[0].get(99), Some(Scalar::F32(99.0)));
            assert!(matches!(call(needed - 1).unwrap_err().kind(), RunErrorKind::Memory { .. }), "{fuse:?}");
        }
    }
}

#[test]
fn finds_functions() {
    let program = Source::parse("fn a(x: f32) = x\nfn main(x: f32) = x\nfn b(x: f32) = x").unwrap();
    assert_eq!(program.main().unwrap().signature().name, "main");
    assert_eq!(program.signature("b").unwrap().to_string(), "fn b(x: f32) -> f32");
    assert_eq!(program.function("c").unwrap_err().to_string(), "there is no function `c`; it has `a`, `main`, `b`");
    assert_eq!(Source::parse("# none").unwrap().main().unwrap_err().to_string(), "the program has no function");
}
