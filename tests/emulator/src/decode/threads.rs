//! Control flow, barriers and operations of a whole warp.

use crate::decode::Form;
use crate::op::{Atomic, Factors, Op, Shuffle, Vote};
use crate::parse::Operand;
use crate::types::Type;

pub(super) fn bra(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.flag("uni");
    match *form.operand()? {
        Operand::Name(label) => Ok(form.body.branch(label)),
        ref other => Err(format!("a label expected, not `{other:?}`")),
    }
}

pub(super) fn exit(_: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    Ok(Op::Exit)
}

pub(super) fn trap(_: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    Ok(Op::Trap)
}

pub(super) fn nanosleep(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("u32", ())])?;
    form.source(Type::U32)?;
    Ok(Op::Nothing)
}

/// Registers are not limited here.
pub(super) fn setmaxnreg(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("inc", ()), ("dec", ())])?;
    form.choose(&[("sync", ())])?;
    form.choose(&[("aligned", ())])?;
    form.choose(&[("u32", ())])?;
    match *form.operand()? {
        Operand::Integer(count) if (24..=256).contains(&count) && count % 8 == 0 => Ok(Op::Nothing),
        ref other => Err(format!("a number of registers expected, not `{other:?}`")),
    }
}

pub(super) fn bar(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if form.flag("warp") {
        form.choose(&[("sync", ())])?;
        return Ok(Op::SyncWarp { mask: form.source(Type::B32)? });
    }
    form.flag("cta");
    if form.flag("red") {
        form.choose(&[("and", ())])?;
        form.choose(&[("pred", ())])?;
        let to = form.pred_dest()?;
        return Ok(Op::Barrier { id: barrier_number(form)?, aligned: true, all: Some((to, form.condition()?)) });
    }
    let waits = form.choose(&[("sync", true), ("arrive", false)])?;
    if !waits || form.operands.len() > 1 {
        return Ok(Op::Meet { id: form.source(Type::U32)?, threads: form.source(Type::U32)?, waits });
    }
    Ok(Op::Barrier { id: barrier_number(form)?, aligned: true, all: None })
}

pub(super) fn barrier(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if form.flag("cluster") {
        if form.flag("arrive") {
            form.flag("release");
            form.flag("aligned");
            return Ok(Op::ArriveInCluster);
        }
        form.choose(&[("wait", ())])?;
        form.flag("acquire");
        return Ok(Op::AwaitCluster { aligned: form.flag("aligned") });
    }
    form.flag("cta");
    form.choose(&[("sync", ())])?;
    let aligned = form.flag("aligned");
    Ok(Op::Barrier { id: barrier_number(form)?, aligned, all: None })
}

/// One of a block's sixteen barriers.
fn barrier_number(form: &mut Form<'_, '_, '_>) -> Result<u32, String> {
    match *form.operand()? {
        Operand::Integer(id @ 0..=15) => Ok(id as u32),
        ref other => Err(format!("the number of a barrier expected, not `{other:?}`")),
    }
}

pub(super) fn shfl(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("sync", ())])?;
    let mode = form.choose(&[
        ("up", Shuffle::Up),
        ("down", Shuffle::Down),
        ("bfly", Shuffle::Butterfly),
        ("idx", Shuffle::Index),
    ])?;
    form.choose(&[("b32", ())])?;
    let (d, p) = match *form.operand()? {
        Operand::Pair(d, p) => (Operand::Name(d), Some(form.pred(p)?)),
        Operand::Name(d) => (Operand::Name(d), None),
        ref other => return Err(format!("a register expected, not `{other:?}`")),
    };
    let (d, register) = form.named(&d)?;
    if !Type::B32.takes(register) {
        return Err(format!("a result of type `.{}`", register.name()));
    }
    let word = Type::B32;
    let (a, b) = (form.source(word)?, form.source(word)?);
    Ok(Op::Shuffle { mode, d, p, a, b, c: form.source(word)?, mask: form.source(word)? })
}

pub(super) fn vote(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("sync", ())])?;
    let name = form.modifier()?;
    let ty = form.ty()?;
    let mode = match (name, ty) {
        ("any", Type::Pred) => Vote::Any(form.pred_dest()?),
        ("all", Type::Pred) => Vote::All(form.pred_dest()?),
        ("uni", Type::Pred) => Vote::Uniform(form.pred_dest()?),
        ("ballot", Type::B32) => Vote::Ballot(form.dest(ty)?),
        _ => return Err(format!("no vote `.{name}.{}`", ty.name())),
    };
    Ok(Op::Vote { mode, a: form.condition()?, mask: form.source(Type::B32)? })
}

pub(super) fn match_any(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("any", ())])?;
    form.choose(&[("sync", ())])?;
    let ty = form.choose(&[("b32", Type::B32), ("b64", Type::B64)])?;
    Ok(Op::Match { d: form.dest(Type::B32)?, a: form.source(ty)?, mask: form.source(Type::B32)? })
}

pub(super) fn redux(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("sync", ())])?;
    let how = form.choose(&[
        ("add", Atomic::Add),
        ("min", Atomic::Min),
        ("max", Atomic::Max),
        ("and", Atomic::And),
        ("or", Atomic::Or),
        ("xor", Atomic::Xor),
    ])?;
    let ty = form.ty()?;
    let bits = matches!(how, Atomic::And | Atomic::Or | Atomic::Xor);
    if !(bits && ty == Type::B32 || !bits && matches!(ty, Type::U32 | Type::S32)) {
        return Err(format!("not for `.{}`", ty.name()));
    }
    Ok(Op::Reduce { how, ty, d: form.dest(ty)?, a: form.source(ty)?, mask: form.source(Type::B32)? })
}

/// Shapes of matrix products, with the types that the factors of each may have.
const PRODUCTS: &[(&str, &[(&str, Factors)])] =
    &[("m16n8k16", &[("f16", Factors::F16), ("bf16", Factors::Bf16)]), ("m16n8k8", &[("tf32", Factors::Tf32)])];

pub(super) fn mma(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("sync", ())])?;
    form.choose(&[("aligned", ())])?;
    let types = form.choose(PRODUCTS)?;
    form.choose(&[("row", ())])?;
    form.choose(&[("col", ())])?;
    form.choose(&[("f32", ())])?;
    let factors = form.choose(types)?;
    if form.choose(types)? != factors {
        return Err("factors of two types".into());
    }
    form.choose(&[("f32", ())])?;
    let (d, a) = (form.vector(4, Type::F32)?, form.vector(4, Type::B32)?);
    let (b, c) = (form.vector(2, Type::B32)?, form.vector(4, Type::F32)?);
    Ok(Op::Multiply { factors, d, a, b, c, mask: form.constant(u64::from(u32::MAX)) })
}

pub(super) fn activemask(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.choose(&[("b32", ())])?;
    Ok(Op::ActiveMask { d: form.dest(Type::B32)? })
}
