//! Binding a call: checks the inputs' types and lengths against a program's parameters, determines
//! the value of each size name, and checks the equations that the sizes must meet. All of this
//! happens before anything runs.

use cranelift_entity::{EntityRef, PrimaryMap};
use smallvec::SmallVec;

use crate::array::{ArrayMut, ArrayRef};
use crate::nest::{BufferId, Program, Relation, Requirement, Role, SiteId, Symbol, SymbolSource};
use crate::sabotage::{self, Bug};
use crate::size::SizeError;
use crate::{Dtype, Scalar, Size, SymbolId};

/// The longest axis that an input may have. Proofs of accesses rely on it: arithmetic on lengths
/// within it does not wrap.
pub const MAX_LENGTH: u64 = 1 << 48;

/// The sizes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// By number: mostly in place.
    symbols: SmallVec<[i64; 8]>,
}

/// Why inputs do not fit a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Not as many inputs as parameters.
    InputCount {
        /// How many parameters there are.
        expected: usize,
        /// How many inputs were given.
        found: usize,
    },
    /// An input of another element type.
    InputDtype {
        /// Which input.
        input: usize,
        /// The parameter's type.
        expected: Dtype,
        /// The input's type.
        found: Dtype,
    },
    /// An input of another rank.
    InputRank {
        /// Which input.
        input: usize,
        /// The parameter's rank.
        expected: usize,
        /// The input's rank.
        found: usize,
    },
    /// An input with an axis longer than [`MAX_LENGTH`]. Such an array must be empty, since there
    /// is not enough memory for any other.
    InputLength {
        /// Which input.
        input: usize,
        /// Which axis.
        axis: usize,
        /// How long it is.
        found: usize,
    },
    /// The sizes do not meet `program.requires[requirement]`.
    Requirement {
        /// Which one.
        requirement: usize,
        /// The value of its left side.
        left: i64,
        /// The value of its right side.
        right: i64,
    },
    /// A size of `program.requires[requirement]` has no value.
    RequirementSize {
        /// Which one.
        requirement: usize,
        /// Why.
        error: SizeError,
    },
    /// A length of a buffer is negative or has no value.
    Length {
        /// The buffer.
        buffer: BufferId,
        /// The axis.
        axis: usize,
        /// The negative length, or why there is none.
        value: Result<i64, SizeError>,
    },
}

/// An array that a call is given as an input or to write to, wherever its elements are.
pub trait Given {
    /// The element type.
    fn dtype(&self) -> Dtype;
    /// The lengths of its axes.
    fn shape(&self) -> &[usize];
    /// Its element, if it is a scalar.
    fn scalar(&self) -> Option<Scalar>;
}

impl Given for ArrayRef<'_> {
    fn dtype(&self) -> Dtype {
        ArrayRef::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        ArrayRef::shape(self)
    }

    fn scalar(&self) -> Option<Scalar> {
        self.get(0)
    }
}

impl<G: Given> Given for &G {
    fn dtype(&self) -> Dtype {
        G::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        G::shape(self)
    }

    fn scalar(&self) -> Option<Scalar> {
        G::scalar(self)
    }
}

impl<G: Given> Given for &mut G {
    fn dtype(&self) -> Dtype {
        G::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        G::shape(self)
    }

    fn scalar(&self) -> Option<Scalar> {
        G::scalar(self)
    }
}

impl Given for ArrayMut<'_> {
    fn dtype(&self) -> Dtype {
        ArrayMut::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        ArrayMut::shape(self)
    }

    fn scalar(&self) -> Option<Scalar> {
        None
    }
}

/// A subscript that a run-time check found outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place in the source.
    pub site: SiteId,
    /// The subscript.
    pub index: i64,
    /// One past the greatest legal subscript.
    pub bound: i64,
}

impl Binding {
    /// Binds the size names of a program to its inputs and checks types, ranks, requirements and
    /// lengths.
    pub fn new(program: &Program, inputs: &[impl Given]) -> Result<Binding, BindError> {
        let params = program.inputs().into_iter().map(|id| &program.buffers[id]);
        let params: Vec<(Dtype, usize)> = params.map(|buffer| (buffer.dtype, buffer.shape.len())).collect();
        let binding = Binding::of_call(&program.symbols, &params, &program.requires, inputs)?;
        binding.check_lengths(program)?;
        Ok(binding)
    }

    /// Checks that each length of each buffer has a value.
    pub fn check_lengths(&self, program: &Program) -> Result<(), BindError> {
        program.buffers.keys().try_for_each(|buffer| self.lengths(program, buffer).try_for_each(|n| n.map(|_| ())))
    }

    /// Binds size names to inputs, and checks types, ranks and the requirements on sizes.
    pub fn of_call(
        symbols: &PrimaryMap<SymbolId, Symbol>,
        params: &[(Dtype, usize)],
        requires: &[Requirement],
        inputs: &[impl Given],
    ) -> Result<Binding, BindError> {
        if params.len() != inputs.len() {
            return Err(BindError::InputCount { expected: params.len(), found: inputs.len() });
        }
        for (input, ((dtype, rank), given)) in params.iter().zip(inputs).enumerate() {
            if *dtype != given.dtype() && !sabotage::on(Bug::TypeUnchecked) {
                return Err(BindError::InputDtype { input, expected: *dtype, found: given.dtype() });
            }
            if *rank != given.shape().len() && !sabotage::on(Bug::RankUnchecked) {
                return Err(BindError::InputRank { input, expected: *rank, found: given.shape().len() });
            }
            let long = given.shape().iter().position(|length| *length as u64 > MAX_LENGTH);
            if let Some(axis) = long {
                return Err(BindError::InputLength { input, axis, found: given.shape()[axis] });
            }
        }
        let mut binding = Binding { symbols: SmallVec::new() };
        for symbol in symbols.values() {
            let value = match symbol.source {
                SymbolSource::Dimension { input, axis } => {
                    // Array lengths fit `isize`.
                    i64::try_from(inputs[input].shape()[if sabotage::on(Bug::BoundAxis) { 0 } else { axis }])
                        .unwrap_or(i64::MAX)
                }
                SymbolSource::Scalar { input } => integer(inputs[input].scalar()),
                // Where it wraps, the axis does not have the length that the program requires.
                SymbolSource::Solved { ref value, .. } => binding.number(value),
            };
            binding.symbols.push(value);
        }
        for (requirement, r) in requires.iter().enumerate() {
            let size = |s| binding.size(s).map_err(|error| BindError::RequirementSize { requirement, error });
            // All sizes are evaluated first: one without a value is an error even if the
            // requirement does not apply.
            let mut void = false;
            for s in &r.unless_empty {
                void |= size(s)? < 1 + i64::from(sabotage::on(Bug::EmptyEnough));
            }
            let (left, right) = (size(&r.left)?, size(&r.right)?);
            let met = match r.relation {
                Relation::Equal => left == right,
                Relation::AtMost => left <= right.saturating_add(sabotage::on(Bug::AtMost).into()),
            };
            if !(met || void) {
                return Err(BindError::Requirement { requirement, left, right });
            }
        }
        Ok(binding)
    }

    /// The value of a size name.
    pub fn symbol(&self, symbol: SymbolId) -> i64 {
        self.symbols.get(symbol.index()).copied().unwrap_or(0)
    }

    /// The exact value of a size, as required of a length.
    pub fn size(&self, size: &Size) -> Result<i64, SizeError> {
        size.eval(&|s| self.symbol(s))
    }

    /// The value of a size modulo 2^64, as kernels compute it. A loop's extent wraps like other
    /// integers. Where a coefficient or stride overflows `i64`, the element number that it
    /// contributes to is in bounds and still comes out right.
    pub fn number(&self, size: &Size) -> i64 {
        size.wrapping(&|s| self.symbol(s))
    }

    /// The shape of a buffer. The lengths of temporaries and scratch are trip counts of loops: they
    /// are [numbers](Binding::number), and a loop with an extent below 1 runs no iteration. The
    /// lengths of other arrays are exact, and an error if negative.
    pub fn shape(&self, program: &Program, buffer: BufferId) -> Result<Vec<usize>, BindError> {
        self.lengths(program, buffer).collect()
    }

    /// The lengths of a buffer's axes, as [`Binding::shape`] gives them, one by one.
    pub fn lengths(
        &self,
        program: &Program,
        buffer: BufferId,
    ) -> impl ExactSizeIterator<Item = Result<usize, BindError>> {
        let inner = matches!(program.buffers[buffer].role, Role::Temp | Role::Scratch);
        program.buffers[buffer].shape.iter().enumerate().map(move |(axis, size)| {
            let value = if inner { Ok(self.number(size).max(0)) } else { self.size(size) };
            let length = value.ok().and_then(|v| usize::try_from(v).ok());
            length.ok_or(BindError::Length { buffer, axis, value })
        })
    }
}

/// The value of an integer scalar as a size; 0 for anything else.
pub fn integer(value: Option<Scalar>) -> i64 {
    match value {
        Some(Scalar::I64(v)) => v,
        Some(Scalar::I32(v)) => v.into(),
        Some(Scalar::U32(v)) => v.into(),
        Some(Scalar::U64(v)) => i64::try_from(v).unwrap_or(i64::MAX),
        Some(Scalar::I8(v)) => v.into(),
        Some(Scalar::U8(v)) => v.into(),
        Some(Scalar::I16(v)) => v.into(),
        Some(Scalar::U16(v)) => v.into(),
        _ => 0,
    }
}
