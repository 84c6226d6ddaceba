//! Records the last accesses to each byte of a region: the last writer, and the readers since. An
//! access that conflicts with one of them and is not ordered after it is a race.
//!
//! Bytes that are always accessed together share a cell. A region starts with cells as wide as the
//! first access, and halves them for the first narrower one.

use crate::op::Strength;
use crate::order::{Knowledge, Now, Stamp};
use crate::types::mask_of;

/// The accesses of some bytes.
#[derive(Clone, Copy, Debug)]
struct Cell {
    write: Stamp,
    read: Stamp,
    /// The number of the list of further readers, counted from 1.
    more: u32,
}

const UNTOUCHED: Cell = Cell { write: Stamp::NONE, read: Stamp::NONE, more: 0 };

/// The accesses of a region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    /// The bytes of a cell, as a power of two.
    shift: u32,
    cells: Vec<Cell>,
    readers: Vec<Vec<Stamp>>,
}

impl Shadow {
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.readers.clear();
    }

    /// The cells of an access, in a region of `len` bytes.
    fn cells(&mut self, at: u64, size: usize, len: usize) -> std::ops::RangeInclusive<usize> {
        if self.cells.is_empty() {
            self.shift = size.trailing_zeros();
            self.cells.resize((len >> self.shift) + 1, UNTOUCHED);
        }
        while 1 << self.shift > size {
            self.split();
        }
        (at as usize >> self.shift)..=((at as usize + size - 1) >> self.shift)
    }

    fn split(&mut self) {
        self.shift -= 1;
        let mut halves = Vec::with_capacity(2 * self.cells.len());
        for cell in &self.cells {
            let mut second = *cell;
            if cell.more > 0 {
                self.readers.push(self.readers[cell.more as usize - 1].clone());
                second.more = self.readers.len() as u32;
            }
            halves.extend([*cell, second]);
        }
        self.cells = halves;
    }

    /// A read of an aligned power of two of bytes.
    ///
    /// # Errors
    /// The write that it races with.
    pub(crate) fn read(
        &mut self,
        (at, size, len): (u64, usize, usize),
        now: &Now<'_>,
        known: &Knowledge,
    ) -> Result<(), Stamp> {
        for index in self.cells(at, size, len) {
            let cell = &mut self.cells[index];
            let me = now.stamp;
            let write = cell.write;
            // Memory that is read as constant must not be written at all.
            let constant = me.strength == Strength::Constant;
            if write.lanes != 0 && (constant || !write.tolerates(&me) && !known.ordered(&write, now)) {
                return Err(write);
            }
            if cell.more > 0 {
                remember(&mut self.readers[cell.more as usize - 1], now, known);
            } else if !merge(&mut cell.read, now, known) {
                self.readers.push(vec![cell.read, me]);
                cell.more = self.readers.len() as u32;
            }
        }
        Ok(())
    }

    /// The last write of an aligned power of two of bytes, cell by cell.
    pub(crate) fn writes(&mut self, (at, size, len): (u64, usize, usize)) -> impl Iterator<Item = Stamp> {
        self.cells(at, size, len).map(|index| self.cells[index].write)
    }

    /// A write of an aligned power of two of bytes.
    ///
    /// # Errors
    /// The access that it races with.
    pub(crate) fn write(
        &mut self,
        (at, size, len): (u64, usize, usize),
        now: &Now<'_>,
        known: &Knowledge,
    ) -> Result<(), Stamp> {
        for index in self.cells(at, size, len) {
            let cell = &mut self.cells[index];
            let me = now.stamp;
            let harmless = |past: &Stamp| {
                past.lanes == 0
                    || past.strength != Strength::Constant && (past.tolerates(&me) || known.ordered(past, now))
            };
            if !harmless(&cell.write) {
                return Err(cell.write);
            }
            if cell.more == 0 {
                if !harmless(&cell.read) {
                    return Err(culprits(&cell.read, now, known));
                }
            } else {
                let readers = &mut self.readers[cell.more as usize - 1];
                if let Some(reader) = readers.iter().find(|r| !harmless(r)) {
                    return Err(culprits(reader, now, known));
                }
                // The list stays with the cell, for later readers.
                readers.clear();
            }
            cell.write = me;
            cell.read = Stamp::NONE;
        }
        Ok(())
    }
}

/// Of several reads, those that do not happen before the present action of a thread; all of them if
/// all do.
fn culprits(read: &Stamp, now: &Now<'_>, known: &Knowledge) -> Stamp {
    match unordered(read, now, known) {
        0 => *read,
        lanes => Stamp { lanes, ..*read },
    }
}

/// The lanes of a stamp with accesses that do not happen before the present action of a thread.
fn unordered(stamp: &Stamp, now: &Now<'_>, known: &Knowledge) -> u32 {
    mask_of(stamp.lanes, |lane| !known.ordered(&Stamp { lanes: 1 << lane, ..*stamp }, now))
}

/// Adds a read to a stamp, if one stamp can represent both. Reads that happen before the new one
/// need not be kept, because a write ordered after the new one is ordered after them.
fn merge(read: &mut Stamp, now: &Now<'_>, known: &Knowledge) -> bool {
    let me = now.stamp;
    let same_warp = (read.block, read.warp, read.epoch) == (me.block, me.warp, me.epoch);
    if same_warp && read.step == me.step && read.strength == me.strength {
        read.lanes |= me.lanes;
        return true;
    }
    let strength = if read.lanes == 0 { me.strength } else { read.strength.min(me.strength) };
    if read.lanes == 0 || known.ordered(read, now) {
        *read = Stamp { strength, ..me };
        return true;
    }
    if same_warp {
        let kept = unordered(read, now, known);
        *read = Stamp { strength, lanes: kept | me.lanes, ..me };
        return true;
    }
    false
}

/// Adds a read to a list of them.
fn remember(readers: &mut Vec<Stamp>, now: &Now<'_>, known: &Knowledge) {
    // Readers in running blocks are near the end, so a list that many blocks share is not walked in
    // full.
    const NEAR: usize = 512;
    let me = now.stamp;
    let mut near = readers.iter_mut().rev().take(NEAR).filter(|r| r.block == me.block);
    if !near.any(|reader| merge(reader, now, known)) {
        readers.push(me);
    }
}
