//! Assembles PTX with the driver and loads the machine code. Loaded modules are shared by text for
//! as long as anyone uses them.

use std::ffi::{CString, c_void};
use std::sync::{Arc, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUjit_option as JitOption};

use super::cache::{Cache, Key};
use super::error::{Error, words};
use super::gpu::Gpu;

/// A loaded module of machine code.
pub struct Code {
    gpu: Arc<Gpu>,
    module: sys::CUmodule,
}

// SAFETY: the driver's handles may be used from any thread; the context is made current before each
// use.
unsafe impl Send for Code {}
// SAFETY: as above; the driver locks what it must.
unsafe impl Sync for Code {}

/// The size of the driver's error log in bytes.
const LOG: usize = 8192;

/// Texts whose kernels multiply by warp groups say this. The driver gives machine code to keep only
/// for linking, and where other code might call a kernel, products wait for each other.
/// So these texts are not assembled to be kept in our cache; the driver has one of its own.
const WARP_GROUPS: &str = "wgmma.";

impl Code {
    /// Returns the code of a text: a module that is already loaded, an entry of the cache, or a
    /// fresh assembly, in this order.
    pub(super) fn new(gpu: &Arc<Gpu>, text: &str, cache: Option<&Cache>) -> Result<Arc<Code>, Error> {
        let mut codes = gpu.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = codes.get(text).and_then(std::sync::Weak::upgrade) {
            return Ok(code);
        }
        gpu.enter()?;
        let loaded = match cache.filter(|_| !text.contains(WARP_GROUPS)) {
            None => load_text(text),
            Some(cache) => {
                let key = Key::new(text, gpu.facts());
                // A cached module may fail to load, for example after a downgrade of the driver:
                // assemble it then.
                match cache.get(&key).and_then(|cubin| load(gpu, &cubin).ok()) {
                    Some(module) => Ok(module),
                    None => assemble(gpu, text).and_then(|cubin| {
                        cache.put(&key, &cubin);
                        load(gpu, &cubin)
                    }),
                }
            }
        };
        let code = Arc::new(Code { gpu: Arc::clone(gpu), module: loaded? });
        codes.retain(|_, code| code.strong_count() > 0);
        codes.insert(text.to_owned(), Arc::downgrade(&code));
        Ok(code)
    }

    /// Looks up a kernel. The handle is valid for as long as `self` lives.
    pub(super) fn function(&self, name: &str) -> Result<sys::CUfunction, Error> {
        self.gpu.enter()?;
        let symbol = CString::new(name).map_err(|_| Error::Rejected("a zero byte".into()))?;
        // SAFETY: the module is loaded.
        let found = unsafe { result::module::get_function(self.module, symbol) };
        found.map_err(self.gpu.failed("find a kernel"))
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if self.gpu.wait().is_ok() {
            // SAFETY: the module is loaded, and none of its code is running: the only stream was
            // synchronized, and a launch would have to hold this value.
            _ = unsafe { result::module::unload(self.module) };
        }
    }
}

/// The driver's log of errors, as options of its functions.
struct Log {
    text: Vec<u8>,
    options: [JitOption; 2],
    values: [*mut c_void; 2],
}

impl Log {
    fn new() -> Log {
        let mut text = vec![0u8; LOG];
        let options = [JitOption::CU_JIT_ERROR_LOG_BUFFER, JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let values = [text.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG)];
        Log { text, options, values }
    }

    /// An error of the driver, with the words of its log.
    fn error(&self, error: result::DriverError) -> Error {
        let end = self.text.iter().position(|byte| *byte == 0).unwrap_or(self.text.len());
        Error::Rejected(format!("{}: {}", words(error), String::from_utf8_lossy(&self.text[..end]).trim()))
    }
}

/// Has the driver assemble and load a text, in the current context.
fn load_text(text: &str) -> Result<sys::CUmodule, Error> {
    let text = CString::new(text).map_err(|_| Error::Rejected("a zero byte".into()))?;
    let mut log = Log::new();
    let mut module = std::ptr::null_mut();
    let (options, values) = (log.options.as_mut_ptr(), log.values.as_mut_ptr());
    // SAFETY: the text ends with a zero. There are as many options as values, of the types that the
    // driver's reference requires; it writes to the log and the values, which live longer.
    unsafe { sys::cuModuleLoadDataEx(&raw mut module, text.as_ptr().cast(), 2, options, values) }
        .result()
        .map_err(|error| log.error(error))?;
    Ok(module)
}

/// Has the driver assemble a text to a cubin.
fn assemble(gpu: &Gpu, text: &str) -> Result<Vec<u8>, Error> {
    let text = CString::new(text).map_err(|_| Error::Rejected("a zero byte".into()))?;
    let mut log = Log::new();
    let mut state = std::ptr::null_mut();
    // SAFETY: there are as many options as values, of the types that the driver's reference
    // requires. The driver writes to the log and the values until the state is destroyed; both live
    // longer.
    unsafe { sys::cuLinkCreate_v2(2, log.options.as_mut_ptr(), log.values.as_mut_ptr(), &raw mut state) }
        .result()
        .map_err(gpu.failed("begin to assemble"))?;
    let bytes = text.as_bytes_with_nul();
    let (mut cubin, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the text ends with a zero and lives through the call, as its name does; the state is
    // there.
    let linked = unsafe {
        sys::cuLinkAddData_v2(
            state,
            sys::CUjitInputType::CU_JIT_INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"kernels".as_ptr(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
        .result()
        .and_then(|()| sys::cuLinkComplete(state, &raw mut cubin, &raw mut length).result())
    };
    let made = linked.map(|()| match cubin.is_null() {
        true => vec![],
        // SAFETY: linking is complete, so the driver keeps `length` bytes there until the state is
        // destroyed.
        false => unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), length) }.to_vec(),
    });
    // SAFETY: the state is there, and nothing of it is used any more.
    _ = unsafe { sys::cuLinkDestroy(state) };
    made.map_err(|error| log.error(error))
}

/// Loads an assembled module.
fn load(gpu: &Gpu, cubin: &[u8]) -> Result<sys::CUmodule, Error> {
    if cubin.is_empty() {
        return Err(Error::Rejected("it makes no code of them".into()));
    }
    // SAFETY: the driver takes no length, so the bytes must be a whole module. The driver itself
    // made them for this driver version and device, either just now or before they were written to
    // the cache, which rejects an entry with any byte changed. Anyone who may write to the cache
    // folder is trusted as much as one who may write to the program.
    unsafe { result::module::load_data(cubin.as_ptr().cast()) }.map_err(gpu.failed("load kernels"))
}
