//! Generic addresses: each space but the global one is seen through a window far above global memory.

use crate::types::Space;

/// Bytes of a window.
const SIZE: u64 = 1 << 32;

/// Where global memory ends for addresses.
const FIRST: u64 = 1 << 60;

/// The window of a space. Global addresses are generic as they are.
pub(crate) fn base(space: Space) -> u64 {
    match space {
        Space::Global => 0,
        Space::Shared | Space::Cluster => FIRST,
        Space::Local => FIRST + SIZE,
        Space::Constant => FIRST + 2 * SIZE,
    }
}

/// The address in a cluster of what lies at an address of one of its blocks.
pub(crate) fn in_cluster(address: u64, rank: u32) -> u64 {
    address + (u64::from(rank) + 1) * SIZE
}

/// The block of a cluster that such an address is of, unless it is one's own, and the address there.
pub(crate) fn of_cluster(address: u64) -> (Option<u32>, u64) {
    // The whole part is below 2^32, since a window has so many addresses.
    ((address / SIZE).checked_sub(1).map(|rank| rank as u32), address % SIZE)
}

/// The space that a generic address lies in, and the address there.
pub(crate) fn resolve(address: u64) -> (Space, u64) {
    let found = [Space::Shared, Space::Local, Space::Constant]
        .into_iter()
        .find(|space| address.checked_sub(base(*space)).is_some_and(|at| at < SIZE));
    found.map_or((Space::Global, address), |space| (space, address - base(space)))
}
