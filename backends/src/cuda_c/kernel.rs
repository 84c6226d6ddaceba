//! The statements of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::{EntityRef, SecondaryMap};
use ir::build::Values;
use ir::linear::Linear;
use ir::nest::{
    Block, BufferId, Extent, FunctionId, IndexId, Loop, LoopKind, Op, Program, Role, SiteId, Statement, Subscript,
    ValueId, While,
};
use ir::rewrite::Inside;
use ir::sched::Part;
use ir::{Affine, Dtype, Monoid, Scalar, Size, visit};

use super::helpers::Helper;
use super::module::Unsupported;
use super::names::{Names, identifier};
use super::scalar::{self, Level, Text};
use crate::ptx::Argument;

/// A longer expression gets a line of its own.
const LONGEST: usize = 72;
/// The most elements of an array that a thread has as variables.
const MOST_ELEMENTS: i64 = 256;

pub(super) type Result<T = ()> = std::result::Result<T, Unsupported>;

/// The code of one kernel while it is written.
pub(super) struct Writer<'a> {
    pub(super) program: &'a Program,
    pub(super) part: &'a Part,
    dtypes: &'a Values,
    pub(super) helpers: BTreeSet<Helper>,
    /// Functions of the program that it calls.
    pub(super) functions: BTreeSet<FunctionId>,
    pub(super) names: Names,
    arguments: Vec<(Argument, String)>,
    /// The arrays that each thread has for itself.
    scratch: BTreeMap<BufferId, String>,
    values: SecondaryMap<ValueId, Option<Text>>,
    /// The text of each index, or none for an index that stays 0.
    indices: BTreeMap<IndexId, Option<String>>,
    uses: SecondaryMap<ValueId, Uses>,
    stored: BTreeSet<BufferId>,
    /// Loads that are only in bounds if an earlier check has passed.
    leaning: Vec<(BufferId, Vec<Subscript>)>,
    pub(super) checks: bool,
    /// How the kernel is launched, in words.
    pub(super) launch: String,
    lines: Vec<String>,
    depth: usize,
}

/// How a value is used.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    count: usize,
    /// Whether a block inside that of the definition uses it.
    inside: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(program: &'a Program, part: &'a Part) -> Writer<'a> {
        let body = &part.kernel.body;
        let checks = body.iter().any(Statement::may_fault);
        let mut leaning = vec![];
        if checks {
            let inside = Inside::new(program);
            body.iter().for_each(|s| inside.each_leaning(s, &mut |buffer, at| leaning.push((buffer, at.to_vec()))));
        }
        let mut writer = Writer {
            program,
            part,
            dtypes: &part.kernel.values,
            helpers: BTreeSet::new(),
            functions: BTreeSet::new(),
            names: Names::default(),
            arguments: vec![],
            scratch: BTreeMap::new(),
            values: SecondaryMap::new(),
            indices: BTreeMap::new(),
            uses: uses(body),
            stored: visit::stores(body).into_iter().collect(),
            leaning,
            checks,
            launch: String::new(),
            lines: vec![],
            depth: 0,
        };
        // Arrays keep their names.
        let accessed: BTreeSet<BufferId> = visit::loads(body).into_iter().chain(visit::stores(body)).collect();
        for id in accessed {
            if program.buffers[id].role == Role::Scratch {
                let name = writer.names.fresh(&program.buffers[id].name);
                writer.scratch.insert(id, name);
            } else {
                writer.argument(&Argument::Buffer(id));
            }
        }
        writer
    }

    /// The function of the program as one of CUDA C, with its helpers.
    pub(super) fn function(mut self, id: FunctionId) -> Result<Written> {
        let function = &self.program.functions[id];
        self.dtypes = &function.values;
        self.uses = uses(&function.body);
        let mut parameters = vec![];
        for (number, parameter) in function.params.iter().enumerate() {
            let name = self.names.fresh(["x", "y", "z"].get(number).copied().unwrap_or("w"));
            parameters.push(format!("{} {name}", self.type_of(*parameter)));
            self.define(*parameter, Text::atom(name));
        }
        let head = format!("__device__ inline {} {}", self.type_of(function.result), function_name(&function.name));
        self.depth = 1;
        self.block(&function.body)?;
        let result = self.value(function.result).text;
        self.line(&format!("return {result};"));
        let body = self.lines.concat();
        let text = format!("{head}({}) {{\n{body}}}\n", parameters.join(", "));
        Ok(Written { text, arguments: vec![], helpers: self.helpers, functions: self.functions })
    }

    /// The kernel with a name, for blocks of this many threads.
    pub(super) fn finish(mut self, name: &str, threads: i64) -> Written {
        // Arrays in their order in the program, then sizes.
        self.arguments.sort_by_key(|(argument, _)| match argument {
            Argument::Buffer(id) => (0, id.index()),
            Argument::Stride(id) => (1, id.index()),
            Argument::Size(size) => (2, size.as_symbol().map_or(usize::MAX, EntityRef::index)),
            Argument::Multiples(_) | Argument::Small(_) | Argument::Reciprocal(_) => (3, 0),
            Argument::Fault => (4, 0),
        });
        let parameter = |(argument, name): &(Argument, String)| match argument {
            Argument::Buffer(id) => {
                let constant = if self.stored.contains(id) { "" } else { "const " };
                format!("{constant}{}* {name}", scalar::name(self.program.buffers[*id].dtype))
            }
            Argument::Fault => format!("Fault* {name}"),
            Argument::Size(_)
            | Argument::Stride(_)
            | Argument::Multiples(_)
            | Argument::Small(_)
            | Argument::Reciprocal(_) => format!("long long {name}"),
        };
        let parameters: Vec<String> = self.arguments.iter().map(parameter).collect();
        // A kernel has at least one parameter.
        let parameters = if parameters.is_empty() { "long long".to_owned() } else { parameters.join(", ") };
        let body = self.lines.concat();
        let head = format!("extern \"C\" __global__ void __launch_bounds__({threads})\n{name}({parameters})");
        let text = format!("// {}\n{head} {{\n{body}}}\n", self.launch);
        let arguments = self.arguments.into_iter().map(|(argument, _)| argument).collect();
        Written { text, arguments, helpers: self.helpers, functions: self.functions }
    }

    /// Declares the arrays that each thread has for itself: a few elements are its own variables,
    /// more are its part of an array in memory.
    pub(super) fn scratch(&mut self) {
        for (id, name) in self.scratch.clone() {
            let buffer = &self.program.buffers[id];
            let (ty, shape) = (scalar::name(buffer.dtype), buffer.shape.clone());
            self.helpers.extend(scalar::needs(buffer.dtype));
            let elements = shape.iter().map(Size::as_constant).product::<Option<i64>>();
            match elements.filter(|n| *n <= MOST_ELEMENTS) {
                Some(elements) => self.line(&format!("{ty} {name}[{}];", elements.max(1))),
                None => {
                    let (all, bytes) = (self.argument(&Argument::Buffer(id)), self.argument(&Argument::Stride(id)));
                    let thread = "(blockIdx.x * (long long)blockDim.x + threadIdx.x)";
                    self.line(&format!("{ty}* {name} = ({ty}*)((char*){all} + {thread} * {bytes});"));
                }
            }
        }
    }

    // Text.

    pub(super) fn line(&mut self, text: &str) {
        self.lines.push(format!("{}{text}\n", "  ".repeat(self.depth)));
    }

    pub(super) fn comment(&mut self, text: &str) {
        self.line(&format!("// {text}"));
    }

    /// A block of statements behind a head such as `if (whole)`, with names of its own.
    pub(super) fn nested(&mut self, head: &str, make: impl FnOnce(&mut Self) -> Result) -> Result {
        self.line(&format!("{head} {{"));
        let outer = self.names.clone();
        self.inside(make)?;
        self.names = outer;
        // Parameters belong to the whole kernel.
        self.arguments.iter().for_each(|(_, name)| self.names.take(name));
        self.line("}");
        Ok(())
    }

    /// Statements that are indented further.
    pub(super) fn inside(&mut self, make: impl FnOnce(&mut Self) -> Result) -> Result {
        self.depth += 1;
        let made = make(self);
        self.depth -= 1;
        made
    }

    fn type_of(&mut self, value: ValueId) -> &'static str {
        let dtype = self.dtypes[value];
        self.helpers.extend(scalar::needs(dtype));
        scalar::name(dtype)
    }

    // Values, indices and sizes.

    pub(super) fn value(&self, value: ValueId) -> Text {
        self.values[value].clone().expect("a verified program defines values before it uses them")
    }

    pub(super) fn define(&mut self, value: ValueId, text: Text) {
        self.values[value] = Some(text);
    }

    pub(super) fn bind(&mut self, index: IndexId, text: Option<String>) {
        self.indices.insert(index, text);
    }

    /// A name for an index, like its own in the source.
    pub(super) fn index_name(&mut self, index: IndexId) -> String {
        let own = self.part.kernel.indices[index].name.clone();
        let stem = own.rsplit_once('_').filter(|(_, n)| number(n)).map_or(own.as_str(), |(stem, _)| stem);
        let unnamed = stem.strip_prefix('a').is_some_and(number);
        self.names.fresh(if unnamed { "i" } else { stem })
    }

    /// The name of a kernel argument.
    pub(super) fn argument(&mut self, argument: &Argument) -> String {
        if let Some((_, name)) = self.arguments.iter().find(|(other, _)| other == argument) {
            return name.clone();
        }
        let wanted = match argument {
            Argument::Fault => "failed".to_owned(),
            Argument::Buffer(id) => self.program.buffers[*id].name.clone(),
            Argument::Stride(id) => format!("{}_bytes", self.program.buffers[*id].name),
            Argument::Size(size) => {
                size.as_symbol().map_or_else(|| "size".to_owned(), |s| self.program.symbols[s].name.clone())
            }
            Argument::Multiples(_) => "aligned".to_owned(),
            Argument::Small(_) => "small".to_owned(),
            Argument::Reciprocal(_) => "reciprocal".to_owned(),
        };
        if let Argument::Buffer(id) = argument {
            self.helpers.extend(scalar::needs(self.program.buffers[*id].dtype));
        }
        let name = self.names.fresh(&wanted);
        self.arguments.push((argument.clone(), name.clone()));
        name
    }

    /// A size: a polynomial of size names, or else an argument of its own.
    pub(super) fn size(&mut self, size: &Size) -> Text {
        let plain = |product: &[ir::size::Atom]| product.iter().all(|atom| matches!(atom, ir::size::Atom::Symbol(_)));
        if size.as_constant().is_none() && !size.terms().iter().all(|(product, _)| plain(product)) {
            return Text::atom(self.argument(&Argument::Size(size.clone())));
        }
        let mut terms = vec![];
        // Names first, so that a number is added to them.
        let (numbers, names): (Vec<_>, Vec<_>) = size.terms().iter().partition(|(product, _)| product.is_empty());
        for (product, factor) in names.into_iter().chain(numbers) {
            let mut factors: Vec<Text> = vec![];
            if product.is_empty() || factor.unsigned_abs() != 1 {
                factors.push(Text::atom(factor.unsigned_abs().to_string()));
            }
            for atom in product {
                let ir::size::Atom::Symbol(symbol) = atom else { continue };
                factors.push(Text::atom(self.argument(&Argument::Size(Size::symbol(*symbol)))));
            }
            let term = factors.into_iter().reduce(|a, b| Text::infix(Level::Product, &a, "*", &b));
            terms.push((*factor < 0, term.unwrap_or_else(|| Text::atom("1"))));
        }
        added(terms)
    }

    /// An affine expression of sizes and indices.
    pub(super) fn affine(&mut self, affine: &Affine<IndexId>) -> Text {
        let mut terms = vec![];
        for (index, coefficient) in affine.terms() {
            let Some(Some(index)) = self.indices.get(index).cloned() else { continue };
            let index = Text::atom(index);
            terms.push(match coefficient.as_constant() {
                Some(1) => (false, index),
                Some(-1) => (true, index),
                _ => {
                    let coefficient = self.size(coefficient);
                    (false, Text::infix(Level::Product, &index, "*", &Text::atom(coefficient.at(Level::Sign))))
                }
            });
        }
        let constant = affine.constant_part();
        if !constant.is_zero() {
            let negative = constant.as_constant().is_some_and(|n| n < 0 && n > i64::MIN);
            let text = if negative { self.size(&-constant) } else { self.size(constant) };
            terms.push((negative, text));
        }
        // Terms that are subtracted come last.
        terms.sort_by_key(|(minus, _)| *minus);
        added(terms)
    }

    /// An affine expression as a value. Unlike a subscript, it may wrap.
    fn affine_value(&mut self, affine: &Affine<IndexId>) -> (Text, Option<Helper>) {
        if let Some(constant) = affine.as_size().and_then(Size::as_constant) {
            return (scalar::constant(Scalar::I64(constant)), None);
        }
        let small = |size: &Size| self.program.is_small(size);
        if small(affine.constant_part()) && affine.terms().iter().all(|(_, coefficient)| small(coefficient)) {
            return (self.affine(affine), None);
        }
        let mut sum = self.exact(affine.constant_part());
        for (index, coefficient) in affine.terms() {
            let Some(Some(index)) = self.indices.get(index).cloned() else { continue };
            let coefficient = self.exact(coefficient);
            let term = Text::call("mul", &[&Text::atom(index), &coefficient]);
            sum = Text::call("add", &[&sum, &term]);
        }
        (sum, Some(Helper::Wrapping))
    }

    /// A size that the host computes, unless it is a constant.
    fn exact(&mut self, size: &Size) -> Text {
        match size.as_constant() {
            Some(constant) => scalar::constant(Scalar::I64(constant)),
            None => Text::atom(self.argument(&Argument::Size(size.clone()))),
        }
    }

    pub(super) fn extent(&mut self, extent: &Extent) -> Text {
        match extent {
            Extent::Affine(affine) => self.affine(affine),
            Extent::Value(value) => self.value(*value),
        }
    }

    /// An element of an array.
    pub(super) fn element(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Text {
        let linear = Linear::of(self.program, buffer, view, at);
        self.element_at(buffer, &linear)
    }

    pub(super) fn element_at(&mut self, buffer: BufferId, linear: &Linear) -> Text {
        let name = match self.scratch.get(&buffer) {
            Some(name) => name.clone(),
            None => self.argument(&Argument::Buffer(buffer)),
        };
        let mut sum = self.affine(&linear.affine);
        for (value, stride) in &linear.values {
            let value = self.value(*value);
            let term = match stride.as_constant() {
                Some(1) => value,
                _ => {
                    let stride = Text::atom(self.size(stride).at(Level::Sign));
                    Text::infix(Level::Product, &value, "*", &stride)
                }
            };
            sum = if sum.text == "0" { term } else { added(vec![(false, sum), (false, term)]) };
        }
        Text::atom(format!("{name}[{}]", sum.text))
    }

    // Statements.

    pub(super) fn block(&mut self, block: &[Statement]) -> Result {
        for (place, statement) in block.iter().enumerate() {
            self.statement(statement, &block[place + 1..])?;
        }
        Ok(())
    }

    /// A statement in front of others of its block.
    pub(super) fn statement(&mut self, statement: &Statement, rest: &[Statement]) -> Result {
        match statement {
            Statement::Let { value, op } => self.let_(*value, op, rest),
            Statement::Store { buffer, at, value } => {
                let element = self.element(*buffer, None, at);
                let value = self.value(*value);
                self.line(&format!("{} = {};", element.text, value.text));
                Ok(())
            }
            Statement::Scatter { buffer, at, value, monoid } => self.scatter(*buffer, at, *value, *monoid),
            Statement::If { condition, then, otherwise, results } => {
                for (result, ..) in results {
                    let (name, ty) = (self.names.fresh("chosen"), self.type_of(*result));
                    self.line(&format!("{ty} {name};"));
                    self.define(*result, Text::atom(name));
                }
                let condition = self.value(*condition);
                let assign = |w: &mut Self, side: fn(&(ValueId, ValueId, ValueId)) -> ValueId| {
                    for result in results {
                        let (to, from) = (w.value(result.0), w.value(side(result)));
                        w.line(&format!("{} = {};", to.text, from.text));
                    }
                };
                self.nested(&format!("if ({})", condition.text), |w| {
                    w.block(then)?;
                    assign(w, |r| r.1);
                    Ok(())
                })?;
                if otherwise.is_empty() && results.is_empty() {
                    return Ok(());
                }
                self.nested("else", |w| {
                    w.block(otherwise)?;
                    assign(w, |r| r.2);
                    Ok(())
                })
            }
            Statement::Loop(l) => self.loop_(l),
            Statement::While(w) => self.while_(w),
            Statement::Contract(_) => Err(Unsupported("a matrix product")),
        }
    }

    fn let_(&mut self, value: ValueId, op: &Op, rest: &[Statement]) -> Result {
        let text = self.op(value, op)?;
        // A value that is used once goes where it is used, if it means the same there.
        let Uses { count, inside } = self.uses[value];
        let between = || {
            let uses = |s: &Statement| {
                let mut found = false;
                visit::for_each_use(s, &mut |v| found |= v == value);
                found
            };
            let before = rest.iter().position(uses).unwrap_or(0);
            rest[..before].iter().all(|s| matches!(s, Statement::Let { .. }))
        };
        let short = text.text.len() <= LONGEST;
        let moves = match op {
            Op::Constant(_) => true,
            Op::Affine(_) => short,
            Op::Check { .. } | Op::Prefix(_) | Op::Place(_) => false,
            Op::Load { .. }
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Bitcast(..)
            | Op::Call(..) => short && count == 1 && !inside && between(),
        };
        let is_check = matches!(op, Op::Check { .. });
        if moves || count == 0 && !is_check {
            self.define(value, text);
            return Ok(());
        }
        if count == 0 {
            self.line(&format!("{};", text.text));
            return Ok(());
        }
        let wanted = match op {
            Op::Load { buffer, .. } => format!("{}_i", self.program.buffers[*buffer].name),
            Op::Check { .. } => "at".to_owned(),
            Op::Call(function, _) => self.program.functions[*function].math.name().to_owned(),
            _ => "v".to_owned(),
        };
        let (name, ty) = (self.names.fresh(&wanted), self.type_of(value));
        self.line(&format!("const {ty} {name} = {};", text.text));
        self.define(value, Text::atom(name));
        Ok(())
    }

    fn op(&mut self, value: ValueId, op: &Op) -> Result<Text> {
        let (text, helper) = match op {
            Op::Constant(c) => (scalar::constant(*c), None),
            Op::Affine(affine) => self.affine_value(affine),
            Op::Unary(op, a) => scalar::unary(*op, self.dtypes[*a], &self.value(*a)),
            Op::Binary(op, a, b) => scalar::binary(*op, self.dtypes[*a], &self.value(*a), &self.value(*b)),
            Op::Compare(op, a, b) => (scalar::compare(*op, self.dtypes[*a], &self.value(*a), &self.value(*b)), None),
            Op::Fma(a, b, c) => {
                let function = if self.dtypes[*a] == Dtype::F32 { "fmaf" } else { "fma" };
                let [a, b, c] = [*a, *b, *c].map(|v| self.value(v));
                (Text::call(function, &[&a, &b, &c]), None)
            }
            Op::Select(c, a, b) => {
                let [c, a, b] = [*c, *a, *b].map(|v| self.value(v));
                let text = format!("{} ? {} : {}", c.at(Level::Or), a.at(Level::Or), b.at(Level::Or));
                (Text::new(Level::Choice, text), None)
            }
            Op::Cast(to, a) => scalar::cast(*to, self.dtypes[*a], &self.value(*a)),
            Op::Bitcast(to, a) => scalar::bitcast(*to, self.dtypes[*a], &self.value(*a)),
            Op::Call(function, arguments) => {
                self.functions.insert(*function);
                let arguments: Vec<Text> = arguments.iter().map(|v| self.value(*v)).collect();
                let name = function_name(&self.program.functions[*function].name);
                (Text::call(&name, &arguments.iter().collect::<Vec<_>>()), None)
            }
            Op::Load { buffer, view, at } => (self.load(*buffer, view.as_deref(), at), None),
            Op::Check { value, bound, site } => (self.check(*value, bound, *site), Some(Helper::Checked)),
            Op::Prefix(_) => return Err(Unsupported("a running reduction")),
            Op::Place(_) => return Err(Unsupported("a sort")),
        };
        self.helpers.extend(helper);
        self.helpers.extend(scalar::needs(self.dtypes[value]));
        Ok(text)
    }

    /// An element, unless a check before has failed: then its subscripts may be out of bounds.
    fn load(&mut self, buffer: BufferId, view: Option<&[Size]>, at: &[Subscript]) -> Text {
        let element = self.element(buffer, view, at);
        let by_value = at.iter().any(|s| matches!(s, Subscript::Value(_)));
        let leans = self.leaning.iter().any(|(b, other)| *b == buffer && other == at);
        if !(by_value || leans) {
            return element;
        }
        let mut condition = if self.checks { Some(Text::atom("passed")) } else { None };
        if by_value {
            // Without elements even subscript 0 is out of bounds.
            let shape = self.program.buffers[buffer].shape.clone();
            let elements = shape.iter().fold(Size::constant(1), |product, length| &product * length);
            if elements.as_constant().is_none_or(|n| n < 1) {
                let some = Text::infix(Level::Order, &self.size(&elements), ">", &Text::atom("0"));
                condition =
                    Some(condition.map_or(some.clone(), |passed| Text::infix(Level::And, &passed, "&&", &some)));
            }
        }
        let Some(condition) = condition else { return element };
        let zero = format!("{}{{}}", scalar::name(self.program.buffers[buffer].dtype));
        let zero = if zero.contains(' ') { "0".to_owned() } else { zero };
        Text::new(Level::Choice, format!("{} ? {} : {zero}", condition.at(Level::Or), element.text))
    }

    fn check(&mut self, value: ValueId, bound: &Size, site: SiteId) -> Text {
        let fault = self.argument(&Argument::Fault);
        let (value, bound) = (self.value(value).text, self.size(bound).text);
        Text::atom(format!("checked({value}, {bound}, {}, {fault}, passed)", site.index()))
    }

    /// Merges a value into an element.
    fn scatter(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId, monoid: Monoid) -> Result {
        let element = self.element(buffer, None, at);
        let before = self.load(buffer, None, at);
        let (merged, helper) =
            scalar::binary(monoid.primitive(), self.program.buffers[buffer].dtype, &before, &self.value(value));
        self.helpers.extend(helper);
        self.line(&format!("{} = {};", element.text, merged.text));
        Ok(())
    }

    /// A loop that a thread runs alone.
    fn loop_(&mut self, l: &Loop) -> Result {
        match &l.kind {
            LoopKind::Parallel | LoopKind::Serial => {}
            LoopKind::Reduce(_) => return Err(Unsupported("a reduction")),
            LoopKind::Scan => return Err(Unsupported("a running reduction")),
            LoopKind::Keyed { .. } => return Err(Unsupported("a reduction by key")),
            LoopKind::Sort => return Err(Unsupported("a sort")),
        }
        self.nest(&l.dims, &l.body)
    }

    fn nest(&mut self, dims: &[(IndexId, Extent)], body: &Block) -> Result {
        let Some(((index, extent), inner)) = dims.split_first() else { return self.block(body) };
        let (name, extent) = (self.index_name(*index), self.extent(extent));
        self.bind(*index, Some(name.clone()));
        let head = format!("for (long long {name} = 0; {name} < {}; {name}++)", extent.at(Level::Sum));
        self.nested(&head, |w| w.nest(inner, body))
    }

    /// A loop that carries values from step to step.
    fn while_(&mut self, l: &While) -> Result {
        let (index, extent) = &l.counter;
        let (step, extent) = (self.index_name(*index), self.extent(extent));
        let mut states = vec![];
        for state in &l.state {
            let (name, ty, first) = (self.names.fresh("state"), self.type_of(state.current), self.value(state.first));
            self.line(&format!("{ty} {name} = {};", first.text));
            self.define(state.current, Text::atom(name.clone()));
            self.define(state.result, Text::atom(name.clone()));
            states.push(name);
        }
        self.bind(*index, Some(step.clone()));
        // A thread with a failed check ends here, unless it stores: the run has no result.
        let passed = if self.checks && visit::stores(&l.body).is_empty() { "passed && " } else { "" };
        let head = format!("for (long long {step} = 0; {passed}{step} < {}; {step}++)", extent.at(Level::Sum));
        self.nested(&head, |w| {
            if let Some(condition) = &l.condition {
                w.block(&condition.body)?;
                let holds = w.value(condition.value);
                w.line(&format!("if (!{}) break;", holds.at(Level::Atom)));
            }
            w.block(&l.body)?;
            // The next value of one may be the current value of another.
            let mut next = vec![];
            for state in &l.state {
                let (name, ty, value) = (w.names.fresh("next"), w.type_of(state.next), w.value(state.next));
                w.line(&format!("const {ty} {name} = {};", value.text));
                next.push(name);
            }
            for (state, next) in states.iter().zip(next) {
                w.line(&format!("{state} = {next};"));
            }
            Ok(())
        })
    }
}

/// A sum of terms, each of them added, or subtracted if it comes with `true`. (Such sums of indices
/// do not depend on their order.)
fn added(terms: Vec<(bool, Text)>) -> Text {
    let mut sum: Option<Text> = None;
    for (minus, term) in terms {
        sum = Some(match (sum, minus) {
            (None, false) => term,
            (None, true) => Text::new(Level::Sign, format!("-{}", term.at(Level::Atom))),
            (Some(sum), false) => match term.text.strip_prefix('-').filter(|_| term.level == Level::Sign) {
                Some(positive) => Text::new(Level::Sum, format!("{} - {positive}", sum.at(Level::Sum))),
                None => Text::new(Level::Sum, format!("{} + {}", sum.at(Level::Sum), term.at(Level::Sum))),
            },
            (Some(sum), true) => Text::infix(Level::Sum, &sum, "-", &term),
        });
    }
    sum.unwrap_or_else(|| Text::atom("0"))
}

/// A kernel or function as text.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) arguments: Vec<Argument>,
    pub(super) helpers: BTreeSet<Helper>,
    pub(super) functions: BTreeSet<FunctionId>,
}

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The name of a function of the program.
pub(super) fn function_name(name: &str) -> String {
    identifier(name)
}

/// The uses of the values of a block.
fn uses(block: &Block) -> SecondaryMap<ValueId, Uses> {
    fn count(block: &Block, uses: &mut SecondaryMap<ValueId, Uses>) {
        for statement in block {
            visit::for_each_use(statement, &mut |v| uses[v].count += 1);
            for inner in statement.blocks() {
                for value in visit::free_values(inner) {
                    uses[value].inside = true;
                }
                count(inner, uses);
            }
            // Operands of a reduction, and results of branches, are defined inside.
            if statement.blocks().next().is_some() {
                visit::for_each_use(statement, &mut |v| uses[v].inside = true);
            }
        }
    }
    let mut all = SecondaryMap::new();
    count(block, &mut all);
    all
}
