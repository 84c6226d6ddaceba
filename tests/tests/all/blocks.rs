//! Programs derived for blocks, wherever these end, give the bits of the whole program. The test
//! drives them as a scheduler would: it cuts arrays, joins partial results in the order of the
//! reduction, and hands them to the stages that need them.

use std::collections::BTreeMap;
use std::iter;

use fuseloop::{
    Array, Block, CallOptions, Device, Kernel, Options, Outline, OutputOutline, Program, Scalar, Simd, Stage,
    StageOutline, UnitOutline,
};
use interp::scalar::{binary, compare};
use ir::{BinaryOp, CompareOp, Dtype};
use proptest::collection::vec;
use proptest::test_runner::{TestCaseError, TestError, TestRunner};

use crate::random_cases;

/// The end of the last block of an axis.
const LAST: i64 = i64::MAX;

/// An argument.
enum Given {
    /// An array of fractions of this type and shape: sums are rounded, so their order shows.
    Random(Dtype, &'static [usize]),
    /// An array of small whole numbers: sums are exact in any order.
    Whole(Dtype, &'static [usize]),
    /// A scalar.
    Scalar(Scalar),
}

use Given::{Random, Whole};

const F32: Dtype = Dtype::F32;
const F64: Dtype = Dtype::F64;
const I64: Dtype = Dtype::I64;

/// A function, its arguments, and the ways in which some of its axes may be cut.
type Case = (&'static str, &'static [Given], &'static [&'static str]);

const CASES: &[Case] = &[
    ("fn f(x: f32[n], by: f32) = x * by", &[Random(F32, &[50]), Given::Scalar(Scalar::F32(0.3))], &["mapped"]),
    (
        "fn f(x: f64[n, m], seed: i64) { let y[i, j] = x[i, j] + uniform(seed, i, j) * f64(i - j) / f64(n)\n y }",
        &[Random(F64, &[20, 30]), Given::Scalar(Scalar::I64(7))],
        &["mapped"],
    ),
    (
        "fn f(x: f32[n, m]) { let y[i, j] = x[i, j] / sum(x[i])\n y }",
        &[Random(F32, &[3, 9000])],
        &["mapped", "reduced"],
    ),
    (
        "fn f(c: f32[n]) -> i32[n] { let (_, k)[i] = loop z = 0, k = i32(0) while z * z < 4 && k < 50 { (z * z + c[i], k + 1) }\n k }",
        &[Random(F32, &[300])],
        &["mapped"],
    ),
    (
        "fn f(x: f64[n, m], a: f64) { let rec y[t < n, j < m] = if t == 0 then x[t, j] else a * x[t, j] + (1 - a) * y[t - 1, j]\n y }",
        &[Random(F64, &[20, 30]), Given::Scalar(Scalar::F64(0.3))],
        &["mapped"],
    ),
    (
        "fn f(x: f32[n, m]) { let y[i, j] = sum[r < 3, s < 3](x[i + r, j + s]) / 9\n y }",
        &[Random(F32, &[37, 23])],
        &["stencil"],
    ),
    (
        "fn f(x: f32[n], k: f32[w]) { let y[i] = sum[r < w](k[r] * x[i + r])\n y }",
        &[Random(F32, &[500]), Random(F32, &[9])],
        &["stencil"],
    ),
    (
        "fn f(x: f32[n]) { let y[i < n] = if i > 0 then x[i - 1] else 0\n let z[i < n] = y[i] + (if i + 2 < n then y[i + 2] else 1) + f32(i)\n (y, z) }",
        &[Random(F32, &[50])],
        &["stencil"],
    ),
    ("fn f(x: f64[n]) = sum(x)", &[Random(F64, &[50_000])], &["reduced"]),
    ("fn f(x: f64[n]) = sum(x)", &[Random(F64, &[3])], &["reduced"]),
    ("fn f(x: f64[n]) = prod(x * 1.04)", &[Random(F64, &[30_000])], &["reduced"]),
    ("fn f(x: f64[n, m]) = sum(x)", &[Random(F64, &[131, 200])], &["reduced"]),
    (
        "fn f(x: f64[n, m]) = (x - mean(x, axis = 0)) / std(x, axis = 0)",
        &[Random(F64, &[1500, 4])],
        &["mapped", "reduced"],
    ),
    (
        "fn f(x: f32[n]) = (argmax(x), argmin(x), min(x), max(x), any(x > 1.4), all(x > 0.6))",
        &[Random(F32, &[300])],
        &["reduced"],
    ),
    ("fn f(x: f32[n]) = (argmax(x), argmin(x))", &[Whole(F32, &[40])], &["reduced"]),
    (
        "fn f(x: f32[n, m]) { let along[i, j] = sum[k <= j](x[i, k])\n let before[i, j] = sum[k < i](x[k, j])\n (along, before) }",
        &[Random(F32, &[9000, 3])],
        &["scanned"],
    ),
    (
        "fn f(x: f64[n]) { let c[i] = sum[k < i](x[k] * x[k])\n let y[i] = (c[i + 5] - c[i]) / sum(x)\n y }",
        &[Random(F64, &[9000])],
        &["scanned", "reduced"],
    ),
    ("fn f(x: f32[n]) { let most[i] = max[k <= i](x[k])\n most }", &[Random(F32, &[200])], &["scanned"]),
    (
        "fn f(x: f32[n, d], label: i64[n], k: i64) { let center[c < k, j] = mean[i where label[i] == c](x[i, j])\n center }",
        &[Random(F32, &[9000, 2]), Whole(I64, &[9000]), Given::Scalar(Scalar::I64(7))],
        &["keyed"],
    ),
    (
        "fn f(label: i64[n], k: i64) { let many[c < k] = sum[i where label[i] == c](1)\n many }",
        &[Whole(I64, &[300]), Given::Scalar(Scalar::I64(9))],
        &["keyed"],
    ),
    (
        "fn f(a: f32[n, k], b: f32[k, m]) = a @ b",
        &[Whole(F32, &[6, 9000]), Whole(F32, &[9000, 5])],
        &["mapped", "contracted"],
    ),
];

/// The arguments, with elements that a simple generator gives.
fn arguments(given: &[Given]) -> Vec<Array> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let mut array = |dtype: Dtype, shape: &[usize], number: &dyn Fn(u64) -> f64| {
        let scalar = |value: f64| match dtype {
            Dtype::F32 => Scalar::F32(value as f32),
            Dtype::F64 => Scalar::F64(value),
            _ => Scalar::I64(value as i64),
        };
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| scalar(number(next()))).collect();
        Array::from_scalars(dtype, shape, &elements).unwrap()
    };
    let made = given.iter().map(|given| match given {
        Random(dtype, shape) => array(*dtype, shape, &|word| 0.5 + word as f64 / (1u64 << 53) as f64),
        Whole(dtype, shape) => array(*dtype, shape, &|word| (word % 8) as f64),
        Given::Scalar(value) => Array::scalar(*value),
    });
    made.collect()
}

/// The beginning and the end of a part of each axis.
type Parts = Vec<(usize, usize)>;

/// The numbers of the elements of a part of an array, in order.
fn places(shape: &[usize], parts: &Parts) -> Vec<usize> {
    let mut places = vec![0];
    for (length, (begin, end)) in iter::zip(shape, parts) {
        places = places.iter().flat_map(|at| (*begin..*end).map(move |k| at * length + k)).collect();
    }
    places
}

fn part_of(array: &Array, parts: &Parts) -> Array {
    let shape: Vec<usize> = parts.iter().map(|(begin, end)| end - begin).collect();
    let elements: Vec<Scalar> = places(array.shape(), parts).iter().map(|at| array.get(*at).unwrap()).collect();
    Array::from_scalars(array.dtype(), &shape, &elements).unwrap()
}

/// Writes a part of an array that begins at these places.
fn put(into: &mut Array, at: &[usize], part: &Array) {
    let parts = iter::zip(at, part.shape()).map(|(begin, length)| (*begin, begin + length)).collect();
    for (k, place) in places(into.shape(), &parts).into_iter().enumerate() {
        assert!(into.set(place, part.get(k).unwrap()));
    }
}

/// Two partial results as one: the elements of arrays, and for `argmax` and `argmin` their places
/// before them.
fn join(name: &str, a: &[Array], b: &[Array]) -> Vec<Array> {
    let mut joined = a.to_vec();
    let better = match name {
        "argmax" => CompareOp::Gt,
        "argmin" => CompareOp::Lt,
        _ => {
            let op = match name {
                "sum" => BinaryOp::Add,
                "prod" => BinaryOp::Mul,
                "max" => BinaryOp::Max,
                "min" => BinaryOp::Min,
                "any" => BinaryOp::Or,
                "all" => BinaryOp::And,
                other => panic!("partial results are joined by {other}"),
            };
            for k in 0..a[0].len() {
                assert!(joined[0].set(k, binary(op, a[0].get(k).unwrap(), b[0].get(k).unwrap())));
            }
            return joined;
        }
    };
    for k in 0..a[0].len() {
        // No element is NaN here; the first of equal ones stays.
        if compare(better, b[1].get(k).unwrap(), a[1].get(k).unwrap()) {
            joined.iter_mut().zip(b).for_each(|(one, other)| assert!(one.set(k, other.get(k).unwrap())));
        }
    }
    joined
}

/// A partial result: its level and number in the tree of a reduction, and its arrays.
type Node = (u32, i64, Vec<Array>);

/// The result of partial results, with those joined first that the pairwise levels join.
fn joined(nodes: Vec<Node>, name: &str, is_ordered: bool) -> Vec<Array> {
    let mut stack: Vec<Node> = vec![];
    let is_pair = |a: &Node, b: &Node| a.0 == b.0 && a.1 % 2 == 0 && b.1 == a.1 + 1;
    for node in nodes {
        stack.push(node);
        while let [.., a, b] = &stack[..]
            && (!is_ordered || is_pair(a, b))
        {
            let both = (a.0 + 1, a.1 / 2, join(name, &a.2, &b.2));
            stack.truncate(stack.len() - 2);
            stack.push(both);
        }
    }
    let mut result = stack.pop().expect("each value has a partial result").2;
    while let Some((_, _, before)) = stack.pop() {
        result = join(name, &before, &result);
    }
    result
}

/// The chunks of an order that are nearest to a block: none if they belong to other blocks.
fn chunks_of(unit: &UnitOutline, (begin, end): (i64, i64)) -> Option<(i64, i64)> {
    let last = (unit.length * unit.inner + unit.chunk - 1) / unit.chunk;
    let nearest = |end: i64| match end {
        LAST => last,
        _ => last.min((2 * end * unit.inner + unit.chunk) / (2 * unit.chunk)),
    };
    let (from, to) = (nearest(begin), nearest(end));
    match from < to {
        true => Some((from, to)),
        false => (last == 0 && begin == 0).then_some((0, 1)),
    }
}

/// Chunks as nodes of the pairwise levels: level and number.
fn nodes_of((mut first, last): (i64, i64), is_joined: bool) -> Vec<(u32, i64)> {
    let mut nodes = vec![];
    while first < last {
        let mut level = 0;
        while is_joined && first >> level & 1 == 0 && first + (2 << level) <= last {
            level += 1;
        }
        nodes.push((level, first >> level));
        first += 1 << level;
    }
    nodes
}

/// The beginning and the end of a block along each cut.
type Spans = Vec<(i64, i64)>;

/// A piece of a block: its level and number, where its axes begin and end, and its elements within
/// these ends.
type Piece = (u32, i64, Spans, (i64, i64));

/// The pieces that a block is computed in.
fn pieces(stage: &StageOutline, ends: &[(i64, i64)]) -> Vec<Piece> {
    let Some(unit) = &stage.unit else { return vec![(0, 0, ends.to_vec(), (0, 0))] };
    let cut = stage.outputs[0].over[0].0;
    let nodes = chunks_of(unit, ends[cut]).map_or(vec![], |chunks| nodes_of(chunks, unit.joined));
    let total = unit.length * unit.inner;
    let piece = |(level, number): (u32, i64)| {
        let (begin, end) =
            ((number << level) * unit.chunk, total.min(((number + 1) << level).saturating_mul(unit.chunk)));
        let begin = begin.min(total);
        let rows = match unit.inner {
            0 => (0, unit.length),
            inner => (begin / inner, (end + inner - 1) / inner),
        };
        let mut own = ends.to_vec();
        own[cut] = (rows.0, if rows.1 >= unit.length { LAST } else { rows.1 });
        (level, number, own, (begin - rows.0 * unit.inner, end - begin))
    };
    nodes.into_iter().map(piece).collect()
}

/// A function compiled for a cut of some of its axes.
struct InBlocks {
    /// The number of cuts that there are.
    cuts: usize,
    sizes: Vec<i64>,
    stages: Vec<(StageOutline, Stage)>,
}

/// The ends of the blocks of each cut, without the first and the last.
type Ends = BTreeMap<usize, Vec<i64>>;

impl InBlocks {
    /// Compiles the stages of a cut; none if these axes cannot be cut together.
    fn new(kernel: &Kernel, options: &Options, inputs: &[Array], cut: &[usize]) -> Option<InBlocks> {
        let outlines: Vec<Outline> = inputs.iter().map(outline).collect();
        let sizes = kernel.sizes(&outlines).unwrap();
        let partition = kernel.partition();
        let blocks = partition.blocks(cut).inspect_err(|error| assert!(cut.len() > 1, "{error}")).ok()?;
        let stages = blocks.outline(&sizes).into_iter().enumerate().map(|(number, outline)| {
            let derived = blocks.derive(number).unwrap_or_else(|error| panic!("{error}"));
            (outline, derived.compile(options).unwrap_or_else(|error| panic!("{error}")))
        });
        Some(InBlocks { cuts: partition.cuts().len(), stages: stages.collect(), sizes })
    }

    /// The blocks of a stage: their numbers, and their ends along all cuts.
    fn grid(&self, stage: &StageOutline, ends: &Ends) -> Vec<(Vec<usize>, Spans)> {
        let mut grid = vec![(vec![], vec![(0, LAST); self.cuts])];
        for cut in &stage.cuts {
            let inner = &ends[cut];
            let begins = iter::once(0).chain(inner.iter().copied());
            let spans: Vec<(i64, i64)> = begins.zip(inner.iter().copied().chain([LAST])).collect();
            let along = |(at, all): &(Vec<usize>, Spans), (number, span): (usize, &(i64, i64))| {
                let (mut at, mut all) = (at.clone(), all.clone());
                at.push(number);
                all[*cut] = *span;
                (at, all)
            };
            grid = grid.iter().flat_map(|one| spans.iter().enumerate().map(move |span| along(one, span))).collect();
        }
        grid
    }

    /// The results of a stage for a piece of a block.
    fn piece(&self, stage: &Stage, known: &Known<'_>, ends: &[(i64, i64)], piece: (i64, i64)) -> Vec<Array> {
        let block = Block { sizes: &self.sizes, ends, piece };
        let given = stage.needs(&block).into_iter().map(|needed| {
            let array = if needed.value { &known.values[&needed.number] } else { &known.inputs[needed.number] };
            let parts = iter::zip(&needed.parts, array.shape());
            let part = |(part, length): (&Option<(i64, i64)>, &usize)| match part {
                Some((begin, end)) => (*begin as usize, *end as usize),
                None => (0, *length),
            };
            part_of(array, &parts.map(part).collect())
        });
        let given: Vec<Array> = given.collect();
        let given: Vec<_> = given.iter().map(Array::as_ref).collect();
        stage.call(&given, &block, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The results of the function, computed in blocks that end here.
    fn call(&self, inputs: &[Array], ends: &Ends) -> Vec<Array> {
        let mut known = Known { inputs, values: BTreeMap::new(), results: BTreeMap::new() };
        for (outline, stage) in &self.stages {
            let mut made = Made::new(outline);
            for (at, ends) in self.grid(outline, ends) {
                for (level, number, own, piece) in pieces(outline, &ends) {
                    let mut arrays = self.piece(stage, &known, &own, piece).into_iter();
                    for output in 0..outline.outputs.len() {
                        made.add(output, &at, &own, (level, number, &mut arrays));
                    }
                }
            }
            let whole = made.whole();
            for (output, array) in iter::zip(&outline.outputs, whole) {
                let all = if output.join.is_some() { &mut known.values } else { &mut known.results };
                all.insert(output.number, array);
            }
        }
        known.results.into_values().collect()
    }
}

fn outline(array: &Array) -> Outline {
    let value = if array.shape().is_empty() { array.get(0) } else { None };
    Outline { dtype: array.dtype(), shape: array.shape().to_vec(), value }
}

/// The arrays that there are, by their numbers.
struct Known<'a> {
    inputs: &'a [Array],
    values: BTreeMap<usize, Array>,
    results: BTreeMap<usize, Array>,
}

/// The partial results of one place, and where it begins.
type Partial = (Vec<usize>, Vec<Node>, bool);

/// What the blocks of a stage have given so far.
struct Made<'a> {
    stage: &'a StageOutline,
    /// Each output as one array.
    whole: Vec<Array>,
    /// The partial results of each output, by the numbers of the blocks around the reduction.
    partial: Vec<BTreeMap<Vec<usize>, Partial>>,
    /// The reduction of all blocks so far of each scan, likewise.
    carried: Vec<BTreeMap<Vec<usize>, Array>>,
}

impl Made<'_> {
    fn new(stage: &StageOutline) -> Made<'_> {
        let zeros = |output: &OutputOutline| {
            let shape: Vec<usize> = output.shape.iter().map(|length| *length as usize).collect();
            Array::zeros(output.dtype, &shape).unwrap()
        };
        let count = stage.outputs.len();
        let whole = stage.outputs.iter().map(zeros).collect();
        Made { stage, whole, partial: vec![BTreeMap::new(); count], carried: vec![BTreeMap::new(); count] }
    }

    /// Takes the arrays of an output of a piece.
    fn add(
        &mut self,
        number: usize,
        at: &[usize],
        ends: &[(i64, i64)],
        (level, node, arrays): (u32, i64, &mut dyn Iterator<Item = Array>),
    ) {
        let output = &self.stage.outputs[number];
        let begin = |(cut, length): (&Option<usize>, &i64)| cut.map_or(0, |cut| ends[cut].0.min(*length)) as usize;
        let begins: Vec<usize> = iter::zip(&output.cuts, &output.shape).map(begin).collect();
        let is_over = |cut: &usize| output.over.iter().any(|(over, _)| over == cut);
        let around = iter::zip(at, &self.stage.cuts).filter(|(_, cut)| !is_over(cut));
        let around: Vec<usize> = around.map(|(at, _)| *at).collect();
        let Some(name) = output.join else {
            return put(&mut self.whole[number], &begins, &arrays.next().unwrap());
        };
        let first = arrays.next().unwrap();
        if let Some(axis) = output.scan {
            let total = arrays.next().unwrap();
            let carried = self.carried[number].remove(&around);
            let prefixes = match &carried {
                Some(before) => join(name, &[repeated(before, axis, first.shape())], &[first]).swap_remove(0),
                None => first,
            };
            put(&mut self.whole[number], &begins, &prefixes);
            let carried = carried.map_or(total.clone(), |before| join(name, &[before], &[total]).swap_remove(0));
            self.carried[number].insert(around, carried);
            return;
        }
        let mut arrays = if name.starts_with("arg") { vec![first, arrays.next().unwrap()] } else { vec![first] };
        // Blocks behind the end of a shorter axis have no elements.
        let is_empty = self.stage.unit.is_none() && output.over.iter().any(|(cut, length)| ends[*cut].0 >= *length);
        let known = self.partial[number].entry(around).or_insert_with(|| (begins, vec![], true));
        if known.2 && !known.1.is_empty() && !is_empty {
            known.1.clear();
        }
        if known.1.is_empty() || !is_empty {
            known.1.push((level, node, std::mem::take(&mut arrays)));
            known.2 = is_empty;
        }
    }

    /// The outputs as whole arrays.
    fn whole(mut self) -> Vec<Array> {
        for (number, output) in self.stage.outputs.iter().enumerate() {
            for (begins, nodes, _) in std::mem::take(&mut self.partial[number]).into_values() {
                let name = output.join.expect("a partial result is joined");
                put(&mut self.whole[number], &begins, &joined(nodes, name, self.stage.unit.is_some())[0]);
            }
        }
        self.whole
    }
}

/// An array as often as a shape says along a further axis.
fn repeated(array: &Array, axis: usize, shape: &[usize]) -> Array {
    let inner: usize = shape[axis + 1..].iter().product();
    let elements = (0..shape.iter().product()).map(|k| {
        let (outer, within): (usize, usize) = (k / (inner * shape[axis]).max(1), k % inner.max(1));
        array.get(outer * inner + within).unwrap()
    });
    Array::from_scalars(array.dtype(), shape, &elements.collect::<Vec<Scalar>>()).unwrap()
}

/// All choices of some of these.
fn choices(all: &[usize]) -> Vec<Vec<usize>> {
    (1..1 << all.len())
        .map(|mask: usize| all.iter().enumerate().filter(|(k, _)| mask >> k & 1 == 1).map(|(_, cut)| *cut).collect())
        .collect()
}

#[test]
fn any_blocks_give_the_same_bits() {
    let interp = Options { device: Device::Interp, ..Options::default() };
    let wide = Options { threads: 2, ..Options::default() };
    let narrow = Options { simd: Simd::W128, threads: 1, ..Options::default() };
    for (source, given, ways) in CASES {
        let inputs = arguments(given);
        let program = Program::parse(*source).unwrap_or_else(|errors| panic!("{errors}"));
        let function = program.main().unwrap();
        let whole = function.compile(&interp).unwrap().call(&inputs).unwrap();
        let partition = function.partition();
        let possible =
            |cut: &usize| !partition.cuts()[*cut].params.is_empty() && partition.cuts()[*cut].refusal.is_none();
        let possible: Vec<usize> = (0..partition.cuts().len()).filter(possible).collect();
        let found: Vec<&str> = possible.iter().flat_map(|cut| partition.cuts()[*cut].ways()).collect();
        assert!(ways.iter().all(|way| found.contains(way)), "{source}: {found:?}");
        for options in [&interp, &wide, &narrow] {
            let kernel = function.compile(options).unwrap();
            for cut in choices(&possible) {
                let Some(in_blocks) = InBlocks::new(&kernel, options, &inputs, &cut) else { continue };
                let length = |cut: &usize| {
                    let (param, axis) =
                        (partition.cuts()[*cut].params[0].number, partition.cuts()[*cut].params[0].axis);
                    inputs[param].shape()[axis] as i64
                };
                // Places in thousandths of the length; two in one place have an empty block between them.
                let places = vec(vec(0..=1000i64, 0..5), cut.len());
                let mut runner = TestRunner::new(random_cases(4, 5));
                let outcome = runner.run(&places, |places| {
                    let ends = iter::zip(&cut, places).map(|(cut, mut places)| {
                        places.sort_unstable();
                        (*cut, places.iter().map(|place| place * length(cut) / 1000).collect())
                    });
                    let ends: Ends = ends.collect();
                    match in_blocks.call(&inputs, &ends) == whole {
                        true => Ok(()),
                        false => Err(TestCaseError::fail(format!("blocks that end at {ends:?}"))),
                    }
                });
                if let Err(why) = outcome {
                    let why = match why {
                        TestError::Fail(why, _) => why.to_string(),
                        TestError::Abort(why) => why.to_string(),
                    };
                    panic!("{source} on {:?} {:?}: {why} give other bits", options.device, options.simd);
                }
            }
        }
    }
}
