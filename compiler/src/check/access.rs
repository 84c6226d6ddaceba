//! Subscripts: `x[i, j + 1]`, slices `x[a:b:c]`, rows `x[i]`, gathers `x[idx]`.

use std::collections::BTreeSet;

use grammar::Diagnostic;
use grammar::ast::{self, ExprKind, Item, Span};
use ir::checked::{ExprId, GuardId, IndexId, Kind, Subscript, Type};
use ir::nest::{Purpose, Relation, Requirement};
use ir::sabotage::{self, Bug};
use ir::{Affine, Dtype, ReduceOp, Size};

use super::arena::{Arena, Here};
use super::bounds::Record;
use super::{Checker, codes, count, origin};

/// A subscript of an element, before it is known to be inside.
pub(super) struct Pending {
    value: ExprId,
    /// Whether it is inside by construction.
    inside: bool,
    /// Set if it is inside if a reducer has an element: if the last one has a number.
    last: Option<(ExprId, ReduceOp)>,
    span: Span,
}

impl Pending {
    /// A subscript that nothing is known of.
    pub fn unproved(value: ExprId, span: Span) -> Pending {
        Pending { value, inside: false, last: None, span }
    }
}

impl Checker<'_> {
    /// `base[items]`: an element, or an array over the axes that slices, array subscripts and
    /// missing subscripts leave.
    pub(super) fn access(
        &mut self,
        base: ast::ExprId,
        items: &[Item],
        want: Option<Dtype>,
        here: Here,
    ) -> Option<ExprId> {
        let want = want.filter(|_| self.untyped_name(base).is_some());
        let array = self.expr(base, want, here.guard)?;
        let shape = self.arena.ty(array).shape.clone();
        if shape.is_empty() {
            let message = format!("{} is a scalar and has no subscripts", self.arena.describe(array));
            let end = self.ast(base).span.end;
            let subscripts = Span { start: end, end: here.span.end };
            let error = Diagnostic::new(codes::NOT_INDEXABLE, here.span, message);
            self.report.error(error.help("leave the subscripts out").suggest(subscripts, ""));
            return None;
        }
        if let Some(at) = items.iter().find_map(|item| self.new_axis(item)) {
            let error = Diagnostic::new(codes::TOO_MANY_SUBSCRIPTS, at, "a subscript makes no new axis");
            self.report.error(match self.reshaped(base, items, &shape) {
                Some(text) => error.help(format!("write `{text}`, or name the indices: `let y[i, j] = ...`")),
                None => error.help("name the indices, `let y[i, j] = ...`, or use `reshape`"),
            });
            return None;
        }
        if items.len() > shape.len() {
            let (what, axes) = (self.arena.describe(array), shape.len());
            let axes = count(axes, "axis", "axes");
            let message = format!("{} subscripts for {what}, which has {axes}", items.len());
            self.report.error(Diagnostic::new(codes::TOO_MANY_SUBSCRIPTS, here.span, message));
            return None;
        }
        let mut made: Vec<IndexId> = vec![];
        let mut pending = vec![];
        let mut gathered = false;
        for (axis, item) in items.iter().enumerate() {
            match item {
                Item::At(at) => {
                    let here = Here { span: self.ast(*at).span, ..here };
                    if let ExprKind::Name(name) = &self.ast(*at).kind
                        && self.scope.get(name).is_none()
                        && name.len() == 1
                    {
                        let message = format!("nothing runs over the index `{name}`");
                        let help = format!("for an array write `let y[{name}] = ...`, to reduce `sum[{name}](...)`");
                        self.report.error(Diagnostic::new(codes::LOOSE_INDEX, here.span, message).help(help));
                        return None;
                    }
                    let value = self.expr(*at, Some(Dtype::I64), here.guard)?;
                    if !self.arena.dtype(value).is_int() {
                        let message = format!("a subscript is an integer, this is `{}`", self.arena.dtype(value));
                        let error = Diagnostic::new(codes::SUBSCRIPT_TYPE, here.span, message);
                        self.report.error(match self.arena.dtype(value) {
                            Dtype::Bool => error.help("there are no masks: write `if` in index notation"),
                            _ => error.help("convert it: `i64(...)`").wrap(here.span, "i64(", ")"),
                        });
                        return None;
                    }
                    let rows = self.arena.ty(value).shape.clone();
                    if !rows.is_empty() && std::mem::replace(&mut gathered, true) {
                        let message = "only one subscript of an access can be an array";
                        let help = "use index notation: `let y[i] = x[a[i], b[i]]`";
                        self.report.error(Diagnostic::new(codes::SUBSCRIPT_TYPE, here.span, message).help(help));
                        return None;
                    }
                    let indices = self.arena.axis_indices(&rows, here.span);
                    let at = indices.iter().map(|i| Affine::index(*i)).collect();
                    let value = self.arena.element(value, at, here);
                    made.extend(indices);
                    pending.push(Pending::unproved(value, here.span));
                }
                Item::Slice { start, stop, step, span } => {
                    let here = Here { span: *span, ..here };
                    let (index, at, inside) = self.slice(array, axis, [*start, *stop, *step], here)?;
                    made.push(index);
                    let value = self.arena.subscript(at, here).value;
                    pending.push(Pending { value, inside, last: None, span: here.span });
                }
            }
        }
        for size in &shape[items.len()..] {
            let index = self.arena.index("a", Affine::size(size.clone()), here.span);
            let value = self.arena.index_node(index, here);
            made.push(index);
            pending.push(Pending { value, inside: true, last: None, span: here.span });
        }
        self.check_rank(made.len(), here.span)?;
        let element = self.checked_element(array, pending, &made, here);
        Some(self.arena.comprehension(made, element, here))
    }

    /// The span of a subscript that adds an axis in NumPy, if `item` is one.
    fn new_axis(&self, item: &Item) -> Option<Span> {
        let Item::At(at) = item else { return None };
        let ast::Expr { kind: ExprKind::Name(name), span, .. } = self.ast(*at) else { return None };
        (["None", "newaxis"].contains(&name.as_str()) && self.scope.get(name).is_none()).then_some(*span)
    }

    /// The `reshape` call that replaces subscripts like NumPy's `[None, :]`, in terms of the size
    /// names of this function.
    fn reshaped(&self, base: ast::ExprId, items: &[Item], shape: &[Size]) -> Option<String> {
        let ExprKind::Name(array) = &self.ast(base).kind else { return None };
        let mut lengths = shape.iter();
        let mut sizes = vec![];
        for item in items {
            match item {
                Item::Slice { start: None, stop: None, step: None, .. } => sizes.push(self.arena.show(lengths.next()?)),
                item => sizes.push(self.new_axis(item).map(|_| "1".to_owned())?),
            }
        }
        sizes.extend(lengths.map(|length| self.arena.show(length)));
        (self.report.calls.is_outermost(self.report.calls.current()))
            .then(|| format!("reshape({array}, {})", sizes.join(", ")))
    }

    /// An element by subscripts, each noted to be proved or checked, unless it is inside by
    /// construction.
    pub(super) fn checked_element(
        &mut self,
        array: ExprId,
        pending: Vec<Pending>,
        made: &[IndexId],
        here: Here,
    ) -> ExprId {
        let ty = Type::scalar(self.arena.dtype(array));
        let shape = self.arena.ty(array).shape.clone();
        let at: Vec<Subscript> = pending
            .iter()
            .map(|p| Subscript { value: p.value, affine: self.arena.affine(p.value).cloned(), check: None })
            .collect();
        let access = self.arena.node(Kind::Access { array, at }, ty, here);
        let (mentions, exempt) = self.arena.mentions(here.guard);
        let mut scope = self.arena.ends.open.clone();
        scope.extend(made);
        for (axis, p) in pending.into_iter().enumerate().filter(|(_, p)| !p.inside) {
            let record = Record {
                access,
                axis,
                value: p.last.map_or(p.value, |(last, _)| last),
                length: shape[axis].clone(),
                guard: here.guard,
                scope: scope.clone(),
                mentions: mentions.clone(),
                exempt: exempt.clone(),
                array: self.arena.describe(array),
                span: p.span,
                call: self.report.calls.current(),
                of: p.last.map(|(_, op)| op),
            };
            // An array that is being made says nothing about where indices end.
            let incomplete = matches!(self.arena.out.exprs[array].kind, Kind::Earlier { .. });
            let affine = self.arena.affine(p.value).filter(|_| !incomplete);
            let indices: Vec<IndexId> = affine.map_or_else(Vec::new, |at| at.terms().iter().map(|(i, _)| *i).collect());
            self.accesses.push(record, &self.arena.bounded_by(&indices));
        }
        access
    }

    /// The row of an array at a subscript, which is noted to be proved or checked.
    pub(super) fn row(&mut self, array: ExprId, at: &Affine<IndexId>, here: Here) -> Option<ExprId> {
        let shape = self.arena.ty(array).shape.clone();
        let axes = self.arena.axis_indices(&shape[1..], here.span);
        let first = self.arena.affine_node(at, here);
        let mut pending = vec![Pending::unproved(first, here.span)];
        for index in &axes {
            let value = self.arena.index_node(*index, here);
            pending.push(Pending { value, inside: true, last: None, span: here.span });
        }
        let element = self.checked_element(array, pending, &axes, here);
        Some(self.arena.comprehension(axes, element, here))
    }

    /// An element of an array that is inside if a reducer has an element: if its `last` one has a
    /// number.
    pub(super) fn wanted_element(
        &mut self,
        array: ExprId,
        at: ExprId,
        last: ExprId,
        op: ReduceOp,
        here: Here,
    ) -> ExprId {
        let pending = Pending { value: at, inside: false, last: Some((last, op)), span: here.span };
        self.checked_element(array, vec![pending], &[], here)
    }

    /// `start:stop:step` along an axis: a new index, the subscript, and whether that is inside by
    /// requirement.
    fn slice(
        &mut self,
        array: ExprId,
        axis: usize,
        parts: [Option<ast::ExprId>; 3],
        here: Here,
    ) -> Option<(IndexId, Affine<IndexId>, bool)> {
        let length = self.arena.ty(array).shape[axis].clone();
        let mut part = |part: Option<ast::ExprId>, default: Size| match part {
            None => Some(Affine::size(default)),
            Some(id) => self.slice_part(id, here.guard),
        };
        let start = part(parts[0], Size::default())?;
        let stop = part(parts[1], length.clone())?;
        let step = part(parts[2], Size::constant(1))?;
        let Some(step) = step.as_size().and_then(Size::as_constant).filter(|s| *s > 0) else {
            let message = "the step of a slice is a positive number";
            let help = "backwards, in index notation: `let y[i < n] = x[n - 1 - i]`";
            self.report.error(Diagnostic::new(codes::BAD_SLICE, here.span, message).help(help));
            return None;
        };
        let Some(extent) = stop.sub(&start).as_size().cloned() else {
            let message = "the length of a slice cannot depend on an index";
            self.report.error(Diagnostic::new(codes::RAGGED, here.span, message));
            return None;
        };
        let count = (&extent + &Size::constant(step - 1)).floor_div(&Size::constant(step));
        let what = self.arena.describe(array);
        let inside = match (start.as_size(), stop.as_size()) {
            (Some(start), Some(stop)) => {
                let zero = Size::default();
                self.order(&zero, "zero", start, "the start of the slice", here.span)?;
                self.order(start, "the start of the slice", stop, "the end of the slice", here.span)?;
                self.order(stop, "the end of the slice", &length, &format!("axis {axis} of {what}"), here.span)?;
                true
            }
            _ => {
                self.require_size(&extent, "the length of the slice", here.span)?;
                false
            }
        };
        let index = self.arena.index("a", Affine::size(count), here.span);
        let start = if sabotage::on(Bug::SliceStart) { Affine::constant(0) } else { start };
        let at = start.add(&Affine::index(index).scale(&Size::constant(step)));
        Some((index, at, inside))
    }

    fn slice_part(&mut self, id: ast::ExprId, guard: GuardId) -> Option<Affine<IndexId>> {
        if let Some(size) = self.plain_size(id) {
            return Some(Affine::size(size));
        }
        let value = self.expr(id, Some(Dtype::I64), guard)?;
        let affine = self.arena.affine(value).cloned();
        if affine.is_none() {
            let message = "the ends of a slice are made of sizes and indices";
            let help = "with ends that are data, gather: `let y[i < n] = x[start[0] + i]`";
            self.report.error(Diagnostic::new(codes::BAD_SLICE, self.ast(id).span, message).help(help));
        }
        affine
    }

    /// Requires `left <= right`: decided here, or by the call.
    fn order(&mut self, left: &Size, left_is: &str, right: &Size, right_is: &str, span: Span) -> Option<()> {
        let room = right - left;
        match room.as_constant() {
            Some(d) if d < 0 => {
                let (l, r) = (self.arena.show(left), self.arena.show(right));
                let error = |message: String| Diagnostic::new(codes::BAD_SLICE, span, message);
                self.report.error(match left.is_zero() {
                    true => error(format!("{right_is} is {r}, below 0"))
                        .help("slices do not count from the end: write `n - 1` for `-1`"),
                    false => error(format!("slices are not clipped: {left_is} ({l}) is beyond {right_is} ({r})")),
                });
                return None;
            }
            Some(_) => return Some(()),
            None if self.facts().never_negative(&room) => return Some(()),
            None => {}
        }
        self.requirements.require(Requirement {
            left: left.clone(),
            relation: Relation::AtMost,
            right: right.clone(),
            unless_empty: vec![],
            left_is: left_is.to_string(),
            right_is: right_is.to_string(),
            purpose: Purpose::Slice,
            origin: origin(span),
        });
        Some(())
    }
}

impl Arena {
    /// The indices that the conditions around this place mention, and those that the ones of an
    /// `if` do.
    fn mentions(&self, guard: GuardId) -> (Vec<IndexId>, Vec<IndexId>) {
        let (mut mentions, mut exempt) = (vec![], vec![]);
        for branch in self.branches(guard) {
            let Some((condition, _)) = branch.condition else { continue };
            mentions.extend(self.mentioned(condition));
            if !branch.operator && !sabotage::on(Bug::GuardedEnd) {
                exempt.extend(self.tested(condition));
            }
        }
        (mentions, exempt)
    }

    /// The indices on which a condition may say something: those that it mentions elsewhere than in
    /// what it draws by.
    fn tested(&self, condition: ExprId) -> Vec<IndexId> {
        let (mut tested, mut pending) = (vec![], vec![condition]);
        let mut seen = BTreeSet::new();
        while let Some(id) = pending.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.out.exprs[id].kind {
                Kind::Math(function, _) if function.is_random() => {}
                Kind::Unary(_, a) | Kind::Cast(a) | Kind::Bitcast(a) => pending.push(*a),
                Kind::Binary(_, a, b) | Kind::Compare(_, a, b) => pending.extend([*a, *b]),
                Kind::If { condition: a, then: b, otherwise: c } => pending.extend([*a, *b, *c]),
                Kind::Math(_, list) => pending.extend(list),
                Kind::State { .. } => tested.extend_from_slice(self.free(id)),
                _ => tested.extend_from_slice(self.mentioned(id)),
            }
        }
        tested
    }
}
