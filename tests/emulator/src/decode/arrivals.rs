//! Arrival barriers, and the bulk copies that arrive at them.

use crate::decode::Form;
use crate::op::{Address, Op};
use crate::parse::Operand;
use crate::types::{Reg, Space, Type};

pub(super) fn mbarrier(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.since(90, Type::B64)?;
    let action = form.modifier()?;
    let kind = match action {
        "init" => "",
        "arrive" if form.flag("expect_tx") => "expect_tx",
        "arrive" => "plain",
        "try_wait" | "test_wait" => {
            form.choose(&[("parity", ())])?;
            "parity"
        }
        other => return Err(format!("`.{other}` is not in the subset")),
    };
    form.choose(&[("shared::cta", ()), ("shared", ())])?;
    form.choose(&[("b64", ())])?;
    match kind {
        "" => {
            let at = form.address(Some(Space::Shared))?;
            Ok(Op::InitArrivals { at, count: form.source(Type::U32)? })
        }
        "parity" => {
            let to = form.pred_dest()?;
            let at = form.address(Some(Space::Shared))?;
            Ok(Op::TryWait { to, at, parity: form.source(Type::U32)? })
        }
        _ => {
            match *form.operand()? {
                Operand::Name("_") => {}
                ref other => return Err(format!("`_` expected, not `{other:?}`")),
            }
            let at = form.address(Some(Space::Shared))?;
            let bytes = if kind == "expect_tx" { form.source(Type::U32)? } else { form.constant(0) };
            Ok(Op::Arrive { at, bytes })
        }
    }
}

/// `cp.async.bulk.tensor`, after `.async`.
pub(super) fn copy_box(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    form.since(90, Type::B64)?;
    form.choose(&[("tensor", ())])?;
    let rank = form.choose(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)])?;
    form.choose(&[("shared::cluster", ()), ("shared::cta", ())])?;
    form.choose(&[("global", ())])?;
    form.flag("tile");
    form.choose(&[("mbarrier::complete_tx::bytes", ())])?;
    let to = form.address(Some(Space::Shared))?;
    let (map, parts) = match form.operand()? {
        Operand::Box(map, parts) if parts.len() == rank => (form.named(&Operand::Name(map))?.0, parts),
        other => return Err(format!("a map and {rank} coordinates expected, not `{other:?}`")),
    };
    let from = parts.iter().map(|part| form.source_of(part, Type::S32)).collect::<Result<Vec<Reg>, String>>()?;
    let arrivals: Address = form.address(Some(Space::Shared))?;
    Ok(Op::CopyBox { to, map, from, arrivals })
}
