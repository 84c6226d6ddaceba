//! A launch: clusters of blocks take turns, a few at a time, and so do the blocks of a cluster and
//! the warps of a block. So a thread that spins on another block's flag lets that block make
//! progress, as on a device.

use crate::exec::arrivals::Arrivals;
use crate::exec::meeting::Meetings;
use crate::exec::tiles::Fences;
use crate::exec::{Grid, Shared, step};
use crate::fault::{Fault, Problem};
use crate::memory::Memory;
use crate::op::Op;
use crate::order::{Flags, Knowledge};
use crate::parse::Module;
use crate::region::Region;
use crate::shape::Shape;
use crate::types::LANES;
use crate::warp::{Group, Wait, Warp};

/// How to launch a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory behind the kernel's own variables.
    pub shared: u32,
    /// The order in which blocks and warps take turns: 0 is ascending. No result may depend on it.
    pub seed: u64,
}

impl Default for Launch {
    /// One thread.
    fn default() -> Launch {
        Launch { grid: [1; 3], block: [1; 3], shared: 0, seed: 0 }
    }
}

/// Statistics of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions executed by warps, including those that a guard disables for all lanes.
    pub instructions: u64,
    /// Bytes of global memory loaded, counted for each thread.
    pub loaded: u64,
    /// Bytes of global memory that threads have stored.
    pub stored: u64,
    /// Barriers that blocks have passed.
    pub barriers: u64,
}

/// How many blocks run at the same time, or how many clusters of several blocks.
const RESIDENT: usize = 8;
const CLUSTERS: usize = 2;

/// Shared memory of a block, at most: what an H100 has.
const MOST_SHARED: u32 = 227 << 10;

/// The limit on backward jumps without any change that another thread could see: a loop beyond it
/// waits in vain.
const PATIENCE: u64 = 1 << 20;

/// Instructions of warps in a launch.
const MOST_INSTRUCTIONS: u64 = u32::MAX as u64 - 1;

/// The instructions that a warp runs before the next one's turn, in the ascending order.
const TURN: u64 = 256;

/// A sequence of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
    }
}

/// The order and the length of turns. Without a seed, the order is ascending.
struct Turns {
    random: Option<Random>,
}

impl Turns {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        if let Some(random) = &mut self.random {
            random.shuffle(items);
        }
    }

    fn length(&mut self) -> u64 {
        self.random.as_mut().map_or(TURN, |random| 1 + random.next() % 32)
    }
}

/// A block that runs.
struct Block {
    shared: Shared,
    warps: Vec<Warp>,
    /// The order in which warps take turns.
    order: Vec<usize>,
    begun: bool,
}

/// How a block is after its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// It waits for its cluster.
    Waits,
    Ended,
}

impl Module {
    /// Runs a kernel to its end. `arguments` are the bytes of its parameter space, with each
    /// parameter aligned as declared.
    ///
    /// `.global` variables are initialized for each launch; the contents that a kernel leaves in
    /// them are lost.
    ///
    /// # Errors
    /// An error if PTX leaves the kernel's behaviour undefined, if it does not end, or if it cannot
    /// be launched in this way.
    pub fn launch(&self, memory: &mut Memory, name: &str, launch: Launch, arguments: &[u8]) -> Result<Stats, Fault> {
        let refuse = |line, what| Fault { kernel: name.to_owned(), line, thread: Default::default(), what };
        let Some(kernel) = self.kernels.iter().find(|k| k.name == name) else {
            return Err(refuse(0, Problem::UnknownKernel));
        };
        let shape = Shape { grid: launch.grid, block: launch.block, cluster: kernel.cluster };
        let (expected, found) = (kernel.parameters, arguments.len());
        if expected as usize != found {
            return Err(refuse(kernel.line, Problem::Arguments { expected, found }));
        }
        let product = |sizes: [u32; 3]| sizes.iter().map(|size| u128::from(*size)).product::<u128>();
        let excluded = kernel.most.is_some_and(|most| product(shape.block) > product(most))
            || kernel.required.is_some_and(|required| required != shape.block);
        if !shape.possible() || excluded || kernel.shared.sum().saturating_add(launch.shared) > MOST_SHARED {
            return Err(refuse(kernel.line, Problem::Shape));
        }
        let own = memory.count();
        memory.forget_accesses();
        let mut globals = vec![];
        for contents in &self.globals {
            let address = memory.allocate(contents.len());
            if !contents.is_empty() {
                memory.write(address, contents);
            }
            globals.push(address);
        }
        let mut constants = Region::default();
        constants.lay_out(&self.constant, self.constant.bytes, 0);
        for (at, bytes) in &self.constant.extents {
            let contents = &self.constants[*at as usize..(at + bytes) as usize];
            // The layout has room for each of them.
            let _ = constants.put(u64::from(*at), contents);
        }
        let (flags, stats) = (Flags::default(), Stats::default());
        let mut grid = Grid { kernel, shape, arguments, memory, constants, shared: vec![], flags, stats, idle: 0 };
        let result = run(&mut grid, &globals, launch);
        let stats = grid.stats;
        memory.free_behind(own);
        result.map(|()| stats)
    }
}

/// Runs all blocks.
fn run(grid: &mut Grid<'_>, globals: &[u64], launch: Launch) -> Result<(), Fault> {
    let mut turns = Turns { random: (launch.seed != 0).then_some(Random(launch.seed)) };
    let together = grid.shape.cluster;
    let mut waiting: Vec<u32> = (0..grid.shape.blocks() as u32 / together).collect();
    turns.shuffle(&mut waiting);
    let mut waiting = waiting.into_iter();
    // Dynamic memory follows the kernel's variables, after a gap.
    let mut behind = grid.kernel.shared.clone();
    let dynamic = behind.place(launch.shared, grid.kernel.dynamic.unwrap_or(1).max(16));
    let mut running: Vec<Vec<Block>> = vec![];
    for number in waiting.by_ref().take(if together == 1 { RESIDENT } else { CLUSTERS }) {
        let mut cluster = vec![];
        for _ in 0..together {
            let warps = (0..grid.shape.warps()).map(|w| Warp::new(grid.kernel, w as u16, globals, dynamic)).collect();
            let shared = Shared { slot: grid.shared.len() as u32, ..Shared::default() };
            grid.shared.push(Region::default());
            cluster.push(Block { shared, warps, order: (0..grid.shape.warps()).collect(), begun: false });
        }
        start(&mut cluster, grid, number);
        running.push(cluster);
    }
    while !running.is_empty() {
        turns.shuffle(&mut running);
        let mut index = 0;
        while index < running.len() {
            let cluster = &mut running[index];
            turns.shuffle(cluster);
            let mut states = vec![];
            for block in &mut *cluster {
                states.push(block.turn(grid, &mut turns, (dynamic, launch.shared))?);
            }
            if states.iter().all(|state| *state == State::Ended) {
                match waiting.next() {
                    Some(number) => start(cluster, grid, number),
                    None => {
                        running.remove(index);
                        continue;
                    }
                }
            } else if !states.contains(&State::Runs) {
                meet(cluster, grid);
            }
            index += 1;
        }
    }
    Ok(())
}

/// Starts the blocks of a cluster.
fn start(cluster: &mut [Block], grid: &Grid<'_>, number: u32) {
    for block in cluster {
        block.start(grid, grid.shape.mate(number * grid.shape.cluster, block.shared.slot % grid.shape.cluster));
    }
}

/// A barrier of all threads of a cluster that have not exited.
fn meet(cluster: &mut [Block], grid: &mut Grid<'_>) {
    cluster.iter_mut().for_each(|block| block.go_on());
    let mut all = vec![];
    for Block { shared: Shared { block, epoch, knowledge, .. }, .. } in cluster {
        all.push((*block, *epoch, knowledge));
    }
    Knowledge::meet(&mut all);
    grid.stats.barriers += 1;
    grid.idle = 0;
}

impl Block {
    fn start(&mut self, grid: &Grid<'_>, number: u32) {
        self.shared.block = number;
        self.shared.epoch = 0;
        self.shared.knowledge = Knowledge::default();
        self.shared.fences = Fences::default();
        self.shared.meetings = Meetings::default();
        self.shared.arrivals = Arrivals::default();
        self.begun = false;
        let local = &grid.kernel.local;
        if local.bytes > 0 {
            self.shared.locals.resize(grid.shape.threads(), Region::default());
            for region in &mut self.shared.locals {
                region.lay_out(local, local.bytes, 0);
            }
        }
        for warp in &mut self.warps {
            warp.start(grid.kernel, &grid.shape, number);
        }
    }

    /// Runs each warp for a while. The block's memory is visible to others of its cluster from its
    /// first turn until it ends.
    fn turn(&mut self, grid: &mut Grid<'_>, turns: &mut Turns, (dynamic, more): (u32, u32)) -> Result<State, Fault> {
        if !self.begun {
            grid.shared[self.shared.slot as usize].lay_out(&grid.kernel.shared, dynamic, more);
            self.begun = true;
        }
        turns.shuffle(&mut self.order);
        let mut moved = false;
        for index in &self.order {
            let warp = &mut self.warps[*index];
            for _ in 0..turns.length() {
                match step(grid, &mut self.shared, warp) {
                    Ok(true) => moved = true,
                    Ok(false) => break,
                    Err((stop, line)) => {
                        let number = usize::from(warp.number) * LANES + stop.lane;
                        return Err(self.fault(grid, number, line, stop.what));
                    }
                }
            }
        }
        // A running thread is blamed, not those that wait for it at a barrier.
        let runs = |group: &Group| group.wait == Wait::No;
        let tired = grid.idle > PATIENCE || grid.stats.instructions > MOST_INSTRUCTIONS;
        if tired && self.warps.iter().flat_map(|warp| &warp.groups).any(runs) {
            return Err(self.at_some_group(grid, runs, Problem::Deadlock));
        }
        if moved {
            return Ok(State::Runs);
        }
        if self.warps.iter().all(|warp| warp.groups.is_empty()) {
            grid.shared[self.shared.slot as usize] = Region::default();
            return Ok(State::Ended);
        }
        self.barrier(grid)
    }

    /// No thread can run: all that have not exited wait at barriers. If it is the same barrier, it
    /// is complete.
    fn barrier(&mut self, grid: &mut Grid<'_>) -> Result<State, Fault> {
        let mut groups = self.warps.iter().flat_map(|warp| &warp.groups).map(|group| group.wait);
        let first = groups.next();
        let met = matches!(first, Some(Wait::Meeting { .. }));
        if met || groups.any(|wait| Some(wait) != first) {
            return Err(self.at_some_group(grid, |_| true, Problem::Deadlock));
        }
        let aligned = |group: &Group| {
            let op = &grid.kernel.operations[group.at as usize].op;
            matches!(op, Op::Barrier { aligned: true, .. } | Op::AwaitCluster { aligned: true })
        };
        for warp in &self.warps {
            let parted = |group: &&Group| group.at != warp.groups[0].at && (aligned(group) || aligned(&warp.groups[0]));
            if let Some(group) = warp.groups.iter().find(parted) {
                let at = group.at;
                return Err(self.at_some_group(grid, |group| group.at == at, Problem::BarrierDivergence));
            }
        }
        if first == Some(Wait::Cluster) {
            return Ok(State::Waits);
        }
        self.vote(grid)?;
        self.go_on();
        grid.stats.barriers += 1;
        grid.idle = 0;
        Ok(State::Runs)
    }

    /// Tells the threads that meet at `bar.red` whether the condition holds in all of them.
    fn vote(&mut self, grid: &Grid<'_>) -> Result<(), Fault> {
        let mut votes = vec![];
        let mut plain = None;
        for (number, warp) in self.warps.iter().enumerate() {
            for (place, group) in warp.groups.iter().enumerate() {
                if let Op::Barrier { all: Some((to, condition)), .. } = grid.kernel.operations[group.at as usize].op {
                    let yes = warp.condition(condition, group.lanes).map_err(|stop| {
                        let line = grid.kernel.operations[group.at as usize].line;
                        self.fault(grid, usize::from(warp.number) * LANES + stop.lane, line, stop.what)
                    })?;
                    votes.push((number, place, to, yes == group.lanes));
                } else {
                    plain = Some(group.at);
                }
            }
        }
        if let Some(at) = plain.filter(|_| !votes.is_empty()) {
            return Err(self.at_some_group(grid, |group| group.at == at, Problem::MixedBarriers));
        }
        let all = if votes.iter().all(|(.., yes)| *yes) { u32::MAX } else { 0 };
        for (number, place, to, _) in votes {
            let warp = &mut self.warps[number];
            warp.write_pred(to, warp.groups[place].lanes, all);
        }
        Ok(())
    }

    /// All threads have met.
    fn go_on(&mut self) {
        for group in self.warps.iter_mut().flat_map(|warp| &mut warp.groups) {
            group.at += 1;
            group.wait = Wait::No;
        }
        self.shared.epoch += 1;
        self.shared.knowledge.barrier();
    }

    /// A fault at the first group that satisfies a condition.
    fn at_some_group(&self, grid: &Grid<'_>, here: impl Fn(&Group) -> bool, what: Problem) -> Fault {
        let mut groups = self.warps.iter().flat_map(|warp| warp.groups.iter().map(move |group| (warp.number, group)));
        match groups.find(|(_, group)| here(group)) {
            Some((warp, group)) => {
                let number = usize::from(warp) * LANES + group.lanes.trailing_zeros() as usize;
                self.fault(grid, number, grid.kernel.operations[group.at as usize].line, what)
            }
            None => self.fault(grid, 0, grid.kernel.line, what),
        }
    }

    fn fault(&self, grid: &Grid<'_>, number: usize, line: u32, what: Problem) -> Fault {
        Fault { kernel: grid.kernel.name.clone(), line, thread: grid.shape.thread(self.shared.block, number), what }
    }
}
