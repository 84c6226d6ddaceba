//! The checker: names, types, shapes, bounds and proofs. It turns one function of a syntax tree,
//! with every call inlined, into a [`Checked`] program.
//!
//! A `Checker` walks over the function and the functions that it calls. Each type below owns its
//! own state; the walk owns one of each. Whatever depends on the place in the walk is passed down:
//! the branch of `if` that a node stands in, and its source (`arena::Here`).
//!
//! | type | file | owns | used by |
//! |---|---|---|---|
//! | `Source` | `mod` | the program, the functions of its files, the call graph | the walk |
//! | `Arena` | `arena` | nodes, indices, branches of `if`, and notes on them | all |
//! | `Scope` | `scope` | names, and the names of the callers | the walk |
//! | `Requirements` | `requirements` | the conditions on the sizes of a call | all |
//! | `Facts` | `facts`, `ranges` | nothing: a view of arena and requirements that proves | all |
//! | `Report` | `report` | errors, and the calls that led to each | all |
//! | `Accesses` | `bounds` | subscripts to settle | walk, `Settler` |
//! | `Settler` | `bounds` | nothing but caches; runs after the walk | `check_function` |
//! | `Unfinished` | `finish` | nodes to finish; runs last | walk, `check_function` |
//!
//! | file | settles |
//! |---|---|
//! | `modules` | which function a name means in each file of the program |
//! | `calls` | the call graph, counted before any call is inlined; the calls being inlined |
//! | `function` | parameters, size names, calls (inlined, lifted over arrays), results |
//! | `generic` | `float`, which is `f32` or `f64` as a call decides |
//! | `solve` | sizes that the lengths of parameters are solved for |
//! | `equal` | equations of sizes |
//! | `stated` | the conditions that signatures state |
//! | `expr` | one expression: operators, `if`, casts |
//! | `literal` | numbers, named constants and array literals, in the type of their context |
//! | `untyped` | `let`s of literal expressions, which have no type until they are used |
//! | `warnings` | the parts of a program without errors that are probably not meant |
//! | `origins` | where a value got a type that does not fit
//! | `lift` | scalar operations over arrays: broadcasting, equal sizes |
//! | `builtin` | the functions of the language, as a table |
//! | `derived` | `var`, `std`, `norm` and `diff`, as a table |
//! | `derive` | `grad`: derivatives, written out |
//! | `random` | the random functions |
//! | `other_languages` | names from other languages, for hints |
//! | `loops` | loops: the types of their states |
//! | `index` | index notation: binders, where each index ends |
//! | `recurrence` | recurrences: the types of their arrays |
//! | `earlier` | the order in which the elements of recurrences are computed |
//! | `reducers` | the reducers of the language, as a table |
//! | `reduce` | calls of reducers, prefixes, contractions |
//! | `suffix` | reducers that are scans from the end |
//! | `position` | `argmax` and `argmin`: that there is an element, and its number |
//! | `access` | subscripts, slices, gathers |
//! | `bounds` | that every access is inside: proved, required of the call, or checked at run time |
//! | `facts` | the facts that hold where an access stands |
//! | `alike` | which nodes have one value |
//! | `sound` | which functions of an edited text are known to be without errors |
//! | `ranges` | how far sizes and indices reach, and which cannot wrap |
//! | `prove` | linear integer inequalities |
//! | `finish` | which sums are contractions, which branches protect an access |
//! | `signature` | a checked function's types as text |

mod access;
mod alike;
mod arena;
mod bitcast;
mod bounds;
mod builtin;
mod calls;
pub mod codes;
mod derive;
mod derived;
mod earlier;
mod equal;
mod expr;
mod facts;
mod finish;
mod function;
mod generic;
mod index;
mod keys;
mod lift;
mod literal;
mod loops;
mod modules;
mod origins;
mod other_languages;
mod position;
mod prove;
pub(crate) mod random;
mod ranges;
mod recurrence;
mod reduce;
mod reducers;
mod report;
mod requirements;
mod scope;
mod signature;
mod solve;
mod sorts;
mod sound;
mod stated;
mod suffix;
mod untyped;
pub mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use grammar::ast::{self, File, ModuleId, Span};
use grammar::{Diagnostic, MAX_ERRORS};
use ir::checked::{Checked, ExprId, LoopId};
use ir::{Dtype, Origin};

use arena::Arena;
use bounds::{Accesses, Settler};
pub use builtin::{names, nearest, scalar_functions};
use calls::{CallGraph, Calls};
pub use calls::{MAX_CALL_DEPTH, MAX_CALLS};
use equal::Side;
use facts::Facts;
use finish::Unfinished;
use modules::{Meaning, Modules};
pub use ranges::MAX_SCALAR;
use report::Report;
use requirements::Requirements;
use scope::Scope;
pub use signature::{Signature, Slot, requirements, size_text};
pub use sound::Sound;
use untyped::AllUntyped;

/// The maximum number of expressions of a checked function, every call inlined, and of all
/// functions of a file together.
pub const MAX_EXPRS: usize = 1_000_000;
/// Axes that an array may have.
pub const MAX_RANK: usize = 16;
/// How deep the blocks of a long loop are that the way back takes, if nothing asks for less memory.
pub const BLOCKS: u32 = 2;

/// Checks one function that a program defines or uses, and all that it calls.
pub fn check(file: &File, entry: &str) -> Result<Checked, Vec<Diagnostic>> {
    check_deeper(file, entry, Dtype::F32, BLOCKS)
}

/// The same where `float` is a certain type, and the way back through long loops goes by blocks of
/// this depth. With each level the states that it keeps are about a 32nd, and steps are computed
/// once more ([`Checked::blocks`]).
pub fn check_deeper(file: &File, entry: &str, float: Dtype, depth: u32) -> Result<Checked, Vec<Diagnostic>> {
    let mut errors = vec![];
    let source = Source::new(file, &mut errors);
    match source.modules.find(ModuleId::PROGRAM, entry) {
        Meaning::Function(function) => {
            let checked = check_function(&source, function, float, depth);
            merge(&mut errors, checked).filter(|_| errors.is_empty()).ok_or(errors)
        }
        Meaning::Nothing | Meaning::Clash(_) => {
            let known: Vec<_> = source.modules.own(ModuleId::PROGRAM).keys().map(|n| format!("`{n}`")).collect();
            let error = Diagnostic::new(codes::NO_FUNCTION, Span::default(), format!("there is no function `{entry}`"));
            errors.push(match known.is_empty() {
                true => error.help("the file has no function: write one, such as `fn main(x: f32[n]) = x * 2`"),
                false => error.help(format!("the file has {}", known.join(", "))),
            });
            Err(errors)
        }
    }
}

/// Checks the gradient of a function: a function of the same parameters, with the derivatives of
/// the result in some of them; in all of floats, if none are named.
pub fn check_gradient(file: &File, entry: &str, of: &[String]) -> Result<Checked, Vec<Diagnostic>> {
    let mut file = file.clone();
    let names: BTreeSet<String> = file.own().map(|function| function.name.text.clone()).collect();
    let found = file.functions.iter_mut().find(|f| f.module == ModuleId::PROGRAM && f.name.text == entry);
    let Some(function) = found else { return check(&file, entry) };
    let declared = |name: &String| function.params.iter().find(|param| param.name.text == *name);
    let of: Vec<ast::Name> = match of.is_empty() {
        true => function.params.iter().filter(|param| param.ty.dtype.is_float()).map(|p| p.name.clone()).collect(),
        false => {
            let span = |name| declared(name).map_or(function.name.span, |param| param.name.span);
            of.iter().map(|name| ast::Name { text: name.clone(), span: span(name) }).collect()
        }
    };
    if of.is_empty() {
        let message = format!("`{entry}` has no parameter of floats");
        return Err(vec![Diagnostic::new(codes::GRAD_OF, function.name.span, message)]);
    }
    let value = function.result;
    let kind = ast::ExprKind::Derivative(ast::Derivative { of, value, changes: None });
    let span = file.exprs[value].span;
    function.result = file.exprs.push(ast::Expr::new(kind, span));
    function.results = None;
    function.decorators.clear();
    while names.contains(&function.name.text) {
        function.name.text += "_grad";
    }
    let name = function.name.text.clone();
    check(&file, &name)
}

/// A function as it may be called from outside.
pub struct Instances {
    /// Where `float` is `f32`, if the function has a parameter of that type.
    pub narrow: Checked,
    /// Where `float` is `f64`; `None` if the function has no parameter of that type.
    pub wide: Option<Checked>,
}

impl Instances {
    /// The expressions of both.
    fn exprs(&self) -> usize {
        [Some(&self.narrow), self.wide.as_ref()].into_iter().flatten().map(|checked| checked.exprs.len()).sum()
    }
}

/// [`check_instances`], without those where `float` is `f64`.
pub fn check_all(file: &File) -> Result<Vec<Checked>, Vec<Diagnostic>> {
    Ok(check_instances(file)?.into_iter().map(|instances| instances.narrow).collect())
}

/// Checks every function of a program's own file, each as it would be called from outside. All
/// independent errors are reported. Functions of other files are checked where they are called.
pub fn check_instances(file: &File) -> Result<Vec<Instances>, Vec<Diagnostic>> {
    let mut errors = vec![];
    let source = Source::new(file, &mut errors);
    let all = check_own(&source, &[], &mut errors);
    if errors.is_empty() { Ok(all.into_iter().map(|(_, instances)| instances).collect()) } else { Err(errors) }
}

/// Checks the functions of a program's own file that are not known to be without errors, and notes
/// those that turn out to be. `text` is that of all the files. The errors are those of
/// [`check_instances`]. Functions that limit their kernels are always checked.
pub fn check_edited(file: &File, text: &str, sound: &mut Sound) -> Result<Vec<Instances>, Vec<Diagnostic>> {
    let mut errors = vec![];
    let source = Source::new(file, &mut errors);
    let numbers = sound.numbers(file, text, &source.graph);
    let known: Vec<Option<usize>> = numbers.iter().map(|number| sound.exprs(*number)).collect();
    let found = check_own(&source, &known, &mut errors);
    for (function, instances) in &found {
        if instances.narrow.max_kernels.is_none() {
            sound.note(numbers[*function], instances.exprs());
        }
    }
    if errors.is_empty() { Ok(found.into_iter().map(|(_, instances)| instances).collect()) } else { Err(errors) }
}

/// Checks the functions of a program's own file, without those that are known to be without errors,
/// of which `known` has the numbers of expressions. The results are of functions without errors.
fn check_own(source: &Source<'_>, known: &[Option<usize>], errors: &mut Vec<Diagnostic>) -> Vec<(usize, Instances)> {
    let mut all = vec![];
    let (mut exprs, mut calls) = (0, 0u64);
    let own = source.file.functions.iter().enumerate().filter(|(_, function)| function.module == ModuleId::PROGRAM);
    for (k, function) in own {
        calls = calls.saturating_add(source.graph.inlined(k));
        let alone = source.graph.inlined(k) > MAX_CALLS;
        if let Some(known) = known.get(k).copied().flatten() {
            exprs += known;
        } else if calls <= MAX_CALLS || alone {
            let narrow = merge(errors, check_function(source, k, Dtype::F32, BLOCKS));
            let is_generic = generic::is_generic(function);
            let wide = narrow.as_ref().filter(|_| is_generic).and_then(|_| {
                let note = |error: Diagnostic| error.note(format!("this is where `float` is `{}`", Dtype::F64));
                let result = check_function(source, k, Dtype::F64, BLOCKS);
                merge(errors, result.map_err(|new| new.into_iter().map(note).collect()))
            });
            exprs += narrow.iter().chain(&wide).map(|checked| checked.exprs.len()).sum::<usize>();
            let is_whole = wide.is_some() || !is_generic;
            all.extend(narrow.filter(|_| is_whole).map(|narrow| (k, Instances { narrow, wide })));
        }
        let many = match (exprs > MAX_EXPRS, calls > MAX_CALLS && !alone) {
            (true, _) => Some(format!("{MAX_EXPRS} operations")),
            (_, true) => Some(format!("{MAX_CALLS} calls")),
            _ => None,
        };
        if let Some(many) = many {
            let message = format!("the functions have more than {many} when their calls are inlined");
            errors.push(Diagnostic::new(codes::TOO_LARGE, function.name.span, message));
        }
        // The remaining functions would take as long again, or have more errors than anybody reads.
        if errors.len() >= MAX_ERRORS || errors.iter().any(|e| e.code == codes::TOO_LARGE) {
            break;
        }
    }
    all
}

/// The function of a program that a name means in one of its files, by its number.
pub fn function_named(file: &File, module: ModuleId, name: &str) -> Option<usize> {
    match Modules::new(file, &mut vec![]).find(module, name) {
        Meaning::Function(number) => Some(number),
        Meaning::Nothing | Meaning::Clash(_) => None,
    }
}

/// The names of the program's functions that a file can call.
pub fn callable(file: &File, module: ModuleId) -> BTreeSet<String> {
    Modules::new(file, &mut vec![]).visible(module).map(str::to_owned).collect()
}

/// Checks that files define each name once, and have the functions that are picked from them.
pub fn check_uses(file: &File) -> Result<(), Vec<Diagnostic>> {
    let mut errors = vec![];
    Modules::new(file, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
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

/// A program, with what is known of its functions before any of them is checked.
struct Source<'a> {
    file: &'a File,
    /// The functions by file and name.
    modules: Modules<'a>,
    /// The calls of every function.
    graph: CallGraph,
}

impl<'a> Source<'a> {
    /// Looks through the functions of a program; reports names that are defined twice.
    fn new(file: &'a File, errors: &mut Vec<Diagnostic>) -> Source<'a> {
        let modules = Modules::new(file, errors);
        let graph = CallGraph::new(file, &modules);
        Source { file, modules, graph }
    }
}

/// Checks a function as it is called from outside, where `float` is a certain type.
fn check_function(source: &Source<'_>, number: usize, float: Dtype, depth: u32) -> Result<Checked, Vec<Diagnostic>> {
    let mut checker = Checker::new(source, number, float, depth);
    let results = checker.entry(number);
    let accesses = std::mem::take(&mut checker.accesses);
    Settler::new(&mut checker.arena, &mut checker.requirements, &mut checker.report).settle_all(accesses);
    if let Some(results) = results {
        checker.name_results(number, results);
    }
    let Checker { mut arena, mut requirements, unfinished, mut report, .. } = checker;
    if report.is_empty() {
        unfinished.finish(&mut arena, &mut requirements, &mut report);
    }
    if !report.is_empty() {
        return Err(report.into_sorted());
    }
    let mut checked = arena.out;
    checked.combined = requirements.combined.get();
    checked.requires = requirements.into_list();
    Ok(checked)
}

/// The walk over the functions of the source: it makes nodes, inlines calls, and notes what is to
/// be settled when all has been gone through.
struct Checker<'a> {
    source: &'a Source<'a>,
    /// The nodes, indices and branches made so far.
    arena: Arena,
    /// The names in scope.
    scope: Scope<'a>,
    /// The names in scope that have no type until they are used.
    untyped: AllUntyped<'a>,
    /// The value that each state of a loop begins with.
    first_states: BTreeMap<ExprId, ExprId>,
    /// How deep the blocks of a long loop are that the way back takes.
    depth: u32,
    /// The same of the loops over blocks of steps of others, and over the steps that these leave.
    blocks: BTreeMap<LoopId, u32>,
    /// The values with a conversion in the source.
    conversions: BTreeSet<ExprId>,
    /// The requirements of the call so far.
    requirements: Requirements,
    /// The subscripts that are to be settled.
    accesses: Accesses,
    /// The nodes that are to be finished.
    unfinished: Unfinished,
    /// The errors, and the calls being inlined.
    report: Report<'a>,
}

impl<'a> Checker<'a> {
    fn new(source: &'a Source<'a>, number: usize, float: Dtype, depth: u32) -> Checker<'a> {
        let function = &source.file.functions[number];
        let float = generic::is_generic(function).then_some(float);
        Checker {
            source,
            arena: Arena::new(),
            scope: Scope::default(),
            untyped: AllUntyped::default(),
            first_states: BTreeMap::new(),
            depth,
            blocks: BTreeMap::new(),
            conversions: BTreeSet::new(),
            requirements: Requirements::default(),
            accesses: Accesses::default(),
            unfinished: Unfinished::default(),
            report: Report::new(Calls::new(number, &function.name.text, float)),
        }
    }

    fn ast(&self, id: ast::ExprId) -> &'a ast::Expr {
        &self.source.file.exprs[id]
    }

    /// All that proofs may rest on.
    fn facts(&self) -> Facts<'_> {
        Facts { arena: &self.arena, requirements: &self.requirements }
    }
}

/// `1 axis`, `2 axes`
fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn origin(span: Span) -> Origin {
    Origin { start: span.start, end: span.end }
}
