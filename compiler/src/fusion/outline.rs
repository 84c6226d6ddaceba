//! The outline of a statement: its relations to the statements around it, for the rules of fusing
//! loops.

use std::collections::BTreeMap;

use cranelift_entity::EntitySet;
use ir::nest::{BufferId, IndexId, Program, Statement, Subscript, ValueId};
use ir::{Affine, Size, visit};

use super::form::extents;

/// How a statement accesses a buffer.
pub(super) struct Access {
    /// For each axis, the affine subscript that all accesses have there.
    pub axes: Vec<Option<Affine<IndexId>>>,
    /// The subscripts, if all accesses have the same.
    pub same: Option<Vec<Subscript>>,
    /// Whether each stands directly in the loop's body.
    pub direct: bool,
}

/// The relations of a statement to those around it.
#[derive(Default)]
pub(super) struct Outline {
    /// The values that it defines for those after it.
    pub defines: Vec<ValueId>,
    /// The values from outside that it uses.
    pub uses: Vec<ValueId>,
    pub loads: BTreeMap<BufferId, Access>,
    pub stores: BTreeMap<BufferId, Access>,
    /// The extents of the indices that it binds, if they are sizes.
    pub extents: BTreeMap<IndexId, Size>,
    /// Whether it is a check.
    pub checks: bool,
    /// Whether it has a load that may be out of bounds if an earlier check fails.
    pub leans: bool,
}

/// Whether a statement is a check.
pub(super) fn is_check(statement: &Statement) -> bool {
    statement.effects().may_fault
}

impl Outline {
    /// The outline of a statement of a kernel of this program; `leans` is left open.
    pub fn of(program: &Program, statement: &Statement) -> Outline {
        let extents = extents(std::slice::from_ref(statement));
        let mut outline = Outline { checks: is_check(statement), extents, ..Outline::default() };
        outline.look(program, statement, 0);
        visit::for_each_definition(statement, &mut |value| outline.defines.push(value));
        let mut inside = EntitySet::new();
        for block in statement.blocks() {
            visit::for_each_statement(block, &mut |s| visit::for_each_definition(s, &mut |v| _ = inside.insert(v)));
        }
        if let Statement::Contract(c) = statement {
            inside.insert(c.result);
        }
        outline.uses.retain(|value| !inside.contains(*value));
        outline
    }

    fn look(&mut self, program: &Program, statement: &Statement, depth: usize) {
        visit::for_each_use(statement, &mut |value| self.uses.push(value));
        let effects = statement.effects();
        if let Some(load) = effects.load {
            let plain = load.view.is_none_or(|view| *view == program.buffers[load.buffer].shape);
            note(&mut self.loads, load.buffer, plain.then_some(load.at), depth);
        }
        if let Some(store) = effects.store {
            note(&mut self.stores, store.buffer, Some(store.at), depth);
        }
        statement.blocks().flatten().for_each(|inner| self.look(program, inner, depth + 1));
    }
}

/// Records an access. Subscripts that refer to another shape tell nothing.
fn note(accesses: &mut BTreeMap<BufferId, Access>, buffer: BufferId, at: Option<&[Subscript]>, depth: usize) {
    let affine = |s: &Subscript| if let Subscript::Affine(a) = s { Some(a.clone()) } else { None };
    match accesses.get_mut(&buffer) {
        None => {
            let axes = at.map_or(vec![], |at| at.iter().map(affine).collect());
            accesses.insert(buffer, Access { axes, same: at.map(<[_]>::to_vec), direct: depth == 1 });
        }
        Some(known) => {
            let axes = at.unwrap_or_default();
            known.axes.truncate(axes.len());
            for (known, axis) in known.axes.iter_mut().zip(axes) {
                *known = known.take().filter(|known| matches!(axis, Subscript::Affine(axis) if known == axis));
            }
            known.same = known.same.take().filter(|same| Some(same.as_slice()) == at);
            known.direct &= depth == 1;
        }
    }
}
