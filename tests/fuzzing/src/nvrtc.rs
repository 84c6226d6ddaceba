//! NVIDIA's run-time compiler, a library that is loaded when it is first needed: PTX of CUDA C.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};

/// The texts that were compiled, with their PTX.
static COMPILED: Mutex<BTreeMap<String, Result<String, String>>> = Mutex::new(BTreeMap::new());

/// The PTX of a text, as its first line says that it is compiled. Warnings count as errors, unless
/// the compiler is too old for that.
pub fn compile(text: &str) -> Result<String, String> {
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let strict = ["-Werror=all-warnings", "-diag-suppress=186"].map(str::to_owned).to_vec();
    let compile = || match compile_with(text, strict) {
        Err(error) if error.contains("INVALID_OPTION") => compile_with(text, vec![]),
        other => other,
    };
    compiled.entry(text.to_owned()).or_insert_with(compile).clone()
}

fn compile_with(text: &str, options: Vec<String>) -> Result<String, String> {
    let options = CompileOptions { fmad: Some(false), arch: Some("compute_80"), options, ..CompileOptions::default() };
    compile_ptx_with_opts(text, options).map(|ptx| ptx.to_src()).map_err(|error| format!("{error:?}"))
}
