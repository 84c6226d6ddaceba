//! A cancelled call ends in whatever loop it is: each of these would take minutes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fuseloop::{CallOptions, Cancel, Device, Options, Program, Simd};

/// Functions of a number `n` that take at least some `n * n` steps without yielding.
const FUNCTIONS: &[&str] = &[
    "sum[i < n, j < n](sin(f64(i * j)))",
    "sum[i < n * n](sin(f64(i)))",
    "sum[i < n](sum[j < i](f32(i * j)))",
    "prod[i < n, j < n](bf16(i * j))",
    "max[i < n, j < n](cos(f32(i * j)))",
    "argmax[i < n, j < n](i * j % 1000)",
    "any[i < n, j < n](i * j < 0)",
    "{\n let z[i < n] = sum[j < n](sin(f64(i * j)))\n sum(z)\n}",
    "{\n let z[i < 3] = sum[j < n * n](sin(f64(i * j)))\n z\n}",
    "{\n let y[i < 5000] = sum[j < n * n](f32(i + j))\n let z[i < 5000] = max[j < n * n](i * j % 7)\n (y, z)\n}",
    "{\n let z[i < 8, j < 8] = sum[k < n * n](f32(i * k) * f32(k + j))\n z\n}",
    "{\n let z[i < 3000, j < 3000] = sum[k < n](f32(i * k) * f32(k + j))\n z\n}",
    "{\n let s[i < n] = sum[j < n](f32(i * j))\n let z[i] = sum[k <= i](s[k])\n z\n}",
    "{\n let z[i < n] = prod[k <= i](sum[j < n](f64(k * j)))\n z\n}",
    "{\n let z[i < 9, j < n] = sum[k < n](f32(i * j * k))\n (sum(z, axis = 0), sum(z, axis = 1))\n}",
    "loop x = 0.5, t < n * n * 1000 { sin(x) + 1 }",
    "loop x = 0.5 while x < 2 { sin(x) }",
    "{\n let z[i < 100] = loop x = 0.5 while x < 2 { sin(x + i) }\n z\n}",
    "loop y = iota(3), t < n * n * 1000 { y + t }",
    "loop y = sin(f32(iota(3))) while sum(y) < 4 { sin(y) }",
];

fn cancelled(body: &str, options: Options) -> String {
    let equals = if body.starts_with('{') { "" } else { "= " };
    let program =
        Program::parse(format!("fn f(n: i64) {equals}{body}").as_str()).unwrap_or_else(|e| panic!("{body}: {e}"));
    let kernel = program.main().unwrap().compile(&options).unwrap();
    let cancel = Cancel::default();
    let wish = cancel.clone();
    let (done, call) = mpsc::channel();
    thread::spawn(move || {
        let error = kernel.call_with((400_000i64,), &CallOptions::until(&wish)).unwrap_err();
        _ = done.send(error.code().to_string());
    });
    thread::sleep(Duration::from_millis(20));
    cancel.cancel();
    call.recv_timeout(Duration::from_secs(100)).unwrap_or_else(|_| panic!("still runs: {body} with {options:?}"))
}

#[test]
fn calls_end_when_they_are_cancelled() {
    let mut all = vec![Options { device: Device::Interp, ..Options::default() }];
    for simd in [Simd::Auto, Simd::W128] {
        for threads in [1, 3] {
            all.push(Options { simd, threads, ..Options::default() });
        }
    }
    for body in FUNCTIONS {
        for options in &all {
            assert_eq!(cancelled(body, options.clone()), "E0243", "{body}");
        }
    }
}
