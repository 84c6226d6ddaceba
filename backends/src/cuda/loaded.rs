//! A program's kernels loaded on a device, as the [`Device`] that `crate::ptx` runs programs on.
//! Kernels are loaded when calls first need them. Launches that repeat are recorded as a CUDA
//! graph, which costs half a microsecond per kernel instead of three.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{DriverError, sys};

use super::cache::Cache;
use super::clock::Clock;
use super::code::Code;
use super::error::Error;
use super::gpu::Gpu;
use crate::ptx::{Device, Facts, Launch, TensorMap};

/// A program's kernels on a device.
pub struct Loaded {
    gpu: Arc<Gpu>,
    /// Where assembled kernels are kept.
    cache: Option<Cache>,
    /// The kernels loaded so far, by name, and their modules.
    functions: BTreeMap<String, Function>,
    codes: Vec<Arc<Code>>,
}

/// A loaded kernel, and how much dynamic shared memory its launches may use.
struct Function {
    handle: sys::CUfunction,
    shared: u32,
}

// SAFETY: the driver's handles may be used from any thread; the context is made current before each
// use.
unsafe impl Send for Loaded {}

/// Launches recorded as a CUDA graph.
pub struct Recording {
    /// The modules of its kernels; dropping one waits for all launches.
    _codes: Vec<Arc<Code>>,
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
}

// SAFETY: a graph may be used from any thread, by one at a time: it is launched through `&mut
// Loaded` alone.
unsafe impl Send for Recording {}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: this recording owns both, and nothing uses them any more. The driver keeps a
        // graph that is still running until it is done, and its kernels' code outlives this.
        unsafe {
            if !self.ready.is_null() {
                _ = sys::cuGraphExecDestroy(self.ready);
            }
            _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

/// The parameters of a launch. A kernel of ours has a single one, a block of memory, and its
/// tensor maps. One of another compiler has one for each argument, in one block of memory.
struct Parameters {
    memory: *mut c_void,
    bytes: usize,
    maps: Vec<sys::CUtensorMap>,
    each: Vec<*mut c_void>,
    extra: [*mut c_void; 5],
}

impl Parameters {
    fn of(launch: &Launch<'_>, gpu: &Gpu) -> Result<Parameters, Error> {
        let maps = launch.maps.iter().map(|map| encoded(map).map_err(gpu.failed("describe an array")));
        Ok(Parameters {
            memory: launch.arguments.as_ptr().cast_mut().cast(),
            bytes: launch.arguments.len(),
            maps: maps.collect::<Result<_, _>>()?,
            each: vec![],
            extra: [std::ptr::null_mut(); 5],
        })
    }

    /// For a launch, the address of each parameter, or options that say where all of them are.
    /// One of the two is null. Both are valid as long as these and the launch are.
    fn pointers(&mut self) -> (*mut *mut c_void, *mut *mut c_void) {
        if self.maps.is_empty() {
            let [end, pointer, size] = [0, 1, 2].map(std::ptr::without_provenance_mut);
            self.extra = [pointer, self.memory, size, (&raw mut self.bytes).cast(), end];
            return (std::ptr::null_mut(), self.extra.as_mut_ptr());
        }
        let maps = self.maps.iter_mut().map(|map| std::ptr::from_mut(map).cast());
        self.each = std::iter::once(self.memory).chain(maps).collect();
        (self.each.as_mut_ptr(), std::ptr::null_mut())
    }
}

/// A tensor map as the device's copies read it.
fn encoded(map: &TensorMap) -> Result<sys::CUtensorMap, DriverError> {
    use sys::CUtensorMapDataType_enum as Kind;
    let kind = match map.width {
        8 => Kind::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        4 => Kind::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        2 => Kind::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        _ => Kind::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    };
    let steps = vec![1; map.counts.len()];
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: each list has an entry for each dimension, `strides` one less. The map is as long
    // and as aligned as its type says. Nothing at the address is read.
    let done = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut encoded,
            kind,
            u32::try_from(map.counts.len()).unwrap_or(0),
            std::ptr::without_provenance_mut(usize::try_from(map.address).unwrap_or(0)),
            map.counts.as_ptr(),
            map.strides.as_ptr(),
            map.sides.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle_enum::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    done.result().map(|()| encoded)
}

impl Loaded {
    pub(super) fn new(gpu: &Arc<Gpu>, cache: Option<&Cache>) -> Loaded {
        Loaded { gpu: Arc::clone(gpu), cache: cache.cloned(), functions: BTreeMap::new(), codes: vec![] }
    }

    /// The kernel of a launch, allowed to use the launch's dynamic shared memory.
    fn function(&mut self, launch: &Launch<'_>) -> Result<sys::CUfunction, Error> {
        let name = launch.kernel;
        let missing = || Error::Rejected(format!("no kernel {name} is ready"));
        let function = self.functions.get_mut(name).ok_or_else(missing)?;
        // A kernel may only use that much dynamic shared memory after its limit has been raised.
        if launch.shared > function.shared {
            let bytes = i32::try_from(launch.shared).unwrap_or(i32::MAX);
            let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the module of the function is loaded.
            unsafe { sys::cuFuncSetAttribute(function.handle, most, bytes) }
                .result()
                .map_err(self.gpu.failed("give a kernel its memory"))?;
            function.shared = launch.shared;
        }
        Ok(function.handle)
    }

    /// Adds a node for each launch, which depends on those of the launches that it waits for.
    fn add(&mut self, graph: sys::CUgraph, launches: &[Launch<'_>], waits: &[Vec<usize>]) -> Result<(), Error> {
        let mut nodes: Vec<sys::CUgraphNode> = vec![];
        for (launch, waits) in launches.iter().zip(waits) {
            let mut parameters = Parameters::of(launch, &self.gpu)?;
            let (each, extra) = parameters.pointers();
            let node = sys::CUDA_KERNEL_NODE_PARAMS {
                func: self.function(launch)?,
                gridDimX: launch.blocks,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: launch.threads,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: launch.shared,
                kernelParams: each,
                extra,
                kern: std::ptr::null_mut(),
                ctx: std::ptr::null_mut(),
            };
            let mut made = std::ptr::null_mut();
            let after: Vec<sys::CUgraphNode> = waits.iter().map(|number| nodes[*number]).collect();
            let (after, count) = (after.as_ptr(), after.len());
            // SAFETY: the graph exists, and the `count` previous nodes belong to it. The function
            // takes parameters of these sizes, which the driver copies before it returns.
            unsafe { sys::cuGraphAddKernelNode_v2(&raw mut made, graph, after, count, &raw const node) }
                .result()
                .map_err(self.gpu.failed("record a kernel"))?;
            nodes.push(made);
        }
        Ok(())
    }
}

impl Device for Loaded {
    type Error = Error;
    type Recording = Recording;

    fn available(&mut self) -> Result<Option<usize>, Error> {
        self.gpu.available().map(Some)
    }

    fn facts(&self) -> Facts {
        self.gpu.limits
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, Error> {
        self.gpu.allocate(bytes)
    }

    fn free(&mut self, address: u64) {
        self.gpu.free(address);
    }

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        self.gpu.upload(to, bytes)
    }

    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.gpu.download(from, bytes)
    }

    fn prepare(&mut self, names: &BTreeSet<&str>, text: &str) -> Result<(), Error> {
        let code = Code::new(&self.gpu, text, self.cache.as_ref())?;
        for name in names {
            let function = Function { handle: code.function(name)?, shared: 0 };
            self.functions.insert((*name).to_owned(), function);
        }
        self.codes.push(code);
        Ok(())
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Error> {
        self.gpu.enter()?;
        let function = self.function(launch)?;
        let mut parameters = Parameters::of(launch, &self.gpu)?;
        let (each, extra) = parameters.pointers();
        let stream = self.gpu.stream;
        let Launch { blocks, threads, shared, .. } = *launch;
        // SAFETY: the function belongs to a loaded module, and takes parameters of these sizes,
        // which the driver copies before it returns. Its code accesses the buffers at these
        // addresses in bounds: the checker has proved each subscript, or the call was checked
        // against what the proof requires, or the code checks it; and fusion changes no subscript.
        // `Runner` is the only caller that launches programs.
        unsafe { sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, each, extra) }
            .result()
            .map_err(self.gpu.failed("launch a kernel"))
    }

    fn timed(&mut self, launches: &[Launch<'_>]) -> Result<Vec<Duration>, Error> {
        let gpu = Arc::clone(&self.gpu);
        let mut clock = Clock::start(&gpu)?;
        for launch in launches {
            self.launch(launch)?;
            clock.mark()?;
        }
        clock.laps()
    }

    fn record(&mut self, launches: &[Launch<'_>], waits: &[Vec<usize>]) -> Result<Option<Recording>, Error> {
        self.gpu.enter()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: it writes a handle.
        unsafe { sys::cuGraphCreate(&raw mut graph, 0) }.result().map_err(self.gpu.failed("begin a graph"))?;
        let mut recording = Recording { _codes: self.codes.clone(), graph, ready: std::ptr::null_mut() };
        self.add(graph, launches, waits)?;
        // SAFETY: the graph is there.
        unsafe { sys::cuGraphInstantiateWithFlags(&raw mut recording.ready, graph, 0) }
            .result()
            .map_err(self.gpu.failed("make a graph"))?;
        Ok(Some(recording))
    }

    fn replay(&mut self, recording: &Recording) -> Result<(), Error> {
        self.gpu.enter()?;
        // SAFETY: the graph exists, and nothing else launches it: this device is borrowed. The
        // caller that asked for the recording owns the memory that its kernels access and keeps
        // both together (`Frame`, `Replay`); accesses are in bounds as in `launch`.
        unsafe { sys::cuGraphLaunch(recording.ready, self.gpu.stream) }
            .result()
            .map_err(self.gpu.failed("launch a graph"))
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.gpu.wait()
    }
}
