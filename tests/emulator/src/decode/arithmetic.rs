//! Arithmetic of integers and floats.

use crate::decode::{Form, known};
use crate::lanes::float::Approximate;
use crate::lanes::rounding::Direction;
use crate::lanes::{Map, float, integer};
use crate::op::{Carry, Op};
use crate::types::{Class, Type};

/// Chooses the function of an operation for a type, if the operation supports the type.
type Choice = fn(Type) -> Option<Map>;

/// Integers of one type in and out.
fn integers(form: &mut Form<'_, '_, '_>, of: Choice, sources: usize) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(of(ty), ty)?;
    form.map(map, ty, &[ty; 4][..sources])
}

/// Floats of one type in and out.
fn floats(form: &mut Form<'_, '_, '_>, map: Option<Map>, ty: Type, sources: usize) -> Result<Op, String> {
    let map = known(map, ty)?;
    form.map(map, ty, &[ty; 4][..sources])
}

/// `add` and `sub`: with carry, saturating, or of floats.
fn sum(
    form: &mut Form<'_, '_, '_>,
    subtract: bool,
    integer: (Choice, Choice),
    float: fn(Type, Direction) -> Option<Map>,
) -> Result<Op, String> {
    if form.flag("cc") {
        return carry(form, subtract, false, true);
    }
    if form.flag("sat") {
        return integers(form, integer.1, 2);
    }
    let direction = form.direction();
    let ty = form.ty()?;
    brain(form, ty)?;
    let map = match (ty.class(), direction) {
        // The default direction is to nearest, although an assembler may then contract.
        (Class::Float, direction) => float(ty, direction.unwrap_or(Direction::Nearest)),
        (_, None) => integer.0(ty),
        _ => return Err("integers are not rounded".into()),
    };
    let map = known(map, ty)?;
    form.map(map, ty, &[ty, ty])
}

/// Sums and products of `.bf16` came after its `fma`.
fn brain(form: &Form<'_, '_, '_>, ty: Type) -> Result<(), String> {
    if ty == Type::Bf16 { form.since(90, ty) } else { Ok(()) }
}

pub(super) fn add(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    sum(form, false, (integer::add, integer::add_saturating), float::add)
}

pub(super) fn sub(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    sum(form, true, (integer::sub, integer::sub_saturating), float::sub)
}

pub(super) fn addc(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let gives = form.flag("cc");
    carry(form, false, true, gives)
}

pub(super) fn subc(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let gives = form.flag("cc");
    carry(form, true, true, gives)
}

fn carry(form: &mut Form<'_, '_, '_>, subtract: bool, takes: bool, gives: bool) -> Result<Op, String> {
    let ty = form.ty()?;
    if !ty.integer() || ty.bytes() < 4 {
        return Err(format!("not for `.{}`", ty.name()));
    }
    let how = Carry { subtract, takes, gives, bits: ty.bits() };
    Ok(Op::Carry { how, d: form.dest(ty)?, a: form.source(ty)?, b: form.source(ty)? })
}

/// Which part of a product is meant.
#[derive(Clone, Copy)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: &[(&str, Part)] = &[("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// The integer type of twice the width.
fn twice(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        other => other,
    }
}

pub(super) fn mul(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if let Some(part) = form.pick(PARTS) {
        let ty = form.ty()?;
        let (map, to) = match part {
            Part::Low => (integer::mul_lo(ty), ty),
            Part::High => (integer::mul_hi(ty), ty),
            Part::Wide => (integer::mul_wide(ty), twice(ty)),
        };
        let map = known(map, ty)?;
        return form.map(map, to, &[ty, ty]);
    }
    let direction = form.direction().unwrap_or(Direction::Nearest);
    let ty = form.ty()?;
    brain(form, ty)?;
    floats(form, float::mul(ty, direction), ty, 2)
}

pub(super) fn mad(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let part = form.choose(PARTS)?;
    let ty = form.ty()?;
    let (map, to) = match part {
        Part::Low => (integer::mad_lo(ty), ty),
        Part::High => (integer::mad_hi(ty), ty),
        Part::Wide => (integer::mad_wide(ty), twice(ty)),
    };
    let map = known(map, ty)?;
    form.map(map, to, &[ty, ty, to])
}

pub(super) fn fma(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let direction = form.direction().ok_or("a rounding is missing")?;
    let ty = form.ty()?;
    floats(form, float::fma(ty, direction), ty, 3)
}

/// Division and remainder of integers, which fault on zero.
fn divide(form: &mut Form<'_, '_, '_>, of: Choice) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(of(ty), ty)?;
    Ok(Op::Divide { map, d: form.dest(ty)?, a: form.source(ty)?, b: form.source(ty)?, mask: ty.mask() })
}

pub(super) fn div(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if form.flag("full") || form.flag("approx") {
        let flush = form.flag("ftz");
        return match form.ty()? {
            Type::F32 => form.map(float::approximate_div(flush), Type::F32, &[Type::F32; 2]),
            ty => Err(format!("not for `.{}`", ty.name())),
        };
    }
    if form.flag("rn") {
        let ty = form.ty()?;
        return floats(form, float::div(ty), ty, 2);
    }
    divide(form, integer::div)
}

pub(super) fn rem(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    divide(form, integer::rem)
}

pub(super) fn sad(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    integers(form, integer::sad, 3)
}

/// One operand, of integers or of floats.
fn sign(form: &mut Form<'_, '_, '_>, integer: Choice, float: Choice) -> Result<Op, String> {
    let ty = form.ty()?;
    let map = known(if ty.class() == Class::Float { float(ty) } else { integer(ty) }, ty)?;
    form.map(map, ty, &[ty])
}

pub(super) fn abs(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    sign(form, integer::abs, float::abs)
}

pub(super) fn neg(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    sign(form, integer::neg, float::neg)
}

pub(super) fn copysign(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    floats(form, float::copysign(ty), ty, 2)
}

/// `min` and `max`.
fn extreme(form: &mut Form<'_, '_, '_>, integer: Choice, float: fn(Type, bool) -> Option<Map>) -> Result<Op, String> {
    let nan = form.flag("NaN");
    let ty = form.ty()?;
    let map = match (ty, nan) {
        (Type::F64, true) => None,
        (ty, nan) if ty.class() == Class::Float => float(ty, nan),
        (ty, false) => integer(ty),
        _ => None,
    };
    let map = known(map, ty)?;
    form.map(map, ty, &[ty, ty])
}

pub(super) fn min(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    extreme(form, integer::min, float::min)
}

pub(super) fn max(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    extreme(form, integer::max, float::max)
}

/// The part after `.approx`.
fn approximate(form: &mut Form<'_, '_, '_>, function: Approximate) -> Result<Op, String> {
    // `tanh` alone has no form that flushes.
    let flush = !matches!(function, Approximate::Tanh) && form.flag("ftz");
    match form.ty()? {
        Type::F32 => form.map(float::approximate(function, flush), Type::F32, &[Type::F32]),
        ty => Err(format!("not for `.{}`", ty.name())),
    }
}

/// A function that is there to nearest too.
fn rounded(form: &mut Form<'_, '_, '_>, function: Approximate, of: Choice) -> Result<Op, String> {
    if form.flag("approx") {
        return approximate(form, function);
    }
    form.choose(&[("rn", ())])?;
    let ty = form.ty()?;
    floats(form, of(ty), ty, 1)
}

pub(super) fn sqrt(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    rounded(form, Approximate::Sqrt, float::sqrt)
}

pub(super) fn rcp(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    rounded(form, Approximate::Rcp, float::rcp)
}

macro_rules! approximations {
    ($($name:ident: $function:ident),*) => {
        $(pub(super) fn $name(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
            form.choose(&[("approx", ())])?;
            approximate(form, Approximate::$function)
        })*
    };
}
approximations!(cos: Cos, ex2: Ex2, lg2: Lg2, rsqrt: Rsqrt, sin: Sin, tanh: Tanh);
