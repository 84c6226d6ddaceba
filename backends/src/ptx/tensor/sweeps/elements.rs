//! The statements of elements in sweeps. A thread runs them on its elements of a part of a tile,
//! one after the other, with all values in registers.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{BufferId, Input, Op, Role, Statement, ValueId};
use ir::sched::{Mask, Sweep, Weighted, divides};
use ir::visit;
use ir::{BinaryOp, Dtype, Scalar};

use super::masks::Corners;
use super::{AT_ONCE, InSweeps, Multiplying, OF_WARP, Running, ThreadRow, Tile};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::number;
use crate::ptx::inst::{Comparison, Opcode, Operand, Reg, Rounding, Type};
use crate::ptx::scalar;
use crate::ptx::state::ExecScope;
use crate::settings::Math;

/// An element of a thread.
#[derive(Clone)]
pub(super) struct Element {
    /// Which of the thread's rows it is in, and which of its elements there it is.
    pub(super) which: usize,
    pub(super) k: usize,
    pub(super) column: Reg,
    /// Whether it is in bounds, if that is not known.
    pub(super) inside: Option<Reg>,
    score: Reg,
    /// The values of statements so far.
    pub(super) values: Vec<(ValueId, Reg)>,
    pub(super) kept: Kept,
}

/// The elements that a thread has of some columns of a tile.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// The first one of the thread, and the number of all.
    pub(super) first: Reg,
    pub(super) count: i64,
    /// Where columns end, if they may be beyond.
    pub(super) end: Option<Reg>,
}

/// Another way to compute a value of an element.
#[derive(Clone, Copy)]
pub(super) enum Shortcut {
    /// It is that of another one.
    Same(ValueId),
    /// It is the product of another one and a number.
    Times(ValueId, Reg),
    /// It is two to the power of another one times the logarithm of e, plus a number.
    Exponential(ValueId, Reg),
}

/// A value and the shortcut to it.
pub(super) type Shortcuts = BTreeMap<ValueId, Shortcut>;

/// Those that hold where all elements have their scores.
pub(super) fn unmasked(statements: &[&Statement], mask: Option<&Mask<'_>>) -> Shortcuts {
    let masked = mask.map(|mask| mask.masked);
    let score = statements.iter().find_map(|statement| match statement {
        Statement::Let { value, op: Op::Select(_, score, _) } if Some(*value) == masked => Some(*score),
        _ => None,
    });
    masked.zip(score).map(|(masked, score)| (masked, Shortcut::Same(score))).into_iter().collect()
}

/// The registers that statements of an element leave to later ones.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// Its elements of scratch.
    scratch: BTreeMap<BufferId, Reg>,
    /// The values before they were rounded to 16 bits.
    unrounded: BTreeMap<Reg, Reg>,
}

impl Kept {
    /// A value before it was rounded to 16 bits.
    pub(super) fn unrounded(&self, rounded: Reg) -> Option<Reg> {
        self.unrounded.get(&rounded).copied()
    }
}

impl Element {
    fn each_register(&mut self, visit: impl FnMut(&mut Reg)) {
        let values = self.values.iter_mut().map(|(_, reg)| reg);
        values.chain(self.kept.scratch.values_mut()).for_each(visit);
    }
}

impl Emitter<'_> {
    /// Finds the values that [`Math::Fast`](crate::ptx::Math::Fast) computes in another way:
    /// quotients by a value of the row, as products, and weights without a factor that they have in
    /// common.
    pub(super) fn take_shortcuts(
        &mut self,
        code: &InSweeps<'_>,
        (statements, weighted): (&[&Statement], Option<&Weighted<'_>>),
        row: &mut ThreadRow,
    ) {
        let common = weighted.and_then(|weighted| weighted.common);
        row.shortcuts = common.iter().map(|common| (common.with, Shortcut::Same(common.without))).collect();
        self.enter_row(code, row);
        let mut inverses: BTreeMap<ValueId, Reg> = BTreeMap::new();
        let mut own = BTreeSet::from([code.sweeps.scores.result]);
        own.extend(weighted.map(|weighted| weighted.product.result));
        statements.iter().for_each(|s| visit::for_each_definition(s, &mut |value| _ = own.insert(value)));
        for statement in statements {
            if let Statement::Let { value, op: Op::Binary(BinaryOp::Div, a, by) } = statement
                && self.dtype(*value) == Dtype::F32
                && !own.contains(by)
                && !row.shortcuts.contains_key(value)
            {
                let inverse = inverses.get(by).copied().unwrap_or_else(|| {
                    let (one, by) = (scalar::constant(self.b(), Scalar::F32(1.0)), self.value(*by));
                    scalar::binary(self.b(), BinaryOp::Div, Dtype::F32, one, by)
                });
                inverses.insert(*by, inverse);
                row.shortcuts.insert(*value, Shortcut::Times(*a, inverse));
            }
        }
    }

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
        let corners = what.0.mask.as_ref().map(|mask| {
            let row = self.b().op2(Opcode::Sub, Type::S64, rows[0].number, state.row);
            (mask, Corners::of(self, [row, first], [OF_WARP, AT_ONCE]))
        });
        let run = |e: &mut Self| {
            let plain = e.is_plain(state.code, tile.whole, corners.as_ref());
            let first = e.b().op2(Opcode::Add, Type::S64, first, state.column);
            let all = Columns { first, count: AT_ONCE, end: None };
            let some = Columns { end: Some(tile.end), ..all };
            let known = unmasked(&what.0.elements, what.0.mask.as_ref());
            e.either(
                plain,
                |e| e.half_of(state, what, running, rows, (all, half, &known)),
                |e| e.half_of(state, what, running, rows, (some, half, &Shortcuts::new())),
            );
        };
        let (Some(idle), Some((mask, corners))) = (tile.idle, &corners) else { return run(self) };
        let has_scores = self.has_scores(state.code, mask, corners);
        let masked = self.b().op(Opcode::Not, Type::Pred, &[has_scores.into()]);
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

    /// Whether a tile has all its elements, with their scores.
    pub(super) fn is_plain(&mut self, code: &InSweeps<'_>, whole: Reg, mask: Option<&(&Mask<'_>, Corners)>) -> Reg {
        let Some((mask, corners)) = mask else { return whole };
        let unmasked = self.is_unmasked(code, mask, corners);
        self.b().op2(Opcode::And, Type::Pred, whole, unmasked)
    }

    /// The elements of a thread in some columns.
    pub(super) fn elements_of(&mut self, state: &Multiplying<'_, '_>, of: Columns) -> Vec<Element> {
        let in_row = of.count / 4;
        let columns: Vec<(Reg, Option<Reg>)> = (0..in_row)
            .map(|k| {
                let column = self.b().op2(Opcode::Add, Type::S64, of.first, k / 2 * 8 + k % 2);
                (column, of.end.map(|end| self.b().set(Comparison::Lt, Type::S64, column, end)))
            })
            .collect();
        let elements = [0, 1].into_iter().flat_map(|which| (0..in_row as usize).map(move |k| (which, k)));
        elements
            .map(|(which, k)| {
                let (column, inside) = columns[k];
                let score = state.scores[k / 2 * 4 + which * 2 + k % 2];
                Element { which, k, column, inside, score, values: vec![], kept: Kept::default() }
            })
            .collect()
    }

    /// The same, where it is known which elements it has.
    fn half_of(
        &mut self,
        state: &Multiplying<'_, '_>,
        (sweep, weighted): (&Sweep<'_>, Option<&Weighted<'_>>),
        running: &[Running<'_>],
        rows: &[ThreadRow; 2],
        (columns, half, known): (Columns, i64, &Shortcuts),
    ) {
        let code = state.code;
        let elements = self.elements_of(state, columns);
        let in_row = elements.len() / rows.len();
        let (elements, rest) = self.divide_first(code, (sweep, weighted), (rows, known), elements);
        let mut weights = [vec![], vec![]];
        for mut element in elements {
            let Element { which, k, column, inside, .. } = element;
            self.run_element(code, &rows[which], &mut element, (rest, known));
            for Running { reduction, merging, states, .. } in running {
                let inputs = &reduction.inputs;
                let one: Vec<Reg> = inputs.iter().map(|input| self.input(*input, column)).collect();
                let lanes = &states[which];
                let lane = &lanes[(half as usize * in_row + k) % lanes.len()];
                self.add_where(*merging, inside, lane, &one);
            }
            let Some(weighted) = weighted else { continue };
            let weight = self.value(weighted.weight);
            weights[which].push((weight, element.kept.unrounded(weight), inside));
        }
        for (which, weights) in weights.iter().enumerate() {
            for (k, pair) in weights.chunks(2).enumerate() {
                // A left fragment has both rows for eight columns, then for eight more.
                self.pack(code, state.weights[half as usize][k * 2 + which], [pair[0], pair[1]]);
            }
        }
    }

    /// Packs two weights, given also before they were rounded, if they are in bounds.
    pub(super) fn pack(&mut self, code: &InSweeps<'_>, to: Reg, pair: [(Reg, Option<Reg>, Option<Reg>); 2]) {
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
        (rows, known): (&[ThreadRow; 2], &Shortcuts),
        elements: Vec<Element>,
    ) -> (Vec<Element>, &'w [&'w Statement]) {
        let all = sweep.elements.as_slice();
        let copied = |statement: &Statement| vec![statement.clone()];
        let short = |s: &Statement| matches!(s, Statement::Let { value, .. } if rows[0].shortcuts.contains_key(value));
        let last = all.iter().rposition(|s| !short(s) && divides(self.program, &copied(s), &|v| self.dtype(v)));
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
            e.run_element(code, &rows[element.which], &mut element, (first, known));
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
    pub(super) fn run_element(
        &mut self,
        code: &InSweeps<'_>,
        row: &ThreadRow,
        element: &mut Element,
        (statements, known): (&[&Statement], &Shortcuts),
    ) {
        let shortcuts: Shortcuts = row.shortcuts.iter().chain(known).map(|(value, way)| (*value, *way)).collect();
        self.enter_row(code, row);
        code.sweeps.columns.indices.iter().for_each(|index| self.bind(*index, element.column));
        self.define(code.sweeps.scores.result, element.score);
        element.values.iter().for_each(|(value, reg)| self.define(*value, *reg));
        let valid = element.inside.map(|inside| self.b().op2(Opcode::And, Type::Pred, inside, row.valid));
        self.element((statements, &shortcuts), &mut element.kept, valid);
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
    pub(super) fn element(
        &mut self,
        (statements, shortcuts): (&[&Statement], &Shortcuts),
        kept: &mut Kept,
        valid: Option<Reg>,
    ) {
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
                Statement::Let { value, .. } if shortcuts.contains_key(value) => {
                    let reg = self.short(shortcuts[value]);
                    self.define(*value, reg);
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

    fn short(&mut self, way: Shortcut) -> Reg {
        match way {
            Shortcut::Same(other) => self.value(other),
            Shortcut::Times(other, number) => {
                let other = self.value(other);
                self.b().op2(Opcode::MulRn, Type::F32, other, number)
            }
            Shortcut::Exponential(other, number) => {
                let log2_e = Operand::F32(std::f32::consts::LOG2_E.to_bits());
                let other = self.value(other);
                let power = self.b().op(Opcode::FmaRn, Type::F32, &[other.into(), log2_e, number.into()]);
                self.b().op(Opcode::Exp2Near, Type::F32, &[power.into()])
            }
        }
    }

    /// Runs the statements of the second product's results.
    pub(super) fn results(&mut self, state: &Multiplying<'_, '_>, rows: &mut [ThreadRow; 2]) {
        let code = state.code;
        let Some(weighted @ Weighted { product, columns, common, after, .. }) = &code.sweeps.weighted else { return };
        if code.math == Math::Fast {
            rows.iter_mut().for_each(|row| self.take_shortcuts(code, (after, Some(weighted)), row));
        }
        // A factor of all weights.
        let factors = common.map(|common| {
            rows.each_ref().map(|row| {
                self.enter_row(code, row);
                let factor = self.value(common.factor);
                if common.op == BinaryOp::Mul {
                    return factor;
                }
                let one = scalar::constant(self.b(), Scalar::F32(1.0));
                scalar::binary(self.b(), BinaryOp::Div, Dtype::F32, one, factor)
            })
        });
        let end = self.size(columns.count);
        for k in 0..code.width / 4 {
            let column = self.b().op2(Opcode::Add, Type::S64, state.column, k / 2 * 8 + k % 2);
            let inside = self.b().set(Comparison::Lt, Type::S64, column, end);
            for (which, row) in rows.iter().enumerate() {
                self.enter_row(code, row);
                columns.indices.iter().for_each(|index| self.bind(*index, column));
                let sum = state.results[k as usize / 2 * 4 + which * 2 + k as usize % 2];
                let result = factors.map_or(sum, |factors| self.b().op2(Opcode::MulRn, Type::F32, sum, factors[which]));
                self.define(product.result, result);
                let valid = self.b().op2(Opcode::And, Type::Pred, inside, row.valid);
                self.element((after, &row.shortcuts), &mut Kept::default(), Some(valid));
            }
        }
    }
}
