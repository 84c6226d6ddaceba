//! The calling convention of compiled kernels, shared by the code that emits them, the run time
//! that calls them and the headers of object files.

use std::sync::atomic::AtomicBool;

/// A compiled kernel. It runs the iterations `begin..end` of its outermost loop; a kernel without
/// one ignores the range. It returns 0, or 1 after it has written `fault`. A cancelled kernel
/// returns 0 as well, with its work incomplete.
///
/// # Safety
/// `buffers` points to the address of each buffer of the program, and each buffer has as many bytes
/// as its shape says. `sizes` points to the values of the program's table of sizes. `scratch`
/// points to as many bytes as the kernel requires, aligned to [`SCRATCH_ALIGN`]. `fault.cancelled`
/// points to a flag that lives as long as the call, except in objects, which have none. Concurrent
/// calls share neither scratch nor iterations.
pub type KernelFn = unsafe extern "C" fn(
    buffers: *const *mut u8,
    sizes: *const i64,
    begin: i64,
    end: i64,
    scratch: *mut u8,
    fault: *mut FaultRecord,
) -> i32;

/// Where a kernel reports a failed check, and where it polls for cancellation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FaultRecord {
    /// The number of the check's site in the program.
    pub site: i64,
    /// The subscript.
    pub index: i64,
    /// One past the greatest legal subscript.
    pub bound: i64,
    /// The flag that the kernel polls: set once its results are no longer wanted. Kernels in
    /// objects do not poll, because no one could set the flag.
    pub cancelled: *const AtomicBool,
}

/// The alignment of scratch memory.
pub const SCRATCH_ALIGN: usize = 64;

/// The arguments of one matrix product, `c = a * b + beta * c`, over packed panels in scratch or
/// over operands in place. Strides count elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GemmCall {
    /// Rows of `a` and `c`.
    pub m: i64,
    /// Columns of `a`, rows of `b`.
    pub k: i64,
    /// Columns of `b` and `c`.
    pub n: i64,
    /// The left factor.
    pub a: *const u8,
    /// The stride between rows of `a`.
    pub a_row: i64,
    /// The stride between columns of `a`.
    pub a_column: i64,
    /// If `a` has no constant strides: how far each of its rows is from its first element.
    pub a_rows: *const i64,
    /// If `a` has no constant strides: how far each column is from the row's beginning.
    pub a_columns: *const i64,
    /// The right factor.
    pub b: *const u8,
    /// The stride between rows of `b`.
    pub b_row: i64,
    /// The stride between columns of `b`.
    pub b_column: i64,
    /// As of `a`.
    pub b_rows: *const i64,
    /// As of `a`.
    pub b_columns: *const i64,
    /// The result.
    pub c: *mut u8,
    /// The stride between rows of `c`.
    pub c_row: i64,
    /// The stride between columns of `c`.
    pub c_column: i64,
    /// If `a` is some rows of a matrix and `b` all of it, turned: the number of the first of these
    /// rows, else -1. `c` is then as many rows of a square. A call stores the elements from the
    /// square's diagonal on, and those left of it that mirror them, in rows of other calls.
    pub own: i64,
    /// 1 adds to `c`, 0 overwrites it.
    pub accumulate: i64,
    /// Whether `b` is in `work` already.
    pub packed: Packed,
    /// Memory to pack factors in, if the product asks for it.
    pub work: *mut u8,
}

/// How much of the right factor the working memory of a matrix product holds, packed.
#[repr(i64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Nothing.
    No = 0,
    /// All of it, from the call before.
    Before = 1,
    /// All of it, if an earlier call was for the factor at the same address: factors do not change
    /// between such calls. The first of them finds zeros at the beginning of the memory.
    Stays = 2,
}
