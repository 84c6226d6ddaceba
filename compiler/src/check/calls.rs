//! How functions call one another: counted before any call is inlined, so that a program whose calls multiply is refused at
//! once, and followed while they are inlined, so that an error can say which calls led to it.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::{PrimaryMap, entity_impl};
use grammar::Diagnostic;
use grammar::ast::{ExprId, ExprKind, File, Function, Results, Span, Target, Type};

use super::{Checker, codes};

/// Calls in one another beyond which the checker refuses.
pub const MAX_CALL_DEPTH: usize = 1000;
/// Calls of a function, those of the functions that it calls included, beyond which the checker refuses; so many may all functions of a file
/// have together.
pub const MAX_CALLS: u64 = 1_000_000;

/// The calls of each function of a file.
pub(super) struct CallGraph {
    functions: Vec<Node>,
}

/// The calls of a function.
#[derive(Clone, Default)]
struct Node {
    /// The functions that it calls, as often as it does.
    callees: Vec<usize>,
    /// How many calls there are when all are inlined.
    inlined: u64,
    /// Whether it is called by what it calls.
    recursive: bool,
}

impl CallGraph {
    /// Counts the calls of a file's functions, which have these names.
    pub fn new(file: &File, names: &BTreeMap<&str, usize>) -> CallGraph {
        let node = |function| Node { callees: callees(file, function, names), ..Node::default() };
        let mut graph = CallGraph { functions: file.functions.iter().map(node).collect() };
        graph.count();
        graph
    }

    /// How many calls a function has when all are inlined.
    pub fn inlined(&self, function: usize) -> u64 {
        self.functions[function].inlined
    }

    /// Whether a function is called by what it calls.
    pub fn is_recursive(&self, function: usize) -> bool {
        self.functions[function].recursive
    }

    /// Counts callees before callers. On the way a call of a function that is not counted yet closes a cycle.
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
            // The functions that are open, each with the number of the callee that comes next.
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
                        path.pop();
                    }
                }
            }
        }
    }
}

/// The functions of the file that a function calls, each as often as it is written.
fn callees(file: &File, function: &Function, names: &BTreeMap<&str, usize>) -> Vec<usize> {
    let mut pending: Vec<ExprId> = vec![function.result];
    let results: &[(_, Type)] = match &function.results {
        Some(Results::Tuple(types)) => types,
        _ => &[],
    };
    let types = function.params.iter().map(|param| &param.ty).chain(results.iter().map(|(_, ty)| ty));
    let one = if let Some(Results::One(ty)) = &function.results { Some(ty) } else { None };
    pending.extend(types.chain(one).flat_map(|ty| &ty.shape));
    for statement in &function.lets {
        pending.push(statement.value);
        if let Target::Indexed { binders, .. } = &statement.target {
            pending.extend(binders.iter().filter_map(|binder| Some(binder.bound?.limit)));
        }
    }
    let mut found = vec![];
    while let Some(id) = pending.pop() {
        let kind = &file.exprs[id].kind;
        kind.for_each_operand(|operand| pending.push(operand));
        if let ExprKind::Call { callee, .. } = kind {
            found.extend(names.get(callee.text.as_str()));
        }
    }
    found
}

/// A call that is being inlined, or was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId(u32);
entity_impl!(CallId, "call");

/// A function in the place of a call.
struct Call {
    function: usize,
    /// Where the call stands; none of the function that is checked.
    at: Option<Span>,
    /// The call in whose function it stands.
    caller: Option<CallId>,
}

/// The calls that have been inlined so far, and the one that is being inlined.
#[derive(Default)]
pub(super) struct Calls {
    all: PrimaryMap<CallId, Call>,
    current: Option<CallId>,
    /// The functions that are being inlined.
    open: BTreeSet<usize>,
}

impl Calls {
    /// The call that is being inlined; none outside of any function.
    pub fn current(&self) -> Option<CallId> {
        self.current
    }

    /// Looks from another call, and gives the one that was looked from.
    pub fn look_from(&mut self, call: Option<CallId>) -> Option<CallId> {
        std::mem::replace(&mut self.current, call)
    }

    /// Whether a call is the function that is checked, and none that it calls.
    pub fn is_outermost(&self, call: Option<CallId>) -> bool {
        call.is_none_or(|call| self.all[call].caller.is_none())
    }

    /// Whether a function is being inlined, and the innermost of those.
    pub fn is_open(&self, function: usize) -> Option<bool> {
        let innermost = self.current.is_some_and(|call| self.all[call].function == function);
        self.open.contains(&function).then_some(innermost)
    }

    /// Functions in one another, the one that is checked among them.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Begins to inline a function.
    pub fn push(&mut self, function: usize, at: Option<Span>) {
        self.current = Some(self.all.push(Call { function, at, caller: self.current }));
        self.open.insert(function);
    }

    /// Ends the function that is being inlined.
    pub fn pop(&mut self) {
        if let Some(call) = self.current {
            self.open.remove(&self.all[call].function);
            self.current = self.all[call].caller;
        }
    }

    /// The calls that led here, the innermost first: the function of each and where it is called.
    fn trace(&self) -> impl Iterator<Item = (usize, Span)> {
        let outer = |call: &CallId| self.all[*call].caller;
        let calls = std::iter::successors(self.current, outer).map(|call| &self.all[call]);
        calls.filter_map(|call| Some((call.function, call.at?)))
    }
}

impl Checker<'_> {
    /// An error with the calls that led to it.
    pub(super) fn traced(&self, mut error: Diagnostic) -> Diagnostic {
        for (function, at) in self.calls.trace().take(3) {
            error = error.label(at, format!("in this call of `{}`", self.file.functions[function].name.text));
        }
        error
    }

    /// Reports that a function has more calls than the stated limit; whether it has.
    pub(super) fn too_many_calls(&mut self, function: usize) -> bool {
        let many = self.graph.inlined(function) > MAX_CALLS;
        if many {
            let name = &self.file.functions[function].name;
            let message =
                format!("`{}` has more than {MAX_CALLS} calls when those in functions that it calls count", name.text);
            let help = "each call is inlined: call less often, with arrays instead of many calls";
            self.error(Diagnostic::new(codes::TOO_LARGE, name.span, message).help(help));
        }
        many
    }

    /// Reports a call of a function that is being inlined, or deeper in other calls than the stated limit.
    pub(super) fn expect_inlinable(&mut self, function: usize, span: Span) -> Option<()> {
        let name = &self.file.functions[function].name.text;
        let deep = self.calls.depth() > MAX_CALL_DEPTH;
        let message = match self.calls.is_open(function) {
            Some(true) => format!("`{name}` calls itself"),
            Some(false) => format!("`{name}` calls itself through other functions"),
            None if deep && self.graph.is_recursive(function) => {
                format!("`{name}` calls itself through other functions")
            }
            None if deep => {
                let message = format!("calls are more than {MAX_CALL_DEPTH} deep in one another here");
                self.error(Diagnostic::new(codes::TOO_LARGE, span, message));
                return None;
            }
            None => return Some(()),
        };
        let help = "there is no recursion: every program is a set of loop nests";
        self.error(Diagnostic::new(codes::RECURSION, span, message).help(help));
        None
    }
}
