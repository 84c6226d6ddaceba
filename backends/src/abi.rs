//! The calling convention of compiled kernels, once: for the code that emits them, the run time that calls them
//! and, later, the header of an object file.

use std::sync::atomic::AtomicBool;

/// A compiled kernel. It does the iterations `begin..end` of its outer loop (a kernel without such a loop
/// ignores them) and returns 0, or 1 after writing `fault`. Once it is cancelled it returns 0, whatever it has done.
///
/// # Safety
/// `buffers` points to the address of each buffer of the program, of as many bytes as its shape says; `sizes` to the
/// values of the program's table of sizes; `scratch` to as many bytes, aligned to [`SCRATCH_ALIGN`], as the kernel
/// asks for; `fault.cancelled`, but in objects, to a flag that lives as long as the call. No two calls that run at once share scratch
/// or iterations.
pub type KernelFn = unsafe extern "C" fn(
    buffers: *const *mut u8,
    sizes: *const i64,
    begin: i64,
    end: i64,
    scratch: *mut u8,
    fault: *mut FaultRecord,
) -> i32;

/// What a kernel that stops at a failed check leaves behind, and what it looks at to stop for another reason.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FaultRecord {
    /// The number of the check's site in the program.
    pub site: i64,
    /// The subscript.
    pub index: i64,
    /// One past the greatest legal subscript.
    pub bound: i64,
    /// What the kernel looks at as it runs: whether its results are no longer wanted. Objects have nobody who could say so, and do not look.
    pub cancelled: *const AtomicBool,
}

/// The alignment of scratch memory.
pub const SCRATCH_ALIGN: usize = 64;

/// The arguments of one matrix product over scratch panels or operands in place: `c = a * b + beta * c`. Strides
/// count elements.
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
    /// From a row of `a` to the next.
    pub a_row: i64,
    /// From a column of `a` to the next.
    pub a_column: i64,
    /// The right factor.
    pub b: *const u8,
    /// From a row of `b` to the next.
    pub b_row: i64,
    /// From a column of `b` to the next.
    pub b_column: i64,
    /// The result.
    pub c: *mut u8,
    /// From a row of `c` to the next.
    pub c_row: i64,
    /// From a column of `c` to the next.
    pub c_column: i64,
    /// 1 adds to `c`, 0 overwrites it.
    pub accumulate: i64,
    /// 1 if `b` is as in the call before, and `work` as that left it.
    pub laid: i64,
    /// Memory for laying out factors, where the product asks for it.
    pub work: *mut u8,
}
