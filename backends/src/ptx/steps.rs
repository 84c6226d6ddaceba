//! The launches of a call in the order of the program's tree: one after another, with loops over
//! kernels as loops. Each buffer that a loop carries has the memory of two temporaries, which are
//! exchanged after every iteration: only addresses in the arguments of launches change.

use std::convert::Infallible;

use super::device::{Access, Launch};
use super::plan::{Plan, PlannedMap, Word};
use super::tensor_map::TensorMap;

/// A step of a call.
pub(super) enum Step {
    /// Launches the n-th kernel of the plan.
    Launch(usize),
    /// Repeats steps.
    Repeat(Repeat),
    /// Ends the loop around it unless the `bool` in this place is true.
    Exit(usize),
}

/// A loop over launches.
pub(super) struct Repeat {
    /// How often, unless an exit ends the loop earlier.
    pub(super) trips: u64,
    /// The carried buffers: `initial`, `current` and `next`, as numbers of places of the plan.
    pub(super) carried: Vec<[usize; 3]>,
    pub(super) body: Vec<Step>,
}

/// How many launches steps come to; more than any number if data tells.
pub(super) fn count(steps: &[Step]) -> u64 {
    let each = |step: &Step| match step {
        Step::Launch(_) => 1,
        Step::Repeat(repeat) => repeat.trips.saturating_mul(count(&repeat.body)),
        Step::Exit(_) => u64::MAX,
    };
    steps.iter().map(each).fold(0, u64::saturating_add)
}

/// A walk through the launches of a call.
pub(super) trait Visitor<'p> {
    /// Why it ends early.
    type Error;
    /// Comes to a launch, with its number in the plan.
    fn launch(&mut self, number: usize, launch: &Launch<'p>) -> Result<(), Self::Error>;
    /// Comes to an exit: tells whether the `bool` at this address is true after all launches so far.
    fn holds(&mut self, address: u64) -> Result<bool, Self::Error>;
}

/// A walk that collects launches. It comes to no exit: see [`count`].
struct Collector<'p>(Vec<Launch<'p>>);

impl<'p> Visitor<'p> for Collector<'p> {
    type Error = Infallible;

    fn launch(&mut self, _: usize, launch: &Launch<'p>) -> Result<(), Infallible> {
        self.0.push(launch.clone());
        Ok(())
    }

    fn holds(&mut self, _: u64) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// The launches of a call whose arrays are at certain addresses.
pub(super) struct Sequence<'p> {
    plan: &'p Plan,
    /// The launches of the plan, with the addresses of the last time each was launched.
    launches: Vec<Launch<'p>>,
    /// The address of each place of the plan: before the call, and now.
    initial_addresses: Vec<u64>,
    places: Vec<u64>,
}

/// A map of a buffer that is at an address.
fn placed(planned: &PlannedMap, address: u64) -> TensorMap {
    TensorMap { address: address + planned.map.address, ..planned.map.clone() }
}

impl<'p> Sequence<'p> {
    /// The launches of a call. `addresses` are those of the inputs, as many as `inputs` says, then
    /// those of the results.
    pub(super) fn new(plan: &'p Plan, own: u64, addresses: &[u64], inputs: usize) -> Sequence<'p> {
        let word = |word: &Word| match word {
            Word::Number(number) => *number,
            Word::Own(offset) => own + *offset as u64,
            Word::Input(n) => addresses[*n],
            Word::Output(n) => addresses[inputs + n],
        };
        let launches = plan.launches.iter().map(|planned| {
            let at = |planned: &PlannedMap| placed(planned, word(&planned.buffer));
            let maps = planned.maps.iter().map(at).collect();
            let arguments = planned.arguments.iter().flat_map(|argument| word(argument).to_le_bytes()).collect();
            let accesses = planned.accesses.iter().map(|access| {
                let (address, bytes) = (word(&access.at), access.bytes as u64);
                Access { address, bytes, writes: access.writes }
            });
            let accesses = accesses.collect();
            let shared = u32::try_from(planned.shared).unwrap_or(u32::MAX);
            Launch {
                kernel: &planned.kernel,
                blocks: planned.blocks,
                threads: planned.threads,
                shared,
                arguments,
                maps,
                accesses,
            }
        });
        let initial_addresses: Vec<u64> = plan.places.iter().map(word).collect();
        Sequence { plan, launches: launches.collect(), places: initial_addresses.clone(), initial_addresses }
    }

    /// Walks through the launches, without allocating anything.
    pub(super) fn each<V: Visitor<'p>>(&mut self, visitor: &mut V) -> Result<(), V::Error> {
        self.steps(&self.plan.steps, visitor).map(drop)
    }

    /// All launches, if no data tells how many there are.
    pub(super) fn all(&mut self) -> Vec<Launch<'p>> {
        let mut collector = Collector(vec![]);
        let Ok(()) = self.each(&mut collector);
        collector.0
    }

    /// Walks through steps, up to an exit with a condition that does not hold. Returns whether it
    /// came to the end.
    fn steps<V: Visitor<'p>>(&mut self, steps: &'p [Step], visitor: &mut V) -> Result<bool, V::Error> {
        for step in steps {
            match step {
                Step::Launch(number) => {
                    let launch = &mut self.launches[*number];
                    for (argument, place) in &self.plan.launches[*number].carried {
                        launch.arguments[8 * argument..8 * (argument + 1)]
                            .copy_from_slice(&self.places[*place].to_le_bytes());
                    }
                    for (map, planned) in launch.maps.iter_mut().zip(&self.plan.launches[*number].maps) {
                        if let Some(place) = planned.place {
                            *map = placed(planned, self.places[place]);
                        }
                    }
                    for (access, planned) in launch.accesses.iter_mut().zip(&self.plan.launches[*number].accesses) {
                        if let Some(place) = planned.place {
                            access.address = self.places[place];
                        }
                    }
                    visitor.launch(*number, launch)?;
                }
                Step::Repeat(repeat) => {
                    for [initial, current, next] in &repeat.carried {
                        self.places[*current] = self.places[*initial];
                        self.places[*next] = self.initial_addresses[*next];
                    }
                    for _ in 0..repeat.trips {
                        if !self.steps(&repeat.body, visitor)? {
                            break;
                        }
                        repeat.carried.iter().for_each(|carried| self.exchange(*carried));
                    }
                }
                Step::Exit(place) => {
                    if !visitor.holds(self.places[*place])? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The next iteration reads what this one has stored, and stores in the other memory of the two.
    fn exchange(&mut self, [_, current, next]: [usize; 3]) {
        let stored = self.places[next];
        let other = if stored == self.initial_addresses[next] { current } else { next };
        self.places[next] = self.initial_addresses[other];
        self.places[current] = stored;
    }
}
