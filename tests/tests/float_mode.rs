//! The caller's floating-point mode changes nothing, and a call leaves it as it was: from the text
//! of a program and its arguments to the text of its results, on every engine, on one thread and on
//! several.
//!
//! The only test in its binary, so that the threads of the pool are created under a non-standard
//! mode.

#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use std::arch::asm;

use fuseloop::values::{self, Value};
use fuseloop::{Array, Device, Options, Program, Session, Simd, print};

const SOURCE: &str = "
    fn scaled(x: f32[n]) {
        let c[i < n] = sum[k <= i](x[k])
        c / sum(x)
    }
    fn decimals(x: f64[n], by: f64) = (x * 0.1 + 1 / 3.0, f16(x / by), bf16(x / by), sum(x) / by, x * 4.9e-324, f32(x) * 1e-38)
    fn long(x: f32[n], by: f32) = (exp(x * by) * 1e-42, sum(x * by), sqrt(x - x[0]), min(x * 1e-40))
    fn invalid(x: f32[n]) = sqrt(-1 - x * x) + (x - x) / (x - x)
";

/// Each function with its arguments. The long arrays are enough for several threads.
const CALLS: [(&str, &[&str]); 4] = [
    ("scaled", &["random:3000"]),
    ("decimals", &["arange:1000", "3.3333333333333333333333333333333333"]),
    ("long", &["random:3000000", "0.7"]),
    ("invalid", &["arange:300"]),
];

#[cfg(target_arch = "x86_64")]
mod register {
    use super::asm;

    /// The default mode of a process; denormals as zero; rounding down, up and to zero; and all
    /// exceptions unmasked except inexact, underflow and denormal, which decimals and results
    /// raise.
    pub const MODES: [u64; 6] = [0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0x1900];

    pub fn get() -> u64 {
        let mut mode = 0u32;
        // SAFETY: it writes four bytes to a four-byte variable.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode) };
        (mode & !0x3f).into()
    }

    pub fn set(mode: u64) {
        let mode = mode as u32;
        // SAFETY: it reads four bytes from a four-byte variable with no reserved bit set. Nothing
        // in this file computes with floats until the standard mode is restored.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use super::asm;

    pub const MODES: [u64; 6] = [0, 0x108_0000, 0x80_0000, 0x40_0000, 0xc0_0000, 0x200_0000];

    pub fn get() -> u64 {
        let mode;
        // SAFETY: reading the register is unprivileged.
        unsafe { asm!("mrs {}, fpcr", out(reg) mode) };
        mode
    }

    pub fn set(mode: u64) {
        // SAFETY: writing the register is unprivileged. Nothing in this file computes with floats
        // until the standard mode is restored.
        unsafe { asm!("msr fpcr, {}", in(reg) mode) };
    }
}

fn engines() -> Vec<Options> {
    let cpu = |threads, simd| Options { threads, simd, ..Options::default() };
    let widths = [Simd::Auto, Simd::W128, Simd::W256].into_iter().filter(|simd| simd.is_here());
    let mut all: Vec<Options> = widths.flat_map(|simd| [cpu(4, simd), cpu(1, simd)]).collect();
    all.push(Options { device: Device::Interp, ..Options::default() });
    all
}

/// Runs everything from text to text under a mode. Returns the bytes of each result, with NaNs
/// canonical, and its printed text.
fn whole(mode: u64, options: &Options) -> Vec<(Vec<u8>, String)> {
    register::set(mode);
    let program = Program::parse(SOURCE).expect("it is a program");
    let mut all = vec![];
    for (name, arguments) in CALLS {
        let function = program.function(name).expect("it is there");
        let parse = |(text, slot): (&&str, _)| {
            // Shorter arrays for the interpreter, which is slow.
            let text =
                if options.device == Device::Interp { text.replace("000000", "000") } else { (*text).to_owned() };
            Value::parse(&text, slot).expect("it is a value")
        };
        let arguments = arguments.iter().zip(&function.signature().params).map(parse).collect();
        let inputs = values::load(arguments, 1, None).expect("there is memory");
        let kernel = function.compile(options).expect("it compiles");
        let mut results = kernel.call(&inputs).expect("it runs");
        for result in &mut results {
            result.canonical_nan();
            all.push((result.bytes().to_vec(), print::to_text(result.as_ref(), &print::Format::default())));
        }
        kernel.call_into(&inputs, &mut results).expect("it runs again");
        for result in &mut results {
            result.canonical_nan();
            all.push((result.bytes().to_vec(), String::new()));
        }
    }
    let mut session = Session::new(options.clone());
    session.enter("let x = [1e-40, 2e-40, 3e-40] * 0.3f").expect_err("there is no such suffix");
    session.enter("let x = f32([1e-40, 2e-40, 3e-40])").expect("it has a value");
    session.enter("let y = x / sum(x)").expect("it has a value");
    let y = session.value("y").expect("it has a name");
    all.push((y.bytes().to_vec(), print::to_text(Array::as_ref(y), &print::Format::default())));
    assert_eq!(register::get(), mode, "{options:?}");
    register::set(register::MODES[0]);
    all
}

#[test]
fn the_mode_of_a_caller_changes_nothing() {
    for options in engines() {
        // The non-standard modes come first, so that the threads of the pool are created under one.
        let found = register::MODES.map(|mode| mode).into_iter().rev().map(|mode| (mode, whole(mode, &options)));
        let found: Vec<_> = found.collect();
        let (_, expected) = found.last().expect("the standard mode is one");
        for (mode, found) in &found {
            for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert!(found.0 == expected.0, "result {n} under {mode:#x}, {options:?}");
                assert_eq!(found.1, expected.1, "result {n} under {mode:#x}, {options:?}");
            }
        }
    }
}
