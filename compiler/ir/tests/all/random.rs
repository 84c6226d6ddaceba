//! Random programs: the builder makes them, the verifier accepts them, and the text form preserves
//! them.

use ir::build::Builder;
use ir::nest::{
    Buffer, BufferId, CheckKind, Condition, Extent, FunctionId, IndexId, Input, Law, LoopKind, Merge, Op, Program,
    Prologue, Purpose, ReducerId, Relation, Requirement, Role, Site, SiteId, Statement, Subscript, Symbol,
    SymbolSource, ValueId,
};
use ir::rewrite::renumber;
use ir::{
    Affine, BinaryOp, CompareOp, Dtype, Extreme, MathFn, Monoid, Order, Origin, ReduceOp, Scalar, Size, SymbolId,
    UnaryOp, verify,
};
use proptest::prelude::*;

/// Random decisions, taken from bytes that proptest shrinks.
struct Choices<'t>(std::slice::Iter<'t, u8>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |b| usize::from(*b)) % n
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn size(&mut self, depth: usize) -> Size {
        let next = depth.saturating_sub(1);
        match self.below(if depth == 0 { 2 } else { 7 }) {
            0 => Size::constant(self.below(256) as i64 - 100),
            1 => Size::symbol(SymbolId::from_u32(self.below(2) as u32)),
            2 => &self.size(next) + &self.size(next),
            3 => &self.size(next) * &self.size(next),
            4 => -&self.size(next),
            5 => Size::keyed_chunk(&self.size(next)),
            _ => self.size(next).floor_div(&self.size(next)),
        }
    }

    fn affine(&mut self, indices: &[IndexId]) -> Affine<IndexId> {
        let mut sum = Affine::size(self.size(2));
        for _ in 0..self.below(3).min(indices.len()) {
            sum = sum.add(&Affine::index(self.of(indices)).scale(&self.size(2)));
        }
        sum
    }

    fn scalar(&mut self, dtype: Dtype) -> Scalar {
        let bits = (0..8).fold(0u64, |bits, _| bits << 8 | self.below(256) as u64);
        Scalar::from_bits(dtype, if self.below(2) == 0 { bits } else { bits >> 48 })
    }

    fn origin(&mut self) -> Origin {
        Origin { start: self.below(9) as u32, end: self.below(99) as u32 }
    }
}

const NAMES: [&str; 9] = ["x", "y.z", "v1", "overflow", "keyed_chunk", "with space", "quo\"te\\", "söft", "if"];

fn declare(c: &mut Choices<'_>) -> Program {
    let mut program = Program { name: c.of(&NAMES).into(), ..Program::default() };
    for (name, input) in [("n", 0), (c.of(&NAMES), 1)] {
        program.symbols.push(Symbol { name: name.into(), source: SymbolSource::Scalar { input } });
    }
    let input = |name: &str, input, dtype| Buffer { name: name.into(), dtype, shape: vec![], role: Role::Input(input) };
    program.buffers.push(input("p", 1, Dtype::I32));
    program.buffers.push(input("q", 0, Dtype::I64));
    for (k, dtype) in Dtype::ALL.into_iter().enumerate() {
        let elements = vec![c.scalar(dtype), c.scalar(dtype)];
        // The first is a temporary, so that there is always a buffer to store to.
        let (role, shape) = match if k == 0 { 0 } else { c.below(3) } {
            0 => (Role::Temp, vec![c.size(3), c.size(1)]),
            1 => (Role::Constant(elements), vec![Size::constant(2), Size::constant(1)]),
            _ => (Role::Output(program.outputs().len()), vec![c.size(1), c.size(3)]),
        };
        program.buffers.push(Buffer { name: format!("{} {k}", c.of(&NAMES)), dtype, shape, role });
    }
    let what = CheckKind::Axis { array: c.of(&NAMES).into(), axis: 1 };
    program.sites.push(Site { origin: c.origin(), what });
    program.sites.push(Site { origin: c.origin(), what: CheckKind::Elements(ReduceOp::Position(Extreme::Least)) });
    program.requires.push(Requirement {
        left: c.size(3),
        relation: c.of(&[Relation::Equal, Relation::AtMost]),
        right: c.size(3),
        unless_empty: (0..c.below(3)).map(|_| c.size(1)).collect(),
        left_is: c.of(&NAMES).into(),
        right_is: c.of(&NAMES).into(),
        purpose: c.of(&Purpose::ALL),
        origin: c.origin(),
    });
    let mut builder = Builder::new(&mut program);
    let param = builder.value(Dtype::F32);
    let zero = builder.constant(Scalar::F32(0.0));
    let result = builder.binary(BinaryOp::Max, param, zero);
    builder.finish_function("relu".into(), MathFn::Relu, vec![param], result);
    program
}

struct Maker<'a, 't> {
    c: Choices<'t>,
    b: Builder<'a>,
    values: Vec<ValueId>,
    indices: Vec<IndexId>,
}

impl Maker<'_, '_> {
    /// A visible value of a type, or a new constant.
    fn value(&mut self, dtype: Dtype) -> ValueId {
        let fitting: Vec<_> = self.values.iter().copied().filter(|v| self.b.dtype(*v) == dtype).collect();
        if !fitting.is_empty() && self.c.below(4) > 0 {
            return self.c.of(&fitting);
        }
        let scalar = self.c.scalar(dtype);
        self.keep(Op::Constant(scalar))
    }

    fn keep(&mut self, op: Op) -> ValueId {
        let value = self.b.op(op);
        self.values.push(value);
        value
    }

    fn subscript(&mut self) -> Subscript {
        match self.c.below(3) {
            0 => Subscript::Value(self.value(Dtype::I64)),
            _ => Subscript::Affine(self.c.affine(&self.indices)),
        }
    }

    fn dims(&mut self, count: usize) -> Vec<(IndexId, Extent)> {
        let dim = |_| {
            let extent = match self.c.below(4) {
                0 => Extent::Value(self.value(Dtype::I64)),
                _ => Extent::Affine(self.c.affine(&self.indices)),
            };
            (self.b.index(self.c.of(&NAMES)), extent)
        };
        (0..count).map(dim).collect()
    }

    /// A block in which further indices are bound. Its definitions go out of scope, except for
    /// those that `last` picks.
    fn block<T>(
        &mut self,
        dims: &[(IndexId, Extent)],
        depth: usize,
        stores: bool,
        last: impl FnOnce(&mut Self) -> T,
    ) -> (Vec<Statement>, T) {
        let (values, indices) = (self.values.len(), self.indices.len());
        self.indices.extend(dims.iter().map(|(i, _)| *i));
        self.b.begin();
        for _ in 0..self.c.below(4) {
            self.statement(depth, stores);
        }
        let picked = last(self);
        let block = self.b.end();
        self.values.truncate(values);
        self.indices.truncate(indices);
        (block, picked)
    }

    fn statement(&mut self, depth: usize, stores: bool) {
        let number = [Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64];
        let dtype = self.c.of(&number);
        match self.c.below(if depth == 0 { 8 } else { 14 }) {
            0 => {
                let affine = self.c.affine(&self.indices);
                self.keep(Op::Affine(affine));
            }
            1 => {
                let (op, a, b) = (self.c.of(BinaryOp::ALL), self.value(Dtype::I64), self.value(Dtype::I64));
                self.keep(Op::Binary(op, a, b));
            }
            2 => {
                let (op, a, b) = (self.c.of(CompareOp::ALL), self.value(dtype), self.value(dtype));
                let compare = self.keep(Op::Compare(op, a, b));
                self.keep(Op::Select(compare, a, b));
            }
            3 => {
                let (op, a) = (self.c.of(UnaryOp::ALL), self.value(Dtype::F64));
                if op != UnaryOp::Not {
                    self.keep(Op::Unary(op, a));
                }
                self.keep(Op::Fma(a, a, a));
                self.keep(Op::Bitcast(Dtype::U64, a));
            }
            4 => {
                let (to, a) = (self.c.of(&Dtype::ALL), self.value(dtype));
                self.keep(Op::Cast(to, a));
            }
            5 => {
                let a = self.value(Dtype::F32);
                self.keep(Op::Call(FunctionId::from_u32(0), vec![a]));
                let (value, bound) = (self.value(Dtype::I64), self.c.size(2));
                self.keep(Op::Check { value, bound, site: SiteId::from_u32(0) });
            }
            6 => {
                let buffer = BufferId::from_u32(self.c.below(13) as u32);
                let view = (buffer.as_u32() < 2 || self.c.below(2) == 0).then(|| vec![self.c.size(2); 2]);
                let at = vec![self.subscript(), self.subscript()];
                self.keep(Op::Load { buffer, view, at });
            }
            7 => {
                let buffer = BufferId::from_u32(2 + self.c.below(11) as u32);
                let (role, dtype) = (&self.b.program.buffers[buffer].role, self.b.program.buffers[buffer].dtype);
                if stores && !matches!(role, Role::Constant(_)) {
                    let (at, value) = (vec![self.subscript(), self.subscript()], self.value(dtype));
                    self.b.store(buffer, at, value);
                }
            }
            8 => {
                let condition = self.value(Dtype::Bool);
                let then = self.block(&[], depth - 1, stores, |m| m.value(dtype));
                let otherwise = self.block(&[], depth - 1, stores, |m| m.value(dtype));
                let joined = self.b.if_(condition, then, otherwise);
                self.values.push(joined);
            }
            9 => {
                let condition = self.value(Dtype::Bool);
                let (then, ()) = self.block(&[], depth - 1, stores, |_| ());
                self.b.push(Statement::If { condition, then, otherwise: vec![], results: vec![] });
            }
            10 => {
                let count = 1 + self.c.below(2);
                let dims = self.dims(count);
                let (body, ()) = self.block(&dims, depth - 1, stores, |_| ());
                let kind = self.c.of(&[true, false]);
                self.b.loop_(if kind { LoopKind::Parallel } else { LoopKind::Serial }, dims, body);
            }
            11 => {
                let count = 1 + self.c.below(2);
                let dims = self.dims(count);
                let (monoid, dtype) = self.c.of(&[
                    (Some(Monoid::Sum), dtype),
                    (Some(Monoid::Max), dtype),
                    (None, dtype),
                    (Some(Monoid::Any), Dtype::Bool),
                ]);
                let ordered = self.c.of(&[Order::Lanes, Order::Blocks, Order::Scan]);
                let (body, input) = self.block(&dims, depth - 1, false, |m| m.value(dtype));
                match monoid {
                    Some(monoid) => {
                        let order = if monoid.depends_on_order(dtype) { ordered } else { Order::Free };
                        let result = self.b.reduce(dims, body, monoid, order, input);
                        self.values.push(result);
                    }
                    None => {
                        let merge = Merge::Reducer(latest(self.b.program, dtype));
                        let inputs = vec![Input::Value(input), Input::Number];
                        let state = self.b.reduce_states(dims, body, merge, ordered, inputs);
                        self.values.extend(state);
                    }
                }
            }
            12 => self.while_(depth, dtype),
            _ => {
                if stores {
                    self.contract(depth, dtype);
                }
            }
        }
    }

    fn while_(&mut self, depth: usize, dtype: Dtype) {
        let types: Vec<Dtype> = [dtype, Dtype::Bool].into_iter().take(self.c.below(3)).collect();
        let first: Vec<ValueId> = types.iter().map(|dtype| self.value(*dtype)).collect();
        let current: Vec<ValueId> = types.iter().map(|dtype| self.b.value(*dtype)).collect();
        let (dims, values) = (self.dims(1), self.values.len());
        self.values.extend(&current);
        let condition = (self.c.below(3) > 0).then(|| {
            let (body, value) = self.block(&dims, depth - 1, false, |m| m.value(Dtype::Bool));
            Condition { body, value }
        });
        let next = |m: &mut Self| types.iter().map(|dtype| m.value(*dtype)).collect::<Vec<_>>();
        let (body, next) = self.block(&dims, depth - 1, false, next);
        self.values.truncate(values);
        let state = first.into_iter().zip(current).zip(next).map(|((first, current), next)| [first, current, next]);
        let results = self.b.while_(dims[0].clone(), state.collect(), condition, body);
        self.values.extend(results);
    }

    fn contract(&mut self, depth: usize, dtype: Dtype) {
        let free = self.c.below(2);
        let (free, reduce) = (self.dims(free), self.dims(1));
        let all: Vec<_> = free.iter().chain(&reduce).cloned().collect();
        let (body, value) = self.block(&all, depth - 1, false, |m| m.value(dtype));
        let left = Prologue { body, value };
        let (body, value) = self.block(&all, depth - 1, false, |m| m.value(dtype));
        let right = Prologue { body, value };
        let buffer = BufferId::from_u32(2);
        let to = self.b.program.buffers[buffer].dtype;
        let order = self.c.of(&[Order::Lanes, Order::Blocks]);
        self.b.contract(free, (reduce, order), [left, right], |b, sum| {
            let cast = b.op(Op::Cast(to, sum));
            b.store(buffer, vec![Subscript::Affine(Affine::constant(0)); 2], cast);
        });
    }
}

/// A reducer with an element and its number as its state. It keeps the latest.
fn latest(program: &mut Program, dtype: Dtype) -> ReducerId {
    let name = format!("latest.{}.{dtype}", program.reducers.len());
    let mut b = Builder::new(program);
    let params: Vec<_> = [dtype, Dtype::I64, dtype, Dtype::I64].into_iter().map(|t| b.value(t)).collect();
    let later = b.compare(CompareOp::Ge, params[3], params[1]);
    let results = [0, 1].map(|k| b.op(Op::Select(later, params[k + 2], params[k])));
    let identity = vec![Scalar::zero(dtype), Scalar::I64(-1)];
    b.finish_reducer(name, Law::Ordered, identity, params, results.to_vec())
}

fn program(bytes: &[u8]) -> Program {
    let mut c = Choices(bytes.iter());
    let mut program = declare(&mut c);
    for k in 0..2 {
        let mut maker = Maker { c, b: Builder::new(&mut program), values: vec![], indices: vec![] };
        for _ in 0..6 {
            maker.statement(3, true);
        }
        c = maker.c;
        let origins = (0..c.below(3)).map(|_| c.origin()).collect();
        maker.b.finish_kernel(format!("{}{k}", c.of(&NAMES)), origins);
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_keeps_everything(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let program = program(&bytes);
        let text = program.to_string();
        prop_assert_eq!(verify::verify(&program), Ok(()), "{}", text);
        match text.parse::<Program>() {
            Ok(read) => {
                prop_assert_eq!(read.to_string(), text);
                prop_assert!(read == program);
            }
            Err(error) => prop_assert!(error.message == "the expression is too large", "{}\n{}", error, text),
        }
        for kernel in program.kernels.values() {
            let mut again = program.clone();
            again.kernels.clear();
            again.body.clear();
            again.push_kernel(renumber(&program, kernel));
            prop_assert_eq!(verify::verify(&again), Ok(()), "{}", again);
        }
    }
}
