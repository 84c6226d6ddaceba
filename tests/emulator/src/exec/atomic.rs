//! Atomic operations, lane by lane.

use crate::exec::access::Spot;
use crate::exec::{Run, now};
use crate::lanes::Lane;
use crate::op::{Access, Address, Atomic};
use crate::types::{LANES, Reg, Space, Type, lanes};
use crate::warp::Stop;

/// The new value, from the old one and the operands.
pub(super) fn combine(how: Atomic, ty: Type, old: u64, b: u64, c: u64) -> u64 {
    macro_rules! extreme {
        ($method:ident) => {
            match ty {
                Type::S32 => i32::of(old).$method(i32::of(b)).bits(),
                Type::S64 => i64::of(old).$method(i64::of(b)).bits(),
                _ => old.$method(b),
            }
        };
    }
    match how {
        Atomic::Add => match ty {
            Type::F32 => (f32::of(old) + f32::of(b)).bits(),
            Type::F64 => (f64::of(old) + f64::of(b)).bits(),
            _ => old.wrapping_add(b) & ty.mask(),
        },
        Atomic::Min => extreme!(min),
        Atomic::Max => extreme!(max),
        Atomic::And => old & b,
        Atomic::Or => old | b,
        Atomic::Xor => old ^ b,
        Atomic::Exchange => b,
        Atomic::CompareAndSwap => {
            if old == b {
                c
            } else {
                old
            }
        }
        // The operand is the greatest value: the counter wraps to 0 above it, or from 0 to it.
        Atomic::Increment => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        Atomic::Decrement => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
    }
}

impl Run<'_, '_> {
    pub(super) fn atomic(
        &mut self,
        (how, d, at): (Atomic, Option<Reg>, Address),
        (b, c): (Reg, Reg),
        access: &Access,
        active: u32,
    ) -> Result<(), Stop> {
        for reg in [at.base, b, c] {
            self.warp.need(reg, active)?;
        }
        let mut answers = [0; LANES];
        for lane in lanes(active) {
            let fault = |what| Stop { lane, what };
            let spot = Spot::new(self.warp, at, (access, access.ty.bytes()), lane).map_err(fault)?;
            let now = now(self.shared, self.warp, (lane, self.line), access.strength);
            let old = spot.load(self.grid, self.shared, &now).map_err(fault)? as u64;
            let (b, c) = (self.warp.row(b)[lane], self.warp.row(c)[lane]);
            let new = combine(how, access.ty, old, b, c);
            let place = spot.place(self.shared.block, &self.grid.shape);
            self.grid.flags.read(place, access.acquire, &now, &mut self.shared.knowledge);
            spot.store(u128::from(new), self.grid, self.shared, &now).map_err(fault)?;
            self.grid.flags.write(place, (access.release, true), &now, &self.shared.knowledge);
            answers[lane] = old;
            if spot.space == Space::Global {
                self.grid.stats.loaded += spot.bytes as u64;
                self.grid.stats.stored += spot.bytes as u64;
            }
        }
        if let Some(d) = d {
            self.warp.write(d, active, &answers);
        }
        Ok(())
    }
}
