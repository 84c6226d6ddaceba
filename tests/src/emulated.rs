//! A CUDA device that is none: the emulator behind the back end's trait [`Device`].

use backends::ptx::{Device, Launch, Module};
use emulator::Memory;

/// A program's kernels on the emulator.
pub struct Emulated {
    module: emulator::Module,
    memory: Memory,
    seed: u64,
}

impl Emulated {
    /// Reads a program's text. The seed chooses the order in which blocks and warps take turns.
    pub fn new(module: &Module, seed: u64) -> Result<Emulated, String> {
        let parsed = emulator::Module::parse(module.text()).map_err(|error| error.to_string())?;
        Ok(Emulated { module: parsed, memory: Memory::new(), seed })
    }
}

/// Launches that are repeated.
type Recording = Vec<Recorded>;

/// One of them.
pub struct Recorded {
    kernel: String,
    blocks: u32,
    threads: u32,
    arguments: Vec<u8>,
}

impl Device for Emulated {
    type Error = String;
    type Recording = Recording;

    fn available(&mut self) -> Result<Option<usize>, String> {
        Ok(None)
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.memory.allocate(bytes))
    }

    /// What is freed stays until the run is over.
    fn free(&mut self, _: u64) {}

    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), String> {
        self.memory.write(to, bytes);
        Ok(())
    }

    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), String> {
        let found = self.memory.read(from, bytes.len()).map_err(|problem| problem.to_string())?;
        bytes.copy_from_slice(&found);
        Ok(())
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), String> {
        let Launch { kernel, blocks, threads, arguments } = launch;
        let launch = emulator::Launch { grid: [*blocks, 1, 1], block: [*threads, 1, 1], shared: 0, seed: self.seed };
        let done = self.module.launch(&mut self.memory, kernel, launch, arguments);
        done.map(|_| ()).map_err(|fault| fault.to_string())
    }

    fn record(&mut self, launches: &[Launch<'_>]) -> Result<Option<Recording>, String> {
        let own = |launch: &Launch<'_>| Recorded {
            kernel: launch.kernel.to_owned(),
            blocks: launch.blocks,
            threads: launch.threads,
            arguments: launch.arguments.clone(),
        };
        Ok(Some(launches.iter().map(own).collect()))
    }

    fn replay(&mut self, recording: &Recording) -> Result<(), String> {
        recording.iter().try_for_each(|Recorded { kernel, blocks, threads, arguments }| {
            self.launch(&Launch { kernel, blocks: *blocks, threads: *threads, arguments: arguments.clone() })
        })
    }

    fn wait(&mut self) -> Result<(), String> {
        Ok(())
    }
}
