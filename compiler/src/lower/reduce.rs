//! Scans and contractions: the operations with a special form of kernel.

use ir::checked::{Checked, ExprId, IndexId, Prefix};
use ir::nest::{Buffer, BufferId, Loop, LoopKind, Op, Prologue, Statement};
use ir::sabotage::{self, Bug};
use ir::{Affine, CompareOp, Dtype, Monoid, Order, ReduceOp, Scalar, nest, visit};

use super::operand::Element;
use super::{LowerError, Lowering};

impl Lowering<'_> {
    /// All the prefixes of a row in one pass. The temporary has an axis for the index that bounds
    /// the prefix, and one for each other free index. In an exclusive scan, element `k + 1` gets
    /// the prefix that ends with `k`, and the first one the identity.
    pub fn scan(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        op: ReduceOp,
        over: &[IndexId],
        body: ExprId,
        prefix: Prefix,
    ) -> Result<BufferId, LowerError> {
        let free = self.known.facts.free(id).clone();
        let others: Vec<IndexId> = free.iter().copied().filter(|i| *i != prefix.of).collect();
        let [running] = over else { return Err(LowerError::Malformed("a prefix over several indices")) };
        let at = |along: Affine<IndexId>| -> Vec<Affine<IndexId>> {
            free.iter().map(|i| if *i == prefix.of { along.clone() } else { Affine::index(*i) }).collect()
        };
        let element = self.known.checked.exprs[body].ty.dtype;
        let length = self.known.facts.size(prefix.of)?;
        self.kernel(id, buffer, |k, buffer| {
            k.parallel(&others, |k| {
                // The first prefix is the identity, but a row without elements has no place for it.
                if !prefix.inclusive {
                    let (length, one) = (k.op(Op::Affine(Affine::size(length)))?, k.op(Op::Constant(Scalar::I64(1)))?);
                    let condition = k.op(Op::Compare(CompareOp::Ge, length, one))?;
                    k.open(Checked::TOP)?;
                    let nothing = k.op(Op::Constant(identity(op, element)))?;
                    k.store(buffer, &at(Affine::constant(0)), nothing)?;
                    let then = k.close();
                    k.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
                }
                let dims = k.bind_box(&[*running])?;
                k.open(Checked::TOP)?;
                let value = k.compute(body)?;
                let state = k.state(op, value)?;
                let value =
                    k.op(Op::Prefix(nest::Prefix { merge: state.merge, inputs: state.inputs, field: state.result }))?;
                let shift = Affine::constant(if prefix.inclusive || sabotage::on(Bug::InclusiveScan) { 0 } else { 1 });
                k.store(buffer, &at(Affine::index(*running).add(&shift)), value)?;
                let body = k.close();
                k.push(Statement::Loop(Loop { dims, kind: LoopKind::Scan, body }));
                Ok(())
            })
        })
    }

    /// A contraction kept as one statement: a prologue for each factor, the sum, a store.
    pub fn contraction(
        &mut self,
        id: ExprId,
        buffer: Buffer,
        over: &[IndexId],
        factors: [ExprId; 2],
    ) -> Result<Element, LowerError> {
        let free = self.known.facts.free(id).clone();
        self.element(id, buffer, &free, |k, buffer| {
            k.stay_inside();
            let outer = k.bind_box(&free)?;
            let inner = k.bind_box(over)?;
            let [left, right] = factors.map(|factor| {
                k.open(Checked::TOP)?;
                let value = k.compute(factor)?;
                Ok(Prologue { body: k.close(), value })
            });
            let factors = [left?, right?];
            let order = inner.last().map_or(Order::Lanes, |(last, _)| order_along(&factors, *last));
            let at = outer.iter().map(|(i, _)| nest::Subscript::index(*i)).collect();
            k.builder().contract(outer, (inner, order), factors, |b, sum| b.store(buffer, at, sum));
            Ok(())
        })
    }
}

/// The order of the sum of a contraction: that of a reduction with the same accesses. Of those that
/// mention the last index summed over, the ones with the most subscripts decide.
fn order_along(factors: &[Prologue; 2], last: nest::IndexId) -> Order {
    let (mut most, mut order) = (0, Order::Lanes);
    for factor in factors {
        visit::for_each_statement(&factor.body, &mut |statement| {
            for access in statement.effects().accesses() {
                let mentions = |at: &nest::Subscript| match at {
                    nest::Subscript::Affine(affine) => !affine.coefficient(last).is_zero(),
                    nest::Subscript::Value(_) => false,
                };
                let count = access.at.len();
                if count >= most && access.at.iter().any(mentions) {
                    let along = access.at.last().is_some_and(mentions);
                    let others = if count > most { Order::Blocks } else { order };
                    (most, order) = (count, if along { Order::Lanes } else { others });
                }
            }
        });
    }
    order
}

/// The reduction of no elements; the position in no elements is 0.
fn identity(op: ReduceOp, element: Dtype) -> Scalar {
    match op {
        ReduceOp::Monoid(Monoid::Prod) if sabotage::on(Bug::PrefixOfNothing) => Scalar::zero(element),
        ReduceOp::Monoid(monoid) => monoid.identity(element),
        ReduceOp::Position(_) => Scalar::I64(0),
    }
}
