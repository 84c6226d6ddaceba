//! Kernels with their launches, and the whole text.

use std::collections::BTreeSet;
use std::fmt;

use ir::nest::{Extent, FunctionId, IndexId, Loop, Program, ReducerId, Statement};
use ir::order::{LANES, LANES_CHUNK, SCAN_CHUNK, Scope};
use ir::sched::{Axis, Inner, Level, Machine, Part, Run, Scheduled, Strategy, Variant, reductions_bytes};
use ir::{Origin, Size};

use super::helpers::Helper;
use super::kernel::{Writer, Written};
use super::names::{Names, identifier};
use super::relay;
use crate::error::{CompileError, check};
use crate::ptx::{self, Blocks};

/// Why a program has no CUDA C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A kernel has something that this target does not cover.
    Unsupported {
        /// The thing, in words.
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
    launch: Blocks,
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
            let (written, launch) = kernel(scheduled, part, &name)?;
            Ok(Kernel { name, written, launch })
        };
        Ok(Module { scheduled, kernels: scheduled.parts.iter().map(kernel).collect() })
    }

    /// The text. Comments before each kernel show `note` of the source locations that it computes.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if a kernel is not covered: those of long running sums, and matrix
    /// products.
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

    /// Puts the covered kernels in place of those of the same program as PTX, for tests. The
    /// program has a launch for each part ([`Scheduled::apart`]). `compile` makes PTX of CUDA C.
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
        let parts = &self.scheduled.parts;
        for (number, kernel) in self.kernels.iter().enumerate() {
            // The parts of one kernel hand results on in their own way.
            let own = self.kernels.iter().zip(parts).filter(|(_, part)| part.of == parts[number].of);
            let all = own.clone().all(|(kernel, _)| kernel.is_ok());
            let Ok(Kernel { name, written, launch }) = kernel else { continue };
            if !all {
                continue;
            }
            let text = self.unit(&[(written, vec![])]).map_err(|error| error.to_string())?;
            let ptx = compile(&text).map_err(|error| format!("{error}\n{text}"))?;
            module.replace(number, name, &ptx, &written.arguments, launch);
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
            let unsupported = |Unsupported(what)| Error::Unsupported { what, origins: vec![] };
            for id in &written.functions {
                functions.add(program, &parts[0], *id).map_err(unsupported)?;
            }
            for id in &written.reducers {
                functions.reduce_by(program, &parts[0], *id).map_err(unsupported)?;
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
    reducers: BTreeSet<ReducerId>,
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

impl Functions {
    /// Adds a reducer.
    fn reduce_by(&mut self, program: &Program, part: &Part, id: ReducerId) -> Result<(), Unsupported> {
        if self.reducers.insert(id) {
            let written = Writer::new(program, part).reducer(id)?;
            self.helpers.extend(written.helpers);
            self.texts.push(written.text);
        }
        Ok(())
    }
}

/// The threads of a block that cannot have more, because of the reductions' shared memory.
const FEW: i64 = LANES as i64;

/// A part as a kernel, with its launch.
fn kernel(scheduled: &Scheduled, part: &Part, name: &str) -> Result<(Written, Blocks), Unsupported> {
    let (program, gpu) = (&scheduled.program, scheduled.machine.gpu);
    let mut writer = Writer::new(program, part);
    let many = gpu.filter(|gpu| {
        let threads = usize::try_from(gpu.most_threads).unwrap_or(0);
        reductions_bytes(program, &part.kernel.values, &part.kernel.body, threads) <= gpu.reductions
    });
    let threads = many.map_or(FEW, |gpu| gpu.most_threads);
    let launch = match (part.root(), &part.run) {
        (_, Run::Sweeps) => return Err(Unsupported("a matrix product")),
        (None, _) => {
            writer.in_one_block(&part.kernel.body, threads)?;
            Blocks { axes: vec![], others: 0, threads, together: !part.has_scratch_of_iterations(program) }
        }
        (Some((before, Statement::Loop(l))), Run::Chunks { results }) => {
            writer.reduce_chunk(before, l, l.kind.reductions(), results)?;
            Blocks { axes: vec![(extents(&l.dims), LANES_CHUNK as i64)], others: 0, threads: FEW, together: false }
        }
        (Some((before, Statement::Loop(l))), Run::Blocks { results }) => {
            writer.reduce_blocks(before, l, results, FEW)?;
            let shape = results.first().map(|id| program.buffers[*id].shape.clone());
            Blocks { axes: vec![(shape, FEW)], others: 0, threads: FEW, together: false }
        }
        (Some((before, Statement::Loop(l))), Run::Relay(of_scan)) => {
            writer.relay(before, l, of_scan)?;
            let axes = vec![(extents(&l.dims), SCAN_CHUNK as i64)];
            Blocks { axes, others: 1, threads: relay::THREADS, together: false }
        }
        (Some((before, Statement::Loop(l))), _) => {
            let layout = readable(part, l, threads)?;
            writer.laid_out(before, l, &layout)?;
            let of = |axis: &Axis| {
                let dims: Vec<_> = l.dims.iter().filter(|(index, _)| axis.indices.contains(index)).cloned().collect();
                (extents(&dims), axis.of_block())
            };
            let together = layout.inner != Inner::Alone;
            Blocks { axes: layout.axes.iter().map(of).collect(), others: 0, threads: layout.threads(), together }
        }
        _ => return Err(Unsupported("a matrix product")),
    };
    Ok((writer.finish(&identifier(name), &launch), launch))
}

/// The layout of a part for people to read. Strips become a thread for each column, and rows in
/// registers a block for each row.
fn readable(part: &Part, l: &Loop, threads: i64) -> Result<Variant, Unsupported> {
    let layout = part.variants.last().ok_or(Unsupported("blocks of rows"))?;
    let axis = |levels: Vec<Level>| vec![Axis::new(l.dims.iter().map(|(index, _)| *index), levels)];
    let grid = Level::all(Scope::Grid);
    Ok(match layout.strategy {
        Strategy::Strips => Variant::new(Strategy::Threads, axis(vec![Level::of(Scope::Block, 256), grid])),
        Strategy::Rows | Strategy::Blocks => {
            let inner = Inner::Together(threads);
            Variant { inner, ..Variant::new(Strategy::Blocks, axis(vec![grid])) }
        }
        Strategy::Tiles | Strategy::Stencil | Strategy::Vectors | Strategy::Threads => layout.clone(),
    })
}

fn extents(dims: &[(IndexId, Extent)]) -> Option<Vec<Size>> {
    dims.iter().map(|(_, extent)| extent.as_size().cloned()).collect()
}
