//! How the kernels of a function run on a device.

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::nest::{Extent, Program, Statement};
use ir::order::{BLOCK, LANES_CHUNK, SCAN_CHUNK};
use ir::rewrite::for_each_affine_mut;
use ir::sched::{Part, Run, Scheduled, SweepForm, SweepSizes, Sweeps, is_scalar};
use ir::{Arithmetic, Size};

use super::forms::forms;
use super::layout::{refusals, ways};
use super::{Known, Report, nests};

/// A part of a kernel, which runs when those before it have ended.
#[derive(Clone, Debug)]
pub struct PartReport {
    /// The number of the kernel.
    pub kernel: usize,
    /// The number of the part among those of the kernel, from 0 on, and of all of them.
    pub part: (usize, usize),
    /// How much runs at the same time; `None` if nothing runs at the sizes that were given.
    pub how: Option<String>,
    /// How many iterations a thread and a block of a GPU take; with sizes, only at these. On a CPU,
    /// the loops that run in vectors.
    pub ways: Vec<String>,
    /// Why it does not run in ways that would have come first. On a CPU, the loops that do not run
    /// in vectors.
    pub refused: Vec<String>,
    /// Its loops.
    pub nest: Vec<String>,
}

impl PartReport {
    /// Which part it is, such as `kernel 1, part 2 of 3`.
    pub fn title(&self) -> String {
        let (part, of) = self.part;
        let which = if of == 1 { String::new() } else { format!(", part {} of {of}", part + 1) };
        format!("kernel {}{which}", self.kernel + 1)
    }
}

impl Report {
    /// Adds how the kernels run, as a schedule of the program after fusion says.
    pub fn add_schedule(&mut self, scheduled: &Scheduled, arithmetic: &Arithmetic) {
        let program = scheduled.as_program();
        let known = Known { sizes: &self.sizes, given: &self.given };
        let of = |part: &Part| part.of.index();
        let mut parts: Vec<PartReport> = vec![];
        for (part, kernel) in scheduled.parts.iter().zip(program.kernels.values()) {
            let count = scheduled.parts.iter().filter(|other| of(other) == of(part)).count();
            let before = parts.iter().filter(|other| other.kernel == of(part)).count();
            let mut kernel = kernel.clone();
            for statement in &mut kernel.body {
                for_each_affine_mut(statement, &mut |affine| *affine = affine.map_sizes(&|size| known.size(size)));
            }
            let runs = kernel.body.iter().any(runs);
            let no_names = SecondaryMap::new();
            let (nest, indices) = nests::lines_and_indices(&program, &kernel, &self.sizes, &no_names, arithmetic);
            let last = if part.last.is_some() { ", by the last block of the part before" } else { "" };
            let last = if scheduled.is_replaced(part) { ", where sweeps do not fit" } else { last };
            let how = runs.then(|| how(&part.run) + last);
            let (mut found, mut refused) = (vec![], vec![]);
            if runs {
                (found, refused) = forms(part, &indices);
                found.extend(ways(part, &known));
                found.extend(
                    scheduled.machine.sweeps.and_then(|sizes| sweeps(&program, part, sizes)).into_iter().flatten(),
                );
                refused.extend(refusals(part));
            }
            parts.push(PartReport { kernel: of(part), part: (before, count), how, ways: found, refused, nest });
        }
        self.schedule = Some(parts);
    }
}

/// Whether a statement at the top of a part does anything but define scalars.
fn runs(statement: &Statement) -> bool {
    let none = |extent: &Extent| extent.as_size().and_then(Size::as_constant).is_some_and(|n| n < 1);
    !is_scalar(statement) && !statement.dims().any(|(_, extent)| none(extent))
}

/// The number of sweeps of a part that runs in them, and the sizes at which it does.
fn sweeps(program: &Program, part: &Part, sizes: SweepSizes) -> Option<[String; 2]> {
    let SweepSizes { fewest, widest, many, tile, .. } = sizes;
    if part.run != Run::Sweeps {
        return None;
    }
    let [exact, online] = [SweepForm::Exact, SweepForm::Online].map(|form| Sweeps::of(program, &part.kernel, form));
    let (exact, online) = (exact?, online?);
    let count = exact.sweeps.len();
    if exact.weighted.is_some() {
        let saved = if online.sweeps.len() < count {
            format!("; `--math fast`: {}, with sums that are multiplied when a maximum grows", online.sweeps.len())
        } else {
            String::new()
        };
        let at = format!("{fewest} rows and more, at most {widest} indices summed over and {widest} results of a row");
        return Some([format!("{}{saved}", times(count)), at]);
    }
    let most = sizes.again(count).map_or(String::new(), |most| format!(", at most {most}"));
    let at = format!(
        "{fewest} rows and more; with more than {widest} indices summed over{most}, \
         {many} rows or at most {tile} columns"
    );
    Some([times(count), at])
}

fn times(sweeps: usize) -> String {
    format!("{sweeps} sweep{}", if sweeps == 1 { "" } else { "s" })
}

fn how(run: &Run) -> String {
    match run {
        Run::Whole => "in one piece".to_owned(),
        Run::Ranges => "in ranges".to_owned(),
        Run::Transpose(_) => "in tiles, since it reads across memory".to_owned(),
        Run::Strips { .. } => "in strips of columns".to_owned(),
        Run::Chunks { .. } => format!("in chunks of {LANES_CHUNK} elements, each with a result of its own"),
        Run::Blocks { .. } => format!("in blocks of {BLOCK} iterations, each with a result of its own"),
        Run::HandOff(_) => format!("in chunks of {SCAN_CHUNK} elements, each after the one before has its results"),
        Run::Relay(_) => format!("in chunks of {SCAN_CHUNK} elements, each with the results of those before it"),
        Run::Sweeps => "in sweeps over the columns, with the product again in each".to_owned(),
        Run::Tiles(_) => "in blocks of rows, each with sums of its own".to_owned(),
    }
}
