//! Functions computed in blocks: how the arrays of a function may be cut, and the programs that
//! compute it then.

use std::fmt;
use std::sync::Arc;

use compiler::partition::{self, Input as Taken, Output as Root, Plan};
use ir::array::{Array, ArrayRef, Input};
use ir::bind::Given;
use ir::checked::Checked;
use ir::{Dtype, Scalar, Size};

use crate::boundary;
use crate::render::{Report, draw};
use crate::{CallOptions, CompileError, Kernel, Options, RunError, Signature, Source, Style, Times};

pub use compiler::partition::{AxisSummary, CutSummary, JoinSummary, Reduced};

/// How the arrays of a function may be cut into blocks that are computed apart from each other, on
/// several machines if need be, and put together to the same bits.
///
/// ```
/// use fuseloop::{Options, Program};
///
/// let program = Program::parse("fn shares(x: f32[n, m]) { let y[i, j] = x[i, j] / sum(x[i]); y }")?;
/// let partition = program.main()?.compile(&Options::default())?.partition();
/// let cuts: Vec<String> = partition.cuts().iter().map(|cut| cut.to_string()).collect();
/// assert_eq!(cuts[0], "axis 0 of `x`, axis 0 of `out`: mapped");
/// assert_eq!(cuts[1], "axis 1 of `x`, axis 1 of `out`: reduced by `sum(x[i])` in chunks of 4096");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Partition {
    source: Arc<Source>,
    checked: Arc<Checked>,
    partition: partition::Partition,
    cuts: Vec<CutSummary>,
}

impl Partition {
    pub(crate) fn new(source: Arc<Source>, checked: Arc<Checked>) -> Partition {
        let partition = partition::Partition::new(&checked, &source.text);
        let cuts = partition.summary(&checked);
        Partition { source, checked, partition, cuts }
    }

    /// The axes of parameters and results, each with those that have to be cut with it.
    pub fn cuts(&self) -> &[CutSummary] {
        &self.cuts
    }

    /// The programs that compute the function where the axes of these `cuts` are cut, by their
    /// numbers.
    ///
    /// # Errors
    ///
    /// [`NotCut`] if one of them cannot be cut, or not together with the others.
    pub fn blocks(&self, cut: &[usize]) -> Result<Blocks<'_>, NotCut> {
        let groups = cut.iter().filter_map(|number| Some(self.partition.cuts.get(*number)?.group));
        let groups: Vec<usize> = groups.collect();
        let plan = self.partition.plan(&self.checked, &self.source.text, &groups);
        let plan = plan.map_err(|refusal| self.refused(refusal))?;
        Ok(Blocks { of: self, plan })
    }

    fn refused(&self, refusal: partition::Refusal) -> NotCut {
        NotCut { source: Arc::clone(&self.source), refusal }
    }

    fn number_of(&self, group: usize) -> Option<usize> {
        self.partition.cuts.iter().position(|cut| cut.group == group)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.cuts).finish()
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cuts.iter().try_for_each(|cut| writeln!(f, "{cut}"))
    }
}

/// Why axes cannot be cut.
#[derive(Clone, Debug)]
pub struct NotCut {
    source: Arc<Source>,
    refusal: partition::Refusal,
}

impl NotCut {
    /// The error, ready to be drawn or written as JSON.
    pub fn report(&self) -> Report {
        let partition::Refusal { message, help, origin } = &self.refusal;
        Report {
            message: message.clone(),
            labels: vec![(origin.start as usize..origin.end as usize, String::new())],
            help: Some(help.clone()),
            ..Report::default()
        }
    }

    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

impl fmt::Display for NotCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&draw(&self.source, &self.report(), Style::Plain))
    }
}

impl std::error::Error for NotCut {}

/// The programs that compute a function in blocks: stages, one after another. A stage computes
/// blocks of results, or partial results of reductions, which the caller joins.
pub struct Blocks<'a> {
    of: &'a Partition,
    plan: Plan,
}

/// A stage for a call of certain sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageOutline {
    /// The cuts whose blocks it is computed for, by their numbers.
    pub cuts: Vec<usize>,
    /// The pieces that a block is computed in.
    pub unit: Option<UnitOutline>,
    /// Its results.
    pub outputs: Vec<OutputOutline>,
}

/// The pieces of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitOutline {
    /// The elements of a chunk: pieces begin at multiples of it.
    pub chunk: i64,
    /// The elements in each element of the axis that is cut.
    pub inner: i64,
    /// The length of that axis.
    pub length: i64,
    /// Whether a piece may have several chunks: a power of two, from a multiple of that on.
    pub joined: bool,
}

/// A result of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOutline {
    /// The number of the result of the function, or of the value.
    pub number: usize,
    /// How two partial results are joined, by the name of the reducer; `None` for a result. A
    /// partial result of `argmax` and `argmin` is a place and the element there.
    pub join: Option<&'static str>,
    /// For a scan, the axis along which it runs: then a partial result is the prefixes of a piece,
    /// and the reduction of all its elements, which is to be joined with the prefixes of the next
    /// piece.
    pub scan: Option<usize>,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The cut of each axis, if it is cut.
    pub cuts: Vec<Option<usize>>,
    /// The length of each axis, over all blocks.
    pub shape: Vec<i64>,
    /// The cuts that a value reduces, each with the length of the index.
    pub over: Vec<(usize, i64)>,
}

/// An argument of a call without its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The lengths of its axes.
    pub shape: Vec<usize>,
    /// Its value, if it is a scalar that a size may depend on.
    pub value: Option<Scalar>,
}

impl Given for Outline {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn scalar(&self) -> Option<Scalar> {
        self.value
    }
}

impl Blocks<'_> {
    /// The stages for a call in which size names have these values ([`Kernel::sizes`]).
    pub fn outline(&self, sizes: &[i64]) -> Vec<StageOutline> {
        let number = |size: &Size| value_of(size, sizes);
        let cuts = |groups: &[usize]| groups.iter().filter_map(|group| self.of.number_of(*group)).collect::<Vec<_>>();
        let stage = |stage: &partition::Stage| StageOutline {
            cuts: cuts(&stage.grid),
            unit: stage.unit.as_ref().map(|unit| UnitOutline {
                chunk: number(&unit.chunk).max(1),
                inner: number(&unit.inner).max(0),
                length: number(&unit.length).max(0),
                joined: unit.joined,
            }),
            outputs: stage.outputs.iter().map(|output| self.output(stage, output, &number)).collect(),
        };
        self.plan.stages.iter().map(stage).collect()
    }

    fn output(&self, stage: &partition::Stage, output: &Root, number: &impl Fn(&Size) -> i64) -> OutputOutline {
        let checked = &self.of.checked;
        let cut = |group: &usize| stage.grid.contains(group).then(|| self.of.number_of(*group)).flatten();
        match output {
            Root::Result(result) => {
                let ty = &checked.exprs[checked.results[*result].1].ty;
                let groups = self.of.partition.of_result(checked, *result);
                OutputOutline {
                    number: *result,
                    join: None,
                    scan: None,
                    dtype: ty.dtype,
                    cuts: groups.iter().map(cut).collect(),
                    shape: ty.shape.iter().map(number).collect(),
                    over: vec![],
                }
            }
            Root::Value(value) => {
                let known = &self.plan.values[*value];
                let length = |index| self.of.partition.length(index).map_or(0, number);
                OutputOutline {
                    number: *value,
                    join: Some(known.join.name()),
                    scan: known.scan,
                    dtype: known.dtype,
                    cuts: self.of.partition.of_value(known).iter().map(cut).collect(),
                    shape: known.free.iter().map(|index| length(*index)).collect(),
                    over: known
                        .over
                        .iter()
                        .zip(&known.indices)
                        .filter_map(|(group, index)| Some((self.of.number_of(*group)?, length(*index))))
                        .collect(),
                }
            }
        }
    }

    /// Compiles a stage, by its number.
    ///
    /// # Errors
    ///
    /// [`NotCut`] if its program cannot be derived.
    pub fn derive(&self, stage: usize) -> Result<Derived, NotCut> {
        let of = self.of;
        let derived = of.partition.derive(&of.checked, &self.plan, &self.plan.stages[stage]);
        let derived = derived.map_err(|refusal| of.refused(refusal))?;
        let groups = of.partition.cuts.iter().map(|cut| cut.group).collect();
        Ok(Derived { source: Arc::clone(&of.source), derived, groups })
    }
}

/// The program of a stage.
pub struct Derived {
    source: Arc<Source>,
    derived: partition::Derived,
    groups: Vec<usize>,
}

impl Derived {
    /// Compiles it.
    ///
    /// # Errors
    ///
    /// Those of [`Function::compile`](crate::Function::compile).
    pub fn compile(self, options: &Options) -> Result<Stage, CompileError> {
        let Derived { source, derived, groups } = self;
        let checked = Arc::new(derived.checked);
        let signature = Signature::new(&checked);
        let kernel = boundary::compile(|| Kernel::new(source, (&checked, None), signature, options, Times::default()))?;
        Ok(Stage { kernel, inputs: derived.inputs, regions: derived.regions, groups })
    }
}

/// A compiled stage.
pub struct Stage {
    kernel: Kernel,
    inputs: Vec<Taken>,
    regions: Vec<partition::Region>,
    groups: Vec<usize>,
}

/// A block of a call.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The values of the size names ([`Kernel::sizes`]).
    pub sizes: &'a [i64],
    /// The beginning and the end of the block for each cut of the partition; the end of the last
    /// block is `i64::MAX`.
    pub ends: &'a [(i64, i64)],
    /// For a reduction in pieces: the number of its first element from that of the block, and how
    /// many it has.
    pub piece: (i64, i64),
}

/// A part of an array that a stage needs for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The number of the argument, or of the value.
    pub number: usize,
    /// Whether it is a value of an earlier stage.
    pub value: bool,
    /// The part of each axis; all of it if there is none.
    pub parts: Vec<Option<(i64, i64)>>,
}

impl Stage {
    fn part(&self, region: usize, block: &Block<'_>) -> (i64, i64) {
        let region = &self.regions[region];
        let cut = self.groups.iter().position(|group| *group == region.group);
        let ends = cut.and_then(|cut| block.ends.get(cut)).copied().unwrap_or((0, i64::MAX));
        region.at(ends, &|size| value_of(size, block.sizes))
    }

    /// The parts of the arguments and of earlier values that it needs for a block, in order.
    pub fn needs(&self, block: &Block<'_>) -> Vec<Needed> {
        let needed = |input: &Taken| {
            let (number, value, parts) = match input {
                Taken::Param(number, parts) => (*number, false, parts),
                Taken::Value(number, parts) => (*number, true, parts),
                _ => return None,
            };
            let parts = parts.iter().map(|region| region.map(|region| self.part(region, block))).collect();
            Some(Needed { number, value, parts })
        };
        self.inputs.iter().filter_map(needed).collect()
    }

    /// The parameters: the arrays that it needs, and then numbers.
    pub fn signature(&self) -> &Signature {
        self.kernel.signature()
    }

    /// Computes a block from the arrays that it [needs](Stage::needs).
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call_with`].
    pub fn call(
        &self,
        arrays: &[ArrayRef<'_>],
        block: &Block<'_>,
        options: &CallOptions<'_>,
    ) -> Result<Vec<Array>, RunError> {
        let number = |input: &Taken| match input {
            Taken::Param(..) | Taken::Value(..) => None,
            Taken::Symbol(symbol) => Some(block.sizes.get(symbol.as_u32() as usize).copied().unwrap_or(0)),
            Taken::Start(region) => Some(self.part(*region, block).0),
            Taken::Length(region) => {
                let (start, end) = self.part(*region, block);
                Some(end - start)
            }
            Taken::PieceStart => Some(block.piece.0),
            Taken::PieceLength => Some(block.piece.1),
        };
        let numbers: Vec<i64> = self.inputs.iter().filter_map(number).collect();
        let inputs = arrays.iter().map(|array| array as &dyn Input);
        let inputs: Vec<&dyn Input> = inputs.chain(numbers.iter().map(|number| number as &dyn Input)).collect();
        self.kernel.call_with(&inputs[..], options)
    }
}

/// The value of a size where size names have these values.
fn value_of(size: &Size, sizes: &[i64]) -> i64 {
    size.wrapping(&|symbol| sizes.get(symbol.as_u32() as usize).copied().unwrap_or(0))
}
