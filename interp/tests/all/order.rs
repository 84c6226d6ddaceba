//! Orders as trees give the bits that the interpreter gives by its own reading of their
//! definitions, whatever places their values are distributed over.

use interp::reduce::{Merger, Reduction};
use ir::order::{Distribution, Level, Pattern, Scope};
use ir::{Dtype, Monoid, Order, Scalar};
use proptest::prelude::*;

/// A merge of two partial results.
type Merge<'m> = &'m dyn Fn(f32, f32) -> f32;

/// The values of a distribution's places, by number.
struct Places<'d> {
    over: &'d Distribution,
    values: Vec<f32>,
}

impl Places<'_> {
    /// Merges as a tree says: each step between places of one span, for all places of the others.
    fn run(&mut self, order: Order, merge: Merge<'_>) {
        for step in order.tree().steps(self.over) {
            let spans = self.over.spans();
            let position = spans.iter().position(|span| span.scope() == step.scope).unwrap();
            let below: usize = spans[..position].iter().map(|span| span.places()).product();
            let places = spans[position].places();
            if step.pattern == Pattern::Doubling {
                // The places before those of the span are in the spans above.
                let distance = step.distance * below;
                for number in (distance..self.values.len()).rev() {
                    self.values[number] = merge(self.values[number - distance], self.values[number]);
                }
                continue;
            }
            for other in 0..self.values.len() / places {
                let number = |place: usize| other % below + below * (place + places * (other / below));
                for (first, second) in step.pairs() {
                    self.values[number(first)] = merge(self.values[number(first)], self.values[number(second)]);
                }
            }
        }
    }
}

/// The partial results of pairwise levels.
fn pairwise(mut results: Vec<f32>, identity: f32, merge: Merge<'_>) -> f32 {
    while results.len() > 1 {
        results = results.chunks(2).map(|two| two.iter().copied().reduce(merge).unwrap()).collect();
    }
    results.first().copied().unwrap_or(identity)
}

/// A reduction by the steps of its order's tree.
fn by_steps(order: Order, over: &Distribution, elements: &[f32], identity: f32, merge: Merge<'_>) -> f32 {
    let serial = |x: &[f32]| x.iter().fold(identity, |sum, x| merge(sum, *x));
    let places = over.places();
    let mut values = vec![identity; places];
    let mut results = vec![];
    let chunk = order.tree().chunk();
    match order {
        Order::Free => {
            for (number, x) in elements.iter().enumerate() {
                values[number % places] = merge(values[number % places], *x);
            }
            let mut all = Places { over, values };
            all.run(order, merge);
            return all.values[0];
        }
        Order::Scan => {
            let group = match order.tree().levels()[0] {
                Level::Across(_, group) => group,
                other => panic!("{other}"),
            };
            let mut before = identity;
            for chunk in elements.chunks(chunk) {
                let mut carry = identity;
                for own in chunk.chunks(group) {
                    values.fill(identity);
                    values[..own.len()].copy_from_slice(own);
                    let mut group = Places { over, values: values.clone() };
                    group.run(order, merge);
                    carry = merge(carry, group.values[own.len() - 1]);
                }
                before = merge(before, carry);
            }
            return before;
        }
        Order::Lanes => {
            // Fewer places than lanes are the first lanes, of one chunk.
            let lanes = places.min(128);
            for chunks in elements.chunks(chunk * (places / lanes)) {
                values.fill(identity);
                for (number, x) in chunks.iter().enumerate() {
                    let place = number / chunk * lanes + number % 128;
                    values[place] = merge(values[place], *x);
                }
                let mut round = Places { over, values: values.clone() };
                round.run(order, merge);
                results.push(round.values[0]);
            }
        }
        Order::Blocks => {
            for blocks in elements.chunks(chunk * places) {
                values.fill(identity);
                blocks.chunks(chunk).zip(&mut values).for_each(|(block, value)| *value = serial(block));
                let mut round = Places { over, values: values.clone() };
                round.run(order, merge);
                results.push(round.values[0]);
            }
        }
    }
    pairwise(results, identity, merge)
}

/// A reduction by the interpreter.
fn by_interpreter(order: Order, elements: &[f32], monoid: Monoid) -> f32 {
    let mut reduction = Reduction::new(Merger::Monoid(monoid, Dtype::F32), order);
    for x in elements {
        reduction.push([Scalar::F32(*x)].into_iter().collect());
    }
    match reduction.finish().as_slice() {
        [Scalar::F32(result)] => *result,
        other => panic!("{other:?}"),
    }
}

/// Some scopes in some order, with at most `1 << bits` places in all.
fn distributions(bits: u32) -> impl Strategy<Value = Distribution> {
    let spans = (Just(Scope::ALL.to_vec()).prop_shuffle(), proptest::collection::vec(0u32..6, 1..=Scope::ALL.len()));
    spans.prop_map(move |(scopes, sizes)| {
        let mut left = bits;
        let spans = scopes.into_iter().zip(sizes).map(|(scope, size)| {
            let own = size.min(left);
            left -= own;
            scope.of(1 << own)
        });
        Distribution::new(spans)
    })
}

fn cases() -> impl Strategy<Value = (Order, Distribution, usize)> {
    (0..Order::ALL.len(), 0usize..40_000, 0u32..16).prop_flat_map(|(order, count, shift)| {
        let order = Order::ALL[order];
        let bits = if order == Order::Scan { 4 } else { 10 };
        distributions(bits).prop_map(move |over| {
            // Where there are fewer places than values to merge, the others must have no elements.
            let most = match order {
                Order::Lanes if over.places() < 128 => over.places(),
                Order::Scan if over.places() < 16 => over.places(),
                Order::Lanes | Order::Scan | Order::Blocks | Order::Free => usize::MAX,
            };
            (order, over, (count >> shift).min(most))
        })
    })
}

proptest! {
    #[test]
    fn trees_agree_with_the_interpreter((order, over, count) in cases(), seed in any::<u32>(), product in any::<bool>()) {
        // Sums of numbers of very different size round differently in any other order.
        let element = |k: usize| {
            let bits = (seed ^ k as u32).wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b);
            let near_one = 1.0 + (bits >> 8) as f32 / 1e9;
            let any = (bits as i32 as f32) * f32::powi(2.0, (bits % 40) as i32 - 50);
            if product { near_one } else { any }
        };
        let elements: Vec<f32> = (0..count).map(element).collect();
        let (monoid, identity, merge): (_, _, Merge<'_>) = match (order, product) {
            (Order::Free, _) => (Monoid::Max, f32::NEG_INFINITY, &f32::max),
            (_, true) => (Monoid::Prod, 1.0, &|a, b| a * b),
            (_, false) => (Monoid::Sum, 0.0, &|a, b| a + b),
        };
        let expected = by_interpreter(order, &elements, monoid);
        let found = by_steps(order, &over, &elements, identity, merge);
        prop_assert_eq!(found.to_bits(), expected.to_bits(), "{} over {} of {}", order.tree(), over, count);
    }
}
