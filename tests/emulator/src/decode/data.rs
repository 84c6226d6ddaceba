//! Moves and conversions.

use crate::decode::{Form, known, logic};
use crate::lanes::convert::{Conversion, pack, to_tf32};
use crate::lanes::rounding::Direction;
use crate::lanes::{bits, integer};
use crate::op::{Op, RowKind, Special};
use crate::parse::Operand;
use crate::types::{Class, Reg, Space, Type};
use crate::window;

pub(super) fn mov(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let ty = form.ty()?;
    if ty == Type::Pred {
        let (d, a) = (form.pred_dest()?, form.condition()?);
        return Ok(logic::copy(d, a));
    }
    // A vector on the left takes a wide value apart; one on the right, below, puts it together.
    if let Some(Operand::Vector(parts)) = form.peek() {
        form.operand()?;
        let (part, parts) = split(form, ty, parts)?;
        return Ok(Op::Unpack { parts, a: form.source(ty)?, bits: part.bits() });
    }
    let map = known(bits::copy(ty), ty)?;
    // PTX moves 16-bit floats as `.b16`, and has no `mov` of bytes.
    if ty.bytes() < 2 || ty.class() == Class::Float && !matches!(ty, Type::F32 | Type::F64) {
        return Err(format!("not for `.{}`", ty.name()));
    }
    let d = form.dest(ty)?;
    let a = match form.operand()? {
        Operand::Vector(parts) => {
            let (part, parts) = split(form, ty, parts)?;
            return Ok(Op::Pack { d, parts, bits: part.bits() });
        }
        Operand::Part(register, dimension) => special(form, register, Some(dimension), ty)?,
        operand @ Operand::Name(name) => {
            let name_is_register = form.body.register(name).is_some();
            match form.body.variable(name) {
                // A register hides a variable of the same name, as an inner scope does.
                _ if name_is_register => form.source_of(operand, ty)?,
                Some(variable) => {
                    if !matches!(ty, Type::B64 | Type::U64 | Type::S64)
                        && (ty.bytes() != 4 || ty.class() == Class::Float || variable.space == Space::Global)
                    {
                        return Err(format!("an address does not fit `.{}`", ty.name()));
                    }
                    form.body.address(variable)
                }
                None if ty == Type::U64 && form.body.parameter_at(name).is_some() => {
                    let at = form.body.parameter_at(name).map_or(0, |(at, _)| at);
                    form.constant(u64::from(at))
                }
                None => special(form, name, None, ty)?,
            }
        }
        operand => form.source_of(operand, ty)?,
    };
    let zero = form.constant(0);
    Ok(Op::Map { map, d, from: [a, zero, zero, zero] })
}

/// The registers of a vector that make up a value of type `ty`, and the type of each.
fn split<'t>(form: &mut Form<'_, '_, 't>, ty: Type, parts: &[Operand<'t>]) -> Result<(Type, Vec<Reg>), String> {
    let part = match (ty, parts.len()) {
        (Type::B64, 2) => Type::B32,
        (Type::B64, 4) | (Type::B32, 2) => Type::B16,
        _ => return Err(format!("`.{}` does not consist of {} parts", ty.name(), parts.len())),
    };
    let mut rows = vec![];
    for operand in parts {
        rows.push(form.source_of(operand, part)?);
    }
    Ok((part, rows))
}

/// Special registers; those with `dimension` count it from `.x`.
const SPECIALS: &[(&str, Option<&str>, Special)] = &[
    ("%tid", Some("x"), Special::Thread(0)),
    ("%tid", Some("y"), Special::Thread(1)),
    ("%tid", Some("z"), Special::Thread(2)),
    ("%ntid", Some("x"), Special::Threads(0)),
    ("%ntid", Some("y"), Special::Threads(1)),
    ("%ntid", Some("z"), Special::Threads(2)),
    ("%ctaid", Some("x"), Special::Block(0)),
    ("%ctaid", Some("y"), Special::Block(1)),
    ("%ctaid", Some("z"), Special::Block(2)),
    ("%nctaid", Some("x"), Special::Blocks(0)),
    ("%nctaid", Some("y"), Special::Blocks(1)),
    ("%nctaid", Some("z"), Special::Blocks(2)),
    ("%cluster_ctarank", None, Special::Rank),
    ("%laneid", None, Special::Lane),
    ("%warpid", None, Special::Warp),
    ("%lanemask_eq", None, Special::LanesEqual),
    ("%lanemask_lt", None, Special::LanesBelow),
    ("%lanemask_le", None, Special::LanesUpTo),
    ("%lanemask_gt", None, Special::LanesAbove),
    ("%lanemask_ge", None, Special::LanesFrom),
];

fn special(form: &mut Form<'_, '_, '_>, name: &str, dimension: Option<&str>, ty: Type) -> Result<Reg, String> {
    let found = SPECIALS.iter().find(|(n, d, _)| *n == name && *d == dimension);
    match found {
        None => Err(format!("no register, variable or special register `{name}`")),
        Some(_) if !ty.takes(Type::U32) => Err(format!("`{name}` where `.{}` is due", ty.name())),
        Some((.., special)) => Ok(form.body.row(RowKind::Special(*special))),
    }
}

/// Converts between the addresses of a space and generic ones: an offset.
pub(super) fn cvta(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    let to = form.flag("to");
    if !to && form.flag("param") {
        form.choose(&[("u64", ())])?;
        let (d, a) = (form.dest(Type::U64)?, form.source(Type::U64)?);
        let (base, zero) = (form.constant(window::PARAMETERS), form.constant(0));
        let map = known(integer::add(Type::U64), Type::U64)?;
        return Ok(Op::Map { map, d, from: [a, base, zero, zero] });
    }
    let space = form.choose(&[
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("local", Space::Local),
        ("const", Space::Constant),
    ])?;
    form.choose(&[("u64", ())])?;
    let d = form.dest(Type::U64)?;
    let operand = form.operand()?;
    let a = match *operand {
        Operand::Name(name) => match form.body.variable(name) {
            Some(variable) if variable.space == space && !to => form.body.address(variable),
            Some(_) => return Err(format!("`{name}` lies in another space")),
            None => form.source_of(operand, Type::U64)?,
        },
        ref other => return Err(format!("an address expected, not `{other:?}`")),
    };
    let base = form.constant(window::base(space));
    let zero = form.constant(0);
    let map = known(if to { integer::sub(Type::U64) } else { integer::add(Type::U64) }, Type::U64)?;
    Ok(Op::Map { map, d, from: [a, base, zero, zero] })
}

pub(super) fn cvt(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if form.flag("rna") {
        form.choose(&[("tf32", ())])?;
        form.choose(&[("f32", ())])?;
        return form.map(to_tf32(), Type::B32, &[Type::F32]);
    }
    let integral = form.pick(&[
        ("rni", Direction::Nearest),
        ("rzi", Direction::Zero),
        ("rmi", Direction::Down),
        ("rpi", Direction::Up),
    ]);
    let direction = if integral.is_some() { None } else { form.direction() };
    let saturate = form.flag("sat");
    let to = form.ty()?;
    let from = form.ty()?;
    if matches!(to, Type::F16x2 | Type::Bf16x2) {
        let map = pack(to).filter(|_| from == Type::F32 && direction == Some(Direction::Nearest) && !saturate);
        let map = known(map, from)?;
        return form.map(map, to, &[Type::F32; 2]);
    }
    check(to, from, integral, direction)?;
    if saturate && !may_saturate(to, from) {
        return Err(format!("nothing saturates from `.{}` to `.{}`", from.name(), to.name()));
    }
    if [to, from].contains(&Type::Bf16) && ![to, from].contains(&Type::F32) {
        form.since(90, Type::Bf16)?;
    }
    let operand = form.operand()?;
    // Registers may be wider than the types converted between: bytes are kept in 16-bit registers,
    // for instance.
    let (d, register) = form.wide(operand, to)?;
    let operand = form.operand()?;
    let a = match operand {
        Operand::Name(_) => form.wide(operand, from)?.0,
        _ => form.source_of(operand, from)?,
    };
    let direction = direction.unwrap_or(Direction::Nearest);
    let how = Conversion { from, to, direction, integral, saturate, register: register.bits() };
    Ok(Op::Convert { how, d, a })
}

/// Whether a conversion can leave the range of its result, and has a saturating form.
fn may_saturate(to: Type, from: Type) -> bool {
    if !to.integer() || !from.integer() {
        return ![to, from].contains(&Type::Bf16);
    }
    let contains = match (to.signed(), from.signed()) {
        (false, true) => false,
        (true, false) => to.bytes() > from.bytes(),
        _ => to.bytes() >= from.bytes(),
    };
    !contains
}

/// Checks that a conversion has the rounding that it needs, and no other.
fn check(to: Type, from: Type, integral: Option<Direction>, direction: Option<Direction>) -> Result<(), String> {
    let number = |ty: Type| ty.integer() || matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    let brain_and_byte = [to, from].contains(&Type::Bf16) && (to.bytes() == 1 || from.bytes() == 1);
    if !number(to) || !number(from) || brain_and_byte {
        return Err(format!("not from `.{}` to `.{}`", from.name(), to.name()));
    }
    // A float is rounded to an integral value as an integer or in its own type. It loses bits in a
    // narrower type, or in the other of the two 16-bit types.
    let narrow = |ty: Type| (ty.bytes(), ty.class() == Class::Float);
    let (needs_integral, may_integral, needs_direction) = match (from.class(), to.class()) {
        (Class::Float, Class::Float) => (false, from == to, narrow(to) < narrow(from) || from != to && to.bytes() == 2),
        (Class::Float, _) => (true, true, false),
        (_, Class::Float) => (false, false, true),
        _ => (false, false, false),
    };
    if needs_integral && integral.is_none() || needs_direction && direction.is_none() {
        return Err("a rounding is missing".into());
    }
    if integral.is_some() && !may_integral || direction.is_some() && !needs_direction {
        return Err(format!("no such rounding from `.{}` to `.{}`", from.name(), to.name()));
    }
    let half = matches!(to, Type::F16 | Type::Bf16);
    if half && direction.is_some_and(|d| d != Direction::Nearest) && from.class() == Class::Float {
        return Err("to 16 bits only to nearest".into());
    }
    Ok(())
}
