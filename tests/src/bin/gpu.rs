//! Runs random programs on this machine's first CUDA device or on the emulator, as PTX or as CUDA C
//! that NVIDIA's run-time compiler has compiled, and compares them with the interpreters: `gpu
//! [WHERE] [PROGRAMS] [SEED]`; or runs every function of some files: `gpu [WHERE]
//! examples/softmax.fl ...`. Failures are shown as they were drawn, and counted.
//!
//! | where | runs |
//! |---|---|
//! | | PTX on the device |
//! | `device-cuda-c` | CUDA C on the device |
//! | `emulated` | PTX on the emulator |
//! | `cuda-c` | CUDA C on the emulator |

use std::time::Instant;

use ir::array::Array;
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
