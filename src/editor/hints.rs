//! Remarks of the checker between the words of a function: the types of `let`s and results, the
//! ends of indices, and the conditions that a statement adds to those of the function.

use std::collections::BTreeMap;
use std::ops::Range;

use compiler::check::{Slot, requirements, size_text};
use grammar::ast::{Definition, Function, Let};
use ir::checked::{Checked, Expr};
use ir::nest::SymbolSource;
use ir::{Dtype, SymbolId};

use super::{Names, Role, bytes};
use crate::Signature;

/// The length of axes that nothing determines, in arguments that are made up.
const LENGTH: i64 = 8;
/// The integers among arguments that are made up.
const INTEGER: i64 = 3;

/// A remark that stands between the words of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The byte before which it stands.
    pub at: usize,
    /// Its text, such as `: f32[n]`.
    pub text: String,
    /// Its kind.
    pub kind: HintKind,
}

/// The kind of a [`Hint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// A type that the source leaves out.
    Type,
    /// The end of an index that has no bound from above.
    End,
}

/// The named values of a function.
pub(super) struct Values<'c> {
    checked: &'c Checked,
    named: BTreeMap<&'c str, Vec<&'c Expr>>,
}

impl<'c> Values<'c> {
    pub(super) fn new(checked: &'c Checked) -> Values<'c> {
        let mut named: BTreeMap<&str, Vec<&Expr>> = BTreeMap::new();
        for expr in checked.exprs.values() {
            if let Some(name) = &expr.name {
                named.entry(name).or_default().push(expr);
            }
        }
        Values { checked, named }
    }
}

/// The type of the name that a statement binds.
pub(super) fn type_of(values: &Values<'_>, statement: &Let, name: &str) -> Option<String> {
    let within = |e: &&&Expr| statement.span.start <= e.origin.start && e.origin.end <= statement.span.end;
    let value = values.named.get(name)?.iter().find(within)?;
    Some(Slot::new(values.checked, name, &value.ty).ty())
}

impl Names {
    /// The remarks on a function of the text, in the order of their places; none if it has errors.
    ///
    /// ```
    /// use fuseloop::editor::Names;
    ///
    /// let text = "fn f(x: f32[n]) { let y[i] = x[i] * 2\n y }";
    /// let hints = Names::new(text, None).hints("f");
    /// let texts: Vec<&str> = hints.iter().map(|hint| hint.text.as_str()).collect();
    /// assert_eq!(texts, [" -> f32[n]", " < n", ": f32[n]"]);
    /// ```
    pub fn hints(&self, name: &str) -> Vec<Hint> {
        let Some(function) = self.file.own().find(|function| function.name.text == name) else { return vec![] };
        let Some(checked) = self.checked(name) else { return vec![] };
        let mut hints = self.types(function, &checked);
        hints.extend(self.ends(function, &checked));
        hints.sort_by_key(|hint| hint.at);
        hints
    }

    fn types(&self, function: &Function, checked: &Checked) -> Vec<Hint> {
        let hint = |at: u32, text| Hint { at: at as usize, text, kind: HintKind::Type };
        let mut hints = vec![];
        if function.results.is_none() {
            let types: Vec<String> = Signature::new(checked).results.iter().map(Slot::ty).collect();
            let text = match types.as_slice() {
                [only] => format!(" -> {only}"),
                several => format!(" -> ({})", several.join(", ")),
            };
            hints.push(hint(function.signature.end, text));
        }
        let values = Values::new(checked);
        for statement in &function.lets {
            let names = statement.names();
            for name in &names {
                // The indices of an array stand right behind its name.
                let last = match &statement.definition {
                    Definition::Values { target, .. } if names.len() == 1 => target.binders.last(),
                    Definition::Values { .. } => None,
                    Definition::Recurrence(equations) => {
                        equations.iter().find(|equation| equation.name.span == name.span).and_then(|e| e.binders.last())
                    }
                };
                let at = match last {
                    None => Some(name.span.end),
                    Some(last) => self.closed(last.name.span.end, statement.span.end),
                };
                let ty = type_of(&values, statement, &name.text);
                hints.extend(at.zip(ty).map(|(at, ty)| hint(at, format!(": {ty}"))));
            }
        }
        hints
    }

    /// The place behind the bracket that closes the indices of an array.
    fn closed(&self, last: u32, end: u32) -> Option<u32> {
        let words = grammar::highlight(self.source.text.get(last as usize..end as usize)?);
        let mut depth = 1;
        for (span, _) in words {
            match self.source.text.as_bytes().get((last + span.start) as usize) {
                Some(b'[' | b'(') => depth += 1,
                Some(b']' | b')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(last + span.end);
            }
        }
        None
    }

    /// The ends of indices that have no bound from above.
    fn ends(&self, function: &Function, checked: &Checked) -> Vec<Hint> {
        let mut sizes = BTreeMap::new();
        for index in checked.indices.values() {
            if let Some(size) = index.extent.as_size() {
                sizes.entry((index.origin.start, index.origin.end)).or_insert(size);
            }
        }
        let mut hints = vec![];
        for one in grammar::occurrences(&self.file, function) {
            let declares = one.role == Role::Index && one.declared == Some(one.span);
            let after = self.source.text.get(one.span.end as usize..).unwrap_or_default();
            if !declares || after.trim_start().starts_with('<') {
                continue;
            }
            if let Some(size) = sizes.get(&(one.span.start, one.span.end)) {
                let text = format!(" < {}", size_text(checked, size));
                hints.push(Hint { at: one.span.end as usize, text, kind: HintKind::End });
            }
        }
        hints
    }

    /// The conditions on calls of a function that come from a part of the text.
    pub fn requirements(&self, name: &str, part: &Range<usize>) -> Vec<String> {
        let Some(checked) = self.checked(name) else { return vec![] };
        let from = |start: u32, end: u32| part.start <= start as usize && end as usize <= part.end;
        let found = requirements(&checked).into_iter();
        found.filter(|(_, origin)| from(origin.start, origin.end)).map(|(text, _)| text).collect()
    }

    /// Arguments to call a function with, as the command line takes them: random arrays with short
    /// axes. `None` if the function has errors.
    ///
    /// ```
    /// use fuseloop::editor::Names;
    ///
    /// let names = Names::new("fn f(x: f32[2 * n, 3], k: i64, s: f32) = x[k:] * s", None);
    /// assert_eq!(names.arguments("f").as_deref(), Some("x=random:16x3 k=3 s=0.5"));
    /// ```
    pub fn arguments(&self, name: &str) -> Option<String> {
        let checked = self.checked(name)?;
        let value = |symbol: SymbolId| match checked.symbols[symbol].source {
            SymbolSource::Scalar { .. } => INTEGER,
            _ => LENGTH,
        };
        let arguments = checked.params.iter().map(|param| {
            let lengths: Vec<String> = param.ty.shape.iter().map(|size| size.wrapping(&value).to_string()).collect();
            let text = match (lengths.as_slice(), param.ty.dtype) {
                ([], Dtype::Bool) => "true".to_owned(),
                ([], dtype) if dtype.is_float() => "0.5".to_owned(),
                ([], _) => INTEGER.to_string(),
                (lengths, _) => format!("random:{}", lengths.join("x")),
            };
            format!("{}={text}", param.name)
        });
        Some(arguments.collect::<Vec<_>>().join(" "))
    }

    /// The statement that declares a name: from `let` to the end of its value.
    pub fn statement(&self, one: &super::Occurrence) -> Option<(&str, Range<usize>)> {
        let declared = one.declared?;
        let function = self.around(declared)?;
        let statement = function.lets.iter().find(|one| one.names().iter().any(|name| name.span == declared))?;
        Some((&function.name.text, bytes(statement.span)))
    }
}
