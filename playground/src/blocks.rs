//! An allocator in front of another one. The compiler allocates many small values and soon frees
//! them: small blocks are of few sizes, and free ones of each size wait in a list of their own. They
//! go back to the other allocator never, since memory ends with the request.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;

/// Sizes of small blocks are multiples of this, and no alignment is greater.
const STEP: usize = 16;
/// The number of sizes.
const SIZES: usize = 64;
/// The bytes that are asked of the other allocator at once.
const CHUNK: usize = 1 << 16;

/// Small blocks of memory from a large allocator. For one thread alone.
pub(crate) struct Blocks<A> {
    large: A,
    /// For each size, the first free block; each begins with the address of the next one.
    free: [Cell<*mut u8>; SIZES],
    /// Memory that has not been used yet, and its bytes.
    rest: Cell<(*mut u8, usize)>,
}

// SAFETY: WebAssembly without the proposal for threads has one thread.
#[cfg(target_family = "wasm")]
unsafe impl<A> Sync for Blocks<A> {}

impl<A> Blocks<A> {
    pub(crate) const fn new(large: A) -> Blocks<A> {
        Blocks { large, free: [const { Cell::new(ptr::null_mut()) }; SIZES], rest: Cell::new((ptr::null_mut(), 0)) }
    }
}

/// The number of the size of a small block.
fn size(layout: Layout) -> Option<usize> {
    let is_small = (1..=STEP * SIZES).contains(&layout.size()) && layout.align() <= STEP;
    is_small.then(|| (layout.size() - 1) / STEP)
}

impl<A: GlobalAlloc> Blocks<A> {
    /// A block that has not been used yet.
    #[cold]
    fn carve(&self, size: usize) -> *mut u8 {
        let bytes = (size + 1) * STEP;
        let (mut start, mut left) = self.rest.get();
        if left < bytes {
            let Ok(chunk) = Layout::from_size_align(CHUNK, STEP) else { return ptr::null_mut() };
            // SAFETY: the size is not zero.
            (start, left) = (unsafe { self.large.alloc(chunk) }, CHUNK);
            if start.is_null() {
                return start;
            }
        }
        // SAFETY: the chunk has `left` bytes from `start`, at least as many as the block.
        self.rest.set((unsafe { start.add(bytes) }, left - bytes));
        start
    }
}

// SAFETY: a block that is handed out is as large and as aligned as the layout asks: its size is
// rounded up, and chunks and sizes are multiples of `STEP`. It comes from a chunk that is never
// freed, and is in no list until it is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Blocks<A> {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = size(layout) else {
            // SAFETY: as the caller promises.
            return unsafe { self.large.alloc(layout) };
        };
        let first = self.free[size].get();
        if first.is_null() {
            return self.carve(size);
        }
        // SAFETY: a free block begins with the address of the next one.
        self.free[size].set(unsafe { first.cast::<*mut u8>().read() });
        first
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(size) = size(layout) else {
            // SAFETY: as the caller promises; a block of this layout came from there.
            return unsafe { self.large.dealloc(block, layout) };
        };
        // SAFETY: the block is aligned for an address, at least as large, and no longer used.
        unsafe { block.cast::<*mut u8>().write(self.free[size].get()) };
        self.free[size].set(block);
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that this is a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        match (size(layout), size(wanted)) {
            (Some(old), Some(new)) if old == new => block,
            // SAFETY: as the caller promises; the block came from there.
            (None, None) => unsafe { self.large.realloc(block, layout, bytes) },
            // SAFETY: as the caller promises; the new block is another one, and both have at least
            // the bytes that are copied.
            _ => unsafe {
                let new = self.alloc(wanted);
                if !new.is_null() {
                    ptr::copy_nonoverlapping(block, new, layout.size().min(bytes));
                    self.dealloc(block, layout);
                }
                new
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    /// A block, its layout, and the byte that fills it.
    type Held = (*mut u8, Layout, u8);

    fn fill((block, layout, byte): Held) -> Held {
        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
        // SAFETY: the block is that large.
        unsafe { block.write_bytes(byte, layout.size()) };
        (block, layout, byte)
    }

    fn assert_filled((block, layout, byte): &Held, bytes: usize) {
        // SAFETY: the block is that large, and was filled.
        let found = unsafe { std::slice::from_raw_parts(*block, layout.size().min(bytes)) };
        assert!(found.iter().all(|one| one == byte), "{layout:?}");
    }

    #[test]
    fn blocks_are_apart_and_keep_their_bytes() {
        let blocks = Blocks::new(System);
        let mut held: Vec<Held> = vec![];
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        for _ in 0..50_000 {
            let (kind, bytes, byte) = (next(4), [1 + next(80), 1 + next(3000)][next(2)], next(256) as u8);
            if kind < 2 || held.is_empty() {
                let layout = Layout::from_size_align(bytes, 1 << next(7)).expect("a layout");
                // SAFETY: the size is not zero.
                held.push(fill((unsafe { blocks.alloc(layout) }, layout, byte)));
                continue;
            }
            let one = held.swap_remove(next(held.len()));
            assert_filled(&one, usize::MAX);
            let (block, layout, old) = one;
            if kind == 2 {
                // SAFETY: the block was made with this layout.
                unsafe { blocks.dealloc(block, layout) };
            } else {
                let wanted = Layout::from_size_align(bytes, layout.align()).expect("a layout");
                // SAFETY: the block was made with this layout, and the size is not zero.
                let block = unsafe { blocks.realloc(block, layout, bytes) };
                assert_filled(&(block, wanted, old), layout.size());
                held.push(fill((block, wanted, byte)));
            }
        }
        for one in held {
            assert_filled(&one, usize::MAX);
            // SAFETY: the block was made with this layout.
            unsafe { blocks.dealloc(one.0, one.1) };
        }
    }
}
