//! Sweeps in which sums follow a maximum that is found in the same sweep (`ir::sched::Rescaled`).
//! Exponentials are relative to a maximum that may be out of date: the sums are rescaled only where
//! it has grown enough to make exponentials large, and at the end.

use ir::merging::Merging;
use ir::nest::{Op, Statement, ValueId};
use ir::sched::{Rescaled, Sweep, Weighted};
use ir::{BinaryOp, Dtype, Scalar};

use super::elements::{Columns, Element, Shortcut, Shortcuts, unmasked};
use super::masks::Corners;
use super::{AT_ONCE, BlockRows, COLUMNS, InSweeps, LastMatrix, Multiplying, OF_WARP, Running, ThreadRow};
use crate::ptx::build::Control;
use crate::ptx::emit::Emitter;
use crate::ptx::fold::{MergingCode, shuffled};
use crate::ptx::inst::{Comparison, Opcode, Operand, Reg, Shuffle, Type};
use crate::ptx::scalar;

/// The maximum that stands in the place of none, or of an infinite one: products with it are
/// finite.
const LEAST: f32 = f32::from_bits(0xff00_0000);
/// The sums are rescaled by smaller factors than this one.
const RESCALES: f32 = 1.0 / 16.0;

/// The maximum of one of a thread's rows so far.
struct Maximum {
    /// That of the elements so far.
    all: Reg,
    /// That which exponentials are relative to.
    base: Reg,
    /// The factor that the sums are rescaled by in this tile.
    factor: Reg,
}

impl Emitter<'_> {
    pub(super) fn rescaled_sweep(
        &mut self,
        state: &Multiplying<'_, '_>,
        what: (&Sweep<'_>, &Rescaled<'_>, Option<&Weighted<'_>>),
        running: &[Running<'_>],
        rows: &mut [ThreadRow; 2],
        of_block: &BlockRows,
    ) {
        let (sweep, rescaled, weighted) = what;
        let Multiplying { code, tiles, turn, leads, .. } = state;
        let result = rescaled.maximum.results[0];
        let merging = Merging::of(self.dtypes(), rescaled.maximum);
        let maxima = [(); 2].map(|()| {
            let [least, one] = [LEAST, 1.0].map(|number| scalar::constant(self.b(), Scalar::F32(number)));
            let nothing = merging.nothing(self)[0];
            Maximum { all: self.b().copy(nothing), base: self.b().copy(least), factor: self.b().copy(one) }
        });
        for (row, maximum) in rows.iter_mut().zip(&maxima) {
            row.values.insert(result, maximum.base);
        }
        let end = self.size(code.sweeps.columns.count);
        let last = LastMatrix::new(self, state);
        self.for_each_columns(code, (sweep, of_block.first), end, |e, from| {
            let after = e.b().op2(Opcode::Add, Type::S64, from, COLUMNS);
            let whole = e.b().set(Comparison::Le, Type::S64, after, end);
            let whole = e.b().op2(Opcode::And, Type::Pred, whole, of_block.whole);
            let (columns, free) = e.full_stage(state);
            e.advance(tiles, *turn);
            let later = last.is_there(e);
            let count = if weighted.is_some() { COLUMNS } else { AT_ONCE };
            for part in 0..COLUMNS / count {
                e.start_scores(state, columns, [part * count, count]);
                if weighted.is_some() {
                    // At first any memory that stays as it is.
                    let matrix = e.b().select(Type::B64, last.matrix, state.rows, later);
                    e.start_results(state, matrix, &[0, 1], state.always);
                }
                e.b().await_products(u32::from(weighted.is_some()));
                if (part + 1) * count == COLUMNS {
                    e.b().guarded(*leads, |b| b.arrive(free));
                }
                let from = e.b().op2(Opcode::Add, Type::S64, from, part * count);
                let corners = sweep.mask.as_ref().map(|mask| {
                    let row = e.b().op2(Opcode::Sub, Type::S64, rows[0].number, state.row);
                    (mask, Corners::of(e, [row, from], [OF_WARP, count]))
                });
                let plain = e.is_plain(code, whole, corners.as_ref());
                let first = e.b().op2(Opcode::Add, Type::S64, from, state.column);
                let all = Columns { first, count, end: None };
                let some = Columns { end: Some(end), ..all };
                let known = unmasked(&sweep.elements, sweep.mask.as_ref());
                let rows = &*rows;
                e.either(
                    plain,
                    |e| e.rescaled_tile(state, what, (running, &maxima), rows, (all, known), later),
                    |e| e.rescaled_tile(state, what, (running, &maxima), rows, (some, Shortcuts::new()), later),
                );
            }
            if weighted.is_some() {
                let matrix = e.full_stage(state);
                last.give_back(e, state);
                last.keep(e, matrix);
                e.advance(tiles, *turn);
            }
        });
        if weighted.is_some() {
            self.start_results(state, last.matrix, &[0, 1], state.always);
            last.end(self, state);
        }
        let some = self.b().set(Comparison::Gt, Type::S64, end, 0);
        for (which, (row, maximum)) in rows.iter_mut().zip(&maxima).enumerate() {
            let factor = self.exponential_of(code, rescaled, row, [maximum.base, maximum.all]);
            let one = scalar::constant(self.b(), Scalar::F32(1.0));
            let factor = self.b().select(Type::F32, factor, one, some);
            self.rescale_sums(rescaled, running, which, factor);
            if rescaled.results {
                self.rescale_results(state, which, factor);
            }
            row.values.insert(result, maximum.all);
        }
    }

    /// The factor of sums if a maximum grows to another one.
    fn exponential_of(
        &mut self,
        code: &InSweeps<'_>,
        rescaled: &Rescaled<'_>,
        row: &ThreadRow,
        [from, to]: [Reg; 2],
    ) -> Reg {
        self.enter_row(code, row);
        let difference = scalar::binary(self.b(), BinaryOp::Sub, Dtype::F32, from, to);
        self.define(rescaled.difference, difference);
        self.element((&rescaled.scale, &row.shortcuts), &mut Default::default(), None);
        self.value(rescaled.exponential)
    }

    /// Multiplies the sums of a row that are proportional to the exponential.
    fn rescale_sums(&mut self, rescaled: &Rescaled<'_>, running: &[Running<'_>], which: usize, factor: Reg) {
        let is_sum = |running: &&Running<'_>| rescaled.sums.iter().any(|sum| std::ptr::eq(*sum, running.reduction));
        for sum in running.iter().filter(is_sum).flat_map(|running| running.states[which].iter().flatten()) {
            self.b().op_to(*sum, Opcode::MulRn, Type::F32, &[(*sum).into(), factor.into()]);
        }
    }

    /// Multiplies the results of a row.
    fn rescale_results(&mut self, state: &Multiplying<'_, '_>, which: usize, factor: Reg) {
        for (_, sum) in state.results.iter().enumerate().filter(|(k, _)| k / 2 % 2 == which) {
            self.b().op_to(*sum, Opcode::MulRn, Type::F32, &[(*sum).into(), factor.into()]);
        }
    }

    /// Runs the statements of a tile's elements.
    fn rescaled_tile(
        &mut self,
        state: &Multiplying<'_, '_>,
        (sweep, rescaled, weighted): (&Sweep<'_>, &Rescaled<'_>, Option<&Weighted<'_>>),
        (running, maxima): (&[Running<'_>], &[Maximum; 2]),
        rows: &[ThreadRow; 2],
        (columns, known): (Columns, Shortcuts),
        later: Reg,
    ) {
        let code = state.code;
        let mut elements = self.elements_of(state, columns);
        let is_before = |statement: &&Statement| rescaled.before.iter().any(|other| std::ptr::eq(*other, *statement));
        let rest: Vec<&Statement> = sweep.elements.iter().copied().filter(|s| !is_before(s)).collect();
        let greatest = self.greatest(code, rescaled, rows, (&mut elements, &known));
        let mut some = state.never;
        for ((row, maximum), greatest) in rows.iter().zip(maxima).zip(greatest) {
            let all = scalar::binary(self.b(), BinaryOp::Max, Dtype::F32, maximum.all, greatest);
            self.b().assign(maximum.all, all);
            let [least, bound, zero] =
                [LEAST, RESCALES, 0.0].map(|number| scalar::constant(self.b(), Scalar::F32(number)));
            let new = scalar::binary(self.b(), BinaryOp::Max, Dtype::F32, all, least);
            let factor = self.exponential_of(code, rescaled, row, [maximum.base, new]);
            let is_first = self.b().set(Comparison::Eq, Type::F32, maximum.base, least);
            let factor = self.b().select(Type::F32, zero, factor, is_first);
            self.b().assign(maximum.factor, factor);
            // Also if it is not a number.
            let stays = self.b().set(Comparison::Ge, Type::F32, factor, bound);
            let grows = self.b().op(Opcode::Not, Type::Pred, &[stays.into()]);
            some = self.b().op2(Opcode::Or, Type::Pred, some, grows);
        }
        let rescales = self.b().any(some);
        let mut bases = vec![];
        for maximum in maxima {
            let least = scalar::constant(self.b(), Scalar::F32(LEAST));
            let new = scalar::binary(self.b(), BinaryOp::Max, Dtype::F32, maximum.all, least);
            let base = self.b().select(Type::F32, new, maximum.base, rescales);
            self.b().assign(maximum.base, base);
            bases.push(base);
        }
        self.when(rescales, |e| {
            (0..rows.len()).for_each(|which| e.rescale_sums(rescaled, running, which, maxima[which].factor));
        });
        let ways: Vec<Shortcuts> = bases.iter().map(|base| self.short_exponential(rescaled, &rest, *base)).collect();
        let mut weights = [vec![], vec![]];
        for mut element in elements {
            let Element { which, k, column, inside, .. } = element;
            let known: Shortcuts = known.iter().chain(&ways[which]).map(|(value, way)| (*value, *way)).collect();
            self.run_element(code, &rows[which], &mut element, (&rest, &known));
            for Running { reduction, merging, states, .. } in running {
                let one: Vec<Reg> = reduction.inputs.iter().map(|input| self.input(*input, column)).collect();
                let lanes = &states[which];
                self.add_where(*merging, inside, &lanes[k % lanes.len()], &one);
            }
            let Some(weighted) = weighted else { continue };
            let weight = self.value(weighted.weight);
            weights[which].push((weight, element.kept.unrounded(weight), inside));
        }
        if weighted.is_none() {
            return;
        }
        // Then the registers of the last weights and of the results are free.
        self.b().await_products(0);
        let first = self.b().op(Opcode::Not, Type::Pred, &[later.into()]);
        let zero = scalar::constant(self.b(), Scalar::F32(0.0));
        self.when(first, |e| state.results.iter().for_each(|sum| e.b().assign(*sum, zero)));
        if rescaled.results {
            self.when(rescales, |e| {
                (0..rows.len()).for_each(|which| e.rescale_results(state, which, maxima[which].factor));
            });
        }
        let all: Vec<Reg> = state.weights.concat();
        for (which, weights) in weights.iter().enumerate() {
            for (k, pair) in weights.chunks(2).enumerate() {
                self.pack(code, all[k * 2 + which], [pair[0], pair[1]]);
            }
        }
    }

    /// Runs the statements up to the values that the maximum takes, and finds the greatest one of
    /// each row in the tile.
    fn greatest(
        &mut self,
        code: &InSweeps<'_>,
        rescaled: &Rescaled<'_>,
        rows: &[ThreadRow; 2],
        (elements, known): (&mut [Element], &Shortcuts),
    ) -> [Reg; 2] {
        let value = rescaled.maximum.values().next().expect("it takes a value");
        let mut of_rows = [vec![], vec![]];
        for element in elements {
            self.run_element(code, &rows[element.which], element, (&rescaled.before, known));
            let defined = rescaled.before.iter().filter_map(|statement| match statement {
                Statement::Let { value, .. } => Some(*value),
                _ => None,
            });
            let defined: Vec<ValueId> = defined.collect();
            element.values = defined.into_iter().map(|value| (value, self.value(value))).collect();
            let number = self.value(value);
            let least = Operand::F32(f32::NEG_INFINITY.to_bits());
            let inside = element.inside.map(|inside| self.b().select(Type::F32, number, least, inside));
            of_rows[element.which].push(inside.unwrap_or(number));
        }
        of_rows.map(|mut all| {
            while all.len() > 1 {
                let pairs = all.chunks(2).map(|pair| match pair {
                    [x, y] => scalar::binary(self.b(), BinaryOp::Max, Dtype::F32, *x, *y),
                    _ => pair[0],
                });
                all = pairs.collect();
            }
            // Four neighbouring threads have the row.
            [2, 1].into_iter().fold(all[0], |most, mask| {
                let other = shuffled(self.b(), &[most], Shuffle::Across, mask)[0];
                scalar::binary(self.b(), BinaryOp::Max, Dtype::F32, most, other)
            })
        })
    }

    /// The exponential in two instructions, if it is that of the difference itself.
    fn short_exponential(&mut self, rescaled: &Rescaled<'_>, rest: &[&Statement], base: Reg) -> Shortcuts {
        let of = rest.iter().find_map(|statement| match statement {
            Statement::Let { value, op: Op::Binary(BinaryOp::Sub, of, _) } if *value == rescaled.difference => {
                Some(*of)
            }
            _ => None,
        });
        let Some(of) = of.filter(|_| rescaled.is_natural(self.program)) else { return Shortcuts::new() };
        let log2_e = Operand::F32((-std::f32::consts::LOG2_E).to_bits());
        let offset = self.b().op(Opcode::MulRn, Type::F32, &[base.into(), log2_e]);
        Shortcuts::from([(rescaled.exponential, Shortcut::Exponential(of, offset))])
    }
}
