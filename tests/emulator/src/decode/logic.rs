//! Bits, comparisons, choices and the logic of predicates.

use crate::decode::{Form, known};
use crate::lanes::compare::compare;
use crate::lanes::{Compare, Map, bits};
use crate::op::{Logic, Op};
use crate::parse::Operand;
use crate::types::{Condition, Pred, Type};

/// Bits of one type in and out.
fn words(form: &mut Form<'_, '_, '_>, ty: Type, map: Option<Map>, sources: usize) -> Result<Op, String> {
    let map = known(map, ty)?;
    form.map(map, ty, &[ty; 4][..sources])
}

/// `and`, `or`, `xor`, of bits or of predicates.
fn binary(form: &mut Form<'_, '_, '_>, how: Logic, map: fn(Type) -> Option<Map>) -> Result<Op, String> {
    match form.ty()? {
        Type::Pred => Ok(Op::Logic { how, d: form.pred_dest()?, a: form.condition()?, b: form.condition()? }),
        ty => words(form, ty, map(ty), 2),
    }
}

pub(super) fn and(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    binary(form, Logic::And, bits::and)
}

pub(super) fn or(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    binary(form, Logic::Or, bits::or)
}

pub(super) fn xor(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    binary(form, Logic::Xor, bits::xor)
}

pub(super) fn not(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    match form.ty()? {
        Type::Pred => {
            let (d, a) = (form.pred_dest()?, form.condition()?);
            Ok(copy(d, Condition { negated: !a.negated, ..a }))
        }
        ty => words(form, ty, bits::not(ty), 1),
    }
}

/// A predicate from a condition.
pub(super) fn copy(d: Pred, a: Condition) -> Op {
    Op::Logic { how: Logic::Or, d, a, b: a }
}

pub(super) fn cnot(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    words(form, ty, bits::cnot(ty), 1)
}

/// Amounts are of 32 bits, whatever is shifted.
fn shift(form: &mut Form<'_, '_, '_>, map: fn(Type) -> Option<Map>) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(map(ty), ty)?;
    form.map(map, ty, &[ty, Type::U32])
}

pub(super) fn shl(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    shift(form, bits::shl)
}

pub(super) fn shr(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    shift(form, bits::shr)
}

pub(super) fn shf(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let left = form.choose(&[("l", true), ("r", false)])?;
    let wrap = form.choose(&[("wrap", true), ("clamp", false)])?;
    form.choose(&[("b32", ())])?;
    let map = if left { bits::shf_left(wrap) } else { bits::shf_right(wrap) };
    form.map(map, Type::B32, &[Type::B32, Type::B32, Type::U32])
}

/// A count, of 32 bits.
fn count(form: &mut Form<'_, '_, '_>, map: fn(Type) -> Option<Map>) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(map(ty), ty)?;
    form.map(map, Type::U32, &[ty])
}

pub(super) fn popc(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    count(form, bits::popc)
}

pub(super) fn clz(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    count(form, bits::clz)
}

pub(super) fn bfind(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let shift = form.flag("shiftamt");
    count(form, if shift { bits::bfind_shift } else { bits::bfind })
}

pub(super) fn brev(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    words(form, ty, bits::brev(ty), 1)
}

pub(super) fn bfe(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(bits::bfe(ty), ty)?;
    form.map(map, ty, &[ty, Type::U32, Type::U32])
}

pub(super) fn bfi(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(bits::bfi(ty), ty)?;
    form.map(map, ty, &[ty, ty, Type::U32, Type::U32])
}

pub(super) fn prmt(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("b32", ())])?;
    form.map(bits::prmt(), Type::B32, &[Type::B32; 3])
}

pub(super) fn lop3(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("b32", ())])?;
    let table = match form.operands {
        [.., Operand::Integer(table @ 0..=255)] => *table as u64,
        _ => return Err("a table of eight bits expected".into()),
    };
    let op = form.map(bits::lop3(), Type::B32, &[Type::B32; 3])?;
    form.operand()?;
    match op {
        Op::Map { map, d, from: [a, b, c, _] } => Ok(Op::Map { map, d, from: [a, b, c, form.constant(table)] }),
        other => Ok(other),
    }
}

/// The comparison and the logic at the beginning of `set` and `setp`; the type follows.
fn head<'t>(form: &mut Form<'_, '_, 't>) -> Result<(&'t str, Option<Logic>), String> {
    let name = form.modifier()?;
    Ok((name, form.pick(&[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)])))
}

fn comparison(form: &Form<'_, '_, '_>, name: &str, ty: Type) -> Result<Compare, String> {
    if ty == Type::Bf16 {
        form.since(90, ty)?;
    }
    compare(name, ty).ok_or_else(|| format!("no comparison `.{name}` of `.{}`", ty.name()))
}

fn combined(form: &mut Form<'_, '_, '_>, logic: Option<Logic>) -> Result<Option<(Logic, Condition)>, String> {
    logic.map(|logic| Ok((logic, form.condition()?))).transpose()
}

pub(super) fn setp(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let (name, logic) = head(form)?;
    let ty = form.ty()?;
    let how = comparison(form, name, ty)?;
    let (p, q) = match *form.operand()? {
        Operand::Name(p) => (form.pred(p)?, None),
        Operand::Pair(p, q) => (form.pred(p)?, Some(form.pred(q)?)),
        ref other => return Err(format!("a predicate expected, not `{other:?}`")),
    };
    Ok(Op::Compare { how, p, q, a: form.source(ty)?, b: form.source(ty)?, combine: combined(form, logic)? })
}

pub(super) fn set(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let (name, logic) = head(form)?;
    let to = form.ty()?;
    let yes = match to {
        Type::U32 | Type::S32 => u64::from(u32::MAX),
        Type::F32 => u64::from(1f32.to_bits()),
        _ => return Err(format!("no result of type `.{}`", to.name())),
    };
    let ty = form.ty()?;
    if to == Type::F32 && matches!(ty, Type::F16 | Type::Bf16) {
        return Err(format!("no result of type `.f32` of `.{}`", ty.name()));
    }
    let how = comparison(form, name, ty)?;
    let (d, a, b) = (form.dest(to)?, form.source(ty)?, form.source(ty)?);
    Ok(Op::Set { how, d, a, b, combine: combined(form, logic)?, yes })
}

pub(super) fn selp(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    if ty.bytes() < 2 || matches!(ty, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) {
        return Err(format!("not for `.{}`", ty.name()));
    }
    Ok(Op::Select { d: form.dest(ty)?, a: form.source(ty)?, b: form.source(ty)?, p: form.condition()? })
}
