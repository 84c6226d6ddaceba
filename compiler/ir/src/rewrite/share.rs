//! Common subexpression elimination by value numbering over a kernel: a definition replaces equal
//! ones later in its block and in nested blocks.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;

use super::equal::Equality;
use super::replace::for_each_use_mut;
use crate::Order;
use crate::nest::{Block, Input, Kernel, Loop, LoopKind, Merge, Op, Reduction, Statement, ValueId};
use crate::visit::for_each_definition;

/// Replaces each definition by an equal earlier one that is visible: operations, loads, checks, and
/// branches, reductions and `while`s that only compute. Branches or reductions that differ only in
/// their results become one, with the results of all. Returns the number of definitions and
/// statements removed.
pub fn share(kernel: &mut Kernel) -> usize {
    let mut finder = Finder::default();
    finder.before.resize(kernel.values.len());
    finder.block(&kernel.body);
    let Finder { equality, inner, count, .. } = finder;
    if count > 0 {
        Rewriter { equality, inner: inner.into_iter() }.block(&mut kernel.body);
    }
    count
}

/// A definition that represents others.
#[derive(Clone, Copy)]
enum First<'k> {
    Op(ValueId, &'k Op),
    Inner(Kept<'k>),
}

/// A branch, reduction or `while` that stays.
#[derive(Clone, Copy)]
struct Kept<'k> {
    number: usize,
    statement: &'k Statement,
    /// The number of values defined up to its end.
    end: u32,
}

/// How a result of a branch, reduction or `while` is computed.
#[derive(Clone, PartialEq, Eq)]
enum Gives {
    Joined(ValueId, ValueId),
    /// A value of the state of a reduction. Those of one reduction are consecutive.
    Reduced {
        merge: Merge,
        order: Order,
        inputs: Vec<Input>,
        field: usize,
    },
    /// A value of the state of a `while`.
    Carried(usize),
}

impl Gives {
    fn from(&self) -> Vec<ValueId> {
        match self {
            Gives::Joined(yes, no) => vec![*yes, *no],
            Gives::Carried(_) => vec![],
            Gives::Reduced { inputs, .. } => inputs.iter().filter_map(|input| input.value()).collect(),
        }
    }
}

/// A branch, reduction or `while` that stays, with its results, or one that is removed.
type Inner = Option<Vec<(ValueId, Gives)>>;

#[derive(Default)]
struct Finder<'k> {
    equality: Equality,
    /// The visible definitions, by hash. If two different ones collide, the first stays and the
    /// other is computed again.
    table: BTreeMap<u64, First<'k>>,
    /// The hashes in the table, in the order of insertion.
    reach: Vec<u64>,
    /// The number of values defined so far, and for each value the number of those before it.
    defined: u32,
    before: SecondaryMap<ValueId, u32>,
    /// The branches, reductions and `while`s in the order of the text, without those inside removed
    /// ones.
    inner: Vec<Inner>,
    count: usize,
}

impl<'k> Finder<'k> {
    fn block(&mut self, block: &'k Block) {
        let outside = self.reach.len();
        for statement in block {
            match statement {
                Statement::Let { value, op } => {
                    self.op(*value, op);
                    self.defines(statement);
                }
                Statement::If { .. }
                | Statement::Loop(Loop { kind: LoopKind::Reduce(_), .. })
                | Statement::While(_) => {
                    self.inner(statement);
                    self.defines(statement);
                }
                Statement::Store { .. } | Statement::Scatter { .. } | Statement::Loop(_) | Statement::Contract(_) => {
                    self.defines(statement);
                    statement.blocks().for_each(|inner| self.block(inner));
                }
            }
        }
        for hash in self.reach.drain(outside..) {
            self.table.remove(&hash);
        }
    }

    fn defines(&mut self, statement: &Statement) {
        for_each_definition(statement, &mut |value| self.define(value));
    }

    fn define(&mut self, value: ValueId) {
        self.before[value] = self.defined;
        self.defined += 1;
    }

    fn op(&mut self, value: ValueId, op: &'k Op) {
        let hash = self.equality.hash_of_op(op);
        match self.table.get(&hash) {
            Some(First::Op(first, other)) if self.equality.same_op(op, other) => {
                self.equality.learn(value, *first);
                self.count += 1;
            }
            Some(_) => {}
            None => self.reaches(hash, First::Op(value, op)),
        }
    }

    fn inner(&mut self, statement: &'k Statement) {
        let number = self.inner.len();
        self.inner.push(None);
        let hash = self.equality.hash_of(statement);
        if let Some(First::Inner(first)) = hash.and_then(|hash| self.table.get(&hash)).copied() {
            let mut more = vec![];
            let same = self.equality.compare(first.statement, statement, |name| more = results(statement, name));
            // Its results must not depend on statements after the first one.
            if same && more.iter().flat_map(|(_, gives)| gives.from()).all(|value| self.before[value] < first.end) {
                self.count += 1;
                return self.give(first.number, more);
            }
        }
        // The values that a `while` carries are not defined before it.
        if let Statement::While(w) = statement {
            w.state.iter().for_each(|state| self.define(state.current));
        }
        statement.blocks().for_each(|inner| self.block(inner));
        let own = results(statement, &|value| self.equality.of(value));
        self.inner[number] = Some(vec![]);
        self.give(number, own);
        if let Some(hash) = hash.filter(|hash| !self.table.contains_key(hash)) {
            self.reaches(hash, First::Inner(Kept { number, statement, end: self.defined }));
        }
    }

    fn reaches(&mut self, hash: u64, first: First<'k>) {
        self.table.insert(hash, first);
        self.reach.push(hash);
    }

    /// Makes a branch, reduction or `while` produce results, each kind once.
    fn give(&mut self, number: usize, results: Vec<(ValueId, Gives)>) {
        let Some(given) = &mut self.inner[number] else { return };
        for (result, gives) in results {
            match given.iter().find(|(_, known)| *known == gives) {
                Some((known, _)) => {
                    self.equality.learn(result, *known);
                    self.count += 1;
                }
                None => given.push((result, gives)),
            }
        }
    }
}

/// The results of a branch, reduction or `while`, computed from values as `name` maps them.
fn results(statement: &Statement, name: &dyn Fn(ValueId) -> ValueId) -> Vec<(ValueId, Gives)> {
    match statement {
        Statement::If { results, .. } => {
            results.iter().map(|(result, yes, no)| (*result, Gives::Joined(name(*yes), name(*no)))).collect()
        }
        Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }) => {
            let reduced = |r: &Reduction| {
                let inputs: Vec<Input> = r.inputs.iter().map(|input| input.map(name)).collect();
                let gives = |field| Gives::Reduced { merge: r.merge, order: r.order, inputs: inputs.clone(), field };
                r.results.iter().enumerate().map(|(field, v)| (*v, gives(field))).collect::<Vec<_>>()
            };
            reductions.iter().flat_map(reduced).collect()
        }
        Statement::While(w) => w.state.iter().enumerate().map(|(k, s)| (s.result, Gives::Carried(k))).collect(),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::Loop(_)
        | Statement::Contract(_) => vec![],
    }
}

/// Applies the finder's results to the kernel, in the same order.
struct Rewriter {
    equality: Equality,
    inner: std::vec::IntoIter<Inner>,
}

impl Rewriter {
    fn block(&mut self, block: &mut Block) {
        block.retain_mut(|statement| self.keep(statement));
    }

    fn keep(&mut self, statement: &mut Statement) -> bool {
        match statement {
            Statement::Let { value, .. } if self.equality.of(*value) != *value => return false,
            Statement::If { results, .. } => {
                let Some(given) = self.inner.next().flatten() else { return false };
                let joined = |(result, gives)| match gives {
                    Gives::Joined(yes, no) => Some((result, yes, no)),
                    Gives::Reduced { .. } | Gives::Carried(_) => None,
                };
                *results = given.into_iter().filter_map(joined).collect();
            }
            Statement::Loop(Loop { kind: LoopKind::Reduce(reductions), .. }) => {
                let Some(given) = self.inner.next().flatten() else { return false };
                reductions.clear();
                for (result, gives) in given {
                    match (gives, reductions.last_mut()) {
                        (Gives::Reduced { field: 1.., .. }, Some(last)) => last.results.push(result),
                        (Gives::Reduced { merge, order, inputs, .. }, _) => {
                            reductions.push(Reduction { results: vec![result], merge, order, inputs });
                        }
                        (Gives::Joined(..) | Gives::Carried(_), _) => {}
                    }
                }
            }
            Statement::While(_) if self.inner.next().flatten().is_none() => return false,
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
        for_each_use_mut(statement, &mut |value| *value = self.equality.of(*value));
        for inner in statement.blocks_mut() {
            self.block(inner);
        }
        true
    }
}
