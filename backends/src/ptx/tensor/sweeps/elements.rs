//! The statements of elements in sweeps. A thread runs them on its elements of half of a tile, one
//! after the other, with all values in registers.

use std::collections::{BTreeMap, BTreeSet};

use ir::Dtype;
use ir::nest::{BufferId, Input, Op, Role, Statement, ValueId};
use ir::sched::{Sweep, Weighted, divides};
use ir::visit;

use super::{AT_ONCE, ELEMENTS, InSweeps, Multiplying, Running, ThreadRow, Tile};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::number;
use crate::ptx::inst::{Comparison, Opcode, Reg, Rounding, Type};
use crate::ptx::state::ExecScope;

/// An element of a thread.
#[derive(Clone)]
struct Element {
    /// Which of the thread's rows it is in, and which of its elements there it is.
    which: usize,
    k: usize,
    column: Reg,
    /// Whether it is in bounds, if that is not known.
    inside: Option<Reg>,
    score: Reg,
    /// The values of statements so far.
    values: Vec<(ValueId, Reg)>,
    kept: Kept,
}

/// The registers that statements of an element leave to later ones.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// Its elements of scratch.
    scratch: BTreeMap<BufferId, Reg>,
    /// The values before they were rounded to 16 bits.
    unrounded: BTreeMap<Reg, Reg>,
}

impl Element {
    fn each_register(&mut self, visit: impl FnMut(&mut Reg)) {
        let values = self.values.iter_mut().map(|(_, reg)| reg);
        values.chain(self.kept.scratch.values_mut()).for_each(visit);
    }
}

impl Emitter<'_> {
    /// Runs the statements of the thread's elements in half of a tile.
    pub(super) fn half(
        &mut self,
        state: &Multiplying<'_, '_>,
        what: (&Sweep<'_>, Option<&Weighted<'_>>),
        running: &[Running<'_>],
        rows: &[ThreadRow; 2],
        (tile, half): (&Tile, i64),
    ) {
        let first = self.b().op2(Opcode::Add, Type::S64, tile.from, half * AT_ONCE);
        let run = |e: &mut Self| {
            let first = e.b().op2(Opcode::Add, Type::S64, first, state.column);
            e.either(
                tile.whole,
                |e| e.half_in_bounds(state, what, running, rows, (first, half, None)),
                |e| e.half_in_bounds(state, what, running, rows, (first, half, Some(tile.end))),
            );
        };
        let (Some(idle), Some(mask)) = (tile.idle, &what.0.mask) else { return run(self) };
        let masked = self.is_masked(state, mask, first, &rows[0]);
        let skips = self.b().op2(Opcode::And, Type::Pred, masked, idle);
        self.either(
            skips,
            |e| {
                let weights = if what.1.is_some() { state.weights[half as usize].as_slice() } else { &[] };
                weights.iter().for_each(|pair| e.b().op_to(*pair, Opcode::Mov, Type::B32, &[0.into()]));
            },
            run,
        );
    }

    /// The same, with columns only up to an end, if there is one.
    fn half_in_bounds(
        &mut self,
        state: &Multiplying<'_, '_>,
        (sweep, weighted): (&Sweep<'_>, Option<&Weighted<'_>>),
        running: &[Running<'_>],
        rows: &[ThreadRow; 2],
        (first, half, end): (Reg, i64, Option<Reg>),
    ) {
        let code = state.code;
        let columns: Vec<(Reg, Option<Reg>)> = (0..ELEMENTS as i64)
            .map(|k| {
                let column = self.b().op2(Opcode::Add, Type::S64, first, k / 2 * 8 + k % 2);
                (column, end.map(|end| self.b().set(Comparison::Lt, Type::S64, column, end)))
            })
            .collect();
        let elements: Vec<Element> = (0..rows.len() * ELEMENTS)
            .map(|number| {
                let (which, k) = (number / ELEMENTS, number % ELEMENTS);
                let (column, inside) = columns[k];
                let score = state.scores[k / 2 * 4 + which * 2 + k % 2];
                Element { which, k, column, inside, score, values: vec![], kept: Kept::default() }
            })
            .collect();
        let (elements, rest) = self.divide_first(code, (sweep, weighted), rows, elements);
        let mut weights = [vec![], vec![]];
        for mut element in elements {
            let Element { which, k, column, inside, .. } = element;
            self.run_element(code, &rows[which], &mut element, rest);
            for Running { reduction, merging, states, .. } in running {
                let inputs = &reduction.inputs;
                let one: Vec<Reg> = inputs.iter().map(|input| self.input(*input, column)).collect();
                let lanes = &states[which];
                let lane = &lanes[(half as usize * ELEMENTS + k) % lanes.len()];
                self.add_where(*merging, inside, lane, &one);
            }
            let Some(weighted) = weighted else { continue };
            let weight = self.value(weighted.weight);
            weights[which].push((weight, element.kept.unrounded.get(&weight).copied(), inside));
        }
        for (which, weights) in weights.iter().enumerate() {
            for (k, pair) in weights.chunks(2).enumerate() {
                // A left fragment has both rows for eight columns, then for eight more.
                self.pack(code, state.weights[half as usize][k * 2 + which], [pair[0], pair[1]]);
            }
        }
    }

    /// Packs two weights, given also before they were rounded, if they are in bounds.
    fn pack(&mut self, code: &InSweeps<'_>, to: Reg, pair: [(Reg, Option<Reg>, Option<Reg>); 2]) {
        let in_bounds =
            |e: &mut Self, ty, reg, inside: Option<Reg>| inside.map_or(reg, |inside| e.b().select(ty, reg, 0, inside));
        if let [(_, Some(low), inside_low), (_, Some(high), inside_high)] = pair {
            let pair = [(low, inside_low), (high, inside_high)];
            let pair = pair.map(|(reg, inside)| in_bounds(self, Type::B32, reg, inside));
            return self.b().convert_pair_to(to, code.ty, pair);
        }
        let [low, high] = pair.map(|(reg, _, inside)| {
            let wide = self.b().convert(Rounding::Exact, Type::U32, Type::U16, reg);
            in_bounds(self, Type::B32, wide, inside)
        });
        let high = self.b().op2(Opcode::Shl, Type::B32, high, 16);
        self.b().op_to(to, Opcode::Or, Type::B32, &[high.into(), low.into()]);
    }

    /// Runs the statements up to the last one that divides without branches, for all elements.
    /// Returns the others.
    fn divide_first<'w>(
        &mut self,
        code: &InSweeps<'_>,
        (sweep, weighted): (&'w Sweep<'_>, Option<&Weighted<'_>>),
        rows: &[ThreadRow; 2],
        elements: Vec<Element>,
    ) -> (Vec<Element>, &'w [&'w Statement]) {
        let all = sweep.elements.as_slice();
        let copied = |statement: &Statement| vec![statement.clone()];
        let last = all.iter().rposition(|s| divides(self.program, &copied(s), &|v| self.dtype(v)));
        let (first, rest) = all.split_at(last.map_or(0, |last| last + 1));
        let repeats = first.iter().all(|statement| match statement {
            Statement::Let { op: Op::Load { buffer, .. }, .. } | Statement::Store { buffer, .. } => {
                self.program.buffers[*buffer].role == Role::Scratch
            }
            Statement::Let { .. } => true,
            _ => false,
        });
        if first.is_empty() || !repeats {
            return (elements, all);
        }
        let mut used: BTreeSet<ValueId> = sweep.reductions.iter().flat_map(|r| r.values()).collect();
        used.extend(weighted.map(|weighted| weighted.weight));
        rest.iter().for_each(|s| visit::for_each_use(s, &mut |value| _ = used.insert(value)));
        let mut made = vec![];
        let run = |e: &mut Self, element: &Element| {
            let mut element = element.clone();
            e.run_element(code, &rows[element.which], &mut element, first);
            let define = |s: &&Statement| if let Statement::Let { value, .. } = s { Some(*value) } else { None };
            let kept = first.iter().filter_map(define).filter(|value| used.contains(value));
            element.values = kept.map(|value| (value, e.value(value))).collect();
            element
        };
        let valid = self.with_fast_division(|e| {
            for element in &elements {
                let mut element = run(e, element);
                // Variables, so that the slow path can replace them.
                element.each_register(|reg| *reg = e.b().copy(*reg));
                made.push(element);
            }
        });
        let wrong = self.b().op(Opcode::Not, Type::Pred, &[valid.into()]);
        self.when(wrong, |e| {
            for (element, made) in elements.iter().zip(&mut made) {
                let mut exact = vec![];
                run(e, element).each_register(|reg| exact.push(*reg));
                let mut exact = exact.into_iter();
                made.each_register(|reg| exact.next().into_iter().for_each(|from| e.b().assign(*reg, from)));
            }
        });
        (made, rest)
    }

    /// Runs statements of an element.
    fn run_element(&mut self, code: &InSweeps<'_>, row: &ThreadRow, element: &mut Element, statements: &[&Statement]) {
        self.enter_row(code, row);
        code.sweeps.columns.indices.iter().for_each(|index| self.bind(*index, element.column));
        self.define(code.sweeps.scores.result, element.score);
        element.values.iter().for_each(|(value, reg)| self.define(*value, *reg));
        let valid = element.inside.map(|inside| self.b().op2(Opcode::And, Type::Pred, inside, row.valid));
        self.element(statements, &mut element.kept, valid);
    }

    /// The input of a reduction, as part of a state.
    pub(super) fn input(&mut self, input: Input, column: Reg) -> Reg {
        let value = match input {
            Input::Value(value) => self.value(value),
            Input::Number => column,
        };
        number(self.b(), value)
    }

    /// Runs statements of an element. Its scratch stays in registers.
    pub(super) fn element(&mut self, statements: &[&Statement], kept: &mut Kept, valid: Option<Reg>) {
        let program = self.program;
        let is_scratch = |buffer: &BufferId| program.buffers[*buffer].role == Role::Scratch;
        for statement in statements {
            match statement {
                Statement::Let { value, op: Op::Load { buffer, .. } } if is_scratch(buffer) => {
                    let reg = kept.scratch[buffer];
                    self.define(*value, reg);
                    continue;
                }
                Statement::Store { buffer, value, .. } if is_scratch(buffer) => {
                    kept.scratch.insert(*buffer, self.value(*value));
                    continue;
                }
                _ => {}
            }
            let make = |e: &mut Self| e.in_exec_scope(ExecScope::Thread, |e| e.statement(statement));
            match valid {
                Some(valid) => self.masked(valid, make),
                None => make(self),
            }
            if let Statement::Let { value, op: Op::Cast(Dtype::F16 | Dtype::Bf16, from) } = statement
                && self.dtype(*from) == Dtype::F32
            {
                kept.unrounded.insert(self.value(*value), self.value(*from));
            }
        }
    }

    /// Runs the statements of the second product's results.
    pub(super) fn results(&mut self, state: &Multiplying<'_, '_>, rows: &[ThreadRow; 2]) {
        let code = state.code;
        let Some(Weighted { product, columns, after, .. }) = &code.sweeps.weighted else { return };
        let end = self.size(columns.count);
        for k in 0..code.width / 4 {
            let column = self.b().op2(Opcode::Add, Type::S64, state.column, k / 2 * 8 + k % 2);
            let inside = self.b().set(Comparison::Lt, Type::S64, column, end);
            for (which, row) in rows.iter().enumerate() {
                self.enter_row(code, row);
                columns.indices.iter().for_each(|index| self.bind(*index, column));
                self.define(product.result, state.results[k as usize / 2 * 4 + which * 2 + k as usize % 2]);
                let valid = self.b().op2(Opcode::And, Type::Pred, inside, row.valid);
                self.element(after, &mut Kept::default(), Some(valid));
            }
        }
    }
}
