//! A region of memory: its bytes, which of them were written, and their last accesses.

use crate::op::Layout;
use crate::shadow::Shadow;

/// The state of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It belongs to nobody.
    Gap,
    Unwritten,
    Written,
}

/// Bytes with their states. Offsets count from zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    bytes: Vec<u8>,
    states: Vec<State>,
    pub(crate) shadow: Shadow,
}

/// Why bytes cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    Outside,
    /// Nobody wrote the byte there.
    Unwritten(u64),
}

impl Region {
    /// Bytes that nobody has written.
    pub(crate) fn unwritten(bytes: usize) -> Region {
        Region { bytes: vec![0; bytes], states: vec![State::Unwritten; bytes], shadow: Shadow::default() }
    }

    /// Resets the region: from `start` on, the variables of a layout followed by `more` bytes.
    pub(crate) fn lay_out(&mut self, layout: &Layout, start: u32, more: u32) {
        self.shadow.clear();
        self.bytes.clear();
        self.bytes.resize((start + more).max(layout.bytes) as usize, 0);
        self.states.clear();
        self.states.resize(self.bytes.len(), State::Gap);
        for (at, bytes) in layout.extents.iter().copied().chain([(start, more)]) {
            self.states[at as usize..(at + bytes) as usize].fill(State::Unwritten);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn span(&self, at: u64, size: usize) -> Result<std::ops::Range<usize>, Bad> {
        let start = usize::try_from(at).map_err(|_| Bad::Outside)?;
        match start.checked_add(size) {
            Some(end) if end <= self.bytes.len() => Ok(start..end),
            _ => Err(Bad::Outside),
        }
    }

    /// The bytes, if all of them were written.
    pub(crate) fn get(&self, at: u64, size: usize) -> Result<&[u8], Bad> {
        let span = self.span(at, size)?;
        let states = &self.states[span.clone()];
        if states.iter().all(|s| *s == State::Written) {
            return Ok(&self.bytes[span]);
        }
        if states.contains(&State::Gap) {
            return Err(Bad::Outside);
        }
        let first = states.iter().position(|s| *s == State::Unwritten).unwrap_or(0);
        Err(Bad::Unwritten(at + first as u64))
    }

    /// The bytes, written or not.
    pub(crate) fn get_any(&self, at: u64, size: usize) -> Result<&[u8], Bad> {
        Ok(&self.bytes[self.span(at, size)?])
    }

    /// Up to 16 bytes as a number.
    pub(crate) fn load(&self, at: u64, size: usize) -> Result<u128, Bad> {
        let mut value = [0; 16];
        value[..size].copy_from_slice(self.get(at, size)?);
        Ok(u128::from_le_bytes(value))
    }

    /// Writes bytes, and says whether that changed anything.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<bool, Bad> {
        let span = self.span(at, bytes.len())?;
        let states = &mut self.states[span.clone()];
        if states.contains(&State::Gap) {
            return Err(Bad::Outside);
        }
        let old = &mut self.bytes[span];
        let changed = old != bytes || states.contains(&State::Unwritten);
        old.copy_from_slice(bytes);
        states.fill(State::Written);
        Ok(changed)
    }

    /// Writes up to 16 bytes of a number.
    pub(crate) fn store(&mut self, at: u64, size: usize, value: u128) -> Result<bool, Bad> {
        self.put(at, &value.to_le_bytes()[..size])
    }
}
