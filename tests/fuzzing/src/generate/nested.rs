//! Loops within loops: over scalars in any expression, and in the steps of other loops next to
//! reducers and recurrences over the state.

use ir::Dtype;

use super::dim::Dim;
use super::expr::Writer;
use super::looped::{MOST, STATE, STEP, TYPES};
use super::piece::{Level, Piece};
use super::statement::INDICES;

/// The names of the states and counters of loops in one another, within a step or an expression.
const INNER: [(&str, &str); 3] = [("inner", "turn"), ("part", "lap"), ("core", "beat")];

/// An operand that is computed before the loops.
const OTHER: &str = "other";

impl Writer<'_> {
    /// Whether a loop over scalars may stand here as an expression of this type.
    pub fn may_loop(&self, ty: Dtype) -> bool {
        TYPES.contains(&ty) && self.loops_around < INNER.len()
    }

    /// `(loop inner = e, turn < 3 { inner + f })`
    pub fn loop_in_expression(&mut self, ty: Dtype, fuel: usize) -> Piece {
        self.count("loop in an expression");
        let is_index = |name: &String| INDICES.contains(&name.as_str());
        if self.scope.indices.last().is_some_and(|index| !is_index(&index.name)) {
            self.count("loop in a reducer");
        }
        let from = self.work.len();
        self.loops(&[]);
        // Neither mentions a state of this loop, so that reducers in them are computed before it.
        self.loops_around += 1;
        let first = self.expr(ty, &[], fuel.min(1));
        // Something in it that may take long stays in the loop, which may have no steps.
        let outside = self.maybe_in_if(true, |writer| writer.expr(ty, &[], fuel.min(1)));
        self.loops_around -= 1;
        let piece = self.inner_loop(&first, &outside, ty, &[]);
        for work in &mut self.work[from..] {
            *work = work.times(&Dim::constant(MOST));
        }
        Piece { text: format!("({})", piece.text), level: Level::Atom, ..piece }
    }

    /// `loop inner = first, turn <= step { max(inner, outside) + turn }`
    fn inner_loop(&mut self, first: &Piece, outside: &Piece, ty: Dtype, shape: &[Dim]) -> Piece {
        let (state, turn) = INNER[self.loops_around];
        // The loop around it, whose state and counter are visible.
        let around = match self.loops_around.checked_sub(1) {
            Some(outer) if self.in_inner => Some(INNER[outer]),
            _ => self.in_step.then_some((STATE, STEP)),
        };
        if around.is_some() {
            self.count("loop in a loop");
        }
        let holds = match shape {
            [] => format!("{state} < {}(100)", ty.name()),
            _ => format!("any({state} < {}(100))", ty.name()),
        };
        let head = match (self.choices.below(7), around) {
            (0, Some((_, step))) => format!("{turn} <= {step}"),
            (1, Some((_, step))) => format!("1 <= {turn} < {step} + 2"),
            (2, Some(_)) if shape.is_empty() => format!("{turn} < clamp(i64({}), 0, 2)", first.text),
            (3, _) => format!("{turn} < 3 while {holds}"),
            (4, _) => format!("{turn} <= 1"),
            (5, _) => "0 <= TURN < 3".replace("TURN", turn),
            _ => format!("{turn} < 2"),
        };
        let own = Piece::atom(state, ty, shape);
        let number = Piece::atom(format!("{}({turn})", ty.name()), ty, &[]);
        let sum = |a: &Piece, b: &Piece| Piece::binary(a, "+", b, Level::Add, ty, shape);
        let next = match self.choices.below(6) {
            0 => sum(&Piece::call("max", &[&own, outside], ty, shape), &number),
            1 => Piece::binary(outside, "-", &own, Level::Add, ty, shape),
            2 => sum(&Piece::binary(&own, "*", outside, Level::Mul, ty, shape), &number),
            3 if self.loops_around + 1 < INNER.len() => {
                self.loops_around += 1;
                let before = std::mem::replace(&mut self.in_inner, true);
                let inner = self.inner_loop(&sum(&own, &number), outside, ty, shape);
                self.in_inner = before;
                self.loops_around -= 1;
                inner
            }
            4 => Piece::call("min", &[&own, outside], ty, shape),
            _ => sum(&own, outside),
        };
        let text = format!("loop {state} = {}, {head} {{ {} }}", first.text, next.text);
        Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[first, outside, &next])
    }

    /// A step of a loop with a loop, a reducer or a recurrence in it: `{ let rec ...; line }`
    /// without the braces. The state and the counter are visible.
    pub fn nested_step(&mut self, outside: &Piece, ty: Dtype, shape: &[Dim]) -> Piece {
        let state = Piece::atom(STATE, ty, shape);
        let over_indices = !self.scope.indices.is_empty();
        if over_indices || shape.is_empty() || self.choices.chance(30) {
            let inner = self.inner_loop(&state, outside, ty, shape);
            if !self.choices.chance(40) {
                return inner;
            }
            let text = format!("let next = {}; {STATE} + next", inner.text);
            return Piece { text, ..inner };
        }
        let names = &INDICES[..shape.len()];
        let (subscripts, last) = (names.join(", "), shape.len() - 1);
        let binders: Vec<String> = shape.iter().zip(names).map(|(dim, name)| format!("{name} < {dim}")).collect();
        let element = |name: &str| Piece::atom(format!("{name}[{subscripts}]"), ty, &[]);
        self.loops(shape);
        let body = match self.choices.below(4) {
            // Each element has its own loop.
            0 => {
                let inner = self.inner_loop(&element(STATE), &element(OTHER), ty, &[]);
                format!("let next[{}] = {}; next", binders.join(", "), inner.text)
            }
            // A reducer over loops, within the loop.
            1 => {
                self.count("loop in a reducer");
                let reducer = *self.choices.pick(&["sum", "max", "prod"]).unwrap_or(&"sum");
                let first = self.scope.number(&shape[0]);
                let inner = self.inner_loop(&element(STATE), &element(OTHER), ty, &[]);
                let target = match last {
                    0 => "total".to_owned(),
                    _ => format!("total[{}]", binders[1..].join(", ")),
                };
                format!("let {target} = {reducer}[{} < {first}]({}); {OTHER} - total", names[0], inner.text)
            }
            _ => {
                self.count("recurrence in a loop");
                let along = if self.choices.chance(50) { last } else { 0 };
                let before: Vec<String> = names
                    .iter()
                    .enumerate()
                    .map(|(axis, name)| if axis == along { format!("{name} - 1") } else { (*name).to_owned() })
                    .collect();
                let before = format!("line[{}]", before.join(", "));
                let (own, other) = (element(STATE).text, element(OTHER).text);
                let next = match self.choices.below(3) {
                    0 => format!("{before} * {other} + {own}"),
                    1 => format!("max({before}, {own}) - {other}"),
                    _ => format!("{own} + {before}"),
                };
                let binders = binders.join(", ");
                format!("let rec line[{binders}] = if {} == 0 then {own} else {next}; line", names[along])
            }
        };
        let text = format!("let {OTHER} = {}; {body}", outside.text);
        Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[outside])
    }

    /// `let y = loop state = x, step < 3 { let next[i < n] = if 0 < i && i < n - 1 then ...; next }`:
    /// steps that read neighbours.
    pub fn stencil(&mut self, ty: Dtype, shape: &[Dim]) -> String {
        self.count("stencil in a loop");
        let names = &INDICES[..shape.len()];
        let first = self.typed(ty, shape);
        let binders: Vec<String> = names.iter().zip(shape).map(|(name, dim)| format!("{name} < {dim}")).collect();
        let binders = binders.join(", ");
        let at = |array: &str, axis: usize, by: i64| {
            let moved = |(n, name): (usize, &&str)| match (n == axis, by < 0) {
                (true, false) => format!("{name} + {by}"),
                (true, true) => format!("{name} - {}", -by),
                (false, _) => (*name).to_owned(),
            };
            format!("{array}[{}]", names.iter().enumerate().map(moved).collect::<Vec<_>>().join(", "))
        };
        let mut lets = vec![];
        let mut from = STATE;
        for name in ["half", "next"].into_iter().skip(usize::from(!self.choices.chance(30))) {
            // Rows are the first axis.
            let axis = if self.choices.chance(70) { 0 } else { self.choices.below(shape.len()) };
            let reach = 1 + i64::try_from(self.choices.below(2)).unwrap_or(0);
            let (index, own) = (names[axis], at(from, axis, 0));
            let least = self.scope.number(&shape[axis].offset(-reach));
            let (before, after) = (at(from, axis, -reach), at(from, axis, reach));
            let (condition, value) = match self.choices.below(5) {
                0 => (format!("{index} >= {reach}"), format!("{own} + {before}")),
                1 => (format!("{index} < {least}"), format!("max({own}, {after})")),
                2 => (format!("{index} >= {reach} && {index} < {least}"), format!("{before} - {after}")),
                3 => (format!("{index} < {least}"), format!("{after} - {own}")),
                _ => (format!("{index} >= {reach} && {index} < {least}"), format!("{before} + {own} + {after}")),
            };
            lets.push(format!("let {name}[{binders}] = if {condition} then {value} else {own}; "));
            from = name;
        }
        let end = 2 + self.choices.below(5);
        let text = format!("loop {STATE} = {}, {STEP} < {end} {{ {}next }}", first.text, lets.concat());
        for _ in 0..end {
            self.loops(shape);
        }
        let piece = Piece { level: Level::If, ..Piece::atom(text, ty, shape) }.using(&[&first]);
        self.bind("", piece, None)
    }

    /// `let (a, b) = loop state = e, other = f, step < 3 { if c then (other, state) else (state, other) }`
    pub fn exchanged(&mut self, ty: Dtype, shape: &[Dim]) -> String {
        self.count("loop that chooses a tuple");
        let whole = self.choices.chance(50);
        let from = self.work.len();
        let dims = if whole { &[] } else { shape };
        let rest = if whole { shape } else { &[] };
        let indices = dims.iter().zip(INDICES).map(|(dim, name)| super::scope::Index::new(name, dim.clone()));
        self.scope.indices = indices.collect();
        let (first, second) = (self.typed(ty, rest), self.typed(ty, rest));
        let indices = std::mem::take(&mut self.scope.indices);
        let all = |text: String| if rest.is_empty() { text } else { format!("any({text})") };
        let condition = match self.choices.below(3) {
            0 => format!("{STEP} % 2 == 0"),
            1 => all(format!("{STATE} < {OTHER}")),
            _ => format!("{STEP} > 0 && {}", all(format!("{OTHER} != {STATE}"))),
        };
        let (then, otherwise) = match self.choices.below(3) {
            0 => (format!("({OTHER}, {STATE})"), format!("({STATE}, {OTHER} + 1)")),
            1 => (format!("({STATE} + {OTHER}, {STATE})"), format!("({STATE}, {OTHER})")),
            _ => (format!("({OTHER} - {STATE}, {OTHER})"), format!("(max({STATE}, {OTHER}), {STATE})")),
        };
        let end = 1 + self.choices.below(4);
        let text = format!(
            "loop {STATE} = {}, {OTHER} = {}, {STEP} < {end} {{ if {condition} then {then} else {otherwise} }}",
            first.text, second.text
        );
        let both = Piece { level: Level::If, ..Piece::atom("", ty, rest) }.using(&[&first, &second]);
        let explicit = self.choices.chance(30);
        let binders: Vec<String> = indices.iter().map(|index| index.binder(explicit, Dim::clone)).collect();
        let names = self.bind_all(&indices, dims, vec![both.clone(), both]);
        for work in &mut self.work[from..] {
            *work = work.times(&Dim::constant(MOST));
        }
        let binders = if binders.is_empty() { String::new() } else { format!("[{}]", binders.join(", ")) };
        format!("let ({}){binders} = {text}", names.join(", "))
    }
}
