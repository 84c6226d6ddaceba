//! The environment of the tested code: the head that every module needs, memory, and values that
//! reveal mistakes.

use emulator::{Fault, Launch, Memory, Module, Stats};

/// A module: the head, and what is given.
pub fn module(body: &str) -> Module {
    let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{body}");
    Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The line of the text after the head that contains `marker`.
pub fn line_of(body: &str, marker: &str) -> u32 {
    let line = body.lines().position(|line| line.contains(marker)).expect("the marker is there");
    line as u32 + 4
}

/// Arguments that are all of eight bytes.
pub fn arguments(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// One dimension of blocks and threads.
pub fn launch(grid: u32, block: u32, seed: u64) -> Launch {
    Launch { grid: [grid, 1, 1], block: [block, 1, 1], shared: 0, seed }
}

/// Runs the kernel `k` of a module on arguments of eight bytes.
pub fn run(body: &str, memory: &mut Memory, launch: Launch, values: &[u64]) -> Result<Stats, Fault> {
    module(body).launch(memory, "k", launch, &arguments(values))
}

/// Memory with the bytes.
pub fn put(memory: &mut Memory, bytes: &[u8]) -> u64 {
    let address = memory.allocate(bytes.len());
    memory.write(address, bytes);
    address
}

/// Words as bytes.
pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Words at an address.
pub fn read_words(memory: &Memory, address: u64, count: usize) -> Vec<u32> {
    let bytes = memory.read(address, 4 * count).expect("all was written");
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Numbers without a pattern.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}
