//! Objects give the same bits as the interpreter: the calls of the corpus, and every function of
//! the examples, through a C program that is linked with them.

use std::path::{Path, PathBuf};

use backends::cpu;
use backends::cpu::object::Target;
use compiler::check::{check, check_all};
use compiler::pipeline::{Options, compile};
use interp::scalar::cast;
use ir::array::{Array, ArrayRef};
use ir::checked::Checked;
use ir::nest::Program;
use ir::sched::Machine as SchedMachine;
use ir::{Dtype, Scalar};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use schedule::schedule;
use tests::corpus::cases;
use tests::engines::{Outcome, has_contractions};
use tests::examples;
use tests::generate::data::Random;
use tests::generate::recipes;
use tests::objects::{Call, Linked, Machine, is_there};

/// The programs of a folder.
fn fl_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "fl"));
    paths.sort();
    paths
}

fn read(path: &Path) -> (grammar::ast::File, String) {
    let source = std::fs::read_to_string(path).expect("programs are UTF-8");
    (grammar::parse(&source).expect("the corpus parses"), source)
}

fn lowered(checked: &Checked) -> Program {
    compile(checked, &Options::default()).expect("the corpus compiles").program
}

fn as_f64(value: Scalar) -> f64 {
    match cast(Dtype::F64, value) {
        Scalar::F64(value) => value,
        _ => f64::NAN,
    }
}

fn is_whole(array: &Array) -> bool {
    (0..array.len()).filter_map(|n| array.get(n)).all(|value| as_f64(value).fract() == 0.0)
}

/// Modes that flush denormals to zero, round down, up and to zero, and trap an invalid operation.
#[cfg(target_arch = "x86_64")]
const MODES: [&[&str]; 6] = [
    &["-ffast-math"],
    &["-DMODE=0x9fc0"],
    &["-DMODE=0x3f80"],
    &["-DMODE=0x5f80"],
    &["-DMODE=0x7f80"],
    &["-DMODE=0x1000"],
];

/// The same for aarch64. Few of its processors support traps, so the last mode uses default NaNs
/// instead.
const MODES_OF_AARCH64: [&[&str]; 6] = [
    &["-ffast-math"],
    &["-DMODE=0x1080000"],
    &["-DMODE=0x400000"],
    &["-DMODE=0x800000"],
    &["-DMODE=0xc00000"],
    &["-DMODE=0x2000000"],
];

/// Makes the elements whole numbers.
fn round(array: &mut Array) {
    for n in 0..array.len() {
        if let Some(value) = array.get(n) {
            array.set(n, cast(array.dtype(), Scalar::F64(as_f64(value).round())));
        }
    }
}

/// An array of 0, 1, 2 and so on, wrapped.
fn counting(dtype: Dtype, shape: &[usize]) -> Array {
    let count: usize = shape.iter().product();
    let values: Vec<Scalar> = (0..count).map(|n| cast(dtype, Scalar::I64((n % 251) as i64))).collect();
    Array::from_scalars(dtype, shape, &values).expect("as many elements as the shape says")
}

/// Programs, and calls of them.
#[derive(Default)]
struct Calls {
    programs: Vec<Program>,
    calls: Vec<(usize, String, Vec<Array>)>,
}

impl Calls {
    /// The calls of the corpus.
    fn of_corpus() -> Calls {
        let mut all = Calls::default();
        for path in fl_files("programs") {
            let (file, source) = read(&path);
            let mut known: Vec<(String, usize)> = vec![];
            for case in cases(&source) {
                let Some(entry) = case.entry() else { continue };
                let program = known.iter().find(|(name, _)| name == entry).map(|(_, n)| *n).unwrap_or_else(|| {
                    all.programs.push(lowered(&check(&file, entry).expect("a call is of a function that compiles")));
                    known.push((entry.to_owned(), all.programs.len() - 1));
                    all.programs.len() - 1
                });
                let inputs = case.inputs(&all.programs[program]).expect("the case has its arguments");
                let name = format!("{}: {}", path.file_name().unwrap_or_default().display(), case.text);
                all.calls.push((program, name, inputs));
            }
        }
        all
    }

    /// Some calls of each function of the examples.
    fn of_examples() -> Calls {
        let mut all = Calls::default();
        for path in fl_files("../examples") {
            for checked in check_all(&read(&path).0).expect("examples compile") {
                let program = lowered(&checked);
                let mut random = Random::new(all.programs.len() as u64);
                for _ in 0..3 {
                    let mut inputs = examples::fitting(&program, &mut random, 1).expect("sizes fit");
                    if has_contractions(&program) {
                        inputs.iter_mut().for_each(round);
                    }
                    let name = format!("{} {}", path.file_name().unwrap_or_default().display(), checked.name);
                    all.calls.push((all.programs.len(), name, inputs));
                }
                all.programs.push(program);
            }
        }
        all
    }

    /// Programs at random, and calls of them.
    fn of_random(count: usize) -> Calls {
        let mut runner = TestRunner::deterministic();
        let mut all = Calls::default();
        for _ in 0..count {
            let recipe = recipes().new_tree(&mut runner).expect("recipes have no filters").current();
            let program = recipe.program();
            let file = grammar::parse(&program.source).expect("generated programs parse");
            let Ok(checked) = check(&file, program.entry) else { continue };
            for n in 0..4 {
                let inputs = program.call(n).inputs.into_iter().map(|(_, array)| array).collect();
                all.calls.push((all.programs.len(), program.source.clone(), inputs));
            }
            all.programs.push(lowered(&checked));
        }
        all
    }

    /// Code that only objects have and that does not depend on vectors: conversions of scalars,
    /// remainders, transpositions of elements of every width, parameters on the stack, and results
    /// that a late check holds back.
    fn of_helpers() -> Calls {
        const SOURCE: &str = "
            fn h_f64(x: f64) = f16(x)
            fn b_f64(x: f64) = bf16(x)
            fn h_i64(x: i64) = f16(x)
            fn b_i64(x: i64) = bf16(x)
            fn h_u64(x: u64) = f16(x)
            fn b_u64(x: u64) = bf16(x)
            fn from_h(x: f16) = f32(x)
            fn from_b(x: bf16) = f32(x)
            fn rem32(x: f32) = x % 0.75
            fn rem64(x: f64) = x % 0.75
            fn turn1(x: u8[n, m]) = transpose(x)
            fn turn2(x: f16[n, m]) = transpose(x)
            fn turn4(x: f32[n, m], y: f32[m, n]) = transpose(x) + y
            fn turn8(x: f64[n, m], y: f64[m, n]) = transpose(x) * y
            fn late(x: f32[n, m], i: i64[k]) -> (f32[n], f32[k]) = (sum(x, axis = 1), sum(x, axis = 1)[i])
            fn many(a: i8, b: u8, c: bool, d: i32, e: f16, f: i64, g: u32, h: f64, k: f32, l: i8, m: u8, o: bool, p: bf16,
                    q: i32, r: f32, s: u64, t: f64, u: f16) =
                f64(a) + 2 * f64(b) + 3 * f64(c) + 5 * f64(d) + 7 * f64(e) + 11 * f64(f) + 13 * f64(g) + 17 * h + 19 * f64(k) +
                    23 * f64(l) + 29 * f64(m) + 31 * f64(o) + 37 * f64(p) + 41 * f64(q) + 43 * f64(r) + 47 * f64(s) + 53 * t +
                    59 * f64(u)
        ";
        let doubles = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.0,
            -1.5,
            2049.0,
            2051.0,
            1.0 + 2f64.powi(-11),
            1.0 + 3.0 * 2f64.powi(-11),
            1.0 + 2f64.powi(-11) + 2f64.powi(-40),
            1.0 + 2f64.powi(-11) - 2f64.powi(-40),
            65504.0,
            65519.9999999,
            65520.0,
            -1e300,
            2f64.powi(-24),
            -(2f64.powi(-25)),
            2f64.powi(-25) + 2f64.powi(-60),
            1.5 * 2f64.powi(-24),
            2f64.powi(-14) - 2f64.powi(-26),
            1e-300,
            5e-324,
            1.0 + 2f64.powi(-8),
            1.0 + 3.0 * 2f64.powi(-8),
            1.0 + 2f64.powi(-8) + 2f64.powi(-50),
            3.3961775292304e38,
            3.4e38,
            1e39,
            2f64.powi(-133),
            2f64.powi(-134),
            1.5 * 2f64.powi(-134),
        ];
        let integers: Vec<i64> = [0i64, 1, 255, 257, 2049, 2050, 2051, 4097, 65504, 65519, 65520, i64::MAX, 0x8080]
            .into_iter()
            .flat_map(|n| [n, -n])
            .chain([53, 54, 60, 62].into_iter().flat_map(|e| [-1i64, 0, 1].map(|d| (1i64 << e) + d)))
            .chain([
                0x0101_0000_0000_0000,
                0x0101_0000_0000_0001,
                0x0103_0000_0000_0000,
                0x4040_0000_0000_0001,
                i64::MIN,
            ])
            .collect();
        let file = grammar::parse(SOURCE).expect("the programs parse");
        let mut all = Calls::default();
        for checked in check_all(&file).expect("the programs compile") {
            let program = lowered(&checked);
            let dtypes: Vec<Dtype> = program.inputs().into_iter().map(|id| program.buffers[id].dtype).collect();
            let scalars = |dtype: Dtype| -> Vec<Scalar> {
                match dtype {
                    Dtype::I64 => integers.iter().map(|n| Scalar::I64(*n)).collect(),
                    Dtype::U64 => integers.iter().map(|n| Scalar::U64(n.cast_unsigned())).collect(),
                    _ => doubles.iter().map(|x| cast(dtype, Scalar::F64(*x))).collect(),
                }
            };
            let mut call = |inputs| all.calls.push((all.programs.len(), checked.name.clone(), inputs));
            match dtypes.as_slice() {
                [dtype] if !checked.name.starts_with("turn") => {
                    scalars(*dtype).into_iter().for_each(|value| call(vec![Array::scalar(value)]));
                }
                many if checked.name == "many" => {
                    let value = |(n, dtype): (i64, &Dtype)| Array::scalar(cast(*dtype, Scalar::I64(3 * n - 20)));
                    call((0..).zip(many).map(value).collect());
                }
                [_, Dtype::I64] => {
                    for index in [[0, 4], [4, 5], [-1, 2], [3, 3]] {
                        let indices = Array::from(index.to_vec());
                        call(vec![counting(Dtype::F32, &[5, 33]), indices]);
                    }
                }
                dtypes => {
                    for [n, m] in [[0, 3], [1, 1], [17, 33], [70, 129]] {
                        let shapes = [[n, m], [m, n]];
                        call(dtypes.iter().zip(shapes).map(|(dtype, shape)| counting(*dtype, &shape)).collect());
                    }
                }
            }
            all.programs.push(program);
        }
        all
    }

    /// Products of matrices, larger and smaller than blocks and tiles, packed and not, of integers
    /// divided by a number.
    fn of_products(divisor: f64) -> Calls {
        const SOURCE: &str = "
            fn plain(a: f32[n, k], b: f32[k, m]) = a @ b
            fn turned(a: f32[k, n], b: f32[m, k]) = transpose(transpose(a) @ transpose(b))
            fn wide(a: f64[n, k], b: f64[k, m]) = a @ b
            fn after(a: f32[n, k], b: f32[k, m], c: f32[m]) = relu(a @ b + c)
            fn before(a: f64[n, k], b: f64[k, m]) = (a + 1) @ (b * 2)
            fn several(a: f32[r, n, k], b: f32[r, k, m]) {
                let c[s, i, j] = sum[l](a[s, i, l] * b[s, l, j])
                c
            }
            fn vector(a: f32[n, k], b: f32[k]) = a @ b
        ";
        let file = grammar::parse(SOURCE).expect("the programs parse");
        let mut all = Calls::default();
        let sizes = [
            [7, 5, 9],
            [1, 1, 1],
            [0, 3, 2],
            [3, 0, 2],
            [170, 3, 14],
            [5, 200, 7],
            [4, 2, 530],
            [13, 193, 33],
            [29, 40, 31],
        ];
        for checked in check_all(&file).expect("the programs compile") {
            let program = lowered(&checked);
            for [n, k, m] in sizes {
                let mut random = Random::new(n + 10 * k + 100 * m);
                let length = |name: &str| match name {
                    "n" => n,
                    "k" => k,
                    "m" => m,
                    _ => 2,
                };
                let input = |id| {
                    let buffer = &program.buffers[id];
                    let of = |size: &ir::Size| size.eval(&|s| length(&program.symbols[s].name) as i64);
                    let shape: Vec<usize> = buffer.shape.iter().map(|n| of(n).expect("a size") as usize).collect();
                    let value = |_| cast(buffer.dtype, Scalar::F64((random.below(9) - 4) as f64 / divisor));
                    let values: Vec<Scalar> = (0..shape.iter().product::<usize>()).map(value).collect();
                    Array::from_scalars(buffer.dtype, &shape, &values).expect("as many elements as the shape says")
                };
                let inputs = program.inputs().into_iter().map(input).collect();
                all.calls.push((all.programs.len(), format!("{} {n} {k} {m}", checked.name), inputs));
            }
            all.programs.push(program);
        }
        all
    }

    /// Functions with results that are denormal, depend on the rounding mode, or are NaN.
    fn of_modes() -> Calls {
        const SOURCE: &str = "
            fn scaled(x: f32[n]) {
                let c[i < n] = sum[k <= i](x[k])
                c / sum(x)
            }
            fn wide(x: f64[n], by: f64) = (x / by, sum(x) * by, exp(x), x - x[0])
            fn invalid(x: f32[n]) = sqrt(-1 - x * x) + (x - x) / (x - x)
            fn narrow(x: f64[n]) = (f16(x), bf16(x), f32(x))
            # The products are 2^-140, and three of them whole when they are scaled back.
            fn product(a: f32[n, k], b: f32[k, m]) = (a @ b) * 1267650600228229401496703205376.0 * 1099511627776.0
            fn late(x: f32[n, m], i: i64[k]) -> (f32[n], f32[k]) = (sum(x, axis = 1), sum(x, axis = 1)[i])
        ";
        let file = grammar::parse(SOURCE).expect("the programs parse");
        let f32s =
            |values: &[f32], shape: &[usize]| Array::from_slice(shape, values).expect("as many as the shape says");
        let f64s = |count: i32, unit: f64| {
            Array::from((0..count).map(|k| f64::from(k - 3) * unit / 7.0).collect::<Vec<f64>>())
        };
        let indices = |at: [i64; 2]| Array::from(at.to_vec());
        let mut all = Calls::default();
        for checked in check_all(&file).expect("the programs compile") {
            let calls = match checked.name.as_str() {
                "scaled" => vec![vec![f32s(&[1e-40, 2e-40, 3e-40], &[3])], vec![f32s(&[0.1; 77], &[77])]],
                "wide" => [1.0, 1e-310, 1e300].map(|unit| vec![f64s(50, unit), Array::scalar(Scalar::F64(3.0))]).into(),
                "narrow" => [1.0, 1e-7, 1e-39, 1e-310].map(|unit| vec![f64s(50, unit)]).into(),
                "product" => vec![vec![f32s(&[2f32.powi(-70); 6], &[2, 3]), f32s(&[2f32.powi(-70); 12], &[3, 4])]],
                "late" => [[0, 4], [4, 5]].map(|at| vec![f32s(&[1e-40; 165], &[5, 33]), indices(at)]).into(),
                _ => vec![vec![f32s(&[1.0, 0.0, f32::NAN, f32::INFINITY, 1e-40], &[5])]],
            };
            for inputs in calls {
                all.calls.push((all.programs.len(), checked.name.clone(), inputs));
            }
            all.programs.push(lowered(&checked));
        }
        all
    }

    /// Makes the calls on a machine and compares the outcomes with the interpreter's.
    fn hold(&self, machine: &Machine) {
        self.hold_to(machine, |program, inputs| {
            let outcome = match interp::nest::run(program, inputs) {
                Ok(outcome) => Outcome::Results(outcome.outputs),
                Err(interp::nest::RunError::Bind(error)) => Outcome::Refused(error),
                Err(interp::nest::RunError::Fault(fault)) => Outcome::Fault(fault),
                Err(other) => Outcome::Broken(format!("{other:?}")),
            };
            // The order of the sums in a matrix product is open; sums of integers are exact.
            let whole = |outcome: &Outcome| matches!(outcome, Outcome::Results(all) if all.iter().all(is_whole));
            (!has_contractions(program) || !matches!(outcome, Outcome::Results(_)) || whole(&outcome))
                .then_some(outcome)
        });
    }

    /// Makes the calls on a machine and compares the outcomes with those that are expected, where
    /// one is.
    fn hold_to(&self, machine: &Machine, expect: impl Fn(&Program, &[ArrayRef<'_>]) -> Option<Outcome>) {
        let linked = Linked::new(self.programs.clone(), machine).unwrap_or_else(|error| panic!("{error}"));
        let borrowed: Vec<Vec<_>> =
            self.calls.iter().map(|(_, _, inputs)| inputs.iter().map(Array::as_ref).collect()).collect();
        let calls: Vec<Call<'_>> = self
            .calls
            .iter()
            .zip(&borrowed)
            .map(|((program, ..), inputs)| Call { program: *program, inputs })
            .collect();
        let found = linked.call(&calls).unwrap_or_else(|error| panic!("{error}"));
        let mut faults = vec![];
        let mut held = 0;
        for (((program, name, _), inputs), found) in self.calls.iter().zip(&borrowed).zip(found) {
            let Some(found) = found else { continue };
            held += 1;
            let Some(expected) = expect(&self.programs[*program], inputs) else { continue };
            let same = matches!((&expected, &found), (Outcome::Refused(_), Outcome::Refused(_))) || expected == found;
            if !same {
                let place = expected.first_difference(&found).unwrap_or_default();
                faults.push(format!("{name}: {place}\nexpected {expected:?}\nfound    {found:?}"));
            }
        }
        assert!(held * 10 > self.calls.len() * 9, "{held} of {} calls could be made", self.calls.len());
        assert!(faults.is_empty(), "{} of {held}\n{}", faults.len(), faults.join("\n"));
    }
}

#[test]
fn random_programs() {
    Calls::of_random(80).hold(&here("native"));
}

/// This machine, with processors of a name.
fn here(cpu: &str) -> Machine {
    Machine { target: Target::new(None, Some(cpu)).expect("a known name"), compiler: "cc", flags: &[], runner: None }
}

#[test]
fn the_corpus_as_native_objects() {
    Calls::of_corpus().hold(&here("native"));
}

#[test]
fn the_examples_as_native_objects() {
    Calls::of_examples().hold(&here("native"));
}

#[test]
fn what_objects_have_of_their_own() {
    Calls::of_helpers().hold(&here("native"));
}

#[test]
fn products_on_this_machine() {
    Calls::of_products(1.0).hold(&here("native"));
}

/// Tiles in 256-bit registers, on machines that also have wider ones.
#[cfg(target_arch = "x86_64")]
#[test]
fn products_in_half_as_wide_registers() {
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        Calls::of_products(1.0).hold(&here("x86-64-v3"));
    }
}

/// Products of two matrices have the bits that they have in this process wherever a product and a
/// sum are rounded once.
#[cfg(target_arch = "x86_64")]
#[test]
fn products_have_the_bits_of_this_process() {
    if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("fma") {
        return;
    }
    for cpu in ["native", "x86-64-v3"] {
        Calls::of_products(7.0).hold_to(&here(cpu), |program, inputs| {
            // A product with a vector is a loop in an object.
            if inputs.iter().any(|input| input.shape().len() == 1) {
                return None;
            }
            let scheduled = schedule(program, SchedMachine::CPU).expect("the program can be scheduled");
            let module = cpu::Module::compile(&scheduled, &cpu::Options::default()).expect("the program compiles");
            let mut results = interp::nest::run(program, inputs).expect("the call is right").outputs;
            let mut lent: Vec<_> = results.iter_mut().map(Array::as_mut).collect();
            module.run(inputs, &mut lent, 2).expect("the call is right");
            Some(Outcome::Results(results))
        });
    }
}

/// Results are the same in any floating-point mode of the caller; the harness checks that the mode
/// is unchanged.
#[cfg(target_arch = "x86_64")]
#[test]
fn every_floating_point_mode_of_a_caller() {
    for flags in MODES {
        for cpu in ["native", "x86-64-v3", "x86-64-v2"] {
            let is_here = cpu != "x86-64-v3" || std::arch::is_x86_feature_detected!("avx2");
            if is_here {
                Calls::of_modes().hold(&Machine { flags, ..here(cpu) });
            }
        }
        Calls::of_helpers().hold(&Machine { flags, ..here("native") });
    }
}

/// Without wide vectors, and without instructions that the C library must replace.
#[cfg(target_arch = "x86_64")]
#[test]
fn everything_for_the_least_of_processors() {
    Calls::of_helpers().hold(&here("x86-64-v2"));
    Calls::of_products(1.0).hold(&here("x86-64-v2"));
    Calls::of_corpus().hold(&here("x86-64-v2"));
    Calls::of_examples().hold(&here("x86-64-v2"));
}

#[test]
fn everything_for_aarch64() {
    let (compiler, runner) = ("aarch64-linux-gnu-gcc", "qemu-aarch64-static");
    if !is_there(compiler) || !is_there(runner) {
        // `.ci/run` installs both.
        assert!(std::env::var_os("CI").is_none(), "{compiler} and {runner} are not both there");
        return;
    }
    let target = Target::new(Some("aarch64"), None).expect("a known name");
    let machine = Machine { target, compiler, flags: &[], runner: Some(runner) };
    Calls::of_random(40).hold(&machine);
    for flags in MODES_OF_AARCH64 {
        Calls::of_modes().hold(&Machine { flags, ..machine });
    }
    Calls::of_helpers().hold(&machine);
    Calls::of_products(1.0).hold(&machine);
    Calls::of_corpus().hold(&machine);
    Calls::of_examples().hold(&machine);
}
