//! Arguments and results. An argument is looked at where it lies and never copied, so it has no
//! gaps between its elements; `_turned.py` sees to others. A result is the memory that the call
//! wrote, handed over.

use std::ffi::{c_int, c_long, c_ulong};
use std::ops::Range;
use std::ptr;
use std::slice;

use fuseloop::{Array, ArrayMut, ArrayRef, Device, Dtype, Scalar};
use numpy::PY_ARRAY_API;
use numpy::npyffi::{self, NPY_TYPES, NpyTypes, PyArrayObject, flags, get_type_object};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyTuple};
use smallvec::{SmallVec, smallvec};

use crate::device::{self, OnDevice};
use crate::dlpack::{self, MAX_RANK};
use crate::error::{numpy_name, refused};

/// One thing for each axis, argument or result. Few calls have more of them than fit in place.
pub(crate) type Few<T> = SmallVec<[T; 4]>;

/// The library that the results of a call go to: that of its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    NumPy,
    Torch,
    Jax,
}

/// An argument as it was given.
pub(crate) enum Argument<'py> {
    /// Elements in memory.
    View(View<'py>),
    /// Elements in the memory of a GPU.
    Device(OnDevice<'py>),
    /// A number of Python, which takes the type of its parameter.
    Number(Bound<'py, PyAny>),
}

/// Elements that somebody else owns, row-major.
pub(crate) struct View<'py> {
    pub(crate) dtype: Dtype,
    pub(crate) home: Home,
    shape: Few<usize>,
    data: *mut u8,
    len: usize,
    writable: bool,
    _owner: Owner<'py>,
}

/// The owner of the elements, which keeps them alive.
enum Owner<'py> {
    Object { _object: Bound<'py, PyAny> },
    Tensor { _tensor: dlpack::Tensor },
    Number(#[expect(dead_code, reason = "the view points into it")] Box<[u8; 8]>),
}

impl<'py> View<'py> {
    /// Reads an object that is not a number, and not on a GPU; `name` is the parameter, and
    /// `declared` its type.
    fn of(object: &Bound<'py, PyAny>, name: &str, declared: &str) -> PyResult<View<'py>> {
        let py = object.py();
        // SAFETY: `object` is a live object.
        if unsafe { npyffi::PyArray_Check(py, object.as_ptr()) } != 0 {
            // SAFETY: as above.
            if unsafe { npyffi::PyArray_CheckExact(py, object.as_ptr()) } == 0 && object.hasattr("filled")? {
                let message = format!("`{name}` is a masked array, and the language has no masks");
                return Err(refused(py, message, format!("pass {name}.filled(...), and the mask as another argument")));
            }
            return View::of_numpy(object.clone(), name);
        }
        if object.hasattr("__dlpack__")? {
            let lent = dlpack::take(object, name, None)?;
            let home = home_of(object)?;
            let dlpack::Lent { dtype, rank, shape, data, owner } = lent;
            let owner = Owner::Tensor { _tensor: owner };
            // JAX's arrays are immutable.
            let shape = Few::from_slice(&shape[..rank]);
            return View::new((dtype, home), shape, data, home != Home::Jax, owner, name, py);
        }
        if is_scalar_of_numpy(object) {
            // SAFETY: `object` is a NumPy scalar, and this makes an array without axes from it.
            let array = unsafe {
                let made = PY_ARRAY_API.PyArray_FromScalar(py, object.as_ptr(), ptr::null_mut());
                Bound::from_owned_ptr_or_err(py, made)?
            };
            return View::of_numpy(array, name);
        }
        let memory = py.import("builtins")?.getattr("memoryview")?.call1((object,));
        if let Ok(memory) = memory
            && !object.is_instance_of::<PyList>()
        {
            return View::of_numpy(numpy(py)?.call_method1("asarray", (memory,))?, name);
        }
        let kind = object.get_type().name()?;
        let message = format!("`{name}` is {declared}, an object of type `{kind}` was given");
        let element = declared.split('[').next().unwrap_or_default();
        Err(refused(py, message, format!("pass numpy.asarray({name}, dtype=numpy.{})", numpy_name(element))))
    }

    fn of_numpy(object: Bound<'py, PyAny>, name: &str) -> PyResult<View<'py>> {
        let py = object.py();
        let array = object.as_ptr().cast::<PyArrayObject>();
        // SAFETY: `object` is a NumPy array, so it has this layout, and `object` keeps it alive.
        let (array, descr) = unsafe { (&*array, &*(*array).descr) };
        let Some(dtype) = dtype_of(descr.type_num) else {
            return of_other_type(object.clone(), name);
        };
        if !matches!(descr.byteorder as u8, b'=' | b'|') && !is_native(descr.byteorder as u8) {
            let message = format!("`{name}` has its bytes in the order of another machine");
            let help = format!("pass {name}.astype({name}.dtype.newbyteorder('='))");
            return Err(refused(py, message, help));
        }
        View::of_dense(object.clone(), array, dtype, name)
    }

    fn of_dense(object: Bound<'py, PyAny>, array: &PyArrayObject, dtype: Dtype, name: &str) -> PyResult<View<'py>> {
        let py = object.py();
        if array.flags & flags::NPY_ARRAY_C_CONTIGUOUS == 0 {
            return Err(not_dense(py, name, &format!("numpy.ascontiguousarray({name})")));
        }
        let rank = array.nd as usize;
        if rank > MAX_RANK {
            return Err(refused(py, format!("`{name}` has {rank} axes, more than {MAX_RANK}"), "reshape it"));
        }
        // SAFETY: an array has as many lengths as axes, none below 0.
        let shape = (0..rank).map(|axis| unsafe { *array.dimensions.add(axis) } as usize).collect();
        let writable = array.flags & flags::NPY_ARRAY_WRITEABLE != 0;
        let data = array.data.cast();
        View::new((dtype, Home::NumPy), shape, data, writable, Owner::Object { _object: object }, name, py)
    }

    fn new(
        (dtype, home): (Dtype, Home),
        shape: Few<usize>,
        data: *mut u8,
        writable: bool,
        owner: Owner<'py>,
        name: &str,
        py: Python<'py>,
    ) -> PyResult<View<'py>> {
        let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
        let empty = shape.contains(&0);
        let len = if empty { Some(0) } else { count.and_then(|count| count.checked_mul(dtype.bytes())) };
        let Some(len) = len else {
            return Err(refused(py, format!("`{name}` is larger than memory can be"), "pass a smaller array"));
        };
        Ok(View { dtype, home, shape, data, len, writable, _owner: owner })
    }

    /// A view of one number.
    fn of_number(value: Scalar) -> View<'static> {
        let mut bytes = Box::new([0; 8]);
        let array = Array::scalar(value);
        bytes[..array.bytes().len()].copy_from_slice(array.bytes());
        let (data, len) = (bytes.as_mut_ptr(), array.bytes().len());
        let owner = Owner::Number(bytes);
        View { dtype: value.dtype(), home: Home::NumPy, shape: Few::new(), data, len, writable: false, _owner: owner }
    }

    /// The elements, to be read.
    pub(crate) fn read(&self, py: Python<'_>, name: &str) -> PyResult<ArrayRef<'_>> {
        // SAFETY: the owner keeps `len` bytes at `data` alive as long as `self`. That nobody
        // writes to them during the call is what the documentation asks of the caller, as NumPy
        // does where it releases the interpreter's lock.
        let bytes = if self.len == 0 { &[] } else { unsafe { slice::from_raw_parts(self.data, self.len) } };
        ArrayRef::new(self.dtype, &self.shape, bytes)
            .map_err(|e| refused(py, format!("`{name}`: {e}"), format!("pass {name}.astype(bool)")))
    }

    /// The elements, to be written.
    pub(crate) fn write(&mut self, py: Python<'_>, name: &str) -> PyResult<ArrayMut<'_>> {
        if !self.writable {
            return Err(read_only(py, name));
        }
        // SAFETY: as in `read`, and `apart` has found that no other argument of the call overlaps.
        let bytes = if self.len == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(self.data, self.len) } };
        ArrayMut::new(self.dtype, &self.shape, bytes)
            .map_err(|e| refused(py, format!("`{name}`: {e}"), "pass another array"))
    }

    /// The addresses of its elements.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.data.addr()..self.data.addr() + self.len
    }

    /// The number, if it has no axes; `None` if it has some.
    pub(crate) fn number(&self, py: Python<'_>, name: &str) -> PyResult<Option<Scalar>> {
        let array = self.read(py, name)?;
        let mut word = [0; 8];
        if !self.shape.is_empty() {
            return Ok(None);
        }
        word[..self.len].copy_from_slice(array.bytes());
        Ok(Some(Scalar::from_bits(self.dtype, u64::from_le_bytes(word))))
    }
}

/// The library that an array comes from.
pub(crate) fn home_of(object: &Bound<'_, PyAny>) -> PyResult<Home> {
    let module: String = object.get_type().getattr(intern!(object.py(), "__module__"))?.extract()?;
    Ok(match module.split('.').next() {
        Some("torch") => Home::Torch,
        Some("jax" | "jaxlib") => Home::Jax,
        _ => Home::NumPy,
    })
}

/// The error of an array that cannot be written to.
pub(crate) fn read_only(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("the array to write `{name}` to is read-only");
    refused(py, message, "pass another, or leave `out` away")
}

/// An array of a type that is no plain number: `bfloat16` of `ml_dtypes`, or none of the language.
fn of_other_type<'py>(object: Bound<'py, PyAny>, name: &str) -> PyResult<View<'py>> {
    let py = object.py();
    let dtype = object.getattr("dtype")?;
    let kind: String = dtype.getattr("name")?.extract()?;
    if kind == "bfloat16" {
        // SAFETY: `object` is a NumPy array.
        let array = unsafe { &*object.as_ptr().cast::<PyArrayObject>() };
        return View::of_dense(object.clone(), array, Dtype::Bf16, name);
    }
    let help = "the language has bool, integers of 8 to 64 bits and floats of 16 to 64 bits: convert it with astype";
    Err(refused(py, format!("`{name}` has elements of type {kind}"), help))
}

/// The error of elements that are not one after another.
pub(crate) fn not_dense(py: Python<'_>, name: &str, copy: &str) -> PyErr {
    let message = format!("the elements of `{name}` are not one after another in memory, row by row");
    refused(py, message, format!("pass {copy}, or take the slice or the transpose in the program"))
}

fn is_native(byteorder: u8) -> bool {
    byteorder == if cfg!(target_endian = "little") { b'<' } else { b'>' }
}

fn is_scalar_of_numpy(object: &Bound<'_, PyAny>) -> bool {
    let py = object.py();
    // SAFETY: `object` is a live object.
    unsafe { ffi::PyObject_TypeCheck(object.as_ptr(), get_type_object(py, NpyTypes::PyGenericArrType_Type)) != 0 }
}

/// The element type of NumPy's number for a type.
fn dtype_of(number: c_int) -> Option<Dtype> {
    const fn signed<T>() -> Dtype {
        if size_of::<T>() == 8 { Dtype::I64 } else { Dtype::I32 }
    }
    const fn unsigned<T>() -> Dtype {
        if size_of::<T>() == 8 { Dtype::U64 } else { Dtype::U32 }
    }
    const TYPES: [Dtype; 13] = [
        Dtype::Bool,
        Dtype::I8,
        Dtype::U8,
        Dtype::I16,
        Dtype::U16,
        Dtype::I32,
        Dtype::U32,
        signed::<c_long>(),
        unsigned::<c_ulong>(),
        Dtype::I64,
        Dtype::U64,
        Dtype::F32,
        Dtype::F64,
    ];
    match usize::try_from(number) {
        Ok(number) if number < TYPES.len() => Some(TYPES[number]),
        Ok(number) if number == NPY_TYPES::NPY_HALF as usize => Some(Dtype::F16),
        _ => None,
    }
}

/// NumPy's description of an element type, a new reference.
fn descr(py: Python<'_>, dtype: Dtype) -> PyResult<*mut npyffi::PyArray_Descr> {
    static BF16: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let number = match dtype {
        Dtype::Bool => NPY_TYPES::NPY_BOOL,
        Dtype::I8 => NPY_TYPES::NPY_BYTE,
        Dtype::U8 => NPY_TYPES::NPY_UBYTE,
        Dtype::I16 => NPY_TYPES::NPY_SHORT,
        Dtype::U16 => NPY_TYPES::NPY_USHORT,
        Dtype::I32 => NPY_TYPES::NPY_INT,
        Dtype::U32 => NPY_TYPES::NPY_UINT,
        Dtype::I64 if size_of::<c_long>() == 8 => NPY_TYPES::NPY_LONG,
        Dtype::I64 => NPY_TYPES::NPY_LONGLONG,
        Dtype::U64 if size_of::<c_ulong>() == 8 => NPY_TYPES::NPY_ULONG,
        Dtype::U64 => NPY_TYPES::NPY_ULONGLONG,
        Dtype::F16 => NPY_TYPES::NPY_HALF,
        Dtype::F32 => NPY_TYPES::NPY_FLOAT,
        Dtype::F64 => NPY_TYPES::NPY_DOUBLE,
        Dtype::Bf16 => {
            let descr = BF16.get_or_try_init(py, || {
                let Ok(module) = py.import("ml_dtypes") else {
                    let message = "a result has elements of type bf16, which NumPy lacks";
                    return Err(refused(
                        py,
                        message,
                        "install ml_dtypes, or convert the result in the program: f32(...)",
                    ));
                };
                Ok(numpy(py)?.call_method1("dtype", (module.getattr("bfloat16")?,))?.unbind())
            })?;
            return Ok(descr.clone_ref(py).into_ptr().cast());
        }
    };
    // SAFETY: the number is one of NumPy's own types.
    Ok(unsafe { PY_ARRAY_API.PyArray_DescrFromType(py, number as c_int) })
}

/// The module `numpy`.
pub(crate) fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module = NUMPY.get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.into_any().unbind()))?;
    Ok(module.bind(py).clone())
}

impl<'py> Argument<'py> {
    /// Looks at the argument for a parameter with this name and type, of a program for `device`.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        name: &str,
        declared: &str,
        device: Device,
    ) -> PyResult<Argument<'py>> {
        let number = object.is_exact_instance_of::<PyFloat>()
            || object.is_exact_instance_of::<PyInt>()
            || object.is_exact_instance_of::<PyBool>();
        if number {
            return Ok(Argument::Number(object.clone()));
        }
        // SAFETY: `object` is a live object.
        let of_numpy = unsafe { npyffi::PyArray_Check(object.py(), object.as_ptr()) } != 0;
        Ok(match if of_numpy { None } else { device::way(object)? } {
            Some(way) => Argument::Device(OnDevice::of(object, &way, name, device)?),
            None => Argument::View(View::of(object, name, declared)?),
        })
    }

    /// Whether the elements are in the memory of a GPU.
    pub(crate) fn is_on_device(&self) -> bool {
        matches!(self, Argument::Device(_))
    }

    /// The library that the argument comes from.
    pub(crate) fn home(&self) -> Home {
        match self {
            Argument::View(view) => view.home,
            Argument::Device(array) => array.home,
            Argument::Number(_) => Home::NumPy,
        }
    }

    /// The elements in the host's memory, where a number becomes one of type `dtype`.
    pub(crate) fn view(self, py: Python<'py>, name: &str, dtype: Dtype) -> PyResult<View<'py>> {
        match self {
            Argument::View(view) => Ok(view),
            Argument::Device(_) => Err(elsewhere(py, name)),
            Argument::Number(number) => {
                let Some(value) = scalar(&number, dtype)? else {
                    let message = format!("`{name}` is {dtype}, {} is not a value of that type", written(&number)?);
                    let help = format!(
                        "pass numpy.{}(...) of it, or declare the parameter otherwise",
                        numpy_name(&dtype.to_string())
                    );
                    return Err(refused(number.py(), message, help));
                };
                Ok(View::of_number(value))
            }
        }
    }

    /// The type of the elements; a number has none yet.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        match self {
            Argument::View(view) => Some(view.dtype),
            Argument::Device(array) => Some(array.dtype),
            Argument::Number(_) => None,
        }
    }
}

/// The error of an array on a GPU where others are not.
pub(crate) fn elsewhere(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("`{name}` is in the memory of a GPU, and another array of the call is not");
    refused(py, message, "keep all arrays of a call on the GPU, or none")
}

/// A number of Python as the language writes it.
fn written(number: &Bound<'_, PyAny>) -> PyResult<String> {
    match number.is_exact_instance_of::<PyBool>() {
        true => Ok(number.is_truthy()?.to_string()),
        false => Ok(number.str()?.to_string()),
    }
}

/// A number of Python as one of a type, without a change of kind: no float becomes an integer, and
/// a truth value stays one. `None` if it is none, or too large.
fn scalar(number: &Bound<'_, PyAny>, dtype: Dtype) -> PyResult<Option<Scalar>> {
    let is_bool = number.is_exact_instance_of::<PyBool>();
    if is_bool != (dtype == Dtype::Bool) {
        return Ok(None);
    }
    Ok(match dtype {
        Dtype::F64 => number.extract().ok().map(Scalar::F64),
        Dtype::F32 => {
            let wide: Option<f64> = number.extract().ok();
            #[expect(clippy::cast_possible_truncation, reason = "a number takes the precision of its parameter")]
            let narrow = wide.map(|wide| (wide, wide as f32));
            narrow.filter(|(wide, narrow)| wide.is_infinite() || !narrow.is_infinite()).map(|(_, n)| Scalar::F32(n))
        }
        _ => {
            let text = written(number)?;
            Scalar::parse(dtype, &text).filter(|value| !overflowed(*value, &text))
        }
    })
}

/// Whether a finite number became infinite.
fn overflowed(value: Scalar, text: &str) -> bool {
    let infinite = match value {
        Scalar::F16(v) => v.is_infinite(),
        Scalar::Bf16(v) => v.is_infinite(),
        _ => false,
    };
    infinite && !text.contains("inf")
}

/// A result: it owns its elements, and lends them to NumPy arrays and, by DLPack, to tensors.
#[pyclass(frozen, module = "fuseloop._native")]
pub(crate) struct Buffer {
    array: Array,
}

#[pymethods]
impl Buffer {
    #[pyo3(signature = (**_options))]
    fn __dlpack__<'py>(slf: &Bound<'py, Buffer>, _options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let array = &slf.get().array;
        let place = (slf.get().__dlpack_device__(), array.bytes().as_ptr().addr());
        dlpack::give(slf.py(), (array.dtype(), array.shape()), place, slf.clone().into_any().unbind())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }
}

/// A result as an array of the library that the arguments came from.
pub(crate) fn result<'py>(py: Python<'py>, array: Array, home: Home) -> PyResult<Bound<'py, PyAny>> {
    match home {
        Home::NumPy => of_numpy(py, array),
        Home::Torch | Home::Jax => taken_by(py, home, Bound::new(py, Buffer { array })?.into_any()),
    }
}

/// A result that offers DLPack as an array of another library.
pub(crate) fn taken_by<'py>(py: Python<'py>, home: Home, made: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static TORCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static JAX: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (lock, module) = match home {
        Home::NumPy => return Ok(made),
        Home::Torch => (&TORCH, "torch"),
        Home::Jax => (&JAX, "jax.dlpack"),
    };
    let take = lock.get_or_try_init(py, || Ok::<_, PyErr>(py.import(module)?.getattr("from_dlpack")?.unbind()))?;
    take.bind(py).call1((made,))
}

/// A result as an array of NumPy.
pub(crate) fn of_numpy<'py>(py: Python<'py>, mut array: Array) -> PyResult<Bound<'py, PyAny>> {
    let descr = descr(py, array.dtype())?;
    let rank = array.shape().len();
    let data = array.bytes_mut().as_mut_ptr().cast();
    if rank == 0 {
        // SAFETY: `data` has one element of the type, which is copied; the reference to `descr` is
        // not taken over, so it is dropped here.
        return unsafe {
            let scalar = PY_ARRAY_API.PyArray_Scalar(py, data, descr, ptr::null_mut());
            ffi::Py_DECREF(descr.cast());
            Bound::from_owned_ptr_or_err(py, scalar)
        };
    }
    let mut shape = [0; MAX_RANK];
    for (to, from) in shape.iter_mut().zip(array.shape()) {
        *to = *from as npyffi::npy_intp;
    }
    let owner = Bound::new(py, Buffer { array })?;
    // SAFETY: `data` has the elements of the shape, row-major, as long as `owner` lives, and the
    // array gets the only reference to that. `descr` is taken over. To move an `Array` does not
    // move its elements.
    unsafe {
        let class = get_type_object(py, NpyTypes::PyArray_Type);
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr,
            rank as c_int,
            shape.as_mut_ptr(),
            ptr::null_mut(),
            data,
            flags::NPY_ARRAY_CARRAY,
            ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, made.as_ptr().cast(), owner.into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(made)
    }
}

/// The arrays that `out` names, one for each result.
pub(crate) fn outputs<'py>(out: &Bound<'py, PyAny>, results: &[&str], device: Device) -> PyResult<Vec<Argument<'py>>> {
    let given: Few<Bound<'py, PyAny>> = match out.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => match out.cast::<PyList>() {
            Ok(list) => list.iter().collect(),
            Err(_) => smallvec![out.clone()],
        },
    };
    let read = |(at, object): (usize, &Bound<'py, PyAny>)| {
        let name = results.get(at).copied().unwrap_or("out");
        if object.is_none() {
            let message = format!("there is no array to write `{name}` to");
            return Err(refused(object.py(), message, "pass an array for each result"));
        }
        match Argument::of(object, name, "an array to write to", device)? {
            Argument::Number(_) => View::of(object, name, "an array to write to").map(Argument::View),
            found => Ok(found),
        }
    };
    given.iter().enumerate().map(read).collect()
}
