//! Kernels on a GPU, and arrays in its memory.

mod arguments;

use std::sync::Arc;
#[cfg(feature = "reports")]
use std::time::Duration;

use backends::cuda::{self, Cache, DeviceArray, Gpu, Replay};
use backends::{Phases, cpu};
use ir::array::{Array, ArrayMut, ArrayRef};
use ir::nest::Program;
use schedule::{Machine, schedule};

use super::{Engine, on_cpu};
use crate::error::Context;
use crate::{CompileError, Kernel, Options, RunError, RunErrorKind};

pub use arguments::{DeviceInput, DeviceInputs, DeviceOutputs};

/// A kernel on a GPU.
pub(in crate::kernel) struct OnGpu {
    module: cuda::Module,
    cpu: cpu::Options,
}

impl Engine {
    /// The GPU that it runs on, if one is ready.
    fn on_gpu(&self) -> Option<&OnGpu> {
        match self {
            Engine::Gpu(gpu) => Some(gpu),
            Engine::Auto(either) => either.gpu.get()?.as_ref(),
            Engine::Cpu(_) | Engine::Interp(_) => None,
        }
    }
}

impl OnGpu {
    pub(super) fn new(program: &Program, options: &Options, cpu: cpu::Options) -> Result<OnGpu, CompileError> {
        let gpu = Gpu::get(0)?;
        let limit = options.max_device_memory.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let cache = options.cache.as_ref().map(Cache::new);
        let scheduled = schedule(program, Machine::PTX)?;
        Ok(OnGpu { module: cuda::Module::new(&gpu, &scheduled, options.math, limit, cache.as_ref())?, cpu })
    }

    /// Runs a call. A GPU finds subscripts out of bounds in no fixed order, so after a fault the
    /// CPU repeats the call to find the first.
    pub(in crate::kernel) fn run(
        &self,
        context: &Context<'_>,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        phases: Option<&mut Phases>,
    ) -> Result<(), RunError> {
        let failure = match self.module.run(inputs, outputs, phases) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if let cuda::Failure::Call(cpu::RunError::Fault(_)) = failure {
            let mut own = vec![];
            for output in outputs.iter() {
                own.push(crate::zeros(output.dtype(), output.shape()).map_err(|e| context.array(e))?);
            }
            let mut own: Vec<_> = own.iter_mut().map(Array::as_mut).collect();
            if let Ok(module) = on_cpu(context.program, &self.cpu)
                && let Err(error) = module.run(inputs, &mut own, 1)
            {
                return Err(context.cpu(error, inputs));
            }
        }
        Err(context.gpu(failure, inputs))
    }

    /// Whether the device is already open.
    pub(super) fn is_ready() -> bool {
        Gpu::is_ready(0)
    }
}

impl Kernel {
    /// The GPU that it runs on, if it is compiled for one.
    ///
    /// ```
    /// use fuseloop::{Device, Options, Program};
    ///
    /// let program = Program::parse("fn scaled(x: f32[n]) = x * 2")?;
    /// let options = Options { device: Device::Cpu, ..Options::default() };
    /// assert!(program.main()?.compile(&options)?.gpu().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.engine.on_gpu().map(|gpu| gpu.module.gpu())
    }

    /// The name of that GPU.
    #[cfg(feature = "reports")]
    pub(crate) fn gpu_name(&self) -> Option<String> {
        self.gpu().map(|gpu| gpu.facts().name.clone())
    }

    fn on_gpu(&self) -> Result<&OnGpu, RunError> {
        self.engine.on_gpu().ok_or_else(|| self.context().error(RunErrorKind::NotOnGpu))
    }

    /// Calls the function on arrays in the GPU's memory. Its kernels may still be running when this
    /// returns; later uses of the results wait for them. The arguments are a tuple of arrays and
    /// numbers, or a slice of arrays: [`DeviceInputs`]. Nothing is copied between the host and the
    /// GPU but numbers.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call`]; E0261 if the kernel runs elsewhere or the GPU fails, and E0242 if
    /// its memory does not suffice. A program whose subscripts are data is waited for, because its
    /// checks may fail.
    ///
    /// ```
    /// use fuseloop::{Array, Device, DeviceArray, Gpu, Options, Program};
    ///
    /// let Ok(gpu) = Gpu::get(0) else { return Ok(()) }; // there is none
    /// let program = Program::parse("fn scaled(x: f32[n], by: f32) = x * by")?;
    /// let kernel = program.main()?.compile(&Options { device: Device::Gpu, ..Options::default() })?;
    /// let x = Array::from_slice(&[3], &[1.0f32, 2.0, 3.0])?;
    /// let x = DeviceArray::upload(&gpu, x.as_ref())?;
    /// let twice = kernel.call_on_gpu((&x, 2.0f32))?.swap_remove(0);
    /// let results = kernel.call_on_gpu((&twice, 5.0f32))?; // nothing comes back in between
    /// assert_eq!(results[0].download()?.as_slice::<f32>()?, [10.0, 20.0, 30.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_on_gpu(&self, inputs: impl DeviceInputs) -> Result<Vec<DeviceArray>, RunError> {
        self.lent_on_gpu(inputs, |gpu, inputs| {
            let shapes = gpu.module.output_shapes(inputs).map_err(|e| self.context().gpu(e, inputs))?;
            let slots = self.signature.results.iter().zip(shapes);
            let made = slots.map(|(slot, shape)| DeviceArray::new(gpu.module.gpu(), slot.dtype, &shape));
            let made: Result<Vec<_>, _> = made.collect();
            let mut outputs = made.map_err(|e| self.context().gpu(e.into(), inputs))?;
            let mut written: Vec<&mut DeviceArray> = outputs.iter_mut().collect();
            gpu.module.enqueue(inputs, &mut written).map_err(|e| self.context().gpu(e, inputs))?;
            Ok(outputs)
        })
    }

    /// The same with the arguments by the names of the parameters, in any order.
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call_on_gpu`], and E0212 as for [`Kernel::call_named`].
    ///
    /// ```
    /// use fuseloop::{Device, DeviceArray, Dtype, Gpu, Options, Program};
    ///
    /// let Ok(gpu) = Gpu::get(0) else { return Ok(()) }; // there is none
    /// let program = Program::parse("fn axpy(a: f32, x: f32[n], y: f32[n]) = a * x + y")?;
    /// let kernel = program.main()?.compile(&Options { device: Device::Gpu, ..Options::default() })?;
    /// let x = DeviceArray::zeros(&gpu, Dtype::F32, &[1000])?;
    /// let out = kernel.call_on_gpu_named(&[("x", &x), ("y", &x), ("a", &3.0f32)])?;
    /// assert_eq!(out[0].shape(), [1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_on_gpu_named(&self, inputs: &[(&str, &dyn DeviceInput)]) -> Result<Vec<DeviceArray>, RunError> {
        self.call_on_gpu(&self.in_order(inputs)?)
    }

    /// Calls the function on arrays in the GPU's memory and writes its results to other such
    /// arrays, of the types and shapes of the results: a tuple of them, or a slice
    /// ([`DeviceOutputs`]).
    ///
    /// # Errors
    ///
    /// As [`Kernel::call_on_gpu`].
    ///
    /// ```
    /// use fuseloop::{Device, DeviceArray, Dtype, Gpu, Options, Program};
    ///
    /// let Ok(gpu) = Gpu::get(0) else { return Ok(()) }; // there is none
    /// let program = Program::parse("fn smoothed(x: f32[n]) { let y[i] = (x[i] + x[i + 1]) / 2; y }")?;
    /// let kernel = program.main()?.compile(&Options { device: Device::Gpu, ..Options::default() })?;
    /// let x = DeviceArray::zeros(&gpu, Dtype::F32, &[1000])?;
    /// let mut y = DeviceArray::new(&gpu, Dtype::F32, &[999])?;
    /// for _ in 0..10 {
    ///     kernel.call_on_gpu_into((&x,), (&mut y,))?; // into the same memory each time
    /// }
    /// gpu.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_on_gpu_into(&self, inputs: impl DeviceInputs, outputs: impl DeviceOutputs) -> Result<(), RunError> {
        self.lent_on_gpu(inputs, |gpu, inputs| {
            let done = outputs.with(|outputs| gpu.module.enqueue(inputs, outputs));
            done.map_err(|e| self.context().gpu(e, inputs))
        })
    }

    /// The shapes of the results of a call on a GPU, for callers that have memory of their own for
    /// them ([`Kernel::call_on_gpu_into`]).
    ///
    /// # Errors
    ///
    /// Those of [`Kernel::call_on_gpu`] that are found before anything runs.
    ///
    /// ```
    /// use fuseloop::{Device, DeviceArray, Dtype, Gpu, Options, Program};
    ///
    /// let Ok(gpu) = Gpu::get(0) else { return Ok(()) }; // there is none
    /// let program = Program::parse("fn differences(x: f32[n]) { let y[i] = x[i + 1] - x[i]; y }")?;
    /// let kernel = program.main()?.compile(&Options { device: Device::Gpu, ..Options::default() })?;
    /// let x = DeviceArray::zeros(&gpu, Dtype::F32, &[1000])?;
    /// assert_eq!(kernel.output_shapes_on_gpu((&x,))?, [[999]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_shapes_on_gpu(&self, inputs: impl DeviceInputs) -> Result<Vec<Vec<usize>>, RunError> {
        self.lent_on_gpu(inputs, |gpu, inputs| {
            gpu.module.output_shapes(inputs).map_err(|e| self.context().gpu(e, inputs))
        })
    }

    /// Lends the arguments to a call on the GPU.
    fn lent_on_gpu<T>(
        &self,
        inputs: impl DeviceInputs,
        call: impl FnOnce(&OnGpu, &[&DeviceArray]) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        self.enter(|| {
            let gpu = self.on_gpu()?;
            let none: [ArrayRef<'_>; 0] = [];
            let called = inputs.with(gpu.module.gpu(), |inputs| call(gpu, inputs));
            called.unwrap_or_else(|error| Err(self.context().gpu(error.into(), &none)))
        })
    }

    /// Arrays of the host, copied to the GPU's memory.
    #[cfg(feature = "reports")]
    pub(crate) fn upload(&self, arrays: &[Array]) -> Result<Vec<DeviceArray>, RunError> {
        let gpu = self.on_gpu()?.module.gpu();
        let none: [ArrayRef<'_>; 0] = [];
        let upload = |array: &Array| DeviceArray::upload(gpu, array.as_ref());
        arrays.iter().map(|a| upload(a).map_err(|e| self.context().gpu(e.into(), &none))).collect()
    }

    /// Like [`Kernel::call_on_gpu_into`], but waits, and adds the time of each kernel to its entry.
    #[cfg(feature = "reports")]
    pub(crate) fn call_timed_on_gpu(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        times: &mut [Duration],
    ) -> Result<(), RunError> {
        self.on_gpu()?.module.run_timed(inputs, outputs, times).map_err(|e| self.context().gpu(e, inputs))
    }

    /// How long a call takes when it is repeated `times` times, if it can be recorded.
    #[cfg(feature = "reports")]
    pub(crate) fn time_on_gpu(
        &self,
        inputs: &[&DeviceArray],
        outputs: &mut [&mut DeviceArray],
        times: u32,
    ) -> Result<Option<Duration>, RunError> {
        self.on_gpu()?.module.repeated(inputs, outputs, times).map_err(|e| self.context().gpu(e, inputs))
    }

    /// Prepares calls that are replayed together, each on inputs and results of its own: one launch
    /// of a CUDA graph, instead of one for each kernel.
    ///
    /// # Errors
    ///
    /// As [`Kernel::call_on_gpu`].
    ///
    /// ```
    /// use fuseloop::{Device, DeviceArray, Dtype, Gpu, Options, Program};
    ///
    /// let Ok(gpu) = Gpu::get(0) else { return Ok(()) }; // there is none
    /// let program = Program::parse("fn scaled(x: f32[n]) = x * 2")?;
    /// let kernel = program.main()?.compile(&Options { device: Device::Gpu, ..Options::default() })?;
    /// let array = || DeviceArray::zeros(&gpu, Dtype::F32, &[1000]);
    /// let replay = kernel.record(vec![(vec![array()?], vec![array()?])])?;
    /// println!("100 times: {:?}", replay.time(100)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record(&self, calls: Vec<(Vec<DeviceArray>, Vec<DeviceArray>)>) -> Result<Replay<'_>, RunError> {
        let none: [ArrayRef<'_>; 0] = [];
        self.on_gpu()?.module.record(calls).map_err(|e| self.context().gpu(e, &none))
    }
}
