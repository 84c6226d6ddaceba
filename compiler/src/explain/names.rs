//! Names for users: operations by the name that a `let` gives them or by their text, sizes by their
//! names in the source. Names that the compiler made up must not appear in sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use cranelift_entity::{PrimaryMap, SecondaryMap};
use ir::checked::Checked;
use ir::nest::{BufferId, Kernel, KernelId, Op, Program, Relation, Requirement, Statement, SymbolSource};
use ir::{Origin, Size, SymbolId, visit};

/// Longer texts of operations are cut.
const LONGEST: usize = 48;

/// An operation of the source: the work of one kernel before fusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name in sentences: a name or a piece of the source, between backquotes.
    pub title: String,
    /// The name that a `let` or the signature gives it, if there is one.
    pub name: Option<String>,
    /// Where it stands.
    pub origin: Origin,
}

/// The operations of an unfused program, by kernel.
pub fn operations(checked: &Checked, unfused: &Program, source: &str) -> PrimaryMap<KernelId, Operation> {
    let mut bound: BTreeMap<Origin, &str> = BTreeMap::new();
    let mut lets: BTreeMap<&str, BTreeSet<Origin>> = BTreeMap::new();
    for expr in checked.exprs.values() {
        if let Some(name) = &expr.name {
            bound.entry(expr.origin).or_insert(name);
            lets.entry(name).or_default().insert(expr.origin);
        }
    }
    // A result without a name of its own is called `out`, `out0` and so on; its text is more
    // helpful.
    let results = checked.results.iter().map(|(name, _)| name.as_str());
    let named: BTreeSet<&str> = results.filter(|name| !is_made_up(name)).collect();
    // Several kernels may come from one piece of the source, such as the sum and the quotient of a
    // mean. The last one is the whole.
    let mut part: SecondaryMap<KernelId, bool> = SecondaryMap::new();
    let mut writers: SecondaryMap<BufferId, Option<KernelId>> = SecondaryMap::new();
    for (id, kernel) in &unfused.kernels {
        for writer in visit::loads(&kernel.body).into_iter().filter_map(|buffer| writers[buffer]) {
            let other = &unfused.kernels[writer];
            // A function that is applied to its own result repeats one piece of the source; each
            // repetition is a whole.
            let is_repeated = || shape(other) == shape(kernel);
            part[writer] |= origin(&other.origins) == origin(&kernel.origins) && !is_repeated();
        }
        visit::stores(&kernel.body).into_iter().for_each(|buffer| writers[buffer] = Some(id));
    }
    let mut titles: BTreeMap<String, usize> = BTreeMap::new();
    let mut operations = PrimaryMap::new();
    for (id, kernel) in &unfused.kernels {
        let origin = origin(&kernel.origins);
        // Functions are inlined, so a name may stand for several operations. All but the first are
        // numbered.
        let stem = stem(&kernel.name);
        let near = |at: &Origin| contains(at, &origin) || contains(&origin, at);
        // One piece of the source may have several names, as in `let a = f(x)` and `let b = f(a)`.
        // The kernel has its own.
        let binds = |name: &&str| lets.get(name).is_some_and(|at| at.contains(&origin));
        let exact = [&*kernel.name, stem].into_iter().find(binds);
        let is_whole = !part[id] || exact.is_some_and(|name| name == kernel.name);
        let by_let = exact.or_else(|| bound.get(&origin).copied());
        let by_let = by_let.or_else(|| lets.contains_key(&*kernel.name).then_some(&*kernel.name));
        let by_let = by_let.or_else(|| lets.get(stem).filter(|at| at.iter().any(near)).map(|_| stem));
        let name = named.get(&*kernel.name).copied().or(by_let).filter(|_| is_whole);
        let name = name.map(|name| if name == stem { &*kernel.name } else { name });
        let text = quoted(source, origin);
        let title = match name {
            Some(name) => format!("`{name}`"),
            None if is_whole => text,
            None => format!("the {} in {text}", word(unfused, id)),
        };
        let title = match name {
            // Another operation of that name, which its kernel does not have: it gets the name as a
            // result.
            Some(name) if titles.contains_key(&title) => {
                let mut numbered = (1..).map(|k| format!("`{name}_{k}`"));
                numbered.find(|title| !titles.contains_key(title)).unwrap_or(title)
            }
            _ => title,
        };
        let count = titles.entry(title.clone()).or_insert(0);
        *count += 1;
        let title = if *count == 1 { title } else { format!("{title} (no. {count})") };
        operations.push(Operation { title, name: name.map(str::to_owned), origin });
    }
    operations
}

fn origin(origins: &[Origin]) -> Origin {
    origins.first().copied().unwrap_or_default()
}

/// The kinds of statements and operations of a kernel, in order.
fn shape(kernel: &Kernel) -> Vec<(Discriminant<Statement>, Option<Discriminant<Op>>)> {
    let mut shape = vec![];
    visit::for_each_statement(&kernel.body, &mut |statement| {
        let op = if let Statement::Let { op, .. } = statement { Some(discriminant(op)) } else { None };
        shape.push((discriminant(statement), op));
    });
    shape
}

fn is_made_up(name: &str) -> bool {
    name.strip_prefix("out").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

/// A buffer's name without the number that distinguishes it from others of that name.
fn stem(buffer: &str) -> &str {
    match buffer.rsplit_once('_') {
        Some((stem, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => buffer,
    }
}

fn contains(outer: &Origin, inner: &Origin) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The source text of a span on one line, between backquotes, cut if it is long.
pub(super) fn quoted(source: &str, origin: Origin) -> String {
    let text = source.get(origin.start as usize..origin.end as usize).unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    let text = unwrapped(&text);
    match text.char_indices().nth(LONGEST) {
        None => format!("`{text}`"),
        Some((end, _)) => {
            let end = text[..end].rfind(' ').filter(|at| *at > LONGEST / 2).unwrap_or(end);
            format!("`{} ...`", &text[..end])
        }
    }
}

/// The text without brackets around all of it.
fn unwrapped(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0i64;
    for c in inner.chars() {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth < 0 {
            return text;
        }
    }
    inner
}

/// The work of a kernel that is a part of a piece of source, in a word: its reduction, or the last
/// thing it computes.
fn word(unfused: &Program, id: KernelId) -> &str {
    let mut word = "part";
    visit::for_each_statement(&unfused.kernels[id].body, &mut |statement| match statement {
        Statement::Contract(_) => word = "product",
        Statement::Loop(l) => {
            if let Some(r) = l.kind.reductions().first() {
                word = unfused.merge_name(r.merge);
            }
        }
        Statement::Let { op: Op::Call(function, _), .. } if word == "part" => {
            word = unfused.functions[*function].math.name();
        }
        Statement::Scatter { monoid, .. } => word = monoid.name(),
        Statement::While(_) if word == "part" => word = "loop",
        Statement::Let { .. } | Statement::Store { .. } | Statement::If { .. } | Statement::While(_) => {}
    });
    word
}

/// Names of sizes: as the source calls them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    names: PrimaryMap<SymbolId, String>,
    /// Sizes without a name of their own, such as the second `d` of `x: f32[d], y: f32[d]`, by the
    /// sizes that they must equal.
    equal: SecondaryMap<SymbolId, Option<Size>>,
}

impl Sizes {
    /// The size names of a checked function.
    pub fn new(checked: &Checked) -> Sizes {
        let mut declared = vec![];
        for size in checked.params.iter().flat_map(|p| &p.ty.shape) {
            size.for_each_symbol(&mut |s| declared.push(s));
        }
        let scalar = |s| matches!(checked.symbols[s].source, SymbolSource::Scalar { .. });
        let own = |s: SymbolId| scalar(s) || declared.contains(&s);
        let mut sizes = Sizes::default();
        for (id, symbol) in &checked.symbols {
            sizes.names.push(match symbol.source {
                SymbolSource::Dimension { input, axis } if !own(id) => {
                    let param = checked.params.get(input).map_or("?", |p| p.name.as_str());
                    format!("size({param}, {axis})")
                }
                SymbolSource::Dimension { .. } | SymbolSource::Scalar { .. } | SymbolSource::Solved { .. } => {
                    symbol.name.clone()
                }
            });
        }
        for Requirement { left, relation, right, .. } in &checked.requires {
            for (unnamed, other) in [(left, right), (right, left)] {
                if *relation == Relation::Equal
                    && let Some(s) = unnamed.as_symbol()
                    && !own(s)
                    && sizes.equal[s].is_none()
                    && all(other, own)
                {
                    sizes.equal[s] = Some(other.clone());
                }
            }
        }
        sizes
    }

    /// The sizes that a user can give, in the order in which the function's parameters name them.
    pub fn names(&self) -> impl Iterator<Item = (SymbolId, &str)> {
        self.names.iter().filter(|(id, name)| self.equal[*id].is_none() && !name.contains('(')).map(|(s, n)| (s, &**n))
    }

    /// A size in terms of named sizes, with numbers for those that are given.
    pub fn known(&self, size: &Size, given: &BTreeMap<SymbolId, i64>) -> Size {
        let number = |s: SymbolId| given.get(&s).map_or_else(|| Size::symbol(s), |n| Size::constant(*n));
        let named = |s: SymbolId| self.equal[s].clone().unwrap_or_else(|| Size::symbol(s));
        size.substitute(&named).substitute(&number)
    }

    /// A size as text.
    pub fn text(&self, size: &Size) -> String {
        let size = self.known(size, &BTreeMap::new());
        size.display(&|s| self.names.get(s).map_or("?", String::as_str)).to_string()
    }

    /// Name by symbol.
    pub fn name(&self, symbol: SymbolId) -> &str {
        self.names.get(symbol).map_or("?", String::as_str)
    }
}

/// Whether all size names in a size pass a test.
fn all(size: &Size, test: impl Fn(SymbolId) -> bool) -> bool {
    let mut every = true;
    size.for_each_symbol(&mut |s| every &= test(s));
    every
}
