//! Generic addresses: each space except the global one appears in a window far above global memory.

use crate::types::Space;

/// Bytes of a window.
const SIZE: u64 = 1 << 32;

/// Where global memory ends for addresses.
const FIRST: u64 = 1 << 60;

/// The window of a space. Global addresses are generic addresses.
pub(crate) fn base(space: Space) -> u64 {
    match space {
        Space::Global => 0,
        Space::Shared | Space::Cluster => FIRST,
        Space::Local => FIRST + SIZE,
        Space::Constant => FIRST + 2 * SIZE,
    }
}

/// The cluster-wide address for an address in one of its blocks.
pub(crate) fn in_cluster(address: u64, rank: u32) -> u64 {
    address + (u64::from(rank) + 1) * SIZE
}

/// The block of the cluster that such an address belongs to, unless it is one's own, and the
/// address there.
pub(crate) fn of_cluster(address: u64) -> (Option<u32>, u64) {
    // The quotient is below 2^32, because a window has that many addresses.
    ((address / SIZE).checked_sub(1).map(|rank| rank as u32), address % SIZE)
}

/// The generic address of the parameters, behind those of all spaces.
pub(crate) const PARAMETERS: u64 = FIRST + 3 * SIZE;

/// The place of a generic address among the parameters, if it is one of theirs.
pub(crate) fn in_parameters(address: u64) -> Option<u64> {
    address.checked_sub(PARAMETERS).filter(|at| *at < SIZE)
}

/// The space that contains a generic address, and the address there.
pub(crate) fn resolve(address: u64) -> (Space, u64) {
    let found = [Space::Shared, Space::Local, Space::Constant]
        .into_iter()
        .find(|space| address.checked_sub(base(*space)).is_some_and(|at| at < SIZE));
    found.map_or((Space::Global, address), |space| (space, address - base(space)))
}
