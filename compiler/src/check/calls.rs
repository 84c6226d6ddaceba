//! The calls between functions: counted before any call is inlined, so that a program with
//! multiplying calls is rejected at once, and tracked while they are inlined, so that an error can
//! show the calls that led to it.

use std::collections::BTreeSet;

use cranelift_entity::{PrimaryMap, entity_impl};
use grammar::Diagnostic;
use grammar::ast::{Binder, ExprId, ExprKind, File, Function, Results, Span, Type};
use ir::Dtype;

use super::modules::{Meaning, Modules};
use super::{Checker, codes};

/// The maximum depth of nested calls.
pub const MAX_CALL_DEPTH: usize = 1000;
/// The maximum number of calls of a function, including those of the functions that it calls, and
/// of all functions of a file together.
pub const MAX_CALLS: u64 = 1_000_000;

/// The call graph of a program.
pub(super) struct CallGraph {
    functions: Vec<Node>,
    /// All functions, callees before callers but for those that call themselves.
    callees_first: Vec<usize>,
}

/// A function of the call graph.
#[derive(Clone, Default)]
struct Node {
    /// The functions that it calls, once for each call site.
    callees: Vec<usize>,
    /// The number of calls when all are inlined.
    inlined: u64,
    /// Whether it calls itself, directly or through other functions.
    recursive: bool,
}

impl CallGraph {
    /// Builds the call graph of a program with these files.
    pub fn new(file: &File, modules: &Modules<'_>) -> CallGraph {
        let node = |function| Node { callees: callees(file, function, modules), ..Node::default() };
        let mut graph = CallGraph { functions: file.functions.iter().map(node).collect(), callees_first: vec![] };
        graph.count();
        graph
    }

    /// The functions that a function calls itself, once for each call site.
    pub fn callees(&self, function: usize) -> &[usize] {
        &self.functions[function].callees
    }

    /// All functions, callees before callers but for those that call themselves.
    pub fn callees_first(&self) -> &[usize] {
        &self.callees_first
    }

    /// The number of calls in a function when all are inlined.
    pub fn inlined(&self, function: usize) -> u64 {
        self.functions[function].inlined
    }

    /// Whether a function calls itself, directly or through other functions.
    pub fn is_recursive(&self, function: usize) -> bool {
        self.functions[function].recursive
    }

    /// Counts callees before callers, depth first. A call to a function on the current path closes
    /// a cycle.
    fn count(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.functions.len()];
        for root in 0..self.functions.len() {
            if states[root] != State::New {
                continue;
            }
            states[root] = State::Open;
            // The functions on the current path, each with the number of its next callee.
            let mut path = vec![(root, 0)];
            while let Some((function, next)) = path.last_mut() {
                let (function, at) = (*function, *next);
                *next += 1;
                match self.functions[function].callees.get(at).copied() {
                    Some(callee) if states[callee] == State::New => {
                        states[callee] = State::Open;
                        path.push((callee, 0));
                    }
                    Some(callee) if states[callee] == State::Open => {
                        let cycle = path.iter().rev().map(|(open, _)| *open);
                        let mut inside = true;
                        for open in cycle.take_while(|open| std::mem::replace(&mut inside, *open != callee)) {
                            self.functions[open].recursive = true;
                        }
                    }
                    Some(_) => {}
                    None => {
                        let callees = self.functions[function].callees.iter();
                        let calls = callees.map(|callee| self.functions[*callee].inlined.saturating_add(1));
                        self.functions[function].inlined = calls.fold(0, u64::saturating_add);
                        states[function] = State::Done;
                        self.callees_first.push(function);
                        path.pop();
                    }
                }
            }
        }
    }
}

/// The functions of the program that a function calls, once for each call site.
fn callees(file: &File, function: &Function, modules: &Modules<'_>) -> Vec<usize> {
    let mut pending: Vec<ExprId> = vec![function.result];
    pending.extend(function.condition);
    let results: &[(_, Type)] = match &function.results {
        Some(Results::Tuple(types)) => types,
        _ => &[],
    };
    let types = function.params.iter().map(|param| &param.ty).chain(results.iter().map(|(_, ty)| ty));
    let one = if let Some(Results::One(ty)) = &function.results { Some(ty) } else { None };
    pending.extend(types.chain(one).flat_map(|ty| &ty.shape));
    for statement in &function.lets {
        pending.extend(statement.values());
        pending.extend(statement.binders().into_iter().flat_map(Binder::bounds).map(|bound| bound.limit));
    }
    let mut found = vec![];
    while let Some(id) = pending.pop() {
        let kind = &file.exprs[id].kind;
        kind.for_each_operand(|operand| pending.push(operand));
        if let ExprKind::Call { callee, .. } = kind {
            found.extend(match modules.find(function.module, &callee.text) {
                Meaning::Function(callee) => Some(callee),
                Meaning::Nothing | Meaning::Clash(_) => None,
            });
        }
    }
    found
}

/// A call that is being inlined, or has been.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId(u32);
entity_impl!(CallId, "call");

/// A function in place of a call.
struct Call<'a> {
    function: usize,
    /// The name of the function.
    name: &'a str,
    /// The call site; `None` for the function being checked.
    at: Option<Span>,
    /// The call of the function that contains the call site.
    caller: Option<CallId>,
    /// The type that `float` is in it, if the function has a parameter of it.
    float: Option<Dtype>,
}

/// All calls inlined so far, and the current one.
pub(super) struct Calls<'a> {
    all: PrimaryMap<CallId, Call<'a>>,
    current: CallId,
    /// The functions being inlined.
    open: BTreeSet<usize>,
}

impl<'a> Calls<'a> {
    /// No calls yet, of a function that is checked.
    pub fn new(function: usize, name: &'a str, float: Option<Dtype>) -> Calls<'a> {
        let mut all = PrimaryMap::new();
        let current = all.push(Call { function, name, at: None, caller: None, float });
        Calls { all, current, open: BTreeSet::from([function]) }
    }

    /// The call being inlined.
    pub fn current(&self) -> CallId {
        self.current
    }

    /// The function being inlined.
    pub fn function(&self) -> usize {
        self.all[self.current].function
    }

    /// The type that `float` is in the function being inlined, if it has a parameter of it.
    pub fn float(&self) -> Option<Dtype> {
        self.all[self.current].float
    }

    /// The function that is checked, as if it were called from outside.
    pub fn outermost(&self) -> Option<usize> {
        self.all.values().next().map(|call| call.function)
    }

    /// Whether a call stands for the function being checked itself.
    pub fn is_outermost(&self, call: CallId) -> bool {
        self.all[call].caller.is_none()
    }

    /// If a function is being inlined, whether it is the innermost.
    pub fn is_open(&self, function: usize) -> Option<bool> {
        let innermost = self.all[self.current].function == function;
        self.open.contains(&function).then_some(innermost)
    }

    /// The nesting depth, including the function being checked.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Begins to inline a function.
    pub fn push(&mut self, function: usize, name: &'a str, at: Span, float: Option<Dtype>) {
        self.current = self.all.push(Call { function, name, at: Some(at), caller: Some(self.current), float });
        self.open.insert(function);
    }

    /// Ends the innermost function.
    pub fn pop(&mut self) {
        let Call { function, caller, .. } = self.all[self.current];
        if let Some(caller) = caller {
            self.open.remove(&function);
            self.current = caller;
        }
    }

    /// The calls that led to one, innermost first: the name of each function and its call site.
    pub fn trace(&self, call: CallId) -> impl Iterator<Item = (&'a str, Span)> {
        let outer = |call: &CallId| self.all[*call].caller;
        let calls = std::iter::successors(Some(call), outer).map(|call| &self.all[call]);
        calls.filter_map(|call| Some((call.name, call.at?)))
    }
}

impl Checker<'_> {
    /// Reports a function with more than [`MAX_CALLS`] calls; returns whether it has.
    pub(super) fn too_many_calls(&mut self, function: usize) -> bool {
        let many = self.source.graph.inlined(function) > MAX_CALLS;
        if many {
            let name = &self.source.file.functions[function].name;
            let message =
                format!("`{}` has more than {MAX_CALLS} calls when those in functions that it calls count", name.text);
            let help = "each call is inlined: call less often, with arrays instead of many calls";
            self.report.error(Diagnostic::new(codes::TOO_LARGE, name.span, message).help(help));
        }
        many
    }

    /// Reports a recursive call, or one nested deeper than [`MAX_CALL_DEPTH`].
    pub(super) fn expect_inlinable(&mut self, function: usize, span: Span) -> Option<()> {
        let name = &self.source.file.functions[function].name.text;
        let deep = self.report.calls.depth() > MAX_CALL_DEPTH;
        let message = match self.report.calls.is_open(function) {
            Some(true) => format!("`{name}` calls itself"),
            Some(false) => format!("`{name}` calls itself through other functions"),
            None if deep && self.source.graph.is_recursive(function) => {
                format!("`{name}` calls itself through other functions")
            }
            None if deep => {
                let message = format!("calls are more than {MAX_CALL_DEPTH} deep in one another here");
                self.report.error(Diagnostic::new(codes::TOO_LARGE, span, message));
                return None;
            }
            None => return Some(()),
        };
        let help = "there is no recursion: every program is a set of loop nests";
        self.report.error(Diagnostic::new(codes::RECURSION, span, message).help(help));
        None
    }
}
