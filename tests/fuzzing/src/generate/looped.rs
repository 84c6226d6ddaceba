//! Loops: `loop` over arrays, and over scalars for each setting of indices. They take a few steps
//! each, as many as a number, a size or data says, and may end at a condition.

use ir::Dtype;

use super::dim::Dim;
use super::expr::{COMPARISONS, Writer};
use super::piece::{Level, Piece};
use super::scope::Value;

/// The element types of states.
pub const TYPES: [Dtype; 4] = [Dtype::F32, Dtype::I64, Dtype::F64, Dtype::I32];

/// The name of a state. Other names than this and the next are shorter.
pub const STATE: &str = "state";
/// The name of the number of a step.
pub const STEP: &str = "step";

/// A limit on the steps of a loop.
pub const MOST: i64 = 4;

/// The parts of a loop that depend on how it ends.
struct Ending {
    /// The states after the first, the counter and the condition.
    head: String,
    /// Whether the number of a step is a state.
    counts: bool,
}

impl Writer<'_> {
    /// `let y = loop state = first, step < 3 { next }`
    pub fn looped(&mut self) -> String {
        self.count("loop");
        let ty = self.choices.pick(&TYPES).copied().unwrap_or(Dtype::F32);
        let shape = self.some_shape_of(ty);
        match self.choices.below(20) {
            14..17 => return self.exchanged(ty, &shape),
            17.. if !shape.is_empty() => return self.stencil(ty, &shape),
            _ => {}
        }
        let from = self.work.len();
        let mut counts = false;
        let text = if self.choices.chance(50) {
            self.count("loop over an array");
            let piece = self.loop_over(ty, &shape, &mut counts);
            self.bind("", piece, None)
        } else {
            self.count("loop over scalars");
            self.comprehension(&shape, |writer| writer.loop_over(ty, &[], &mut counts))
        };
        for work in &mut self.work[from..] {
            *work = work.times(&Dim::constant(MOST));
        }
        if !counts {
            return text;
        }
        self.count("loop of two states");
        let end = text.find(['[', ' ']).map_or(text.len(), |_| text[4..].find(['[', ' ']).map_or(0, |at| at + 4));
        format!("let ({}, _){}", &text[4..end], &text[end..])
    }

    fn loop_over(&mut self, ty: Dtype, shape: &[Dim], counts: &mut bool) -> Piece {
        let first = self.typed(ty, shape);
        // A sort or a reduction by key may not stand in a step for each index, so the steps of a
        // loop in index notation combine values from outside. (Nor may a sort if the condition of
        // the loop keeps it inside, because something in it may take long.)
        let outside = self.maybe_in_if(true, |writer| writer.typed(ty, shape));
        let Ending { head, counts: counted } = self.ending(ty, shape);
        *counts = counted;
        let hidden = self.begin_step(ty, shape);
        let (state, step) = (Piece::atom(STATE, ty, shape), Piece::call(ty.name(), &[&self.step()], ty, &[]));
        let add = |a: &Piece, b: &Piece| Piece::binary(a, "+", b, Level::Add, ty, shape);
        let next = match self.choices.below(12) {
            6.. => self.nested_step(&outside, ty, shape),
            0 => add(&state, &outside),
            1 => Piece::call("min", &[&state, &outside], ty, shape),
            2 => Piece::binary(&outside, "-", &state, Level::Add, ty, shape),
            3 => add(&Piece::call("max", &[&state, &outside], ty, shape), &step),
            // A state differs from index to index, so an access under it would end none.
            4 if shape.is_empty() && !counted => {
                let (even, odd) = (add(&state, &outside), Piece::call("max", &[&state, &outside], ty, shape));
                let text = format!("(if {STEP} % 2 == 0 then {} else {})", even.text, odd.text);
                Piece::atom(text, ty, shape).using(&[&even, &odd])
            }
            5 if self.scope.indices.is_empty() => add(&state, &self.expr(ty, shape, 2)),
            _ => add(&Piece::binary(&state, "*", &outside, Level::Mul, ty, shape), &step),
        };
        self.end_step(hidden);
        let body = match (counted, next.text.rsplit_once("; ")) {
            (false, _) => next.text.clone(),
            (true, Some((lets, result))) if next.text.starts_with("let ") => format!("{lets}; ({result}, {STEP} + 1)"),
            (true, _) => format!("({}, {STEP} + 1)", next.text),
        };
        let text = format!("loop {STATE} = {}{head} {{ {body} }}", first.text);
        Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[&first, &outside, &next])
    }

    /// An expression that is not of literals alone.
    pub fn typed(&mut self, ty: Dtype, shape: &[Dim]) -> Piece {
        let piece = self.expr(ty, shape, 2);
        if piece.literal { Piece::call(ty.name(), &[&piece], ty, shape) } else { piece }
    }

    /// How a loop ends.
    fn ending(&mut self, ty: Dtype, shape: &[Dim]) -> Ending {
        let end = match self.choices.below(6) {
            0 => "0".to_owned(),
            1 | 2 => format!("{}", 1 + self.choices.below(4)),
            3 => match self.choices.pick(&self.scope.sizes) {
                Some(size) => format!("{} % {MOST}", self.scope.number(&Dim::name(size))),
                None => "2".to_owned(),
            },
            _ => {
                self.count("loop that data ends");
                let number = self.expr(Dtype::I64, &[], 1);
                format!("clamp({}, 0, {MOST})", number.text)
            }
        };
        let comparison = *self.choices.pick(&COMPARISONS).unwrap_or(&"<");
        let holds = if shape.is_empty() {
            format!("{STATE} {comparison} {}(9)", ty.name())
        } else {
            format!("any({STATE} {comparison} {}(9))", ty.name())
        };
        match self.choices.below(4) {
            0 => {
                self.count("loop with a condition");
                Ending { head: format!(", {STEP} < {end} while {holds}"), counts: false }
            }
            1 => Ending { head: format!(", {STEP} = 0 while {STEP} < {end} && {holds}"), counts: true },
            2 => Ending { head: format!(", {STEP} <= {end} - 1"), counts: false },
            _ => Ending { head: format!(", {STEP} < {end}"), counts: false },
        }
    }

    fn step(&self) -> Piece {
        Piece::atom(STEP, Dtype::I64, &[])
    }

    /// Makes the state and the number of the step visible.
    fn begin_step(&mut self, ty: Dtype, shape: &[Dim]) -> bool {
        for (name, ty, shape) in [(STATE, ty, shape), (STEP, Dtype::I64, &[])] {
            let shape = shape.to_vec();
            let (name, uses) = (name.to_owned(), Default::default());
            self.scope.define(Value { name, ty, shape, small: false, below: None, uses, may_contract: false });
        }
        std::mem::replace(&mut self.in_step, true)
    }

    fn end_step(&mut self, outside: bool) {
        self.scope.values.retain(|value| value.name != STATE && value.name != STEP);
        self.in_step = outside;
    }
}
