//! Rewriting random kernels keeps their bits and never adds loads.

use interp::nest::{Outcome, run};
use ir::build::Builder;
use ir::nest::{
    Buffer, BufferId, CheckKind, Condition, Contraction, Extent, IndexId, Kernel, LoopKind, Op, Program, Prologue,
    Reduction, Role, Site, SiteId, Statement, Subscript, Symbol, SymbolSource, ValueId,
};
use ir::rewrite::{drop_units, erase_unused, forward, hoist, renumber, share, simplify};
use ir::{Affine, Array, BinaryOp, CompareOp, Dtype, Monoid, Order, Origin, Scalar, Size, SymbolId, verify};
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
}

/// The buffers, in the order of their declarations.
#[derive(Clone, Copy, PartialEq)]
enum Name {
    X,
    C,
    K,
    Y,
    Z,
    T,
    E,
}

use Name::{C, E, K, T, X, Y, Z};

impl Name {
    fn id(self) -> BufferId {
        BufferId::from_u32(self as u32)
    }
}

const N: usize = 3;

fn n() -> Size {
    Size::symbol(SymbolId::from_u32(0))
}

/// All axes have the same length, so that every index is in bounds for each of them.
fn declare() -> Program {
    let mut program = Program { name: "p".into(), ..Program::default() };
    program.symbols.push(Symbol { name: "n".into(), source: SymbolSource::Dimension { input: 0, axis: 0 } });
    for (name, dtype, rank, role) in [
        ("x", Dtype::F32, 2, Role::Input(0)),
        ("c", Dtype::F32, 0, Role::Input(1)),
        ("k", Dtype::I64, 1, Role::Input(2)),
        ("y", Dtype::F32, 2, Role::Output(0)),
        ("z", Dtype::F32, 1, Role::Output(1)),
        ("t", Dtype::F32, 2, Role::Temp),
        ("e", Dtype::F32, 1, Role::Scratch),
    ] {
        program.buffers.push(Buffer { name: name.into(), dtype, shape: vec![n(); rank], role });
    }
    let what = CheckKind::Axis { array: "x".into(), axis: 0 };
    program.sites.push(Site { origin: Origin::default(), what });
    program
}

struct Maker<'a, 't> {
    c: Choices<'t>,
    b: Builder<'a>,
    floats: Vec<ValueId>,
    /// Checked subscripts.
    places: Vec<ValueId>,
    indices: Vec<IndexId>,
    /// The buffers that may be loaded in addition to the inputs, with the subscripts that were
    /// stored (`None` for any).
    stored: Vec<(BufferId, Option<Vec<Subscript>>)>,
}

impl Maker<'_, '_> {
    fn subscript(&mut self) -> Subscript {
        let index = self.c.of(&self.indices);
        match self.c.below(4) {
            0 => Subscript::Affine(Affine::constant(0)),
            1 => Subscript::Affine(Affine::size(&n() - &Size::constant(1)).sub(&Affine::index(index))),
            2 if !self.places.is_empty() => Subscript::Value(self.c.of(&self.places)),
            _ => Subscript::index(index),
        }
    }

    /// The extent of an axis; for a loop that need not visit each element, sometimes a single
    /// iteration.
    fn extent(&mut self, each: bool) -> Extent {
        let extents = [n(), Size::constant(N as i64), Size::constant(1)];
        Extent::size(extents[self.c.below(if each { 2 } else { 3 })].clone())
    }

    /// Runs `make` in a nested scope, which ends after it.
    fn block<T>(&mut self, indices: &[IndexId], make: impl FnOnce(&mut Self) -> T) -> (Vec<Statement>, T) {
        let lengths = (self.floats.len(), self.places.len(), self.indices.len(), self.stored.len());
        self.indices.extend(indices);
        self.b.begin();
        let made = make(self);
        self.floats.truncate(lengths.0);
        self.places.truncate(lengths.1);
        self.indices.truncate(lengths.2);
        self.stored.truncate(lengths.3);
        (self.b.end(), made)
    }

    fn float(&mut self, op: Op) {
        let value = self.b.op(op);
        self.floats.push(value);
    }

    /// Some statements, and a value of them.
    fn some(&mut self, depth: usize) -> ValueId {
        self.float(Op::Load { buffer: C.id(), view: None, at: vec![] });
        for _ in 0..self.c.below(6) {
            self.statement(depth);
        }
        let [a, b] = [self.c.of(&self.floats), self.c.of(&self.floats)];
        self.b.binary(BinaryOp::Sub, a, b)
    }

    fn statement(&mut self, depth: usize) {
        let [a, b] = [self.c.of(&self.floats), self.c.of(&self.floats)];
        match self.c.below(if depth == 0 { 6 } else { 10 }) {
            0 => {
                let at = vec![self.subscript(), self.subscript()];
                self.float(Op::Load { buffer: X.id(), view: None, at });
            }
            1 => {
                let scalar = Scalar::F32(self.c.of(&[0.5, 3.0]));
                self.float(Op::Constant(scalar));
            }
            2 | 3 => {
                let op = self.c.of(&[BinaryOp::Add, BinaryOp::Mul]);
                self.float(Op::Binary(op, a, b));
            }
            4 => {
                let at = vec![self.subscript()];
                let place = self.b.load(K.id(), at);
                let checked = self.b.check(place, n(), SiteId::from_u32(0));
                self.places.push(checked);
            }
            5 => {
                if !self.stored.is_empty() {
                    let k = self.c.below(self.stored.len());
                    let (buffer, at) = self.stored[k].clone();
                    let at = at.unwrap_or_else(|| vec![self.subscript()]);
                    self.float(Op::Load { buffer, view: None, at });
                }
            }
            6 => {
                let condition = self.b.compare(CompareOp::Lt, a, b);
                let then = self.block(&[], |m| m.some(depth - 1));
                let otherwise = self.block(&[], |m| m.some(depth - 1));
                let joined = self.b.if_(condition, then, otherwise);
                self.floats.push(joined);
            }
            7 => self.while_(depth, [a, b]),
            _ => {
                let index = self.b.index("l");
                let (body, inputs) = self.block(&[index], |m| [m.some(depth - 1), m.c.of(&m.floats)]);
                let mut reductions = vec![];
                for input in &inputs[..1 + self.c.below(2)] {
                    let (op, order) = self.c.of(&[(Monoid::Sum, Order::Lanes), (Monoid::Max, Order::Free)]);
                    let result = self.b.value(Dtype::F32);
                    self.floats.push(result);
                    reductions.push(Reduction::monoid(result, op, order, *input));
                }
                let extent = self.extent(false);
                self.b.loop_(LoopKind::Reduce(reductions), vec![(index, extent)], body);
            }
        }
    }

    /// A loop that carries two values. One may be unused.
    fn while_(&mut self, depth: usize, first: [ValueId; 2]) {
        let index = self.b.index("t");
        let current = first.map(|_| self.b.value(Dtype::F32));
        let shown = self.floats.len();
        self.floats.extend(current);
        let condition = (self.c.below(3) > 0).then(|| {
            let (body, value) = self.block(&[index], |m| {
                let (value, limit) = (m.some(depth - 1), m.b.constant(Scalar::F32(20.0)));
                m.b.compare(CompareOp::Lt, value, limit)
            });
            Condition { body, value }
        });
        let (body, next) = self.block(&[index], |m| [m.some(depth - 1), m.c.of(&m.floats)]);
        self.floats.truncate(shown);
        let state = [0, 1].map(|k| [first[k], current[k], next[k]]).to_vec();
        let counter = (index, self.extent(false));
        let results = self.b.while_(counter, state, condition, body);
        self.floats.extend(&results[..1 + self.c.below(2)]);
    }

    /// A loop or contraction over one index. Its body stores an element of a buffer.
    fn storing(&mut self, buffer: Name, outer: Option<IndexId>) {
        let index = self.b.index("j");
        let dims = vec![(index, self.extent(true))];
        let kind = self.c.below(4);
        let factors = (kind == 3).then(|| {
            let inner = self.b.index("l");
            let mut factor = || {
                let (body, value) = self.block(&[index, inner], |m| m.some(1));
                Prologue { body, value }
            };
            let (left, right) = (factor(), factor());
            (vec![(inner, self.extent(false))], left, right, self.b.value(Dtype::F32))
        });
        let at: Vec<_> = outer.into_iter().chain([index]).map(Subscript::index).collect();
        let (body, input) = self.block(&[index], |m| {
            m.floats.extend(factors.as_ref().map(|f| f.3));
            let value = m.some(1);
            m.b.store(buffer.id(), at.clone(), value);
            m.stored.push((buffer.id(), Some(at)));
            let value = m.some(1);
            if buffer == T {
                m.b.store(Y.id(), vec![Subscript::index(m.indices[0]), Subscript::index(index)], value);
            }
            value
        });
        match (kind, factors) {
            (_, Some((reduce, left, right, result))) => {
                let contraction =
                    Contraction { free: dims, reduce, order: Order::Lanes, left, right, result, epilogue: body };
                self.b.push(Statement::Contract(contraction));
            }
            (0, _) => self.b.loop_(LoopKind::Parallel, dims, body),
            (1, _) => self.b.loop_(LoopKind::Serial, dims, body),
            _ => {
                let result = self.b.value(Dtype::F32);
                self.floats.push(result);
                let sum = Reduction::monoid(result, Monoid::Sum, Order::Blocks, input);
                self.b.loop_(LoopKind::Reduce(vec![sum]), dims, body);
            }
        }
    }
}

/// Rows: some statements, a loop that fills the scratch, one that stores a row each of two arrays,
/// an element.
fn program(bytes: &[u8]) -> Program {
    let mut program = declare();
    let b = Builder::new(&mut program);
    let mut m = Maker { c: Choices(bytes.iter()), b, floats: vec![], places: vec![], indices: vec![], stored: vec![] };
    let row = m.b.index("i");
    let (body, ()) = m.block(&[row], |m| {
        m.some(2);
        m.storing(E, None);
        m.stored.push((E.id(), None));
        m.some(2);
        m.storing(T, Some(row));
        let value = m.some(2);
        m.b.store(Z.id(), vec![Subscript::index(row)], value);
    });
    let (kind, extent) = (m.c.of(&[true, false]), m.extent(true));
    m.b.loop_(if kind { LoopKind::Parallel } else { LoopKind::Serial }, vec![(row, extent)], body);
    m.b.finish_kernel("k".into(), vec![]);
    program
}

fn outcome(program: &Program) -> Result<Outcome, TestCaseError> {
    prop_assert_eq!(verify::verify(program), Ok(()), "{}", program);
    let floats =
        |count: usize| (0..count).map(|k| Scalar::F32([0.5, -3.0, 7.25, 1.0, -0.0][k % 5])).collect::<Vec<_>>();
    let places: Vec<_> = [2, 0, 2].into_iter().map(Scalar::I64).collect();
    let inputs = [
        Array::from_scalars(Dtype::F32, &[N, N], &floats(N * N)).unwrap(),
        Array::scalar(Scalar::F32(1.5)),
        Array::from_scalars(Dtype::I64, &[N], &places).unwrap(),
    ];
    let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    run(program, &inputs).map_err(|e| TestCaseError::fail(format!("{e:?}\n{program}")))
}

type Rewrite = fn(&Program, &mut Kernel) -> usize;

/// Each with its name, and whether it reduces the loads wherever it applies.
const REWRITES: [(&str, Rewrite); 7] = [
    ("erase", |_, kernel| {
        erase_unused(&mut kernel.body);
        0
    }),
    ("share", |_, kernel| share(kernel)),
    ("hoist", hoist),
    ("forward", forward),
    ("simplify", |_, kernel| usize::from(simplify(kernel))),
    ("units", drop_units),
    ("renumber", |program, kernel| {
        *kernel = renumber(program, kernel);
        0
    }),
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bits_stay(bytes in prop::collection::vec(any::<u8>(), 0..400), order in prop::collection::vec(0..REWRITES.len(), 1..8)) {
        let mut program = program(&bytes);
        let mut before = outcome(&program)?;
        for rewrite in order {
            let original = program.to_string();
            let id = program.kernels.keys().next().unwrap();
            let mut kernel = program.kernels[id].clone();
            let (name, rewrite) = REWRITES[rewrite];
            let count = rewrite(&program, &mut kernel);
            program.kernels[id] = kernel;
            let after = outcome(&program)?;
            let text = format!("{name} of {original}gave {program}");
            prop_assert!(before.outputs == after.outputs, "{}", text);
            // A load that leaves a `while` happens even if that takes no step.
            let whiles = text.contains("= while");
            for (buffer, traffic) in &after.traffic[0] {
                let had = before.traffic[0].get(buffer).copied().unwrap_or_default();
                prop_assert!(whiles || traffic.loads <= had.loads, "{}", text);
                prop_assert!(traffic.stores == had.stores, "{}", text);
            }
            prop_assert!(count > 0 || name == "erase" || name == "renumber" || program.to_string() == original);
            before = after;
        }
    }
}
