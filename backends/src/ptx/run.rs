//! Running a compiled program on a device: the sizes of a call, memory for its arrays, and the launches in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ir::Size;
use ir::array::{ArrayMut, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::nest::{BufferId, Role, SiteId};
use ir::order::{LANES, LANES_CHUNK};

use super::columns::WIDTH;
use super::compile::{Grid, Kernel, Module, Threads, Variant};
use super::emit::Argument;
use super::rows::{BLOCK_ROW, GROUP};
use crate::call::{self, wrapping};
use crate::cpu::RunError as CallError;
use crate::cpu::memory::{Place, Slots, words};

/// What runs kernels: a GPU, or something that behaves like one.
pub trait Device {
    /// Why it does not do what it is asked for.
    type Error;

    /// Memory of at least so many bytes, without contents, aligned to 256.
    fn allocate(&mut self, bytes: usize) -> Result<u64, Self::Error>;
    /// Gives memory back.
    fn free(&mut self, address: u64);
    /// Copies bytes to the device.
    fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<(), Self::Error>;
    /// Copies bytes from the device, when what was launched before is done.
    fn download(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;
    /// Runs a kernel of the module, after what was launched before.
    fn launch(&mut self, kernel: &str, blocks: u32, threads: u32, arguments: &[u8]) -> Result<(), Self::Error>;
}

/// Why a run gave no results. The outputs are as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError<E> {
    /// As on every engine.
    Call(CallError),
    /// The device failed.
    Device(E),
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Call(error) => write!(f, "{error}"),
            RunError::Device(error) => write!(f, "{error}"),
        }
    }
}

impl<E> From<CallError> for RunError<E> {
    fn from(error: CallError) -> RunError<E> {
        RunError::Call(error)
    }
}

impl<E> From<BindError> for RunError<E> {
    fn from(error: BindError) -> RunError<E> {
        RunError::Call(error.into())
    }
}

/// Bytes of the record of a failed check.
const FAULT: usize = 24;
/// Blocks of a launch where data says how many iterations there are, and most where each has memory of its own.
const SOME_BLOCKS: i64 = 1024;

/// Memory of a device that a run has.
struct Held<'d, D: Device> {
    device: &'d mut D,
    addresses: Vec<u64>,
}

impl<D: Device> Held<'_, D> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, RunError<D::Error>> {
        let address = self.device.allocate(bytes.max(1)).map_err(RunError::Device)?;
        self.addresses.push(address);
        Ok(address)
    }

    fn upload(&mut self, bytes: &[u8]) -> Result<u64, RunError<D::Error>> {
        let address = self.allocate(bytes.len())?;
        self.device.upload(address, bytes).map_err(RunError::Device)?;
        Ok(address)
    }
}

impl<D: Device> Drop for Held<'_, D> {
    fn drop(&mut self) {
        self.addresses.iter().for_each(|address| self.device.free(*address));
    }
}

impl Module {
    /// Runs the program on a device that has loaded its text. After an error the outputs are as they were.
    pub fn run<D: Device>(
        &self,
        device: &mut D,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
    ) -> Result<(), RunError<D::Error>> {
        let program = &self.program;
        let params = program.inputs().into_iter().map(|id| &program.buffers[id]);
        let params: Vec<_> = params.map(|buffer| (buffer.dtype, buffer.shape.len())).collect();
        let binding = Binding::of_call(&program.symbols, &params, &program.requires, inputs)?;
        binding.check_lengths(program)?;
        call::check_kernel_sizes(&self.sizes, &binding)?;
        call::check_outputs(program, &program.outputs(), &binding, outputs)?;
        let mut held = Held { device, addresses: vec![] };
        let fault = held.upload(&[0; FAULT])?;
        let mut buffers = BTreeMap::new();
        for (id, buffer) in &program.buffers {
            let address = match &buffer.role {
                Role::Input(n) => held.upload(inputs[*n].bytes())?,
                Role::Output(n) => held.allocate(outputs[*n].bytes_mut().len())?,
                Role::Constant(elements) => {
                    let bytes: Vec<u8> = words(elements).into_iter().flat_map(u64::to_ne_bytes).collect();
                    held.upload(&bytes)?
                }
                Role::Temp | Role::Scratch => continue,
            };
            buffers.insert(id, address);
        }
        self.temporaries(&binding, &mut held, &mut buffers)?;
        for kernel in &self.kernels {
            self.launch(kernel, &binding, &mut held, &mut buffers, fault)?;
        }
        let mut record = [0; FAULT];
        held.device.download(fault, &mut record).map_err(RunError::Device)?;
        if let Some(fault) = self.fault(&record) {
            return Err(CallError::Fault(fault).into());
        }
        // All of them are there before one is written.
        let mut results = vec![];
        for id in program.outputs() {
            let mut bytes = vec![0; call::bytes(program, &binding, id)?];
            held.device.download(buffers[&id], &mut bytes).map_err(RunError::Device)?;
            results.push(bytes);
        }
        for (output, result) in outputs.iter_mut().zip(results) {
            output.bytes_mut().copy_from_slice(&result);
        }
        Ok(())
    }

    fn fault(&self, record: &[u8; FAULT]) -> Option<Fault> {
        let word = |at: usize| i64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let site = u32::try_from(word(0) & 0xffff_ffff).ok()?.checked_sub(1)?;
        Some(Fault { site: SiteId::from_u32(site), index: word(8), bound: word(16) })
    }

    /// Memory for temporaries.
    fn temporaries<D: Device>(
        &self,
        binding: &Binding,
        held: &mut Held<'_, D>,
        buffers: &mut BTreeMap<BufferId, u64>,
    ) -> Result<(), RunError<D::Error>> {
        let program = &self.program;
        let stored: BTreeSet<BufferId> = program.buffers.keys().collect();
        let mut places = vec![];
        let bytes = Slots::new(program, stored)
            .places(|id| call::bytes(program, binding, id), |id, place| places.push((id, place)))?;
        let base = held.allocate(bytes)?;
        for (id, place) in places {
            let address = match place {
                Place::At(offset) => base + offset as u64,
                Place::Of(output) => buffers[&output],
            };
            buffers.insert(id, address);
        }
        Ok(())
    }

    fn launch<D: Device>(
        &self,
        kernel: &Kernel,
        binding: &Binding,
        held: &mut Held<'_, D>,
        buffers: &mut BTreeMap<BufferId, u64>,
        fault: u64,
    ) -> Result<(), RunError<D::Error>> {
        let value = |size: &Size| binding.size(size).unwrap_or_else(|_| wrapping(size, binding));
        let variant = kernel.variant(&value);
        let blocks = variant.blocks(&value, kernel.checks);
        if blocks == 0 {
            return Ok(());
        }
        let threads = variant.threads(&value);
        let owners = match variant.grid {
            Grid::Threads(..) => blocks as usize * threads as usize,
            Grid::Blocks(_, each) => blocks as usize * usize::try_from(each).unwrap_or(1),
            Grid::Strips(_) => blocks as usize * WIDTH as usize,
            _ => blocks as usize,
        };
        for id in variant.scratch() {
            let own = stride(binding, &self.program, id)?;
            let all = own.checked_mul(owners).ok_or(CallError::OutOfMemory { bytes: usize::MAX })?;
            buffers.insert(id, held.allocate(all)?);
        }
        let mut arguments = vec![];
        for argument in &variant.arguments {
            let word = match argument {
                Argument::Fault => fault,
                Argument::Buffer(id) => buffers[id],
                Argument::Stride(id) => stride(binding, &self.program, *id)? as u64,
                Argument::Size(size) => value(size).cast_unsigned(),
                Argument::Multiples(sizes) => sizes.iter().all(|(size, of)| value(size) % of == 0).into(),
                Argument::Small(sizes) => {
                    let product = sizes.iter().try_fold(1i64, |product, size| product.checked_mul(value(size).max(0)));
                    product.is_some_and(|product| product <= i64::from(u32::MAX)).into()
                }
            };
            arguments.extend(word.to_le_bytes());
        }
        if arguments.is_empty() {
            arguments.extend([0; 8]);
        }
        held.device.launch(&variant.name, blocks, threads, &arguments).map_err(RunError::Device)
    }
}

impl Kernel {
    /// The way for a call's sizes.
    fn variant(&self, value: &impl Fn(&Size) -> i64) -> &Variant {
        let fits = |v: &&Variant| v.fits.as_ref().is_none_or(|(size, most)| value(size) <= *most);
        self.variants.iter().find(fits).unwrap_or(&self.variants[0])
    }
}

impl Variant {
    /// Scratch buffers that it uses.
    fn scratch(&self) -> impl Iterator<Item = BufferId> {
        self.arguments.iter().filter_map(|a| if let Argument::Stride(id) = a { Some(*id) } else { None })
    }

    /// How many threads a block has.
    fn threads(&self, value: &impl Fn(&Size) -> i64) -> u32 {
        match &self.threads {
            Threads::Number(n) => *n,
            Threads::Groups(size) => {
                let groups = value(size).clamp(1, BLOCK_ROW).unsigned_abs().div_ceil(GROUP.unsigned_abs());
                u32::try_from(groups * LANES as u64).unwrap_or(0)
            }
        }
    }

    /// How many blocks it is launched with.
    fn blocks(&self, value: &impl Fn(&Size) -> i64, checks: bool) -> u32 {
        let iterations = |extents: &Option<Vec<Size>>| {
            extents.as_ref().map(|extents| extents.iter().fold(1i64, |n, e| n.saturating_mul(value(e).max(0))))
        };
        let of = |n: i64, each: i64| n / each + i64::from(n % each > 0);
        let blocks = match &self.grid {
            Grid::One => Some(1),
            Grid::Threads(extents, each) => {
                iterations(extents).map(|n| of(n, i64::from(self.threads(value)) * i64::try_from(*each).unwrap_or(1)))
            }
            Grid::Blocks(extents, each) => iterations(extents).map(|n| of(n, *each)),
            Grid::Strips(extents) => iterations(extents).map(|n| of(n, WIDTH)),
            Grid::Chunks(extents) => iterations(extents).map(|n| of(n, LANES_CHUNK as i64)),
        };
        let most = if self.scratch().next().is_none() { i64::from(i32::MAX) } else { SOME_BLOCKS };
        u32::try_from(blocks.unwrap_or(SOME_BLOCKS).clamp(checks.into(), most)).unwrap_or(0)
    }
}

/// Bytes from one owner's scratch to the next.
fn stride(binding: &Binding, program: &ir::nest::Program, id: BufferId) -> Result<usize, CallError> {
    call::bytes(program, binding, id)?.checked_next_multiple_of(16).ok_or(CallError::OutOfMemory { bytes: usize::MAX })
}
