//! Rows that depend on the ones before them: each runs some columns behind the one before, along a
//! wavefront (loop skewing: Wolfe, "Loops Skewing: The Wavefront Method Revisited", 1986), so that
//! the steps that run together do not depend on each other.
//!
//! ```text
//! serial i < n {           serial a < n / 4 {
//!   while t < m {            if m >= 3 {
//!     d[i, t] = ...            t < 3 of row 4 a, t < 2 of row 4 a + 1, t < 1 of row 4 a + 2
//!   }                          while t < m - 3 {
//! }                              t + 3 of row 4 a, t + 2 of row 4 a + 1, ..., t of row 4 a + 3
//!                              }
//!                              the ends of rows 4 a + 1, 4 a + 2 and 4 a + 3
//!                            } else { the rows in turn }
//!                          }
//!                          serial b < min(n, n - n / 4 * 4) { row n / 4 * 4 + b }
//! ```

use std::collections::BTreeMap;

use ir::nest::{
    Block, BufferId, Extent, IndexId, Kernel, Loop, LoopKind, Op, Program, State, Statement, Subscript, ValueId, While,
};
use ir::rewrite::Copier;
use ir::sabotage::{self, Bug};
use ir::{Affine, BinaryOp, CompareOp, Size, visit};

use crate::maker::Maker;

/// The most columns that a row may be behind.
const FARTHEST: i64 = 8;

/// A serial loop over rows that can take their steps together.
pub(super) struct Rows<'l> {
    index: IndexId,
    length: Size,
    /// The statements of a row before its steps.
    before: &'l [Statement],
    steps: &'l While,
    /// The number of steps of a row.
    width: Size,
    /// How many columns each row is behind the one before.
    lag: i64,
}

impl<'l> Rows<'l> {
    pub fn new(program: &Program, l: &'l Loop) -> Option<Rows<'l>> {
        let ([(index, extent)], Some((Statement::While(steps), before))) = (&l.dims[..], l.body.split_last()) else {
            return None;
        };
        let (length, width) = (extent.as_size()?.clone(), steps.counter.1.as_size()?.clone());
        let is_plain = steps.condition.is_none() && !steps.body.iter().any(Statement::repeats);
        // Which of several faults ends the run depends on the order of iterations.
        if l.kind != LoopKind::Serial || !is_plain || l.body.iter().any(Statement::may_fault) {
            return None;
        }
        let mut rows = Rows { index: *index, length, before, steps, width, lag: 1 };
        rows.lag = rows.lag(program)?;
        (rows.lag <= FARTHEST).then_some(rows)
    }

    /// The least lag with which a row finds the elements that it loads of rows before; `None` if
    /// that is none, or not known.
    fn lag(&self, program: &Program) -> Option<i64> {
        let mut before = Accesses::default();
        before.add(self.before)?;
        let mut steps = Accesses::default();
        steps.add(&self.steps.body)?;
        let stored = |buffer| before.stores.iter().chain(&steps.stores).any(|(b, _)| *b == buffer);
        let shares = |members: &Vec<BufferId>| members.len() > 1 && members.iter().any(|b| stored(*b));
        if steps.stores.is_empty() || program.slots.values().any(shares) {
            return None;
        }
        let mut lag = 1;
        for (buffer, at) in &steps.stores {
            for (_, load) in steps.loads.iter().filter(|(b, _)| b == buffer) {
                match self.distance(at, load.as_ref()?)? {
                    Distance { rows, .. } if rows < 0 => return None,
                    Distance { rows: 0, .. } => {}
                    Distance { rows, columns } => lag = lag.max(columns.div_euclid(rows) + 1),
                }
            }
            // Before its steps, a row may load what others have stored before theirs.
            for (_, load) in before.loads.iter().filter(|(b, _)| b == buffer) {
                if !self.is_left_of(at, load.as_ref()?) {
                    return None;
                }
            }
        }
        Some(lag)
    }

    /// How an element that is loaded lies to one that is stored by the same step; `None` if that
    /// differs from step to step.
    fn distance(&self, store: &[Affine<IndexId>], load: &[Affine<IndexId>]) -> Option<Distance> {
        let (mut rows, mut columns) = (None, None);
        let mut axes = vec![];
        for (store, load) in store.iter().zip(load) {
            let difference = load.sub(store).as_size()?.as_constant()?;
            let [row, column] = [self.index, self.steps.counter.0].map(|i| store.coefficient(i).as_constant());
            let (row, column) = (row?, column?);
            match (row, column) {
                // An element of another outer iteration, which is there or never loaded.
                (0, 0) if difference != 0 => return Some(Distance { rows: 0, columns: 0 }),
                (1 | -1, 0) => rows = Some(-difference * row),
                (0, 1 | -1) => columns = Some(difference * column),
                _ => {}
            }
            axes.push((row, column, difference));
        }
        let (rows, columns) = (rows?, columns?);
        let agrees = |(row, column, difference): &(i64, i64, i64)| columns * column - rows * row == *difference;
        axes.iter().all(agrees).then_some(Distance { rows, columns })
    }

    /// Whether what a row loads before its steps is of this row, or of columns that no step stores.
    fn is_left_of(&self, store: &[Affine<IndexId>], load: &[Affine<IndexId>]) -> bool {
        store.iter().zip(load).any(|(store, load)| {
            let [row, column] = [self.index, self.steps.counter.0].map(|i| store.coefficient(i).as_constant());
            match (row, column) {
                (Some(1 | -1), Some(0)) => load == store,
                (Some(0), Some(1)) => {
                    let first = store.sub(&Affine::index(self.steps.counter.0));
                    let past = load.sub(&first);
                    match past.terms() {
                        [] => past.as_size().and_then(Size::as_constant).is_some_and(|past| past < 0),
                        [(index, factor)] if factor.as_constant() == Some(1) => {
                            let most = most(self.before, *index).zip(past.constant_part().as_constant());
                            most.is_some_and(|(most, past)| most - 1 + past < 0)
                        }
                        _ => false,
                    }
                }
                _ => false,
            }
        })
    }
}

/// How many rows before and columns behind an element lies.
struct Distance {
    rows: i64,
    columns: i64,
}

/// The greatest number of iterations of a loop in a block, where it is a constant.
fn most(block: &[Statement], index: IndexId) -> Option<i64> {
    let mut extent = None;
    let mut constants: BTreeMap<ValueId, i64> = BTreeMap::new();
    for statement in block {
        visit::for_each_statement(std::slice::from_ref(statement), &mut |s| {
            let of_index = s.dims().find(|(i, _)| *i == index).map(|(_, extent)| extent.clone());
            extent = of_index.or(extent.take());
            let Statement::Let { value, op } = s else { return };
            if let Op::Affine(a) = op
                && let Some(constant) = a.as_size().and_then(Size::as_constant)
            {
                constants.insert(*value, constant);
            } else if let Op::Binary(BinaryOp::Min, a, b) = op {
                let least = [a, b].into_iter().filter_map(|side| constants.get(side)).min().copied();
                constants.extend(least.map(|least| (*value, least)));
            }
        });
    }
    match extent? {
        Extent::Affine(a) => a.as_size()?.as_constant(),
        Extent::Value(value) => constants.get(&value).copied(),
    }
}

/// The elements that statements load and store; `None` for a subscript that is not affine.
#[derive(Default)]
struct Accesses {
    loads: Vec<(BufferId, Option<Vec<Affine<IndexId>>>)>,
    stores: Vec<(BufferId, Vec<Affine<IndexId>>)>,
}

impl Accesses {
    /// Adds those of a block. `None` if it stores at places that are not affine.
    fn add(&mut self, block: &[Statement]) -> Option<()> {
        let affine = |at: &[Subscript]| {
            let plain = |s: &Subscript| if let Subscript::Affine(a) = s { Some(a.clone()) } else { None };
            at.iter().map(plain).collect::<Option<Vec<_>>>()
        };
        for statement in block {
            if let Statement::Let { op: Op::Load { buffer, view, at }, .. } = statement {
                self.loads.push((*buffer, affine(at).filter(|_| view.is_none())));
            } else if let Statement::Store { buffer, at, .. } = statement {
                self.stores.push((*buffer, affine(at)?));
            } else if matches!(statement, Statement::Scatter { .. }) {
                return None;
            }
            statement.blocks().try_for_each(|inner| self.add(inner))?;
        }
        Some(())
    }
}

/// The loops in place of one over rows: `together` rows at a time, and those that are left.
pub(super) fn behind(program: &mut Program, kernel: &mut Kernel, rows: Rows, together: i64) -> Block {
    let from = kernel.clone();
    let number = rows.length.floor_div(&Size::constant(together));
    let done = &number * &Size::constant(together);
    let mut strip = Strip { maker: Maker { program, kernel }, from: &from, rows };
    let index = strip.maker.index(&from.indices[strip.rows.index].name);
    let body = strip.body(&Affine::index(index).scale(&Size::constant(together)), together);
    let strips = Loop { dims: vec![(index, Extent::size(number))], kind: LoopKind::Serial, body };
    // The interior behind a border may have a negative length; then nothing is left either.
    let mut out = vec![Statement::Loop(strips)];
    let [length, rest] = [strip.rows.length.clone(), &strip.rows.length - &done]
        .map(|size| strip.maker.define(&mut out, Op::Affine(Affine::size(size))));
    let rest = strip.maker.define(&mut out, Op::Binary(BinaryOp::Min, length, rest));
    out.push(Statement::Loop(strip.in_turn(&Affine::size(done), Extent::Value(rest))));
    out
}

/// Rows in the making.
struct Strip<'a> {
    maker: Maker<'a>,
    from: &'a Kernel,
    rows: Rows<'a>,
}

/// A row as far as it has got: what its values became, and the states after its last steps.
struct Row {
    at: Affine<IndexId>,
    values: BTreeMap<ValueId, ValueId>,
    states: Vec<ValueId>,
}

impl Strip<'_> {
    /// Rows from `first` on, one after the other.
    fn in_turn(&mut self, first: &Affine<IndexId>, number: Extent) -> Loop {
        let index = self.maker.index(&self.from.indices[self.rows.index].name);
        let mut body = vec![];
        let mut row = self.begin(first.add(&Affine::index(index)), &mut body);
        let width = Affine::size(self.rows.width.clone());
        body.push(self.steps(&mut [(&mut row, Affine::constant(0))], width));
        Loop { dims: vec![(index, number)], kind: LoopKind::Serial, body }
    }

    /// Several rows from `first` on.
    fn body(&mut self, first: &Affine<IndexId>, together: i64) -> Block {
        let lag = self.rows.lag;
        let ahead = |row: i64| (together - 1 - row) * lag;
        let width = self.rows.width.clone();
        let mut wide = vec![];
        let mut rows = vec![];
        for number in 0..together {
            let mut row = self.begin(first.add(&Affine::constant(number)), &mut wide);
            if ahead(number) > 0 {
                wide.push(self.steps(&mut [(&mut row, Affine::constant(0))], Affine::constant(ahead(number))));
            }
            rows.push(row);
        }
        let mut all: Vec<(&mut Row, Affine<IndexId>)> =
            (0..).zip(&mut rows).map(|(number, row)| (row, Affine::constant(ahead(number)))).collect();
        wide.push(self.steps(&mut all, Affine::size(&width - &Size::constant(ahead(0)))));
        let second = if sabotage::on(Bug::RowEnd) { 2 } else { 1 };
        for (number, row) in (0..).zip(&mut rows).skip(second) {
            let left = number * lag;
            let from = Affine::size(&width - &Size::constant(left));
            wide.push(self.steps(&mut [(row, from)], Affine::constant(left)));
        }
        let narrow = vec![Statement::Loop(self.in_turn(first, Extent::size(Size::constant(together))))];
        let mut out = vec![];
        let [width, least] =
            [width, Size::constant(ahead(0))].map(|size| self.maker.define(&mut out, Op::Affine(Affine::size(size))));
        let condition = self.maker.define(&mut out, Op::Compare(CompareOp::Ge, width, least));
        out.push(Statement::If { condition, then: wide, otherwise: narrow, results: vec![] });
        out
    }

    /// Begins a row: whatever it does before its steps.
    fn begin(&mut self, at: Affine<IndexId>, out: &mut Block) -> Row {
        let mut copier = Copier::new(self.maker.program, self.from, self.maker.kernel);
        copier.map_index(self.rows.index, Subscript::Affine(at.clone()));
        copier.copy(self.rows.before, out);
        let mut values = BTreeMap::new();
        for statement in self.rows.before {
            visit::for_each_definition(statement, &mut |value| _ = values.insert(value, copier.value(value)));
        }
        let states = self.rows.steps.state.iter().map(|s| copier.value(s.first)).collect();
        Row { at, values, states }
    }

    /// The next steps of rows, each from its own step on, as many of all.
    fn steps(&mut self, rows: &mut [(&mut Row, Affine<IndexId>)], number: Affine<IndexId>) -> Statement {
        let steps = self.rows.steps;
        let counter = steps.counter.0;
        let index = self.maker.index(&self.from.indices[counter].name);
        let (mut state, mut body) = (vec![], vec![]);
        for (row, first) in rows {
            let mut copier = Copier::new(self.maker.program, self.from, self.maker.kernel);
            copier.map_index(self.rows.index, Subscript::Affine(row.at.clone()));
            copier.map_index(counter, Subscript::Affine(first.add(&Affine::index(index))));
            row.values.iter().for_each(|(old, new)| copier.map_value(*old, *new));
            for old in &steps.state {
                let dtype = self.from.values[old.current];
                let current = copier.to().values.push(dtype);
                copier.map_value(old.current, current);
            }
            copier.copy(&steps.body, &mut body);
            for (old, last) in steps.state.iter().zip(&mut row.states) {
                let (current, next) = (copier.value(old.current), copier.value(old.next));
                let result = copier.to().values.push(self.from.values[old.result]);
                state.push(State { first: *last, current, next, result });
                *last = result;
            }
        }
        Statement::While(While { counter: (index, Extent::Affine(number)), state, condition: None, body })
    }
}
