//! Computes the sizes of a call in generated code, with the arithmetic of `ir::size`.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use ir::order::KEYED_CHUNK;
use ir::size::Atom;
use ir::{Size, SymbolId};

use crate::cpu::formula::{Formula, Rule};

/// A number, with a flag that says whether it is exact. No flag means that it always is.
#[derive(Clone, Copy)]
pub(super) struct Number {
    /// The value modulo 2^64; 0 for a quotient by a number below 1.
    pub(super) value: Value,
    pub(super) sound: Option<Value>,
}

/// The sizes computed so far. All code is on the one path through the function that does not fail,
/// so every value dominates the rest of it.
#[derive(Default)]
pub(super) struct Sizes {
    symbols: BTreeMap<SymbolId, Value>,
    known: BTreeMap<Size, Number>,
}

impl Sizes {
    pub(super) fn bind(&mut self, symbol: SymbolId, value: Value) {
        self.symbols.insert(symbol, value);
    }

    /// The value of a size.
    pub(super) fn size(&mut self, b: &mut FunctionBuilder<'_>, size: &Size) -> Number {
        if let Some(known) = self.known.get(size) {
            return *known;
        }
        let mut sum: Option<Value> = None;
        let mut sound = None;
        for (product, coefficient) in size.terms() {
            let mut term: Option<Value> = (*coefficient != 1).then(|| b.ins().iconst(I64, *coefficient));
            for atom in product {
                let factor = self.atom(b, atom);
                sound = both(b, sound, factor.sound);
                term = Some(match term {
                    None => factor.value,
                    Some(term) => checked(b, &mut sound, Rule::Times, term, factor.value),
                });
            }
            let term = term.unwrap_or_else(|| b.ins().iconst(I64, *coefficient));
            sum = Some(match sum {
                None => term,
                Some(sum) => checked(b, &mut sound, Rule::Plus, sum, term),
            });
        }
        let value = sum.unwrap_or_else(|| b.ins().iconst(I64, 0));
        let number = Number { value, sound };
        self.known.insert(size.clone(), number);
        number
    }

    /// Records that a size is known to have a value, because the function has checked it.
    pub(super) fn settle(&mut self, size: &Size) {
        if let Some(known) = self.known.get_mut(size) {
            known.sound = None;
        }
    }

    fn atom(&mut self, b: &mut FunctionBuilder<'_>, atom: &Atom) -> Number {
        match atom {
            Atom::Symbol(s) => Number { value: self.symbols[s], sound: None },
            Atom::Overflow(wrapped) => {
                Number { value: self.size(b, wrapped).value, sound: Some(b.ins().iconst(I8, 0)) }
            }
            Atom::KeyedChunk(keys) => {
                // The same as `keyed_chunk`, which saturates.
                let keys = self.size(b, keys);
                let zero = b.ins().iconst(I64, 0);
                let most = b.ins().iconst(I64, 1 << 60);
                let count = b.ins().smax(keys.value, zero);
                let count = b.ins().smin(count, most);
                let times = b.ins().ishl_imm_u(count, 2);
                let least = b.ins().iconst(I64, KEYED_CHUNK);
                let least = b.ins().smax(times, least);
                let below = b.ins().iadd_imm_s(least, -1);
                let zeros = b.ins().clz(below);
                let width = b.ins().iconst(I64, 64);
                let bits = b.ins().isub(width, zeros);
                let one = b.ins().iconst(I64, 1);
                Number { value: b.ins().ishl(one, bits), sound: keys.sound }
            }
            Atom::FloorDiv(over, under) => {
                let (over, under) = (self.size(b, over), self.size(b, under));
                let positive = b.ins().icmp_imm_s(IntCC::SignedGreaterThan, under.value, 0);
                let one = b.ins().iconst(I64, 1);
                let divisor = b.ins().select(positive, under.value, one);
                let quotient = b.ins().sdiv(over.value, divisor);
                // Round toward negative infinity.
                let back = b.ins().imul(quotient, divisor);
                let below = b.ins().icmp(IntCC::SignedLessThan, over.value, back);
                let below = b.ins().uextend(I64, below);
                let floor = b.ins().isub(quotient, below);
                let zero = b.ins().iconst(I64, 0);
                let value = b.ins().select(positive, floor, zero);
                let sound = both(b, over.sound, under.sound);
                Number { value, sound: both(b, sound, Some(positive)) }
            }
        }
    }

    /// The value of a formula.
    pub(super) fn formula(&mut self, b: &mut FunctionBuilder<'_>, formula: &Formula) -> Value {
        match formula {
            Formula::Constant(number) => b.ins().iconst(I64, *number),
            Formula::Size(size) => self.size(b, size).value,
            Formula::Two(rule, two) => {
                let (x, y) = (self.formula(b, &two[0]), self.formula(b, &two[1]));
                match rule {
                    Rule::Plus => b.ins().iadd(x, y),
                    Rule::Times => b.ins().imul(x, y),
                    Rule::Over => b.ins().udiv(x, y),
                    Rule::Lesser => b.ins().smin(x, y),
                    Rule::Greater => b.ins().smax(x, y),
                    Rule::Exceeds => {
                        let exceeds = b.ins().icmp(IntCC::SignedGreaterThan, x, y);
                        b.ins().uextend(I64, exceeds)
                    }
                }
            }
        }
    }
}

/// The conjunction of two flags.
pub(super) fn both(b: &mut FunctionBuilder<'_>, x: Option<Value>, y: Option<Value>) -> Option<Value> {
    match (x, y) {
        (Some(x), Some(y)) => Some(b.ins().band(x, y)),
        (x, y) => x.or(y),
    }
}

/// A sum or product. Clears `sound` on overflow.
pub(super) fn checked(b: &mut FunctionBuilder<'_>, sound: &mut Option<Value>, rule: Rule, x: Value, y: Value) -> Value {
    let (value, over) = match rule {
        Rule::Times => b.ins().smul_overflow(x, y),
        _ => b.ins().sadd_overflow(x, y),
    };
    let fits = b.ins().icmp_imm_s(IntCC::Equal, over, 0);
    *sound = both(b, *sound, Some(fits));
    value
}
