//! Zeroed memory for arrays, in huge pages if it is large enough.

use std::alloc::Layout;

/// Allocations of at least this many bytes ask for huge pages: a page fault costs about the same
/// for any page size, and random accesses miss the TLB less often.
#[cfg(any(target_os = "linux", test))]
const LARGE: usize = 4 << 20;

/// Asks for huge pages for memory that we own and have not touched yet.
pub(crate) fn in_large_pages(first: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        let begin = first.addr().next_multiple_of(PAGE);
        let end = (first.addr() + bytes) / PAGE * PAGE;
        // SAFETY: the range consists of whole pages inside our own allocation, and is not empty
        // because the allocation is longer than two pages. The advice does not change contents, and
        // a refusal has no effect.
        unsafe { libc::madvise(first.with_addr(begin).cast(), end.saturating_sub(begin), libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, bytes);
}

/// The largest base page size of the supported systems. `madvise` needs a range of whole pages.
#[cfg(target_os = "linux")]
const PAGE: usize = 1 << 16;

/// Allocates `count` words of zeros, or returns `None` if that fails. The system provides each page
/// when it is first written.
pub fn zeroed_words(count: usize) -> Option<Vec<u64>> {
    let layout = Layout::array::<u64>(count).ok()?;
    if layout.size() == 0 {
        return Some(vec![]);
    }
    // SAFETY: the layout is not empty.
    let first = unsafe { std::alloc::alloc_zeroed(layout) };
    if first.is_null() {
        return None;
    }
    in_large_pages(first, layout.size());
    // SAFETY: the global allocator returned it for a layout of `count` words, all of them zero.
    Some(unsafe { Vec::from_raw_parts(first.cast(), count, count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zeros_at_any_count() {
        for count in [0, 1, 1000, LARGE / 8 - 1, LARGE / 8, LARGE / 8 + 70_001] {
            let mut words = zeroed_words(count).unwrap();
            assert!(words.len() == count && words.iter().all(|word| *word == 0));
            words.iter_mut().for_each(|word| *word = 1);
            words.push(2);
        }
        assert_eq!(zeroed_words(usize::MAX / 8), None);
        assert_eq!(zeroed_words(usize::MAX), None);
    }
}
