//! Reducers that go over all elements for each index, although the compiler goes over them once if
//! they are written in another way: prefixes and reductions by key.

use grammar::ast::{BinaryOp, Binder, Bound, ExprId, ExprKind, File, Span};
use grammar::{Diagnostic, mentioned};

use super::codes;

/// The reducers that a prefix may have.
const SCANS: [&str; 6] = ["sum", "prod", "max", "min", "any", "all"];

/// Finds the index of the `let` around a reducer that an expression is.
type Outer<'f, 'a> = &'f dyn Fn(ExprId) -> Option<&'a Binder>;

/// A reducer as it is written, with one index.
pub(super) struct Reducer<'a> {
    /// Its name.
    pub callee: &'a str,
    /// Its index.
    pub binder: &'a Binder,
    /// The condition after `where`, if there is one.
    pub filter: Option<ExprId>,
    /// The expression that is reduced.
    pub body: ExprId,
}

impl Reducer<'_> {
    /// The warning, if it is such a reducer. `outer` knows the indices of the `let` around it.
    pub fn warning(&self, file: &File, outer: Outer<'_, '_>) -> Option<Diagnostic> {
        match (self.filter, &file.exprs[self.body].kind) {
            (Some(filter), _) if SCANS.contains(&self.callee) => {
                self.prefix(file, filter, self.body, outer).map(|end| {
                    let span = Span { end: file.exprs[filter].span.end, ..self.binder.name.span };
                    self.suggested(span, end)
                })
            }
            (None, ExprKind::If { condition, then, otherwise })
                if self.callee == "sum" && is_zero(file, *otherwise) =>
            {
                let (element, then) = (*then, file.exprs[*then].span);
                let rest = Span { start: then.end, end: file.exprs[self.body].span.end };
                let condition = (*condition, file.exprs[*condition].span);
                if let Some(end) = self.prefix(file, condition.0, element, outer) {
                    let span = Span { end: then.start, ..self.binder.name.span };
                    return Some(self.suggested(span, format!("{end}](")).suggest(rest, ""));
                }
                self.is_by_key(file, condition.0, outer).then(|| {
                    let bounds = self.binder.bounds().map(|bound| file.exprs[bound.limit].span.end);
                    let binder = bounds.fold(self.binder.name.span.end, u32::max);
                    let warning = self.warn("all elements are looked at for each key");
                    let warning = warning.help("a condition after `where` selects them in one pass over all");
                    let (before, after) = (Span { start: binder, end: condition.1.start }, condition.1.end);
                    let between = Span { start: after, end: then.start };
                    warning.suggest(before, " where ").suggest(between, "](").suggest(rest, "")
                })
            }
            _ => None,
        }
    }

    fn warn(&self, message: &str) -> Diagnostic {
        Diagnostic::new(codes::QUADRATIC, self.binder.name.span, message)
    }

    fn suggested(&self, span: Span, text: String) -> Diagnostic {
        let help = "an end of the index makes it a prefix, in one pass over all";
        self.warn("all elements are looked at for each prefix").help(help).suggest(span, text)
    }

    /// The index with the end that a condition is, if that is an index that stands around it and
    /// that the element does not mention.
    fn prefix(&self, file: &File, condition: ExprId, element: ExprId, outer: Outer<'_, '_>) -> Option<String> {
        let ExprKind::Binary(op, left, right) = file.exprs[condition].kind else { return None };
        let (op, inner, end) = match op {
            BinaryOp::Lt => ("<", left, right),
            BinaryOp::Le => ("<=", left, right),
            BinaryOp::Gt => ("<", right, left),
            BinaryOp::Ge => ("<=", right, left),
            _ => return None,
        };
        // Both go over the same numbers.
        let over = [length(file, self.binder)?, length(file, outer(end)?)?];
        let [ExprKind::Name(inner), ExprKind::Name(end)] = [inner, end].map(|id| &file.exprs[id].kind) else {
            return None;
        };
        let depends = mentioned(file, element).iter().any(|(name, _)| name == end);
        (*inner == self.binder.name.text && over[0] == over[1] && !depends).then(|| format!("{inner} {op} {end}"))
    }

    /// Whether a condition is that a number of the element is an index that stands around it.
    fn is_by_key(&self, file: &File, condition: ExprId, outer: Outer<'_, '_>) -> bool {
        let ExprKind::Binary(BinaryOp::Eq, left, right) = file.exprs[condition].kind else { return false };
        let is_key = |key: ExprId, of: ExprId| {
            let own = mentioned(file, of);
            let mentions = |binder: &Binder| own.iter().any(|(name, _)| *name == binder.name.text);
            let is_element = !matches!(file.exprs[of].kind, ExprKind::Name(_));
            is_element && outer(key).is_some_and(|key| !mentions(key)) && mentions(self.binder)
        };
        is_key(left, right) || is_key(right, left)
    }
}

/// The size name that an index ends at, if it goes over all numbers below that.
fn length<'f>(file: &'f File, binder: &Binder) -> Option<&'f str> {
    match (binder.lower, binder.upper) {
        (None, Some(Bound { inclusive: false, limit })) => match &file.exprs[limit].kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression is the number 0.
fn is_zero(file: &File, id: ExprId) -> bool {
    match &file.exprs[id].kind {
        ExprKind::Int(value) => *value == 0,
        ExprKind::Float(text) => text.parse() == Ok(0.0),
        _ => false,
    }
}
