//! Runs random programs on this machine's first CUDA device or on the emulator, as PTX or as CUDA C
//! that NVIDIA's run-time compiler has compiled, and compares them with the interpreters: `gpu
//! [WHERE] [PROGRAMS] [SEED]`; or runs every function of some files: `gpu [WHERE]
//! examples/softmax.fl ...`. Failures are shown as they were drawn, and counted. `gpu lent` calls
//! programs on arrays at any address of the device.
//!
//! | where | runs |
//! |---|---|
//! | | PTX on the device |
//! | `device-cuda-c` | CUDA C on the device |
//! | `emulated` | PTX on the emulator |
//! | `cuda-c` | CUDA C on the emulator |

use std::time::Instant;

use fuseloop::{Device, DeviceArray, Gpu, Options, Program};
use ir::array::Array;
use ir::{Dtype, Scalar};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tests::engines::{Engine, Form, Rejected, compile_in, hold_on};
use tests::examples;
use tests::generate::recipes;
use tests::ways;

/// How often each program is called.
const CALLS: u64 = 3;
/// The maximum number of failures shown.
const SHOWN: usize = 5;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = match arguments.first().map(String::as_str) {
        Some("emulated") => Some(Engine::Ptx),
        Some("cuda-c") => Some(Engine::CudaC),
        Some("device-cuda-c") => Some(Engine::GpuCudaC),
        _ => None,
    };
    arguments.drain(..usize::from(named.is_some()));
    if arguments.first().is_some_and(|argument| argument == "lent") {
        return lent();
    }
    let engine = named.unwrap_or(Engine::Gpu);
    if arguments.iter().any(|argument| argument.ends_with(".fl")) {
        files(&arguments, engine);
    }
    let mut numbers = arguments.iter().map(|text| text.parse::<u64>().expect("a number"));
    let programs = numbers.next().unwrap_or(500);
    let seed = numbers.next().unwrap_or(2);
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(seed), ..Config::default() });
    let begin = Instant::now();
    let (mut accepted, mut calls, mut failed) = (0, 0, 0);
    for _ in 0..programs {
        let Ok(tree) = recipes().new_tree(&mut runner) else { continue };
        let program = tree.current().program();
        let compiled = match compile_in(&program.source, program.entry, &ways::drawn(program.data)[..1]) {
            Ok(compiled) => compiled,
            Err(Rejected::Source(_)) => continue,
            Err(Rejected::Compiler(why)) => {
                failed += 1;
                println!("FAILED to compile\n{}\n{why}\n", program.source);
                continue;
            }
        };
        accepted += 1;
        let forms: Vec<&Form> = compiled.forms.iter().collect();
        for n in 0..CALLS {
            let call = program.call(n);
            let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
            calls += 1;
            if let Err(why) = hold_on(&[engine], &compiled.checked, &forms, &inputs) {
                failed += 1;
                if failed <= SHOWN {
                    let why: String = why.chars().take(6000).collect();
                    println!("FAILED\n{}\n{why}\n", program.source);
                }
                break;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{accepted} programs, {calls} calls, {failed} programs failed, {seconds:.0} s");
    std::process::exit(i32::from(failed > 0));
}

/// Every function of some files.
fn files(paths: &[String], engine: Engine) -> ! {
    let mut failed = false;
    for path in paths {
        let source = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let begin = Instant::now();
        match examples::hold_alone(&source, engine) {
            Ok(calls) => println!("{path}: {calls} calls, {:.1} s", begin.elapsed().as_secs_f64()),
            Err(why) => {
                failed = true;
                println!("FAILED {path}: {why}");
            }
        }
    }
    std::process::exit(i32::from(failed));
}

/// A small number.
fn number(dtype: Dtype, value: usize) -> Scalar {
    let bits = match dtype {
        Dtype::F16 => u64::from(half::f16::from_f64(value as f64).to_bits()),
        Dtype::F32 => u64::from((value as f32).to_bits()),
        Dtype::F64 => (value as f64).to_bits(),
        _ => value as u64,
    };
    Scalar::from_bits(dtype, bits)
}

/// Calls programs on views of arrays of the device that begin at any element.
fn lent() {
    const SIDE: usize = 72;
    let gpu = Gpu::get(0).expect("there is a device");
    let programs = [
        ("fn f(x: f32[m, n]) = (x + 1) * 2", Dtype::F32),
        ("fn f(x: f32[m, n]) { let y[i, j] = x[i, j] / sum[k](x[i, k]); y }", Dtype::F32),
        ("fn f(x: f16[m, n]) { let y[i, j] = sum[k](f32(x[i, k]) * f32(x[j, k])); f16(y) }", Dtype::F16),
        ("fn f(x: f64[m, n]) { let y[j] = sum[i](x[i, j]); y }", Dtype::F64),
        ("fn f(x: u8[m, n]) = u8(x * 3)", Dtype::U8),
    ];
    for (source, dtype) in programs {
        let program = Program::parse(source).expect("it parses");
        let compiled = |device| {
            let options = Options { device, ..Options::default() };
            program.main().expect("it has a function").compile(&options).expect("it compiles")
        };
        let (on_gpu, on_cpu) = (compiled(Device::Gpu), compiled(Device::Cpu));
        let (shape, width) = ([SIDE, SIDE], dtype.bytes());
        for shift in 0..9 {
            let elements: Vec<Scalar> = (0..SIDE * SIDE + 16).map(|at| number(dtype, (at + shift) % 5 + 1)).collect();
            let all = Array::from_scalars(dtype, &[SIDE * SIDE + 16], &elements).expect("of one type");
            let bytes = &all.bytes()[shift * width..][..SIDE * SIDE * width];
            let input = Array::from_bytes(dtype, &shape, bytes).expect("as many as the shape has");
            let expected = on_cpu.call(&[&input]).expect("the call succeeds").remove(0);
            let from = DeviceArray::upload(&gpu, all.as_ref()).expect("there is memory");
            let to = DeviceArray::zeros(&gpu, expected.dtype(), &[expected.len() + 16]).expect("there is memory");
            let at = |array: &DeviceArray, width: usize| array.address().expect("it is there") + (shift * width) as u64;
            // SAFETY: both lie in arrays that live until the result has been downloaded.
            let (input, mut result) = unsafe {
                (
                    DeviceArray::lent(&gpu, dtype, &shape, at(&from, width)).expect("it is there"),
                    DeviceArray::lent(&gpu, expected.dtype(), expected.shape(), at(&to, expected.dtype().bytes()))
                        .expect("it is there"),
                )
            };
            for _ in 0..3 {
                on_gpu.call_on_gpu_into(&[&input], &mut [&mut result]).expect("the call succeeds");
            }
            let found = result.download().expect("there is memory");
            assert_eq!(found.bytes(), expected.bytes(), "{source}, from element {shift} on");
        }
    }
    println!("{} programs on arrays at any address", programs.len());
}
