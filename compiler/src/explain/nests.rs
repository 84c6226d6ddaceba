//! Kernels as readable loop nests: with names from the source, and subexpressions written where
//! they are used.
//!
//! ```text
//! for i < n in parallel:
//!     max = max over j < m of x[i, j]
//!     over j < m:
//!         e[j] = exp(x[i, j] - max)
//!         sum = sum of e[j]
//!     for j < m:
//!         out[i, j] = e[j] / sum
//! ```
//!
//! The loops over kernels around a kernel stand before it: `repeat steps times, ...:`.
//!
//! A value that is used once, in the block that computes it, is written where it is used, and so
//! are loads.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::SecondaryMap;
use ir::nest::{
    Block, BufferId, Contraction, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, Reduction, Repeat, State,
    Statement, Subscript, ValueId, While,
};
use ir::{Affine, Arithmetic, BinaryOp, Dtype, Monoid, Scalar, Size, UnaryOp, print, visit};

use super::constants::{self, Constants};
use super::names::Sizes;
use super::uses::{self, Uses};

/// A longer expression gets a line of its own.
const LONGEST: usize = 60;

/// Precedence: an operand is put in brackets if its operator binds more tightly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Choice,
    Or,
    And,
    Comparison,
    Sum,
    Product,
    Sign,
    #[default]
    Atom,
}

/// An expression.
#[derive(Clone, Debug, Default)]
struct Text {
    text: String,
    level: Level,
}

impl Text {
    fn new(level: Level, text: impl Into<String>) -> Text {
        Text { text: text.into(), level }
    }

    fn atom(text: impl Into<String>) -> Text {
        Text::new(Level::Atom, text)
    }

    fn at(&self, least: Level) -> String {
        if self.level < least { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// The lines of a kernel, indented. `names` has the names of its values.
pub fn lines(
    program: &Program,
    kernel: &Kernel,
    sizes: &Sizes,
    names: &SecondaryMap<ValueId, Option<&str>>,
    arithmetic: &Arithmetic,
) -> Vec<String> {
    lines_and_indices(program, kernel, sizes, names, arithmetic).0
}

/// The lines of a kernel, and the names of its indices in them.
pub fn lines_and_indices(
    program: &Program,
    kernel: &Kernel,
    sizes: &Sizes,
    names: &SecondaryMap<ValueId, Option<&str>>,
    arithmetic: &Arithmetic,
) -> (Vec<String>, BTreeMap<IndexId, String>) {
    let printer = printed(program, kernel, sizes, Names::Source(names), arithmetic);
    (printer.lines, printer.indices)
}

/// The lines of a kernel inside the loops over kernels around it, the outermost first.
pub fn inside(program: &Program, around: &[&Repeat], sizes: &Sizes, lines: Vec<String>) -> Vec<String> {
    around.iter().rev().fold(lines, |lines, repeat| {
        let trips = repeat.trips.as_ref().map(|trips| sizes.text(trips));
        let times = match (trips, repeat.conditions().next()) {
            (Some(trips), None) => format!("repeat {trips} times"),
            (Some(trips), Some(_)) => format!("repeat at most {trips} times, while the condition holds"),
            (None, _) => "repeat while the condition holds".to_owned(),
        };
        let name = |id: BufferId| &program.buffers[id].name;
        let carried = repeat.carried.iter().map(|c| format!(", with {} as the next {}", name(c.next), name(c.current)));
        let head = format!("{times}{}:", carried.collect::<String>());
        std::iter::once(head).chain(lines.into_iter().map(|line| format!("    {line}"))).collect()
    })
}

/// The lines with numbers and types instead of names, which are the same for kernels that differ
/// only in names.
pub fn form(program: &Program, kernel: &Kernel, sizes: &Sizes, arithmetic: &Arithmetic) -> Vec<String> {
    let mut numbers = BTreeMap::new();
    for buffer in visit::loads(&kernel.body).into_iter().chain(visit::stores(&kernel.body)) {
        let next = numbers.len();
        numbers.entry(buffer).or_insert(next);
    }
    printed(program, kernel, sizes, Names::Numbers(numbers), arithmetic).lines
}

fn printed<'a>(
    program: &'a Program,
    kernel: &'a Kernel,
    sizes: &'a Sizes,
    names: Names<'a>,
    arithmetic: &'a Arithmetic,
) -> Printer<'a> {
    let mut printer = Printer {
        program,
        kernel,
        sizes,
        names,
        constants: constants::of(kernel, arithmetic),
        uses: uses::of(&kernel.body),
        texts: SecondaryMap::new(),
        indices: BTreeMap::new(),
        taken: BTreeSet::new(),
        done: BTreeSet::new(),
        lines: vec![],
        depth: 0,
    };
    printer.name_indices();
    printer.block(&kernel.body);
    printer
}

/// The names of arrays, values and indices.
enum Names<'a> {
    /// The names in the source, and for values only those.
    Source(&'a SecondaryMap<ValueId, Option<&'a str>>),
    /// Numbers, in the order in which the kernel takes its arrays.
    Numbers(BTreeMap<BufferId, usize>),
}

struct Printer<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    sizes: &'a Sizes,
    names: Names<'a>,
    constants: Constants,
    uses: SecondaryMap<ValueId, Uses>,
    texts: SecondaryMap<ValueId, Text>,
    indices: BTreeMap<IndexId, String>,
    taken: BTreeSet<String>,
    /// Stores that are on the line that computes their value.
    done: BTreeSet<(BufferId, ValueId)>,
    lines: Vec<String>,
    depth: usize,
}

impl Printer<'_> {
    /// Indices keep their names; those without a name in the source get letters. Loops that are not
    /// nested in each other may share a name.
    fn name_indices(&mut self) {
        self.taken = self.sizes.names().map(|(_, name)| name.to_owned()).collect();
        let body = &self.kernel.body;
        let touched = visit::loads(body).into_iter().chain(visit::stores(body));
        let arrays: Vec<String> = touched.map(|id| self.array(id)).collect();
        self.taken.extend(arrays);
        let mut around = vec![];
        self.name_indices_in(&self.kernel.body, &mut around);
        self.taken.extend(self.indices.values().cloned());
    }

    fn name_indices_in(&mut self, block: &Block, around: &mut Vec<String>) {
        for statement in block {
            let depth = around.len();
            for (index, _) in statement.dims() {
                let name = self.index_name(*index, around);
                around.push(name.clone());
                self.indices.insert(*index, name);
            }
            for inner in statement.blocks() {
                self.name_indices_in(inner, around);
            }
            around.truncate(depth);
        }
    }

    fn index_name(&self, index: IndexId, around: &[String]) -> String {
        let own = match self.names {
            Names::Source(_) => self.kernel.indices.get(index).map_or("?", |index| index.name.as_str()),
            Names::Numbers(_) => "a0",
        };
        let is_free = |name: &&str| !self.taken.contains(*name) && !around.iter().any(|other| other == name);
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let stem = own.rsplit_once('_').filter(|(_, n)| number(n)).map_or(own, |(stem, _)| stem);
        let unnamed = stem.strip_prefix('a').is_some_and(number);
        let names: &[&str] = if unnamed { &[] } else { &[stem, own] };
        let letters = ["i", "j", "k", "l", "p", "q", "r", "s", "t", "u"];
        if let Some(name) = names.iter().copied().chain(letters).find(is_free) {
            return name.to_owned();
        }
        let mut numbered = (1..).map(|k| format!("{stem}_{k}"));
        numbered.find(|name| is_free(&name.as_str())).unwrap_or_default()
    }

    fn array(&self, buffer: BufferId) -> String {
        let described = self.program.buffers.get(buffer);
        match (&self.names, described) {
            (_, None) => "?".to_owned(),
            (Names::Source(_), Some(described)) => described.name.clone(),
            (Names::Numbers(numbers), Some(described)) => {
                format!("{}_{}", described.dtype.name(), numbers.get(&buffer).copied().unwrap_or_default())
            }
        }
    }

    fn value(&self, value: ValueId) -> Option<&str> {
        match &self.names {
            Names::Source(names) => names[value],
            Names::Numbers(_) => None,
        }
    }

    fn line(&mut self, text: &str) {
        self.lines.push(format!("{}{text}", "    ".repeat(self.depth)));
    }

    /// A name that nothing else in the kernel has.
    fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut k = 0;
        while !self.taken.insert(name.clone()) {
            k += 1;
            name = format!("{wanted}_{k}");
        }
        name
    }

    fn block(&mut self, block: &Block) {
        for (k, statement) in block.iter().enumerate() {
            let rest = &block[k + 1..];
            match statement {
                Statement::Let { value, op } => {
                    let constant = self.constants[*value].map(constant_text);
                    let text = constant.or_else(|| self.simpler(op)).unwrap_or_else(|| self.op(op));
                    let in_place = self.constants[*value].is_some()
                        || matches!(op, Op::Constant(_) | Op::Affine(_) | Op::Load { .. } | Op::Check { .. });
                    self.define(*value, text, in_place, rest);
                }
                Statement::Store { buffer, at, value } => {
                    if !self.done.contains(&(*buffer, *value)) {
                        let line = format!("{} = {}", self.element(*buffer, None, at), self.texts[*value].text);
                        self.line(&line);
                    }
                }
                Statement::Scatter { buffer, at, value, monoid } => {
                    let (element, value) = (self.element(*buffer, None, at), &self.texts[*value].text);
                    let line = match monoid {
                        Monoid::Sum => format!("{element} += {value}"),
                        Monoid::Prod => format!("{element} *= {value}"),
                        Monoid::Max | Monoid::Min | Monoid::Any | Monoid::All => {
                            format!("{element} = {}({element}, {value})", monoid.name())
                        }
                    };
                    self.line(&line);
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.choice(*condition, [then, otherwise], results, rest);
                }
                Statement::Loop(l) => self.loop_(l, rest),
                Statement::While(w) => self.while_(w),
                Statement::Contract(c) => self.contract(c),
            }
        }
    }

    /// Gives a value its text: the expression itself if that reads well, else the name on a line of
    /// its own.
    fn define(&mut self, value: ValueId, text: Text, in_place: bool, rest: &[Statement]) {
        let uses = self.uses[value];
        let short = text.text.len() <= LONGEST;
        let once = uses.count == 1 && !uses.abroad && (short || uses.kept);
        if uses.count == 0 || once || (in_place && short) {
            self.texts[value] = text;
            return;
        }
        let target = self.target(value, rest);
        self.line(&format!("{} = {}", target.text, text.text));
        self.texts[value] = target;
    }

    /// The left side of a value's line: the element that it is stored to, or a name.
    fn target(&mut self, value: ValueId, rest: &[Statement]) -> Text {
        let stored = rest.iter().find_map(|s| {
            let Statement::Store { buffer, at, value: v } = s else { return None };
            let is_plain = *v == value && at.iter().all(|s| matches!(s, Subscript::Affine(_)));
            is_plain.then_some((*buffer, at))
        });
        match stored {
            Some((buffer, at)) => {
                self.done.insert((buffer, value));
                Text::atom(self.element(buffer, None, at))
            }
            None => {
                let name = self.value(value).unwrap_or("value").to_owned();
                Text::atom(self.fresh(&name))
            }
        }
    }

    fn choice(
        &mut self,
        condition: ValueId,
        [then, otherwise]: [&Block; 2],
        results: &[(ValueId, ValueId, ValueId)],
        rest: &[Statement],
    ) {
        if let Some(truth) = self.constants[condition] {
            let taken = truth == Scalar::Bool(true);
            self.block(if taken { then } else { otherwise });
            for (value, a, b) in results {
                let text = self.texts[if taken { *a } else { *b }].clone();
                self.define(*value, text, false, rest);
            }
            return;
        }
        let condition = self.texts[condition].clone();
        let [first, second] = [then, otherwise].map(|block| self.apart(|printer| printer.block(block)));
        if first.is_empty() && second.is_empty() {
            for (value, a, b) in results {
                let (a, b) = (&self.texts[*a].text, &self.texts[*b].text);
                let text = Text::new(Level::Choice, format!("if {} then {a} else {b}", condition.text));
                self.define(*value, text, false, rest);
            }
            return;
        }
        let targets: Vec<Text> = results.iter().map(|(value, ..)| self.target(*value, rest)).collect();
        self.line(&format!("if {}:", condition.text));
        let assign = |printer: &Printer<'_>, target: &Text, value: ValueId| {
            format!("{}{} = {}", "    ".repeat(printer.depth + 1), target.text, printer.texts[value].text)
        };
        self.lines.extend(first);
        let values = targets.iter().zip(results).map(|(target, (_, a, _))| assign(self, target, *a));
        let values: Vec<String> = values.collect();
        self.lines.extend(values);
        if !(second.is_empty() && results.is_empty()) {
            self.line("else:");
            self.lines.extend(second);
            let values = targets.iter().zip(results).map(|(target, (_, _, b))| assign(self, target, *b));
            let values: Vec<String> = values.collect();
            self.lines.extend(values);
        }
        for ((value, ..), target) in results.iter().zip(targets) {
            self.texts[*value] = target;
        }
    }

    /// Prints nested lines, indented one step further.
    fn apart(&mut self, print: impl FnOnce(&mut Self)) -> Vec<String> {
        let before = std::mem::take(&mut self.lines);
        self.depth += 1;
        print(self);
        self.depth -= 1;
        std::mem::replace(&mut self.lines, before)
    }

    fn loop_(&mut self, l: &Loop, rest: &[Statement]) {
        if l.dims.is_empty() {
            return self.block(&l.body);
        }
        let dims = self.dims(&l.dims);
        let inner = self.apart(|printer| printer.block(&l.body));
        let head = match &l.kind {
            LoopKind::Parallel if self.depth == 0 => format!("for {dims} in parallel:"),
            LoopKind::Parallel => format!("for {dims}:"),
            LoopKind::Serial | LoopKind::Scan => format!("for {dims} in order:"),
            LoopKind::Keyed { .. } => format!("for {dims} by key:"),
            LoopKind::Sort => format!("for {dims}, sorted:"),
            LoopKind::Reduce(reductions) => return self.reduce(&dims, reductions, inner, rest),
        };
        self.line(&head);
        self.lines.extend(inner);
    }

    /// The state has one name for all of its values, which each step assigns.
    fn while_(&mut self, w: &While) {
        let mut names = vec![];
        for state in &w.state {
            let name = self.value(state.result).unwrap_or("state").to_owned();
            let name = self.fresh(&name);
            self.texts[state.current] = Text::atom(name.clone());
            names.push(name);
        }
        let assigned = |printer: &Self, value: fn(&State) -> ValueId| {
            let values: Vec<&str> = w.state.iter().map(|s| printer.texts[value(s)].text.as_str()).collect();
            format!("{} = {}", names.join(", "), values.join(", "))
        };
        if !w.state.is_empty() {
            let line = assigned(self, |state| state.first);
            self.line(&line);
        }
        let counter = self.dims(std::slice::from_ref(&w.counter));
        let mut head = format!("repeat for {counter}");
        let mut before = vec![];
        if let Some(condition) = &w.condition {
            before = self.apart(|printer| printer.block(&condition.body));
            let text = self.texts[condition.value].text.clone();
            if before.is_empty() {
                head = format!("{head} while {text}");
            } else {
                before.extend(self.apart(|printer| printer.line(&format!("stop unless {text}"))));
            }
        }
        let body = self.apart(|printer| {
            printer.block(&w.body);
            if !w.state.is_empty() {
                let line = assigned(printer, |state| state.next);
                printer.line(&line);
            }
        });
        self.line(&format!("{head}:"));
        self.lines.extend(before);
        self.lines.extend(body);
        for (state, name) in w.state.iter().zip(names) {
            self.texts[state.result] = Text::atom(name);
        }
    }

    fn reduce(&mut self, dims: &str, reductions: &[Reduction], inner: Vec<String>, rest: &[Statement]) {
        let name = |r: &Reduction| self.program.merge_name(r.merge);
        let names: Vec<&str> = reductions.iter().map(name).collect();
        let targets: Vec<Vec<(ValueId, Text)>> = reductions
            .iter()
            .zip(&names)
            .map(|(r, name)| {
                // Of a state of several values, those that are used.
                let wanted = |v: &&ValueId| r.results.len() == 1 || is_used(**v, rest);
                let mut texts = vec![];
                for v in r.results.iter().filter(wanted) {
                    let fresh = self.value(*v).is_none() && !is_stored(*v, rest);
                    texts.push((*v, if fresh { Text::atom(self.fresh(name)) } else { self.target(*v, rest) }));
                }
                texts
            })
            .collect();
        let text = |target: &[(ValueId, Text)]| {
            target.iter().map(|(_, text)| text.text.as_str()).collect::<Vec<_>>().join(", ")
        };
        let of = |printer: &Self, r: &Reduction| {
            r.values().map(|v| printer.texts[v].text.as_str()).collect::<Vec<_>>().join(", ")
        };
        match (reductions, targets.as_slice()) {
            ([r], [target]) if inner.is_empty() => {
                self.line(&format!("{} = {} over {dims} of {}", text(target), names[0], of(self, r)));
            }
            _ => {
                self.line(&format!("over {dims}:"));
                self.lines.extend(inner);
                self.depth += 1;
                for ((r, target), name) in reductions.iter().zip(&targets).zip(&names) {
                    self.line(&format!("{} = {name} of {}", text(target), of(self, r)));
                }
                self.depth -= 1;
            }
        }
        for (v, target) in targets.into_iter().flatten() {
            self.texts[v] = target;
        }
    }

    fn contract(&mut self, c: &Contraction) {
        let (free, reduce) = (self.dims(&c.free), self.dims(&c.reduce));
        if !c.free.is_empty() {
            self.line(&format!("for {free} as a matrix product:"));
            self.depth += 1;
        }
        let inner = self.apart(|printer| {
            printer.block(&c.left.body);
            printer.block(&c.right.body);
        });
        let [left, right] = [&c.left, &c.right].map(|factor| self.texts[factor.value].at(Level::Product));
        let product = format!("{left} * {right}");
        let one_use = self.uses[c.result].count == 1 && !self.uses[c.result].abroad;
        if inner.is_empty() && one_use {
            let text = format!("sum over {reduce} of {product}");
            let stored = is_stored(c.result, &c.epilogue);
            self.texts[c.result] = if stored { Text::atom(text) } else { Text::atom(format!("({text})")) };
        } else {
            let target = self.target(c.result, &c.epilogue);
            if inner.is_empty() {
                self.line(&format!("{} = sum over {reduce} of {product}", target.text));
            } else {
                self.line(&format!("over {reduce}:"));
                self.lines.extend(inner);
                self.depth += 1;
                self.line(&format!("{} = sum of {product}", target.text));
                self.depth -= 1;
            }
            self.texts[c.result] = target;
        }
        self.block(&c.epilogue);
        self.depth -= usize::from(!c.free.is_empty());
    }

    fn dims(&self, dims: &[(IndexId, Extent)]) -> String {
        let dim = |(index, extent): &(IndexId, Extent)| {
            let extent = match extent {
                Extent::Affine(a) => self.affine(a),
                Extent::Value(v) => self.texts[*v].text.clone(),
            };
            format!("{} < {extent}", self.index(*index))
        };
        dims.iter().map(dim).collect::<Vec<_>>().join(", ")
    }

    fn index(&self, index: IndexId) -> String {
        self.indices.get(&index).cloned().unwrap_or_else(|| "?".to_owned())
    }

    fn affine(&self, a: &Affine<IndexId>) -> String {
        print::affine(a, &|index| self.index(index), &|size: &Size| self.sizes.text(size))
    }

    fn element(&self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> String {
        let name = self.array(buffer);
        let array = match view {
            Some(shape) => {
                let shape: Vec<String> = shape.iter().map(|size| self.sizes.text(size)).collect();
                format!("reshape({name}, {})", shape.join(", "))
            }
            None => name,
        };
        if at.is_empty() {
            return array;
        }
        let subscript = |s: &Subscript| match s {
            Subscript::Affine(a) => self.affine(a),
            Subscript::Value(v) => self.texts[*v].text.clone(),
        };
        format!("{array}[{}]", at.iter().map(subscript).collect::<Vec<_>>().join(", "))
    }

    /// The operand that an operation leaves unchanged (`i * 1`, `i + 0`), or the branch of a
    /// constant condition.
    fn simpler(&self, op: &Op) -> Option<Text> {
        let is = |value: &ValueId, number| {
            self.constants[*value].is_some_and(|scalar| scalar == Scalar::from_bits(scalar.dtype(), number))
        };
        let kept = if let Op::Binary(op, a, b) = op {
            match op {
                BinaryOp::Add | BinaryOp::Sub if is(b, 0) => a,
                BinaryOp::Add if is(a, 0) => b,
                BinaryOp::Mul | BinaryOp::Div if is(b, 1) => a,
                BinaryOp::Mul if is(a, 1) => b,
                BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::Mul
                | BinaryOp::Div
                | BinaryOp::Rem
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
                | BinaryOp::Shl
                | BinaryOp::Shr => return None,
            }
        } else {
            let Op::Select(condition, a, b) = op else { return None };
            let taken = self.constants[*condition]?;
            if taken == Scalar::Bool(true) { a } else { b }
        };
        Some(self.texts[*kept].clone())
    }

    fn op(&self, op: &Op) -> Text {
        let of = |v: &ValueId, least| self.texts[*v].at(least);
        let call = |name: &str, operands: &[ValueId]| {
            let operands: Vec<String> = operands.iter().map(|v| of(v, Level::Choice)).collect();
            Text::atom(format!("{name}({})", operands.join(", ")))
        };
        match op {
            Op::Constant(value) => constant_text(*value),
            Op::Affine(a) => {
                let text = self.affine(a);
                let level = match () {
                    () if text.contains([' ', '(']) && text.contains(['+', '-']) => Level::Sum,
                    () if text.contains(' ') => Level::Product,
                    () if text.starts_with('-') => Level::Sign,
                    () => Level::Atom,
                };
                Text::new(level, text)
            }
            Op::Unary(UnaryOp::Neg, a) => Text::new(Level::Sign, format!("-{}", of(a, Level::Sign))),
            Op::Unary(UnaryOp::Not, a) if self.dtype(*a) == Some(Dtype::Bool) => {
                Text::new(Level::Sign, format!("!{}", of(a, Level::Sign)))
            }
            Op::Unary(UnaryOp::Not, a) => call("bit_not", &[*a]),
            Op::Unary(op, a) => call(op.name(), &[*a]),
            Op::Binary(op, a, b) => self.binary(*op, *a, *b),
            Op::Compare(op, a, b) => {
                let text = format!("{} {} {}", of(a, Level::Sum), op.symbol(), of(b, Level::Sum));
                Text::new(Level::Comparison, text)
            }
            Op::Fma(a, b, c) => call("fma", &[*a, *b, *c]),
            Op::Select(a, b, c) => call("select", &[*a, *b, *c]),
            Op::Cast(to, a) | Op::Bitcast(to, a) => call(to.name(), &[*a]),
            Op::Call(function, arguments) => {
                call(self.program.functions.get(*function).map_or("?", |f| f.math.name()), arguments)
            }
            Op::Load { buffer, view, at } => Text::atom(self.element(*buffer, view.as_deref(), at)),
            Op::Check { value, .. } => self.texts[*value].clone(),
            Op::Place(by) => Text::new(Level::Choice, format!("place of {}", of(by, Level::Choice))),
            Op::Prefix(p) => {
                let inputs: Vec<String> =
                    p.inputs.iter().filter_map(|input| Some(of(&input.value()?, Level::Choice))).collect();
                let name = self.program.merge_name(p.merge);
                Text::new(Level::Choice, format!("running {name} of {}", inputs.join(", ")))
            }
        }
    }

    fn binary(&self, op: BinaryOp, a: ValueId, b: ValueId) -> Text {
        let is_bool = self.dtype(a) == Some(Dtype::Bool);
        let call = |name: &str| Text::atom(format!("{name}({}, {})", self.texts[a].text, self.texts[b].text));
        let (level, sign, associative) = match op {
            BinaryOp::Add => (Level::Sum, "+", true),
            BinaryOp::Sub => (Level::Sum, "-", false),
            BinaryOp::Mul => (Level::Product, "*", true),
            BinaryOp::Div => (Level::Product, "/", false),
            BinaryOp::Rem => (Level::Product, "%", false),
            BinaryOp::And if is_bool => (Level::And, "&&", true),
            BinaryOp::Or if is_bool => (Level::Or, "||", true),
            BinaryOp::And => return call("bit_and"),
            BinaryOp::Or => return call("bit_or"),
            BinaryOp::Xor => return call("bit_xor"),
            BinaryOp::Shl => return call("shift_left"),
            BinaryOp::Shr => return call("shift_right"),
            BinaryOp::Min | BinaryOp::Max => return call(op.name()),
        };
        // For floats, even `a + (b + c)` differs from `a + b + c`.
        let left = self.texts[a].at(level);
        let right = &self.texts[b];
        let logical = associative && is_bool;
        let right = if right.level == level && !logical { format!("({})", right.text) } else { right.at(level) };
        Text::new(level, format!("{left} {sign} {right}"))
    }

    fn dtype(&self, value: ValueId) -> Option<Dtype> {
        self.kernel.values.get(value).copied()
    }
}

fn constant_text(value: Scalar) -> Text {
    let text = print::scalar(value);
    let text = text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    Text::new(if text.starts_with('-') { Level::Sign } else { Level::Atom }, text)
}

/// Whether one of the statements, or one inside them, uses a value.
fn is_used(value: ValueId, statements: &[Statement]) -> bool {
    statements.iter().any(|statement| {
        let mut found = false;
        visit::for_each_use(statement, &mut |v| found |= v == value);
        found || statement.blocks().any(|inner| is_used(value, inner))
    })
}

/// Whether one of the statements stores a value.
fn is_stored(value: ValueId, statements: &[Statement]) -> bool {
    statements.iter().any(|s| matches!(s, Statement::Store { value: v, .. } if *v == value))
}
