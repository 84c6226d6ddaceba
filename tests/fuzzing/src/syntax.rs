//! Edits the text of programs by their syntax trees: lists the parts of an expression, and replaces
//! a piece of the text.

use grammar::ast::{Binder, Expr, ExprId, ExprKind, File, Function, Item, Let, Span};

/// The text of a span.
pub fn text(source: &str, span: Span) -> &str {
    source.get(span.start as usize..span.end as usize).unwrap_or_default()
}

/// The source with another text in place of a span.
pub fn replaced(source: &str, span: Span, by: &str) -> String {
    let (before, after) = (source.get(..span.start as usize), source.get(span.end as usize..));
    [before.unwrap_or_default(), by, after.unwrap_or_default()].concat()
}

/// The direct subexpressions of an expression, in order.
pub fn children(expr: &Expr) -> Vec<ExprId> {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Name(_) | ExprKind::Hole => vec![],
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) | ExprKind::Bitcast { of: a, .. } => vec![*a],
        ExprKind::Binary(_, a, b) => vec![*a, *b],
        ExprKind::If { condition, then, otherwise } => vec![*then, *otherwise, *condition],
        ExprKind::Call { args, .. } => args.iter().map(|arg| arg.value).collect(),
        ExprKind::Reduce { binders, filter, body, .. } => {
            [*body].into_iter().chain(*filter).chain(ends(binders)).collect()
        }
        ExprKind::Derivative(derivative) => {
            [derivative.value].into_iter().chain(derivative.changes.iter().flatten().copied()).collect()
        }
        ExprKind::Index { base, items } => {
            let mut all = vec![*base];
            for item in items {
                match item {
                    Item::At(at) => all.push(*at),
                    Item::Slice { start, stop, step, .. } => all.extend([start, stop, step].into_iter().flatten()),
                }
            }
            all
        }
        ExprKind::Array(parts) | ExprKind::Tuple(parts) => parts.clone(),
        ExprKind::Loop(one) => {
            let mut all: Vec<_> = one.states.iter().map(|state| state.first).collect();
            all.extend(ends(one.counter.as_slice()).chain(one.condition));
            all.extend(statements(&one.body.lets));
            all.push(one.body.result);
            all
        }
    }
}

/// The ends of indices that are written.
fn ends(binders: &[Binder]) -> impl Iterator<Item = ExprId> {
    binders.iter().flat_map(Binder::bounds).map(|bound| bound.limit)
}

/// The outermost expressions of statements, bounds of indices included.
fn statements(lets: &[Let]) -> impl Iterator<Item = ExprId> {
    let ends = |one: &Let| -> Vec<ExprId> {
        one.binders().into_iter().flat_map(Binder::bounds).map(|bound| bound.limit).collect()
    };
    lets.iter().flat_map(move |one| [ends(one), one.values()].concat())
}

/// The outermost expressions of a function's body, bounds of indices included.
pub fn roots(function: &Function) -> Vec<ExprId> {
    statements(&function.lets).chain([function.result]).collect()
}

/// Every expression of a function's body.
pub fn expressions(file: &File, function: &Function) -> Vec<ExprId> {
    let (mut left, mut all) = (roots(function), vec![]);
    while let Some(id) = left.pop() {
        all.push(id);
        left.extend(children(&file.exprs[id]));
    }
    all
}

/// The number of operations in a program: operators, calls, conversions, reducers, choices and
/// array literals.
pub fn operations(source: &str) -> usize {
    let Ok(file) = grammar::parse(source) else { return usize::MAX };
    let counts = |id: &ExprId| {
        !matches!(
            file.exprs[*id].kind,
            ExprKind::Int(_)
                | ExprKind::Float(_)
                | ExprKind::Name(_)
                | ExprKind::Hole
                | ExprKind::Index { .. }
                | ExprKind::Tuple(_)
        )
    };
    file.functions.iter().map(|function| expressions(&file, function).iter().filter(|id| counts(id)).count()).sum()
}

/// The names that a `let` binds.
pub fn bound(one: &Let) -> Vec<&str> {
    one.names().into_iter().map(|name| name.text.as_str()).collect()
}

/// Whether a name stands in a text as a word.
pub fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| !text[..at].ends_with(word) && !text[at + name.len()..].starts_with(word))
}
