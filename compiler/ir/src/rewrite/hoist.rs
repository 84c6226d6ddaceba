//! Hoists loop-invariant code out of its loops.

use std::collections::BTreeMap;

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};

use super::inside::{Around, Inside};
use crate::nest::{Block, BufferId, Extent, IndexId, Kernel, LoopKind, Op, Program, Statement, ValueId};
use crate::sabotage::{self, Bug};
use crate::visit::{self, for_each_own_affine, for_each_use};
use crate::{Affine, Dtype, Size, verify};

/// Moves pure computations to the outermost block in which everything that they mention is visible:
/// operations, loads from buffers that the kernel does not store to, and whole branches and
/// reductions made of these. Nothing leaves a branch. Only scalars (constants, sizes, elements of
/// arrays without axes, and computations on them) leave the kernel's outermost loop, since its
/// iterations run separately. Checks stay. Returns the number of statements moved.
///
/// A hoisted load may run even if the loops that it leaves do not, and before checks that fail. So
/// it leaves a loop that may have no iterations, or a block with a check before it, only if it is
/// in bounds even then, by the requirements of the program on its calls.
pub fn hoist(program: &Program, kernel: &mut Kernel) -> usize {
    let mut stored = EntitySet::new();
    stored.extend(visit::stores(&kernel.body));
    let Kernel { body, values: dtypes, .. } = kernel;
    let mut hoister = Hoister {
        program,
        inside: Inside::new(program),
        dtypes,
        stored,
        values: SecondaryMap::new(),
        below: BTreeMap::new(),
        indices: SecondaryMap::new(),
        around: vec![],
        open: vec![],
        floor: 0,
        moved: 0,
    };
    hoister.values.resize(dtypes.len());
    *body = hoister.block(std::mem::take(body)).statements;
    hoister.moved
}

/// Blocks by their depth: bit `d` stands for the block at depth `d`.
pub(super) type Depths = u128;

const _: () = assert!(verify::MAX_DEPTH < Depths::BITS as usize);

/// A block in the making.
#[derive(Default)]
struct Open {
    statements: Block,
    /// The depths at which the names in its statements are defined or bound.
    mentions: Depths,
    /// Whether one of its statements does more than compute.
    acts: bool,
}

struct Hoister<'a> {
    program: &'a Program,
    inside: Inside<'a>,
    dtypes: &'a PrimaryMap<ValueId, Dtype>,
    stored: EntitySet<BufferId>,
    /// The depth of the block in which a value or index is visible.
    values: SecondaryMap<ValueId, u8>,
    /// Values that are not negative, each with an upper bound (exclusive) as a size.
    below: BTreeMap<ValueId, Size>,
    indices: SecondaryMap<IndexId, u8>,
    /// The indices that enclosing loops bind, and the checks before, from the outermost in.
    around: Vec<Around>,
    /// The blocks around, from the kernel's body in.
    open: Vec<Open>,
    /// How deep the innermost branch around is.
    floor: usize,
    moved: usize,
}

impl Hoister<'_> {
    fn block(&mut self, block: Block) -> Open {
        self.open.push(Open { statements: Vec::with_capacity(block.len()), ..Open::default() });
        let before = self.around.len();
        for statement in block {
            self.statement(statement);
        }
        self.around.truncate(before);
        self.open.pop().unwrap_or_default()
    }

    fn statement(&mut self, mut statement: Statement) {
        let depth = self.open.len() - 1;
        let mut mentions = 0;
        let mut acts = self.acts(&statement);
        for (index, _) in statement.dims() {
            self.indices[*index] = depth as u8 + 1;
        }
        let bound = self.around.len();
        let dims =
            statement.dims().map(|(i, extent)| Around { depth: depth + 1, index: Some(*i), extent: extent.clone() });
        self.around.extend(dims);
        if let Statement::While(w) = &statement {
            w.state.iter().for_each(|state| self.values[state.current] = depth as u8 + 1);
            // The body may not run even if the counter has an extent above 0.
            let extent = w.condition.as_ref().map(|condition| Extent::Value(condition.value));
            self.around.extend(extent.map(|extent| Around { depth: depth + 1, index: None, extent }));
        }
        let branch = match &statement {
            Statement::If { .. } => true,
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => false,
        };
        if let Statement::Contract(c) = &statement {
            self.values[c.result] = depth as u8 + 1;
        }
        for inner in statement.blocks_mut() {
            let floor = self.floor;
            if branch {
                self.floor = if sabotage::on(Bug::HoistedGuarded) { floor } else { depth + 1 };
            }
            let done = self.block(std::mem::take(inner));
            self.floor = floor;
            mentions |= done.mentions;
            acts |= done.acts;
            *inner = done.statements;
        }
        self.around.truncate(bound);
        mentions |= self.mentions(&statement) | self.needs(&statement);
        // A name that is defined inside moves along with it.
        mentions &= (2 << depth) - 1;
        let target = if acts {
            depth
        } else {
            let deepest = mentions.checked_ilog2().unwrap_or(0) as usize;
            deepest.max(self.floor).max(usize::from(!is_scalar(&statement)).min(depth))
        };
        if let Statement::Let { value, op } = &statement {
            self.below.extend(self.range(op).map(|size| (*value, size)));
            if let Op::Check { bound, .. } = op {
                self.around.push(Around { depth, index: None, extent: Extent::Affine(Affine::size(bound.clone())) });
            }
        }
        if !matches!(statement, Statement::Contract(_)) {
            visit::for_each_definition(&statement, &mut |value| self.values[value] = target as u8);
        }
        self.moved += usize::from(target < depth);
        let early = sabotage::on(Bug::HoistedLoad) && target < depth && self.loads_stored(&statement);
        let open = &mut self.open[target];
        open.mentions |= mentions;
        open.acts |= acts;
        let at = open.statements.len().saturating_sub(usize::from(early));
        open.statements.insert(at, statement);
    }

    /// Whether a statement, without its blocks, does more than compute the same value whenever it
    /// runs.
    fn acts(&self, statement: &Statement) -> bool {
        let may_differ = self.loads_stored(statement) && !sabotage::on(Bug::HoistedLoad);
        match statement {
            Statement::Let { op: Op::Prefix(..) | Op::Place(_), .. } => true,
            Statement::Let { .. } | Statement::If { .. } => statement.effects().may_fault || may_differ,
            Statement::Loop(l) => !matches!(l.kind, LoopKind::Reduce(_)),
            Statement::While(_) => false,
            Statement::Store { .. } | Statement::Scatter { .. } | Statement::Contract(_) => true,
        }
    }

    /// Whether a statement loads what the kernel stores.
    fn loads_stored(&self, statement: &Statement) -> bool {
        statement.effects().load.is_some_and(|load| self.stored.contains(load.buffer))
    }

    /// The depths of the loops that a load must not leave.
    fn needs(&self, statement: &Statement) -> Depths {
        match statement.effects().load {
            Some(load) if !sabotage::on(Bug::HoistedOutside) => {
                let lengths = load.view.unwrap_or(&self.program.buffers[load.buffer].shape);
                self.inside.needs(lengths, load.at, &self.around, &self.below)
            }
            _ => 0,
        }
    }

    /// An exclusive upper bound of an operation's value as a size, if the value is also known not
    /// to be negative.
    fn range(&self, op: &Op) -> Option<Size> {
        if let Op::Check { bound, .. } = op {
            return Some(bound.clone());
        }
        let Op::Cast(_, a) = op else { return None };
        let (least, greatest) = self.dtypes[*a].narrow_range()?;
        (least == 0).then(|| Size::constant(i64::from(greatest) + 1))
    }

    /// Where what a statement itself mentions is visible.
    fn mentions(&self, statement: &Statement) -> Depths {
        let mut depths = 0;
        for_each_own_affine(statement, &mut |a| {
            a.terms().iter().for_each(|(i, _)| depths |= 1 << self.indices[*i]);
        });
        for_each_use(statement, &mut |value| depths |= 1 << self.values[value]);
        depths
    }
}

/// Whether a pure statement may be placed next to the outermost loop if its operands are.
fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { op, .. } => op.effects().load.is_none_or(|load| load.at.is_empty()),
        Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::Loop(_)
        | Statement::While(_)
        | Statement::Contract(_) => false,
    }
}
