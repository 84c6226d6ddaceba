//! An emulated CUDA device: the emulator behind the back end's trait [`Device`].

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use backends::ptx::{Device, Facts, Launch, Target, TensorMap};
use emulator::{Memory, Module};

/// The bytes of shared memory for a block, as on smaller devices.
const SHARED: usize = 99 << 10;

/// A program's kernels on the emulator.
pub struct Emulated {
    /// The module of each kernel that is ready.
    kernels: BTreeMap<String, Rc<Module>>,
    memory: Memory,
    seed: u64,
    target: Target,
    /// The most launches of a recording that could have come next.
    most_ready: Rc<Cell<usize>>,
}

impl Emulated {
    /// The seed chooses the order in which blocks and warps take turns, and the kind of device,
    /// with one to three multiprocessors.
    pub fn new(seed: u64) -> Emulated {
        Emulated::of(seed, [Target::Sm80, Target::Sm90, Target::Sm90a][(seed % 3) as usize])
    }

    /// A device of this kind.
    pub fn of(seed: u64, target: Target) -> Emulated {
        Emulated { kernels: BTreeMap::new(), memory: Memory::new(), seed, target, most_ready: Rc::default() }
    }

    /// The most launches of recordings that could have come next at a time.
    pub fn most_ready(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.most_ready)
    }
}

/// Launches that are repeated, in any order in which each waits for those that it has to.
pub struct Recording {
    launches: Vec<Recorded>,
    waits: Vec<Vec<usize>>,
}

/// One of them.
pub struct Recorded {
    kernel: String,
    blocks: u32,
    threads: u32,
    shared: u32,
    arguments: Vec<u8>,
    maps: Vec<TensorMap>,
}

/// A tensor map as the emulator reads it.
fn encoded(TensorMap { address, width, counts, strides, sides }: &TensorMap) -> Result<[u8; 128], String> {
    let (counts, strides, sides) = (counts.clone(), strides.clone(), sides.clone());
    emulator::TensorMap { address: *address, width: *width, counts, strides, sides }.bytes()
}

impl Device for Emulated {
    type Error = String;
    type Recording = Recording;

    fn available(&mut self) -> Result<Option<usize>, String> {
        Ok(None)
    }

    fn facts(&self) -> Facts {
        Facts { shared: SHARED, target: self.target, multiprocessors: 1 + (self.seed / 3 % 3) as u32 }
    }

    fn allocate(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.memory.allocate(bytes))
    }

    /// Freed memory stays until the run is over.
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

    fn prepare(&mut self, names: &BTreeSet<&str>, text: &str) -> Result<(), String> {
        let module = Rc::new(Module::parse(text).map_err(|error| error.to_string())?);
        self.kernels.extend(names.iter().map(|name| ((*name).to_owned(), Rc::clone(&module))));
        Ok(())
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), String> {
        let Launch { kernel, blocks, threads, shared, .. } = launch;
        // Parameters lie one after another, each map at a multiple of 64 bytes.
        let mut parameters = launch.arguments.clone();
        for map in &launch.maps {
            parameters.resize(parameters.len().next_multiple_of(64), 0);
            parameters.extend(encoded(map)?);
        }
        let launch =
            emulator::Launch { grid: [*blocks, 1, 1], block: [*threads, 1, 1], shared: *shared, seed: self.seed };
        let module = self.kernels.get(*kernel).ok_or_else(|| format!("{kernel} is not ready"))?;
        let done = module.launch(&mut self.memory, kernel, launch, &parameters);
        done.map(|_| ()).map_err(|fault| fault.to_string())
    }

    fn timed(&mut self, launches: &[Launch<'_>]) -> Result<Vec<Duration>, String> {
        let time = |launch| {
            let start = Instant::now();
            self.launch(launch).map(|()| start.elapsed())
        };
        launches.iter().map(time).collect()
    }

    fn record(&mut self, launches: &[Launch<'_>], waits: &[Vec<usize>]) -> Result<Option<Recording>, String> {
        let own = |launch: &Launch<'_>| Recorded {
            kernel: launch.kernel.to_owned(),
            blocks: launch.blocks,
            threads: launch.threads,
            shared: launch.shared,
            arguments: launch.arguments.clone(),
            maps: launch.maps.clone(),
        };
        Ok(Some(Recording { launches: launches.iter().map(own).collect(), waits: waits.to_vec() }))
    }

    fn replay(&mut self, recording: &Recording) -> Result<(), String> {
        let mut left: Vec<usize> = (0..recording.launches.len()).collect();
        let mut random = self.seed;
        while !left.is_empty() {
            let waits = |number: &usize| recording.waits[*number].iter().any(|other| left.contains(other));
            let ready: Vec<usize> = left.iter().copied().filter(|number| !waits(number)).collect();
            self.most_ready.set(self.most_ready.get().max(ready.len()));
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let next = *ready.get((random >> 33) as usize % ready.len().max(1)).ok_or("launches wait in a circle")?;
            left.retain(|number| *number != next);
            let Recorded { kernel, blocks, threads, shared, arguments, maps } = &recording.launches[next];
            let (blocks, threads, shared) = (*blocks, *threads, *shared);
            let (arguments, maps) = (arguments.clone(), maps.clone());
            self.launch(&Launch { kernel, blocks, threads, shared, arguments, maps, accesses: vec![] })?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), String> {
        Ok(())
    }
}
