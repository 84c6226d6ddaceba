//! Measures the `f32` expansions over all 2^32 arguments: `cargo run --release --example sweep [stride [function ...]]`.
//! A stride above 1 visits that fraction of them.

#[path = "../tests/accuracy/reference.rs"]
#[expect(dead_code, reason = "only the f32 half is needed here")]
mod reference;

use std::process::ExitCode;

use compiler::math::define;
use interp::scalar::Evaluator;
use ir::nest::Function;
use ir::{Dtype, MathFn, Scalar};
use reference::{reference, ulps_f32};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let stride = arguments.next().map_or(Some(1), |text| text.parse::<u64>().ok().filter(|&stride| stride > 0));
    let named: Option<Vec<_>> = arguments.map(|name| MathFn::from_name(&name)).collect();
    let (Some(stride), Some(named)) = (stride, named) else {
        eprintln!("usage: sweep [stride [function ...]]");
        return ExitCode::from(2);
    };
    for &math in if named.is_empty() { MathFn::ALL } else { &named } {
        if reference(math, 1.0).is_none() {
            continue;
        }
        let Some(function) = define(math, Dtype::F32) else { continue };
        let (worst, at) = worst(&function, stride);
        println!("{math}.f32: {worst:.3} units at {at:e} ({:#010x})", at.to_bits());
    }
    ExitCode::SUCCESS
}

/// The greatest error over every `stride`th bit pattern, and where it is.
fn worst(function: &Function, stride: u64) -> (f64, f32) {
    let count = (1u64 << 32).div_ceil(stride);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let part = |thread: u64| {
        let mut evaluator = Evaluator::new(function);
        let mut worst = (0.0, 0.0);
        for i in count * thread / threads..count * (thread + 1) / threads {
            let argument = Scalar::from_bits(Dtype::F32, i * stride);
            if let (Scalar::F32(x), Scalar::F32(y)) = (argument, evaluator.call(&[argument])) {
                let error = reference(function.math, x.into()).map_or(0.0, |exact| ulps_f32(y, exact));
                if error > worst.0 {
                    worst = (error, x);
                }
            }
        }
        worst
    };
    std::thread::scope(|scope| {
        let part = &part;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        let parts = running.into_iter().filter_map(|thread| thread.join().ok());
        parts.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
    })
}
