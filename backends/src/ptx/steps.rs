//! The launches of a call in the order of the program's tree: one after another, with loops over
//! kernels as loops. Each buffer that a loop carries has the memory of two temporaries, which are
//! exchanged after every iteration: only addresses in the arguments of launches change.

use super::plan::{Plan, Word};
use super::run::Launch;

/// A step of a call.
pub(super) enum Step {
    /// Launches the n-th kernel of the plan.
    Launch(usize),
    /// Repeats steps.
    Repeat(Repeat),
}

/// A loop over launches.
pub(super) struct Repeat {
    pub(super) trips: u64,
    /// The carried buffers: `initial`, `current` and `next`, as numbers of places of the plan.
    pub(super) carried: Vec<[usize; 3]>,
    pub(super) body: Vec<Step>,
}

/// How many launches steps come to.
pub(super) fn count(steps: &[Step]) -> u64 {
    let each = |step: &Step| match step {
        Step::Launch(_) => 1,
        Step::Repeat(repeat) => repeat.trips.saturating_mul(count(&repeat.body)),
    };
    steps.iter().map(each).fold(0, u64::saturating_add)
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
            let arguments = planned.arguments.iter().flat_map(|argument| word(argument).to_le_bytes()).collect();
            let shared = u32::try_from(planned.shared).unwrap_or(u32::MAX);
            Launch { kernel: &planned.kernel, blocks: planned.blocks, threads: planned.threads, shared, arguments }
        });
        let initial_addresses: Vec<u64> = plan.places.iter().map(word).collect();
        Sequence { plan, launches: launches.collect(), places: initial_addresses.clone(), initial_addresses }
    }

    /// Calls `visit` on each launch, with its number in the plan, without allocating anything.
    pub(super) fn each<E>(&mut self, visit: &mut impl FnMut(usize, &Launch<'p>) -> Result<(), E>) -> Result<(), E> {
        self.steps(&self.plan.steps, visit)
    }

    /// All launches.
    pub(super) fn all(&mut self) -> Vec<Launch<'p>> {
        let mut launches = vec![];
        let Ok(()) = self.each::<std::convert::Infallible>(&mut |_, launch| {
            launches.push(launch.clone());
            Ok(())
        });
        launches
    }

    fn steps<E>(
        &mut self,
        steps: &'p [Step],
        visit: &mut impl FnMut(usize, &Launch<'p>) -> Result<(), E>,
    ) -> Result<(), E> {
        for step in steps {
            match step {
                Step::Launch(number) => {
                    let launch = &mut self.launches[*number];
                    for (argument, place) in &self.plan.launches[*number].carried {
                        launch.arguments[8 * argument..8 * (argument + 1)]
                            .copy_from_slice(&self.places[*place].to_le_bytes());
                    }
                    visit(*number, launch)?;
                }
                Step::Repeat(repeat) => {
                    for [initial, current, next] in &repeat.carried {
                        self.places[*current] = self.places[*initial];
                        self.places[*next] = self.initial_addresses[*next];
                    }
                    for _ in 0..repeat.trips {
                        self.steps(&repeat.body, visit)?;
                        repeat.carried.iter().for_each(|carried| self.exchange(*carried));
                    }
                }
            }
        }
        Ok(())
    }

    /// The next iteration reads what this one has stored, and stores in the other memory of the two.
    fn exchange(&mut self, [_, current, next]: [usize; 3]) {
        let stored = self.places[next];
        let other = if stored == self.initial_addresses[next] { current } else { next };
        self.places[next] = self.initial_addresses[other];
        self.places[current] = stored;
    }
}
