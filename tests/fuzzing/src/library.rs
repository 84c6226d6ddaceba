//! Runs a case through the public library, as a user's program would: results, errors, limits,
//! arrays of the caller's own, cancellation, calls of one kernel from several threads at once, and
//! arguments that are written to files and read back.
//!
//! A call must give the meaning of the source whichever way it is made. An error must be one that a
//! user can cause: a fault of Fuseloop itself (E0299) is a failure, and so is an error that cannot
//! be drawn.

use std::time::{Duration, Instant};

use fuseloop::files::{self, Packing};
use fuseloop::{CallOptions, Cancel, Device, Input, Kernel, Options, Program, RunError, RunErrorKind, Style};
use guarded::{Edge, Guarded};
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::bind::{BindError, Fault};
use ir::decision::Passes;
use ir::nest::{self, CheckKind, SiteId};
use ir::{Dtype, Origin};

use crate::engines::{Engine, Outcome, poison};
use crate::linked::Linked;

/// Threads that call one kernel at once.
const CALLERS: usize = 3;
/// A cancelled call is cancelled at once, or after this many microseconds.
const CANCELLED_AFTER: [u64; 3] = [0, 20, 200];

/// A function compiled by the public library.
pub struct Library {
    kernel: Kernel,
    /// The same from a program in several files.
    linked: Option<Kernel>,
    program: Program,
    entry: String,
    /// The options for asking how much memory a call takes. That does not depend on the engine, and
    /// the interpreter needs no compilation.
    limits: Options,
}

/// The result of a call.
type Called = Result<Vec<Array>, RunError>;

impl Library {
    /// Compiles a function for an engine.
    pub fn new(source: &str, entry: &str, engine: Engine, fuse: Passes) -> Result<Library, String> {
        let (device, threads, simd) = match engine {
            Engine::Cpu(threads, simd) => (Device::Cpu, threads, simd),
            Engine::Gpu => (Device::Gpu, 1, Default::default()),
            _ => (Device::Interp, 1, Default::default()),
        };
        let options = Options { device, threads, simd, fuse, ..Options::default() };
        let program = Program::parse(source).map_err(|e| e.to_string())?;
        let kernel = compile(&program, entry, &options)?;
        let linked = match Linked::new(source, entry) {
            Some(linked) => {
                let read = linked.read().map_err(|e| format!("in several files: {e}\n{}", linked.program))?;
                Some(compile(&read, entry, &options)?)
            }
            None => None,
        };
        let limits = Options { device: Device::Interp, ..options };
        Ok(Library { kernel, linked, program, entry: entry.to_owned(), limits })
    }

    /// Makes a call in every possible way; all must agree. `program` has the requirements and
    /// places that errors refer to, `meant` is the meaning of the source, and `is_possible` tells
    /// which other faults are allowed.
    pub fn call(
        &self,
        inputs: &[ArrayRef<'_>],
        program: &nest::Program,
        meant: &Outcome,
        is_possible: &dyn Fn(Fault) -> bool,
    ) -> Outcome {
        let called = self.kernel.call(inputs);
        let ways = || {
            self.together(inputs, &called)?;
            self.by_name(inputs, &called)?;
            self.in_files(inputs, &called)?;
            self.write_to_own(inputs, &called)?;
            self.mistaken(inputs, &called)?;
            self.cancelled(inputs, &called)?;
            self.limited(inputs, &called)?;
            through_files(inputs)?;
            through_tables_and_pictures(inputs)
        };
        match ways() {
            Ok(()) => outcome(called, program, meant, is_possible),
            Err(what) => Outcome::Broken(what),
        }
    }

    /// Calls from several threads at once.
    fn together(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let all: Vec<Called> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(|| self.kernel.call(inputs))).collect();
            callers.into_iter().filter_map(|caller| caller.join().ok()).collect()
        });
        if all.len() < CALLERS {
            return Err("a call beside others panics".to_owned());
        }
        all.iter().try_for_each(|other| alike("a call beside others", called, other))
    }

    /// A call with the arguments by name, in the opposite order.
    fn by_name(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let params = &self.kernel.signature().params;
        let named = params.iter().zip(inputs).map(|(param, input)| (param.name.as_str(), input as &dyn Input));
        alike("call_named", called, &self.kernel.call_named(&named.rev().collect::<Vec<_>>()))
    }

    /// A call of the program in several files. Its errors have other places.
    fn in_files(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let Some(linked) = &self.linked else { return Ok(()) };
        match (called, linked.call(inputs)) {
            (Ok(these), Ok(others)) if *these == others => Ok(()),
            (Err(one), Err(other)) if one.code() == other.code() || is_fault(one) && is_fault(&other) => drawn(&other),
            (one, other) => {
                let short = |called: &Called| called.as_ref().map(Vec::len).map_err(ToString::to_string);
                Err(format!("a program in several files differs: {:?} and {:?}", short(one), short(&other)))
            }
        }
    }

    /// A call that writes to arrays of the caller's own, surrounded by unmapped memory.
    fn write_to_own(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let shapes = match self.kernel.output_shapes(inputs) {
            Ok(shapes) => shapes,
            Err(error) => return alike("the shapes", called, &Err(error)),
        };
        if let Ok(arrays) = called
            && !arrays.iter().map(Array::shape).eq(shapes.iter().map(Vec::as_slice))
        {
            return Err(format!("results have other shapes than {shapes:?}"));
        }
        let dtypes: Vec<Dtype> = self.kernel.signature().results.iter().map(|slot| slot.dtype).collect();
        let mut own = vec![];
        for (dtype, shape) in dtypes.iter().zip(&shapes) {
            let bytes = Array::zeros(*dtype, shape).map_err(|e| e.to_string())?.bytes().len();
            own.push(Guarded::of(&vec![poison(*dtype); bytes], Edge::Back).ok_or("no memory")?);
        }
        let mut lent = vec![];
        for ((dtype, shape), own) in dtypes.iter().zip(&shapes).zip(&mut own) {
            lent.push(ArrayMut::new(*dtype, shape, own.bytes_mut()).map_err(|e| e.to_string())?);
        }
        // Arrays that do not fit are refused before anything is written.
        let fewer = lent.len().saturating_sub(1);
        let refused = self.kernel.call_into(inputs, &mut lent[..fewer]);
        expect_code("a result less", refused, called, "E0230")?;
        let done = self.kernel.call_into(inputs, &mut lent);
        drop(lent);
        match (called, done) {
            (Ok(_), Ok(())) => {
                let given = dtypes.iter().zip(&shapes).zip(&own);
                let given = given.map(|((dtype, shape), own)| Array::from_bytes(*dtype, shape, own.bytes()));
                let given: Result<Vec<Array>, _> = given.collect();
                alike("call_into", called, &Ok(given.map_err(|e| e.to_string())?))?;
            }
            (called, Err(error)) => {
                alike("call_into", called, &Err(error))?;
                let untouched = |(own, dtype): (&Guarded, &Dtype)| own.bytes().iter().all(|b| *b == poison(*dtype));
                if !own.iter().zip(&dtypes).all(untouched) {
                    return Err("a call without results has written to the caller's arrays".to_owned());
                }
            }
            (Err(error), Ok(())) => return Err(format!("call_into gives results, call {error}")),
        }
        Ok(())
    }

    /// Calls with a missing argument, one of another type, and one of another rank.
    fn mistaken(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let Some((last, before)) = inputs.split_last() else { return Ok(()) };
        let other = if last.dtype() == Dtype::F64 { Dtype::I32 } else { Dtype::F64 };
        let typed = Array::zeros(other, last.shape()).map_err(|e| e.to_string())?;
        let ranked = Array::zeros(last.dtype(), &[last.shape(), &[2]].concat()).map_err(|e| e.to_string())?;
        for (what, arguments, code) in [
            ("an argument less", before.to_vec(), "E0200"),
            ("another type", [before, &[typed.as_ref()]].concat(), "E0202"),
            ("another rank", [before, &[ranked.as_ref()]].concat(), "E0203"),
        ] {
            expect_code(what, self.kernel.call(&arguments).map(drop), called, code)?;
        }
        Ok(())
    }

    /// Calls that are cancelled before they begin, or soon after.
    fn cancelled(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        for after in CANCELLED_AFTER {
            let cancel = Cancel::default();
            let found = std::thread::scope(|scope| {
                if after == 0 {
                    cancel.cancel();
                } else {
                    scope.spawn(|| {
                        let until = Instant::now() + Duration::from_micros(after);
                        while Instant::now() < until {
                            std::thread::yield_now();
                        }
                        cancel.cancel();
                    });
                }
                self.kernel.call_with(inputs, &CallOptions::until(&cancel))
            });
            match &found {
                Err(error) if matches!(error.kind(), RunErrorKind::Cancelled) => drawn(error)?,
                _ if after > 0 => alike("a call that may be cancelled", called, &found)?,
                _ => return Err(format!("a cancelled call gives {:?}", found.map(drop))),
            }
        }
        Ok(())
    }

    /// The memory that a call needs is sufficient, and one byte less is not.
    fn limited(&self, inputs: &[ArrayRef<'_>], called: &Called) -> Result<(), String> {
        let with = |limit| -> Result<Option<u128>, String> {
            let options = Options { max_memory: Some(limit), ..self.limits.clone() };
            match compile(&self.program, &self.entry, &options)?.output_shapes(inputs) {
                Ok(_) => Ok(None),
                Err(error) => {
                    drawn(&error)?;
                    match error.kind() {
                        RunErrorKind::Memory { needed, .. } => Ok(Some(*needed)),
                        _ => alike("a call with a limit", called, &Err(error)).map(|()| None),
                    }
                }
            }
        };
        let Some(needed) = with(0)? else { return Ok(()) };
        let Ok(needed) = u64::try_from(needed) else { return Ok(()) };
        if with(needed)?.is_some() || with(needed.saturating_sub(1))? != Some(needed.into()) {
            return Err(format!("a limit of {needed} bytes is not what the call takes"));
        }
        Ok(())
    }
}

/// Checks that `@kernels` accepts the number of kernels after all passes, and nothing less.
pub fn hold_kernels(source: &str, entry: &str, kernels: usize) -> Result<(), String> {
    let head = format!("fn {entry}(");
    for (most, holds) in [(kernels, true), (kernels.saturating_sub(1), kernels == 1)] {
        let promise = format!("@kernels({}) {head}", most.max(1));
        let text = source.replace("@kernels(100000)\n", "").replace(&head, &promise);
        let program = Program::parse(text.as_str()).map_err(|e| e.to_string())?;
        let held = program.function(entry).map_err(|e| e.to_string())?.hold_kernels();
        let code = held.as_ref().err().map(|e| e.code().to_string());
        if code.as_deref() != (!holds && kernels > 0).then_some("E0252") {
            return Err(format!("{promise} where there are {kernels} kernels: {code:?}"));
        }
    }
    Ok(())
}

fn compile(program: &Program, entry: &str, options: &Options) -> Result<Kernel, String> {
    let function = program.function(entry).map_err(|e| e.to_string())?;
    function.compile(options).map_err(|e| format!("{} {}", e.code(), e.render(Style::Plain)))
}

/// Arrays written to files of each format are read back unchanged.
fn through_files(arrays: &[ArrayRef<'_>]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    for format in ["npy", "npz", "safetensors"] {
        let place = |n: usize| {
            let file = if format == "npy" { format!("a{n}.npy") } else { format!("all.{format}:a{n}") };
            files::Place::parse(&folder.path().join(file).display().to_string()).map_err(|e| e.to_string())
        };
        let suited = |array: &&ArrayRef<'_>| array.dtype() != Dtype::Bf16 || format == "safetensors";
        let mut written = vec![];
        for (n, array) in arrays.iter().filter(suited).enumerate() {
            written.push((place(n)?, *array));
        }
        files::save(&written, Packing::Stored).map_err(|e| e.to_string())?;
        for (place, array) in &written {
            let read = files::read(place).map_err(|e| e.to_string())?;
            let same = |n| read.get(n) == array.get(n);
            if read.dtype() != array.dtype() || read.shape() != array.shape() || !(0..read.len()).all(same) {
                return Err(format!(
                    "another array comes back from .{format}: {:?} of {:?}",
                    read.shape(),
                    array.shape()
                ));
            }
        }
    }
    Ok(())
}

/// Arrays that suit a table or a picture are written to one and read back unchanged.
fn through_tables_and_pictures(arrays: &[ArrayRef<'_>]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    for array in arrays {
        // A table of one column is read with one axis, and neither format has empty arrays.
        let (full, rank) = (!array.bytes().is_empty(), array.shape().len());
        let last = array.shape().last().copied().unwrap_or(1);
        let table = full && rank == 2 && last > 1;
        let picture = full && (rank == 2 || rank == 3 && (2..=4).contains(&last));
        for (suits, ending) in [(table, "csv"), (picture && matches!(array.dtype(), Dtype::U8 | Dtype::U16), "png")] {
            if !suits {
                continue;
            }
            let place =
                |ending: &str| files::Place::parse(&folder.path().join(format!("a.{ending}")).display().to_string());
            files::save(&[(place(ending).map_err(|e| e.to_string())?, *array)], Packing::Stored)
                .map_err(|e| e.to_string())?;
            let typed = place(&format!("{ending}:{}", array.dtype())).map_err(|e| e.to_string())?;
            let read = files::read(&typed).map_err(|e| e.to_string())?;
            let same = |n| read.get(n) == array.get(n);
            if read.dtype() != array.dtype() || read.shape() != array.shape() || !(0..read.len()).all(same) {
                return Err(format!("another array comes back from .{ending}: {:?}", array.shape()));
            }
        }
    }
    Ok(())
}

/// Whether an error can be drawn and is one that a user can cause.
fn drawn(error: &RunError) -> Result<(), String> {
    let text = error.render(Style::Plain);
    if error.code().to_string() == "E0299" || text.trim().is_empty() || error.to_string().is_empty() {
        return Err(format!("an error that no user can make: {text}"));
    }
    Ok(())
}

/// Whether a call with a mistake is refused for the mistake, or for the reason that refuses it
/// without the mistake.
fn expect_code(what: &str, found: Result<(), RunError>, called: &Called, code: &str) -> Result<(), String> {
    match (found, called) {
        (Err(error), _) if error.code().to_string() == code => drawn(&error),
        (Err(error), Err(other)) if error.code() == other.code() => drawn(&error),
        (found, _) => Err(format!("{what} must be {code}, it is {found:?}")),
    }
}

/// Whether two calls agree. If several subscripts are out of bounds, either may be reported.
fn alike(what: &str, one: &Called, other: &Called) -> Result<(), String> {
    let same = match (one, other) {
        (Ok(these), Ok(others)) => these == others,
        (Err(one), Err(other)) => {
            drawn(other)?;
            one.kind() == other.kind() || is_fault(one) && is_fault(other)
        }
        _ => false,
    };
    let short = |called: &Called| called.as_ref().map(Vec::len).map_err(|error| Box::new(error.kind().clone()));
    if same { Ok(()) } else { Err(format!("{what} differs: {:?} and {:?}", short(one), short(other))) }
}

/// Whether an access or a place has no element. Which of several is reported is not defined.
fn is_fault(error: &RunError) -> bool {
    matches!(error.kind(), RunErrorKind::Access { .. } | RunErrorKind::NoElement { .. })
}

/// The outcome of a call through the library, in the terms of engines.
fn outcome(called: Called, program: &nest::Program, meant: &Outcome, is_possible: &dyn Fn(Fault) -> bool) -> Outcome {
    let error = match called {
        Ok(results) => return Outcome::Results(results),
        Err(error) => error,
    };
    if let Err(what) = drawn(&error) {
        return Outcome::Broken(what);
    }
    let is_at = |origin: Origin, at: &std::ops::Range<usize>| (origin.start as usize..origin.end as usize) == *at;
    let unknown = || Outcome::Broken(format!("an error that nothing explains: {error}"));
    let fault = |at, index, bound, is: &dyn Fn(&CheckKind) -> bool| {
        let sites = program.sites.iter().filter(|(_, site)| is_at(site.origin, at) && is(&site.what));
        let faults: Vec<Fault> = sites.map(|(site, _)| Fault { site, index, bound }).collect();
        // A function that is called twice has each of its places twice.
        let same = faults.iter().find(|fault| *meant == Outcome::Fault(**fault));
        same.or(faults.iter().find(|fault| is_possible(**fault)))
            .or(faults.first())
            .map_or_else(unknown, |fault| Outcome::Fault(*fault))
    };
    match error.kind() {
        RunErrorKind::Access { array, axis, index, bound, at } => {
            let named =
                |place: &CheckKind| matches!(place, CheckKind::Axis { array: a, axis: n } if a == array && n == axis);
            fault(at, *index, *bound, &named)
        }
        RunErrorKind::NoElement { reducer, at } => {
            // The error contains neither number. The check fails at -1 of 1 if there are no
            // elements.
            let named = |place: &CheckKind| matches!(place, CheckKind::Elements(op) if op.name() == *reducer);
            match meant {
                Outcome::Fault(meant) if is_site(program, meant.site, at, &named) => Outcome::Fault(*meant),
                _ => fault(at, -1, 1, &named),
            }
        }
        RunErrorKind::Sizes { left, right, relation, purpose, at, .. } => {
            let requires = program.requires.iter().enumerate();
            let same = requires.filter(|(_, r)| {
                is_at(r.origin, at)
                    && r.relation == *relation
                    && r.purpose == *purpose
                    && r.left_is == left.what
                    && r.right_is == right.what
            });
            // Engines compute sizes as signed 64-bit numbers, so a larger `u64` is clamped to the
            // greatest.
            let [left, right] = [left, right].map(|side| i64::try_from(side.value).unwrap_or(i64::MAX));
            let mut refused =
                same.map(|(requirement, _)| Outcome::Refused(BindError::Requirement { requirement, left, right }));
            let first = refused.next();
            refused.chain(first.clone()).find(|refused| refused == meant).or(first).unwrap_or_else(unknown)
        }
        RunErrorKind::Size { value, .. } => match meant {
            Outcome::Refused(BindError::Length { value: meant_value, .. }) if meant_value == value => meant.clone(),
            Outcome::Refused(BindError::RequirementSize { error, .. }) if *value == Err(*error) => meant.clone(),
            _ => unknown(),
        },
        RunErrorKind::ArgumentLength { .. } => match meant {
            Outcome::Refused(BindError::InputLength { .. }) => meant.clone(),
            _ => unknown(),
        },
        _ => Outcome::Broken(format!("an error that no input asks for: {error}")),
    }
}

/// Whether a check of some kind stands at some place.
fn is_site(
    program: &nest::Program,
    site: SiteId,
    at: &std::ops::Range<usize>,
    is: &dyn Fn(&CheckKind) -> bool,
) -> bool {
    let site = program.sites.get(site);
    site.is_some_and(|site| (site.origin.start as usize..site.origin.end as usize) == *at && is(&site.what))
}
