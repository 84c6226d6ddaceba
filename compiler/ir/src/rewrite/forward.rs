//! Store-to-load forwarding: uses the value that was stored instead of loading it.

use std::collections::BTreeMap;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};

use super::replace::for_each_use_mut;
use crate::nest::{Block, BufferId, Kernel, Op, Program, Statement, Subscript, ValueId};
use crate::sabotage::{self, Bug};
use crate::visit;

/// Replaces each load of an element that an earlier statement in its block, or in an enclosing
/// block, has stored under the same subscripts by the stored value. Returns the number of loads
/// replaced.
pub fn forward(program: &Program, kernel: &mut Kernel) -> usize {
    let mut loaded = EntitySet::new();
    loaded.extend(visit::loads(&kernel.body));
    if !visit::stores(&kernel.body).into_iter().any(|buffer| loaded.contains(buffer)) {
        return 0;
    }
    let (stores, values) = (BTreeMap::new(), SecondaryMap::new());
    let mut forwarder = Forwarder { program, loaded, stores, reach: vec![], values, count: 0 };
    forwarder.block(&mut kernel.body);
    forwarder.count
}

struct Forwarder<'p> {
    program: &'p Program,
    loaded: EntitySet<BufferId>,
    /// The visible stores. An element is stored once, so a store that is found is the right one.
    stores: BTreeMap<BufferId, BTreeMap<Vec<Subscript>, ValueId>>,
    /// The same, in the order they came.
    reach: Vec<(BufferId, Vec<Subscript>)>,
    /// The value that replaces each load.
    values: SecondaryMap<ValueId, PackedOption<ValueId>>,
    count: usize,
}

impl Forwarder<'_> {
    fn block(&mut self, block: &mut Block) {
        let outside = self.reach.len();
        block.retain_mut(|statement| self.keep(statement));
        for (buffer, at) in self.reach.drain(outside..) {
            if let Some(stores) = self.stores.get_mut(&buffer) {
                stores.remove(&at);
            }
        }
    }

    fn keep(&mut self, statement: &mut Statement) -> bool {
        for inner in statement.blocks_mut() {
            self.block(inner);
        }
        for_each_use_mut(statement, &mut |value| *value = self.values[*value].expand().unwrap_or(*value));
        match statement {
            Statement::Store { buffer, at, value } if self.loaded.contains(*buffer) => {
                self.stores.entry(*buffer).or_default().insert(at.clone(), *value);
                self.reach.push((*buffer, at.clone()));
            }
            Statement::Let { value, op: Op::Load { buffer, view, at } } => {
                let plain = view.as_ref().is_none_or(|view| *view == self.program.buffers[*buffer].shape);
                let stored = self.stores.get(buffer).filter(|_| plain).and_then(|stores| {
                    stores
                        .get(at.as_slice())
                        .or_else(|| stores.values().next().filter(|_| sabotage::on(Bug::ForwardedElsewhere)))
                });
                if let Some(stored) = stored {
                    self.values[*value] = (*stored).into();
                    self.count += 1;
                    return false;
                }
            }
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
        true
    }
}
