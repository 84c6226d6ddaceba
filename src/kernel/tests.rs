//! Calls from the point of view of a user: every size, every device, every kind of mistake.

use ir::{Dtype, Scalar};

use super::*;
use crate::{Program as Source, Style};

const DEVICES: [Device; 3] = [Device::Cpu, Device::Auto, Device::Interp];

fn kernel(source: &str, device: Device) -> Kernel {
    let options = Options { device, ..Options::default() };
    Source::parse(source).unwrap().main().unwrap().compile(&options).unwrap()
}

fn f32s(values: &[f32]) -> Array {
    let scalars: Vec<_> = values.iter().map(|v| Scalar::F32(*v)).collect();
    Array::from_scalars(Dtype::F32, &[values.len()], &scalars).unwrap()
}

fn i64s(values: &[i64]) -> Array {
    let scalars: Vec<_> = values.iter().map(|v| Scalar::I64(*v)).collect();
    Array::from_scalars(Dtype::I64, &[values.len()], &scalars).unwrap()
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
                    let by = Array::scalar(Scalar::F32(0.5));
                    let out = kernel.call(&[f32s(&x).as_ref(), by.as_ref()]).unwrap();
                    assert_eq!(out, [f32s(&x.iter().map(|v| v * 0.5).collect::<Vec<_>>())]);
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
        let (x, m) = (f32s(&[1.0; 3]), Array::scalar(Scalar::I64(4)));
        assert_eq!(kernel.output_shapes(&[x.as_ref(), m.as_ref()]).unwrap(), [vec![3, 2], vec![5]]);
        let m = Array::scalar(Scalar::I64(-5));
        let error = kernel.call(&[x.as_ref(), m.as_ref()]).unwrap_err().render(Style::Plain);
        assert!(error.contains("-4") && error.contains("m = -5, from the argument m"), "{error}");
        let m = Array::scalar(Scalar::I64(i64::MAX));
        let error = kernel.call(&[x.as_ref(), m.as_ref()]).unwrap_err().to_string();
        assert!(error.contains("beyond 64 bits"), "{error}");
    }
}

#[test]
fn says_what_does_not_fit() {
    for device in DEVICES {
        let k = kernel("fn f(x: f32[n], y: f32[n, 3]) = mean(x) + sum(y)", device);
        let (x, y) = (f32s(&[1.0, 2.0]), Array::zeros(Dtype::F32, &[2, 3]).unwrap());
        assert_eq!(k.call(&[x.as_ref(), y.as_ref()]).unwrap(), [Array::scalar(Scalar::F32(1.5))]);
        let error = |inputs: &[ArrayRef<'_>]| k.call(inputs).unwrap_err().to_string();
        assert_eq!(error(&[]), "the function takes 2 arguments (x, y), 0 given");
        assert_eq!(
            error(&[i64s(&[1, 2]).as_ref(), y.as_ref()]),
            "`x` has elements of type f32, the array given has i64"
        );
        assert_eq!(error(&[x.as_ref(), x.as_ref()]), "`y` is f32[n, 3], the array given has shape [2]");
        let wide = Array::zeros(Dtype::F32, &[2, 4]).unwrap();
        let found = k.call(&[x.as_ref(), wide.as_ref()]).unwrap_err();
        assert_eq!(found.to_string(), "axis 1 of `y` is 4, its declared size is 3");
        assert!(!found.render(Style::Plain).contains("note"), "{}", found.render(Style::Plain));
        let long = Array::zeros(Dtype::F32, &[5, 3]).unwrap();
        let found = k.call(&[x.as_ref(), long.as_ref()]).unwrap_err();
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
            let k = Array::scalar(Scalar::U64(u64::MAX));
            let found = kernel(source, device).call(&[f32s(&[1.0, 2.0]).as_ref(), k.as_ref()]).unwrap_err();
            assert_eq!(found.to_string(), said);
        }
    }
}

#[test]
fn a_failed_call_leaves_outputs_alone() {
    for device in DEVICES {
        let k = kernel("fn f(x: f32[n], at: i64[m]) -> (d: f32[n], p: f32[m]) = (x * 2, x[at])", device);
        let x = f32s(&[1.0, 2.0, 3.0]);
        let (mut d, mut p) = (f32s(&[7.0; 3]), f32s(&[8.0; 2]));
        let found = k.call_into(&[x.as_ref(), i64s(&[0, -1]).as_ref()], &mut [d.as_mut(), p.as_mut()]).unwrap_err();
        assert!(
            matches!(found.kind(), RunErrorKind::Access { index: -1, bound: 3, axis: 0, array, .. } if array.contains('x'))
        );
        assert_eq!((&d, &p), (&f32s(&[7.0; 3]), &f32s(&[8.0; 2])));
        k.call_into(&[x.as_ref(), i64s(&[2, 0]).as_ref()], &mut [d.as_mut(), p.as_mut()]).unwrap();
        assert_eq!((&d, &p), (&f32s(&[2.0, 4.0, 6.0]), &f32s(&[3.0, 1.0])));

        let at = i64s(&[0, 0]);
        let inputs = [x.as_ref(), at.as_ref()];
        let found = k.call_into(&inputs, &mut [d.as_mut()]).unwrap_err();
        assert_eq!(found.to_string(), "the function gives 2 results (d, p), 1 array to write to");
        let mut wrong = f32s(&[0.0; 3]);
        let found = k.call_into(&inputs, &mut [d.as_mut(), wrong.as_mut()]).unwrap_err();
        assert_eq!(found.to_string(), "`p` is f32[2], the array to write to is f32[3]");
    }
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
        let call = |n| kernel.call(&[Array::scalar(Scalar::I64(n)).as_ref()]);
        assert_eq!(call(100).unwrap()[0].len(), 100);
        for n in [1000, 1 << 40, i64::MAX] {
            let error = call(n).unwrap_err();
            assert!(matches!(error.kind(), RunErrorKind::Memory { limit: 1000, .. }), "{error}");
        }
    }
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
                program.main().unwrap().compile(&options).unwrap().call(&[x.as_ref()])
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
