//! Which launches of a recording wait for which. A launch waits for those before it that write what
//! it accesses, or access what it writes: others run at the same time. So products of a few blocks
//! each, as the derivatives of several weights, fill a device together.
//!
//! Only launches of a *stretch* are compared, and a stretch begins after all of the one before. A
//! call is a stretch of its own, so that calls are one after another, as without a recording.

use super::device::Launch;

/// The most launches of a stretch: as many as the bits of a set.
const MOST: usize = u64::BITS as usize;

/// The launches that each launch of some calls waits for, by their numbers.
pub(super) fn waits(calls: &[&[Launch<'_>]]) -> Vec<Vec<usize>> {
    let mut waits: Vec<Vec<usize>> = vec![];
    let mut ends: Vec<usize> = vec![];
    for stretch in calls.iter().flat_map(|call| call.chunks(MOST)) {
        let first = waits.len();
        let own = of_stretch(stretch);
        let has_next = own.iter().flatten().fold(0u64, |all, number| all | 1 << number);
        waits.extend(own.into_iter().map(|own| match own.is_empty() {
            true => ends.clone(),
            false => own.into_iter().map(|number| first + number).collect(),
        }));
        ends = (0..stretch.len()).filter(|number| has_next >> number & 1 == 0).map(|number| first + number).collect();
    }
    waits
}

/// The same within a stretch, without those that another one waits for anyway.
fn of_stretch(launches: &[Launch<'_>]) -> Vec<Vec<usize>> {
    // The launches that are done before each, as sets of bits.
    let mut done: Vec<u64> = vec![];
    let mut waits = vec![];
    for (number, launch) in launches.iter().enumerate() {
        let (mut own, mut before) = (vec![], 0u64);
        for other in (0..number).rev().filter(|other| conflict(launch, &launches[*other])) {
            if before >> other & 1 == 0 {
                own.push(other);
                before |= done[other] | 1 << other;
            }
        }
        done.push(before);
        waits.push(own);
    }
    waits
}

fn conflict(a: &Launch<'_>, b: &Launch<'_>) -> bool {
    a.accesses.iter().any(|a| b.accesses.iter().any(|b| a.conflicts(*b)))
}

#[cfg(test)]
mod tests {
    use super::super::device::Access;
    use super::*;

    /// A launch that reads some bytes and writes others.
    fn launch(reads: &[u64], writes: &[u64]) -> Launch<'static> {
        let access = |writes| move |address: &u64| Access { address: *address, bytes: 4, writes };
        let accesses = reads.iter().map(access(false)).chain(writes.iter().map(access(true))).collect();
        Launch { kernel: "", blocks: 1, threads: 1, shared: 0, arguments: vec![], maps: vec![], accesses }
    }

    #[test]
    fn launches_wait_for_what_they_need() {
        let call = [
            launch(&[0], &[100]),
            launch(&[0], &[200]),
            // Reads both.
            launch(&[98, 203], &[300]),
            // Reads what the last one wrote, and so comes after all.
            launch(&[100, 300], &[400]),
            // Overwrites what the third one read.
            launch(&[], &[202]),
            // Is next to others, but meets none.
            launch(&[104], &[92]),
        ];
        assert_eq!(waits(&[&call]), [vec![], vec![], vec![1, 0], vec![2], vec![2], vec![]]);
    }

    #[test]
    fn calls_wait_for_the_ends_of_the_call_before() {
        let call = [launch(&[0], &[100]), launch(&[100], &[200]), launch(&[0], &[300])];
        let other = [launch(&[], &[900]), launch(&[900], &[904])];
        assert_eq!(waits(&[&call, &other]), [vec![], vec![0], vec![], vec![1, 2], vec![3]]);
    }

    #[test]
    fn long_calls_wait_once_in_a_while() {
        let call: Vec<_> = (0..MOST as u64 + 2).map(|k| launch(&[], &[8 * k])).collect();
        let waits = waits(&[&call]);
        assert!(waits[..MOST].iter().all(Vec::is_empty));
        let all: Vec<usize> = (0..MOST).collect();
        assert_eq!(waits[MOST..], [all.clone(), all]);
    }
}
