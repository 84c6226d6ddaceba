//! Operations of several lanes of a warp: shuffles, votes, reductions and `bar.warp.sync`. Each
//! names the lanes that take part, and waits until all of them that have not exited have arrived.
//!
//! Only `bar.warp.sync` orders memory accesses. The others pass values between registers and
//! guarantee nothing more.

use crate::exec::atomic::combine;
use crate::exec::{Run, matrix};
use crate::fault::Problem;
use crate::op::{Kernel, Op, Shuffle, Vote};
use crate::types::{LANES, Reg, Type, lanes, mask_of};
use crate::warp::{Group, Stop, Warp};

/// The register of the mask that an operation names.
fn mask_row(op: &Op) -> Option<Reg> {
    match *op {
        Op::SyncWarp { mask }
        | Op::Shuffle { mask, .. }
        | Op::Vote { mask, .. }
        | Op::Match { mask, .. }
        | Op::Reduce { mask, .. }
        | Op::Multiply { mask, .. }
        | Op::MultiplyTiles { mask, .. }
        | Op::FenceProducts { mask }
        | Op::GroupProducts { mask }
        | Op::AwaitProducts { mask, .. }
        | Op::LoadMatrices { mask, .. } => Some(mask),
        _ => None,
    }
}

/// The problem when lanes wait for others although no thread can run.
pub(super) fn stuck(warp: &Warp, kernel: &Kernel, group: &Group) -> Stop {
    let lane = group.lanes.trailing_zeros() as usize;
    let mask = mask_row(&kernel.operations[group.at as usize].op).map_or(0, |mask| warp.row(mask)[lane] as u32);
    Stop { lane, what: Problem::NotConverged { mask, came: group.lanes } }
}

impl Run<'_, '_> {
    /// Executes the operation for each set of lanes that is complete, and returns these lanes.
    pub(super) fn collective(&mut self, op: &Op, active: u32) -> Result<u32, Stop> {
        let Some(mask) = mask_row(op) else {
            return Ok(active);
        };
        let masks = *self.warp.read(mask, active)?;
        let (mut left, mut done) = (active, 0);
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let mask = masks[lane] as u32;
            let same = mask_of(left, |other| masks[other] as u32 == mask);
            left &= !same;
            if let Some(lane) = lanes(same & !mask).next() {
                return Err(Stop { lane, what: Problem::NotConverged { mask, came: same } });
            }
            if mask & self.warp.alive == same {
                self.together(op, same, mask)?;
                done |= same;
            }
        }
        Ok(done)
    }

    /// The operation, for lanes that are all there.
    fn together(&mut self, op: &Op, who: u32, mask: u32) -> Result<(), Stop> {
        let warp = &mut *self.warp;
        match *op {
            // A thread that has exited cannot contribute a part of a matrix.
            Op::Multiply { .. }
            | Op::MultiplyTiles { .. }
            | Op::FenceProducts { .. }
            | Op::GroupProducts { .. }
            | Op::AwaitProducts { .. }
            | Op::LoadMatrices { .. }
                if who != u32::MAX =>
            {
                let lane = who.trailing_zeros() as usize;
                return Err(Stop { lane, what: Problem::NotConverged { mask, came: who } });
            }
            Op::Multiply { factors, ref d, ref a, ref b, ref c, .. } => {
                let result = matrix::multiply(warp, factors, (a, b, c))?;
                d.iter().zip(&result).for_each(|(reg, row)| warp.write(*reg, who, row));
            }
            Op::MultiplyTiles { factors, ref sums, left, right, accumulate, .. } => {
                return self.multiply_tiles(factors, sums, [left, right], accumulate);
            }
            Op::FenceProducts { .. } => warp.products.fenced = true,
            Op::GroupProducts { .. } => warp.products.group(),
            Op::AwaitProducts { but, .. } => return self.await_products(but),
            Op::LoadMatrices { ref into, at, transposed, .. } => return self.load_matrices(into, at, transposed),
            Op::SyncWarp { .. } => warp.meetings.meet(who, warp.members, warp.step),
            Op::Vote { mode, a, .. } => {
                let yes = warp.condition(a, who)?;
                match mode {
                    Vote::Any(d) => warp.write_pred(d, who, all_or_none(yes != 0)),
                    Vote::All(d) => warp.write_pred(d, who, all_or_none(yes == who)),
                    Vote::Uniform(d) => warp.write_pred(d, who, all_or_none(yes == who || yes == 0)),
                    Vote::Ballot(d) => warp.write(d, who, &[u64::from(yes & mask); LANES]),
                }
            }
            Op::Match { d, a, .. } => {
                let values = *warp.read(a, who)?;
                let alike = |lane: usize| mask_of(who, |other| values[other] == values[lane]);
                let result: [u64; LANES] = std::array::from_fn(|lane| u64::from(alike(lane)));
                warp.write(d, who, &result);
            }
            Op::Reduce { how, ty, d, a, .. } => {
                let row = warp.read(a, who)?;
                let mut values = lanes(who).map(|lane| row[lane]);
                let first = values.next().unwrap_or_default();
                let result = values.fold(first, |x, y| combine(how, ty, x, y, y));
                warp.write(d, who, &[result & Type::B32.mask(); LANES]);
            }
            Op::Shuffle { mode, d, p, a, b, c, .. } => {
                let (offsets, clamps) = (warp.read(b, who)?, warp.read(c, who)?);
                let mut from = [0; LANES];
                let mut valid = 0;
                for lane in lanes(who) {
                    let (source, inside) = source(mode, lane as u32, offsets[lane] as u32, clamps[lane] as u32);
                    if who >> source & 1 == 0 {
                        return Err(Stop { lane, what: Problem::BadShuffle { from: source } });
                    }
                    from[lane] = source;
                    valid |= u32::from(inside) << lane;
                }
                let values = warp.read(a, lanes(who).fold(0, |read, lane| read | 1 << from[lane]))?;
                let result = from.map(|source| values[source as usize]);
                warp.write(d, who, &result);
                if let Some(p) = p {
                    warp.write_pred(p, who, valid);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn all_or_none(all: bool) -> u32 {
    if all { u32::MAX } else { 0 }
}

/// The lane that a shuffle reads, and whether it is within the segment: if not, it is the lane
/// itself.
fn source(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (offset, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let most = lane & segment | clamp & !segment;
    let least = lane & segment;
    // `up` may fall below lane 0, which is out of range too.
    let (source, inside) = match mode {
        Shuffle::Up => (lane.wrapping_sub(offset), lane as i32 - offset as i32 >= most as i32),
        Shuffle::Down => (lane + offset, lane + offset <= most),
        Shuffle::Butterfly => (lane ^ offset, lane ^ offset <= most),
        Shuffle::Index => (least | offset & !segment, least | offset & !segment <= most),
    };
    if inside { (source, true) } else { (lane, false) }
}
