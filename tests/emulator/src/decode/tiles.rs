//! Products of tiles in shared memory by groups of four warps.

use crate::decode::Form;
use crate::op::{Factors, Op, Tile};
use crate::parse::Operand;
use crate::types::{Reg, Type};

/// The most columns of a product.
const MOST: usize = 256;
/// The registers of a left factor.
const FRAGMENTS: usize = 4;

/// A number that an instruction has as a constant.
fn number(form: &mut Form<'_, '_, '_>, most: i128) -> Result<i128, String> {
    match *form.operand()? {
        Operand::Integer(number) if (0..=most).contains(&number) => Ok(number),
        ref other => Err(format!("a number up to {most} expected, not `{other:?}`")),
    }
}

pub(super) fn wgmma(form: &mut Form<'_, '_, '_>) -> Result<Op, String> {
    if !form.body.has_specifics() {
        return Err("needs `sm_90a`".into());
    }
    let action = form.modifier()?;
    form.choose(&[("sync", ())])?;
    form.choose(&[("aligned", ())])?;
    let mask = form.constant(u64::from(u32::MAX));
    match action {
        "fence" => return Ok(Op::FenceProducts { mask }),
        "commit_group" => return Ok(Op::GroupProducts { mask }),
        "wait_group" => return Ok(Op::AwaitProducts { but: number(form, 255)? as u32, mask }),
        "mma_async" => {}
        other => return Err(format!("`.{other}` is not in the subset")),
    }
    let shape = form.modifier()?;
    let columns = shape.strip_prefix("m64n").and_then(|rest| rest.strip_suffix("k16")).and_then(|n| n.parse().ok());
    let columns = columns.filter(|n: &usize| (8..=MOST).contains(n) && n.is_multiple_of(8));
    let columns = columns.ok_or_else(|| format!("`.{shape}` is no shape of the subset"))?;
    form.choose(&[("f32", ())])?;
    let types = [("f16", Factors::F16), ("bf16", Factors::Bf16)];
    let factors = form.choose(&types)?;
    if form.choose(&types)? != factors {
        return Err("factors of two types".into());
    }
    let sums = form.vector(columns / 2, Type::F32)?;
    let fragments = match form.peek() {
        Some(Operand::Vector(_)) => Some(form.vector(FRAGMENTS, Type::B32)?),
        _ => None,
    };
    let first = if fragments.is_some() { None } else { Some(form.source(Type::B64)?) };
    let second = form.source(Type::B64)?;
    let accumulate = form.condition()?;
    if (number(form, 1)?, number(form, 1)?) != (1, 1) {
        return Err("negated factors are not in the subset".into());
    }
    let left = match (first, fragments) {
        (Some(descriptor), _) => Tile::Shared { descriptor, wide: number(form, 1)? == 1 },
        (None, fragments) => {
            let fragments = <[Reg; FRAGMENTS]>::try_from(fragments.unwrap_or_default());
            Tile::Fragments(fragments.map_err(|_| "four registers expected")?)
        }
    };
    let right = Tile::Shared { descriptor: second, wide: number(form, 1)? == 1 };
    Ok(Op::MultiplyTiles { factors, sums, left, right, accumulate, mask })
}
