//! The axes that have to be cut together, and what stands in the way.
//!
//! Each index, each axis of a parameter and each axis of another array is a node. Nodes are joined
//! where an access has an index in a subscript: after `x[i + 1]`, a cut of `i` is one of the first
//! axis of `x`. A few groups of nodes are left. A refusal is noted at a node and holds for
//! its group.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::checked::{Checked, Expr, ExprId, IndexId, Kind, LoopId, Subscript};
use ir::{Affine, Size};

use super::Refusal;

/// A node: the number of an index, or a later one.
pub(super) type Node = usize;

/// The groups of axes of a function.
pub(super) struct Axes {
    parents: Vec<Node>,
    /// The length of each node; `None` if it depends on other indices or on data.
    lengths: Vec<Option<Size>>,
    /// The nodes of the axes of each parameter.
    pub params: Vec<Vec<Node>>,
    states: BTreeMap<(LoopId, usize), Vec<Node>>,
    /// The nodes of the axes of each array expression.
    pub arrays: SecondaryMap<ExprId, Vec<Node>>,
    /// The free indices of each expression.
    pub free: SecondaryMap<ExprId, Rc<[IndexId]>>,
    /// Whether an expression reads a recurrence that is not complete.
    pub earlier: SecondaryMap<ExprId, bool>,
    /// Whether a result depends on an expression.
    pub reached: SecondaryMap<ExprId, bool>,
    /// The indices of reductions.
    reduced: BTreeSet<IndexId>,
    refusals: Vec<(Node, Refusal)>,
}

/// How a subscript reads an axis.
pub(super) enum Read {
    /// At one place.
    Fixed,
    /// Along an index, from `lo` to `hi` away from it.
    Along { index: IndexId, lo: Size, hi: Size },
    /// Along several equally good indices, or an index in steps or backwards.
    Skewed,
    /// Where data says.
    Anywhere,
}

impl Axes {
    /// Looks at every expression that a result depends on.
    pub fn new(checked: &Checked, text: &dyn Fn(&Expr) -> String) -> Axes {
        let mut axes = Axes {
            parents: vec![],
            lengths: vec![],
            params: vec![],
            states: BTreeMap::new(),
            arrays: SecondaryMap::new(),
            free: SecondaryMap::with_default(Rc::from([])),
            earlier: SecondaryMap::new(),
            reached: reached(checked),
            reduced: BTreeSet::new(),
            refusals: vec![],
        };
        for index in checked.indices.values() {
            axes.node(index.extent.as_size().cloned());
        }
        for param in &checked.params {
            let nodes = param.ty.shape.iter().map(|length| axes.node(Some(length.clone()))).collect();
            axes.params.push(nodes);
        }
        for (id, expr) in &checked.exprs {
            if axes.reached[id] {
                axes.free[id] = axes.free_of(checked, &expr.kind);
                axes.earlier[id] = matches!(expr.kind, Kind::Earlier { .. });
                if !matches!(expr.kind, Kind::Recurrence { .. }) {
                    checked.for_each_operand(&expr.kind, |operand| axes.earlier[id] |= axes.earlier[operand]);
                }
                if let Kind::Reduce { over, .. } | Kind::Contract { over, .. } = &expr.kind {
                    axes.reduced.extend(over);
                }
            }
        }
        for (id, expr) in &checked.exprs {
            if axes.reached[id] {
                axes.look(checked, id, expr, text);
            }
        }
        axes.look_at_loops(checked);
        for (id, expr) in &checked.exprs {
            if axes.reached[id] {
                axes.hold_apart(checked, id, expr, text);
            }
        }
        axes
    }

    fn node(&mut self, length: Option<Size>) -> Node {
        self.parents.push(self.parents.len());
        self.lengths.push(length);
        self.parents.len() - 1
    }

    /// The group of a node, by its first node.
    pub fn group(&self, mut node: Node) -> Node {
        while self.parents[node] != node {
            node = self.parents[node];
        }
        node
    }

    /// The group of an index.
    pub fn of(&self, index: IndexId) -> Node {
        self.group(index.index())
    }

    /// The length of a node, if it depends on no other index and no data.
    pub fn length(&self, node: Node) -> Option<&Size> {
        self.lengths[node].as_ref()
    }

    /// Why a group cannot be cut: the first reason.
    pub fn refusal(&self, group: Node) -> Option<&Refusal> {
        self.refusals.iter().find(|(node, _)| self.group(*node) == group).map(|(_, refusal)| refusal)
    }

    pub fn refuse(&mut self, node: Node, expr: &Expr, message: String, help: &str) {
        self.refusals.push((node, Refusal { message, help: help.to_owned(), origin: expr.origin }));
    }

    fn join(&mut self, a: Node, b: Node) {
        let (a, b) = (self.group(a), self.group(b));
        self.parents[a.max(b)] = a.min(b);
    }

    fn free_of(&self, checked: &Checked, kind: &Kind) -> Rc<[IndexId]> {
        let mut free: BTreeSet<IndexId> = BTreeSet::new();
        if let Kind::Index(index) = kind {
            free.insert(*index);
        }
        if let Kind::State { of, .. } = kind {
            free.insert(checked.loops[*of].step);
        }
        if let Kind::Reduce { by, .. } = kind {
            free.extend(by.iter().filter_map(ir::checked::Factor::key_of));
        }
        checked.for_each_operand(kind, |operand| free.extend(self.free[operand].iter()));
        for index in checked.bound(kind) {
            if let ir::checked::Extent::Affine(extent) = &checked.indices[index].extent {
                free.extend(extent.terms().iter().map(|(index, _)| index));
            }
        }
        for index in checked.bound(kind) {
            free.remove(&index);
        }
        free.into_iter().collect()
    }

    /// Finds the nodes of an array, and joins those of an access with its indices.
    fn look(&mut self, checked: &Checked, id: ExprId, expr: &Expr, text: &dyn Fn(&Expr) -> String) {
        match &expr.kind {
            Kind::Param(number) => self.arrays[id] = self.params[*number].clone(),
            Kind::Comprehension { indices, body } => {
                let nodes = indices.iter().map(|index| index.index());
                self.arrays[id] = nodes.chain(self.arrays[*body].iter().copied()).collect();
            }
            Kind::Reshape(from) => self.reshape(checked, id, *from, text),
            Kind::ArrayLiteral(_) => {
                let nodes = expr.ty.shape.iter().map(|length| self.node(Some(length.clone()))).collect();
                self.arrays[id] = nodes;
                for node in self.arrays[id].clone() {
                    self.refuse(node, expr, "the elements of an array literal are together".into(), WHOLE);
                }
            }
            Kind::Sort { index: [index], .. } => {
                self.arrays[id] = vec![index.index()];
                let message = format!("`{}` sorts along it, and an element may come from any block", text(expr));
                self.refuse(index.index(), expr, message, WHOLE);
            }
            Kind::Recurrence { recurrence, array } | Kind::Earlier { recurrence, array, .. } => {
                let known = &checked.recurrences[*recurrence];
                let nodes = |array: usize| known.equations[array].indices.iter().map(|index| index.index());
                self.arrays[id] = nodes(*array).collect();
                for places in &known.independent {
                    let first = nodes(0).nth(places[0]);
                    for (array, place) in places.iter().enumerate() {
                        let other = nodes(array).nth(*place);
                        first.zip(other).into_iter().for_each(|(a, b)| self.join(a, b));
                    }
                }
                if matches!(expr.kind, Kind::Recurrence { .. }) {
                    for (array, equation) in known.equations.iter().enumerate() {
                        let independent = |axis: usize| known.independent.iter().any(|places| places[array] == axis);
                        let indices = equation.indices.iter().enumerate();
                        for (_, index) in indices.filter(|(axis, _)| !independent(*axis)) {
                            let body = &checked.exprs[equation.body];
                            let message = format!("each element depends on earlier ones: `{}`", text(body));
                            self.refuse(index.index(), body, message, WHOLE);
                        }
                    }
                }
            }
            Kind::State { of, number } | Kind::Loop { of, number, .. } => {
                let key = (*of, *number);
                if !self.states.contains_key(&key) {
                    let nodes = expr.ty.shape.iter().map(|length| self.node(Some(length.clone()))).collect();
                    self.states.insert(key, nodes);
                }
                self.arrays[id] = self.states[&key].clone();
            }
            Kind::Access { array, at } => self.access(checked, id, *array, at, text),
            Kind::Reduce { over, prefix: Some(prefix), .. } => {
                let (running, of) = (over[0].index(), prefix.of.index());
                self.join(running, of);
                let shorter = Size::constant(if prefix.inclusive { 0 } else { 1 });
                self.lengths[running] = self.lengths[of].as_ref().map(|length| length - &shorter);
            }
            Kind::Reduce { by, .. } => {
                for index in by.iter().filter_map(ir::checked::Factor::key_of) {
                    let message = format!("each key of `{}` takes elements of all blocks", text(expr));
                    self.refuse(index.index(), expr, message, WHOLE);
                }
            }
            _ => {}
        }
    }

    fn access(
        &mut self,
        checked: &Checked,
        id: ExprId,
        array: ExprId,
        at: &[Subscript],
        text: &dyn Fn(&Expr) -> String,
    ) {
        let expr = &checked.exprs[id];
        for (axis, subscript) in at.iter().enumerate() {
            let node = self.arrays[array][axis];
            match self.read(checked, subscript) {
                Read::Along { index, .. } => {
                    self.join(index.index(), node);
                    let affine = subscript.affine.iter().flat_map(|affine| affine.terms());
                    for (other, _) in affine.filter(|(other, _)| *other != index) {
                        let message = format!("`{}` adds `{}` to another index", text(expr), name(checked, *other));
                        self.refuse(other.index(), expr, message, WHOLE);
                    }
                }
                Read::Fixed if self.length(node).is_some_and(|n| n.as_constant() == Some(1)) => {}
                Read::Fixed => {
                    let message = format!("`{}` is one place of it, which every block would need", text(expr));
                    self.refuse(node, expr, message, "pass that element as a parameter of its own");
                }
                Read::Skewed => {
                    let message = format!("`{}` reads it in steps, backwards or along several indices", text(expr));
                    self.refuse(node, expr, message.clone(), WHOLE);
                    for (index, _) in subscript.affine.iter().flat_map(|affine| affine.terms()) {
                        self.refuse(index.index(), expr, message.clone(), WHOLE);
                    }
                }
                Read::Anywhere => {
                    let message = format!("`{}` reads it wherever data says", text(expr));
                    self.refuse(node, expr, message, WHOLE);
                }
            }
        }
    }

    /// How a subscript reads an axis.
    pub fn read(&self, checked: &Checked, subscript: &Subscript) -> Read {
        let Some(affine) = &subscript.affine else { return Read::Anywhere };
        if affine.terms().is_empty() {
            return Read::Fixed;
        }
        let extent = |index: &IndexId| checked.indices[*index].extent.as_size();
        let one = |size: &Size| size.as_constant() == Some(1);
        let mut along: Vec<IndexId> = affine.terms().iter().filter(|(_, c)| one(c)).map(|(i, _)| *i).collect();
        // Of several indices, those over a number of elements are a window around another one, and
        // so are those of reductions.
        for window in [&|i: &IndexId| extent(i).is_some_and(|n| n.as_constant().is_some()), &|i: &IndexId| {
            self.reduced.contains(i)
        }] as [&dyn Fn(&IndexId) -> bool; 2]
        {
            if along.len() > 1 && !along.iter().all(window) {
                along.retain(|index| !window(index));
            }
        }
        let [index] = along[..] else { return Read::Skewed };
        let (mut lo, mut hi) = (affine.constant_part().clone(), affine.constant_part().clone());
        for (other, coefficient) in affine.terms().iter().filter(|(other, _)| *other != index) {
            let (Some(length), Some(by)) = (extent(other), coefficient.as_constant()) else { return Read::Skewed };
            let furthest = &(length - &Size::constant(1)) * &Size::constant(by);
            let end = if by < 0 { &mut lo } else { &mut hi };
            *end = &*end + &furthest;
        }
        Read::Along { index, lo, hi }
    }

    /// A reshape keeps the axes before and behind those that it merges or splits.
    fn reshape(&mut self, checked: &Checked, id: ExprId, from: ExprId, text: &dyn Fn(&Expr) -> String) {
        let expr = &checked.exprs[id];
        let nodes: Vec<Node> = expr.ty.shape.iter().map(|length| self.node(Some(length.clone()))).collect();
        self.arrays[id] = nodes.clone();
        let source = self.arrays[from].clone();
        let mut kept = BTreeSet::new();
        let is_one = |this: &Axes, node: &Node| this.length(*node).is_some_and(|n| n.as_constant() == Some(1));
        let long = |this: &Axes, nodes: &[Node]| nodes.iter().copied().filter(|n| !is_one(this, n)).collect::<Vec<_>>();
        let (old, new) = (long(self, &source), long(self, &nodes));
        let alike = |this: &Axes, a: Node, b: Node| this.length(a).is_some() && this.length(a) == this.length(b);
        let pairs: Vec<(Node, Node)> = old.iter().copied().zip(new.iter().copied()).collect();
        let same = pairs.iter().take_while(|(a, b)| alike(self, *a, *b)).count();
        let behind: Vec<(Node, Node)> = old.iter().rev().copied().zip(new.iter().rev().copied()).collect();
        let last = behind.iter().take_while(|(a, b)| alike(self, *a, *b)).count();
        let last = last.min(old.len().min(new.len()) - same);
        for (a, b) in pairs[..same].iter().chain(&behind[..last]) {
            self.join(*a, *b);
            kept.extend([*a, *b]);
        }
        for node in old.into_iter().chain(new).filter(|node| !kept.contains(node)) {
            let message = format!("`{}` merges it with another axis, or splits it", text(expr));
            self.refuse(node, expr, message, WHOLE);
        }
    }

    /// Joins the axes of the states of loops with those of their values.
    fn look_at_loops(&mut self, checked: &Checked) {
        for (of, number) in self.states.keys().copied().collect::<Vec<_>>() {
            let state = &checked.loops[of].states[number];
            let nodes = self.states[&(of, number)].clone();
            for (axis, node) in nodes.into_iter().enumerate() {
                for value in [state.first, state.next] {
                    if let Some(other) = self.arrays[value].get(axis).copied() {
                        self.join(node, other);
                    }
                }
            }
        }
        for (index, of) in checked.steps.iter() {
            if let Some(of) = of {
                let expr = &checked.exprs[checked.loops[*of].states[0].next];
                let message = format!("`{}` counts the steps of a loop", name(checked, index));
                self.refuse(index.index(), expr, message, WHOLE);
            }
        }
    }

    /// Refuses to cut a group if an element depends on two places of it.
    fn hold_apart(&mut self, checked: &Checked, id: ExprId, expr: &Expr, text: &dyn Fn(&Expr) -> String) {
        // The index of a scan runs with the one that ends it.
        let bound = checked.bound(&expr.kind).filter(|_| !matches!(expr.kind, Kind::Reduce { prefix: Some(_), .. }));
        let indices = self.free[id].iter().copied().chain(bound).map(|index| index.index());
        let both: [Vec<Node>; 2] = [indices.collect(), self.arrays[id].clone()];
        for nodes in both {
            let mut seen = BTreeSet::new();
            let twice = nodes.iter().map(|node| self.group(*node)).find(|group| !seen.insert(*group));
            if let Some(group) = twice {
                let message = format!("`{}` pairs its elements with one another", text(expr));
                let help =
                    "give the array to two parameters, one for each index: then a block of one meets all of the other";
                self.refuse(group, expr, message, help);
            }
        }
        let over: &[IndexId] = match &expr.kind {
            Kind::Reduce { over, .. } | Kind::Contract { over, .. } => over,
            _ => return,
        };
        let in_loop = self.free[id].iter().any(|index| checked.steps[*index].is_some());
        let why = if in_loop {
            "every step of its loop needs a value of all blocks"
        } else if self.earlier[id] {
            "every element of its recurrence needs a value of all blocks"
        } else if expr.guard != Checked::TOP {
            "it is computed only under the condition around it"
        } else if over.iter().chain(&*self.free[id]).any(|index| self.length(index.index()).is_none()) {
            "it ends where another index or data says"
        } else {
            return;
        };
        for index in over {
            self.refuse(index.index(), expr, format!("`{}`: {why}", text(expr)), WHOLE);
        }
    }
}

/// The usual way out.
pub(super) const WHOLE: &str = "keep the axis in one block, and cut another one";

/// The name of an index.
pub(super) fn name(checked: &Checked, index: IndexId) -> &str {
    &checked.indices[index].name
}

/// The expressions that a result depends on.
fn reached(checked: &Checked) -> SecondaryMap<ExprId, bool> {
    let mut reached = SecondaryMap::new();
    for (_, result) in &checked.results {
        reached[*result] = true;
    }
    for (id, expr) in checked.exprs.iter().rev() {
        if reached[id] {
            checked.for_each_operand(&expr.kind, |operand| reached[operand] = true);
        }
    }
    reached
}

/// An expression without indices.
pub(super) fn sized(size: Size) -> Affine<IndexId> {
    Affine::size(size)
}
