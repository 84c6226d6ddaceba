//! Keeps elements that a serial loop stores in values, for its next iterations (scalar replacement:
//! Callahan, Carr, Kennedy, "Improving Register Allocation for Subscripted Variables", 1990).
//! Otherwise a recurrence like `y[t] = f(y[t - 1])` would wait in each iteration for the element
//! that it has just stored to come back from memory.
//!
//! ```text
//! serial t < n {             v0 = load %y[0]
//!   v1 = load %y[t]          while t < n with v1 = v0 {
//!   v2 = f(v1)                 v2 = f(v1)
//!   store %y[t + 1], v2        store %y[t + 1], v2
//! }                            yield v2
//!                            }
//! ```

use std::collections::BTreeMap;

use ir::choice::Choice;
use ir::nest::{
    Block, BufferId, Extent, IndexId, Loop, LoopKind, Op, Program, State, Statement, Subscript, ValueId, While,
};
use ir::rewrite::{replace, replace_values};
use ir::sabotage::{self, Bug};
use ir::sched::Scheduled;
use ir::{Affine, CompareOp, Scalar};

use crate::maker::Maker;

/// The most iterations that an element is kept for.
const LONGEST: i64 = 4;

/// Keeps elements that serial loops load from their previous iterations in values.
pub fn carry(scheduled: &mut Scheduled, choice: &mut Choice) {
    let Scheduled { program, parts, .. } = scheduled;
    for kernel in parts.iter_mut().map(|part| &mut part.kernel) {
        let body = std::mem::take(&mut kernel.body);
        kernel.body = in_block(&mut Maker { program, kernel }, choice, body);
    }
}

fn in_block(maker: &mut Maker, choice: &mut Choice, block: Block) -> Block {
    let mut out = vec![];
    for mut statement in block {
        for inner in statement.blocks_mut() {
            *inner = in_block(maker, choice, std::mem::take(inner));
        }
        if let Statement::Loop(l) = statement {
            serial(maker, choice, l, &mut out);
        } else {
            out.push(statement);
        }
    }
    out
}

/// An element that each iteration stores and later ones load.
struct Chain {
    buffer: BufferId,
    /// Its subscripts, affine in the index of the loop.
    at: Vec<Affine<IndexId>>,
    /// The value stored.
    value: ValueId,
    /// The values loaded, with the number of iterations since they were stored.
    loads: Vec<(ValueId, i64)>,
    /// Whether the array begins with the loop: no iteration loads an element from before it.
    begins: bool,
}

impl Chain {
    /// The element of the iteration that `from` gives.
    fn element(&self, index: IndexId, from: &Affine<IndexId>) -> Vec<Affine<IndexId>> {
        let mut with = |i| if i == index { from.clone() } else { Affine::index(i) };
        self.at.iter().map(|a| a.substitute(&mut with)).collect()
    }
}

/// The elements of a loop's body that can be kept.
fn chains(program: &Program, body: &Block, index: IndexId) -> Vec<Chain> {
    let mut chains = vec![];
    for statement in body {
        let Statement::Store { buffer, at, value } = statement else { continue };
        let affine = |s: &Subscript| match s {
            Subscript::Affine(a) => Some(a.clone()),
            Subscript::Value(_) => None,
        };
        let Some(at) = at.iter().map(affine).collect::<Option<Vec<_>>>() else { continue };
        // Element -1 does not exist, so an access to it is in a branch that is not taken.
        let begins = at.iter().any(|a| a.as_index() == Some(index));
        let mut chain = Chain { buffer: *buffer, at, value: *value, loads: vec![], begins };
        if program.buffers[*buffer].shape.is_empty() || chain.at.iter().all(|a| a.coefficient(index).is_zero()) {
            continue;
        }
        let earlier: Vec<Vec<Subscript>> = (1..=LONGEST)
            .map(|distance| chain.element(index, &Affine::index(index).sub(&Affine::constant(distance))))
            .map(|at| at.into_iter().map(Subscript::Affine).collect())
            .collect();
        chain.loads = loads(body, *buffer, &earlier, begins);
        if !chain.loads.is_empty() {
            chains.push(chain);
        }
    }
    chains
}

/// The loads of elements of earlier iterations, in all of a block, or only those that every
/// iteration executes.
fn loads(block: &Block, buffer: BufferId, earlier: &[Vec<Subscript>], nested: bool) -> Vec<(ValueId, i64)> {
    let mut found = vec![];
    for statement in block {
        if let Statement::Let { value, op: Op::Load { buffer: from, view: None, at } } = statement
            && *from == buffer
            && let Some(distance) = (1..).zip(earlier).find(|(_, before)| *before == at)
        {
            found.push((*value, distance.0));
        }
        statement.blocks().filter(|_| nested).for_each(|b| found.extend(loads(b, buffer, earlier, true)));
    }
    found
}

/// Appends a loop; a serial one with the elements of earlier iterations in values.
fn serial(maker: &mut Maker, choice: &mut Choice, mut l: Loop, out: &mut Block) {
    if l.kind != LoopKind::Serial {
        return out.push(Statement::Loop(l));
    }
    let last = l.dims.pop();
    let chains = last.as_ref().map_or(vec![], |(index, _)| chains(maker.program, &l.body, *index));
    let Some(counter) = last.clone().filter(|_| !chains.is_empty() && choice.grants(true)) else {
        l.dims.extend(last);
        return out.push(Statement::Loop(l));
    };
    let mut inner = vec![];
    let mut state: Vec<State> = vec![];
    let mut kept = BTreeMap::new();
    for chain in &chains {
        let dtype = maker.program.buffers[chain.buffer].dtype;
        let longest = chain.loads.iter().map(|(_, distance)| *distance).max().unwrap_or(0);
        for distance in 1..=longest {
            let first = before(maker, chain, &counter, distance, &mut inner);
            let [current, result] = [(); 2].map(|()| maker.kernel.values.push(dtype));
            let next = if distance == 1 { chain.value } else { state[state.len() - 1].current };
            state.push(State { first, current, next, result });
            kept.extend(chain.loads.iter().filter(|(_, of)| *of == distance).map(|(value, _)| (*value, current)));
        }
    }
    let mut body = l.body;
    replace(&mut body, &mut |statement, out| {
        if !matches!(&statement, Statement::Let { value, .. } if kept.contains_key(value)) {
            out.push(statement);
        }
    });
    replace_values(&mut body, &kept);
    for s in &mut state {
        s.next = kept.get(&s.next).copied().unwrap_or(s.next);
    }
    inner.push(Statement::While(While { counter, state, condition: None, body }));
    if l.dims.is_empty() {
        out.extend(inner);
    } else {
        out.push(Statement::Loop(Loop { dims: l.dims, kind: LoopKind::Serial, body: inner }));
    }
}

/// The element from `distance` iterations before the loop, where an iteration loads it. Elsewhere
/// any value will do.
fn before(
    maker: &mut Maker,
    chain: &Chain,
    (index, extent): &(IndexId, Extent),
    distance: i64,
    out: &mut Block,
) -> ValueId {
    let zero = Op::Constant(Scalar::zero(maker.program.buffers[chain.buffer].dtype));
    // The least number of iterations before one that loads it.
    let loaded = chain.loads.iter().map(|(_, of)| of - distance).filter(|number| *number >= 0).min();
    let begins = chain.begins || sabotage::on(Bug::KeptFromZero);
    let Some(loaded) = loaded.filter(|_| !begins) else { return maker.define(out, zero) };
    let extent = match extent {
        Extent::Affine(a) => maker.define(out, Op::Affine(a.clone())),
        Extent::Value(value) => *value,
    };
    let loaded = maker.define(out, Op::Constant(Scalar::I64(loaded)));
    let condition = maker.define(out, Op::Compare(CompareOp::Gt, extent, loaded));
    let at = chain.element(*index, &Affine::constant(-distance)).into_iter().map(Subscript::Affine).collect();
    let (mut then, mut otherwise) = (vec![], vec![]);
    let element = maker.define(&mut then, Op::Load { buffer: chain.buffer, view: None, at });
    let nothing = maker.define(&mut otherwise, zero);
    let first = maker.kernel.values.push(maker.kernel.values[element]);
    out.push(Statement::If { condition, then, otherwise, results: vec![(first, element, nothing)] });
    first
}
