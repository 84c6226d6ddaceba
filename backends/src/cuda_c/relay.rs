//! Long scans: a block takes a chunk of the order, and one more block relays to each chunk what is
//! before it.

use std::collections::BTreeSet;

use ir::nest::{Loop, Op, Statement};
use ir::order::{LANES, SCAN_CHUNK};
use ir::sched::{Relay, single_prefixes};
use ir::visit;

use super::argument::Argument;
use super::helpers::Helper;
use super::kernel::{Result, Writer};
use super::module::Unsupported;
use super::reduce::{Next, Prefixes, State};

/// The threads of a block.
pub(super) const THREADS: i64 = LANES as i64;
/// The elements of a chunk that a thread has.
const ROUNDS: i64 = SCAN_CHUNK as i64 / THREADS;
/// The warps of a block. Each of them relays one prefix.
const WARPS: usize = LANES / 32;

/// A prefix in a chunk.
struct InChunk {
    state: State,
    /// The names of the chunk's state, of the threads' own sums, and of the results that chunks
    /// leave and are relayed.
    chunk: String,
    sums: String,
    own: String,
    before: String,
}

impl Writer<'_> {
    /// A scan in chunks.
    pub(super) fn relay(&mut self, before: &[Statement], l: &Loop, relay: &Relay) -> Result {
        let prefixes = single_prefixes(l).unwrap_or_default();
        if prefixes.len() > WARPS {
            return Err(Unsupported("so many running reductions of one array"));
        }
        self.helpers.insert(Helper::Relay);
        self.stored.insert(relay.buffer);
        self.inside(|w| {
            w.opening(before)?;
            let range = w.range(l, &l.dims);
            let words = w.argument(&Argument::Buffer(relay.buffer));
            w.line(&format!("const long long chunks = ({} + {}) / {SCAN_CHUNK};", range.total, SCAN_CHUNK - 1));
            w.line(&format!("const Turn turn = take_turn({words}, chunks + 1);"));
            let (mut all, mut plane) = (vec![], 0);
            for (value, prefix) in &prefixes {
                let state = w.state(prefix.merge, &prefix.inputs)?;
                let ty = &state.ty;
                let [chunk, sums, own, before] = ["scan", "sums", "own", "before"].map(|name| w.names.fresh(name));
                w.line(&format!("__shared__ Chunk<{ty}> {chunk};"));
                let halves = Relay::halves(state.dtypes[0]);
                for name in [&own, &before] {
                    w.line(&format!(
                        "const Passed<{ty}> {name}{{{words} + 1 + {plane} * chunks, chunks, turn.launch}};"
                    ));
                    plane += halves;
                }
                let next = format!("{chunk}.prefix({sums}[round], round, {})", state.merge);
                w.prefixes.insert(*value, Prefixes { state: state.clone(), next: Next::Known(next) });
                all.push(InChunk { state, chunk, sums, own, before });
            }
            w.comment("One block relays to each chunk what is before it, with a warp for each prefix.");
            w.nested("if (turn.number == 0)", |w| {
                for (warp, InChunk { state, own, before, .. }) in all.iter().enumerate() {
                    let State { nothing, merge, .. } = state;
                    w.line(&format!("if (threadIdx.x / 32 == {warp}) relay({own}, {before}, {nothing}, {merge});"));
                }
                w.line("return;");
                Ok(())
            })?;
            w.line(&format!("const long long first = (turn.number - 1) * {SCAN_CHUNK};"));
            for InChunk { state: State { ty, .. }, sums, .. } in &all {
                w.line(&format!("{ty} {sums}[{ROUNDS}];"));
            }
            let number = w.number(&range);
            let element = format!("const long long {number} = first + round * {THREADS} + threadIdx.x;");
            let exists = format!("if ({number} < {})", range.total);
            let rounds = format!("for (int round = 0; round < {ROUNDS}; round++)");
            w.comment("Prefixes in groups of 16 elements, on neighbouring threads.");
            w.line("#pragma unroll");
            w.nested(&rounds, |w| {
                w.line(&element);
                let ones: Vec<String> = all.iter().map(|_| w.names.fresh("one")).collect();
                for (one, InChunk { state: State { ty, nothing, .. }, .. }) in ones.iter().zip(&all) {
                    w.line(&format!("{ty} {one} = {nothing};"));
                }
                w.nested(&exists, |w| {
                    w.unravel(&range, &number);
                    w.block(&inputs(l))?;
                    for ((one, InChunk { state, .. }), (_, prefix)) in ones.iter().zip(&all).zip(&prefixes) {
                        let value = w.one(state, &prefix.inputs, &number);
                        w.line(&format!("{one} = {value};"));
                    }
                    Ok(())
                })?;
                for (one, InChunk { state, chunk, sums, .. }) in ones.iter().zip(&all) {
                    w.line(&format!("{sums}[round] = {chunk}.grouped({one}, round, {});", state.merge));
                }
                Ok(())
            })?;
            for InChunk { state: State { nothing, merge, .. }, chunk, own, before, .. } in &all {
                w.line(&format!("{chunk}.carry({own}, {before}, turn.number - 1, {nothing}, {merge});"));
            }
            w.line("#pragma unroll");
            w.nested(&rounds, |w| {
                w.line(&element);
                w.nested(&exists, |w| {
                    w.unravel(&range, &number);
                    w.block(&outputs(l))
                })
            })
        })
    }
}

/// The statements that prefixes and stores take, without what only gives the elements of prefixes.
fn outputs(l: &Loop) -> Vec<Statement> {
    let mut used = BTreeSet::new();
    let mut outputs = vec![];
    for statement in l.body.iter().rev() {
        let mut wanted = matches!(statement, Statement::Store { .. }) || statement.may_fault();
        visit::for_each_definition(statement, &mut |v| wanted |= used.contains(&v));
        if wanted {
            if !matches!(statement, Statement::Let { op: Op::Prefix(_), .. }) {
                used.extend(visit::free_values(&vec![statement.clone()]));
            }
            outputs.push(statement.clone());
        }
    }
    outputs.reverse();
    outputs
}

/// The statements that give the elements of prefixes, which depend on none of these.
fn inputs(l: &Loop) -> Vec<Statement> {
    let mut dependent = BTreeSet::new();
    let mut inputs = vec![];
    for statement in &l.body {
        let is_prefix = matches!(statement, Statement::Let { op: Op::Prefix(_), .. });
        let used = visit::free_values(&vec![statement.clone()]);
        if is_prefix || used.iter().any(|v| dependent.contains(v)) {
            visit::for_each_definition(statement, &mut |v| _ = dependent.insert(v));
        } else if !matches!(statement, Statement::Store { .. }) {
            inputs.push(statement.clone());
        }
    }
    inputs
}
