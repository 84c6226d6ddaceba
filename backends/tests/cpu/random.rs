//! Random straight-line bodies over random types: vectorized code against the interpreter.

use ir::build::Builder;
use ir::nest::{
    Buffer, BufferId, Extent, IndexId, Input, LoopKind, Merge, Program, Reducer, ReducerId, Reduction, Role, Subscript,
    Symbol, SymbolSource, ValueId,
};
use ir::{Affine, BinaryOp, CompareOp, Dtype, MathFn, Monoid, Order, Scalar, Size, SymbolId, UnaryOp};
use proptest::prelude::*;

use crate::harness::{Random, WAYS, agree, argmax, compile_for, inputs};
use crate::reducers::counted_sum;

const COMPUTE: [Dtype; 7] = [Dtype::Bool, Dtype::I32, Dtype::I64, Dtype::U32, Dtype::U64, Dtype::F32, Dtype::F64];
const MEMORY: [Dtype; 13] = Dtype::ALL;

/// A reducer of the program that finds the first maximum.
fn add_argmax(program: &mut Program, dtype: Dtype) -> ReducerId {
    let name = format!("argmax.{}.{dtype}", program.reducers.len());
    program.reducers.push(Reducer { name, ..argmax(dtype) })
}

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.next() as usize % of.len()]
}

/// A value of a type from the pool, or a constant.
fn operand(random: &mut Random, b: &mut Builder<'_>, pool: &[ValueId], dtype: Dtype) -> ValueId {
    let fit: Vec<ValueId> = pool.iter().copied().filter(|v| b.dtype(*v) == dtype).collect();
    if fit.is_empty() || random.next().is_multiple_of(8) {
        let constant = random.scalar(dtype);
        return b.constant(constant);
    }
    pick(random, &fit)
}

/// A random operation on values of the pool.
fn operation(random: &mut Random, b: &mut Builder<'_>, pool: &[ValueId]) -> ValueId {
    let dtype = pick(random, &COMPUTE);
    let float = dtype.is_float();
    let [x, y, z] = [(); 3].map(|()| operand(random, b, pool, dtype));
    match random.next() % 8 {
        0 if float => {
            b.unary(pick(random, &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sqrt, UnaryOp::Floor, UnaryOp::Round]), x)
        }
        0 if dtype == Dtype::Bool => b.unary(UnaryOp::Not, x),
        0 => b.unary(pick(random, &[UnaryOp::Neg, UnaryOp::Not, UnaryOp::Abs]), x),
        1 | 2 if float => {
            use BinaryOp::{Add, Div, Max, Min, Mul, Rem, Sub};
            b.binary(pick(random, &[Add, Sub, Mul, Div, Rem, Min, Max]), x, y)
        }
        1 | 2 if dtype == Dtype::Bool => b.binary(pick(random, &[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor]), x, y),
        1 | 2 => {
            let all: Vec<BinaryOp> = BinaryOp::ALL.to_vec();
            b.binary(pick(random, &all), x, y)
        }
        3 => b.compare(pick(random, CompareOp::ALL), x, y),
        4 if float => b.fma(x, y, z),
        4 | 5 => {
            let c = operand(random, b, pool, Dtype::Bool);
            b.select(c, x, y)
        }
        6 => {
            let from = if random.next().is_multiple_of(4) { pick(random, pool) } else { x };
            b.cast(pick(random, &COMPUTE), from)
        }
        _ => match dtype {
            Dtype::F32 | Dtype::F64 => {
                // The bits of a NaN are unspecified, so they must not reach a result.
                let number = b.compare(CompareOp::Eq, x, x);
                let zero = b.constant(Scalar::zero(dtype));
                let x = b.select(number, x, zero);
                b.bitcast(if dtype == Dtype::F32 { Dtype::I32 } else { Dtype::U64 }, x)
            }
            Dtype::I32 | Dtype::U32 => b.bitcast(Dtype::F32, x),
            Dtype::I64 | Dtype::U64 => b.bitcast(Dtype::F64, x),
            _ => b.cast(Dtype::F32, x),
        },
    }
}

fn buffer(program: &mut Program, name: String, dtype: Dtype, shape: Vec<Size>, role: Role) -> BufferId {
    program.buffers.push(Buffer { name, dtype, shape, role })
}

/// How a leaf reads an array: its shape and the subscript.
fn access(random: &mut Random, n: &Size, i: IndexId) -> (Vec<Size>, Vec<Subscript>) {
    let affine = |a: Affine<IndexId>| Subscript::Affine(a);
    let index = Affine::index(i);
    match random.next() % 6 {
        0 => (vec![], vec![]),
        1 => (
            vec![&(n * &Size::constant(3)) + &Size::constant(1)],
            vec![affine(index.scale(&Size::constant(3)).add(&Affine::constant(1)))],
        ),
        2 => (vec![n.clone()], vec![affine(Affine::size(n - &Size::constant(1)).sub(&index))]),
        3 => (vec![n.clone(), n.clone()], vec![affine(Affine::constant(0)), affine(index)]),
        _ => (vec![n.clone()], vec![affine(index)]),
    }
}

pub fn program(seed: u64, operations: usize) -> Program {
    let random = &mut Random(seed);
    let mut program = Program { name: "random".into(), ..Program::default() };
    let n = Size::symbol(SymbolId::from_u32(0));
    program.symbols.push(Symbol { name: "n".into(), source: SymbolSource::Dimension { input: 0, axis: 0 } });
    let first = pick(random, &MEMORY);
    let mut loads = vec![(buffer(&mut program, "x".into(), first, vec![n.clone()], Role::Input(0)), None)];
    let mut b = Builder::new(&mut program);
    let i = b.index("i");
    for k in 1..1 + random.next() as usize % 4 {
        let (shape, at) = access(random, &n, i);
        let dtype = pick(random, &MEMORY);
        loads.push((buffer(b.program, format!("x{k}"), dtype, shape, Role::Input(k)), Some(at)));
    }
    let relu = function(&mut b);
    b.begin();
    let mut pool = vec![];
    for (id, at) in &loads {
        let v = b.load(*id, at.clone().unwrap_or_else(|| vec![Subscript::index(i)]));
        pool.push(v);
        let wide = b.dtype(v).compute();
        pool.push(b.cast(wide, v));
    }
    pool.push(b.affine(Affine::index(i).scale(&Size::constant(5)).sub(&Affine::size(n.clone()))));
    for _ in 0..operations {
        let v = if random.next().is_multiple_of(10) {
            branch(random, &mut b, &pool)
        } else if random.next().is_multiple_of(12) {
            let x = operand(random, &mut b, &pool, Dtype::F32);
            b.call(relu, vec![x])
        } else {
            operation(random, &mut b, &pool)
        };
        pool.push(v);
    }
    let dims = vec![(i, Extent::size(n.clone()))];
    if random.next().is_multiple_of(3) {
        let mut reductions = vec![];
        for v in pool.iter().rev().copied() {
            let dtype = b.dtype(v);
            if reductions.len() == 3 || dtype.is_storage() {
                continue;
            }
            let monoid = match dtype {
                Dtype::Bool => Some(pick(random, &[Monoid::Any, Monoid::All])),
                _ => pick(random, &[Some(Monoid::Sum), Some(Monoid::Prod), Some(Monoid::Max), Some(Monoid::Min), None]),
            };
            let ordered = pick(random, &[Order::Lanes, Order::Lanes, Order::Blocks, Order::Scan]);
            reductions.push(match monoid {
                Some(monoid) => {
                    let order = if monoid.depends_on_order(dtype) { ordered } else { Order::Free };
                    Reduction::monoid(b.value(dtype), monoid, order, v)
                }
                None => {
                    let (id, order) = match pick(random, &[true, false]) {
                        true => (add_argmax(b.program, dtype), Order::Free),
                        false => (counted_sum(b.program, dtype), ordered),
                    };
                    let state: Vec<Dtype> = b.program.reducers[id].state().collect();
                    let results = state.into_iter().map(|t| b.value(t)).collect();
                    let inputs = vec![Input::Value(v), Input::Number];
                    Reduction { results, merge: Merge::Reducer(id), order, inputs }
                }
            });
        }
        let body = b.end();
        let results: Vec<ValueId> = reductions.iter().flat_map(|r| r.results.clone()).collect();
        b.loop_(LoopKind::Reduce(reductions), dims, body);
        for (k, v) in results.into_iter().enumerate() {
            let y = buffer(b.program, format!("y{k}"), b.dtype(v), vec![], Role::Output(k));
            b.store(y, vec![], v);
        }
    } else {
        for (k, v) in pool.iter().rev().take(3).enumerate() {
            let y = buffer(b.program, format!("y{k}"), b.dtype(*v), vec![n.clone()], Role::Output(k));
            b.store(y, vec![Subscript::index(i)], *v);
        }
        let body = b.end();
        b.loop_(LoopKind::Parallel, dims, body);
    }
    b.finish_kernel("k".into(), vec![]);
    program
}

fn branch(random: &mut Random, b: &mut Builder<'_>, pool: &[ValueId]) -> ValueId {
    let c = operand(random, b, pool, Dtype::Bool);
    b.begin();
    // Some sides are long enough to be skipped if no lane needs them.
    let mut inside = pool.to_vec();
    for _ in 0..[0, 0, 8, 24][random.next() as usize % 4] {
        inside.push(operation(random, b, &inside));
    }
    let x = operation(random, b, &inside);
    let dtype = b.dtype(x);
    let then = b.end();
    b.begin();
    let y = operand(random, b, pool, dtype);
    let y = if dtype == Dtype::Bool { b.unary(UnaryOp::Not, y) } else { b.binary(BinaryOp::Add, y, y) };
    let otherwise = b.end();
    if random.next().is_multiple_of(2) {
        b.if_(c, (then, x), (otherwise, y))
    } else {
        b.if_(c, (otherwise, y), (then, x))
    }
}

/// A function with a branch, called by some bodies.
fn function(b: &mut Builder<'_>) -> ir::nest::FunctionId {
    let mut f = Builder::new(b.program);
    let x = f.value(Dtype::F32);
    let zero = f.constant(Scalar::F32(0.0));
    let below = f.compare(CompareOp::Lt, x, zero);
    f.begin();
    let three = f.constant(Scalar::I32(3));
    let bits = f.bitcast(Dtype::I32, x);
    let shifted = f.binary(BinaryOp::Shr, bits, three);
    let y = f.bitcast(Dtype::F32, shifted);
    let then = f.end();
    f.begin();
    let z = f.fma(x, x, zero);
    let otherwise = f.end();
    let result = f.if_(below, (then, y), (otherwise, z));
    f.finish_function("relu.f32".into(), MathFn::Relu, vec![x], result)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bodies(
        seed in any::<u64>(),
        operations in 1..30usize,
        n in prop::sample::select(vec![0i64, 1, 3, 4, 7, 16, 17, 33, 130, 300]),
        way in prop::sample::select(&WAYS),
    ) {
        let program = program(seed, operations);
        ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{program}"));
        let module = compile_for(&program, way);
        let inputs = inputs(&program, &[n], &mut Random(seed ^ 1), false);
        agree(&program, &module, &inputs, &format!("{way:?}, n = {n}"));
    }
}
