//! DLPack: arrays of torch, JAX and others in the memory of this machine, without a copy in either
//! direction. <https://dmlc.github.io/dlpack/latest/> describes the structures.

use std::ffi::{CStr, c_void};
use std::ptr;

use fuseloop::Dtype;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::refused;

/// The greatest rank of the language.
pub(crate) const MAX_RANK: usize = 16;

const FRESH: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

/// `kDLCPU`, and `kDLCUDAHost`: pinned memory, which the CPU reads like any other.
const ON_THE_CPU: [i32; 2] = [1, 3];

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    rank: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The type codes of DLPack, with the types that they stand for.
const TYPES: [(u8, u8, Dtype); 13] = [
    (0, 8, Dtype::I8),
    (0, 16, Dtype::I16),
    (0, 32, Dtype::I32),
    (0, 64, Dtype::I64),
    (1, 8, Dtype::U8),
    (1, 16, Dtype::U16),
    (1, 32, Dtype::U32),
    (1, 64, Dtype::U64),
    (2, 16, Dtype::F16),
    (2, 32, Dtype::F32),
    (2, 64, Dtype::F64),
    (4, 16, Dtype::Bf16),
    (6, 8, Dtype::Bool),
];

/// An array that another library lends until this is dropped.
pub(crate) struct Tensor(*mut Managed);

/// Where the elements of a lent array are.
pub(crate) struct Lent {
    pub(crate) dtype: Dtype,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MAX_RANK],
    pub(crate) data: *mut u8,
    pub(crate) owner: Tensor,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the structure was taken out of its capsule, so this is its only owner, and it
        // lives until its deleter has run.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

/// The array behind an object that has `__dlpack__`; `name` is the argument, for errors. With a
/// stream it has to be on a GPU, and its owner lets that stream wait for what is computed, or none
/// if it is -1.
pub(crate) fn take(object: &Bound<'_, PyAny>, name: &str, stream: Option<i64>) -> PyResult<Lent> {
    let py = object.py();
    let options = PyDict::new(py);
    if let Some(stream) = stream {
        options.set_item(intern!(py, "stream"), stream)?;
    }
    let capsule = object.call_method(intern!(py, "__dlpack__"), (), Some(&options))?;
    // SAFETY: `capsule` is a live object. A capsule of this name holds a pointer to a managed
    // tensor, which belongs to whoever renames the capsule.
    let managed = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), FRESH.as_ptr()) == 0 {
            return Err(PyBufferError::new_err(format!("`__dlpack__` of `{name}` gives no DLPack capsule")));
        }
        let managed = ffi::PyCapsule_GetPointer(capsule.as_ptr(), FRESH.as_ptr()).cast::<Managed>();
        ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr());
        managed
    };
    let owner = Tensor(managed);
    // SAFETY: `owner` keeps the structure alive.
    let tensor = unsafe { &(*managed).tensor };
    if stream.is_none() && !ON_THE_CPU.contains(&tensor.device_type) {
        return Err(refused(py, format!("`{name}` is not in the memory of the CPU"), format!("pass {name}.cpu()")));
    }
    let found = TYPES.iter().find(|(code, bits, _)| (*code, *bits) == (tensor.code, tensor.bits));
    let Some((.., dtype)) = found.filter(|_| tensor.lanes == 1) else {
        return Err(refused(py, format!("`{name}` has elements of a type that the language lacks"), "convert it"));
    };
    let rank = usize::try_from(tensor.rank).unwrap_or(usize::MAX);
    if rank > MAX_RANK {
        return Err(refused(py, format!("`{name}` has {rank} axes, more than {MAX_RANK}"), "reshape it"));
    }
    let mut shape = [0; MAX_RANK];
    let mut strides = [0; MAX_RANK];
    for axis in 0..rank {
        // SAFETY: both have `rank` elements; strides may be absent.
        unsafe {
            shape[axis] = usize::try_from(*tensor.shape.add(axis)).unwrap_or(usize::MAX);
            strides[axis] = if tensor.strides.is_null() { -1 } else { *tensor.strides.add(axis) };
        }
    }
    if !tensor.strides.is_null() && !is_dense(&shape[..rank], &strides[..rank]) {
        return Err(crate::arrays::not_dense(py, name, &format!("{name}.contiguous()")));
    }
    let offset = usize::try_from(tensor.offset).unwrap_or(usize::MAX);
    Ok(Lent { dtype: *dtype, rank, shape, data: tensor.data.cast::<u8>().wrapping_add(offset), owner })
}

/// Whether elements with these strides are one after another, row-major.
pub(crate) fn is_dense(shape: &[usize], strides: &[i64]) -> bool {
    let mut expected: i64 = 1;
    let axes = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || axes.into_iter().all(|(&length, &stride)| {
            let fits = length == 1 || stride == expected;
            expected = expected.saturating_mul(i64::try_from(length).unwrap_or(i64::MAX));
            fits
        })
}

/// An exported result: the structure that its receiver reads, and what keeps its memory alive.
struct Exported {
    managed: Managed,
    shape: Vec<i64>,
    _owner: Py<PyAny>,
}

/// A capsule with a result of a type and a shape, on a device at an address; `owner` keeps its
/// memory alive.
pub(crate) fn give<'py>(
    py: Python<'py>,
    (dtype, shape): (Dtype, &[usize]),
    ((device_type, device_id), address): ((i32, i32), usize),
    owner: Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (code, bits, _) = TYPES.iter().find(|(.., known)| *known == dtype).expect("all types are listed");
    let shape: Vec<i64> = shape.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
    let tensor = DlTensor {
        data: ptr::with_exposed_provenance_mut(address),
        device_type,
        device_id,
        rank: shape.len() as i32,
        code: *code,
        bits: *bits,
        lanes: 1,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        offset: 0,
    };
    let managed = Managed { tensor, context: ptr::null_mut(), deleter: Some(release) };
    let exported = Box::into_raw(Box::new(Exported { managed, shape, _owner: owner }));
    // SAFETY: the box is live; its context leads `release` back to it. The capsule owns it until a
    // receiver renames the capsule.
    unsafe {
        (*exported).managed.tensor.shape = (*exported).shape.as_mut_ptr();
        (*exported).managed.context = exported.cast();
        let pointer = (&raw mut (*exported).managed).cast();
        let capsule = ffi::PyCapsule_New(pointer, FRESH.as_ptr(), Some(release_unused));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Called by the receiver when it no longer needs the memory, on any thread.
unsafe extern "C" fn release(managed: *mut Managed) {
    // SAFETY: `give` made the structure and pointed its context at the box around it, and a
    // receiver calls this once.
    let mut exported = unsafe { Some(Box::from_raw((*managed).context.cast::<Exported>())) };
    Python::try_attach(|_| drop(exported.take()));
    // Where the interpreter is gone, so is the memory's owner.
    std::mem::forget(exported);
}

/// Called when a capsule goes away; unless a receiver renamed it, nobody took its contents.
unsafe extern "C" fn release_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that `give` made.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, FRESH.as_ptr()) != 0 {
            release(ffi::PyCapsule_GetPointer(capsule, FRESH.as_ptr()).cast());
        }
    }
}
