//! Random checked programs with everything that lowering must distinguish: shared nodes, guarded
//! branches, triangular and data-dependent extents, prefixes, gathers, reshapes and literals. All
//! axes have the same length.

use ir::checked::{Checked, ExprId, Extent, GuardId, IndexId, Kind};
use ir::{Affine, BinaryOp, CompareOp, Dtype, Monoid, ReduceOp, Scalar, UnaryOp};

use super::sample::{Sample, at, plus};

/// A small generator of numbers: the same programs on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.roll(from.len() as u64)).unwrap()]
    }
}

/// An index in scope, and whether it runs over a whole axis.
#[derive(Clone, Copy, PartialEq)]
struct InScope {
    index: IndexId,
    whole: bool,
}

/// A node that may be used again below the same indices and guard.
#[derive(Clone)]
struct Made {
    id: ExprId,
    scope: Vec<InScope>,
    guard: GuardId,
}

struct Generator {
    s: Sample,
    dice: Dice,
    dtype: Dtype,
    params: [ExprId; 3],
    lengths: ExprId,
    scope: Vec<InScope>,
    scalars: Vec<Made>,
    arrays: Vec<Made>,
    budget: u32,
}

/// A program for a seed.
pub fn program(seed: u64) -> Checked {
    let mut s = Sample::new();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let dtype = dice.pick(&[Dtype::I64, Dtype::F32]);
    let params = [s.param("x", dtype, &["n"]), s.param("y", dtype, &["n", "n"]), s.param("a", dtype, &[])];
    let lengths = s.param("len", Dtype::I64, &["n"]);
    let budget = 12 + u32::try_from(dice.roll(16)).unwrap();
    let mut g = Generator { s, dice, dtype, params, lengths, scope: vec![], scalars: vec![], arrays: vec![], budget };
    for result in ["r", "t"] {
        let id = if g.dice.roll(3) == 0 { g.scalar() } else { g.array().0 };
        g.s.result(result, id);
    }
    g.s.checked
}

impl Generator {
    fn spend(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.budget > 0
    }

    fn constant(&mut self, value: i64) -> ExprId {
        let value = interp::scalar::cast(self.dtype, Scalar::I64(value));
        self.s.scalar(Kind::Constant(value), self.dtype)
    }

    fn reusable(&mut self, scalars: bool) -> Option<ExprId> {
        let made = if scalars { &self.scalars } else { &self.arrays };
        let fits = |m: &&Made| self.scope.starts_with(&m.scope) && self.s.checked.within(self.s.guard, m.guard);
        let fitting: Vec<ExprId> = made.iter().filter(fits).map(|m| m.id).collect();
        if fitting.is_empty() { None } else { Some(self.dice.pick(&fitting)) }
    }

    fn keep(&mut self, id: ExprId) -> ExprId {
        let made = Made { id, scope: self.scope.clone(), guard: self.s.guard };
        match self.s.checked.exprs[id].ty.is_scalar() {
            true => self.scalars.push(made),
            false => self.arrays.push(made),
        }
        id
    }

    fn leaf(&mut self) -> ExprId {
        match self.dice.roll(4) {
            0 => {
                let value = i64::try_from(self.dice.roll(4)).unwrap();
                self.constant(value)
            }
            1 => self.params[2],
            _ if self.scope.is_empty() => self.constant(3),
            2 => {
                let index = self.dice.pick(&self.scope.clone()).index;
                let value = self.s.value_of(index);
                self.s.scalar(Kind::Cast(value), self.dtype)
            }
            _ => {
                let index = self.dice.pick(&self.scope.clone()).index;
                self.s.element(self.params[0], &[at(index)])
            }
        }
    }

    fn scalar(&mut self) -> ExprId {
        if !self.spend() {
            return self.leaf();
        }
        let id = match self.dice.roll(15) {
            0 => return self.leaf(),
            1 | 2 => match self.reusable(true) {
                Some(id) => return id,
                None => self.leaf(),
            },
            3 | 4 => {
                let (a, b) = (self.scalar(), self.scalar());
                let op = self.dice.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max]);
                self.s.binary(op, a, b)
            }
            5 => {
                let a = self.scalar();
                self.s.scalar(Kind::Unary(UnaryOp::Neg, a), self.dtype)
            }
            6 => {
                let (a, b, then, otherwise) = (self.scalar(), self.scalar(), self.scalar(), self.scalar());
                let condition = self.s.compare(CompareOp::Lt, a, b);
                self.s.either(condition, then, otherwise)
            }
            7 | 8 => self.guarded(),
            9 => self.gather(),
            10 | 11 if !self.scope.is_empty() => {
                let (array, rank) = self.array();
                let at = self.subscripts(rank);
                self.s.element(array, &at)
            }
            _ => self.reduction(),
        };
        self.keep(id)
    }

    /// Subscripts that are inside.
    fn subscripts(&mut self, rank: usize) -> Vec<Affine<IndexId>> {
        (0..rank).map(|_| at(self.dice.pick(&self.scope.clone()).index)).collect()
    }

    /// Makes within more indices.
    fn under<T>(&mut self, indices: &[InScope], make: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.scope.len();
        self.scope.extend_from_slice(indices);
        let made = make(self);
        self.scope.truncate(outer);
        made
    }

    fn whole(&mut self) -> InScope {
        InScope { index: self.s.over("i", "n"), whole: true }
    }

    fn guarded(&mut self) -> ExprId {
        let Some(InScope { index, .. }) = self.scope.last().copied() else { return self.leaf() };
        let (value, zero) = (self.s.value_of(index), self.s.i64(0));
        let condition = self.s.compare(CompareOp::Gt, value, zero);
        let outer = self.s.guard;
        self.s.guard = self.s.checked.guards.push(outer);
        let (array, rank) = self.array();
        let mut at = self.subscripts(rank);
        at[0] = plus(index, -1);
        let element = self.s.element(array, &at);
        self.keep(element);
        let more = self.scalar();
        let then = self.s.binary(BinaryOp::Sub, element, more);
        self.s.guard = outer;
        let otherwise = self.scalar();
        self.s.either(condition, then, otherwise)
    }

    fn gather(&mut self) -> ExprId {
        let Some(InScope { index, .. }) = self.scope.last().copied() else { return self.leaf() };
        let at = self.s.element(self.lengths, &[at(index)]);
        let (array, last) = match self.dice.roll(2) {
            0 => {
                let elements = (0..3).map(|_| self.scalar()).collect();
                let ty = ir::checked::Type { dtype: self.dtype, shape: vec![3.into()] };
                (self.s.node(Kind::ArrayLiteral(elements), ty), self.s.i64(2))
            }
            _ => {
                let i = self.whole();
                let body = self.under(&[i], Self::scalar);
                let last = &self.s.size("n") - &1.into();
                (self.s.array(&[i.index], body), self.s.scalar(Kind::Size(last), Dtype::I64))
            }
        };
        let zero = self.s.i64(0);
        let at = self.s.binary(BinaryOp::Max, at, zero);
        let at = self.s.binary(BinaryOp::Min, at, last);
        self.s.gather(array, at)
    }

    fn reduction(&mut self) -> ExprId {
        let mut ops = vec![ReduceOp::Monoid(Monoid::Sum), ReduceOp::Monoid(Monoid::Max), ReduceOp::Monoid(Monoid::Min)];
        let outer = self.scope.last().copied();
        let choice = self.dice.roll(6);
        match (choice, outer) {
            // A prefix: the body does not mention the index that bounds it.
            (0 | 1, Some(of)) if of.whole => {
                let inclusive = self.dice.roll(2) == 0;
                let k = self.s.index("k", plus(of.index, i64::from(inclusive)));
                let scope: Vec<_> = self.scope.iter().copied().filter(|i| *i != of).collect();
                let saved = std::mem::replace(&mut self.scope, scope);
                let body = self.under(&[InScope { index: k, whole: false }], Self::scalar);
                self.scope = saved;
                let op = self.dice.pick(&ops);
                self.s.prefix(op, k, of.index, inclusive, body)
            }
            (2, Some(outer)) => {
                let k = InScope { index: self.s.index("k", plus(outer.index, 1)), whole: false };
                let body = self.under(&[k], Self::scalar);
                let op = self.dice.pick(&ops);
                self.s.reduce(op, &[k.index], body)
            }
            (3, Some(outer)) => {
                let end = self.s.element(self.lengths, &[at(outer.index)]);
                let n = self.s.size("n");
                let n = self.s.scalar(Kind::Size(n), Dtype::I64);
                let end = self.s.binary(BinaryOp::Min, end, n);
                let k = InScope { index: self.s.index_to("k", Extent::Dynamic(end)), whole: false };
                let mut over = vec![k];
                if self.dtype == Dtype::I64 {
                    over.push(InScope { index: self.s.index("l", at(k.index)), whole: false });
                }
                let body = self.under(&over, Self::scalar);
                let over: Vec<_> = over.iter().map(|i| i.index).collect();
                let op = self.dice.pick(&ops);
                self.s.reduce(op, &over, body)
            }
            (4, Some(_)) if self.dtype == Dtype::I64 => {
                let k = self.whole();
                let (left, right) = self.under(&[k], |g| (g.scalar(), g.scalar()));
                self.s.contract(&[k.index], left, right)
            }
            _ => {
                if self.dtype == Dtype::I64 {
                    ops.push(ReduceOp::Monoid(Monoid::Prod));
                }
                let over: Vec<_> = (0..=self.dice.roll(2)).map(|_| self.whole()).collect();
                let body = self.under(&over, Self::scalar);
                let over: Vec<_> = over.iter().map(|i| i.index).collect();
                let op = self.dice.pick(&ops);
                self.s.reduce(op, &over, body)
            }
        }
    }

    /// An array with its rank, which is 1 or 2.
    fn array(&mut self) -> (ExprId, usize) {
        let reuse = if self.dice.roll(4) == 0 { self.reusable(false) } else { None };
        let id = match (reuse, self.spend()) {
            (Some(id), _) => id,
            (None, false) => self.params[usize::try_from(self.dice.roll(2)).unwrap()],
            (None, true) => match self.dice.roll(6) {
                0 => self.params[usize::try_from(self.dice.roll(2)).unwrap()],
                1 => {
                    let (array, rank) = self.array();
                    let n = self.s.size("n");
                    if rank == 2 {
                        let flat = self.s.reshape(array, vec![&n * &n]);
                        self.s.reshape(flat, vec![n.clone(), n])
                    } else {
                        self.s.reshape(array, vec![n])
                    }
                }
                2 => {
                    let i = self.whole();
                    let body = self.under(&[i], |g| {
                        let (array, rank) = g.array();
                        if rank == 2 { g.s.element(array, &[at(i.index), at(i.index)]) } else { array }
                    });
                    self.s.array(&[i.index], body)
                }
                3 => {
                    let (i, j) = (self.whole(), self.whole());
                    let body = self.under(&[i, j], Self::scalar);
                    let order = self.dice.pick(&[[i, j], [j, i]]);
                    self.s.array(&[order[0].index, order[1].index], body)
                }
                _ => {
                    let i = self.whole();
                    let body = self.under(&[i], Self::scalar);
                    self.s.array(&[i.index], body)
                }
            },
        };
        let rank = self.s.checked.exprs[id].ty.shape.len();
        self.keep(id);
        (id, rank)
    }
}
