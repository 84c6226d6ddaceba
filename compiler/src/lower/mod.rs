//! Lowering: turns a checked program into loop nests, one kernel for each operation on data.
//!
//! It is deliberately naive: the result is what an eager framework would launch, and the baseline
//! for measuring fusion. It follows four rules.
//!
//! 1. **An expression is an operand** (`operand::Operand`) if it is an element of an existing
//!    buffer, or loads no data (indices, sizes, scalar parameters and arithmetic on them) and is
//!    recomputed wherever it is used. Moving data makes no kernel: the element `x[j, i + 1]` of an
//!    array that is an operand at each of its points is again an operand, by substitution. Every
//!    other operation gets a kernel: a parallel loop over its free indices that loads its operands,
//!    does one thing, and stores a temporary with an axis for each free index.
//! 2. **Some expressions cannot be computed on their own** (`facts::Facts::apart`): those under an
//!    `if` that guards an access, those that mention an index with an extent that depends on
//!    another index or on data, and the factors of a contraction over terms under a condition. They
//!    are emitted within the kernel of the nearest enclosing operation that can.
//! 3. **A statement goes to the outermost block** of its kernel where its indices are bound and its
//!    guard holds (`emit::Emitter`). So a value that is used twice is computed once, in whichever
//!    blocks the uses are.
//! 4. **Equal kernels are merged** (`Lowering::kernel`): an expression that the source repeats, as
//!    in `(x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2))`, is computed once. So are those that only
//!    differ in the order of their axes.
//!
//! By rules 1 and 3 an expression is evaluated once for each setting of the indices that it
//! mentions, whether or not the loops over other indices run at all: a check in it may fail
//! although no result needs its value.
//!
//! ```text
//! facts      the indices of each expression, and whether it can be computed on its own
//! operand    expressions to operands, and the kernels that these need
//! emit       the inside of a kernel
//! recurrence kernels that complete the arrays of a recurrence
//! keyed      reductions by key, which merge elements into tables
//! reduce     scans and contractions, which have a special form of kernel
//! sort       sorts, which store elements at their places
//! turned     equal kernels with their axes in another order
//! repeat     loops whose steps run kernels
//! result     operands to output buffers
//! prune      removal of kernels that no result needs
//! symmetric  symmetric temporaries are read along their rows
//! ```

mod emit;
mod facts;
mod keyed;
mod operand;
mod prune;
mod recurrence;
mod reduce;
mod repeat;
mod result;
mod sort;
mod symmetric;
mod turned;

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ir::checked::{Checked, ExprId, IndexId, Kind, Loop, LoopId, RecurrenceId};
use ir::nest::{Buffer, BufferId, CheckKind, FunctionId, KernelId, Program, ReducerId, Role, Site, SiteId};
use ir::{Dtype, MathFn, Origin, ReduceOp, Size};

use facts::Facts;
use operand::{Lambda, Operand};

/// The most statements that one program may lower to.
pub const MAX_STATEMENTS: usize = 1_000_000;

/// Why a checked program was not lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LowerError {
    /// It needs more than [`MAX_STATEMENTS`] statements.
    TooLarge,
    /// Its `if`s and reductions nest deeper than [`ir::verify::MAX_DEPTH`].
    TooDeep,
    /// It has a loop, which stands here, of a form that no kernel computes, for a reason.
    Loop(Origin, &'static str),
    /// The checked program violates its own rules, which is a bug.
    Malformed(&'static str),
}

impl std::fmt::Display for LowerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LowerError::TooLarge => write!(f, "the program needs more than {MAX_STATEMENTS} statements"),
            LowerError::TooDeep => write!(f, "`if`s and reductions nest more than {} deep", ir::verify::MAX_DEPTH),
            LowerError::Loop(_, why) => write!(f, "no kernel computes this loop: {why}"),
            LowerError::Malformed(what) => write!(f, "the checked program has {what}"),
        }
    }
}

impl std::error::Error for LowerError {}

/// Lowers a checked program to one kernel for each operation. If there is a limit on the steps of a
/// `loop`, a check fails in the first step beyond it.
pub fn lower(checked: &Checked, max_steps: Option<u64>) -> Result<Program, LowerError> {
    let mut lowering = Lowering::new(checked, max_steps);
    // Operands come first, so the kernels are in the order in which the source computes.
    for id in checked.exprs.keys() {
        lowering.expression(id)?;
    }
    for number in 0..checked.results.len() {
        lowering.result(number)?;
    }
    let mut program = lowering.target.program;
    prune::prune(&mut program);
    symmetric::read_along_rows(&mut program);
    Ok(program)
}

/// A key that equal kernels share: the buffers that they load, and the number of values that they
/// compute.
type Likeness = (Vec<BufferId>, usize);

/// A program in the making.
struct Lowering<'a> {
    known: Known<'a>,
    target: Target,
    /// The names of buffers that are taken, each with the next free number to append.
    names: BTreeMap<String, usize>,
    /// The buffers of array literals, by type, shape and bits.
    constants: BTreeMap<(Dtype, Vec<Size>, Vec<u64>), BufferId>,
    /// The kernel that stores each temporary.
    producers: SecondaryMap<BufferId, Option<KernelId>>,
    /// The buffers of the arrays of each recurrence.
    recurrences: BTreeMap<RecurrenceId, Vec<BufferId>>,
    /// The temporaries, the kernels that store them, and whether one is worth to be read in another
    /// order of its axes.
    temporaries: BTreeMap<Likeness, Vec<(BufferId, KernelId, bool)>>,
    /// The expressions that are worth it.
    worth: SecondaryMap<ExprId, bool>,
}

/// The program to lower, and the results so far.
struct Known<'a> {
    checked: &'a Checked,
    /// The limits on the steps of loops, with the places of their checks.
    limits: SecondaryMap<LoopId, Option<(Size, SiteId)>>,
    facts: Facts,
    /// The operands that scalars became, for those that can be computed on their own.
    operands: SecondaryMap<ExprId, Option<Operand>>,
    /// The arrays that array expressions became, for those that can be computed on their own.
    lambdas: SecondaryMap<ExprId, Option<Lambda>>,
    /// The steps of the loops that are open, each with the buffer of its number if that is needed.
    steps: BTreeMap<IndexId, Option<BufferId>>,
}

/// The program that every kernel is added to.
struct Target {
    program: Program,
    functions: BTreeMap<(MathFn, Dtype), FunctionId>,
    reducers: BTreeMap<(ReduceOp, Dtype), ReducerId>,
    /// Statements so far.
    statements: usize,
}

impl Known<'_> {
    /// The reason why no kernel computes a loop, of this expression or with it in its step.
    fn misfit(&self, id: ExprId) -> LowerError {
        let expr = &self.checked.exprs[id];
        let why = match expr.kind {
            Kind::State { of, .. } | Kind::Loop { of, .. } => {
                let Loop { states, around, .. } = &self.checked.loops[of];
                let guard = states.first().map_or(expr.guard, |state| self.checked.exprs[state.current].guard);
                if !self.facts.is_open(guard) {
                    "its state has arrays, and it stands under an `if` that guards an access"
                } else if around.iter().any(|index| self.checked.steps[*index].is_none()) {
                    "its state has arrays, and each index around it ends at a step of its own"
                } else {
                    "its state has arrays, and it stands in a loop of scalars"
                }
            }
            Kind::Recurrence { .. } => "it completes a recurrence in each step, for each index around it",
            Kind::Sort { .. } => "it sorts in each step, for each index around it",
            _ => "it reduces by key in each step, for each index around it",
        };
        LowerError::Loop(expr.origin, why)
    }
}

impl<'a> Lowering<'a> {
    /// A program of inputs alone.
    fn new(checked: &'a Checked, max_steps: Option<u64>) -> Lowering<'a> {
        let mut program = Program {
            name: checked.name.clone(),
            symbols: checked.symbols.clone(),
            sites: checked.sites.clone(),
            requires: checked.requires.clone(),
            ..Program::default()
        };
        let mut names: BTreeMap<String, usize> = checked.results.iter().map(|(name, _)| (name.clone(), 1)).collect();
        for (number, param) in checked.params.iter().enumerate() {
            names.insert(param.name.clone(), 1);
            program.buffers.push(Buffer {
                name: param.name.clone(),
                dtype: param.ty.dtype,
                shape: param.ty.shape.clone(),
                role: Role::Input(number),
            });
        }
        let facts = Facts::new(checked);
        let (operands, lambdas) = (SecondaryMap::new(), SecondaryMap::new());
        let mut limits = SecondaryMap::new();
        if let Some(most) = max_steps.and_then(|most| i64::try_from(most).ok()) {
            for (of, one) in checked.loops.iter().filter(|(_, one)| one.written) {
                let origin = checked.exprs[one.states[0].next].origin;
                let site = program.sites.push(Site { origin, what: CheckKind::Steps });
                limits[of] = Some((Size::constant(most), site));
            }
        }
        let known = Known { checked, limits, facts, operands, lambdas, steps: BTreeMap::new() };
        Lowering {
            known,
            target: Target { program, functions: BTreeMap::new(), reducers: BTreeMap::new(), statements: 0 },
            names,
            constants: BTreeMap::new(),
            producers: SecondaryMap::new(),
            recurrences: BTreeMap::new(),
            temporaries: BTreeMap::new(),
            worth: turned::worth_sharing(checked),
        }
    }

    /// Lowers an expression that can be computed on its own, here. Those of a loop's step wait for
    /// the loop.
    fn expression(&mut self, id: ExprId) -> Result<(), LowerError> {
        let Known { checked, facts, operands, lambdas, steps, .. } = &self.known;
        let waits = facts.steps(id).iter().any(|step| !steps.contains_key(step));
        if !facts.reached(id) || !facts.apart(id) || waits || operands[id].is_some() || lambdas[id].is_some() {
            return Ok(());
        }
        match &checked.exprs[id].kind {
            Kind::Loop { of, .. } if facts.repeats(*of).is_some() => self.repeat(*of, id)?,
            Kind::Loop { .. } if !checked.exprs[id].ty.is_scalar() => {
                return Err(self.known.misfit(id));
            }
            _ if checked.exprs[id].ty.is_scalar() => self.known.operands[id] = Some(self.operand(id)?),
            _ => self.known.lambdas[id] = Some(self.lambda(id)?),
        }
        Ok(())
    }

    /// A new buffer, named like `name`.
    fn buffer(&mut self, name: &str, dtype: Dtype, shape: Vec<Size>, role: Role) -> BufferId {
        let name = self.unique(name);
        self.target.program.buffers.push(Buffer { name, dtype, shape, role })
    }

    /// `name` if it is free, else with a number appended.
    fn unique(&mut self, name: &str) -> String {
        let Some(next) = self.names.get_mut(name) else {
            self.names.insert(name.to_string(), 1);
            return name.to_string();
        };
        let mut k = *next;
        let mut unique = format!("{name}_{k}");
        while self.names.contains_key(&unique) {
            k += 1;
            unique = format!("{name}_{k}");
        }
        self.names.insert(name.to_string(), k + 1);
        self.names.insert(unique.clone(), 1);
        unique
    }
}
