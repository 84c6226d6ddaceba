//! Runs compiled programs on a device. A [`Runner`] keeps the memory and plan of the last call for
//! the next call of the same sizes. If a sequence of launches repeats with the same addresses, it
//! is recorded and replayed as a unit.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use ir::array::{ArrayMut, ArrayRef};
use ir::bind::{BindError, Binding, Fault, Given};
use ir::nest::SiteId;

use super::compile::Module;
use super::device::{Device, Launch};
use super::order::waits;
use super::plan::{FAULT, Plan};
use super::resident::{Numbers, Resident, ResidentCall};
use super::state::Argument;
use super::steps::{Sequence, Visitor, count};
use crate::call;
use crate::error::RunError as CallError;
use crate::settings::Phases;

/// Why a run gave no results. The outputs are unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError<E> {
    /// An error that can happen on any engine.
    Call(CallError),
    /// The call needs more memory than the device has, or than it may use.
    Memory {
        /// The bytes that the call needs.
        needed: usize,
        /// The bytes that it may use.
        limit: usize,
    },
    /// The device failed.
    Device(E),
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Call(error) => write!(f, "{error}"),
            RunError::Memory { needed, limit } => {
                write!(f, "the call takes {needed} bytes of the device's memory, of which {limit} may be used")
            }
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

/// Launches are recorded up to this many: each of them takes memory of the driver's.
const MOST_RECORDED: u64 = 4096;
/// Memory for inputs and results is kept for the next call up to this size in bytes.
const MOST_KEPT: usize = 256 << 20;

/// The state that calls of the same sizes share.
struct Frame<R> {
    plan: Plan,
    /// The call's own memory, and the device memory for host arrays, if there are any.
    own: u64,
    host: Option<Host>,
    numbers: Option<Numbers>,
    /// The addresses of inputs and results at the last call. The recording of its launches is made
    /// when the same addresses come a second time.
    last: Vec<u64>,
    recording: Option<R>,
}

/// Device memory for the caller's host arrays.
#[derive(Clone)]
struct Host {
    base: u64,
    bytes: usize,
    addresses: Vec<u64>,
}

/// A program loaded on a device.
pub struct Runner<D: Device> {
    module: Module,
    device: D,
    /// The limit on the device memory of a call in bytes.
    limit: Option<usize>,
    frame: Option<Frame<D::Recording>>,
    /// The names of the loaded kernels.
    ready: BTreeSet<String>,
    /// Whether some kernel performs checks.
    faults: bool,
}

type Done<D, T> = Result<T, RunError<<D as Device>::Error>>;

impl<D: Device> Runner<D> {
    /// Prepares a device to run a module. Each kernel is loaded when a call first launches it. No
    /// call takes more than `limit` bytes of the device's memory.
    pub fn new(module: Module, device: D, limit: Option<usize>) -> Runner<D> {
        let faults =
            module.kernels.iter().flat_map(|kernel| &kernel.variants).any(|v| v.arguments.contains(&Argument::Fault));
        Runner { module, device, limit, frame: None, ready: BTreeSet::new(), faults }
    }

    /// The program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Calls the program on host arrays. After an error the outputs are unchanged, unless copying a
    /// result failed.
    pub fn call(
        &mut self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        mut phases: Option<&mut Phases>,
    ) -> Done<D, ()> {
        let start = Instant::now();
        self.enter(inputs, outputs, Some(inputs.iter().map(|input| input.bytes().len()).sum()))?;
        if let Some(phases) = &mut phases {
            phases.assemble += start.elapsed();
        }
        let done = self.call_in_frame(inputs, outputs, phases);
        if done.is_err() {
            // Some inputs may still be in flight, from memory that the caller gets back.
            _ = self.device.wait();
        }
        let large = self.frame.as_ref().and_then(|frame| frame.host.as_ref()).is_some_and(|h| h.bytes > MOST_KEPT);
        if done.is_err() || large {
            self.leave();
        }
        done
    }

    /// Calls the program on arrays in the device's memory. Returns without waiting, unless the
    /// program performs checks, because their outcome must be known.
    pub(crate) fn enqueue(&mut self, inputs: &[Resident<'_>], outputs: &[Resident<'_>]) -> Done<D, ()> {
        self.enter(inputs, outputs, None)?;
        let addresses = self.addresses(inputs, outputs)?;
        let done = self.run(addresses, inputs.len()).and_then(|()| self.check_fault());
        if done.is_err() {
            self.leave();
        }
        done
    }

    /// Calls the program on arrays in the device's memory and waits for it. Adds each kernel's
    /// duration to its entry in `times`.
    pub(crate) fn call_timed(
        &mut self,
        inputs: &[Resident<'_>],
        outputs: &[Resident<'_>],
        times: &mut [Duration],
    ) -> Done<D, ()> {
        self.enter(inputs, outputs, None)?;
        let addresses = self.addresses(inputs, outputs)?;
        let Some(frame) = &self.frame else { return Ok(()) };
        let mut sequence = Sequence::new(&frame.plan, frame.own, &addresses, inputs.len());
        let run = Run { device: &mut self.device, fault: self.faults.then_some(frame.own) };
        let mut timed = Timed { run, plan: &frame.plan, batch: vec![], kernels: vec![], times };
        sequence.each(&mut timed).and_then(|()| timed.time()).map_err(RunError::Device)?;
        self.check_fault()
    }

    /// Records several calls as one recording. Failed checks are not reported when it is replayed.
    /// Also returns the memory that the calls use, which the owner of the recording must free.
    pub(crate) fn record(&mut self, calls: &[ResidentCall<'_>]) -> Done<D, (Option<D::Recording>, Vec<u64>)> {
        let mut frames: Vec<Frame<D::Recording>> = vec![];
        let mut own = vec![];
        let recorded = self.record_in(calls, &mut frames, &mut own);
        own.extend(frames.iter().map(|frame| frame.own));
        if recorded.is_err() {
            own.iter().for_each(|address| self.device.free(*address));
        }
        Ok((recorded?, own))
    }

    fn record_in(
        &mut self,
        calls: &[ResidentCall<'_>],
        frames: &mut Vec<Frame<D::Recording>>,
        own: &mut Vec<u64>,
    ) -> Done<D, Option<D::Recording>> {
        let mut of_call = vec![];
        for (inputs, outputs) in calls {
            let binding = self.bind(inputs, outputs)?;
            // Calls of the same sizes share their memory, because they run one after another.
            let known = frames.iter().position(|frame| frame.plan.binding == binding);
            if known.is_none() {
                frames.push(self.frame(binding, None)?);
            }
            of_call.push(known.unwrap_or(frames.len() - 1));
        }
        let mut launches = vec![];
        for ((inputs, outputs), frame) in calls.iter().zip(of_call) {
            // Calls of one recording may have other numbers, but share the memory of a frame.
            let mut numbers = None;
            let addresses = Numbers::place(&mut numbers, &mut self.device, inputs, outputs).map_err(RunError::Device);
            own.extend(numbers.map(|numbers| numbers.base()));
            let addresses = addresses?;
            let Frame { plan, own, .. } = &frames[frame];
            if count(&plan.steps) > MOST_RECORDED {
                return Ok(None);
            }
            launches.push(Sequence::new(plan, *own, &addresses, inputs.len()).all());
        }
        let waits = waits(&launches.iter().map(Vec::as_slice).collect::<Vec<_>>());
        self.device.record(&launches.concat(), &waits).map_err(RunError::Device)
    }

    /// Replays a recording.
    pub(crate) fn replay(&mut self, recording: &D::Recording) -> Result<(), D::Error> {
        self.device.replay(recording)
    }

    /// The shapes of the results for these inputs.
    pub(crate) fn output_shapes(&self, inputs: &[impl Given]) -> Result<Vec<Vec<usize>>, CallError> {
        let binding = self.module.bind(inputs)?;
        let program = &self.module.program;
        program.outputs().into_iter().map(|id| Ok(binding.shape(program, id)?)).collect()
    }

    /// Binds the sizes of a call. Fails if the arrays do not match.
    fn bind(&self, inputs: &[impl Given], outputs: &[impl Given]) -> Done<D, Binding> {
        let binding = self.module.bind(inputs)?;
        let program = &self.module.program;
        call::check_outputs(program, &program.outputs(), &binding, outputs)?;
        Ok(binding)
    }

    /// Makes sure that there is a frame for the sizes of the call. For host arrays, the last
    /// argument is the total size of the inputs, because then inputs and results need device memory
    /// too.
    fn enter(&mut self, inputs: &[impl Given], outputs: &[impl Given], beside: Option<usize>) -> Done<D, ()> {
        let binding = self.bind(inputs, outputs)?;
        if self.frame.as_ref().is_none_or(|frame| frame.plan.binding != binding) {
            self.leave();
            self.frame = Some(self.frame(binding, beside)?);
        }
        Ok(())
    }

    fn frame(&mut self, binding: Binding, beside: Option<usize>) -> Done<D, Frame<D::Recording>> {
        let plan = self.module.plan(binding, self.device.facts())?;
        // Host arrays also need memory on the device for inputs and results.
        let needed = match beside {
            Some(inputs) => plan.results.iter().fold(plan.own.saturating_add(inputs), |sum, n| sum.saturating_add(*n)),
            None => plan.own,
        };
        let available = self.device.available().map_err(RunError::Device)?;
        if let Some(limit) = [self.limit, available].into_iter().flatten().min()
            && needed > limit
        {
            return Err(RunError::Memory { needed, limit });
        }
        self.prepare(&plan).map_err(RunError::Device)?;
        let own = self.device.allocate(plan.own).map_err(RunError::Device)?;
        for (offset, bytes) in plan.contents() {
            if let Err(error) = self.device.upload(own + offset as u64, bytes) {
                self.device.free(own);
                return Err(RunError::Device(error));
            }
        }
        Ok(Frame { plan, own, host: None, numbers: None, last: vec![], recording: None })
    }

    /// Loads the kernels of a plan. Variants for other sizes are left until they are needed,
    /// because assembling dominates the time of a first call.
    fn prepare(&mut self, plan: &Plan) -> Result<(), D::Error> {
        let new: BTreeSet<&str> = plan.launches.iter().map(|planned| planned.kernel.as_str()).collect();
        let new: BTreeSet<&str> = new.into_iter().filter(|name| !self.ready.contains(*name)).collect();
        if !new.is_empty() {
            self.device.prepare(&new, &self.module.text_of(&new))?;
            self.ready.extend(new.into_iter().map(str::to_owned));
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.device.free(frame.own);
            if let Some(host) = frame.host {
                self.device.free(host.base);
            }
            if let Some(numbers) = frame.numbers {
                self.device.free(numbers.base());
            }
        }
    }

    /// The addresses of inputs, then of results, in the order of the frame.
    fn addresses(&mut self, inputs: &[Resident<'_>], outputs: &[Resident<'_>]) -> Done<D, Vec<u64>> {
        let Some(frame) = &mut self.frame else { return Ok(vec![]) };
        Numbers::place(&mut frame.numbers, &mut self.device, inputs, outputs).map_err(RunError::Device)
    }

    fn call_in_frame(
        &mut self,
        inputs: &[ArrayRef<'_>],
        outputs: &mut [ArrayMut<'_>],
        mut phases: Option<&mut Phases>,
    ) -> Done<D, ()> {
        let start = Instant::now();
        let addresses = self.host(inputs)?;
        for (input, address) in inputs.iter().zip(&addresses) {
            self.device.upload(*address, input.bytes()).map_err(RunError::Device)?;
        }
        // Copies and kernels are asynchronous: waiting separates the phases, and is only done to
        // measure them.
        if phases.is_some() {
            self.device.wait().map_err(RunError::Device)?;
        }
        let uploaded = Instant::now();
        let results = addresses[inputs.len()..].to_vec();
        self.run(addresses, inputs.len())?;
        if phases.is_some() {
            self.device.wait().map_err(RunError::Device)?;
        }
        let ran = Instant::now();
        self.check_fault()?;
        // Wait before the first result is written: after this only copying can fail.
        self.device.wait().map_err(RunError::Device)?;
        for (output, address) in outputs.iter_mut().zip(results) {
            self.device.download(address, output.bytes_mut()).map_err(RunError::Device)?;
        }
        if let Some(phases) = &mut phases {
            phases.upload += uploaded - start;
            phases.kernels += ran - uploaded;
            phases.download += ran.elapsed();
        }
        Ok(())
    }

    /// Allocates device memory for host arrays. Returns the addresses of the inputs, then of the
    /// results.
    fn host(&mut self, inputs: &[ArrayRef<'_>]) -> Done<D, Vec<u64>> {
        let Some(frame) = &mut self.frame else { return Ok(vec![]) };
        if let Some(host) = &frame.host {
            return Ok(host.addresses.clone());
        }
        let lengths = inputs.iter().map(|input| input.bytes().len()).chain(frame.plan.results.iter().copied());
        let (mut offsets, mut bytes) = (vec![], 0usize);
        for length in lengths {
            offsets.push(bytes as u64);
            // This cannot overflow in practice: inputs exist in memory, and results were checked
            // against `available`.
            bytes = bytes.saturating_add(length).checked_next_multiple_of(256).unwrap_or(usize::MAX);
        }
        let base = self.device.allocate(bytes).map_err(RunError::Device)?;
        let addresses: Vec<u64> = offsets.into_iter().map(|offset| base + offset).collect();
        frame.host = Some(Host { base, bytes, addresses: addresses.clone() });
        Ok(addresses)
    }

    /// Runs the kernels on inputs and results at these addresses.
    fn run(&mut self, addresses: Vec<u64>, inputs: usize) -> Done<D, ()> {
        let Some(frame) = &mut self.frame else { return Ok(()) };
        let again = frame.last == addresses;
        // The launches and addresses are the same as last time, and already recorded.
        if again && let Some(recording) = &frame.recording {
            return self.device.replay(recording).map_err(RunError::Device);
        }
        let mut sequence = Sequence::new(&frame.plan, frame.own, &addresses, inputs);
        // The first call with these addresses launches its kernels one by one. The second records
        // them, since more calls will probably follow.
        if !again {
            (frame.recording, frame.last) = (None, addresses);
        } else if (2..=MOST_RECORDED).contains(&count(&frame.plan.steps)) {
            let launches = sequence.all();
            let recording = self.device.record(&launches, &waits(&[&launches])).map_err(RunError::Device)?;
            if let Some(recording) = recording {
                return self.device.replay(frame.recording.insert(recording)).map_err(RunError::Device);
            }
        }
        let fault = self.faults.then_some(frame.own);
        sequence.each(&mut Run { device: &mut self.device, fault }).map_err(RunError::Device)
    }

    /// Waits for the outcome of checks, if there are any.
    fn check_fault(&mut self) -> Done<D, ()> {
        let Some(frame) = &self.frame else { return Ok(()) };
        if !self.faults {
            return Ok(());
        }
        let mut record = [0; FAULT];
        self.device.download(frame.own, &mut record).map_err(RunError::Device)?;
        fault(&record).map_or(Ok(()), |fault| Err(CallError::Fault(fault).into()))
    }
}

impl<D: Device> Drop for Runner<D> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Launches the kernels of a call.
struct Run<'d, D> {
    device: &'d mut D,
    /// The address of the record of a failed check, if there are checks.
    fault: Option<u64>,
}

impl<D: Device> Run<'_, D> {
    /// Whether the `bool` at an address is true, and no check has failed: after that the memory is
    /// garbage, and a loop might never end.
    fn holds(&mut self, address: u64) -> Result<bool, D::Error> {
        let (mut condition, mut record) = ([0], [0; FAULT]);
        self.device.download(address, &mut condition)?;
        if let Some(address) = self.fault {
            self.device.download(address, &mut record)?;
        }
        Ok(condition != [0] && fault(&record).is_none())
    }
}

impl<D: Device> Visitor<'_> for Run<'_, D> {
    type Error = D::Error;

    fn launch(&mut self, _: usize, launch: &Launch<'_>) -> Result<(), D::Error> {
        self.device.launch(launch)
    }

    fn holds(&mut self, address: u64) -> Result<bool, D::Error> {
        Run::holds(self, address)
    }
}

/// Launches the kernels of a call in batches and takes their time: loops may come to more launches
/// than there should be events at once.
struct Timed<'p, 'd, D> {
    run: Run<'d, D>,
    plan: &'p Plan,
    batch: Vec<Launch<'p>>,
    /// The kernel that each launch of the batch belongs to.
    kernels: Vec<usize>,
    /// The time of each kernel so far.
    times: &'d mut [Duration],
}

impl<D: Device> Timed<'_, '_, D> {
    fn time(&mut self) -> Result<(), D::Error> {
        for (of, lap) in self.kernels.drain(..).zip(self.run.device.timed(&self.batch)?) {
            if let Some(time) = self.times.get_mut(of) {
                *time += lap;
            }
        }
        self.batch.clear();
        Ok(())
    }
}

impl<'p, D: Device> Visitor<'p> for Timed<'p, '_, D> {
    type Error = D::Error;

    fn launch(&mut self, number: usize, launch: &Launch<'p>) -> Result<(), D::Error> {
        self.batch.push(launch.clone());
        self.kernels.push(self.plan.launches[number].of);
        if self.batch.len() as u64 == MOST_RECORDED { self.time() } else { Ok(()) }
    }

    fn holds(&mut self, address: u64) -> Result<bool, D::Error> {
        self.time()?;
        self.run.holds(address)
    }
}

fn fault(record: &[u8; FAULT]) -> Option<Fault> {
    let word = |at: usize| i64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    // The low half of the first word is the site plus one.
    let site = u32::try_from(word(0) & 0xffff_ffff).ok()?.checked_sub(1)?;
    Some(Fault { site: SiteId::from_u32(site), index: word(8), bound: word(16) })
}
