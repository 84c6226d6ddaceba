//! The text form of a program, which `parse` reads back. Tests are written in it and reports quote
//! it.
//!
//! It contains everything in a program except ids that nothing mentions. A value is printed with
//! its type only if that differs from the type of its definition (which `verify` would reject).

mod sched;

use std::fmt::{self, Write};

use cranelift_entity::{EntityRef, PrimaryMap};

use crate::build::{Values, field_dtype, op_dtype};
use crate::nest::{
    Block, Buffer, BufferId, CheckKind, Contraction, Extent, Function, Index, IndexId, Input, Kernel, Law, Loop,
    LoopKind, Merge, Node, Op, Program, Purpose, Reducer, Relation, Repeat, Requirement, Role, State, Statement,
    Subscript, SymbolSource, ValueId, While,
};
use crate::visit::bound_indices;
use crate::{Affine, Dtype, Extreme, Order, Origin, Scalar, Size};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new(self);
        printer.program();
        f.write_str(&printer.out)
    }
}

/// The text of one kernel of a program.
pub fn kernel(program: &Program, kernel: &Kernel) -> String {
    let mut printer = Printer::new(program);
    printer.kernel(kernel);
    printer.out
}

/// The text of a program's tree: its kernels, and the loops over them.
pub fn tree(program: &Program) -> String {
    let mut printer = Printer::new(program);
    printer.nodes(&program.body);
    printer.out
}

/// The first line of a statement's text, to name it in messages.
pub fn headline(program: &Program, indices: &PrimaryMap<IndexId, Index>, values: &Values, s: &Statement) -> String {
    let mut printer = Printer::new(program);
    printer.statement(&Body { indices, values }, s);
    printer.out.lines().next().unwrap_or_default().to_string()
}

/// The text of a scalar: a decimal that reads back to the same bits, or the bits of an unusual NaN.
pub fn scalar(value: Scalar) -> String {
    let odd_nan = match value {
        Scalar::F16(v) => v.is_nan() && v.to_bits() != half::f16::NAN.to_bits(),
        Scalar::Bf16(v) => v.is_nan() && v.to_bits() != half::bf16::NAN.to_bits(),
        Scalar::F32(v) => v.is_nan() && v.to_bits() != f32::NAN.to_bits(),
        Scalar::F64(v) => v.is_nan() && v.to_bits() != f64::NAN.to_bits(),
        _ => false,
    };
    if odd_nan {
        return format!("{:#x}", value.bits());
    }
    match value {
        Scalar::Bool(v) => v.to_string(),
        Scalar::I8(v) => v.to_string(),
        Scalar::U8(v) => v.to_string(),
        Scalar::I16(v) => v.to_string(),
        Scalar::U16(v) => v.to_string(),
        Scalar::I32(v) => v.to_string(),
        Scalar::I64(v) => v.to_string(),
        Scalar::U32(v) => v.to_string(),
        Scalar::U64(v) => v.to_string(),
        Scalar::F16(v) => float(v.to_f32()),
        Scalar::Bf16(v) => float(v.to_f32()),
        Scalar::F32(v) => float(v),
        Scalar::F64(v) => float(v),
    }
}

/// The text of an affine expression, beginning with a positive term if there is one:
/// `2 * i + n - 1`.
pub fn affine<I: Copy + Ord>(a: &Affine<I>, index: &impl Fn(I) -> String, size: &impl Fn(&Size) -> String) -> String {
    // Each part: whether it is subtracted, and its text.
    let signed = |text: String| match text.strip_prefix('-') {
        Some(rest) => (true, rest.to_string()),
        None => (false, text),
    };
    let mut parts: Vec<(bool, String)> = vec![];
    for (i, coefficient) in a.terms() {
        let index = index(*i);
        parts.push(match (coefficient.as_constant(), coefficient.terms().len()) {
            (Some(1), _) => (false, index),
            (Some(-1), _) => (true, index),
            (_, 1) => {
                let (minus, text) = signed(size(coefficient));
                (minus, format!("{text} * {index}"))
            }
            _ => (false, format!("({}) * {index}", size(coefficient))),
        });
    }
    if parts.is_empty() || !a.constant_part().is_zero() {
        parts.push(signed(size(a.constant_part())));
    }
    // A positive part first, as one writes it.
    parts.sort_by_key(|(minus, _)| *minus);
    let mut text = String::new();
    for (k, (minus, part)) in parts.iter().enumerate() {
        text.push_str(match (k, *minus) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        text.push_str(part);
    }
    text
}

/// Shortest text that reads back to the same bits.
fn float(value: impl fmt::Debug) -> String {
    format!("{value:?}").replace("NaN", "nan")
}

/// A name in the text: bare if it reads as one, else quoted.
fn name(name: &str) -> String {
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let number = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit());
    let value_like = name.strip_prefix('v').is_some_and(number);
    let bare = name.split('.').all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !value_like;
    let keyword = matches!(name, "overflow" | "keyed_chunk");
    if bare && !keyword { name.to_string() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    items.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

fn origins(origins: &[Origin]) -> String {
    if origins.is_empty() {
        return String::new();
    }
    format!(" at {}", list(origins, |o| format!("{}..{}", o.start, o.end)))
}

/// The parameters of a function, with their types.
fn params(params: &[ValueId], values: &Values) -> String {
    list(params, |p| match values.get(*p) {
        Some(dtype) => format!("{p}: {dtype}"),
        None => p.to_string(),
    })
}

/// The state that an element becomes. A single value has no brackets.
fn inputs(inputs: &[Input]) -> String {
    let input = |input: &Input| match input {
        Input::Value(value) => value.to_string(),
        Input::Number => "number".to_string(),
    };
    if let [one] = inputs { input(one) } else { format!("({})", list(inputs, input)) }
}

/// The declarations that the statements of a kernel or function refer to.
struct Body<'a> {
    indices: &'a PrimaryMap<IndexId, Index>,
    values: &'a Values,
}

struct Printer<'a> {
    program: &'a Program,
    symbols: Vec<String>,
    out: String,
    depth: usize,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program) -> Printer<'a> {
        let symbols = program.symbols.values().map(|s| name(&s.name)).collect();
        Printer { program, symbols, out: String::new(), depth: 0 }
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn program(&mut self) {
        let program = self.program;
        self.line(&format!("program @{} {{", name(&program.name)));
        self.depth += 1;
        for symbol in program.symbols.values() {
            let source = match &symbol.source {
                SymbolSource::Dimension { input, axis } => format!("dim {axis} of input {input}"),
                SymbolSource::Scalar { input } => format!("value of input {input}"),
                SymbolSource::Solved { input, axis, value } => {
                    format!("{} for dim {axis} of input {input}", self.size(value))
                }
            };
            self.line(&format!("symbol {} = {source}", name(&symbol.name)));
        }
        let (mut inputs, mut outputs) = (0, 0);
        for buffer in program.buffers.values() {
            let text = self.buffer(buffer, &mut inputs, &mut outputs);
            self.line(&text);
        }
        for (id, members) in &program.slots {
            let text = format!("{id} = {}", list(members, |member| self.buffer_name(*member)));
            self.line(&text);
        }
        for (id, site) in &program.sites {
            let at = origins(&[site.origin]);
            let what = match &site.what {
                CheckKind::Axis { array, axis } => format!("axis {axis} of {}", quoted(array)),
                CheckKind::Elements(op) => format!("elements of {op}"),
                CheckKind::Steps => "steps".to_owned(),
            };
            self.line(&format!("{id} = {what}{at}"));
        }
        for requirement in &program.requires {
            let text = self.requirement(requirement);
            self.line(&text);
        }
        for function in program.functions.values() {
            self.function(function);
        }
        for reducer in program.reducers.values() {
            self.reducer(reducer);
        }
        self.nodes(&program.body);
        self.depth -= 1;
        self.line("}");
    }

    /// Inputs and outputs in order need no number.
    fn buffer(&self, buffer: &Buffer, inputs: &mut usize, outputs: &mut usize) -> String {
        let numbered = |word: &str, n: usize, next: &mut usize| {
            let text = if n == *next { word.to_string() } else { format!("{word} {n}") };
            *next = n.saturating_add(1);
            text
        };
        let role = match &buffer.role {
            Role::Input(n) => numbered("input", *n, inputs),
            Role::Output(n) => numbered("output", *n, outputs),
            Role::Temp => "temp".to_string(),
            Role::Scratch => "scratch".to_string(),
            Role::Constant(_) => "constant".to_string(),
        };
        let mut text = format!("{role} %{}: {}{}", name(&buffer.name), buffer.dtype, self.sizes(&buffer.shape));
        if let Role::Constant(elements) = &buffer.role {
            let _ = write!(text, " = [{}]", list(elements, |e| scalar(*e)));
        }
        text
    }

    fn requirement(&self, r: &Requirement) -> String {
        let relation = match r.relation {
            Relation::Equal => "==",
            Relation::AtMost => "<=",
        };
        let mut text = format!("require {} {relation} {}", self.size(&r.left), self.size(&r.right));
        if !r.unless_empty.is_empty() {
            let _ = write!(text, " unless empty({})", list(&r.unless_empty, |s| self.size(s)));
        }
        let _ = write!(text, " as {}, {}", quoted(&r.left_is), quoted(&r.right_is));
        if r.purpose != Purpose::default() {
            let _ = write!(text, " for {}", r.purpose.name());
        }
        text += &origins(&[r.origin]);
        text
    }

    fn function(&mut self, f: &Function) {
        let body = Body { indices: &PrimaryMap::new(), values: &f.values };
        let params = params(&f.params, &f.values);
        let quotients = if f.quotients_in_range { " in_range" } else { "" };
        self.line(&format!("function @{} = {}({params}){quotients} {{", name(&f.name), f.math));
        self.block(&body, &f.body, &[f.result]);
        self.line("}");
    }

    fn reducer(&mut self, r: &Reducer) {
        let body = Body { indices: &PrimaryMap::new(), values: &r.values };
        let law = match r.law {
            Law::Ordered => "ordered",
            Law::Free => "free",
            Law::First(Extreme::Greatest) => "first max",
            Law::First(Extreme::Least) => "first min",
        };
        let identity = list(&r.identity, |value| format!("{} {}", value.dtype(), scalar(*value)));
        let params = params(&r.params, &r.values);
        self.line(&format!("reducer @{} {law} of ({identity}) = merge({params}) {{", name(&r.name)));
        self.block(&body, &r.body, &r.results);
        self.line("}");
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Kernel(id) => match self.program.kernels.get(*id) {
                    Some(kernel) => self.kernel(kernel),
                    // The verifier refuses it.
                    None => self.line(&format!("kernel {id}")),
                },
                Node::Repeat(repeat) => {
                    let text = self.repeat(repeat);
                    self.line(&text);
                    self.depth += 1;
                    self.nodes(&repeat.body);
                    self.depth -= 1;
                    self.line("}");
                }
                Node::Exit { unless } => self.line(&format!("exit unless {}", self.buffer_name(*unless))),
            }
        }
    }

    /// The first line of a loop over kernels.
    fn repeat(&self, repeat: &Repeat) -> String {
        let carried = list(&repeat.carried, |carried| {
            let [initial, current, next] = carried.buffers().map(|id| self.buffer_name(id));
            format!("{current} = {initial} then {next}")
        });
        let with = if repeat.carried.is_empty() { "" } else { " with " };
        let trips = repeat.trips.as_ref().map_or("forever".to_owned(), |trips| self.size(trips));
        format!("repeat {trips}{with}{carried} {{")
    }

    fn kernel(&mut self, k: &Kernel) {
        let body = Body { indices: &k.indices, values: &k.values };
        self.line(&format!("kernel @{}{} {{", name(&k.name), origins(&k.origins)));
        // Indices are numbered as loops bind them; if they are not, their order is listed first.
        if !k.indices.keys().eq(bound_indices(&k.body)) {
            self.depth += 1;
            let text = format!("indices {}", list(k.indices.values(), |i| name(&i.name)));
            self.line(&text);
            self.depth -= 1;
        }
        self.block(&body, &k.body, &[]);
        self.line("}");
    }

    fn block(&mut self, body: &Body<'_>, block: &Block, yields: &[ValueId]) {
        self.depth += 1;
        for statement in block {
            self.statement(body, statement);
        }
        if !yields.is_empty() {
            self.line(&format!("yield {}", list(yields, ValueId::to_string)));
        }
        self.depth -= 1;
    }

    fn statement(&mut self, body: &Body<'_>, statement: &Statement) {
        match statement {
            Statement::Let { value, op } => {
                let dtype = op_dtype(self.program, body.values, op);
                let text = format!("{} = {}", body.definition(*value, dtype), self.op(body, op));
                self.line(&text);
            }
            Statement::Store { buffer, at, value } => {
                let text = format!("store {}{}, {value}", self.buffer_name(*buffer), self.subscripts(body, at));
                self.line(&text);
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                let (table, at) = (self.buffer_name(*buffer), self.subscripts(body, at));
                self.line(&format!("scatter {table}{at}, {} {value}", monoid.name()));
            }
            Statement::If { condition, then, otherwise, results } => {
                let defined = list(results, |r| body.definition(r.0, body.values.get(r.1).copied()));
                let equals = if results.is_empty() { "" } else { " = " };
                self.line(&format!("{defined}{equals}if {condition} {{"));
                self.block(body, then, &results.iter().map(|r| r.1).collect::<Vec<_>>());
                if !(otherwise.is_empty() && results.is_empty()) {
                    self.line("} else {");
                    self.block(body, otherwise, &results.iter().map(|r| r.2).collect::<Vec<_>>());
                }
                self.line("}");
            }
            Statement::Loop(l) => self.loop_(body, l),
            Statement::While(w) => self.while_(body, w),
            Statement::Contract(c) => self.contract(body, c),
        }
    }

    fn loop_(&mut self, body: &Body<'_>, l: &Loop) {
        let dims = self.dims(body, &l.dims);
        let (head, tail) = match &l.kind {
            LoopKind::Parallel if l.dims.is_empty() => ("parallel".to_string(), String::new()),
            LoopKind::Parallel => (format!("parallel {dims}"), String::new()),
            LoopKind::Serial => (format!("serial {dims}"), String::new()),
            LoopKind::Scan => (format!("scan {dims}"), String::new()),
            LoopKind::Sort => (format!("sort {dims}"), String::new()),
            LoopKind::Keyed { keys, row } => {
                (format!("keyed {} row {row} over {dims}", self.size(keys)), String::new())
            }
            LoopKind::Reduce(reductions) if reductions.is_empty() => (format!("reduce {dims}"), String::new()),
            LoopKind::Reduce(reductions) => {
                let defined = list(reductions, |r| {
                    let dtype = |k| field_dtype(self.program, body.values, r.merge, r.inputs.first(), k);
                    list(r.results.iter().enumerate(), |(k, result)| body.definition(*result, dtype(k)))
                });
                let with =
                    list(reductions, |r| format!("{} {} {}", self.merge(r.merge), r.order.name(), inputs(&r.inputs)));
                (format!("{defined} = reduce {dims}"), format!(" with {with}"))
            }
        };
        self.line(&format!("{head} {{"));
        self.block(body, &l.body, &[]);
        self.line(&format!("}}{tail}"));
    }

    fn while_(&mut self, body: &Body<'_>, w: &While) {
        let first = |s: &State| body.values.get(s.first).copied();
        let defined = list(&w.state, |s| body.definition(s.result, first(s)));
        let equals = if w.state.is_empty() { "" } else { " = " };
        let with = if w.state.is_empty() { "" } else { " with " };
        let state = list(&w.state, |s| format!("{} = {}", body.definition(s.current, first(s)), s.first));
        let head = format!("{defined}{equals}while {}{with}{state}", self.dims(body, std::slice::from_ref(&w.counter)));
        match &w.condition {
            Some(condition) => {
                self.line(&format!("{head} if {{"));
                self.block(body, &condition.body, &[condition.value]);
                self.line("} do {");
            }
            None => self.line(&format!("{head} do {{")),
        }
        self.block(body, &w.body, &w.state.iter().map(|s| s.next).collect::<Vec<_>>());
        self.line("}");
    }

    fn contract(&mut self, body: &Body<'_>, c: &Contraction) {
        let result = body.definition(c.result, body.values.get(c.left.value).copied());
        let (free, reduce) = (self.dims(body, &c.free), self.dims(body, &c.reduce));
        let over = if c.reduce.is_empty() { "over" } else { "over " };
        let free = if c.free.is_empty() { free } else { format!("{free} ") };
        let order = if c.order == Order::Blocks { " blocks" } else { "" };
        self.line(&format!("{result} = contract {free}{over}{reduce}{order} {{"));
        self.depth += 1;
        self.line("left {");
        self.block(body, &c.left.body, &[c.left.value]);
        self.line("}");
        self.line("right {");
        self.block(body, &c.right.body, &[c.right.value]);
        self.line("}");
        self.line("epilogue {");
        self.block(body, &c.epilogue, &[]);
        self.line("}");
        self.depth -= 1;
        self.line("}");
    }

    fn dims(&self, body: &Body<'_>, dims: &[(IndexId, Extent)]) -> String {
        list(dims, |(index, extent)| match extent {
            Extent::Affine(a) => format!("{} < {}", body.index(*index), self.affine(body, a)),
            Extent::Value(v) => format!("{} < {v}", body.index(*index)),
        })
    }

    fn op(&self, body: &Body<'_>, op: &Op) -> String {
        match op {
            Op::Constant(value) => format!("const {} {}", value.dtype(), scalar(*value)),
            Op::Affine(a) => format!("affine {}", self.affine(body, a)),
            Op::Unary(op, a) => format!("{op} {a}"),
            Op::Binary(op, a, b) => format!("{op} {a}, {b}"),
            Op::Compare(op, a, b) => format!("{op} {a}, {b}"),
            Op::Fma(a, b, c) => format!("fma {a}, {b}, {c}"),
            Op::Select(c, a, b) => format!("select {c}, {a}, {b}"),
            Op::Cast(to, a) => format!("cast {to} {a}"),
            Op::Bitcast(to, a) => format!("bitcast {to} {a}"),
            Op::Call(f, arguments) => {
                let f = self.program.functions.get(*f).map_or_else(|| f.to_string(), |f| name(&f.name));
                format!("call @{f}({})", list(arguments, ValueId::to_string))
            }
            Op::Load { buffer, view, at } => {
                let view = view.as_ref().map(|v| format!(" as [{}]", list(v, |s| self.size(s)))).unwrap_or_default();
                format!("load {}{view}{}", self.buffer_name(*buffer), self.subscripts(body, at))
            }
            Op::Check { value, bound, site } => format!("check {value} < {} at {site}", self.size(bound)),
            Op::Place(by) => format!("place {by}"),
            Op::Prefix(p) => {
                let field =
                    if matches!(p.merge, Merge::Monoid(_)) { String::new() } else { format!("{} of ", p.field) };
                format!("prefix {field}{} {}", self.merge(p.merge), inputs(&p.inputs))
            }
        }
    }

    fn merge(&self, merge: Merge) -> String {
        match merge {
            Merge::Monoid(monoid) => monoid.to_string(),
            Merge::Reducer(id) => {
                format!("@{}", self.program.reducers.get(id).map_or_else(|| id.to_string(), |r| name(&r.name)))
            }
        }
    }

    fn buffer_name(&self, id: BufferId) -> String {
        format!("%{}", self.program.buffers.get(id).map_or_else(|| id.to_string(), |b| name(&b.name)))
    }

    fn subscripts(&self, body: &Body<'_>, at: &[Subscript]) -> String {
        let subscript = |s: &Subscript| match s {
            Subscript::Affine(a) => self.affine(body, a),
            Subscript::Value(v) => v.to_string(),
        };
        format!("[{}]", list(at, subscript))
    }

    fn sizes(&self, shape: &[Size]) -> String {
        if shape.is_empty() { String::new() } else { format!("[{}]", list(shape, |s| self.size(s))) }
    }

    fn size(&self, size: &Size) -> String {
        size.display(&|s| self.symbols.get(s.index()).map_or("?", String::as_str)).to_string()
    }

    fn affine(&self, body: &Body<'_>, a: &Affine<IndexId>) -> String {
        affine(a, &|index| body.index(index), &|size| self.size(size))
    }
}

impl Body<'_> {
    fn index(&self, id: IndexId) -> String {
        self.indices.get(id).map_or_else(|| format!("?{id}"), |i| name(&i.name))
    }

    /// A value at its definition, with its type if that is not the type of the definition.
    fn definition(&self, value: ValueId, given: Option<Dtype>) -> String {
        match self.values.get(value) {
            Some(dtype) if Some(*dtype) != given => format!("{value}: {dtype}"),
            _ => value.to_string(),
        }
    }
}
