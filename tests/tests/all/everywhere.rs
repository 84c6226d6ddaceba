//! Runs loop nests on every engine: compiled with 1 and 2 threads at several widths, as objects,
//! and as PTX on the emulator; unfused, fused as the cost model decides, and with random legal
//! merges. All give the bits of the nest interpreter, and the predicted loads and stores are those
//! that it counts.

use backends::cpu::Simd;
use backends::ptx::Runner;
use compiler::analysis::traffic;
use compiler::pipeline::Options;
use fuzzing::objects::{Object, is_possible};
use interp::scalar::ARITHMETIC;
use ir::Passes;
use ir::array::{Array, ArrayRef};
use ir::bind::Binding;
use ir::nest::Program;
use tests::emulated::Emulated;
use tests::engines::{Engine, Form, Outcome};
use tests::ways;

use crate::traffic::holds;

const ENGINES: [Engine; 5] = [
    Engine::Cpu(1, Simd::Auto),
    Engine::Cpu(2, Simd::Auto),
    Engine::Cpu(2, Simd::W256),
    Engine::Cpu(2, Simd::W128),
    Engine::Cpu(1, Simd::W128),
];

/// The outcomes of a program.
pub struct Ran {
    /// The program as the cost model fuses it.
    pub fused: Program,
    /// The outcome of each call.
    pub outcomes: Vec<Outcome>,
}

/// Runs a program in every way on every engine.
pub fn run(program: &Program, seed: u64, calls: &[Vec<Array>]) -> Result<Ran, String> {
    ir::verify::verify(program).map_err(|error| format!("{error}\n{program}"))?;
    let unfused = Options { fuse: Passes::NONE, ..Options::default() };
    let all = [unfused, Options::default()].into_iter().chain(ways::drawn(seed));
    let mut forms: Vec<Form> = all.map(|options| Form::of_nests(program, &options)).collect::<Result<_, _>>()?;
    // Waiting for each other before each of many kernels takes long.
    forms.iter_mut().zip(0..).for_each(|(form, n)| form.meet = n == 1);
    let objects = is_possible().then(|| {
        let object =
            |form: &Form| Object::new(&form.program, if seed.is_multiple_of(2) { Simd::Auto } else { Simd::W128 });
        forms.iter().map(object).collect::<Result<Vec<_>, _>>()
    });
    let objects = objects.transpose()?;
    let runner = |form: &Form| Ok(Runner::new(form.for_gpu()?, Emulated::new(seed), None));
    let mut runners: Vec<_> = forms.iter().map(runner).collect::<Result<_, String>>()?;
    let mut outcomes = vec![];
    for inputs in calls {
        let inputs: Vec<ArrayRef<'_>> = inputs.iter().map(Array::as_ref).collect();
        let meant = forms[0].run_nests(Engine::Nest, &inputs);
        for (n, form) in forms.iter().enumerate() {
            let wrong = |engine: &dyn std::fmt::Debug, expected: &Outcome, found: &Outcome| {
                let place = expected.first_difference(found).unwrap_or_default();
                let way = tests::engines::Shown(&form.options);
                let both = format!("expected {expected:?}\nfound    {found:?}");
                let shapes: Vec<&[usize]> = inputs.iter().map(ArrayRef::shape).collect();
                Err(format!("{way} on {engine:?} at {shapes:?}: {place}\n{both}\n{program}\n{}", form.program))
            };
            // Fused nests may leave out a check that no result needs; it is open which one fails.
            let nest = form.run_nests(Engine::Nest, &inputs);
            let allowed = match (&meant, &nest) {
                (Outcome::Fault(_), Outcome::Results(_) | Outcome::Fault(_)) => true,
                _ => meant == nest,
            };
            if !allowed {
                return wrong(&Engine::Nest, &meant, &nest);
            }
            if let (Outcome::Results(_), Err(what)) = (&nest, predicted(&form.program, &inputs)) {
                return Err(format!("{what}\n{}", form.program));
            }
            for engine in ENGINES {
                let found = form.run_nests(engine, &inputs);
                if !agree(&nest, &found) {
                    return wrong(&engine, &nest, &found);
                }
            }
            // Later calls of the same sizes replay a recording.
            for _ in 0..if n == 1 { 3 } else { 1 } {
                let found = form.run_on(&mut runners[n], &inputs);
                if !agree(&nest, &found) {
                    return wrong(&"PTX", &nest, &found);
                }
            }
            if let Some(objects) = &objects
                && let Some(found) = objects[n].call(&inputs, &nest)
                && !agree(&nest, &found)
            {
                return wrong(&"object", &nest, &found);
            }
        }
        outcomes.push(meant);
    }
    Ok(Ran { fused: forms.swap_remove(1).program, outcomes })
}

/// Compares the predicted loads and stores of a call with those that the interpreter counts.
fn predicted(program: &Program, inputs: &[ArrayRef<'_>]) -> Result<(), String> {
    let found = interp::nest::run(program, inputs).map_err(|error| format!("{error:?}"))?.traffic;
    let binding = Binding::new(program, inputs).map_err(|error| format!("{error:?}"))?;
    let predicted = traffic::predict(program, &|symbol| binding.symbol(symbol), &ARITHMETIC);
    for ((kernel, predicted), found) in program.kernels.values().zip(&predicted).zip(&found) {
        for (buffer, predicted) in &predicted.traffic {
            let found = found.get(buffer).copied().unwrap_or_default();
            if !holds(&predicted.loads, found.loads) || !holds(&predicted.stores, found.stores) {
                let place = format!("%{} in @{}", program.buffers[*buffer].name, kernel.name);
                return Err(format!("{place}: {predicted:?}, and {found:?} were counted"));
            }
        }
    }
    Ok(())
}

/// Whether outcomes of the same loop nests agree: any of several failed checks may be reported.
fn agree(nest: &Outcome, found: &Outcome) -> bool {
    matches!((nest, found), (Outcome::Fault(_), Outcome::Fault(_))) || nest == found
}
