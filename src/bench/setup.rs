//! The sizes and arrays for measurements.

use std::collections::{BTreeMap, BTreeSet};

use compiler::analysis::cost::{self, Machine};
use compiler::explain::Sizes;
use ir::array::{Array, ArrayError};
use ir::bind::Binding;
use ir::nest::{BufferId, Op, Program, Role, SymbolSource};
use ir::size::SizeError;
use ir::{CompareOp, Dtype, Scalar, Size, SymbolId, visit};

use crate::random::random;

/// Sizes that are not given are chosen so that inputs and results take at most this many bytes.
const WORKING_SET: i64 = 256 << 20;

/// The maximum time of a call for sizes that are not given, in nanoseconds of the cost model.
const LONGEST: f64 = 5e8;

/// If equal values do not fit, up to this many of the sizes that are not given are varied.
const TRIED: usize = 4;

/// The value of each size name of a call.
pub(super) struct Chosen {
    /// Those with a name in the source.
    pub named: Vec<(String, i64)>,
    /// By symbol.
    pub all: Vec<i64>,
}

/// The given sizes, and for the others sizes that make the arrays large.
pub(super) fn sizes(program: &Program, names: &Sizes, given: &[(&str, i64)]) -> Chosen {
    let mut in_shapes = BTreeSet::new();
    for size in program.buffers.values().flat_map(|buffer| &buffer.shape) {
        names.known(size, &BTreeMap::new()).for_each_symbol(&mut |symbol| _ = in_shapes.insert(symbol));
    }
    let known = |(symbol, name): (SymbolId, &str)| {
        let size = given.iter().find(|(given, _)| *given == name).map(|(_, size)| *size);
        // A number that is not a length is like any other scalar.
        (symbol, size.or_else(|| (!in_shapes.contains(&symbol)).then_some(1)))
    };
    let known: Vec<(SymbolId, Option<i64>)> = names.names().map(known).collect();
    let all = |sizes: &BTreeMap<SymbolId, i64>| -> Vec<i64> {
        let value = |symbol| names.known(&Size::symbol(symbol), sizes).as_constant().unwrap_or(1);
        program.symbols.keys().map(value).collect()
    };
    let mut found = (0..=30).rev().flat_map(|power| candidates(&known, power));
    let found = found.find(|sizes| suits(program, &all(sizes)));
    let found = found.unwrap_or_else(|| known.iter().map(|(symbol, size)| (*symbol, size.unwrap_or(1))).collect());
    let named = names.names().map(|(symbol, name)| (name.to_owned(), found[&symbol])).collect();
    Chosen { named, all: all(&found) }
}

/// The sizes that are not given as a power of two; then some of them half or twice as large.
fn candidates(known: &[(SymbolId, Option<i64>)], power: u32) -> impl Iterator<Item = BTreeMap<SymbolId, i64>> {
    let free = known.iter().filter(|(_, size)| size.is_none()).count().min(TRIED);
    let ways = 3usize.pow(u32::try_from(free).unwrap_or(0));
    (0..ways).map(move |way| {
        let mut way = way;
        let mut own = || {
            let size = [1 << power, 1 << (power + 1), (1 << power) / 2][way % 3];
            way /= 3;
            size
        };
        known.iter().map(|(symbol, size)| (*symbol, size.unwrap_or_else(&mut own))).collect()
    })
}

/// Whether arrays of these sizes fit the function, are within the limit on bytes, and are processed
/// in time.
fn suits(program: &Program, sizes: &[i64]) -> bool {
    let value = |symbol: SymbolId| sizes[symbol.as_u32() as usize];
    let bytes = |buffer: &ir::nest::Buffer| -> Result<i64, SizeError> {
        let width = i64::try_from(buffer.dtype.bytes()).unwrap_or(1);
        buffer.shape.iter().try_fold(width, |bytes, n| Ok(bytes.saturating_mul(n.eval(&value)?.max(0))))
    };
    let (mut outside, mut inside) = (0i64, 0i64);
    for buffer in program.buffers.values() {
        let Ok(bytes) = bytes(buffer) else { return false };
        let sum = if matches!(buffer.role, Role::Temp) { &mut inside } else { &mut outside };
        *sum = sum.saturating_add(bytes);
    }
    if outside > WORKING_SET || inside > 4 * WORKING_SET {
        return false;
    }
    let given = cost::given(value);
    let price = |kernel| cost::price(program, kernel, &given, &Machine::NOMINAL).time;
    let times = program.kernels.values().map(price).zip(cost::runs(program, &given));
    if times.map(|(time, runs)| time * runs).sum::<f64>() > LONGEST {
        return false;
    }
    zeros(program, sizes).is_ok_and(|inputs| {
        let inputs: Vec<_> = inputs.iter().map(Array::as_ref).collect();
        Binding::new(program, &inputs).is_ok()
    })
}

/// Inputs of these sizes. Those that are a size have its value; other elements are 0 (and take no
/// memory yet).
fn zeros(program: &Program, sizes: &[i64]) -> Result<Vec<Array>, ArrayError> {
    let value = |symbol: SymbolId| sizes[symbol.as_u32() as usize];
    let array = |id| {
        let buffer = &program.buffers[id];
        let length = |n: &Size| usize::try_from(n.eval(&value).unwrap_or(0)).unwrap_or(0);
        let shape: Vec<usize> = buffer.shape.iter().map(length).collect();
        crate::zeros(buffer.dtype, &shape)
    };
    let mut inputs: Vec<Array> = program.inputs().into_iter().map(array).collect::<Result<_, _>>()?;
    for (symbol, size) in program.symbols.values().zip(sizes) {
        if let SymbolSource::Scalar { input } = symbol.source {
            inputs[input] = Array::scalar(integer(inputs[input].dtype(), *size));
        }
    }
    Ok(inputs)
}

/// Inputs of these sizes: floats as `random:` draws them, integers that are subscripts or keys
/// below the ends that the program has for them, others below every size, and scalars 0.5 or 1.
pub(super) fn inputs(program: &Program, sizes: &[i64]) -> Result<Vec<Array>, ArrayError> {
    let is_size = |n: usize| program.symbols.values().any(|s| s.source == SymbolSource::Scalar { input: n });
    let mut inputs = zeros(program, sizes)?;
    let ends = ends(program, sizes);
    let least = sizes.iter().copied().min().unwrap_or(1).clamp(1, 127);
    let buffers = program.inputs();
    for (stream, array) in inputs.iter_mut().enumerate().filter(|(n, _)| !is_size(*n)) {
        let dtype = array.dtype();
        let scalar = array.shape().is_empty();
        let end = ends.get(&buffers[stream]).map_or(least, |end| (*end).clamp(1, most(dtype)));
        for number in 0..array.len() {
            let element = match (scalar, dtype) {
                (true, float) if float.is_float() => interp::scalar::cast(float, Scalar::F64(0.5)),
                (true, other) => Scalar::one(other),
                (false, dtype) if dtype.is_int() => {
                    let Scalar::F64(part) = random(Dtype::F64, 0, stream as u64, number as u64) else { continue };
                    integer(dtype, (part * end as f64) as i64)
                }
                (false, dtype) => random(dtype, 0, stream as u64, number as u64),
            };
            array.set(number, element);
        }
    }
    Ok(inputs)
}

/// The ends that elements of inputs are compared with, as subscripts and keys are.
fn ends(program: &Program, sizes: &[i64]) -> BTreeMap<BufferId, i64> {
    let value = |symbol: SymbolId| sizes[symbol.as_u32() as usize];
    let mut ends: BTreeMap<BufferId, i64> = BTreeMap::new();
    for kernel in program.kernels.values() {
        let mut ops = BTreeMap::new();
        visit::for_each_op(&kernel.body, &mut |value, op| _ = ops.insert(value, op));
        let loaded = |mut value| loop {
            match ops.get(&value)? {
                Op::Cast(_, from) => value = *from,
                Op::Load { buffer, .. } => return Some(*buffer),
                _ => return None,
            }
        };
        let size = |value| match ops.get(&value)? {
            Op::Affine(affine) => affine.as_size().cloned(),
            _ => None,
        };
        for op in ops.values() {
            let (element, end) = match op {
                Op::Check { value, bound, .. } => (loaded(*value), Some(bound.clone())),
                Op::Compare(CompareOp::Lt, value, end) => (loaded(*value), size(*end)),
                _ => continue,
            };
            if let (Some(buffer), Some(end)) = (element, end.and_then(|end| end.eval(&value).ok())) {
                ends.entry(buffer).and_modify(|least| *least = end.min(*least)).or_insert(end);
            }
        }
    }
    ends
}

/// The greatest number that is drawn for an integer type.
fn most(dtype: Dtype) -> i64 {
    i64::MAX.checked_shr(64 - 8 * dtype.bytes() as u32).unwrap_or(i64::MAX)
}

/// An integer as an element of an integer type.
fn integer(dtype: Dtype, value: i64) -> Scalar {
    interp::scalar::cast(dtype, Scalar::I64(value))
}
