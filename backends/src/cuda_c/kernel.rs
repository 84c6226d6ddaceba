//! The statements of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::entity::{EntityRef, SecondaryMap};
use ir::build::Values;
use ir::nest::{
    Block, BufferId, Extent, FunctionId, IndexId, Loop, LoopKind, Op, Program, ReducerId, Role, SiteId, Statement,
    Subscript, ValueId, While,
};
use ir::rewrite::Inside;
use ir::sched::{Part, Relay, Run, Shared, is_flat};
use ir::{Dtype, Monoid, Size, visit};

use super::argument::Argument;
use super::helpers::Helper;
use super::module::Unsupported;
use super::names::{Names, identifier};
use super::reduce::{Prefixes, reducer_names};
use super::scalar::{self, Level, Text};
use crate::ptx::{self, Blocks};

/// A longer expression gets a line of its own.
const LONGEST: usize = 72;
/// The most elements of an array that a thread has as variables.
const MOST_ELEMENTS: i64 = 256;

pub(super) type Result<T = ()> = std::result::Result<T, Unsupported>;

/// The code of one kernel while it is written.
pub(super) struct Writer<'a> {
    pub(super) program: &'a Program,
    pub(super) part: &'a Part,
    pub(super) dtypes: &'a Values,
    pub(super) helpers: BTreeSet<Helper>,
    /// Functions of the program that it calls.
    pub(super) functions: BTreeSet<FunctionId>,
    /// Reducers of the program that it merges by.
    pub(super) reducers: BTreeSet<ReducerId>,
    /// The scans that are being written, by the value that each prefix defines.
    pub(super) prefixes: BTreeMap<ValueId, Prefixes>,
    pub(super) names: Names,
    arguments: Vec<(Argument, String)>,
    /// The arrays that each thread has for itself.
    pub(super) scratch: BTreeMap<BufferId, String>,
    values: SecondaryMap<ValueId, Option<Text>>,
    /// The text of each index, or none for an index that stays 0.
    pub(super) indices: BTreeMap<IndexId, Option<String>>,
    uses: SecondaryMap<ValueId, Uses>,
    pub(super) stored: BTreeSet<BufferId>,
    /// Loads that are only in bounds if an earlier check has passed.
    leaning: Vec<(BufferId, Vec<Subscript>)>,
    pub(super) checks: bool,
    /// The threads of a block that run the current statements together, if not each thread by
    /// itself.
    pub(super) together: Option<i64>,
    /// The static shared memory of reductions in bytes.
    pub(super) shared_bytes: usize,
    shared: Shared,
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
            reducers: BTreeSet::new(),
            prefixes: BTreeMap::new(),
            names: Names::default(),
            arguments: vec![],
            scratch: BTreeMap::new(),
            values: SecondaryMap::new(),
            indices: BTreeMap::new(),
            uses: uses(body, &[]),
            stored: visit::stores(body).into_iter().collect(),
            leaning,
            checks,
            together: None,
            shared_bytes: 0,
            shared: Shared::of(program, &part.kernel),
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
        self.uses = uses(&function.body, &[function.result]);
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
        Ok(self.written(text))
    }

    /// The structure and the merge of a reducer.
    pub(super) fn reducer(mut self, id: ReducerId) -> Result<Written> {
        let reducer = &self.program.reducers[id];
        self.dtypes = &reducer.values;
        self.uses = uses(&reducer.body, &reducer.results);
        let (ty, merge) = reducer_names(&reducer.name);
        let count = reducer.identity.len();
        let mut fields = String::new();
        for (number, dtype) in reducer.state().enumerate() {
            self.helpers.extend(scalar::needs(dtype));
            fields += &format!(" {} v{number};", scalar::name(dtype));
        }
        for (number, parameter) in reducer.params.iter().enumerate() {
            let (state, field) = if number < count { ("a", number) } else { ("b", number - count) };
            self.define(*parameter, Text::atom(format!("{state}.v{field}")));
        }
        self.depth = 1;
        self.block(&reducer.body)?;
        let results: Vec<String> = reducer.results.iter().map(|v| self.value(*v).text).collect();
        self.line(&format!("return {ty}{{{}}};", results.join(", ")));
        let body = self.lines.concat();
        let text = format!("struct {ty} {{{fields} }};\n__device__ inline {ty} {merge}({ty} a, {ty} b) {{\n{body}}}\n");
        Ok(self.written(text))
    }

    fn written(self, text: String) -> Written {
        let arguments = self.arguments.into_iter().map(|(argument, _)| argument.into()).collect();
        Written { text, arguments, helpers: self.helpers, functions: self.functions, reducers: self.reducers }
    }

    /// The kernel with a name and its launch.
    pub(super) fn finish(mut self, name: &str, launch: &Blocks) -> Written {
        let threads = launch.threads;
        let blocks = self.blocks_of(launch);
        self.arguments.sort_by_key(|(argument, _)| argument.order());
        let parameter = |(argument, name): &(Argument, String)| match argument {
            Argument::Buffer(id) => {
                let constant = if self.stored.contains(id) { "" } else { "const " };
                format!("{constant}{}* {name}", scalar::name(self.program.buffers[*id].dtype))
            }
            Argument::Fault => format!("Fault* {name}"),
            Argument::Size(_) | Argument::Stride(_) => format!("long long {name}"),
        };
        let parameters: Vec<String> = self.arguments.iter().map(parameter).collect();
        // A kernel has at least one parameter.
        let parameters = if parameters.is_empty() { "long long".to_owned() } else { parameters.join(", ") };
        let body = self.lines.concat();
        let head = format!("extern \"C\" __global__ void __launch_bounds__({threads})\n{name}({parameters})");
        let plural = if blocks == "1" { "" } else { "s" };
        let mut comments = format!("// Launch {blocks} block{plural} of {threads} threads.\n");
        for (argument, name) in &self.arguments {
            if let Argument::Size(size) = argument
                && size.as_symbol().is_none()
            {
                let symbol = |s| self.program.symbols[s].name.as_str();
                comments += &format!("// {name} = {}\n", size.display(&symbol));
            }
        }
        if let Run::Relay(Relay { buffer, .. }) = self.part.run {
            let name = self.argument(&Argument::Buffer(buffer));
            comments += &format!("// {name} is cleared before the first launch, and not again.\n");
        }
        let text = format!("{comments}{head} {{\n{body}}}\n");
        self.written(text)
    }

    /// The number of blocks of a launch.
    fn blocks_of(&mut self, launch: &Blocks) -> String {
        let mut blocks = vec![];
        for (extents, each) in &launch.axes {
            let Some(extents) = extents else { return "some".to_owned() };
            let extents: Vec<Text> = extents.iter().map(|extent| self.size(extent)).collect();
            let total = extents.into_iter().reduce(|a, b| Text::infix(Level::Product, &a, "*", &b));
            let total = total.unwrap_or_else(|| Text::atom("1"));
            blocks.push(match each {
                1 => total,
                _ => Text::new(Level::Product, format!("({} + {}) / {each}", total.at(Level::Sum), each - 1)),
            });
        }
        let least = if blocks.len() > 1 { Level::Atom } else { Level::Sum };
        let blocks: Vec<String> = blocks.iter().map(|blocks| blocks.at(least)).collect();
        let all = if blocks.is_empty() { "1".to_owned() } else { blocks.join(" * ") };
        if launch.others > 0 { format!("{all} + {}", launch.others) } else { all }
    }

    /// Declares the arrays that each thread, or each block, has for itself: a few elements are
    /// variables, more are a part of an array in memory.
    fn scratch(&mut self) {
        let of_threads = self.together.is_none()
            || (self.part.root().is_none() && self.part.has_scratch_of_iterations(self.program));
        for (id, name) in self.scratch.clone() {
            let buffer = &self.program.buffers[id];
            let (ty, shape) = (scalar::name(buffer.dtype), buffer.shape.clone());
            self.helpers.extend(scalar::needs(buffer.dtype));
            let elements = shape.iter().map(Size::as_constant).product::<Option<i64>>();
            match elements.filter(|n| *n <= MOST_ELEMENTS) {
                Some(elements) => {
                    let shared = if of_threads { "" } else { "__shared__ " };
                    self.line(&format!("{shared}{ty} {name}[{}];", elements.max(1)));
                }
                None => {
                    let (all, bytes) = (self.argument(&Argument::Buffer(id)), self.argument(&Argument::Stride(id)));
                    let thread = "(blockIdx.x * (long long)blockDim.x + threadIdx.x)";
                    let owner = if of_threads { thread } else { "blockIdx.x" };
                    self.line(&format!("{ty}* {name} = ({ty}*)((char*){all} + {owner} * {bytes});"));
                }
            }
        }
    }

    /// The beginning of a kernel, with statements that each thread computes for itself.
    pub(super) fn opening(&mut self, before: &[Statement]) -> Result {
        if self.checks {
            self.line("bool passed = true;");
        }
        self.scratch();
        self.block(before)
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

    pub(super) fn type_of(&mut self, value: ValueId) -> &'static str {
        let dtype = self.dtypes[value];
        self.helpers.extend(scalar::needs(dtype));
        scalar::name(dtype)
    }

    // Values, indices and sizes.

    pub(super) fn value(&self, value: ValueId) -> Text {
        self.values[value].clone().expect("a verified program defines values before it uses them")
    }

    /// Whether nothing takes a value.
    pub(super) fn is_unused(&self, value: ValueId) -> bool {
        self.uses[value].count == 0
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
        if let Argument::Buffer(id) = argument {
            self.helpers.extend(scalar::needs(self.program.buffers[*id].dtype));
        }
        let name = self.names.fresh(&argument.name(self.program));
        self.arguments.push((argument.clone(), name.clone()));
        name
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
                self.by_first(*buffer, &format!("{} = {};", element.text, value.text));
                Ok(())
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                let text = self.scatter(*buffer, at, *value, *monoid);
                self.by_first(*buffer, &text);
                Ok(())
            }
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
        let Uses { count, inside } = self.uses[value];
        let is_check = matches!(op, Op::Check { .. });
        if count == 0 && !is_check {
            return Ok(());
        }
        let text = self.op(value, op)?;
        // A value that is used once goes where it is used, if it means the same there.
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
        if moves {
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
            Op::Prefix(prefix) => (self.prefix(value, prefix)?, None),
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
    fn scatter(&mut self, buffer: BufferId, at: &[Subscript], value: ValueId, monoid: Monoid) -> String {
        let element = self.element(buffer, None, at);
        let before = self.load(buffer, None, at);
        let (merged, helper) =
            scalar::binary(monoid.primitive(), self.program.buffers[buffer].dtype, &before, &self.value(value));
        self.helpers.extend(helper);
        format!("{} = {};", element.text, merged.text)
    }

    /// A store, which the first thread makes if threads run it together.
    fn by_first(&mut self, buffer: BufferId, store: &str) {
        if self.together.is_none() {
            return self.line(store);
        }
        let shared = self.shared.buffers.contains(&buffer);
        // Others may still load what it overwrites.
        if shared || self.shared.in_place {
            self.line("__syncthreads();");
        }
        self.line(&format!("if (threadIdx.x == 0) {store}"));
        if shared {
            self.line("__syncthreads();");
        }
    }

    /// Ends statements that the threads of a block have run each for itself.
    pub(super) fn settle(&mut self, block: &[Statement]) {
        let stores = visit::stores(block).iter().any(|buffer| self.shared.buffers.contains(buffer));
        if self.checks && block.iter().any(Statement::may_fault) {
            self.line("passed = __syncthreads_and(passed);");
        } else if stores || self.shared.in_place {
            self.line("__syncthreads();");
        }
    }

    /// Statements that each thread runs by itself.
    pub(super) fn by_each<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let together = self.together.take();
        let made = make(self);
        self.together = together;
        made
    }

    fn loop_(&mut self, l: &Loop) -> Result {
        match (&l.kind, self.together) {
            (LoopKind::Parallel, Some(threads)) => self.spread(l, threads),
            (LoopKind::Serial, Some(_)) if is_flat(&l.body) => {
                self.line("__syncthreads();");
                self.nested("if (threadIdx.x == 0)", |w| w.by_each(|w| w.nest(&l.dims, &l.body)))?;
                self.line("__syncthreads();");
                self.settle(&l.body);
                Ok(())
            }
            (LoopKind::Parallel | LoopKind::Serial, _) => self.nest(&l.dims, &l.body),
            (LoopKind::Reduce(reductions), Some(threads)) => self.reduce_together(l, reductions, threads),
            (LoopKind::Reduce(reductions), None) => self.reduce_alone(l, reductions),
            (LoopKind::Scan, Some(_)) => {
                self.line("__syncthreads();");
                self.nested("if (threadIdx.x == 0)", |w| w.by_each(|w| w.scan_alone(l)))?;
                self.line("__syncthreads();");
                self.settle(&l.body);
                Ok(())
            }
            (LoopKind::Scan, None) => self.scan_alone(l),
            (LoopKind::Keyed { .. }, _) => Err(Unsupported("a reduction by key")),
            (LoopKind::Sort, _) => Err(Unsupported("a sort")),
        }
    }

    pub(super) fn nest(&mut self, dims: &[(IndexId, Extent)], body: &Block) -> Result {
        self.nest_with(dims, |w| w.block(body))
    }

    /// Loops over dims around the statements that a function writes.
    pub(super) fn nest_with(&mut self, dims: &[(IndexId, Extent)], body: impl FnOnce(&mut Self) -> Result) -> Result {
        let Some(((index, extent), inner)) = dims.split_first() else { return body(self) };
        let (name, extent) = (self.index_name(*index), self.extent(extent));
        self.bind(*index, Some(name.clone()));
        let head = format!("for (long long {name} = 0; {name} < {}; {name}++)", extent.at(Level::Sum));
        // (A function that writes another one would be a new type at each depth.)
        let body: Box<dyn FnOnce(&mut Self) -> Result + '_> = Box::new(body);
        self.nested(&head, |w| w.nest_with(inner, body))
    }

    /// A loop that one thread runs for its block. The others get its results.
    fn by_one(&mut self, l: &While) -> Result {
        let mut shared = vec![];
        for state in l.state.iter().filter(|state| self.uses[state.result].count > 0) {
            shared.push((state.result, String::new()));
        }
        for (result, name) in &mut shared {
            *name = self.names.fresh("shared");
            let ty = self.type_of(*result);
            self.line(&format!("__shared__ {ty} {name};"));
        }
        self.line("__syncthreads();");
        self.nested("if (threadIdx.x == 0)", |w| {
            w.by_each(|w| w.while_(l))?;
            for (result, name) in &shared {
                let value = w.value(*result).text;
                w.line(&format!("{name} = {value};"));
            }
            Ok(())
        })?;
        self.line("__syncthreads();");
        for (result, name) in shared {
            let (copy, ty) = (self.names.fresh("state"), self.type_of(result));
            self.line(&format!("const {ty} {copy} = {name};"));
            self.define(result, Text::atom(copy));
        }
        // The next loop overwrites them.
        self.line("__syncthreads();");
        self.settle(std::slice::from_ref(&Statement::While(l.clone())));
        Ok(())
    }

    /// A loop that carries values from step to step.
    fn while_(&mut self, l: &While) -> Result {
        if self.together.is_some() && !visit::stores(&l.body).is_empty() && is_flat(&l.body) {
            return self.by_one(l);
        }
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

/// A kernel or function as text.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) arguments: Vec<ptx::Argument>,
    pub(super) helpers: BTreeSet<Helper>,
    pub(super) functions: BTreeSet<FunctionId>,
    pub(super) reducers: BTreeSet<ReducerId>,
}

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The name of a function of the program.
pub(super) fn function_name(name: &str) -> String {
    identifier(name)
}

/// The uses of the values of a block. Statements behind it use those that are kept.
fn uses(block: &Block, kept: &[ValueId]) -> SecondaryMap<ValueId, Uses> {
    fn count(block: &Block, uses: &mut SecondaryMap<ValueId, Uses>) {
        // From the end, so that operations that nothing uses count for nothing.
        for statement in block.iter().rev() {
            if let Statement::Let { value, op } = statement
                && uses[*value].count == 0
                && !matches!(op, Op::Check { .. })
            {
                continue;
            }
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
    let mut all: SecondaryMap<ValueId, Uses> = SecondaryMap::new();
    kept.iter().for_each(|value| all[*value].count += 1);
    count(block, &mut all);
    all
}
