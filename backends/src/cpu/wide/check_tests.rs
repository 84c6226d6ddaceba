//! Random bodies through the allocator and its checker, which has to find each operand that is put
//! elsewhere.

use cranelift_codegen::entity::PrimaryMap;
use iced_x86::Code;
use proptest::prelude::*;
use proptest::sample::Index;

use super::allocate;
use super::arguments::{Argument, Shared};
use super::assemble::{Assembler, Chosen};
use super::check::{Contents, Event};
use super::constants::PinnedConstants;
use super::inst::{Body, Carried, Class, Fma, Item, Lanes, Operand, Plain, Reg, Region, Repeat, Slot, Splat};
use crate::cpu::machine::Isa;

/// A step of a random body. Its operands are drawn from the values so far.
#[derive(Clone, Debug)]
enum Step {
    Add([Index; 2]),
    /// An instruction that overwrites its first operand.
    Permute([Index; 3]),
    Fma([Index; 3]),
    Compare([Index; 2]),
    /// A masked addition.
    Some([Index; 3]),
    Region(Index, bool, Vec<Step>, Vec<[Index; 2]>),
    Repeat(Index, Vec<Step>, Vec<Step>, Vec<[Index; 2]>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let leaf = prop_oneof![
        4 => any::<[Index; 2]>().prop_map(Step::Add),
        2 => any::<[Index; 3]>().prop_map(Step::Permute),
        4 => any::<[Index; 3]>().prop_map(Step::Fma),
        2 => any::<[Index; 2]>().prop_map(Step::Compare),
        2 => any::<[Index; 3]>().prop_map(Step::Some),
    ];
    let some = prop::collection::vec(leaf, 0..70);
    some.prop_recursive(2, 200, 3, |inner| {
        let results = || prop::collection::vec(any::<[Index; 2]>(), 0..4);
        let region = (any::<Index>(), any::<bool>(), inner.clone(), results())
            .prop_map(|(condition, when, body, results)| Step::Region(condition, when, body, results));
        let repeat = (any::<Index>(), inner.clone(), inner.clone(), results())
            .prop_map(|(live, condition, body, state)| Step::Repeat(live, condition, body, state));
        (inner, prop::collection::vec(prop_oneof![region, repeat], 0..3)).prop_map(|(mut some, more)| {
            some.extend(more);
            some
        })
    })
}

/// A body under construction, with the values that may be used.
#[derive(Default)]
struct Builder {
    classes: PrimaryMap<Reg, Class>,
    vectors: Vec<Reg>,
    masks: Vec<Reg>,
}

impl Builder {
    fn vector(&self, index: &Index) -> Operand {
        let numbers = [Splat::Bits32(7), Splat::Bits64(9), Splat::Slot32(Slot(3))];
        let place = index.index(self.vectors.len() + numbers.len());
        match self.vectors.get(place) {
            Some(reg) => Operand::Register(*reg),
            None => Operand::Splat(numbers[place - self.vectors.len()]),
        }
    }

    fn mask(&self, index: &Index) -> Reg {
        *index.get(&self.masks)
    }

    fn plain(&mut self, class: Class, code: Code, over: Option<Operand>, from: Vec<Operand>, lanes: Lanes) -> Item {
        let to = self.classes.push(class);
        match class {
            Class::Vector => self.vectors.push(to),
            Class::Mask => self.masks.push(to),
        }
        Item::Plain(Plain { code, to: Some(to), fixed: None, over, from, lanes, clobbers_mask: false })
    }

    fn compare(&mut self, [a, b]: [Operand; 2]) -> Item {
        let code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;
        self.plain(Class::Mask, code, None, vec![a, b, Operand::Immediate(1)], Lanes::All)
    }

    fn items(&mut self, steps: &[Step]) -> Vec<Item> {
        steps.iter().map(|step| self.item(step)).collect()
    }

    fn item(&mut self, step: &Step) -> Item {
        match step {
            Step::Add([a, b]) => {
                let from = vec![self.vector(a), self.vector(b)];
                self.plain(Class::Vector, ADD, None, from, Lanes::All)
            }
            Step::Permute([over, a, b]) => {
                let (over, from) = (self.vector(over), vec![self.vector(a), self.vector(b)]);
                let code = Code::EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32;
                self.plain(Class::Vector, code, Some(over), from, Lanes::All)
            }
            Step::Fma([a, b, c]) => {
                let (factors, addend) = ([self.vector(a), self.vector(b)], self.vector(c));
                let to = self.classes.push(Class::Vector);
                self.vectors.push(to);
                Item::Fma(Fma { to, wide: false, factors, addend })
            }
            Step::Compare([a, b]) => {
                let from = [self.vector(a), self.vector(b)];
                self.compare(from)
            }
            Step::Some([mask, a, b]) => {
                let from = vec![self.vector(a), self.vector(b)];
                let lanes = Lanes::Some { mask: self.mask(mask), zero: true };
                self.plain(Class::Vector, ADD, None, from, lanes)
            }
            Step::Region(condition, when, body, results) => {
                let condition = self.mask(condition);
                let without: Vec<Operand> = results.iter().map(|[without, _]| self.vector(without)).collect();
                let outside = (self.vectors.len(), self.masks.len());
                let body = self.items(body);
                let with: Vec<Operand> = results.iter().map(|[_, with]| self.vector(with)).collect();
                self.leave(outside);
                let mut found = vec![];
                for (without, with) in without.into_iter().zip(with) {
                    let to = self.classes.push(Class::Vector);
                    found.push((to, without, with));
                }
                self.vectors.extend(found.iter().map(|(to, ..)| *to));
                Item::Region(Region { condition, when: *when, body, results: found })
            }
            Step::Repeat(live, condition, body, state) => {
                let first = Operand::Register(self.mask(live));
                let firsts: Vec<Operand> = state.iter().map(|[first, _]| self.vector(first)).collect();
                let register = self.classes.push(Class::Mask);
                let carried: Vec<Reg> = firsts.iter().map(|_| self.classes.push(Class::Vector)).collect();
                let outside = (self.vectors.len() + carried.len(), self.masks.len() + 1);
                self.masks.push(register);
                self.vectors.extend(&carried);
                let condition = self.items(condition);
                let next = Operand::Register(*self.masks.last().unwrap_or(&register));
                let live = Carried { register, first, next };
                self.leave(outside);
                let body = self.items(body);
                // Each next value is one of the step, so that none is another one's current value.
                let mut ends = vec![];
                for [_, next] in state {
                    let from = vec![self.vector(next), Operand::Splat(Splat::Bits32(7))];
                    ends.push(self.plain(Class::Vector, ADD, None, from, Lanes::All));
                }
                let nexts = self.vectors[self.vectors.len() - ends.len()..].to_vec();
                self.leave(outside);
                let all = carried.iter().zip(firsts).zip(nexts);
                let state = all
                    .map(|((register, first), next)| Carried {
                        register: *register,
                        first,
                        next: Operand::Register(next),
                    })
                    .collect();
                let (extent, left) = (Slot(1), Slot(2));
                let body = body.into_iter().chain(ends).collect();
                Item::Repeat(Repeat { extent, left, cancelled: None, live, state, condition, body })
            }
        }
    }

    /// Values of a region or a step cannot be used after it.
    fn leave(&mut self, (vectors, masks): (usize, usize)) {
        self.vectors.truncate(vectors);
        self.masks.truncate(masks);
    }
}

const ADD: Code = Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er;
const NUMBER: Operand = Operand::Splat(Splat::Bits32(7));

/// A body that ends with a use of each value.
fn body(steps: &[Step]) -> Body {
    let mut builder = Builder::default();
    let mut items = vec![builder.compare([NUMBER, NUMBER])];
    items.extend(builder.items(steps));
    let mut sum = NUMBER;
    for reg in builder.vectors.clone() {
        items.push(builder.plain(Class::Vector, ADD, None, vec![Operand::Register(reg), sum], Lanes::All));
        sum = Operand::Register(builder.vectors[builder.vectors.len() - 1]);
    }
    Body { items, classes: builder.classes }
}

/// Allocates registers for a body, lets a test change the result, and checks it.
fn checked(body: &Body, change: impl FnOnce(&mut Vec<Event<'_>>)) -> Result<(), String> {
    let mut shared = Shared::new(Isa::Avx512);
    for argument in [Argument::Count, Argument::Peel, Argument::ActiveLanes, Argument::Result(0)] {
        shared.slot(argument);
    }
    let mut asm = Assembler::new(vec![], &mut shared);
    let constants = PinnedConstants::of(Isa::Avx512, &[body], 1);
    let mut events = allocate::events(&mut asm, &constants, body);
    assert!(!asm.has_failed());
    change(&mut events);
    Contents::at_beginning(body, &constants).follow(&events)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn operands_are_where_they_are_read(steps in steps()) {
        prop_assert_eq!(checked(&body(&steps), |_| {}), Ok(()));
    }
}

/// Long enough for spills.
#[test]
fn each_misplaced_result_is_found() {
    let mut builder = Builder::default();
    let mut items = vec![];
    for _ in 0..50 {
        items.push(builder.plain(Class::Vector, ADD, None, vec![NUMBER, NUMBER], Lanes::All));
    }
    let mut sum = NUMBER;
    for reg in builder.vectors.clone() {
        items.push(builder.plain(Class::Vector, ADD, None, vec![Operand::Register(reg), sum], Lanes::All));
        sum = Operand::Register(builder.vectors[builder.vectors.len() - 1]);
    }
    let body = Body { items, classes: builder.classes };
    let mut count = 0;
    assert_eq!(checked(&body, |events| count = events.len()), Ok(()));
    assert!(count > 100, "there are spills and reloads");
    // Nothing reads the last result.
    for number in 0..count - 1 {
        let elsewhere = |to: &mut Chosen| {
            *to = match *to {
                Chosen::Vector(register) => Chosen::Vector((register + 1) % 32),
                Chosen::Spill(slot) => Chosen::Spill(slot + 1),
                other => other,
            }
        };
        let change = |events: &mut Vec<Event<'_>>| match &mut events[number] {
            Event::Move { to, .. } | Event::Plain { to: Some(to), .. } => elsewhere(to),
            _ => panic!("only additions and copies"),
        };
        assert!(checked(&body, change).is_err(), "event {number}");
    }
}
