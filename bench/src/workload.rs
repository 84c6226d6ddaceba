//! A workload as a task: compiled once, and called on the same arrays with the same memory for
//! results.

use std::path::Path;
use std::time::{Duration, Instant};

use fuseloop::files::{self, Place};
use fuseloop::{Array, ArrayRef, Kernel, Options, Passes, Program, Simd, Source};
use serde::Serialize;

use crate::{Error, Task};

/// The number of samples of each result that are compared, taken as `sample` in workloads.py takes
/// them.
const SAMPLES: usize = 1 << 17;

/// A call.
pub struct Workload {
    kernel: Kernel,
    inputs: Vec<Array>,
    outputs: Vec<Array>,
}

/// The report on the first call.
#[derive(Serialize)]
pub struct Prepared {
    /// Seconds from text to a callable function.
    compile: f64,
    /// Seconds from text to the first result.
    first: f64,
    /// Files with samples of the results.
    outputs: Vec<String>,
    /// A hash of all bytes of the results.
    digest: String,
}

impl Workload {
    /// Compiles a function of a file, reads its inputs, and calls it.
    pub fn new(
        program: &Path,
        function: &str,
        inputs: &[String],
        threads: usize,
        fuse: bool,
        samples: &Path,
    ) -> Result<(Workload, Prepared), Error> {
        let source = Source::new(program.display().to_string(), std::fs::read_to_string(program)?);
        let inputs = inputs.iter().map(|file| files::read(&Place::parse(file)?)).collect::<Result<Vec<_>, _>>()?;
        let fuse = if fuse { Passes::ALL } else { Passes::NONE };
        let compile_for = |simd, source| -> Result<Kernel, Error> {
            let options = Options { threads, fuse, simd, ..Options::default() };
            Ok(Program::parse(source)?.function(function)?.compile(&options)?)
        };
        let start = Instant::now();
        let kernel = compile_for(Simd::Auto, source.clone())?;
        let compile = start.elapsed().as_secs_f64();
        let outputs = kernel.call(&inputs)?;
        let first = start.elapsed().as_secs_f64();
        let mut workload = Workload { kernel, inputs, outputs };
        let digest = workload.digest();
        for simd in [Simd::W128, Simd::W256, Simd::W512].into_iter().filter(|simd| simd.is_here()) {
            let other = compile_for(simd, source.clone())?;
            let widest = std::mem::replace(&mut workload.kernel, other);
            if workload.run_anew()? != digest {
                return Err(format!("vectors of {simd:?} give other bits").into());
            }
            workload.kernel = widest;
        }
        if workload.run_anew()? != digest {
            return Err("two calls gave different bits".into());
        }
        let outputs = workload.save(samples)?;
        Ok((workload, Prepared { compile, first, outputs, digest: format!("{digest:016x}") }))
    }

    /// Calls it with the memory of later calls, cleared of earlier results, and hashes the results.
    fn run_anew(&mut self) -> Result<u64, Error> {
        self.outputs.iter_mut().for_each(|output| output.bytes_mut().fill(1));
        self.run(1)?;
        Ok(self.digest())
    }

    /// Writes samples of the results to files in a folder.
    fn save(&self, folder: &Path) -> Result<Vec<String>, Error> {
        let mut names = vec![];
        for (number, output) in self.outputs.iter().enumerate() {
            let width = output.dtype().bytes();
            let step = (output.len() / SAMPLES) | 1;
            let bytes: Vec<u8> = output.bytes().chunks_exact(width).step_by(step).flatten().copied().collect();
            let count = [bytes.len() / width];
            let name = folder.join(format!("fuseloop-{number}.npy")).display().to_string();
            files::save(
                &[(Place::parse(&name)?, ArrayRef::new(output.dtype(), &count, &bytes)?)],
                files::Packing::Stored,
            )?;
            names.push(name);
        }
        Ok(names)
    }

    /// A hash of all bits of the results, with NaNs made canonical as in files.
    fn digest(&mut self) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut hash = 0;
        for output in &mut self.outputs {
            output.canonical_nan();
            let (words, rest) = output.bytes().as_chunks::<8>();
            hash = words.iter().fold(mix(hash, output.len() as u64), |hash, word| mix(hash, u64::from_le_bytes(*word)));
            hash = rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)));
        }
        hash
    }
}

impl Task for Workload {
    fn run(&mut self, times: usize) -> Result<(), Error> {
        // Lent once, so that the time of a call is that of the call alone.
        let inputs: Vec<_> = self.inputs.iter().map(Array::as_ref).collect();
        let mut outputs: Vec<_> = self.outputs.iter_mut().map(Array::as_mut).collect();
        for _ in 0..times {
            self.kernel.call_into(&inputs, &mut outputs)?;
        }
        Ok(())
    }

    fn shortest(&self) -> Duration {
        Duration::from_micros(200)
    }
}
