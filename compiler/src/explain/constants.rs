//! Integers and truth values of a kernel that are the same in every iteration. The readable loops
//! leave them out, because access rules produce conditions such as `0 < 1` and clamps of constants.

use cranelift_entity::SecondaryMap;
use ir::nest::{Block, Kernel, Op, Statement, ValueId};
use ir::{Arithmetic, Dtype, Scalar};

/// The values that are constants.
pub(super) type Constants = SecondaryMap<ValueId, Option<Scalar>>;

/// The constants of a kernel.
pub(super) fn of(kernel: &Kernel, arithmetic: &Arithmetic) -> Constants {
    let mut constants = Constants::new();
    block(&kernel.body, kernel, arithmetic, &mut constants);
    constants
}

fn block(statements: &Block, kernel: &Kernel, arithmetic: &Arithmetic, constants: &mut Constants) {
    for statement in statements {
        statement.blocks().for_each(|inner| block(inner, kernel, arithmetic, constants));
        match statement {
            Statement::Let { value, op } if is_whole(kernel.values[*value]) => {
                constants[*value] = constant(op, arithmetic, constants);
            }
            Statement::If { condition, results, .. } => {
                let Some(truth) = constants[*condition] else { continue };
                for (value, then, otherwise) in results {
                    constants[*value] = constants[if truth == Scalar::Bool(true) { *then } else { *otherwise }];
                }
            }
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::Loop(_)
            | Statement::While(_)
            | Statement::Contract(_) => {}
        }
    }
}

fn is_whole(dtype: Dtype) -> bool {
    dtype.is_int() || dtype == Dtype::Bool
}

fn constant(op: &Op, arithmetic: &Arithmetic, constants: &Constants) -> Option<Scalar> {
    let of = |value: &ValueId| constants[*value];
    Some(match op {
        Op::Constant(value) => *value,
        Op::Affine(a) => Scalar::I64(a.as_size()?.as_constant()?),
        Op::Unary(op, a) => (arithmetic.unary)(*op, of(a)?),
        Op::Binary(op, a, b) => (arithmetic.binary)(*op, of(a)?, of(b)?),
        Op::Compare(op, a, b) => Scalar::Bool((arithmetic.compare)(*op, of(a)?, of(b)?)),
        Op::Select(condition, a, b) => of(if of(condition)? == Scalar::Bool(true) { a } else { b })?,
        Op::Cast(to, a) => (arithmetic.cast)(*to, of(a)?),
        Op::Check { value, .. } => of(value)?,
        Op::Fma(..) | Op::Bitcast(..) | Op::Call(..) | Op::Load { .. } | Op::Prefix(..) | Op::Place(_) => return None,
    })
}
