//! Which programs compute a function in blocks: one for each stage of its reductions over the axes
//! that are cut, and one for its results.
//!
//! A reduction over a cut axis is a *value*: each block gives a partial result, and the values of
//! all blocks are joined in the order of the reduction ([`ir::order`]). A block of whole chunks
//! whose number is a power of two, and that begins at a multiple of it, is a node of the pairwise
//! levels; so the same reduction over such a block alone gives that node, bit for bit.

use std::collections::BTreeMap;

use cranelift_entity::{EntityRef, SecondaryMap};
use ir::checked::{Checked, ExprId, Factor, IndexId, Kind};
use ir::order::{BLOCK, LANES_CHUNK, SCAN_CHUNK};
use ir::{Dtype, Extreme, Monoid, Order, ReduceOp, Size};

use super::Refusal;
use super::axes::{Axes, Node, WHOLE};

/// The programs for a cut.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The partial results, in the order in which they are needed.
    pub values: Vec<Value>,
    /// The programs, each after those that compute values for it.
    pub stages: Vec<Stage>,
}

/// A reduction over an axis that is cut.
#[derive(Clone, Debug)]
pub struct Value {
    /// The reduction.
    pub expr: ExprId,
    /// How two partial results become one.
    pub join: Join,
    /// The type of a partial result.
    pub dtype: Dtype,
    /// The indices around it: the axes of the partial results.
    pub free: Vec<IndexId>,
    /// The groups of the cut axes that it reduces.
    pub over: Vec<Node>,
    /// The indices of these.
    pub indices: Vec<IndexId>,
    /// The pieces that it has to be computed in.
    pub unit: Option<Unit>,
    /// For a scan, the axis of the partial results along which it runs. Such a value has all
    /// prefixes: those of each piece, and the results of pieces, which are joined one after
    /// another.
    pub scan: Option<usize>,
}

/// How two partial results become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// By the operation.
    Monoid(Monoid),
    /// The place of the greater or lesser element, or of the first of equal ones: a partial result
    /// is the place and the element.
    Position(Extreme),
}

impl Join {
    /// The name of the reducer.
    pub fn name(self) -> &'static str {
        match self {
            Join::Monoid(monoid) => ReduceOp::Monoid(monoid).name(),
            Join::Position(extreme) => ReduceOp::Position(extreme).name(),
        }
    }
}

/// The pieces of a reduction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unit {
    /// The elements of a chunk of its order.
    pub chunk: Size,
    /// The elements for each setting of the index that is cut.
    pub inner: Size,
    /// The length of that index.
    pub length: Size,
    /// Whether a piece may have several chunks: a power of two, from a multiple of it on.
    pub joined: bool,
}

/// A program that computes something of a block.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The groups of axes that are cut in it.
    pub grid: Vec<Node>,
    /// The pieces that a block of it is computed in; all of it at once if there is none.
    pub unit: Option<Unit>,
    /// Its results.
    pub outputs: Vec<Output>,
}

/// A result of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A block of a result of the function.
    Result(usize),
    /// A partial result of a value.
    Value(usize),
}

/// The work of one program: outputs that need the same earlier values, either of results or of
/// partial results, over the same cuts and in the same pieces.
type Key = (usize, Kinds, Vec<Node>, Vec<Node>, Option<Unit>);

/// The kinds of outputs that a program has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kinds {
    Partial,
    Scans,
    Results,
}

/// Plans the programs for a cut of these groups of axes.
pub(super) fn plan(
    checked: &Checked,
    axes: &Axes,
    cut: &[Node],
    quoted: &dyn Fn(ExprId) -> String,
) -> Result<Plan, Refusal> {
    for group in cut {
        if let Some(refusal) = axes.refusal(*group) {
            return Err(refusal.clone());
        }
    }
    let within = |nodes: Vec<Node>| {
        let mut groups: Vec<Node> = nodes.iter().map(|n| axes.group(*n)).filter(|g| cut.contains(g)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    let nodes = |indices: &[IndexId]| indices.iter().map(|index| index.index()).collect::<Vec<Node>>();
    let mut values = vec![];
    let mut stages: BTreeMap<Key, Vec<Output>> = BTreeMap::new();
    let mut levels: SecondaryMap<ExprId, usize> = SecondaryMap::new();
    for (id, expr) in checked.exprs.iter().filter(|(id, _)| axes.reached[*id]) {
        let mut level = 0;
        checked.for_each_operand(&expr.kind, |operand| level = level.max(levels[operand]));
        levels[id] = level;
        let (Kind::Reduce { over, .. } | Kind::Contract { over, .. }) = &expr.kind else { continue };
        let reduced = within(nodes(over));
        if reduced.is_empty() {
            continue;
        }
        let value = value(checked, axes, id, reduced).map_err(|message| Refusal {
            message: format!("`{}` {message}", quoted(id)),
            help: WHOLE.to_owned(),
            origin: expr.origin,
        })?;
        let grid = within([nodes(&value.free), nodes(over)].concat());
        let kinds = if value.scan.is_some() { Kinds::Scans } else { Kinds::Partial };
        stages
            .entry((level, kinds, grid, value.over.clone(), value.unit.clone()))
            .or_default()
            .push(Output::Value(values.len()));
        values.push(value);
        levels[id] = level + 1;
    }
    for (number, (_, result)) in checked.results.iter().enumerate() {
        let grid = within(axes.arrays[*result].clone());
        stages.entry((levels[*result], Kinds::Results, grid, vec![], None)).or_default().push(Output::Result(number));
    }
    merge(&mut stages, &values);
    let stages = stages.into_iter().map(|((_, _, grid, _, unit), outputs)| Stage { grid, unit, outputs }).collect();
    Ok(Plan { values, stages })
}

/// Lets reductions in any order go along with those in pieces, which often read the same: a count
/// goes with a sum.
fn merge(stages: &mut BTreeMap<Key, Vec<Output>>, values: &[Value]) {
    let plain = |output: &Output| matches!(output, Output::Value(v) if matches!(values[*v].join, Join::Monoid(_)));
    let alone: Vec<Key> = stages.keys().filter(|key| key.1 == Kinds::Partial && key.4.is_none()).cloned().collect();
    for key in alone {
        if !stages[&key].iter().all(plain) {
            continue;
        }
        let fits = |other: &&Key| {
            other.4.is_some() && (other.0, &other.1, &other.2, &other.3) == (key.0, &key.1, &key.2, &key.3)
        };
        if let Some(other) = stages.keys().find(fits).cloned() {
            let outputs = stages.remove(&key).unwrap_or_default();
            stages.entry(other).or_default().extend(outputs);
        }
    }
}

/// A reduction over cut axes; or why it cannot be computed in blocks.
fn value(checked: &Checked, axes: &Axes, id: ExprId, over: Vec<Node>) -> Result<Value, &'static str> {
    let expr = &checked.exprs[id];
    let free = axes.free[id].to_vec();
    let (Kind::Reduce { over: all, .. } | Kind::Contract { over: all, .. }) = &expr.kind else {
        return Err("is no reduction");
    };
    let index_of = |group: &Node| all.iter().copied().find(|index| axes.of(*index) == *group);
    let indices = over.iter().filter_map(index_of).collect();
    let made = |join, unit| Value {
        expr: id,
        join,
        dtype: expr.ty.dtype,
        free: free.clone(),
        over: over.clone(),
        indices,
        unit,
        scan: None,
    };
    if let Kind::Reduce { op, over: running, prefix: Some(prefix), .. } = &expr.kind {
        let ReduceOp::Monoid(monoid) = *op else { return Err("numbers the elements of a prefix") };
        let scan = free.iter().position(|index| *index == prefix.of);
        let length = axes.length(running[0].index()).cloned().ok_or("ends where another index says")?;
        let chunk = Size::constant(SCAN_CHUNK as i64);
        let unit = Unit { chunk, inner: Size::constant(1), length, joined: false };
        let unit = monoid.depends_on_order(expr.ty.dtype).then_some(unit);
        return Ok(Value { scan, ..made(Join::Monoid(monoid), unit) });
    }
    let number = |value: usize| Size::constant(value as i64);
    let (op, indices, order, by) = match &expr.kind {
        Kind::Reduce { op, over, order, by, .. } => (*op, over, *order, by),
        _ => {
            let Kind::Contract { over: indices, .. } = &expr.kind else { return Err("is no reduction") };
            let length = indices.iter().find(|index| over.contains(&axes.of(**index)));
            let length = length.and_then(|index| checked.indices[*index].extent.as_size()).cloned();
            let length = length.ok_or("ends where another index says")?;
            let unit = Unit { chunk: number(LANES_CHUNK), inner: Size::constant(1), length, joined: false };
            return match over.len() {
                1 => Ok(made(Join::Monoid(Monoid::Sum), Some(unit))),
                _ => Err("sums over two axes that are cut"),
            };
        }
    };
    let outermost = over.len() == 1 && indices.first().is_some_and(|index| over.contains(&axes.of(*index)));
    let monoid = match op {
        ReduceOp::Monoid(monoid) => monoid,
        ReduceOp::Position(extreme) if outermost => return Ok(made(Join::Position(extreme), None)),
        ReduceOp::Position(_) => return Err("numbers its elements along another axis first"),
    };
    if !monoid.depends_on_order(expr.ty.dtype) {
        return Ok(made(Join::Monoid(monoid), None));
    }
    if !outermost {
        return Err("adds its elements along another axis first");
    }
    let one = Size::constant(1);
    let length = |index: &IndexId| checked.indices[*index].extent.as_size().cloned();
    let product =
        |indices: &[IndexId]| indices.iter().try_fold(one.clone(), |product, index| Some(&product * &length(index)?));
    let keys: Vec<IndexId> = by.iter().filter_map(Factor::key_of).collect();
    let inner = product(&indices[1..]).ok_or("ends where another index says")?;
    let chunk = match order {
        _ if !keys.is_empty() && indices.len() > 1 => return Err("sums by key over several indices"),
        _ if !keys.is_empty() => {
            let keys = product(&keys).ok_or("has keys whose number data tells")?;
            Size::keyed_chunk(&keys)
        }
        Order::Lanes => number(LANES_CHUNK),
        Order::Blocks => number(BLOCK),
        Order::Free | Order::Scan => return Err("adds in the order of a scan"),
    };
    let length = length(&indices[0]).ok_or("ends where another index says")?;
    Ok(made(Join::Monoid(monoid), Some(Unit { chunk, inner, length, joined: true })))
}
