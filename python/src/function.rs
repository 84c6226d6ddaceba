//! A function of a program, compiled when it is first called.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fuseloop::{
    Array, ArrayMut, ArrayRef, CallOptions, Device, Dtype, Emit, Function as Source, Kernel, Options, RunError,
    Signature, Style,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::arrays::{self, Argument, Few, Home, View};
use crate::blocks::{self, Stage};
use crate::device;
use crate::error;
use crate::interrupt;
use crate::module::{Module, Text};
use crate::reports::{Benchmark, Explanation};

/// A function of a program. Calling it with NumPy arrays, or with tensors of torch or JAX, gives
/// its result, or a named tuple of its results, as arrays of the same library. Arguments must be of
/// the type of their parameter, and nobody may write to them during the call. They are read where
/// they lie; only small views are copied. The interpreter is free meanwhile, and Ctrl-C ends a call
/// on the CPU.
///
/// `out` is an array, or one for each result, to write to. `threads` is the number of threads that
/// may work on the call; 0 stands for one a core. `stream` is the CUDA stream to order a call with
/// whose arrays are in the memory of a GPU, by default those of the arrays' libraries.
#[pyclass(frozen, dict, module = "fuseloop")]
pub(crate) struct Function {
    text: Arc<Text>,
    name: String,
    /// The types of the parameters as the program writes them.
    declared: Vec<String>,
    narrow: Instance,
    /// The function for arguments in `f64`, if a parameter is a `float`.
    wide: Option<Instance>,
    /// The class of several results.
    tuple: Option<Py<PyAny>>,
}

/// A function for one type of `float`.
struct Instance {
    signature: Signature,
    kernel: OnceLock<Kernel>,
    /// The kernel for arrays on a GPU, where the other one may run on either device.
    on_gpu: OnceLock<Kernel>,
}

impl Instance {
    fn result_names(&self) -> Few<&str> {
        self.signature.results.iter().map(|slot| slot.name.as_str()).collect()
    }

    fn new(source: Source<'_>) -> Instance {
        Instance { signature: source.signature().clone(), kernel: OnceLock::new(), on_gpu: OnceLock::new() }
    }
}

impl Function {
    /// The function of this name, if the module has one. Its documentation is the comment above it.
    pub(crate) fn find(py: Python<'_>, text: &Arc<Text>, name: &str) -> PyResult<Option<Py<Function>>> {
        let Ok(source) = text.program.function(name) else { return Ok(None) };
        let narrow = Instance::new(source);
        let wide = source.for_f64().map(Instance::new);
        let fields = narrow.signature.results.iter().map(|slot| slot.name.as_str());
        let tuple = match narrow.signature.results.len() {
            1 => None,
            _ => {
                let options = PyDict::new(py);
                options.set_item("rename", true)?;
                options.set_item("module", "fuseloop")?;
                let class = py.import("collections")?.getattr("namedtuple")?;
                Some(class.call((name, fields.collect::<Vec<_>>()), Some(&options))?.unbind())
            }
        };
        let (comment, signature) = (source.comment(), narrow.signature.to_string());
        let gap = if comment.is_empty() { "" } else { "\n\n" };
        let declared = narrow.signature.params.iter().map(fuseloop::Slot::ty).collect();
        let function = Function { text: Arc::clone(text), name: name.to_owned(), declared, narrow, wide, tuple };
        let function = Bound::new(py, function)?;
        // In the dictionary of the object these come before those of the class.
        function.setattr("__name__", name)?;
        let own = function.getattr("__dict__")?;
        own.set_item("__doc__", format!("{comment}{gap}{signature}"))?;
        own.set_item("_tuple", &function.get().tuple)?;
        Ok(Some(function.unbind()))
    }

    /// The function in its program.
    fn source(&self, wide: bool) -> Source<'_> {
        let function = self.text.program.function(&self.name).expect("`find` has found it");
        if wide { function.for_f64().expect("`find` has found it") } else { function }
    }

    fn kernel<'a>(&'a self, py: Python<'_>, instance: &'a Instance) -> PyResult<&'a Kernel> {
        self.compiled(py, instance, &instance.kernel, &self.text.options)
    }

    /// The kernel for arrays in the memory of a GPU.
    fn kernel_on_gpu<'a>(&'a self, py: Python<'_>, instance: &'a Instance) -> PyResult<&'a Kernel> {
        match self.text.options.device {
            Device::Gpu => self.kernel(py, instance),
            _ => {
                let options = Options { device: Device::Gpu, ..self.text.options.clone() };
                self.compiled(py, instance, &instance.on_gpu, &options)
            }
        }
    }

    fn compiled<'a>(
        &self,
        py: Python<'_>,
        instance: &Instance,
        known: &'a OnceLock<Kernel>,
        options: &Options,
    ) -> PyResult<&'a Kernel> {
        if let Some(kernel) = known.get() {
            return Ok(kernel);
        }
        let wide = !std::ptr::eq(instance, &raw const self.narrow);
        let kernel = py.detach(|| self.source(wide).compile(options)).map_err(|e| error::of_compiling(py, &e))?;
        Ok(known.get_or_init(|| kernel))
    }

    /// The instance for these arguments: `f64` if an argument for a `float` is, or if all of these
    /// are numbers of Python.
    fn instance(&self, arguments: &[Argument<'_>]) -> &Instance {
        let Some(wide) = &self.wide else { return &self.narrow };
        let params = self.narrow.signature.params.iter().zip(&wide.signature.params);
        let floats = params.zip(arguments).filter(|((narrow, wide), _)| narrow.dtype != wide.dtype);
        let mut types = floats.filter_map(|(_, argument)| argument.dtype()).peekable();
        if types.peek().is_none() || types.any(|dtype| dtype == Dtype::F64) { wide } else { &self.narrow }
    }

    /// The arguments in the order of the parameters, with `out`, `threads` and `stream`.
    fn arguments<'py>(&self, args: &Bound<'py, PyTuple>, kwargs: Option<&Bound<'py, PyDict>>) -> PyResult<Given<'py>> {
        let params = &self.narrow.signature.params;
        let mut objects: Few<Option<Bound<'py, PyAny>>> = args.iter().map(Some).collect();
        let (mut out, mut threads, mut stream) = (None, 0, None);
        for (key, value) in kwargs.into_iter().flatten() {
            let key = key.cast_into::<PyString>()?;
            match key.to_str()? {
                "out" => out = Some(value).filter(|value| !value.is_none()),
                "threads" => threads = if value.is_none() { 0 } else { value.extract()? },
                "stream" if params.iter().all(|slot| slot.name != "stream") => {
                    stream = Some(value).filter(|value| !value.is_none());
                }
                key => {
                    let Some(at) = params.iter().position(|slot| slot.name == key) else {
                        let message = format!("{}() has no parameter `{key}`: {}", self.name, self.narrow.signature);
                        return Err(PyTypeError::new_err(message));
                    };
                    objects.resize(objects.len().max(at + 1), None);
                    if objects[at].replace(value).is_some() {
                        return Err(PyTypeError::new_err(format!("{}() got `{key}` twice", self.name)));
                    }
                }
            }
        }
        let found = objects.iter().filter(|object| object.is_some()).count();
        if found != params.len() || objects.len() != params.len() {
            let message =
                format!("{}() takes {} arguments, {found} given: {}", self.name, params.len(), self.narrow.signature);
            return Err(PyTypeError::new_err(message));
        }
        let declared = params.iter().zip(&self.declared);
        let read = |(object, (slot, declared)): (Option<Bound<'py, PyAny>>, (&fuseloop::Slot, &String))| {
            Argument::of(&object.expect("all were counted"), &slot.name, declared, self.text.options.device)
        };
        let arguments = objects.into_iter().zip(declared).map(read).collect::<PyResult<Vec<_>>>()?;
        Ok(Given { arguments, out, threads, stream })
    }

    /// Calls the kernel with the lock released, and again if Ctrl-C ended the call and the
    /// program's handler did not raise.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        threads: usize,
        mut call: impl FnMut(&CallOptions<'_>) -> Result<T, RunError> + Send,
    ) -> PyResult<T> {
        loop {
            let cancel = interrupt::watch();
            let done = py.detach(|| call(&CallOptions { threads, cancel }));
            match done {
                Err(_) if cancel.is_some_and(fuseloop::Cancel::is_cancelled) => py.check_signals()?,
                done => return done.map_err(|e| error::of_call(py, &e)),
            }
        }
    }
}

/// The arguments and options of a call.
struct Given<'py> {
    arguments: Vec<Argument<'py>>,
    out: Option<Bound<'py, PyAny>>,
    threads: usize,
    stream: Option<Bound<'py, PyAny>>,
}

/// The library that the results go to.
fn home(homes: impl Iterator<Item = Home>) -> Home {
    let mut homes = homes;
    homes.find(|home| *home != Home::NumPy).unwrap_or(Home::NumPy)
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Function>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().call(args, kwargs).or_else(|error| {
            // Perhaps an array is a view, with gaps or with its axes in another order.
            let turned = slf.py().import("fuseloop._turned")?.getattr("call")?.call1((slf, args, kwargs))?;
            if turned.is_none() { Err(error) } else { Ok(turned) }
        })
    }

    /// The names of the parameters.
    #[getter]
    fn names(&self) -> Vec<&str> {
        self.narrow.signature.params.iter().map(|slot| slot.name.as_str()).collect()
    }

    /// Whether each parameter is a `float`.
    #[getter]
    fn floats(&self) -> Vec<bool> {
        let wide = |at: usize| self.wide.as_ref().map(|wide| wide.signature.params[at].dtype);
        let params = self.narrow.signature.params.iter().enumerate();
        params.map(|(at, slot)| wide(at).is_some_and(|dtype| dtype != slot.dtype)).collect()
    }
    /// The parameters, the results and the conditions that the sizes of a call must meet, as text.
    #[getter]
    fn signature(&self) -> String {
        self.narrow.signature.to_string()
    }

    /// The type of each parameter.
    #[getter]
    fn params(&self) -> &[String] {
        &self.declared
    }

    /// The type of each result.
    #[getter]
    fn results(&self) -> Vec<String> {
        self.narrow.signature.results.iter().map(fuseloop::Slot::ty).collect()
    }

    /// The module that the function is part of.
    #[getter]
    fn module(&self) -> Module {
        Module::of(Arc::clone(&self.text))
    }

    /// Explains how fusion changes the function, with numbers for the sizes that are given by name.
    #[pyo3(signature = (**sizes))]
    fn explain(&self, py: Python<'_>, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<Explanation> {
        let sizes = sizes_of(sizes)?;
        let options = &self.text.options;
        let explained = py.detach(|| self.source(false).explain(options, &named(&sizes)));
        explained.map(Explanation::new).map_err(|e| error::of_explaining(py, &e))
    }

    /// Measures the function with and without fusion. A size that is not given is made large.
    #[pyo3(signature = (**sizes))]
    fn bench(&self, py: Python<'_>, sizes: Option<&Bound<'_, PyDict>>) -> PyResult<Benchmark> {
        let sizes = sizes_of(sizes)?;
        let options = &self.text.options;
        let measured = py.detach(|| self.source(false).bench(options, &named(&sizes), &mut |_| ()));
        measured.map(Benchmark::new).map_err(|e| error::of_bench(py, &e))
    }

    /// Checks that the function compiles, and gives its signature.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        for instance in std::iter::once(&self.narrow).chain(&self.wide) {
            self.kernel(py, instance)?;
        }
        Ok(self.signature())
    }

    /// The function as text at a later stage: `ir`, `schedule`, `clif`, `asm`, `ptx` or `cuda`.
    fn emit(&self, py: Python<'_>, stage: &str) -> PyResult<String> {
        let emit = match stage {
            "ir" => Emit::Ir,
            "schedule" => Emit::Schedule,
            "clif" => Emit::Clif,
            "asm" => Emit::Asm,
            "ptx" => Emit::Ptx,
            "cuda" => Emit::Cuda,
            _ => {
                return Err(error::refused(
                    py,
                    format!("there is no stage `{stage}`"),
                    "name ir, schedule, clif, asm, ptx or cuda",
                ));
            }
        };
        let options = &self.text.options;
        py.detach(|| self.source(false).emit(options, emit)).map_err(|e| error::of_compiling(py, &e))
    }

    /// The derivative of the function as a program, to read and change: in the parameters that are
    /// named, or else in all of floats. A `float` is an `f32` there. To call a derivative, take
    /// `fuseloop.grad`.
    #[pyo3(signature = (*wrt))]
    fn gradient(&self, py: Python<'_>, wrt: Vec<String>) -> PyResult<String> {
        py.detach(|| self.text.gradient(&self.name, &wrt)).map_err(|errors| error::of_source(py, &errors))
    }

    /// How its arrays may be cut into blocks, a dictionary for each group of axes that are cut
    /// together.
    #[pyo3(signature = (wide=false))]
    fn _cuts<'py>(&self, py: Python<'py>, wide: bool) -> PyResult<Bound<'py, PyList>> {
        blocks::cuts(py, self.source(wide && self.wide.is_some()).partition().cuts())
    }

    /// The values of its sizes for arguments of these shapes and values, and the stages in which it
    /// is computed where these cuts are made.
    fn _stages<'py>(
        &self,
        py: Python<'py>,
        given: &Bound<'py, PyTuple>,
        cuts: Vec<usize>,
        wide: bool,
    ) -> PyResult<(Vec<i64>, Bound<'py, PyList>)> {
        let instance = self.wide.as_ref().filter(|_| wide).unwrap_or(&self.narrow);
        let dtypes: Vec<Dtype> = instance.signature.params.iter().map(|slot| slot.dtype).collect();
        let sizes = self.kernel(py, instance)?.sizes(&blocks::outlines(given, &dtypes)?);
        let sizes = sizes.map_err(|e| error::of_call(py, &e))?;
        let partition = self.source(wide && self.wide.is_some()).partition();
        let planned = partition.blocks(&cuts).map_err(|e| error::of_cut(py, &e))?;
        let outline = blocks::outline(py, &planned.outline(&sizes))?;
        Ok((sizes, outline))
    }

    /// A compiled stage.
    fn _stage(&self, py: Python<'_>, cuts: Vec<usize>, number: usize, wide: bool) -> PyResult<Stage> {
        Stage::new(py, &self.text, self.source(wide && self.wide.is_some()), &cuts, number)
    }

    fn __repr__(&self) -> String {
        format!("<fuseloop function {}>", self.narrow.signature.to_string().lines().next().unwrap_or_default())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Named<'_>)> {
        let get = py.import("operator")?.getattr("getitem")?;
        Ok((get, (self.module(), &self.name)))
    }
}

impl Function {
    fn call<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let Given { arguments, out, threads, stream } = self.arguments(args, kwargs)?;
        let instance = self.instance(&arguments);
        if arguments.iter().any(Argument::is_on_device) {
            return self.call_on_device(py, instance, arguments, out, stream.as_ref());
        }
        if stream.is_some() {
            let message = "`stream` orders calls on arrays in the memory of a GPU, and none is there";
            return Err(error::refused(py, message, "leave `stream` away"));
        }
        let kernel = self.kernel(py, instance)?;
        let params = &instance.signature.params;
        let views = arguments.into_iter().zip(params).map(|(argument, slot)| argument.view(py, &slot.name, slot.dtype));
        let views = views.collect::<PyResult<Vec<View<'py>>>>()?;
        let read = |(view, slot): (_, &fuseloop::Slot)| View::read(view, py, &slot.name);
        let inputs = views.iter().zip(params).map(read).collect::<PyResult<Few<ArrayRef<'_>>>>()?;
        let Some(out) = out else {
            let arrays: Vec<Array> = self.run(py, threads, |options| kernel.call_with(inputs.as_slice(), options))?;
            let home = home(views.iter().map(|view| view.home));
            return self.returned(py, arrays.into_iter().map(|array| arrays::result(py, array, home)));
        };
        let names = instance.result_names();
        let name = |at: usize| names.get(at).copied().unwrap_or("out");
        let outs = arrays::outputs(&out, &names, self.text.options.device)?.into_iter().enumerate();
        let outs = outs.map(|(at, out)| match out {
            Argument::View(view) => Ok(view),
            _ => Err(arrays::elsewhere(py, name(at))),
        });
        let mut outs = outs.collect::<PyResult<Vec<View<'py>>>>()?;
        let addresses = |views: &[View<'_>]| views.iter().map(View::addresses).collect::<Few<_>>();
        self.hold_apart(py, &addresses(&outs), &addresses(&views), &names)?;
        let written = outs.iter_mut().enumerate().map(|(at, view)| view.write(py, name(at)));
        let mut written = written.collect::<PyResult<Few<ArrayMut<'_>>>>()?;
        self.run(py, threads, |options| kernel.call_into_with(inputs.as_slice(), written.as_mut_slice(), options))?;
        Ok(out)
    }

    /// Calls the function on arrays in the memory of a GPU, and numbers.
    fn call_on_device<'py>(
        &self,
        py: Python<'py>,
        instance: &Instance,
        arguments: Vec<Argument<'py>>,
        out: Option<Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let home = home(arguments.iter().map(Argument::home));
        let mut numbers: Vec<Option<View<'py>>> = vec![];
        let mut there: Vec<Option<device::OnDevice<'py>>> = vec![];
        for (argument, slot) in arguments.into_iter().zip(&instance.signature.params) {
            match argument {
                Argument::Device(array) => (there.push(Some(array)), numbers.push(None)),
                other => (there.push(None), numbers.push(Some(other.view(py, &slot.name, slot.dtype)?))),
            };
        }
        let mut inputs = vec![];
        for ((slot, array), number) in instance.signature.params.iter().zip(&there).zip(&numbers) {
            let given = match (array, number) {
                (Some(array), _) => device::Given::There(array),
                (None, Some(number)) => match number.number(py, &slot.name)? {
                    Some(number) => device::Given::Number(number),
                    None => return Err(not_there(py, &slot.name)),
                },
                (None, None) => unreachable!("each argument is one of both"),
            };
            inputs.push((given, slot.name.as_str()));
        }
        let names = instance.result_names();
        let name = |at: usize| names.get(at).copied().unwrap_or("out");
        let mut outs = None;
        if let Some(out) = &out {
            let given = arrays::outputs(out, &names, self.text.options.device)?.into_iter().enumerate();
            let given = given.map(|(at, out)| match out {
                Argument::Device(array) => Ok(array),
                _ => Err(not_there(py, name(at))),
            });
            let given = given.collect::<PyResult<Vec<device::OnDevice<'py>>>>()?;
            let written: Vec<_> = given.iter().map(device::OnDevice::addresses).collect();
            let read = |array: &Option<device::OnDevice<'_>>| array.as_ref().map_or(0..0, device::OnDevice::addresses);
            self.hold_apart(py, &written, &there.iter().map(read).collect::<Vec<_>>(), &names)?;
            outs = Some(given);
        }
        let kernel = self.kernel_on_gpu(py, instance)?;
        let outputs = outs.as_ref().map(|outs| outs.iter().enumerate().map(|(at, out)| (out, name(at))).collect());
        let types = instance.signature.results.iter().map(|slot| slot.dtype).collect();
        let results = device::Call { kernel, inputs, outputs, stream, types, home }.run(py)?;
        match out {
            Some(out) => Ok(out),
            None => self.returned(py, results.into_iter().map(Ok)),
        }
    }

    fn returned<'py>(
        &self,
        py: Python<'py>,
        mut made: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.tuple {
            None => made.next().expect("a function has a result"),
            Some(class) => {
                let results = made.collect::<PyResult<Vec<_>>>()?;
                class.bind(py).call1(PyTuple::new(py, results)?)
            }
        }
    }

    /// Refuses to write to memory that the call reads, or twice to the same.
    fn hold_apart(
        &self,
        py: Python<'_>,
        outs: &[Range<usize>],
        inputs: &[Range<usize>],
        names: &[&str],
    ) -> PyResult<()> {
        let is_apart =
            |a: &Range<usize>, b: &Range<usize>| a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start;
        let help = "pass another array, or leave `out` away";
        let name = |at: usize| names.get(at).copied().unwrap_or("out");
        for (at, out) in outs.iter().enumerate() {
            if let Some(input) = inputs.iter().position(|input| !is_apart(out, input)) {
                let param = &self.narrow.signature.params[input].name;
                let message = format!("the array to write `{}` to shares memory with the argument `{param}`", name(at));
                return Err(error::refused(py, message, help));
            }
            if let Some(other) = outs[..at].iter().position(|other| !is_apart(out, other)) {
                let message = format!("the arrays to write `{}` and `{}` to share memory", name(other), name(at));
                return Err(error::refused(py, message, help));
            }
        }
        Ok(())
    }
}

/// The error of an array that is not on the GPU where others are.
fn not_there(py: Python<'_>, name: &str) -> PyErr {
    let message = format!("`{name}` is in the memory of the host, and another array of the call in that of a GPU");
    error::refused(py, message, "copy it to the GPU, or keep all arrays of a call on the host")
}

/// A function by its module and its name, as it is pickled.
type Named<'a> = (Module, &'a str);

/// The sizes that a report is asked for.
fn sizes_of(sizes: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, i64)>> {
    let pairs = sizes.into_iter().flatten().map(|(name, size)| Ok((name.extract()?, size.extract()?)));
    pairs.collect()
}

fn named(sizes: &[(String, i64)]) -> Vec<(&str, i64)> {
    sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect()
}

/// The style of everything that is text.
pub(crate) const STYLE: Style = Style::Plain;
