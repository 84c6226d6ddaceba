//! A CUDA device that is none: the emulator behind the back end's trait [`Device`].

use backends::ptx::{Device, Module};
use emulator::{Launch, Memory};

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

impl Device for Emulated {
    type Error = String;

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

    fn launch(&mut self, kernel: &str, blocks: u32, threads: u32, arguments: &[u8]) -> Result<(), String> {
        let launch = Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0, seed: self.seed };
        self.module.launch(&mut self.memory, kernel, launch, arguments).map(|_| ()).map_err(|fault| fault.to_string())
    }
}
