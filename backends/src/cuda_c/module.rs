//! Kernels with their launches, and the whole text.

use std::collections::BTreeSet;
use std::fmt;

use ir::Origin;
use ir::nest::{FunctionId, Program, Statement};
use ir::sched::{Machine, Part, Scheduled};

use super::helpers::Helper;
use super::kernel::{Writer, Written};
use super::names::{Names, identifier};
use crate::error::{CompileError, check};
use crate::ptx;

/// Why a program has no CUDA C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A kernel has something that this target does not cover.
    Unsupported {
        /// What it has, in words.
        what: &'static str,
        /// The source locations of its operations.
        origins: Vec<Origin>,
    },
    /// The code generator failed.
    Compile(CompileError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported { what, .. } => write!(f, "CUDA C does not cover {what}"),
            Error::Compile(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// Something that this target does not cover.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsupported(pub(super) &'static str);

/// A program as CUDA C.
pub struct Module<'s> {
    scheduled: &'s Scheduled,
    /// A kernel for each part, as far as it is covered.
    kernels: Vec<Result<Kernel, Unsupported>>,
}

/// A kernel.
struct Kernel {
    name: String,
    written: Written,
}

impl<'s> Module<'s> {
    /// Writes a program that is scheduled for [`Machine::PTX`].
    ///
    /// # Errors
    ///
    /// [`Error::Compile`] if it is not a scheduled program of that kind.
    pub fn new(scheduled: &'s Scheduled) -> Result<Module<'s>, Error> {
        check(scheduled, Machine::PTX).map_err(Error::Compile)?;
        let mut names = Names::default();
        let kernel = |part: &Part| {
            let name = names.fresh(&format!("{}_kernel", scheduled.program.name));
            let written = kernel(&scheduled.program, part, &name)?;
            Ok(Kernel { name, written })
        };
        Ok(Module { scheduled, kernels: scheduled.parts.iter().map(kernel).collect() })
    }

    /// The text. Comments before each kernel show `note` of the source locations that it computes.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if a kernel is not covered: those with reductions, or with loops that
    /// threads share.
    pub fn text(&self, note: impl Fn(&[Origin]) -> Vec<String>) -> Result<String, Error> {
        let mut kernels = vec![];
        for (kernel, part) in self.kernels.iter().zip(&self.scheduled.parts) {
            let origins = &part.kernel.origins;
            match kernel {
                Ok(kernel) => kernels.push((&kernel.written, note(origins))),
                Err(Unsupported(what)) => return Err(Error::Unsupported { what, origins: origins.clone() }),
            }
        }
        self.unit(&kernels)
    }

    /// Puts the covered kernels in place of those of the same program as PTX, for tests. `compile`
    /// makes PTX of CUDA C.
    ///
    /// # Errors
    ///
    /// That of `compile`, with the text.
    pub fn compile_into(
        &self,
        module: &mut ptx::Module,
        compile: impl Fn(&str) -> Result<String, String>,
    ) -> Result<usize, String> {
        let mut covered = 0;
        for (number, kernel) in self.kernels.iter().enumerate() {
            let Ok(Kernel { name, written }) = kernel else { continue };
            let text = self.unit(&[(written, vec![])]).map_err(|error| error.to_string())?;
            let ptx = compile(&text).map_err(|error| format!("{error}\n{text}"))?;
            module.replace(number, &self.scheduled.parts[number], name, &ptx, &written.arguments);
            covered += 1;
        }
        Ok(covered)
    }

    /// Kernels, each with the comments before it, and what they call.
    fn unit(&self, kernels: &[(&Written, Vec<String>)]) -> Result<String, Error> {
        let Scheduled { program, parts, .. } = self.scheduled;
        let (mut helpers, mut functions) = (BTreeSet::new(), Functions::default());
        for (written, _) in kernels {
            helpers.extend(&written.helpers);
            for id in &written.functions {
                let unsupported = |Unsupported(what)| Error::Unsupported { what, origins: vec![] };
                functions.add(program, &parts[0], *id).map_err(unsupported)?;
            }
        }
        helpers.extend(functions.helpers);
        let needed: Vec<Helper> = helpers.iter().flat_map(|helper| helper.needs().iter().copied()).collect();
        helpers.extend(needed);
        let mut text =
            "// Compile with --fmad=false: otherwise products and sums are contracted, and bits differ.\n".to_owned();
        // Helpers that need none stand before the others.
        let (leaves, others): (Vec<Helper>, Vec<Helper>) = helpers.iter().partition(|helper| helper.needs().is_empty());
        for helper in leaves.into_iter().chain(others) {
            text += &format!("\n{}", helper.text());
        }
        for function in functions.texts {
            text += &format!("\n{function}");
        }
        for (written, comments) in kernels {
            let comments: String = comments.iter().map(|line| format!("// {line}\n")).collect();
            text += &format!("\n{comments}{}", written.text);
        }
        Ok(text)
    }
}

/// The functions that kernels call, each behind those that it calls.
#[derive(Default)]
struct Functions {
    done: BTreeSet<FunctionId>,
    helpers: BTreeSet<Helper>,
    texts: Vec<String>,
}

impl Functions {
    fn add(&mut self, program: &Program, part: &Part, id: FunctionId) -> Result<(), Unsupported> {
        if !self.done.insert(id) {
            return Ok(());
        }
        let written = Writer::new(program, part).function(id)?;
        for inner in &written.functions {
            self.add(program, part, *inner)?;
        }
        self.helpers.extend(written.helpers);
        self.texts.push(written.text);
        Ok(())
    }
}

/// A part as a kernel.
fn kernel(program: &Program, part: &Part, name: &str) -> Result<Written, Unsupported> {
    let Some((before, Statement::Loop(l))) = part.root() else {
        return Err(Unsupported("a loop that a single block runs"));
    };
    let Some(layout) = part.variants.last() else { return Err(Unsupported("a reduction")) };
    let mut writer = Writer::new(program, part);
    writer.laid_out(before, l, layout)?;
    Ok(writer.finish(&identifier(name), layout.threads()))
}
