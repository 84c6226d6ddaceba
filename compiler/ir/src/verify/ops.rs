//! The rules of operations: the types that they take, and the places where they may occur.

use super::{Checker, Code, Context, Result, Within};
use crate::build::op_dtype;
use crate::nest::{Input, Merge, Op, Statement, Subscript, ValueId};
use crate::{BinaryOp, Dtype, Monoid, UnaryOp};

/// A family of types that an operation takes.
#[derive(Clone, Copy)]
enum Takes {
    Numbers,
    Integers,
    Floats,
    BoolsAndIntegers,
    Bools,
}

impl Takes {
    /// Storage types belong to no family, because their values are only moved and cast.
    fn includes(self, dtype: Dtype) -> bool {
        let (int, float) = (dtype.is_int(), dtype.is_float());
        !dtype.is_storage()
            && match self {
                Takes::Numbers => int || float,
                Takes::Integers => int,
                Takes::Floats => float,
                Takes::BoolsAndIntegers => !float,
                Takes::Bools => dtype == Dtype::Bool,
            }
    }

    fn name(self) -> &'static str {
        match self {
            Takes::Numbers => "numbers",
            Takes::Integers => "integers",
            Takes::Floats => "floats",
            Takes::BoolsAndIntegers => "bools and integers",
            Takes::Bools => "bools",
        }
    }
}

fn unary(op: UnaryOp) -> Takes {
    match op {
        UnaryOp::Neg | UnaryOp::Abs => Takes::Numbers,
        UnaryOp::Not => Takes::BoolsAndIntegers,
        UnaryOp::Sqrt | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::Round => Takes::Floats,
    }
}

fn binary(op: BinaryOp) -> Takes {
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => Takes::Numbers,
        BinaryOp::Min | BinaryOp::Max => Takes::Numbers,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => Takes::BoolsAndIntegers,
        BinaryOp::Shl | BinaryOp::Shr => Takes::Integers,
    }
}

fn reduction(monoid: Monoid) -> Takes {
    match monoid {
        Monoid::Any | Monoid::All => Takes::Bools,
        Monoid::Sum | Monoid::Prod | Monoid::Max | Monoid::Min => Takes::Numbers,
    }
}

/// Whether an operation computes from its operands and constants alone.
fn computes(op: &Op) -> bool {
    match op {
        Op::Affine(_) | Op::Call(..) | Op::Load { .. } | Op::Check { .. } | Op::Prefix(..) | Op::Place(_) => false,
        Op::Constant(_)
        | Op::Unary(..)
        | Op::Binary(..)
        | Op::Compare(..)
        | Op::Fma(..)
        | Op::Select(..)
        | Op::Cast(..)
        | Op::Bitcast(..) => true,
    }
}

impl Checker<'_> {
    /// Checks an operation and gives its type.
    pub(super) fn op(&self, statement: &Statement, op: &Op, context: Context) -> Result<Dtype> {
        let s = Some(statement);
        match self.code {
            Code::Function if !computes(op) => {
                return self.fail(s, "a function computes from its parameters alone, without calls");
            }
            Code::Merge if !computes(op) && !matches!(op, Op::Call(..)) => {
                return self.fail(s, "a merge computes from two states alone");
            }
            Code::Kernel(_) | Code::Merge | Code::Function => {}
        }
        let mut visible = Ok(());
        op.for_each_operand(|value| {
            if visible.is_ok() {
                visible = self.used(s, value).map(|_| ());
            }
        });
        visible?;
        match op {
            Op::Constant(_) => {}
            Op::Affine(a) => self.affine(statement, a)?,
            Op::Unary(op, a) => self.takes(statement, op.name(), unary(*op), *a)?,
            Op::Binary(op, a, b) => {
                self.takes(statement, op.name(), binary(*op), *a)?;
                self.used_as(statement, *b, self.values[*a])?;
            }
            Op::Compare(op, a, b) => {
                if self.values[*a].is_storage() {
                    return self.fail(s, format!("{op} takes no {}", self.values[*a]));
                }
                self.used_as(statement, *b, self.values[*a])?;
            }
            Op::Fma(a, b, c) => {
                self.takes(statement, "fma", Takes::Floats, *a)?;
                self.used_as(statement, *b, self.values[*a])?;
                self.used_as(statement, *c, self.values[*a])?;
            }
            Op::Select(condition, a, b) => {
                self.used_as(statement, *condition, Dtype::Bool)?;
                self.used_as(statement, *b, self.values[*a])?;
            }
            Op::Cast(..) => {}
            Op::Bitcast(to, a) => {
                let from = self.values[*a];
                let halves = from.bytes() == 2 && to.bytes() == 2 && from.is_float() != to.is_float();
                if !halves {
                    self.takes(statement, "bitcast", Takes::Numbers, *a)?;
                    if !Takes::Numbers.includes(*to) || to.bytes() != from.bytes() {
                        return self.fail(s, format!("there is no bitcast from {from} to {to}"));
                    }
                }
            }
            Op::Call(function, arguments) => {
                let Some(f) = self.program.functions.get(*function) else { return self.fail(s, "no such function") };
                if f.params.len() != arguments.len() {
                    return self.fail(s, format!("@{} has {} parameters", f.name, f.params.len()));
                }
                for (param, argument) in f.params.iter().zip(arguments) {
                    self.used_as(statement, *argument, f.values[*param])?;
                }
            }
            Op::Load { buffer, view, at } => {
                let Some(buffer) = self.program.buffers.get(*buffer) else { return self.fail(s, "no such buffer") };
                for size in view.iter().flatten() {
                    self.size(statement, size)?;
                }
                self.subscripts(statement, at, view.as_ref().unwrap_or(&buffer.shape).len())?;
            }
            Op::Check { value, bound, site } => {
                self.used_as(statement, *value, Dtype::I64)?;
                self.size(statement, bound)?;
                if self.program.sites.get(*site).is_none() {
                    return self.fail(s, format!("there is no {site}"));
                }
            }
            Op::Prefix(prefix) => {
                if context.within != Within::Scan {
                    return self.fail(s, "a prefix stands directly in the body of a scan");
                }
                self.merges(statement, prefix.merge, &prefix.inputs)?;
            }
            Op::Place(by) => {
                if context.within != Within::Sort {
                    return self.fail(s, "a place stands directly in the body of a sort");
                }
                self.takes(statement, "a sort", Takes::Numbers, *by)?;
            }
        }
        match op_dtype(self.program, self.values, op) {
            Some(dtype) => Ok(dtype),
            None => self.fail(s, "it mentions what is not there"),
        }
    }

    fn takes(&self, statement: &Statement, op: &str, family: Takes, value: ValueId) -> Result {
        let dtype = self.values[value];
        if family.includes(dtype) {
            return Ok(());
        }
        self.fail(Some(statement), format!("{op} takes {}, {value} is {dtype}", family.name()))
    }

    /// Checks that a reduction accepts states of these inputs, which need no longer be visible;
    /// returns whether the order of its elements matters.
    pub(super) fn merges(&self, statement: &Statement, merge: Merge, inputs: &[Input]) -> Result<bool> {
        let s = Some(statement);
        match merge {
            Merge::Monoid(monoid) => {
                let [Input::Value(value)] = inputs else {
                    return self.fail(s, format!("{monoid} takes one value"));
                };
                self.takes(statement, monoid.name(), reduction(monoid), *value)?;
                Ok(monoid.depends_on_order(self.values[*value]))
            }
            Merge::Reducer(id) => {
                let Some(reducer) = self.program.reducers.get(id) else { return self.fail(s, "no such reducer") };
                if inputs.len() != reducer.identity.len() {
                    return self
                        .fail(s, format!("the state of @{} has {} values", reducer.name, reducer.identity.len()));
                }
                for (input, dtype) in inputs.iter().zip(reducer.state()) {
                    match input {
                        Input::Value(value) => self.state_type(s, *value, dtype)?,
                        Input::Number if dtype == Dtype::I64 => {}
                        Input::Number => return self.fail(s, format!("a number is i64, the state has {dtype}")),
                    }
                }
                Ok(reducer.law.depends_on_order())
            }
        }
    }

    /// Checks that a value has the type of a position in a state.
    pub(super) fn state_type(&self, statement: Option<&Statement>, value: ValueId, dtype: Dtype) -> Result {
        match self.values[value] {
            found if found == dtype => Ok(()),
            found => self.fail(statement, format!("{value} is {found}, the state has {dtype}")),
        }
    }

    /// Checks that a contraction accepts factors of the type of `value`.
    pub(super) fn contracts(&self, statement: &Statement, value: ValueId) -> Result {
        self.takes(statement, "a contraction", Takes::Numbers, value)
    }

    pub(super) fn subscripts(&self, statement: &Statement, at: &[Subscript], rank: usize) -> Result {
        if at.len() != rank {
            return self.fail(Some(statement), format!("{} subscripts for {rank} axes", at.len()));
        }
        at.iter().try_for_each(|subscript| match subscript {
            Subscript::Affine(a) => self.affine(statement, a),
            Subscript::Value(v) => self.used_as(statement, *v, Dtype::I64),
        })
    }
}
