//! Runs a verified program exactly as its text reads: statement by statement, loops in ascending
//! order, every access checked and counted. The compiled engines must agree with it.
//!
//! Beyond `verify`, it enforces the rules that only a run can check: every subscript is in bounds,
//! a kernel stores an element at most once, and a loaded element was stored before, by the same
//! iteration of every enclosing parallel or reducing loop (for scratch, of the outermost loop). To
//! check this, each element records the time at which it was stored, and each iteration the time at
//! which it began. An iteration of a loop over kernels finds nothing of what the
//! one before has stored, except what the loop carries, which must be stored completely.

mod keyed;
mod scheduled;
mod sharing;
mod sort;
mod tree;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use ir::array::{Array, ArrayError, ArrayRef};
use ir::bind::{BindError, Binding, Fault};
use ir::nest::{
    BufferId, Contraction, Extent, IndexId, Input, Kernel, KernelId, Loop, LoopKind, Merge, Op, Program, Role,
    Statement, Subscript, ValueId, While,
};
use ir::sched::Row;
use ir::{Affine, BinaryOp, Dtype, Order, Scalar, Size, nest, print};

use crate::reduce::{Merger, Reduction, Running, State};
use crate::scalar::{self, Evaluator};
use keyed::Keyed;
pub use scheduled::run_scheduled;
use sharing::Sharing;
use sort::Sort;
use tree::Run;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results, in order.
    pub outputs: Vec<Array>,
    /// How many elements each kernel loaded from and stored to each buffer.
    pub traffic: Vec<KernelTraffic>,
}

/// Loads and stores of a kernel, for each buffer that it touches.
pub type KernelTraffic = BTreeMap<BufferId, Traffic>;

/// Loads and stores of one buffer, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Elements loaded.
    pub loads: u64,
    /// Elements stored.
    pub stores: u64,
    /// Bytes of an element.
    pub width: u64,
}

impl Traffic {
    /// Bytes loaded and stored.
    pub fn bytes(&self) -> u64 {
        (self.loads + self.stores) * self.width
    }
}

/// The reason why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The inputs do not fit the program.
    Bind(BindError),
    /// A subscript that is checked at run time is out of bounds.
    Fault(Fault),
    /// The run was cancelled.
    Cancelled,
    /// The memory for the buffers could not be allocated.
    OutOfMemory {
        /// The size of the failed allocation.
        bytes: usize,
    },
    /// The program breaks a rule of the IR: a bug of the compiler.
    Internal {
        /// The kernel's name.
        kernel: String,
        /// The access, as IR text.
        access: String,
        /// The rule that it breaks.
        problem: Problem,
    },
}

/// A rule that an access breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The subscript of an axis is out of bounds.
    Outside {
        /// The axis.
        axis: usize,
        /// The subscript.
        index: i64,
        /// The length of the axis.
        length: i64,
    },
    /// The view and the buffer have different numbers of elements.
    View,
    /// The element was never stored, or only by a statement or iteration that the load may not rely
    /// on.
    NotStored,
    /// The kernel (for scratch, the iteration of the outermost loop) has already stored the
    /// element.
    StoredTwice,
    /// The buffer may not be stored to.
    NotWritable,
    /// The element shares memory with one of another buffer that is still needed, here or in
    /// another iteration.
    Overwritten,
    /// An element of a result was never stored.
    Missing,
}

/// Runs a verified program.
pub fn run(program: &Program, inputs: &[ArrayRef<'_>]) -> Result<Outcome, RunError> {
    run_unless(program, inputs, &AtomicBool::new(false))
}

/// Runs a verified program unless `cancelled` is set, which is checked before the run and in each
/// iteration.
pub fn run_unless(program: &Program, inputs: &[ArrayRef<'_>], cancelled: &AtomicBool) -> Result<Outcome, RunError> {
    execute(program, inputs, cancelled, |machine, id| machine.block(&program.kernels[id].body))
}

/// Runs the kernels of a program one after another, each in the way that it is told.
fn execute<'p>(
    program: &'p Program,
    inputs: &[ArrayRef<'_>],
    cancelled: &AtomicBool,
    run_kernel: impl FnMut(&mut Machine<'p, '_>, KernelId) -> Step<'p>,
) -> Result<Outcome, RunError> {
    let binding = Binding::new(program, inputs).map_err(RunError::Bind)?;
    let mut memory = vec![];
    for id in program.buffers.keys() {
        memory.push(Memory::new(program, &binding, id, inputs)?);
    }
    let sharing = Sharing::new(program, |id| memory[slot(id)].stored.len());
    let sharing = sharing.map_err(|_| RunError::OutOfMemory { bytes: usize::MAX })?;
    let traffic = vec![KernelTraffic::new(); program.kernels.len()];
    let mut run = Run { program, binding: &binding, memory, sharing, clock: 1, traffic, cancelled, run_kernel };
    run.nodes(&program.body)?;
    let Run { mut memory, traffic, .. } = run;
    let mut outputs = vec![];
    for id in program.outputs() {
        let buffer = &mut memory[slot(id)];
        // An element that no kernel stored would be returned uninitialized by compiled code.
        buffer.is_whole(&program.buffers[id].name)?;
        if let Contents::Own(array) =
            std::mem::replace(&mut buffer.contents, Contents::Own(Array::scalar(Scalar::I64(0))))
        {
            outputs.push(array);
        }
    }
    Ok(Outcome { outputs, traffic })
}

/// A buffer during a run.
struct Memory<'a> {
    contents: Contents<'a>,
    shape: Vec<i64>,
    /// The time at which each element was stored, 0 for never. Kept only for buffers that kernels
    /// store to.
    stored: Vec<u64>,
    /// Whether each iteration of the outermost loop starts with the buffer empty.
    scratch: bool,
}

enum Contents<'a> {
    Given(ArrayRef<'a>),
    Own(Array),
}

impl<'a> Memory<'a> {
    fn new(
        program: &Program,
        binding: &Binding,
        id: BufferId,
        inputs: &[ArrayRef<'a>],
    ) -> Result<Memory<'a>, RunError> {
        let buffer = &program.buffers[id];
        let shape = binding.shape(program, id).map_err(RunError::Bind)?;
        let no_memory = |error| match error {
            ArrayError::OutOfMemory { bytes } => RunError::OutOfMemory { bytes },
            _ => RunError::OutOfMemory { bytes: usize::MAX },
        };
        let mut stored = vec![];
        let contents = match &buffer.role {
            Role::Input(n) => Contents::Given(inputs[*n]),
            Role::Constant(elements) => {
                Contents::Own(Array::from_scalars(buffer.dtype, &shape, elements).map_err(no_memory)?)
            }
            Role::Output(_) | Role::Temp | Role::Scratch => {
                let array = Array::zeros(buffer.dtype, &shape).map_err(no_memory)?;
                let bytes = array.len().saturating_mul(8);
                stored.try_reserve_exact(array.len()).map_err(|_| RunError::OutOfMemory { bytes })?;
                stored.resize(array.len(), 0);
                Contents::Own(array)
            }
        };
        // Array lengths fit `isize`.
        let shape = shape.into_iter().map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
        Ok(Memory { contents, shape, stored, scratch: buffer.role == Role::Scratch })
    }

    /// An error that names an element that was never stored, if there is one.
    fn is_whole(&self, name: &str) -> Result<(), RunError> {
        match self.stored.iter().position(|time| *time == 0) {
            None => Ok(()),
            Some(element) => {
                let access = format!("element {element} of %{name}");
                Err(RunError::Internal { kernel: String::new(), access, problem: Problem::Missing })
            }
        }
    }

    fn get(&self, element: usize) -> Option<Scalar> {
        match &self.contents {
            Contents::Given(array) => array.get(element),
            Contents::Own(array) => array.get(element),
        }
    }
}

/// The reason why a kernel ends early.
enum Stop<'p> {
    Fault(Fault),
    Access(&'p Statement, Problem),
    Cancelled,
}

type Step<'p, T = ()> = Result<T, Stop<'p>>;

/// A reduction of a loop and its state so far.
type UnderWay<'p> = (&'p nest::Reduction, Reduction<'p>);

/// The prefix that a running scan has reached.
struct RunningPrefix<'p> {
    merger: Merger<'p>,
    running: Running,
    /// The number of the next element.
    number: i64,
}

/// A kernel during a run.
struct Machine<'p, 'a> {
    program: &'p Program,
    binding: &'a Binding,
    kernel: KernelId,
    /// The indices of loops over results of chunks or blocks.
    joins: Vec<IndexId>,
    /// The layout of the rows of a loop that runs unit by unit.
    row: Option<Row>,
    memory: Vec<Memory<'a>>,
    sharing: Sharing,
    functions: Vec<Evaluator<'p>>,
    indices: Vec<i64>,
    values: Vec<Scalar>,
    /// The prefixes of the scans that are running, by the value that each defines.
    prefixes: Vec<Option<RunningPrefix<'p>>>,
    /// The reduction by key that is running.
    keyed: Option<Keyed>,
    /// The sort that is running.
    sort: Option<Sort>,
    /// Advances with every iteration.
    clock: u64,
    /// The time at which the kernel began.
    began: u64,
    /// For each enclosing parallel or reducing loop: when it began, and when its current iteration
    /// did.
    around: Vec<(u64, u64)>,
    /// The number of enclosing loops.
    depth: usize,
    /// When the current iteration of the outermost loop began.
    outermost: u64,
    traffic: KernelTraffic,
    cancelled: &'a AtomicBool,
}

impl<'p, 'a> Machine<'p, 'a> {
    fn new(
        program: &'p Program,
        binding: &'a Binding,
        kernel: KernelId,
        memory: Vec<Memory<'a>>,
        sharing: Sharing,
        clock: u64,
        cancelled: &'a AtomicBool,
    ) -> Machine<'p, 'a> {
        let Kernel { indices, values, .. } = &program.kernels[kernel];
        Machine {
            program,
            binding,
            kernel,
            joins: vec![],
            row: None,
            memory,
            sharing,
            functions: program.functions.values().map(Evaluator::new).collect(),
            indices: vec![0; indices.len()],
            values: values.values().map(|dtype| Scalar::zero(*dtype)).collect(),
            prefixes: values.values().map(|_| None).collect(),
            keyed: None,
            sort: None,
            clock,
            began: clock,
            around: vec![],
            depth: 0,
            outermost: clock,
            traffic: KernelTraffic::new(),
            cancelled,
        }
    }

    fn traffic(&mut self, buffer: BufferId) -> &mut Traffic {
        let width = self.program.buffers[buffer].dtype.bytes() as u64;
        self.traffic.entry(buffer).or_insert(Traffic { width, ..Traffic::default() })
    }

    fn explain(&self, stop: Stop<'p>) -> RunError {
        match stop {
            Stop::Fault(fault) => RunError::Fault(fault),
            Stop::Cancelled => RunError::Cancelled,
            Stop::Access(statement, problem) => {
                let kernel = &self.program.kernels[self.kernel];
                let access = print::headline(self.program, &kernel.indices, &kernel.values, statement);
                RunError::Internal { kernel: kernel.name.clone(), access, problem }
            }
        }
    }

    fn block(&mut self, block: &'p [Statement]) -> Step<'p> {
        block.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'p Statement) -> Step<'p> {
        match statement {
            Statement::Let { value, op } => {
                self.values[slot(*value)] = self.op(statement, *value, op)?;
                Ok(())
            }
            Statement::Store { buffer, at, value } => self.store(statement, *buffer, at, self.get(*value)),
            Statement::Scatter { buffer, at, value, monoid } => {
                self.scatter(statement, *buffer, at, self.get(*value), *monoid)
            }
            Statement::If { condition, then, otherwise, results } => {
                let taken = self.get(*condition) == Scalar::Bool(true);
                self.block(if taken { then } else { otherwise })?;
                for (result, yes, no) in results {
                    self.values[slot(*result)] = self.get(if taken { *yes } else { *no });
                }
                Ok(())
            }
            Statement::Loop(l) => self.loop_(l),
            Statement::While(w) => self.while_(w),
            Statement::Contract(c) => self.contract(c),
        }
    }

    fn loop_(&mut self, l: &'p Loop) -> Step<'p> {
        match &l.kind {
            LoopKind::Parallel => match self.row_elements(l) {
                Some(elements) => self.apart_at(elements.len(), |machine, place| {
                    machine.indices[slot(l.dims[0].0)] = elements[place];
                    machine.block(&l.body)
                }),
                None => self.apart(&l.dims, |machine| machine.block(&l.body)),
            },
            LoopKind::Serial => self.iterate(&l.dims, |machine| machine.block(&l.body)),
            LoopKind::Reduce(reductions) => {
                let joins = l.dims.iter().any(|(index, _)| self.joins.contains(index));
                let mut under_way = self.reductions(reductions);
                let mut number = 0;
                self.apart(&l.dims, |machine| {
                    machine.block(&l.body)?;
                    for (r, reduction) in &mut under_way {
                        let x = machine.state(&r.inputs, number);
                        if joins { reduction.push_result(x) } else { reduction.push(x) }
                    }
                    number += 1;
                    Ok(())
                })?;
                for (r, reduction) in under_way {
                    for (result, value) in r.results.iter().zip(reduction.finish()) {
                        self.values[slot(*result)] = value;
                    }
                }
                Ok(())
            }
            LoopKind::Keyed { keys, row } => self.keyed(l, keys, *row),
            LoopKind::Sort => self.sort(l),
            LoopKind::Scan => {
                for statement in &l.body {
                    if let Statement::Let { value, op: Op::Prefix(prefix) } = statement {
                        let merger = self.merger(prefix.merge, &prefix.inputs);
                        let running = Running::new(&merger, Order::Scan);
                        self.prefixes[slot(*value)] = Some(RunningPrefix { merger, running, number: 0 });
                    }
                }
                self.iterate(&l.dims, |machine| machine.block(&l.body))
            }
        }
    }

    fn while_(&mut self, w: &'p While) -> Step<'p> {
        let limit = self.extent(&w.counter.1);
        let mut state: Vec<Scalar> = w.state.iter().map(|s| self.get(s.first)).collect();
        for step in 0..limit.max(0) {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Stop::Cancelled);
            }
            self.indices[slot(w.counter.0)] = step;
            self.depth += 1;
            for (s, value) in w.state.iter().zip(&state) {
                self.values[slot(s.current)] = *value;
            }
            if let Some(condition) = &w.condition {
                self.block(&condition.body)?;
                if self.get(condition.value) != Scalar::Bool(true) {
                    self.depth -= 1;
                    break;
                }
            }
            self.block(&w.body)?;
            self.depth -= 1;
            state = w.state.iter().map(|s| self.get(s.next)).collect();
        }
        for (s, value) in w.state.iter().zip(state) {
            self.values[slot(s.result)] = value;
        }
        Ok(())
    }

    /// The reductions of a loop, of no elements yet.
    fn reductions(&self, reductions: &'p [nest::Reduction]) -> Vec<UnderWay<'p>> {
        reductions.iter().map(|r| (r, Reduction::new(self.merger(r.merge, &r.inputs), r.order))).collect()
    }

    fn merger(&self, merge: Merge, inputs: &[Input]) -> Merger<'p> {
        match (merge, inputs) {
            (Merge::Monoid(monoid), [Input::Value(value), ..]) => {
                Merger::Monoid(monoid, self.program.kernels[self.kernel].values[*value])
            }
            (Merge::Monoid(monoid), _) => Merger::Monoid(monoid, Dtype::I64),
            (Merge::Reducer(id), _) => Merger::of(self.program, &self.program.reducers[id]),
        }
    }

    /// The state for the element of iteration `number`.
    fn state(&self, inputs: &[Input], number: i64) -> State {
        let input = |input: &Input| match input {
            Input::Value(value) => self.get(*value),
            Input::Number => Scalar::I64(number),
        };
        inputs.iter().map(input).collect()
    }

    fn contract(&mut self, c: &'p Contraction) -> Step<'p> {
        self.apart(&c.free, |machine| {
            let mut sum = Scalar::zero(machine.program.kernels[machine.kernel].values[c.result]);
            machine.iterate(&c.reduce, |machine| {
                machine.block(&c.left.body)?;
                machine.block(&c.right.body)?;
                let product = scalar::binary(BinaryOp::Mul, machine.get(c.left.value), machine.get(c.right.value));
                sum = scalar::binary(BinaryOp::Add, sum, product);
                Ok(())
            })?;
            machine.values[slot(c.result)] = sum;
            machine.block(&c.epilogue)
        })
    }

    /// Iterates over dims with iterations that may not see each other's stores.
    fn apart(&mut self, dims: &'p [(IndexId, Extent)], mut body: impl FnMut(&mut Self) -> Step<'p>) -> Step<'p> {
        self.isolated(|machine, depth| {
            machine.iterate(dims, |machine| {
                machine.isolate(depth);
                body(machine)
            })
        })
    }

    /// Iterates over places, by number, which a function turns into indices, with iterations that
    /// may not see each other's stores.
    fn apart_at(&mut self, places: usize, mut body: impl FnMut(&mut Self, usize) -> Step<'p>) -> Step<'p> {
        self.isolated(|machine, depth| {
            (0..places).try_for_each(|place| {
                machine.iteration(|machine| {
                    machine.isolate(depth);
                    body(machine, place)
                })
            })
        })
    }

    /// Runs a loop with iterations that may not see each other's stores. It gets its depth.
    fn isolated(&mut self, run: impl FnOnce(&mut Self, usize) -> Step<'p>) -> Step<'p> {
        self.clock += 1;
        let depth = self.around.len();
        self.around.push((self.clock, self.clock));
        run(self, depth)?;
        self.around.truncate(depth);
        Ok(())
    }

    /// Begins an iteration of the loop at a depth.
    fn isolate(&mut self, depth: usize) {
        self.clock += 1;
        self.around[depth].1 = self.clock;
    }

    /// Iterates over dims, the last fastest.
    fn iterate(&mut self, dims: &'p [(IndexId, Extent)], mut body: impl FnMut(&mut Self) -> Step<'p>) -> Step<'p> {
        let extents: Vec<i64> = dims.iter().map(|(_, extent)| self.extent(extent)).collect();
        if extents.iter().any(|n| *n < 1) {
            return Ok(());
        }
        let mut at = vec![0; dims.len()];
        loop {
            for ((index, _), value) in dims.iter().zip(&at) {
                self.indices[slot(*index)] = *value;
            }
            self.iteration(&mut body)?;
            let Some(moving) = (0..dims.len()).rev().find(|k| at[*k] + 1 < extents[*k]) else { return Ok(()) };
            at[moving] += 1;
            at[moving + 1..].fill(0);
        }
    }

    /// Runs an iteration of a loop.
    fn iteration(&mut self, body: impl FnOnce(&mut Self) -> Step<'p>) -> Step<'p> {
        if self.depth == 0 {
            self.clock += 1;
            self.outermost = self.clock;
        }
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Stop::Cancelled);
        }
        self.depth += 1;
        body(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn extent(&self, extent: &Extent) -> i64 {
        match extent {
            Extent::Affine(a) => self.affine(a),
            Extent::Value(v) => self.integer(*v),
        }
    }

    fn op(&mut self, statement: &'p Statement, value: ValueId, op: &'p Op) -> Step<'p, Scalar> {
        Ok(match op {
            Op::Constant(scalar) => *scalar,
            Op::Affine(a) => Scalar::I64(self.affine(a)),
            Op::Unary(op, a) => scalar::unary(*op, self.get(*a)),
            Op::Binary(op, a, b) => scalar::binary(*op, self.get(*a), self.get(*b)),
            Op::Compare(op, a, b) => Scalar::Bool(scalar::compare(*op, self.get(*a), self.get(*b))),
            Op::Fma(a, b, c) => scalar::fma(self.get(*a), self.get(*b), self.get(*c)),
            Op::Select(c, a, b) => self.get(if self.get(*c) == Scalar::Bool(true) { *a } else { *b }),
            Op::Cast(to, a) => scalar::cast(*to, self.get(*a)),
            Op::Bitcast(to, a) => scalar::bitcast(*to, self.get(*a)),
            Op::Call(function, arguments) => {
                let arguments: Vec<Scalar> = arguments.iter().map(|a| self.get(*a)).collect();
                self.functions[slot(*function)].call(&arguments)
            }
            Op::Load { buffer, view, at } => self.load(statement, *buffer, view.as_deref(), at)?,
            Op::Check { value, bound, site } => {
                let (index, bound) = (self.integer(*value), self.size(bound));
                if !(0..bound).contains(&index) {
                    return Err(Stop::Fault(Fault { site: *site, index, bound }));
                }
                Scalar::I64(index)
            }
            Op::Place(_) => Scalar::I64(self.place()),
            Op::Prefix(prefix) => {
                // A scan sets up all its prefixes before it runs.
                let number = self.prefixes[slot(value)].as_ref().map_or(0, |prefix| prefix.number);
                let x = self.state(&prefix.inputs, number);
                match &mut self.prefixes[slot(value)] {
                    Some(under_way) => {
                        under_way.number += 1;
                        under_way.running.push(&mut under_way.merger, x)[prefix.field]
                    }
                    None => x[prefix.field],
                }
            }
        })
    }

    fn load(
        &mut self,
        statement: &'p Statement,
        buffer: BufferId,
        view: Option<&[Size]>,
        at: &[Subscript],
    ) -> Step<'p, Scalar> {
        self.traffic(buffer).loads += 1;
        let seen = view.map(|view| view.iter().map(|n| self.size(n)).collect::<Vec<_>>());
        let memory = &self.memory[slot(buffer)];
        if let Some(seen) = &seen
            && count(seen) != count(&memory.shape)
        {
            return Err(Stop::Access(statement, Problem::View));
        }
        let element = self.element(statement, seen.as_deref().unwrap_or(&memory.shape), at)?;
        self.get_stored(statement, buffer, element)
    }

    /// An element, which has been stored where this iteration may rely on it.
    fn get_stored(&mut self, statement: &'p Statement, buffer: BufferId, element: usize) -> Step<'p, Scalar> {
        let memory = &self.memory[slot(buffer)];
        if let Some(time) = memory.stored.get(element) {
            let visible = |(began, iteration): &(u64, u64)| *time < *began || *time >= *iteration;
            let since = if memory.scratch { self.outermost } else { 1 };
            if *time < since || !self.around.iter().all(visible) {
                return Err(Stop::Access(statement, Problem::NotStored));
            }
        }
        if !self.sharing.load(buffer, element, self.clock, self.began) {
            return Err(Stop::Access(statement, Problem::Overwritten));
        }
        memory.get(element).ok_or(Stop::Access(statement, Problem::View))
    }

    fn store(&mut self, statement: &'p Statement, buffer: BufferId, at: &[Subscript], value: Scalar) -> Step<'p> {
        let element = self.element(statement, &self.memory[slot(buffer)].shape, at)?;
        self.traffic(buffer).stores += 1;
        self.put(statement, buffer, element, value)
    }

    /// Stores an element.
    fn put(&mut self, statement: &'p Statement, buffer: BufferId, element: usize, value: Scalar) -> Step<'p> {
        let memory = &mut self.memory[slot(buffer)];
        let since = if memory.scratch { self.outermost } else { self.began };
        let (Some(time), Contents::Own(array)) = (memory.stored.get_mut(element), &mut memory.contents) else {
            return Err(Stop::Access(statement, Problem::NotWritable));
        };
        if *time >= since {
            return Err(Stop::Access(statement, Problem::StoredTwice));
        }
        *time = self.clock;
        let sees = |read| self.around.iter().all(|(began, iteration)| read < *began || read >= *iteration);
        if !self.sharing.store(buffer, element, self.began, sees) {
            return Err(Stop::Access(statement, Problem::Overwritten));
        }
        if array.set(element, value) { Ok(()) } else { Err(Stop::Access(statement, Problem::NotWritable)) }
    }

    /// The row-major number of an element.
    fn element(&self, statement: &'p Statement, shape: &[i64], at: &[Subscript]) -> Step<'p, usize> {
        let mut element = 0i64;
        for (axis, (subscript, length)) in at.iter().zip(shape).enumerate() {
            let index = match subscript {
                Subscript::Affine(a) => self.affine(a),
                Subscript::Value(v) => self.integer(*v),
            };
            if !(0..*length).contains(&index) {
                return Err(Stop::Access(statement, Problem::Outside { axis, index, length: *length }));
            }
            // If every later length is at least 1, this stays below the number of elements; the
            // lengths are checked on the way.
            element = element.wrapping_mul(*length).wrapping_add(index);
        }
        usize::try_from(element).map_err(|_| Stop::Access(statement, Problem::View))
    }

    fn affine(&self, a: &Affine<IndexId>) -> i64 {
        let term =
            |(index, coefficient): &(IndexId, Size)| self.size(coefficient).wrapping_mul(self.indices[slot(*index)]);
        a.terms().iter().map(term).fold(self.size(a.constant_part()), i64::wrapping_add)
    }

    fn size(&self, size: &Size) -> i64 {
        self.binding.number(size)
    }

    fn get(&self, value: ValueId) -> Scalar {
        self.values[slot(value)]
    }

    fn integer(&self, value: ValueId) -> i64 {
        if let Scalar::I64(v) = self.get(value) { v } else { 0 }
    }
}

/// The number of elements of a shape, or `None` if a length is negative or the product overflows.
fn count(shape: &[i64]) -> Option<i64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1i64, |product, n| product.checked_mul(*n).filter(|p| *p >= 0))
}

/// The position of an id's entry.
fn slot(id: impl Into<Slot>) -> usize {
    id.into().0
}

struct Slot(usize);

macro_rules! slots {
    ($($id:ty),*) => {
        $(impl From<$id> for Slot {
            fn from(id: $id) -> Slot {
                Slot(id.as_u32() as usize)
            }
        })*
    };
}

slots!(BufferId, nest::FunctionId, IndexId, KernelId, ValueId);
