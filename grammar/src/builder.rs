//! The semantic actions of the grammar: they put nodes into the arena, keep track of their depth,
//! and report the errors that are easier to detect here than to exclude by grammar rules.

use cranelift_entity::PrimaryMap;

use crate::ast::{
    Arg, BinaryOp, Binder, Block, Bound, Decorator, Definition, Derivative, Dtype, Equation, Expr, ExprId, ExprKind,
    Item, Let, Loop, Name, Param, Pattern, Results, Span, State, Target, Type, UnaryOp, Use,
};
use crate::codes;
use crate::diagnostic::Diagnostic;
use crate::hints;
use crate::lexer::integer;
use crate::report::{Errors, quote};
use crate::{MAX_DEPTH, depth_error};

/// A piece of source that the parser reads in one go.
pub(crate) enum Piece {
    /// A `use`.
    Use(Use),
    /// A function up to `=`, `{` or `where`.
    Header(Box<Header>),
    /// A `let`.
    Let(Box<Let>),
    /// An expression, where a statement or the result of a function may stand.
    Result(ExprId),
}

/// A function up to `=` or `{`.
pub(crate) struct Header {
    pub(crate) decorators: Vec<Decorator>,
    pub(crate) name: Name,
    pub(crate) params: Vec<Param>,
    pub(crate) results: Option<Results>,
    /// From `fn` to the end of the result types.
    pub(crate) span: Span,
}

/// An expression that has been read.
#[derive(Clone, Copy)]
pub(crate) struct E {
    pub(crate) id: ExprId,
    /// How deep it is, in nodes and parentheses.
    depth: u32,
    /// The right operand, if this is a comparison that is not in parentheses.
    compared: Option<Span>,
}

/// An argument of a call.
pub(crate) struct Argument {
    pub(crate) name: Option<Name>,
    pub(crate) value: E,
    pub(crate) span: Span,
}

/// A subscript, which may turn out to be an index of a reducer.
pub(crate) struct Subscript {
    item: Item,
    depth: u32,
    span: Span,
}

/// The indices of a reducer as they are read.
pub(crate) struct Indices {
    pub(crate) items: Vec<Subscript>,
    /// After `where`.
    pub(crate) filter: Option<E>,
}

/// An item in the head of a loop.
pub(crate) enum LoopItem {
    /// `name = first`
    State(Name, E),
    /// `t < n`, unless it is something else.
    Counter(Subscript),
}

/// The block of a loop, which has been read before the loop.
pub(crate) struct Body {
    /// Where it begins.
    pub(crate) start: u32,
    pub(crate) block: Block,
    /// How deep its expressions are.
    pub(crate) depth: u32,
}

/// Where a binder stands.
enum Bindery<'a> {
    /// In the brackets of a reducer of this name.
    Reducer(&'a Name),
    /// On the left side of a `let`.
    Array,
    /// In the head of a loop.
    Loop,
}

/// From byte to byte.
pub(crate) fn span(start: u32, end: u32) -> Span {
    Span { start, end }
}

/// The tree as far as it has been built.
pub(crate) struct Builder<'s> {
    pub(crate) source: &'s str,
    pub(crate) exprs: PrimaryMap<ExprId, Expr>,
    pub(crate) errors: Errors,
    /// The tuples of this piece that have not yet been found to stand where a tuple is allowed.
    tuples: Vec<ExprId>,
    /// The chains of two comparisons of this piece that have not yet been found to be the bounds of
    /// an index, each with its error.
    chains: Vec<(ExprId, Diagnostic)>,
    /// Whether the depth of this piece has already been reported.
    too_deep: bool,
    /// How deep the expressions of this block are.
    pub(crate) deepest: u32,
    /// The blocks of the loops that have not been built yet.
    pub(crate) bodies: Vec<Body>,
}

impl<'s> Builder<'s> {
    /// An empty tree over `source`.
    pub(crate) fn new(source: &'s str, errors: Errors) -> Builder<'s> {
        let (tuples, chains, bodies) = (vec![], vec![], vec![]);
        Builder { source, exprs: PrimaryMap::new(), errors, tuples, chains, too_deep: false, deepest: 0, bodies }
    }

    /// The same, but nodes are added to those of the files read before.
    pub(crate) fn after(exprs: PrimaryMap<ExprId, Expr>, source: &'s str, errors: Errors) -> Builder<'s> {
        Builder { exprs, ..Builder::new(source, errors) }
    }

    /// The source text of a span.
    pub(crate) fn text(&self, span: Span) -> &'s str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Ends a piece: reports its tuples and chains that stand where none is allowed.
    pub(crate) fn end_piece(&mut self) {
        self.too_deep = false;
        std::mem::take(&mut self.chains).into_iter().for_each(|(_, error)| self.errors.push(error));
        for tuple in std::mem::take(&mut self.tuples) {
            let diagnostic = Diagnostic::new(codes::TUPLE, self.exprs[tuple].span, "expected one value, found a tuple");
            let note = "a tuple is what a function results in, and what `let (a, b) = ...` takes apart";
            self.errors.push(
                diagnostic.note(note).help("give each value a name, `let (a, b) = (..., ...)`; an array is `[a, b]`"),
            );
        }
    }

    /// Adds a node. The deepest of its operands is `below` deep.
    fn node(&mut self, kind: ExprKind, below: u32, l: u32, r: u32) -> E {
        let depth = self.check_depth(below + 1, l, r);
        E { id: self.exprs.push(Expr::new(kind, span(l, r))), depth, compared: None }
    }

    /// Reports a piece that is deeper than the limit, once; counting then starts over.
    fn check_depth(&mut self, depth: u32, l: u32, r: u32) -> u32 {
        if depth <= MAX_DEPTH {
            self.deepest = self.deepest.max(depth);
            return depth;
        }
        if !self.too_deep {
            self.too_deep = true;
            self.errors.push(depth_error(span(l, r)));
        }
        0
    }

    pub(crate) fn name(&self, span: Span) -> Name {
        Name { text: self.text(span).to_owned(), span }
    }

    /// The path in a text in quotes.
    pub(crate) fn path(&self, span: Span) -> Name {
        let text = self.text(span);
        let path = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        Name { text: path.to_owned(), span }
    }

    pub(crate) fn name_expr(&mut self, l: u32, r: u32) -> E {
        let text = self.text(span(l, r)).to_owned();
        self.node(ExprKind::Name(text), 0, l, r)
    }

    pub(crate) fn hole(&mut self, l: u32, r: u32) -> E {
        self.node(ExprKind::Hole, 0, l, r)
    }

    /// A number. The lexer has already checked that it is well formed.
    pub(crate) fn number(&mut self, l: u32, r: u32) -> E {
        let written = self.text(span(l, r));
        let kind = match integer(written) {
            Some(value) => ExprKind::Int(value.unwrap_or_else(|_| {
                let message = format!("{} does not fit into 64 bits", quote(written));
                let help = match written.starts_with("0x") || written.starts_with("0b") {
                    true => format!("the largest integer is 0x{:x}", u64::MAX),
                    false => format!("the largest integer is {}; with a decimal point it is a float", u64::MAX),
                };
                self.errors.push(Diagnostic::new(codes::INTEGER_TOO_LARGE, span(l, r), message).help(help));
                0
            })),
            None => ExprKind::Float(written.replace('_', "")),
        };
        self.node(kind, 0, l, r)
    }

    pub(crate) fn parens(&mut self, inner: E, l: u32, r: u32) -> E {
        self.exprs[inner.id].span = span(l, r);
        E { id: inner.id, depth: self.check_depth(inner.depth + 1, l, r), compared: None }
    }

    pub(crate) fn unary(&mut self, op: UnaryOp, x: E, l: u32, r: u32) -> E {
        self.node(ExprKind::Unary(op, x.id), x.depth, l, r)
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, x: E, y: E, l: u32, r: u32) -> E {
        self.node(ExprKind::Binary(op, x.id, y.id), x.depth.max(y.depth), l, r)
    }

    pub(crate) fn comparison(&mut self, op: BinaryOp, x: E, y: E, l: u32, r: u32) -> E {
        let right = self.exprs[y.id].span;
        // One report is enough for a chain of comparisons.
        let compared = if x.compared.is_none() { Some(right) } else { None };
        let comparison = E { compared, ..self.binary(op, x, y, l, r) };
        if let Some(middle) = x.compared
            && !self.errors.full()
        {
            let left = self.exprs[x.id].span;
            let [left, middle, right] = [left, middle, right].map(|part| self.text(part));
            let diagnostic = Diagnostic::new(codes::COMPARISON_CHAIN, span(l, r), "comparisons do not form chains");
            let error = match left.len() + middle.len() + right.len() < 60 {
                true => {
                    let both = format!("{left} && {middle} {} {right}", op.symbol());
                    diagnostic.help(format!("write `{both}`")).suggest(span(l, r), both)
                }
                false => diagnostic.help("write `a < b && b < c`"),
            };
            self.chains.push((comparison.id, error));
        }
        comparison
    }

    /// An `if`. One that chooses tuples is the tuple of the parts that it chooses.
    pub(crate) fn condition(&mut self, c: E, x: E, y: E, l: u32, r: u32) -> E {
        let below = c.depth.max(x.depth).max(y.depth);
        let (ExprKind::Tuple(a), ExprKind::Tuple(b)) = (&self.exprs[x.id].kind, &self.exprs[y.id].kind) else {
            return self.node(ExprKind::If { condition: c.id, then: x.id, otherwise: y.id }, below, l, r);
        };
        if a.len() != b.len() {
            let message = format!("the branches are tuples of {} and {} values", a.len(), b.len());
            self.errors.push(Diagnostic::new(codes::TUPLE, span(l, r), message).help("give both as many values"));
        }
        let parts: Vec<(ExprId, ExprId)> = a.iter().copied().zip(b.iter().copied()).collect();
        self.tuples.retain(|tuple| ![x.id, y.id].contains(tuple));
        let choose = |(then, otherwise)| self.node(ExprKind::If { condition: c.id, then, otherwise }, below, l, r);
        let mut chosen = parts.into_iter().map(choose).collect::<Vec<E>>().into_iter();
        match chosen.next() {
            Some(first) => self.tuple(first, chosen.collect(), l, r),
            None => self.node(ExprKind::Tuple(vec![]), below, l, r),
        }
    }

    pub(crate) fn array(&mut self, elements: Vec<E>, l: u32, r: u32) -> E {
        let kind = ExprKind::Array(elements.iter().map(|element| element.id).collect());
        self.node(kind, deepest(elements.iter().map(|element| element.depth)), l, r)
    }

    pub(crate) fn tuple(&mut self, first: E, rest: Vec<E>, l: u32, r: u32) -> E {
        let elements = || std::iter::once(&first).chain(&rest);
        let kind = ExprKind::Tuple(elements().map(|element| element.id).collect());
        let tuple = self.node(kind, deepest(elements().map(|element| element.depth)), l, r);
        self.tuples.push(tuple.id);
        tuple
    }

    /// A `let`. If it has several names, its value may be a tuple.
    pub(crate) fn let_(&mut self, target: Target, value: E, l: u32, r: u32) -> Let {
        if matches!(target.pattern, Pattern::Tuple(_)) {
            self.result(value);
        }
        Let { definition: Definition::Values { target, value: value.id }, span: span(l, r) }
    }

    /// An array of a recurrence.
    pub(crate) fn equation(&mut self, name: Name, items: &[Subscript], value: E) -> Equation {
        let binders = items.iter().filter_map(|item| self.binder(&Bindery::Array, item)).collect();
        Equation { name, binders, value: value.id }
    }

    /// The target of a `let` with indices.
    pub(crate) fn indexed(&mut self, pattern: Pattern, items: &[Subscript]) -> Target {
        let binders = items.iter().filter_map(|item| self.binder(&Bindery::Array, item)).collect();
        Target { pattern, binders }
    }

    /// An expression where a tuple may stand.
    pub(crate) fn result(&mut self, result: E) -> ExprId {
        self.tuples.pop_if(|tuple| *tuple == result.id);
        result.id
    }

    pub(crate) fn cast(&mut self, to: Dtype, x: E, l: u32, r: u32) -> E {
        self.node(ExprKind::Cast(to, x.id), x.depth, l, r)
    }

    pub(crate) fn bitcast(&mut self, callee: Name, to: Dtype, x: E, l: u32, r: u32) -> E {
        self.node(ExprKind::Bitcast { callee, to, of: x.id }, x.depth, l, r)
    }

    pub(crate) fn call(&mut self, callee: Name, args: Vec<Argument>, l: u32, r: u32) -> E {
        let below = deepest(args.iter().map(|arg| arg.value.depth));
        if let Some(named) = args.iter().position(|arg| arg.name.is_some())
            && let Some(late) = args[named..].iter().find(|arg| arg.name.is_none())
        {
            let message = "a positional argument comes after a named one";
            self.errors.push(
                Diagnostic::new(codes::POSITIONAL_AFTER_NAMED, late.span, message)
                    .label(args[named].span, "this one is named")
                    .help("put the named arguments last"),
            );
        }
        for arg in args.iter().filter(|arg| arg.name.is_none()) {
            // `reshape(x, (n, m))`: other languages put the shape in parentheses.
            if let Some(at) = self.tuples.iter().position(|tuple| *tuple == arg.value.id) {
                self.tuples.remove(at);
                let inner = self.text(arg.span).trim_start_matches('(').trim_end_matches(')').to_owned();
                let message = "expected one value, found a tuple";
                self.errors.push(
                    Diagnostic::new(codes::TUPLE, arg.span, message)
                        .help("give the values as arguments of their own")
                        .suggest(arg.span, inner),
                );
            }
        }
        let args = args.into_iter().map(|arg| Arg { name: arg.name, value: arg.value.id }).collect();
        self.node(ExprKind::Call { callee, args }, below, l, r)
    }

    pub(crate) fn at(&mut self, at: E, l: u32, r: u32) -> Subscript {
        Subscript { item: Item::At(at.id), depth: at.depth, span: span(l, r) }
    }

    pub(crate) fn slice(&mut self, start: Option<E>, stop: Option<E>, step: Option<E>, l: u32, r: u32) -> Subscript {
        let depth = deepest([start, stop, step].into_iter().flatten().map(|part| part.depth));
        let [start, stop, step] = [start, stop, step].map(|part| part.map(|part| part.id));
        Subscript { item: Item::Slice { start, stop, step, span: span(l, r) }, depth, span: span(l, r) }
    }

    pub(crate) fn index(&mut self, base: E, items: Vec<Subscript>, l: u32, r: u32) -> E {
        let below = base.depth.max(deepest(items.iter().map(|item| item.depth)));
        let items = items.into_iter().map(|item| item.item).collect();
        self.node(ExprKind::Index { base: base.id, items }, below, l, r)
    }

    pub(crate) fn index_name(&mut self, base: Name, items: Vec<Subscript>, l: u32, r: u32) -> E {
        let base = self.node(ExprKind::Name(base.text), 0, base.span.start, base.span.end);
        self.index(base, items, l, r)
    }

    /// `name[items where filter](args)`: the items are indices, and there is one argument.
    pub(crate) fn reduce(&mut self, callee: Name, indices: Indices, args: Vec<Argument>, l: u32, r: u32) -> E {
        let Indices { items, filter } = indices;
        let inside = items.iter().map(|item| item.depth).chain(filter.map(|filter| filter.depth));
        let below = deepest(inside.chain(args.iter().map(|arg| arg.value.depth)));
        if let "grad" | "jvp" = callee.text.as_str() {
            return self.derivative(&callee, &items, filter, &args, below, span(l, r));
        }
        let binders = items.iter().filter_map(|item| self.binder(&Bindery::Reducer(&callee), item)).collect();
        let body = match args.as_slice() {
            [Argument { name: None, value, .. }] => value.id,
            _ => {
                let (found, at) = match args.as_slice() {
                    [] => ("none".to_owned(), span(l, r)),
                    [Argument { span, .. }] => ("a named one".to_owned(), *span),
                    [_, second, ..] => (args.len().to_string(), second.span),
                };
                let message = format!("{} with indices takes one argument, found {found}", quote(&callee.text));
                self.errors.push(Diagnostic::new(codes::REDUCER_ARGUMENT, at, message));
                self.hole(l, r).id
            }
        };
        let filter = filter.map(|filter| filter.id);
        self.node(ExprKind::Reduce { callee, binders, filter, body }, below, l, r)
    }

    /// `grad[a, b](value)` or `jvp[a, b](value, da, db)`.
    fn derivative(
        &mut self,
        callee: &Name,
        items: &[Subscript],
        filter: Option<E>,
        args: &[Argument],
        below: u32,
        at: Span,
    ) -> E {
        let name = quote(&callee.text);
        let mut of = vec![];
        for item in items {
            match item.item {
                Item::At(id) if let ExprKind::Name(text) = &self.exprs[id].kind => {
                    of.push(Name { text: text.clone(), span: item.span });
                }
                Item::At(_) | Item::Slice { .. } => {
                    let error = Diagnostic::new(codes::BINDER, item.span, format!("{name} takes the names of values"));
                    self.errors.push(error.help("name the value before: `let y = ...`"));
                }
            }
        }
        if let Some(filter) = filter {
            let error = Diagnostic::new(codes::BINDER, self.exprs[filter.id].span, format!("{name} has no condition"));
            self.errors.push(error.help("put it into the expression: `if c then e else 0`"));
        }
        let wanted = if callee.text == "jvp" { items.len() + 1 } else { 1 };
        if args.len() != wanted || args.iter().any(|arg| arg.name.is_some()) {
            let takes = match wanted {
                1 => "one argument".to_owned(),
                _ => format!("{wanted} arguments: an expression, and the change of each value"),
            };
            let message = format!("{name} takes {takes}, found {}", args.len());
            self.errors.push(Diagnostic::new(codes::REDUCER_ARGUMENT, at, message));
        }
        let mut values = args.iter().map(|arg| arg.value.id);
        let value = values.next().unwrap_or_else(|| self.hole(at.start, at.end).id);
        let changes = (callee.text == "jvp").then(|| values.collect());
        self.node(ExprKind::Derivative(Derivative { of, value, changes }), below, at.start, at.end)
    }

    /// `loop items while condition block`: at most one of the items is a counter.
    pub(crate) fn loop_(&mut self, items: Vec<LoopItem>, condition: Option<E>, block: u32, l: u32, r: u32) -> E {
        let body = self.bodies.iter().position(|body| body.start == block).map(|at| self.bodies.remove(at));
        let Some(Body { block: body, depth, .. }) = body else { return self.hole(l, r) };
        let mut below = depth.max(condition.map_or(0, |condition| condition.depth));
        let (mut states, mut counter) = (vec![], None);
        for item in items {
            match item {
                LoopItem::State(name, first) => {
                    below = below.max(first.depth);
                    states.push(State { name, first: first.id });
                }
                LoopItem::Counter(item) => {
                    below = below.max(item.depth);
                    let read = self.binder(&Bindery::Loop, &item);
                    if counter.is_some() && read.is_some() {
                        let error = Diagnostic::new(codes::LOOP, item.span, "a loop has one counter");
                        self.errors.push(error.help("count the steps, and state the other end after `while`"));
                    }
                    counter = counter.or(read);
                }
            }
        }
        if states.is_empty() {
            let error = Diagnostic::new(codes::LOOP, span(l, l + 4), "a loop has a state that its steps change");
            self.errors.push(
                error.help("give it a first value, `loop x = first, t < n { next }`; an array is `let y[i < n] = ...`"),
            );
        }
        let condition = condition.map(|condition| condition.id);
        self.node(ExprKind::Loop(Box::new(Loop { states, counter, condition, body })), below, l, r)
    }

    /// Reads a subscript as an index: `k`, `k < n`, `k <= i`, `a <= k < b`.
    fn binder(&mut self, bindery: &Bindery<'_>, item: &Subscript) -> Option<Binder> {
        let (index, lower, upper) = match item.item {
            Item::At(at) => self.bounds(at),
            Item::Slice { .. } => (None, None, None),
        };
        let name = index.map(|index| &self.exprs[index]).and_then(|index| match &index.kind {
            ExprKind::Name(text) => Some(Name { text: text.clone(), span: index.span }),
            _ => None,
        });
        let counts = upper.is_some() || !matches!(bindery, Bindery::Loop);
        if let Some(name) = name.filter(|_| counts) {
            if lower.is_some() && matches!(bindery, Bindery::Array) {
                let message = format!("the index {} of an array begins at 0", quote(&name.text));
                let help = "give it the number of elements, `k < b - a`, and add `a` where it is used";
                self.errors.push(Diagnostic::new(codes::BINDER, item.span, message).help(help));
                return None;
            }
            return Some(Binder { name, lower, upper });
        }
        // One error for an item is enough.
        let inside = |at: Span| item.span.start <= at.start && at.end <= item.span.end;
        self.chains.retain(|(_, error)| !inside(error.labels[0].span));
        let found = quote(self.text(item.span));
        let message = format!("expected an index such as `k` or `k < n`, found {found}");
        let error = Diagnostic::new(codes::BINDER, item.span, message);
        self.errors.push(match bindery {
            Bindery::Loop => {
                let message = format!("expected a state `x = first` or a counter `t < n`, found {found}");
                Diagnostic::new(codes::LOOP, item.span, message).help("a condition follows `while`")
            }
            Bindery::Reducer(callee) => {
                let callee = quote(&callee.text);
                error.note(format!("what is applied to an argument, {callee}, is a reducer with its indices"))
            }
            Bindery::Array => error.note("the brackets after the name that `let` binds hold the indices of an array"),
        });
        None
    }

    /// The expression that stands for an index, and its bounds from below and above.
    fn bounds(&mut self, at: ExprId) -> (Option<ExprId>, Option<Bound>, Option<Bound>) {
        let compared = |exprs: &PrimaryMap<ExprId, Expr>, at: ExprId| match exprs[at].kind {
            ExprKind::Binary(BinaryOp::Lt, left, right) => Some((left, false, right)),
            ExprKind::Binary(BinaryOp::Le, left, right) => Some((left, true, right)),
            _ => None,
        };
        let Some((left, inclusive, limit)) = compared(&self.exprs, at) else { return (Some(at), None, None) };
        let upper = Some(Bound { inclusive, limit });
        let chain = self.chains.iter().position(|(id, _)| *id == at);
        if let (Some(chain), Some((limit, inclusive, index))) = (chain, compared(&self.exprs, left)) {
            self.chains.remove(chain);
            return (Some(index), Some(Bound { inclusive, limit }), upper);
        }
        (Some(left), None, upper)
    }

    pub(crate) fn type_(&mut self, dtype: Dtype, shape: Option<Vec<E>>, l: u32, r: u32) -> Type {
        let shape = shape.into_iter().flatten().map(|size| size.id).collect();
        Type { dtype, shape, span: span(l, r) }
    }

    pub(crate) fn unknown_type(&mut self, name: &Name, shape: Option<Vec<E>>, l: u32, r: u32) -> Type {
        let diagnostic =
            Diagnostic::new(codes::UNKNOWN_TYPE, name.span, format!("there is no type {}", quote(&name.text)));
        self.errors.push(match hints::similar_type(&name.text) {
            Some(dtype) => diagnostic.help(format!("write `{}`", dtype.name())).suggest(name.span, dtype.name()),
            None if hints::ARRAYS.contains(&name.text.to_ascii_lowercase().as_str()) => {
                diagnostic.help("an array's type is that of its elements followed by its sizes: `f32[n]`")
            }
            None => {
                let all: Vec<_> = Dtype::ALL.iter().map(|dtype| format!("`{}`", dtype.name())).collect();
                diagnostic.help(format!("the types are {}", all.join(", ")))
            }
        });
        self.type_(Dtype::F32, shape, l, r)
    }
}

fn deepest(depths: impl Iterator<Item = u32>) -> u32 {
    depths.max().unwrap_or(0)
}
