//! The uses of values in a body, and how many values are live at once.

use std::collections::BTreeSet;

use cranelift_codegen::entity::EntityRef;

use super::inst::{Body, Class, Fma, Item, Operand, Reg, Repeat};

pub(super) fn for_each_item<'i>(items: &'i [Item], visit: &mut impl FnMut(&'i Item)) {
    for item in items {
        visit(item);
        match item {
            Item::Plain(_) | Item::Fma(_) => {}
            Item::Region(region) => for_each_item(&region.body, visit),
            Item::Repeat(repeat) => {
                for_each_item(&repeat.condition, visit);
                for_each_item(&repeat.body, visit);
            }
        }
    }
}

/// Calls `visit` on the operands that an item uses at its beginning.
pub(super) fn for_each_operand(item: &Item, visit: &mut impl FnMut(Operand)) {
    match item {
        Item::Plain(plain) => plain.for_each_operand(visit),
        Item::Fma(Fma { factors, addend, .. }) => factors.iter().chain([addend]).for_each(|operand| visit(*operand)),
        Item::Region(region) => {
            visit(Operand::Register(region.condition));
            region.results.iter().for_each(|(_, without, _)| visit(*without));
        }
        Item::Repeat(repeat) => repeat.carried().for_each(|carried| visit(carried.first)),
    }
}

/// The register pressure: the maximum number of vector values that are live at once.
pub(super) fn pressure(body: &Body) -> usize {
    let uses = Uses::of(body);
    let (mut most, mut alive) = (0usize, 0usize);
    let mut events: Vec<(usize, bool)> = Vec::with_capacity(2 * body.classes.len());
    for (reg, class) in body.classes.iter() {
        if *class == Class::Vector {
            let defined = uses.defined[reg.index()];
            events.extend([(defined, true), (uses.last(reg).max(defined), false)]);
        }
    }
    // At the same position, a value that dies makes room for one that begins.
    events.sort_unstable();
    for (_, begins) in events {
        if begins {
            alive += 1;
            most = most.max(alive);
        } else {
            alive = alive.saturating_sub(1);
        }
    }
    most
}

/// The uses of values.
pub(super) struct Uses {
    /// The positions of uses, grouped by value in ascending order.
    places: Vec<usize>,
    /// The beginning of each value's group in `places`, and the end of the last one.
    begins: Vec<usize>,
    pub(super) defined: Vec<usize>,
}

impl Uses {
    pub(super) fn of(body: &Body) -> Uses {
        let values = body.classes.len();
        let (mut found, mut defined) = (vec![], vec![0; values]);
        Uses::walk(&body.items, &mut 0, &mut found, &mut defined);
        // A counting sort of the uses by value: all uses are in one array, which costs one
        // allocation for a body of thousands of instructions.
        let mut begins = vec![0; values + 1];
        for (reg, _) in &found {
            begins[reg.index() + 1] += 1;
        }
        for k in 0..values {
            begins[k + 1] += begins[k];
        }
        let (mut places, mut next) = (vec![0; found.len()], begins.clone());
        for (reg, place) in found {
            places[next[reg.index()]] = place;
            next[reg.index()] += 1;
        }
        Uses { places, begins, defined }
    }

    /// Collects each use with its position, in order.
    fn walk(items: &[Item], at: &mut usize, found: &mut Vec<(Reg, usize)>, defined: &mut [usize]) {
        for item in items {
            let here = *at;
            *at += 1;
            for_each_operand(item, &mut |operand| found.extend(operand.register().map(|reg| (reg, here))));
            match item {
                Item::Plain(plain) => plain.to.iter().for_each(|to| defined[to.index()] = here),
                Item::Fma(fma) => defined[fma.to.index()] = here,
                Item::Region(region) => {
                    region.results.iter().for_each(|(result, ..)| defined[result.index()] = here);
                    Uses::walk(&region.body, at, found, defined);
                    found.extend(region.results.iter().filter_map(|(.., with)| with.register()).map(|reg| (reg, *at)));
                    *at += 1;
                }
                Item::Repeat(repeat) => Uses::walk_repeat(repeat, at, found, defined),
            }
        }
    }

    /// The values from outside of a loop, and those that it carries, are used until its end.
    fn walk_repeat(repeat: &Repeat, at: &mut usize, found: &mut Vec<(Reg, usize)>, defined: &mut [usize]) {
        let (begin, inside) = (*at - 1, found.len());
        repeat.carried().for_each(|carried| defined[carried.register.index()] = begin);
        Uses::walk(&repeat.condition, at, found, defined);
        found.extend(repeat.live.next.register().map(|reg| (reg, *at)));
        *at += 1;
        Uses::walk(&repeat.body, at, found, defined);
        found.extend(repeat.state.iter().filter_map(|carried| carried.next.register()).map(|reg| (reg, *at)));
        *at += 1;
        let used = found[inside..].iter().map(|(reg, _)| *reg).filter(|reg| defined[reg.index()] <= begin);
        let held: BTreeSet<Reg> = used.chain(repeat.carried().map(|carried| carried.register)).collect();
        found.extend(held.into_iter().map(|reg| (reg, *at)));
        *at += 1;
    }

    pub(super) fn places(&self, reg: Reg) -> &[usize] {
        &self.places[self.begins[reg.index()]..self.begins[reg.index() + 1]]
    }

    pub(super) fn last(&self, reg: Reg) -> usize {
        self.places(reg).last().copied().unwrap_or(0)
    }

    /// The next use after a position.
    pub(super) fn next(&self, reg: Reg, at: usize) -> Option<usize> {
        let places = self.places(reg);
        places.get(places.partition_point(|place| *place <= at)).copied()
    }
}
