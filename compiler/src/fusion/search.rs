//! The choice among plans. A pass takes each edge that pays by itself; what it takes is gone for the passes that follow. So one order of
//! the passes is best for one program and another for another: of several the one is taken whose plan costs least, by the one cost
//! model, of equal costs the first.
//!
//! A program that is larger than a kernel may be is cut where the fewest bytes cross, if that costs less than to let the passes run into the
//! limit.
//!
//! A plan of which nothing can be better ends the search: one kernel, or kernels that leave nothing in memory for one another and read
//! nothing twice.

use ir::decision::FusionPass::{self, Kinput, Kloop, Koutput, Nest, Siblings};
use ir::nest::{Program, Role};

use super::{Graph, cut, kinput, kloop, koutput, nest, siblings};
use crate::pipeline::{Options, Policy};

/// The orders of passes, the usual one first.
const ORDERS: &[&[FusionPass]] = &[
    &[Kloop, Kinput, Siblings, Nest, Koutput],
    &[Kloop, Kinput, Koutput, Siblings, Nest],
    &[Kloop, Koutput, Siblings, Kinput, Nest],
    &[Kloop, Siblings, Kinput, Nest, Koutput],
    &[Kloop, Kinput, Nest, Koutput],
];

/// The most operations of a program for which orders are compared.
const MAX_OPERATIONS: usize = 64;

/// The cheapest plan. `check` looks at each program that a pass has changed.
pub fn search<E>(
    unfused: &Program,
    options: &Options,
    mut check: impl FnMut(FusionPass, &Program) -> Result<(), E>,
) -> Result<Graph, E> {
    let mut plan = |order: &[FusionPass], cuts: bool| {
        let mut graph = Graph::new(unfused, options);
        if cuts {
            graph.cut(cut::parts(&graph));
        }
        for pass in order {
            graph.begin(*pass);
            if options.fuse.contains(*pass) && run(*pass)(&mut graph) {
                graph.settle();
                check(*pass, graph.program())?;
            }
        }
        Ok(graph)
    };
    let mut best = plan(ORDERS[0], false)?;
    if options.policy != Policy::Model || options.fuel.is_some() || is_least(&best) {
        return Ok(best);
    }
    let orders = if unfused.kernels.len() <= MAX_OPERATIONS { &ORDERS[1..] } else { &[] };
    let cuts = best.is_cut().then_some((ORDERS[0], true));
    let mut least = cost(&best);
    for (order, cuts) in orders.iter().map(|order| (*order, false)).chain(cuts) {
        let other = plan(order, cuts)?;
        let price = cost(&other);
        if price < least {
            (best, least) = (other, price);
        }
    }
    Ok(best)
}

fn run(pass: FusionPass) -> fn(&mut Graph) -> bool {
    match pass {
        Kloop => kloop::run,
        Kinput => kinput::run,
        Siblings => siblings::run,
        Nest => nest::run,
        Koutput => koutput::run,
    }
}

/// The time of all kernels in nanoseconds, and the bytes that cross between memory and caches.
fn cost(graph: &Graph) -> (f64, f64) {
    let prices = graph.kernels().map(|id| graph.price(id));
    prices.fold((0.0, 0.0), |(time, bytes), price| (time + price.time, bytes + price.memory))
}

/// Whether no plan can be better: kernels leave nothing in memory for one another, and no two read the same.
fn is_least(graph: &Graph) -> bool {
    let loaded = graph.kernels().flat_map(|id| graph.loads(id).iter().map(move |buffer| (*buffer, id)));
    loaded.into_iter().all(|(buffer, id)| {
        let role = &graph.program().buffers[buffer].role;
        let alone = graph.readers(buffer).all(|reader| reader == id);
        alone && (matches!(role, Role::Input(_) | Role::Constant(_)) || graph.writer(buffer) == Some(id))
    })
}
