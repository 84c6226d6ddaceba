//! Random programs give the same bits, or end in an error, on every engine and however they are
//! fused: evaluated from the source, as loop nests, and compiled with 1 and 2 threads; unfused,
//! fused as the cost model decides, and with random legal merges.
//!
//! It runs 50 programs, or `PROPTEST_CASES` (800 in `.ci/run`), the same ones each time unless
//! `PROPTEST_RNG_SEED` is set. A failure shows the program, the call, the way to fuse, and the
//! first merge after which the results are wrong.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use compiler::pipeline::Options;
use ir::array::Array;
use ir::choice::Policy;
use ir::decision::{FusionPass, Outcome as Decided, Reason};
use ir::{Dtype, Passes};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tests::engines::{Compiled, Form, Outcome, Rejected, compile_in, hold as hold_forms};
use tests::generate::{Dim, Param, ParamRole, Program, recipes};
use tests::ways;

/// How often each program is called, each time with other sizes and elements.
const CALLS: u64 = 4;

/// Statistics over all programs.
#[derive(Default)]
struct Tally {
    programs: usize,
    accepted: usize,
    outcomes: BTreeMap<&'static str, usize>,
    constructs: BTreeMap<&'static str, usize>,
    rejections: BTreeMap<String, (usize, String)>,
    /// Calls with an input longer than a chunk of a reduction.
    long: usize,
    /// Calls with results of more than one value.
    telling: usize,
    /// Pairs of operations that each pass fused.
    fused: BTreeMap<&'static str, usize>,
    /// Pairs of operations that were refused for each reason.
    refused: BTreeMap<&'static str, usize>,
    /// Kernels before and after fusion as the cost model decides.
    kernels: (usize, usize),
}

impl Tally {
    fn decided(&mut self, compiled: &Compiled) {
        for form in &compiled.forms[1..] {
            // Decisions by a coin or by the fuel have no reason.
            let judged = form.options.policy == Policy::Model && form.options.fuel.is_none();
            for decision in &form.decisions {
                let (count, name) = match &decision.outcome {
                    Decided::Fused(pass) => (&mut self.fused, pass.name()),
                    Decided::Refused(reason) if judged => (&mut self.refused, reason.name()),
                    Decided::Refused(_) => continue,
                };
                *count.entry(name).or_default() += 1;
            }
        }
        self.kernels.0 += compiled.forms[0].program.kernels.len();
        self.kernels.1 += compiled.forms[1].program.kernels.len();
    }
}

#[test]
fn engines_agree() {
    let config = Config { max_shrink_iters: 3000, ..crate::random_cases(50, 2) };
    let tally = RefCell::new(Tally::default());
    let (result, directed) = std::thread::scope(|scope| {
        let directed = scope.spawn(hold_directed);
        let result = TestRunner::new(config).run(&recipes(), |recipe| {
            let calls = hold(&recipe.program(), &mut tally.borrow_mut());
            calls.map_err(TestCaseError::fail)
        });
        (result, directed.join())
    });
    let tally = tally.into_inner();
    let rejected = tally.programs - tally.accepted;
    println!(
        "{} programs, {rejected} of them rejected ({} in a thousand)",
        tally.programs,
        rejected * 1000 / tally.programs.max(1)
    );
    println!("calls: {:?}", tally.outcomes);
    println!("{} calls with long inputs, {} with results that vary", tally.long, tally.telling);
    println!("constructs: {:?}", tally.constructs);
    for (message, (count, source)) in &tally.rejections {
        println!("rejected {count} times: {message}\n{source}");
    }
    println!("fused: {:?}", tally.fused);
    println!("refused: {:?}", tally.refused);
    println!("{} kernels, {} after fusion", tally.kernels.0, tally.kernels.1);
    if let Err(TestError::Fail(_, recipe)) = &result {
        println!("{}", blame(&recipe.program()).unwrap_or_default());
    }
    if let Err(error) = result {
        panic!("{error}");
    }
    let tallies = [&tally, &directed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))];
    let passes = FusionPass::ALL.iter().map(|pass| pass.name());
    let never: Vec<&str> = (passes.filter(|name| tallies.iter().all(|tally| !tally.fused.contains_key(name))))
        .chain(
            Reason::NAMES.iter().copied().filter(|name| tallies.iter().all(|tally| !tally.refused.contains_key(name))),
        )
        .collect();
    // A few programs need not cover all of them.
    assert!(
        never.is_empty() || tally.programs < 500,
        "over all these programs, these never fused or refused anything: {never:?}"
    );
    assert!(rejected * 50 <= tally.programs, "more than one program in fifty was rejected");
}

/// After inlining, no access mentions the index that never has a value.
#[test]
fn accesses_that_never_happen_read_nothing() {
    for (length, gathered) in [
        ("0", "x[i, d[j]]"),
        ("0 - m", "x[i, d[j]]"),
        ("0", "x[i, clamp(d[j], 1, 0 - 1)]"),
        ("m - m", "x[i, d[j] + 1]"),
        ("0", "if d[j] > 0 then x[i, 1099511627776] else 0"),
        ("m", "if d[j] > 0 then x[i, 0] else 0"),
        ("m", "if d[j] > 0 then x[i, m - 1] else 0"),
    ] {
        let source = format!(
            "fn main(x: i64[k, m]) {{
                let d[j < {length}] = 1099511627776
                let g[i, j < {length}] = {gathered}
                let y[i, r] = x[i, r] * 2
                (g, y)
            }}"
        );
        let compiled = compile_in(&source, "main", &[]).unwrap_or_else(|error| panic!("{source}: {error:?}"));
        let x = Array::zeros(Dtype::I64, &[3, 0]).unwrap();
        compiled.hold(&[x.as_ref()]).unwrap_or_else(|error| panic!("{source}: {error}"));
        // If only a read outside of memory could tell, the loads themselves are checked.
        for form in &compiled.forms {
            let text = form.program.to_string();
            assert!(text.contains("check "), "{source}\n{text}");
        }
    }
}

/// Compares the engines with the first on some calls of the directed programs.
fn hold_directed() -> Tally {
    let mut tally = Tally::default();
    for (name, source) in DIRECTED {
        let program = directed(source());
        hold(&program, &mut tally).unwrap_or_else(|why| panic!("{name}: {why}\n{}", program.source));
    }
    tally
}

/// Compares the engines with the first on some calls of a program.
fn hold(program: &Program, tally: &mut Tally) -> Result<(), String> {
    tally.programs += 1;
    let compiled = match compile_in(&program.source, program.entry, &ways::drawn(program.data)) {
        Ok(compiled) => compiled,
        Err(Rejected::Source(diagnostics)) => {
            let message = diagnostics.first().map(|d| format!("{} {}", d.code, d.message)).unwrap_or_default();
            tally.rejections.entry(message).or_insert((0, program.source.clone())).0 += 1;
            return Ok(());
        }
        Err(Rejected::Compiler(message)) => return Err(message),
    };
    tally.accepted += 1;
    tally.decided(&compiled);
    for construct in &program.constructs {
        *tally.constructs.entry(construct).or_default() += 1;
    }
    for n in 0..CALLS {
        let call = program.call(n);
        let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| Array::as_ref(array)).collect();
        let outcome = compiled.hold(&inputs).map_err(|why| format!("{why}\ncall {n}: {call:?}"))?;
        let kind = match &outcome {
            Outcome::Results(_) => "results",
            Outcome::Refused(_) => "refused",
            Outcome::Fault(_) => "fault",
            Outcome::BeyondMemory | Outcome::Broken(_) => return Err(format!("{outcome:?}")),
        };
        *tally.outcomes.entry(kind).or_default() += 1;
        tally.long += usize::from(call.inputs.iter().any(|(_, input)| input.len() > ir::order::LANES_CHUNK));
        if let Outcome::Results(results) = &outcome {
            let varies = |array: &Array| (1..array.len()).any(|n| array.get(n) != array.get(0));
            tally.telling += usize::from(results.iter().any(varies));
        }
    }
    Ok(())
}

/// The first merge that makes a failing program wrong.
fn blame(program: &Program) -> Option<String> {
    let file = grammar::parse(&program.source).ok()?;
    let checked = compiler::check::check(&file, program.entry).ok()?;
    let unfused = Form::new(&checked, &Options { fuse: Passes::NONE, ..Options::default() }).ok()?;
    let calls: Vec<_> = (0..CALLS).map(|n| program.call(n)).collect();
    let is_wrong = |form: &Form| {
        calls.iter().any(|call| {
            let inputs: Vec<_> = call.inputs.iter().map(|(_, array)| array.as_ref()).collect();
            hold_forms(&checked, &[&unfused, form], &inputs).is_err()
        })
    };
    let mut ways = [Options::default()].into_iter().chain(ways::drawn(program.data));
    ways.find_map(|way| ways::blame(&checked, &way, is_wrong))
}

/// The purpose of a program, and its text.
type Directed = (&'static str, fn() -> String);

/// Programs for cases that random ones hardly reach: kernels at their limits.
const DIRECTED: &[Directed] = &[
    ("more operations than a kernel may have", || {
        let lets: String = (0..400).map(|k| format!("    let y{} = sin(y{k} * 0.5) + x\n", k + 1)).collect();
        format!("fn main(x: f32[n]) {{\n    let y0 = x\n{lets}    y400\n}}\n")
    }),
    ("two chains of one input that are too large for a kernel together", || {
        let chain = |name: &str, function: &str| -> String {
            let step = |k: usize| format!("    let {name}{} = {function}({name}{k} * 0.5) + x\n", k + 1);
            (0..20).map(step).collect()
        };
        let (y, z) = (chain("y", "sin"), chain("z", "cos"));
        format!("fn main(x: f32[n]) {{\n    let y0 = x\n{y}    let z0 = x + 1\n{z}    (y20, z20)\n}}\n")
    }),
    ("an expensive value used in many places of one loop, and moved in another", || {
        let terms: Vec<String> = (0..40).map(|k| format!("y[i + {k}]")).collect();
        let sum = terms.join(" + ");
        format!(
            "fn main(x: f32[n]) {{\n    let y = exp(x)\n    let z[i] = {sum}\n    let w[i] = y[i + 1] * 2\n    (z, w)\n}}\n"
        )
    }),
    ("an outer product that a reshape would compute element by element", || {
        "fn main(x: f32[n]) {\n    let a[i, j] = x[i] * x[j]\n    reshape(a, n * n)\n}\n".into()
    }),
    ("more values at once than there are registers", || {
        let steps: String = (0..12).map(|k| format!("    let a{k} = x + {k}\n    let b{k} = x * {k}\n")).collect();
        let products: Vec<String> = (0..132).map(|k| format!("y{k}")).collect();
        let lets: String = (0..132).map(|k| format!("    let y{k} = a{} * b{}\n", k % 12, k / 12)).collect();
        let uses: String = products.iter().map(|y| format!("    let t = t - {y}\n")).collect();
        let sum = products.join(" + ");
        format!("fn main(x: f32[n]) {{\n{steps}{lets}    let t = {sum}\n{uses}    t\n}}\n")
    }),
];

/// A program of one parameter `x: f32[n]`.
fn directed(source: String) -> Program {
    let n = Dim::name("n");
    let x = Param { name: "x".into(), ty: Dtype::F32, shape: vec![n.clone()], role: ParamRole::Ordinary };
    Program {
        source,
        entry: "main",
        params: vec![x],
        sizes: vec!["n".into()],
        lengths: vec![n.offset(-40)],
        work: vec![n.times(&Dim::constant(500)), n.times(&n)],
        constructs: BTreeSet::new(),
        data: 5,
    }
}
