//! Suffixes: `sum[i <= k < n](e)` and `sum[i < k < n](e)` where `e` does not mention `i`. They are
//! scans that begin at the end: an array of prefixes over the elements in reverse, read at
//! `n - 1 - i`.

use grammar::ast::{self, ExprKind};
use ir::checked::{ExprId, Extent, IndexId, Kind, Prefix};
use ir::{Affine, Dtype, Size};

use super::Checker;
use super::arena::Here;
use super::reduce::{Body, Indexed};
use super::reducers::{Finish, Reducer};
use super::scope::Binding;

/// The range of a suffix.
pub(super) struct Suffix {
    /// The index that bounds it from below.
    of: IndexId,
    /// Whether the element at `of` belongs to it.
    inclusive: bool,
    /// One past the last element.
    end: Size,
}

impl Checker<'_> {
    /// The range of a reducer that is a suffix. Where the index that bounds it may lie beyond the
    /// end, a reducer counts as any other.
    pub(super) fn suffix(&self, indexed: Indexed<'_>) -> Option<Suffix> {
        let [ast::Binder { name, lower: Some(lower), upper: Some(upper) }] = indexed.binders else { return None };
        let ExprKind::Name(outer) = &self.ast(lower.limit).kind else { return None };
        let value = self.scope.get(outer)?.value()?;
        let Kind::Index(of) = self.arena.out.exprs[value].kind else { return None };
        if self.arena.out.steps[of].is_some() {
            return None;
        }
        let end = &self.number(upper.limit)? + &Size::constant(i64::from(upper.inclusive));
        let inside = || match &self.arena.out.indices[of].extent {
            Extent::Affine(extent) => extent.as_size().is_some_and(|size| self.facts().never_negative(&(&end - size))),
            Extent::Dynamic(_) => false,
        };
        let known = self.arena.ends.unsolved.contains(&of) || inside();
        (known && *outer != name.text && !self.mentions(indexed.parts(), outer, Some(of))).then_some(Suffix {
            of,
            inclusive: lower.inclusive,
            end,
        })
    }

    /// Whether expressions mention a name, be it only that of an index of their own, or an array of
    /// a recurrence that is not complete yet, or a value that depends on an index.
    pub(super) fn mentions(&self, mut pending: Vec<ast::ExprId>, name: &str, of: Option<IndexId>) -> bool {
        while let Some(id) = pending.pop() {
            let kind = &self.ast(id).kind;
            if let ExprKind::Name(other) = kind {
                let value = self.scope.get(other).and_then(Binding::value);
                let depends = |v: ExprId| of.is_some_and(|of| self.arena.free(v).contains(&of));
                if other == name || value.is_some_and(|v| self.arena.reads_earlier(v) || depends(v)) {
                    return true;
                }
            }
            kind.for_each_operand(|operand| pending.push(operand));
        }
        false
    }

    /// The reduction of a suffix: the array of all suffixes, as prefixes of the elements in reverse,
    /// at the index of this one.
    pub(super) fn suffix_scan(
        &mut self,
        reducer: Reducer,
        suffix: &Suffix,
        indexed: Indexed<'_>,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let outer = self.arena.out.indices[suffix.of].name.clone();
        let reversed = self.arena.index(&outer, Affine::size(suffix.end.clone()), here.span);
        self.arena.ends.open.push(reversed);
        let aside = self.arena.ends.aside.len();
        self.arena.ends.aside.extend([suffix.of, reversed]);
        let body = self.reversed(suffix, reversed, indexed, want, here);
        let again = match reducer.finish == Finish::OverCount && indexed.filter.is_some() {
            true => self.reversed(suffix, reversed, indexed, want, here).map(Some),
            false => Some(None),
        };
        self.arena.ends.close(&[reversed]);
        self.arena.ends.aside.truncate(aside);
        let prefix = Prefix { of: reversed, inclusive: suffix.inclusive };
        let value = self.elements(reducer, body?, again?, Some(prefix), here)?;
        let all = self.arena.comprehension(vec![reversed], value, here);
        let last = Affine::size(&suffix.end - &Size::constant(1));
        self.row(all, &last.sub(&Affine::index(suffix.of)), here)
    }

    /// The body of a suffix over the elements from the end.
    fn reversed(
        &mut self,
        suffix: &Suffix,
        reversed: IndexId,
        indexed: Indexed<'_>,
        want: Option<Dtype>,
        here: Here,
    ) -> Option<Body> {
        let depth = self.scope.len();
        let name = &indexed.binders[0].name;
        let count = Affine::index(reversed).add(&Affine::constant(i64::from(suffix.inclusive)));
        let index = self.arena.index(&name.text, count, name.span);
        self.arena.ends.open.push(index);
        let last = Affine::size(&suffix.end - &Size::constant(1));
        let value = self.arena.affine_node(&last.sub(&Affine::index(index)), Here { span: name.span, ..here });
        self.scope.push(&name.text, Binding::Index(value));
        self.inside(vec![index], depth, indexed, want, here.guard)
    }
}
