//! Takes the condition on the terms of a sum of products out of one factor. A sum over a
//! neighbourhood that ends at borders (a padded convolution, the derivative of one) leaves terms
//! out by a condition, which stands in both factors. So the factor that does not depend on where
//! the borders are, such as the weights, is another one for each place. Without the condition it is
//! the same for all, and rows of the other factor share it.
//!
//! ```text
//! contract i < n, f < m over k < 3 {     contract i < n, f < m over k < 3 {
//!   left                                   left
//!     if 1 <= i + k { %x[i + k - 1] }        if 1 <= i + k { %x[i + k - 1] }
//!     else { 0 }                             else { 0 }
//!   right                          ->      right
//!     if 1 <= i + k { %w[k, f] }             %w[k, f]
//!     else { 0 }
//!   epilogue                               epilogue
//!     store %y[i, f], sum                    if sum != sum { sum = the sum before }
//!                                            store %y[i, f], sum
//! }                                      }
//! ```
//!
//! A term that is left out is now 0 times the other factor, which is 0 again unless that is
//! infinite or NaN. Then the sum is NaN, and is computed once more, term by term.

use std::collections::{BTreeMap, BTreeSet};

use ir::build::Values;
use ir::choice::Choice;
use ir::nest::{Contraction, IndexId, Kernel, Op, Program, Prologue, Statement, ValueId};
use ir::rewrite::{Copier, Inside, erase_unused, replace, replace_values};
use ir::sabotage::{self, Bug};
use ir::sched::{Contractions, Scheduled};
use ir::{BinaryOp, CompareOp, Dtype, Scalar, visit};

use crate::maker::{Maker, needed};
use crate::prepare::expand;

/// Takes conditions out of factors of the contractions that the target keeps whole.
pub fn masks(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { machine, program, parts, .. } = scheduled;
    for kernel in parts.iter_mut().map(|part| &mut part.kernel) {
        let original = kernel.clone();
        let defined = Defined::new(&original);
        let mut body = std::mem::take(&mut kernel.body);
        replace(&mut body, &mut |statement, out| {
            if let Statement::Contract(c) = &statement
                && let Some(apart) = apart(program, kernel, &defined, machine.contractions, c)
                && choice.grants(true)
            {
                out.push(Statement::Contract(with_repair(program, kernel, &original, c, apart)));
            } else {
                out.push(statement);
            }
        });
        kernel.body = body;
        erase_unused(&mut kernel.body);
    }
}

/// A factor that is 0 unless conditions hold.
struct Masked {
    conditions: BTreeSet<ValueId>,
    /// The factor where they hold.
    factor: Prologue,
    zero: ValueId,
}

/// The contraction with a condition taken out of a factor, if one is in both of them and makes one
/// depend on an index that it does not depend on otherwise.
fn apart(
    program: &mut Program,
    kernel: &mut Kernel,
    defined: &Defined<'_>,
    kept: Contractions,
    c: &Contraction,
) -> Option<Contraction> {
    let masked = [defined.masked(&c.left)?, defined.masked(&c.right)?];
    let is_shared = |side: usize, condition: ValueId| {
        masked[1 - side].conditions.iter().any(|other| defined.same(condition, *other))
    };
    // The indices that each factor depends on by itself.
    let own = [0, 1].map(|side| {
        let Masked { conditions, factor, .. } = &masked[side];
        let others = conditions.iter().copied().filter(|condition| !is_shared(side, *condition));
        let wanted: Vec<ValueId> = others.chain([factor.value]).collect();
        visit::free_indices(&needed(&factor.body, |_| false, &wanted, &[]))
    });
    let adds = |side: usize, condition: ValueId| {
        let mut indices = defined.indices(condition);
        indices.retain(|index| c.reduce.iter().all(|(reduced, _)| reduced != index));
        !indices.is_subset(&own[side])
    };
    let goes = |side: usize, condition: ValueId| {
        is_shared(side, condition) && adds(side, condition) && !adds(1 - side, condition)
    };
    let mut rewritten = c.clone();
    let mut changed = false;
    for (side, masked) in masked.iter().enumerate() {
        let (gone, stay): (Vec<ValueId>, Vec<ValueId>) =
            masked.conditions.iter().partition(|condition| goes(side, **condition));
        if gone.is_empty() || !is_safe(program, c, &masked.factor) {
            continue;
        }
        let mut maker = Maker { program: &mut *program, kernel: &mut *kernel };
        let mut factor = masked.factor.clone();
        if let Some(condition) =
            stay.into_iter().reduce(|a, b| maker.define(&mut factor.body, Op::Binary(BinaryOp::And, a, b)))
        {
            factor.value = maker.define(&mut factor.body, Op::Select(condition, factor.value, masked.zero));
        }
        factor.body = needed(&factor.body, |_| false, &[factor.value], &[]);
        *[&mut rewritten.left, &mut rewritten.right][side] = factor;
        changed = true;
    }
    (changed && kept.keep(&kernel.values, &rewritten)).then_some(rewritten)
}

/// Whether a factor may be computed for all indices of a contraction.
fn is_safe(program: &Program, c: &Contraction, factor: &Prologue) -> bool {
    let empty = |value: ValueId| Prologue { body: vec![], value };
    let alone = Contraction { left: empty(factor.value), right: factor.clone(), epilogue: vec![], ..c.clone() };
    let mut safe = !factor.body.iter().any(Statement::may_fault);
    Inside::new(program).each_leaning(&Statement::Contract(alone), &mut |_, _| safe = false);
    safe
}

/// A contraction that computes a sum again, as the original says, if it is NaN.
fn with_repair(
    program: &Program,
    kernel: &mut Kernel,
    from: &Kernel,
    original: &Contraction,
    mut c: Contraction,
) -> Contraction {
    let dtype = kernel.values[c.result];
    if !dtype.is_float() || sabotage::on(Bug::SpoiledSum) {
        return c;
    }
    let alone = Contraction { free: vec![], epilogue: vec![], ..original.clone() };
    let mut from = from.clone();
    let serial = expand(&mut from.values, alone);
    let mut again = vec![];
    let mut copier = Copier::new(program, &from, kernel);
    copier.copy(&serial, &mut again);
    let sum = copier.value(original.result);
    let (wrong, result) = (kernel.values.push(Dtype::Bool), kernel.values.push(dtype));
    replace_values(&mut c.epilogue, &BTreeMap::from([(c.result, result)]));
    let repair = [
        Statement::Let { value: wrong, op: Op::Compare(CompareOp::Ne, c.result, c.result) },
        Statement::If { condition: wrong, then: again, otherwise: vec![], results: vec![(result, sum, c.result)] },
    ];
    c.epilogue.splice(0..0, repair);
    c
}

/// The operations of a kernel, by the values that they define.
struct Defined<'k> {
    ops: BTreeMap<ValueId, &'k Op>,
    dtypes: &'k Values,
}

impl<'k> Defined<'k> {
    fn new(kernel: &'k Kernel) -> Defined<'k> {
        let mut ops = BTreeMap::new();
        visit::for_each_op(&kernel.body, &mut |value, op| _ = ops.insert(value, op));
        Defined { ops, dtypes: &kernel.values }
    }

    /// The factor as one under conditions, if it is 0 where they do not hold.
    fn masked(&self, p: &Prologue) -> Option<Masked> {
        let is_last = |s: &Statement| {
            let mut defines = false;
            visit::for_each_definition(s, &mut |value| defines |= value == p.value);
            defines
        };
        let at = p.body.iter().position(is_last)?;
        let mut body = p.body[..at].to_vec();
        let (condition, value, zero) = match &p.body[at] {
            Statement::Let { op: Op::Select(condition, value, zero), .. } => (*condition, *value, *zero),
            Statement::If { condition, then, results, .. } => {
                let (_, value, zero) = results.iter().find(|(result, _, _)| *result == p.value)?;
                body.extend(then.iter().cloned());
                (*condition, *value, *zero)
            }
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => return None,
        };
        let dtype = self.dtypes[zero];
        let conditions = self.conjuncts(condition);
        self.is(zero, Scalar::zero(dtype)).then_some(Masked { conditions, factor: Prologue { body, value }, zero })
    }

    fn is(&self, value: ValueId, constant: Scalar) -> bool {
        matches!(self.ops.get(&value), Some(Op::Constant(c)) if *c == constant)
    }

    /// The conditions that hold together if this one does.
    fn conjuncts(&self, condition: ValueId) -> BTreeSet<ValueId> {
        let (mut conjuncts, mut open, mut seen) = (BTreeSet::new(), vec![condition], BTreeSet::new());
        while let Some(condition) = open.pop() {
            match self.ops.get(&condition) {
                _ if !seen.insert(condition) => {}
                Some(Op::Binary(BinaryOp::And, a, b)) => open.extend([*a, *b]),
                Some(Op::Select(a, b, never)) if self.is(*never, Scalar::Bool(false)) => open.extend([*a, *b]),
                _ => _ = conjuncts.insert(condition),
            }
        }
        conjuncts
    }

    /// Whether two values are the same expression.
    fn same(&self, a: ValueId, b: ValueId) -> bool {
        let (mut open, mut seen) = (vec![(a, b)], BTreeSet::new());
        while let Some((a, b)) = open.pop() {
            if a == b || !seen.insert((a, b)) {
                continue;
            }
            let Some((first, second)) = self.ops.get(&a).zip(self.ops.get(&b)) else { return false };
            let [of_first, of_second] = [first, second].map(|op| operands(op));
            let mut renamed = (*second).clone();
            let mut names = of_first.iter();
            renamed.for_each_operand_mut(|value| *value = names.next().copied().unwrap_or(*value));
            if of_first.len() != of_second.len() || renamed != **first {
                return false;
            }
            open.extend(of_first.into_iter().zip(of_second));
        }
        true
    }

    /// The indices that a value depends on.
    fn indices(&self, value: ValueId) -> BTreeSet<IndexId> {
        let (mut indices, mut open, mut seen) = (BTreeSet::new(), vec![value], BTreeSet::new());
        while let Some(value) = open.pop() {
            if let Some(op) = self.ops.get(&value)
                && seen.insert(value)
            {
                open.extend(operands(op));
                op.for_each_affine(&mut |affine| indices.extend(affine.terms().iter().map(|(index, _)| *index)));
            }
        }
        indices
    }
}

fn operands(op: &Op) -> Vec<ValueId> {
    let mut operands = vec![];
    op.for_each_operand(|value| operands.push(value));
    operands
}
