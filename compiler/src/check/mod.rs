//! The checker: names, types, shapes, bounds and proofs. It turns one function of a syntax tree, with every
//! call inlined, into a [`Checked`] program.
//!
//! | file | settles |
//! |---|---|
//! | `calls` | the call graph: calls counted before they are inlined, and tracked while they are |
//! | `function` | parameters, size names, calls (inlined at each place, lifted where a scalar meets an array), results |
//! | `expr` | one expression: operators, `if`, casts |
//! | `literal` | numbers, named constants and array literals, in the type of their context |
//! | `lift` | scalar operations over arrays: broadcasting, equal sizes |
//! | `builtin` | the functions of the language, as a table |
//! | `foreign` | what other languages call things |
//! | `index` | index notation: binders, where each index ends |
//! | `reduce` | reducers, prefixes, contractions |
//! | `position` | `argmax` and `argmin`: that there is an element, and its number |
//! | `access` | subscripts, slices, gathers |
//! | `bounds` | that every access is inside: proved, required of the call, or checked as the program runs |
//! | `facts` | what is known where an access stands |
//! | `prove` | linear integer inequalities |
//! | `finish` | what is a contraction, which branches of `if` protect an access |
//! | `scope` | what names stand for |
//! | `node` | making nodes of the checked program, with their free indices and affine forms |
//! | `signature` | a checked function's types as text |

mod access;
mod bounds;
mod builtin;
mod calls;
pub mod codes;
mod expr;
mod facts;
mod finish;
mod foreign;
mod function;
mod index;
mod lift;
mod literal;
mod node;
mod position;
mod prove;
mod random;
mod reduce;
mod scope;
mod signature;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use cranelift_entity::{PrimaryMap, SecondaryMap};
use grammar::ast::{self, File, Span};
use grammar::{Diagnostic, MAX_ERRORS};
use ir::checked::{Checked, ExprId, GuardId, IndexId};
use ir::nest::{Purpose, Relation, Requirement};
use ir::sabotage::{self, Bug};
use ir::{Origin, Size, SymbolId};

pub use builtin::{names, scalar_functions};
use calls::CallGraph;
pub use calls::{MAX_CALL_DEPTH, MAX_CALLS};
pub use facts::MAX_SCALAR;
pub use signature::{Signature, Slot};

/// Expressions of a checked function, every call inlined, beyond which the checker refuses; so many may all functions
/// of a file have together.
pub const MAX_EXPRS: usize = 1_000_000;
/// Axes that an array may have.
pub const MAX_RANK: usize = 16;

/// Checks one function of a file, and all that it calls.
pub fn check(file: &File, entry: &str) -> Result<Checked, Vec<Diagnostic>> {
    let mut errors = vec![];
    let functions = functions(file, &mut errors);
    let graph = CallGraph::new(file, &functions);
    match functions.get(entry) {
        Some(function) => {
            let checked = Checker::new(file, &functions, &graph).entry(*function);
            merge(&mut errors, checked).filter(|_| errors.is_empty()).ok_or(errors)
        }
        None => {
            let known: Vec<_> = functions.keys().map(|n| format!("`{n}`")).collect();
            let error = Diagnostic::new(codes::NO_FUNCTION, Span::default(), format!("there is no function `{entry}`"));
            errors.push(match known.is_empty() {
                true => error.help("the file has no function: write one, such as `fn main(x: f32[n]) = x * 2`"),
                false => error.help(format!("the file has {}", known.join(", "))),
            });
            Err(errors)
        }
    }
}

/// Checks every function of a file, each as it would be called from outside. All independent errors are reported.
pub fn check_all(file: &File) -> Result<Vec<Checked>, Vec<Diagnostic>> {
    let mut errors = vec![];
    let functions = functions(file, &mut errors);
    let mut all = vec![];
    let graph = CallGraph::new(file, &functions);
    let (mut exprs, mut calls) = (0, 0u64);
    for (k, function) in file.functions.iter().enumerate() {
        calls = calls.saturating_add(graph.inlined(k));
        let alone = graph.inlined(k) > MAX_CALLS;
        let checked = match calls > MAX_CALLS && !alone {
            true => None,
            false => merge(&mut errors, Checker::new(file, &functions, &graph).entry(k)),
        };
        exprs += checked.as_ref().map_or(0, |c| c.exprs.len());
        all.extend(checked);
        let many = match (exprs > MAX_EXPRS, calls > MAX_CALLS && !alone) {
            (true, _) => Some(format!("{MAX_EXPRS} operations")),
            (_, true) => Some(format!("{MAX_CALLS} calls")),
            _ => None,
        };
        if let Some(many) = many {
            let message = format!("the functions have more than {many} when their calls are inlined");
            errors.push(Diagnostic::new(codes::TOO_LARGE, function.name.span, message));
        }
        // What follows would take as long again, or is more than anybody reads.
        if errors.len() >= MAX_ERRORS || errors.iter().any(|e| e.code == codes::TOO_LARGE) {
            break;
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// Adds errors that are not there yet: a fault in a function shows once, however many call it.
fn merge<T>(errors: &mut Vec<Diagnostic>, result: Result<T, Vec<Diagnostic>>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(new) => {
            for error in new {
                if !errors.iter().any(|e| e.code == error.code && e.labels[0].span == error.labels[0].span) {
                    errors.push(error);
                }
            }
            None
        }
    }
}

fn functions<'a>(file: &'a File, errors: &mut Vec<Diagnostic>) -> BTreeMap<&'a str, usize> {
    let mut functions = BTreeMap::new();
    for (k, function) in file.functions.iter().enumerate() {
        if let Some(first) = functions.get(function.name.text.as_str()) {
            let first: &ast::Function = &file.functions[*first];
            let message = format!("the function `{}` is defined twice", function.name.text);
            errors.push(
                Diagnostic::new(codes::DUPLICATE_NAME, function.name.span, message)
                    .here("again here")
                    .label(first.name.span, "first here"),
            );
        } else {
            functions.insert(function.name.text.as_str(), k);
        }
    }
    functions
}

/// What a name stands for.
#[derive(Clone)]
enum Binding {
    /// A parameter, a `let` or an index.
    Value(ExprId),
    /// A size name.
    Size(Size),
    /// Something whose error is reported already.
    Broken,
}

/// A branch of an `if`, while its body is checked.
#[derive(Clone, Default)]
struct Branch {
    /// The condition and whether it holds here; `None` if it is an array and says nothing of a single access.
    condition: Option<(ExprId, bool)>,
    /// Whether an access holds only here.
    needed: bool,
    /// Whether it is the right side of `&&` or `||`.
    operator: bool,
    /// Whether it is evaluated whatever the condition: the right side of `&&` over arrays.
    eager: bool,
}

/// What the checker remembers of a node beside the node.
#[derive(Clone, Default)]
struct Meta {
    /// Indices that it mentions and does not bind, ascending.
    free: Vec<IndexId>,
    /// Its value as an affine expression, if it is an `i64` scalar that is one.
    affine: Option<ir::Affine<IndexId>>,
}

/// One function being checked.
struct Checker<'a> {
    file: &'a File,
    functions: &'a BTreeMap<&'a str, usize>,
    out: Checked,
    meta: PrimaryMap<ExprId, Meta>,
    /// The symbols of integer scalar parameters, by parameter number.
    scalars: BTreeMap<usize, SymbolId>,
    /// Names in scope, the innermost last; those of callers are put away in `function`.
    scope: scope::Scope,
    /// The calls of every function of the file.
    graph: &'a CallGraph,
    /// The functions being inlined, each with its call.
    calls: calls::Calls,
    guard: GuardId,
    branches: SecondaryMap<GuardId, Branch>,
    /// Indices whose binder is open, the outermost first.
    binders: Vec<IndexId>,
    /// Indices whose end is not known yet.
    unsolved: BTreeSet<IndexId>,
    /// Indices whose error is reported already.
    poisoned: BTreeSet<IndexId>,
    /// What the call is required to meet so far, for proofs.
    requirements: facts::Requirements,
    /// How many rows proofs have combined.
    combined: Cell<usize>,
    /// Of the indices that were last asked about: how much was required of the call then, and whether they never have values.
    void: (Vec<IndexId>, usize, bool),
    /// What the conditions around branches say, of those that were asked for.
    conditions: BTreeMap<GuardId, facts::Known>,
    records: Vec<bounds::Record>,
    /// Which of the records may say where an index ends.
    mentioned: SecondaryMap<IndexId, Vec<usize>>,
    /// `&&` and `||` as `if`s, each with the branch of its right side: see `expr::short_circuit`.
    short_circuits: Vec<(ExprId, GuardId)>,
    /// Places of greatest and least elements, with their checks.
    positions: Vec<position::Position>,
    /// Indices that must have a value.
    wanted: Vec<position::Wanted>,
    /// Reductions that are contractions if all their extents turn out rectangular.
    contractions: Vec<ExprId>,
    /// The array that index notation is making.
    making: Option<&'a str>,
    errors: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn new(file: &'a File, functions: &'a BTreeMap<&'a str, usize>, graph: &'a CallGraph) -> Checker<'a> {
        let mut out = Checked::default();
        out.guards.push(Checked::TOP);
        Checker {
            file,
            functions,
            out,
            meta: PrimaryMap::new(),
            scalars: BTreeMap::new(),
            scope: scope::Scope::default(),
            requirements: facts::Requirements::default(),
            combined: Cell::default(),
            void: Default::default(),
            conditions: BTreeMap::new(),
            graph,
            calls: calls::Calls::default(),
            guard: Checked::TOP,
            branches: SecondaryMap::new(),
            binders: vec![],
            unsolved: BTreeSet::new(),
            poisoned: BTreeSet::new(),
            records: vec![],
            mentioned: SecondaryMap::new(),
            short_circuits: vec![],
            positions: vec![],
            wanted: vec![],
            contractions: vec![],
            making: None,
            errors: vec![],
        }
    }

    /// Whether there are as many errors as anybody reads.
    fn full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Reports an error, with the calls that led to it.
    fn error(&mut self, error: Diagnostic) {
        if self.full() {
            return;
        }
        let error = self.traced(error);
        if !self.errors.iter().any(|e| e.code == error.code && e.labels[0].span == error.labels[0].span) {
            self.errors.push(error);
        }
    }

    fn lookup(&self, name: &str) -> Option<&Binding> {
        self.scope.get(name)
    }

    fn ast(&self, id: ast::ExprId) -> &'a ast::Expr {
        &self.file.exprs[id]
    }

    /// A size as the user would write it.
    fn show(&self, size: &Size) -> String {
        size.display(&|s| self.out.symbols[s].name.as_str()).to_string()
    }

    /// An expression in a few words: its name if it has one.
    fn describe(&self, id: ExprId) -> String {
        match (&self.out.exprs[id].name, &self.out.exprs[id].kind) {
            (Some(name), _) => format!("`{name}`"),
            (None, ir::checked::Kind::Param(k)) => format!("`{}`", self.out.params[*k].name),
            _ if self.out.exprs[id].ty.is_scalar() => "this value".to_string(),
            _ => "this array".to_string(),
        }
    }

    /// Notes a condition on sizes, unless it is there already or holds by itself.
    fn require(&mut self, requirement: Requirement) {
        if self.requirements.insert(&requirement) {
            self.out.requires.push(requirement);
        }
    }

    /// The one size that two sizes must be: decided here, or required of the call.
    fn unify(&mut self, left: (&Size, String), right: (&Size, String), span: Span) -> Option<Size> {
        let ((left, left_is), (right, right_is)) = (left, right);
        let difference = left - right;
        match difference.as_constant() {
            Some(0) => return Some(left.clone()),
            Some(_) => {
                let (l, r) = (self.show(left), self.show(right));
                let message = format!("sizes differ: {left_is} is {l}, {right_is} is {r}");
                self.error(Diagnostic::new(codes::SIZE_MISMATCH, span, message));
                return None;
            }
            None if sabotage::on(Bug::LengthsUnasked) => return Some(left.clone()),
            None => {}
        }
        self.require(Requirement {
            left: left.clone(),
            relation: Relation::Equal,
            right: right.clone(),
            unless_empty: vec![],
            left_is,
            right_is,
            purpose: Purpose::Lengths,
            origin: origin(span),
        });
        let simple = |s: &Size| s.as_constant().is_some() || s.as_symbol().is_some();
        Some(if simple(right) && !simple(left) { right.clone() } else { left.clone() })
    }
}

/// `1 axis`, `2 axes`
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn origin(span: Span) -> Origin {
    Origin { start: span.start, end: span.end }
}
