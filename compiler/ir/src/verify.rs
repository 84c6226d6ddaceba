//! The rules that a program obeys from lowering to code generation, checked after every pass in
//! tests and debug builds. Engines rely on them without further checks. The message is meant for
//! the author of the pass: it names the kernel, the statement and the rule.
//!
//! Rules that only a run can check (subscripts are in bounds, elements are stored once and before
//! they are loaded, views have the same number of elements) are enforced by the interpreter.

mod keyed;
mod ops;
mod slots;
mod sort;
mod tree;

use std::collections::BTreeSet;
use std::fmt;

use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};

use crate::build::{Values, field_dtype};
use crate::nest::{
    Block, Buffer, BufferId, Contraction, Extent, Function, Index, IndexId, Input, Kernel, KernelId, Loop, LoopKind,
    Merge, Program, Reducer, Reduction, Role, Rows, Statement, SymbolSource, ValueId, While,
};
use crate::{Affine, Dtype, Order, Size, SymbolId, print, visit};

/// How deep blocks may nest, so that walking them by recursion is safe.
pub const MAX_DEPTH: usize = 100;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The kernel or function and the statement, or the part of the program.
    pub place: String,
    /// The rule, with what breaks it.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for VerifyError {}

type Result<T = (), E = VerifyError> = std::result::Result<T, E>;

/// Checks every rule, up to the first that is violated.
pub fn verify(program: &Program) -> Result {
    names(program)?;
    declarations(program)?;
    for function in program.functions.values() {
        self::function(program, function)?;
    }
    for reducer in program.reducers.values() {
        self::reducer(program, reducer)?;
    }
    let sizes: BTreeSet<&str> = program.symbols.values().map(|s| s.name.as_str()).collect();
    for kernel in program.kernels.values() {
        self::kernel(program, kernel, &sizes)?;
    }
    tree::tree(program)?;
    scratch(program)?;
    slots::slots(program)
}

fn fail<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T> {
    Err(VerifyError { place: place.into(), message: message.into() })
}

fn unique<'n>(what: &str, names: impl Iterator<Item = &'n String>) -> Result {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return fail(format!("{what} {name}"), "the name is there twice");
        }
    }
    Ok(())
}

fn names(program: &Program) -> Result {
    unique("size", program.symbols.values().map(|s| &s.name))?;
    unique("buffer", program.buffers.values().map(|b| &b.name))?;
    unique("function", program.functions.values().map(|f| &f.name))?;
    unique("reducer", program.reducers.values().map(|r| &r.name))?;
    unique("kernel", program.kernels.values().map(|k| &k.name))
}

fn declarations(program: &Program) -> Result {
    for buffer in program.buffers.values() {
        self::buffer(program, buffer)?;
    }
    let (inputs, outputs) = (program.inputs(), program.outputs());
    for (what, found) in [("inputs", &inputs), ("outputs", &outputs)] {
        for (n, id) in found.iter().enumerate() {
            if !matches!(&program.buffers[*id].role, Role::Input(k) | Role::Output(k) if *k == n) {
                return fail(what, format!("are not numbered from 0 without gaps: there is no number {n}"));
            }
        }
    }
    for (id, symbol) in &program.symbols {
        let place = format!("size {}", symbol.name);
        let (SymbolSource::Dimension { input, .. }
        | SymbolSource::Scalar { input }
        | SymbolSource::Solved { input, .. }) = symbol.source;
        let Some(buffer) = inputs.get(input).map(|id| &program.buffers[*id]) else {
            return fail(place, format!("there is no input {input}"));
        };
        match &symbol.source {
            SymbolSource::Dimension { axis, .. } | SymbolSource::Solved { axis, .. } if *axis >= buffer.shape.len() => {
                return fail(place, format!("input {input} has no axis {axis}"));
            }
            SymbolSource::Scalar { .. } if !(buffer.shape.is_empty() && buffer.dtype.is_int()) => {
                return fail(place, format!("input {input} is no integer scalar"));
            }
            SymbolSource::Solved { value, .. } if !is_of_earlier(value, id) => {
                return fail(place, "it is solved by a size name that is not there before it");
            }
            SymbolSource::Dimension { .. } | SymbolSource::Scalar { .. } | SymbolSource::Solved { .. } => {}
        }
    }
    for (n, r) in program.requires.iter().enumerate() {
        if ![&r.left, &r.right].into_iter().chain(&r.unless_empty).all(|s| known_size(program, s)) {
            return fail(format!("requirement {n}"), "a size name of it is not there");
        }
    }
    Ok(())
}

/// Whether a size has no other names than those before this one.
fn is_of_earlier(size: &Size, symbol: SymbolId) -> bool {
    let mut earlier = true;
    size.for_each_symbol(&mut |other| earlier &= other < symbol);
    earlier
}

fn buffer(program: &Program, buffer: &Buffer) -> Result {
    let place = format!("buffer {}", buffer.name);
    if !buffer.shape.iter().all(|s| known_size(program, s)) {
        return fail(place, "a size name of its shape is not there");
    }
    let Role::Constant(elements) = &buffer.role else { return Ok(()) };
    let mut count = Some(1usize);
    for size in &buffer.shape {
        let length = size.as_constant().and_then(|n| usize::try_from(n).ok());
        count = count.zip(length).and_then(|(c, n)| c.checked_mul(n));
    }
    if count != Some(elements.len()) {
        return fail(place, format!("has {} elements, another number than its shape", elements.len()));
    }
    match elements.iter().find(|e| e.dtype() != buffer.dtype) {
        Some(odd) => fail(place, format!("is {} and has an element of type {}", buffer.dtype, odd.dtype())),
        None => Ok(()),
    }
}

fn known_size(program: &Program, size: &Size) -> bool {
    let mut known = true;
    size.for_each_symbol(&mut |s| known &= program.symbols.get(s).is_some());
    known
}

fn function(program: &Program, f: &Function) -> Result {
    let mut checker = Checker::new(program, format!("function @{}", f.name), &f.values, Code::Function);
    if f.params.len() != f.math.arity() {
        return fail(checker.place, format!("{} has {} parameters", f.math, f.math.arity()));
    }
    for param in &f.params {
        checker.define(None, *param)?;
    }
    let context = Context { stores: Err("a function stores nothing"), within: Within::Other };
    checker.block(None, &f.body, context, &[f.result])
}

fn reducer(program: &Program, r: &Reducer) -> Result {
    let mut checker = Checker::new(program, format!("reducer @{}", r.name), &r.values, Code::Merge);
    if r.identity.is_empty() || r.params.len() != 2 * r.identity.len() || r.results.len() != r.identity.len() {
        let counts = format!("{} identities, {} parameters", r.identity.len(), r.params.len());
        return fail(checker.place, format!("{counts} and {} results are no merge of two states", r.results.len()));
    }
    for (param, dtype) in r.params.iter().zip(r.state().chain(r.state())) {
        checker.define(None, *param)?;
        checker.state_type(None, *param, dtype)?;
    }
    let context = Context { stores: Err("a reducer stores nothing"), within: Within::Other };
    checker.block(None, &r.body, context, &r.results)?;
    r.results.iter().zip(r.state()).try_for_each(|(result, dtype)| checker.state_type(None, *result, dtype))
}

fn kernel(program: &Program, k: &Kernel, sizes: &BTreeSet<&str>) -> Result {
    let mut checker = Checker::new(program, format!("kernel @{}", k.name), &k.values, Code::Kernel(&k.indices));
    let mut names = BTreeSet::new();
    for index in k.indices.values() {
        if sizes.contains(index.name.as_str()) || !names.insert(&index.name) {
            return fail(format!("{}: index {}", checker.place, index.name), "the name is there twice");
        }
    }
    checker.block(None, &k.body, Context { stores: Ok(()), within: Within::Other }, &[])?;
    keyed::apart(k)
}

/// Scratch belongs to one kernel, and to the iterations of one of its outermost loops. Other
/// statements of the kernel, such as hoisted checks, do not mention it.
fn scratch(program: &Program) -> Result {
    let is_scratch = |id: BufferId| program.buffers[id].role == Role::Scratch;
    if !program.buffers.keys().any(is_scratch) {
        return Ok(());
    }
    let mut owners: SecondaryMap<BufferId, Option<KernelId>> = SecondaryMap::new();
    for (id, k) in &program.kernels {
        let of_kernel = |message: String| fail(format!("kernel @{}", k.name), message);
        let mut mentioned = visit::loads(&k.body);
        mentioned.extend(visit::stores(&k.body));
        mentioned.retain(|b| is_scratch(*b));
        let Some(first) = mentioned.first() else { continue };
        for buffer in &mentioned {
            if owners[*buffer].replace(id).is_some_and(|owner| owner != id) {
                return of_kernel(format!("another kernel mentions the scratch %{}", program.buffers[*buffer].name));
            }
        }
        let mentions = |statement: &&Statement| {
            let inside = |block: &Block| visit::loads(block).into_iter().chain(visit::stores(block)).any(is_scratch);
            statement.effects().accesses().any(|access| is_scratch(access.buffer)) || statement.blocks().any(inside)
        };
        let mut around = k.body.iter().filter(mentions);
        if !around.next().is_some_and(Statement::repeats) || around.next().is_some() {
            let name = &program.buffers[*first].name;
            return of_kernel(format!("the scratch %{name} is mentioned outside of one outermost loop"));
        }
    }
    Ok(())
}

/// The statements that are allowed in a place.
#[derive(Clone, Copy)]
struct Context {
    /// Whether it may store, or why not.
    stores: Result<(), &'static str>,
    /// The body that it stands directly in.
    within: Within,
}

/// The body that statements stand directly in.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    /// The body of a scan.
    Scan,
    /// The body of a sort.
    Sort,
    /// Anything else.
    Other,
}

/// The kind of code that is checked.
#[derive(Clone, Copy)]
enum Code<'p> {
    /// A kernel, with its indices.
    Kernel(&'p PrimaryMap<IndexId, Index>),
    /// The merge of a reducer: it computes from two states alone, and may call functions.
    Merge,
    /// A function: it computes from its parameters alone, without calls.
    Function,
}

impl<'p> Code<'p> {
    fn indices(self) -> Option<&'p PrimaryMap<IndexId, Index>> {
        match self {
            Code::Kernel(indices) => Some(indices),
            Code::Merge | Code::Function => None,
        }
    }
}

/// The body of one kernel, reducer or function, and the names visible at the current position.
struct Checker<'p> {
    program: &'p Program,
    place: String,
    values: &'p Values,
    code: Code<'p>,
    defined: Vec<bool>,
    /// For each value, whether it is visible. The stack holds the visible ones in the order of
    /// their definitions.
    visible: Vec<bool>,
    stack: Vec<ValueId>,
    index_bound: Vec<bool>,
    index_visible: Vec<bool>,
    depth: usize,
}

impl<'p> Checker<'p> {
    fn new(program: &'p Program, place: String, values: &'p Values, code: Code<'p>) -> Checker<'p> {
        let flags = vec![false; values.len()];
        let index_flags = vec![false; code.indices().map_or(0, PrimaryMap::len)];
        Checker {
            program,
            place,
            values,
            code,
            defined: flags.clone(),
            visible: flags,
            stack: vec![],
            index_bound: index_flags.clone(),
            index_visible: index_flags,
            depth: 0,
        }
    }

    fn fail<T>(&self, statement: Option<&Statement>, message: impl Into<String>) -> Result<T> {
        let Some(statement) = statement else { return fail(&self.place, message) };
        let none = PrimaryMap::new();
        let line = print::headline(self.program, self.code.indices().unwrap_or(&none), self.values, statement);
        fail(format!("{}: `{line}`", self.place), message)
    }

    fn define(&mut self, statement: Option<&Statement>, value: ValueId) -> Result {
        match self.defined.get_mut(value.index()) {
            None => self.fail(statement, format!("{value} has no type")),
            Some(true) => self.fail(statement, format!("{value} is defined twice")),
            Some(defined) => {
                *defined = true;
                self.visible[value.index()] = true;
                self.stack.push(value);
                Ok(())
            }
        }
    }

    /// Defines a value that must have type `dtype`.
    fn define_as(&mut self, statement: &Statement, value: ValueId, dtype: Dtype) -> Result {
        self.define(Some(statement), value)?;
        match self.values[value] {
            found if found == dtype => Ok(()),
            found => self.fail(Some(statement), format!("{value} is {found}, its definition is {dtype}")),
        }
    }

    /// The type of a value that is visible.
    fn used(&self, statement: Option<&Statement>, value: ValueId) -> Result<Dtype> {
        match self.visible.get(value.index()) {
            Some(true) => Ok(self.values[value]),
            _ => self.fail(statement, format!("{value} is not defined here")),
        }
    }

    fn used_as(&self, statement: &Statement, value: ValueId, dtype: Dtype) -> Result {
        match self.used(Some(statement), value)? {
            found if found == dtype => Ok(()),
            found => self.fail(Some(statement), format!("{value} is {found}, expected {dtype}")),
        }
    }

    /// A block, with `yields` visible at its end. Its definitions are not visible after it.
    fn block(&mut self, holder: Option<&Statement>, block: &Block, context: Context, yields: &[ValueId]) -> Result {
        if self.depth == MAX_DEPTH {
            return self.fail(holder, format!("blocks nest more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let height = self.stack.len();
        for statement in block {
            self.statement(statement, context)?;
        }
        for value in yields {
            self.used(holder, *value)?;
        }
        for value in self.stack.drain(height..) {
            self.visible[value.index()] = false;
        }
        self.depth -= 1;
        Ok(())
    }

    fn statement(&mut self, statement: &Statement, context: Context) -> Result {
        let s = Some(statement);
        if self.code.indices().is_none() && !matches!(statement, Statement::Let { .. } | Statement::If { .. }) {
            return self.fail(s, "a function holds `let` and `if` only");
        }
        match statement {
            Statement::Let { value, op } => {
                let dtype = self.op(statement, op, context)?;
                self.define_as(statement, *value, dtype)
            }
            Statement::Store { buffer, at, value } => {
                if let Err(why) = context.stores {
                    return self.fail(s, why);
                }
                let Some(buffer) = self.program.buffers.get(*buffer) else { return self.fail(s, "no such buffer") };
                if !matches!(buffer.role, Role::Output(_) | Role::Temp | Role::Scratch) {
                    return self.fail(s, "only outputs, temporaries and scratch are stored to");
                }
                self.subscripts(statement, at, buffer.shape.len())?;
                self.used_as(statement, *value, buffer.dtype)
            }
            Statement::Scatter { buffer, at, value, monoid } => {
                if let Err(why) = context.stores {
                    return self.fail(s, why);
                }
                let Some(table) = self.program.buffers.get(*buffer) else { return self.fail(s, "no such buffer") };
                if !matches!(table.role, Role::Output(_) | Role::Temp | Role::Scratch) {
                    return self.fail(s, "only outputs, temporaries and scratch are tables");
                }
                self.subscripts(statement, at, table.shape.len())?;
                self.used_as(statement, *value, table.dtype)?;
                self.merges(statement, Merge::Monoid(*monoid), &[Input::Value(*value)]).map(|_| ())
            }
            Statement::If { condition, then, otherwise, results } => {
                self.used_as(statement, *condition, Dtype::Bool)?;
                let inner = Context { within: Within::Other, ..context };
                self.block(s, then, inner, &results.iter().map(|r| r.1).collect::<Vec<_>>())?;
                self.block(s, otherwise, inner, &results.iter().map(|r| r.2).collect::<Vec<_>>())?;
                for (value, yes, no) in results {
                    if self.values[*yes] != self.values[*no] {
                        return self.fail(s, format!("{yes} and {no} have different types"));
                    }
                    self.define_as(statement, *value, self.values[*yes])?;
                }
                Ok(())
            }
            Statement::Loop(l) => self.loop_(statement, l, context),
            Statement::While(w) => self.while_(statement, w, context),
            Statement::Contract(c) => self.contract(statement, c, context),
        }
    }

    fn loop_(&mut self, statement: &Statement, l: &Loop, context: Context) -> Result {
        let s = Some(statement);
        self.extents(statement, &l.dims)?;
        // One around a reduction by key and the loops behind it may run once.
        let holds_both = || Rows::of(statement).is_some_and(|rows| !rows.behind.is_empty());
        if l.dims.is_empty() && !holds_both() {
            return self.fail(s, "a loop has an index");
        }
        self.bind(statement, &l.dims)?;
        let inner = Context { within: Within::Other, ..context };
        match &l.kind {
            LoopKind::Parallel | LoopKind::Serial => self.block(s, &l.body, inner, &[])?,
            LoopKind::Reduce(reductions) => {
                self.block(s, &l.body, inner, &reductions.iter().flat_map(Reduction::values).collect::<Vec<_>>())?;
                for r in reductions {
                    let depends = self.merges(statement, r.merge, &r.inputs)?;
                    if depends == (r.order == Order::Free) {
                        let not = if depends { "not " } else { "" };
                        let name = self.program.merge_name(r.merge);
                        let over = r.values().next().map_or(Dtype::I64, |v| self.values[v]);
                        return self.fail(s, format!("the order of {name} over {over} is {not}free"));
                    }
                    if r.results.len() != r.inputs.len() {
                        return self.fail(s, format!("{} results of a state of {}", r.results.len(), r.inputs.len()));
                    }
                    for (k, result) in r.results.iter().enumerate() {
                        match field_dtype(self.program, self.values, r.merge, r.inputs.first(), k) {
                            Some(dtype) => self.define_as(statement, *result, dtype)?,
                            None => return self.fail(s, "it mentions what is not there"),
                        }
                    }
                }
            }
            LoopKind::Keyed { keys, row } => {
                self.size(statement, keys)?;
                self.keyed(statement, l, *row)?;
                self.block(s, &l.body, inner, &[])?;
            }
            LoopKind::Sort => {
                self.sort(statement, l)?;
                self.block(s, &l.body, Context { within: Within::Sort, ..context }, &[])?;
            }
            LoopKind::Scan => {
                if l.dims.len() != 1 {
                    return self.fail(s, "a scan has one index");
                }
                let stored: BTreeSet<BufferId> = visit::stores(&l.body).into_iter().collect();
                if let Some(both) = visit::loads(&l.body).into_iter().find(|b| stored.contains(b)) {
                    let name = self.program.buffers.get(both).map_or("", |b| &b.name);
                    return self.fail(s, format!("a scan loads from %{name}, to which it stores"));
                }
                self.block(s, &l.body, Context { within: Within::Scan, ..context }, &[])?;
            }
        }
        self.unbind(&l.dims);
        Ok(())
    }

    fn while_(&mut self, statement: &Statement, w: &While, context: Context) -> Result {
        let s = Some(statement);
        let dims = std::slice::from_ref(&w.counter);
        self.extents(statement, dims)?;
        for state in &w.state {
            self.used(s, state.first)?;
        }
        self.bind(statement, dims)?;
        let height = self.stack.len();
        for state in &w.state {
            self.define_as(statement, state.current, self.values[state.first])?;
        }
        let mut inner = Context { within: Within::Other, ..context };
        if let Some(condition) = &w.condition {
            inner.stores = Err("a `while` with a condition stores nothing");
            self.block(s, &condition.body, inner, &[condition.value])?;
            if self.values[condition.value] != Dtype::Bool {
                return self.fail(s, format!("{} is {}, expected bool", condition.value, self.values[condition.value]));
            }
        }
        self.block(s, &w.body, inner, &w.state.iter().map(|state| state.next).collect::<Vec<_>>())?;
        for value in self.stack.drain(height..) {
            self.visible[value.index()] = false;
        }
        self.unbind(dims);
        for state in &w.state {
            let dtype = self.values[state.first];
            if self.values[state.next] != dtype {
                return self.fail(s, format!("{} and {} have different types", state.first, state.next));
            }
            self.define_as(statement, state.result, dtype)?;
        }
        Ok(())
    }

    fn contract(&mut self, statement: &Statement, c: &Contraction, context: Context) -> Result {
        let s = Some(statement);
        self.extents(statement, &c.free)?;
        self.extents(statement, &c.reduce)?;
        if c.reduce.is_empty() {
            return self.fail(s, "a contraction sums over an index");
        }
        self.bind(statement, &c.free)?;
        self.bind(statement, &c.reduce)?;
        let prologue = Context { stores: Err("a prologue stores nothing"), within: Within::Other };
        for side in [&c.left, &c.right] {
            self.block(s, &side.body, prologue, &[side.value])?;
        }
        self.unbind(&c.reduce);
        let dtype = self.values[c.left.value];
        if self.values[c.right.value] != dtype {
            return self.fail(s, "the factors have different types");
        }
        self.contracts(statement, c.left.value)?;
        // The sum is visible in the epilogue alone.
        let height = self.stack.len();
        self.define_as(statement, c.result, dtype)?;
        self.block(s, &c.epilogue, Context { within: Within::Other, ..context }, &[])?;
        for value in self.stack.drain(height..) {
            self.visible[value.index()] = false;
        }
        self.unbind(&c.free);
        if visit::stores(&c.epilogue).is_empty() { self.fail(s, "the epilogue stores nothing") } else { Ok(()) }
    }

    /// Extents see what is outside of the loop.
    fn extents(&self, statement: &Statement, dims: &[(IndexId, Extent)]) -> Result {
        dims.iter().try_for_each(|(_, extent)| match extent {
            Extent::Affine(a) => self.affine(statement, a),
            Extent::Value(v) => self.used_as(statement, *v, Dtype::I64),
        })
    }

    fn bind(&mut self, statement: &Statement, dims: &[(IndexId, Extent)]) -> Result {
        for (index, _) in dims {
            match self.index_bound.get_mut(index.index()) {
                None => return self.fail(Some(statement), format!("there is no index {index}")),
                Some(true) => return self.fail(Some(statement), "binds an index that is bound elsewhere"),
                Some(bound) => *bound = true,
            }
            self.index_visible[index.index()] = true;
        }
        Ok(())
    }

    fn unbind(&mut self, dims: &[(IndexId, Extent)]) {
        dims.iter().for_each(|(index, _)| self.index_visible[index.index()] = false);
    }

    fn affine(&self, statement: &Statement, a: &Affine<IndexId>) -> Result {
        for (index, coefficient) in a.terms() {
            if self.index_visible.get(index.index()) != Some(&true) {
                let name = self
                    .code
                    .indices()
                    .and_then(|i| i.get(*index))
                    .map_or_else(|| index.to_string(), |i| i.name.clone());
                return self.fail(Some(statement), format!("index {name} is not bound here"));
            }
            self.size(statement, coefficient)?;
        }
        self.size(statement, a.constant_part())
    }

    fn size(&self, statement: &Statement, size: &Size) -> Result {
        if known_size(self.program, size) { Ok(()) } else { self.fail(Some(statement), "a size name is not there") }
    }
}
