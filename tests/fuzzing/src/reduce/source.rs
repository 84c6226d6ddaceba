//! Reduces the source: drops functions, statements and parameters, and replaces an expression by
//! one of its parts, a number or a parameter.

use std::io;

use grammar::ast::{Definition, Expr, ExprId, ExprKind, File, Function, Pattern, Span, Target};

use super::Reduction;
use crate::case::{Arguments, Case, Setting};
use crate::judge::check;
use crate::syntax::{children, expressions, replaced, text};

/// How deep below an expression the parts are that may replace it.
const DEPTH: usize = 3;

impl Reduction<'_, '_> {
    /// Less source, as long as something goes.
    pub(super) fn source(&mut self) -> io::Result<bool> {
        let mut any = false;
        while !self.is_over() && self.shorter()? {
            any = true;
        }
        Ok(any)
    }

    /// Tries the candidates once, the largest first. Accepting one moves the places of the others.
    fn shorter(&mut self) -> io::Result<bool> {
        let (mut any, mut from) = (false, 0);
        loop {
            let candidates = candidates(&self.case);
            let mut taken = false;
            for (n, candidate) in candidates.into_iter().enumerate().skip(from) {
                if self.is_over() {
                    return Ok(any);
                }
                let source = &candidate.setting.source;
                if self.vain.contains(source) {
                    continue;
                }
                let kept = source.clone();
                if check(&kept, &self.case.setting.entry).is_ok() && self.accept(candidate)? {
                    (any, taken, from) = (true, true, n);
                    break;
                }
                self.vain.insert(kept);
            }
            if !taken {
                return Ok(any);
            }
        }
    }
}

/// Shorter cases, those without the most first.
fn candidates(case: &Case) -> Vec<Case> {
    let Setting { source, entry, .. } = &case.setting;
    let Ok(file) = grammar::parse(source) else { return vec![] };
    let mut edits: Vec<(Span, String)> = vec![];
    let mut cases = vec![];
    for function in &file.functions {
        if function.name.text == *entry {
            for (n, param) in function.params.iter().enumerate() {
                cases.extend(without_param(case, function, n, &param.name.text));
            }
        } else {
            edits.push((with_line(source, function.span), String::new()));
        }
        edits.extend(function.decorators.iter().map(|decorator| (decorator.span, String::new())));
        edits.extend(without_results(source, function));
        edits.extend(whole_body(source, &file, function));
        for statement in &function.lets {
            edits.push((with_line(source, statement.span), String::new()));
            if let Definition::Values { target, .. } = &statement.definition {
                edits.extend(plainer_target(source, &file, target));
            }
        }
        for id in expressions(&file, function) {
            let expr = &file.exprs[id];
            edits.extend(plainer(source, &file, function, id).into_iter().map(|by| (expr.span, by)));
        }
    }
    // How much shorter the text gets.
    edits.retain(|(span, by)| by.len() < text(source, *span).len() || is_plainer(text(source, *span), by));
    edits.sort_by_key(|(span, by)| by.len() as i64 - text(source, *span).len() as i64);
    let edited = edits.into_iter().map(|(span, by)| Case {
        setting: Setting { source: replaced(source, span, &by), ..case.setting.clone() },
        arguments: case.arguments.clone(),
    });
    edited.chain(cases).collect()
}

/// A span, with its line break and indentation if it stands alone on its lines.
fn with_line(source: &str, span: Span) -> Span {
    let (before, after) = (source.get(..span.start as usize), source.get(span.end as usize..));
    let blanks = before.map_or(0, |text| text.len() - text.trim_end_matches(' ').len());
    let line = after.map_or(0, |text| usize::from(text.starts_with('\n')));
    let length = |n: usize| u32::try_from(n).unwrap_or(0);
    if line == 0 { span } else { Span { start: span.start - length(blanks), end: span.end + length(line) } }
}

/// Whether `by` is simpler than a text of the same length: numbers come before names, and 1 before
/// other numbers.
fn is_plainer(now: &str, by: &str) -> bool {
    let rank = |text: &str| match text {
        "1" => 0,
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => 1,
        _ => 2,
    };
    now.len() == by.len() && rank(by) < rank(now)
}

/// The simpler replacements for an expression: its parts, parameters, numbers.
fn plainer(source: &str, file: &File, function: &Function, id: ExprId) -> Vec<String> {
    let expr = &file.exprs[id];
    let mut found = vec![];
    let (mut level, mut next) = (children(expr), vec![]);
    for _ in 0..DEPTH {
        for part in level.drain(..) {
            found.push(in_brackets(source, &file.exprs[part]));
            next.extend(children(&file.exprs[part]));
        }
        std::mem::swap(&mut level, &mut next);
    }
    found.extend(function.params.iter().map(|param| param.name.text.clone()));
    let earlier = function.lets.iter().filter(|statement| statement.span.end <= expr.span.start);
    for statement in earlier {
        if let [name] = statement.names().as_slice() {
            found.push(name.text.clone());
        }
    }
    found.extend(["1", "0", "1.5", "true"].map(str::to_owned));
    match &expr.kind {
        // A call without one of its arguments, a tuple without one of its parts, the inside of
        // unnecessary brackets.
        ExprKind::Call { args, .. } if args.len() > 1 => {
            let last = &file.exprs[args[args.len() - 1].value];
            let before = &file.exprs[args[args.len() - 2].value];
            let whole = text(source, expr.span);
            let (cut, end) = (before.span.end - expr.span.start, last.span.end - expr.span.start);
            found.push(replaced(whole, Span { start: cut, end }, ""));
        }
        ExprKind::Tuple(parts) => {
            for without in 0..parts.len() {
                let kept = parts.iter().enumerate().filter(|(n, _)| *n != without);
                let kept: Vec<&str> = kept.map(|(_, part)| text(source, file.exprs[*part].span)).collect();
                found.push(format!("({})", kept.join(", ")));
            }
        }
        _ => {}
    }
    let whole = text(source, expr.span);
    if let Some(inner) = whole.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        found.push(inner.to_owned());
    }
    found
}

/// The text of an expression, so that it may stand anywhere.
fn in_brackets(source: &str, expr: &Expr) -> String {
    let whole = text(source, expr.span);
    match expr.kind {
        ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::If { .. } if !whole.starts_with('(') => {
            format!("({whole})")
        }
        _ => whole.to_owned(),
    }
}

/// The value of the last statement in place of the function's result, if the result is its name.
fn whole_body(source: &str, file: &File, function: &Function) -> Option<(Span, String)> {
    let last = function.lets.last()?;
    let Definition::Values { target: Target { pattern: Pattern::Name(name), binders }, value } = &last.definition
    else {
        return None;
    };
    let ExprKind::Name(result) = &file.exprs[function.result].kind else { return None };
    if !binders.is_empty() {
        return None;
    }
    let span = Span { start: last.span.start, end: file.exprs[function.result].span.end };
    (name.text == *result).then(|| (span, text(source, file.exprs[*value].span).to_owned()))
}

/// A function without the types of its results.
fn without_results(source: &str, function: &Function) -> Option<(Span, String)> {
    function.results.as_ref()?;
    let whole = text(source, function.span);
    let arrow = whole.find("->")?;
    let end = arrow + whole.get(arrow..)?.find(['{', '='])?;
    let at = |n: usize| function.span.start + u32::try_from(n).unwrap_or(0);
    Some((Span { start: at(arrow), end: at(end) }, String::new()))
}

/// Fewer bounds, and a comprehension without one of its indices if its value does not need that.
fn plainer_target(source: &str, file: &File, target: &Target) -> Vec<(Span, String)> {
    let Target { pattern: Pattern::Name(name), binders } = target else { return vec![] };
    let mut found = vec![];
    for binder in binders {
        if let Some(bound) = binder.upper {
            let end = file.exprs[bound.limit].span.end;
            found.push((Span { start: binder.name.span.end, end }, String::new()));
        }
    }
    let end = |n: usize| match binders[n].upper {
        Some(bound) => file.exprs[bound.limit].span.end,
        None => binders[n].name.span.end,
    };
    let Some(last) = binders.len().checked_sub(1) else { return found };
    let close = source.get(end(last) as usize..).and_then(|rest| rest.find(']')).unwrap_or(0);
    let whole = Span { start: name.span.end, end: end(last) + u32::try_from(close).unwrap_or(0) + 1 };
    for without in 0..binders.len() {
        let kept: Vec<&str> = (0..binders.len())
            .filter(|n| *n != without)
            .map(|n| text(source, Span { start: binders[n].name.span.start, end: end(n) }))
            .collect();
        found.push((whole, if kept.is_empty() { String::new() } else { format!("[{}]", kept.join(", ")) }));
    }
    found
}

/// The case without a parameter of the entry.
fn without_param(case: &Case, function: &Function, n: usize, name: &str) -> Option<Case> {
    let source = &case.setting.source;
    let span = |k: usize| {
        let param = &function.params[k];
        Span { start: param.name.span.start, end: param.ty.span.end }
    };
    let end = if n + 1 < function.params.len() { span(n + 1).start } else { span(n).end };
    let start = if n > 0 && n + 1 == function.params.len() { span(n - 1).end } else { span(n).start };
    let source = replaced(source, Span { start, end }, "");
    let arguments: Arguments = case.arguments.iter().filter(|(other, _)| other != name).cloned().collect();
    Some(Case { setting: Setting { source, ..case.setting.clone() }, arguments })
}
