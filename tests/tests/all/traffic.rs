//! The compiler predicts the loads and stores of a program: checked on random programs and the
//! examples, as lowered, as fused, and fused by a coin. Predictions marked as exact must be, and
//! others must not be too low.

use std::cell::RefCell;
use std::path::Path;

use compiler::analysis::traffic::{self, Count};
use compiler::pipeline::{self, Options};
use fuseloop::values::{self, Value};
use interp::nest::{RunError, run};
use interp::scalar::ARITHMETIC;
use ir::Size;
use ir::array::{Array, ArrayRef};
use ir::bind::Binding;
use ir::checked::Checked;
use ir::choice::Policy;
use ir::nest::Program;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tests::generate::recipes;

/// How often each random program is called, each time with other sizes and elements.
const CALLS: u64 = 3;

/// The number of predictions, and of those marked as exact.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    counts: usize,
    exact: usize,
    /// Polynomials, and those said to be exact.
    polynomials: usize,
    closed: usize,
}

impl Tally {
    /// Compares the predictions for a call with the interpreter's counts. A run that ends in an
    /// error has none.
    fn hold(&mut self, program: &Program, inputs: &[ArrayRef<'_>]) -> Result<(), String> {
        let outcome = match run(program, inputs) {
            Ok(outcome) => outcome,
            Err(RunError::Bind(_) | RunError::Fault(_)) => return Ok(()),
            Err(error) => return Err(format!("{error:?}\n{program}")),
        };
        let binding = Binding::new(program, inputs).map_err(|e| format!("{e:?}"))?;
        self.runs += 1;
        let predicted = traffic::predict(program, &|symbol| binding.symbol(symbol), &ARITHMETIC);
        let around = program.around();
        for (((id, kernel), predicted), found) in program.kernels.iter().zip(&predicted).zip(&outcome.traffic) {
            let polynomials = traffic::polynomials(program, kernel);
            let closed = extents_are_lengths(kernel, &binding);
            if !found.keys().all(|buffer| predicted.traffic.contains_key(buffer)) {
                return Err(format!("a buffer was forgotten\n{program}"));
            }
            // A polynomial is of one run of the kernel.
            let one = |size: &Size| binding.size(size).ok().and_then(|n| u64::try_from(n.max(0)).ok());
            let runs: Option<u64> = around[id].iter().map(|repeat| repeat.trips.as_ref().and_then(one)).product();
            let all = around[id].iter().all(|repeat| repeat.conditions().next().is_none());
            let value = |size: &Size| {
                let once = binding.size(size).ok().and_then(|n| u64::try_from(n).ok());
                Some(once? * runs?)
            };
            let operations = polynomials.operations.elements.as_ref().and_then(value);
            if closed
                && !agree(
                    predicted.operations,
                    Count { elements: operations, exact: polynomials.operations.exact && all },
                )
            {
                let both = (&predicted.operations, operations, &polynomials.operations);
                return Err(format!("{}: {both:?} operations\n{program}", kernel.name));
            }
            for (buffer, predicted) in &predicted.traffic {
                let found = found.get(buffer).copied().unwrap_or_default();
                let terms = &polynomials.traffic[buffer];
                let both =
                    [(predicted.loads, &terms.loads, found.loads), (predicted.stores, &terms.stores, found.stores)];
                for (predicted, polynomial, found) in both {
                    let wrong = |what: &dyn std::fmt::Debug| {
                        let Program { buffers, symbols, .. } = program;
                        let sizes: Vec<_> = symbols.iter().map(|(id, s)| (&s.name, binding.symbol(id))).collect();
                        let place = format!("{} in {}", buffers[*buffer].name, kernel.name);
                        Err(format!("{place}: {what:?}, and {found} were counted at {sizes:?}\n{program}"))
                    };
                    self.counts += 1;
                    self.exact += usize::from(predicted.exact);
                    if !holds(&predicted, found) {
                        return wrong(&predicted);
                    }
                    if closed {
                        self.polynomials += 1;
                        self.closed += usize::from(polynomial.exact);
                        let elements = polynomial.elements.as_ref().and_then(value);
                        if !holds(&Count { elements, exact: polynomial.exact && all }, found) {
                            return wrong(&(elements, polynomial));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares for each of the programs.
    fn hold_all(&mut self, programs: &[Program], inputs: &[ArrayRef<'_>]) -> Result<(), String> {
        programs.iter().try_for_each(|program| self.hold(program, inputs))
    }
}

/// A program as lowered, as fused, and as fused by a coin.
fn forms(checked: &Checked, seed: u64) -> Result<[Program; 3], String> {
    let random = Options { policy: Policy::Random(seed), ..Options::default() };
    let compile = |options| pipeline::compile(checked, &options).map_err(|e| e.to_string());
    let (fused, random) = (compile(Options::default())?, compile(random)?);
    Ok([fused.unfused, fused.program, random.program])
}

pub fn holds(count: &Count<u64>, found: u64) -> bool {
    match count {
        Count { elements, exact: true } => *elements == Some(found),
        Count { elements, exact: false } => elements.is_none_or(|most| most >= found),
    }
}

/// Whether a predicted number is consistent with the value of a formula for the same quantity.
fn agree(number: Count<u64>, formula: Count<u64>) -> bool {
    match formula {
        Count { exact: true, .. } => number == formula,
        Count { elements, exact: false } => elements.zip(number.elements).is_none_or(|(most, n)| n <= most),
    }
}

/// Whether every extent of a kernel that is a size is nonnegative, which polynomials assume.
/// (Extents that depend on indices are not checked: the generated ones are all lengths at their
/// greatest.)
fn extents_are_lengths(kernel: &ir::nest::Kernel, binding: &Binding) -> bool {
    let mut all = true;
    ir::visit::for_each_statement(&kernel.body, &mut |statement| {
        let dims: Vec<_> = match statement {
            ir::nest::Statement::Loop(l) => l.dims.iter().collect(),
            ir::nest::Statement::Contract(c) => c.free.iter().chain(&c.reduce).collect(),
            _ => vec![],
        };
        for (_, extent) in dims {
            if let ir::nest::Extent::Affine(a) = extent
                && let Some(size) = a.as_size()
            {
                all &= binding.size(size).is_ok_and(|n| n >= 0);
            }
        }
    });
    all
}

fn checked(source: &str, entry: &str) -> Option<Checked> {
    let file = grammar::parse(source).ok()?;
    compiler::check::check(&file, entry).ok()
}

#[test]
fn random_programs() {
    let config = Config { max_shrink_iters: 1000, ..crate::random_cases(150, 5) };
    let tally = RefCell::new(Tally::default());
    let result = TestRunner::new(config).run(&recipes(), |recipe| {
        let program = recipe.program();
        let Some(checked) = checked(&program.source, program.entry) else { return Ok(()) };
        let forms = forms(&checked, program.data).map_err(TestCaseError::fail)?;
        for n in 0..CALLS {
            let call = program.call(n);
            let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
            tally.borrow_mut().hold_all(&forms, &inputs).map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(tally.exact * 5 > tally.counts * 4 && tally.closed * 5 > tally.polynomials * 3, "{tally:?}");
}

/// The examples, called as their headers show.
#[test]
fn examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tally = Tally::default();
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(source) = std::fs::read_to_string(&path) else { continue };
        for command in source.lines().filter_map(|line| line.strip_prefix("#     fuseloop run ")) {
            let Some((function, inputs)) = call(&root, &source, command) else { continue };
            let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
            let checked = checked(&source, &function).expect("the examples check");
            let forms = forms(&checked, 1).expect("the examples compile");
            tally.hold_all(&forms, &inputs).unwrap_or_else(|why| panic!("{command}: {why}"));
            count += 1;
        }
    }
    println!("{tally:?}");
    assert!(count > 35, "{count} calls");
    assert!(tally.exact * 100 > tally.counts * 95, "{tally:?}");
}

/// The function that a command runs, and its inputs, if they are small.
fn call(root: &Path, source: &str, command: &str) -> Option<(String, Vec<Array>)> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let program = fuseloop::Program::parse(source).expect("the examples check");
    let named = words.iter().position(|word| *word == "--fn").map(|at| words[at + 1]);
    let function = match named {
        Some(name) => program.function(name).expect("a function of the example"),
        None => program.main().ok()?,
    };
    let signature = function.signature();
    let values = signature.params.iter().map(|param| {
        let given = words.iter().find_map(|word| word.strip_prefix(param.name.as_str())?.strip_prefix('='))?;
        let file = root.join(given);
        let text = if file.is_file() { file.to_str()? } else { given };
        Some(Value::parse(text, param).unwrap_or_else(|e| panic!("{command}: {e}")))
    });
    let values: Option<Vec<Value>> = values.collect();
    let values = values?;
    // A million darts take the interpreter a while, and so does training.
    let long = ["darts=1000000", "steps=120"];
    let small = !words.iter().any(|word| long.contains(word)) && values.iter().all(|value| value.bytes() < 40_000);
    small.then(|| (signature.name.clone(), values::load(values, 0, None).expect("arrays")))
}
