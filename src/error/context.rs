//! Translates the reports of the engines into the user's terms: names of parameters, formulas of
//! sizes, places in the source.

use std::ops::Range;
use std::sync::Arc;

use ir::array::ArrayError;
use ir::bind::{BindError, Fault, Given};
use ir::nest::{CheckKind, Program, Requirement, SymbolSource};
use ir::sabotage::{self, Bug};
use ir::size::{Atom, SizeError};
use ir::{Origin, Scalar, Size, SymbolId};

use super::{RunError, RunErrorKind, SizeName, SizeSide};
use crate::{Signature, Source};

/// Translates the reports of the engines into the user's terms.
pub(crate) struct Context<'a> {
    pub source: &'a Arc<Source>,
    pub program: &'a Program,
    pub signature: &'a Signature,
}

impl Context<'_> {
    pub fn error(&self, kind: RunErrorKind) -> RunError {
        RunError { kind: Box::new(kind), source: Arc::clone(self.source) }
    }

    pub fn array(&self, e: ArrayError) -> RunError {
        self.error(RunErrorKind::Array(e))
    }

    pub fn fault(&self, fault: &Fault) -> RunError {
        let (index, bound) =
            if sabotage::on(Bug::SwappedFault) { (fault.bound, fault.index) } else { (fault.index, fault.bound) };
        self.error(match self.program.sites.get(fault.site) {
            Some(site) => {
                let at = range(site.origin);
                match &site.what {
                    CheckKind::Axis { array, axis } => {
                        RunErrorKind::Access { array: array.clone(), axis: *axis, index, bound, at }
                    }
                    CheckKind::Elements(op) => RunErrorKind::NoElement { reducer: op.name(), at },
                    CheckKind::Steps => RunErrorKind::Steps { limit: bound, at },
                }
            }
            None => RunErrorKind::Engine(format!("a subscript {index} is outside 0..{bound} at an unknown place")),
        })
    }

    #[cfg(feature = "interp")]
    pub fn interp(&self, error: interp::nest::RunError, inputs: &[ir::array::ArrayRef<'_>]) -> RunError {
        use interp::nest::RunError as E;
        match error {
            E::Bind(e) => self.bind(e, inputs),
            E::Fault(fault) => self.fault(&fault),
            E::Cancelled => self.error(RunErrorKind::Cancelled),
            E::OutOfMemory { bytes } => self.array(ArrayError::OutOfMemory { bytes }),
            E::Internal { kernel, access, problem } => self.error(RunErrorKind::Engine(format!(
                "a fault of the compiler, please report it: kernel {kernel}, {access}: {problem:?}"
            ))),
        }
    }

    pub fn cpu(&self, error: backends::cpu::RunError, inputs: &[impl Given]) -> RunError {
        use backends::cpu::RunError as E;
        match error {
            E::Bind(e) => self.bind(e, inputs),
            E::Fault(fault) => self.fault(&fault),
            E::OutOfMemory { bytes } => self.array(ArrayError::OutOfMemory { bytes }),
            E::Cancelled => self.error(RunErrorKind::Cancelled),
            // `Kernel::fit` has already reported these, in other words.
            e @ (E::OutputCount { .. } | E::OutputDtype { .. } | E::OutputShape { .. }) => {
                self.error(RunErrorKind::Engine(e.to_string()))
            }
        }
    }

    pub fn bind(&self, error: BindError, inputs: &[impl Given]) -> RunError {
        let param = |input: usize| self.signature.params.get(input);
        let name = |input: usize| param(input).map_or_else(String::new, |p| p.name.clone());
        self.error(match error {
            BindError::InputCount { found, .. } => {
                let params = self.signature.params.iter().map(|p| p.name.clone()).collect();
                RunErrorKind::ArgumentCount { params, found }
            }
            BindError::InputDtype { input, expected, found } => {
                RunErrorKind::ArgumentType { param: name(input), expected, found }
            }
            BindError::InputRank { input, .. } => RunErrorKind::ArgumentRank {
                param: name(input),
                declared: param(input).map_or_else(String::new, |p| p.ty()),
                found: inputs.get(input).map_or_else(Vec::new, |a| a.shape().to_vec()),
            },
            BindError::InputLength { input, axis, found } => {
                RunErrorKind::ArgumentLength { param: name(input), axis, found }
            }
            BindError::Requirement { requirement, left, right } => {
                let r = &self.program.requires[requirement];
                let side = |size: &Size, what: &str, value: i64| SizeSide {
                    what: what.to_owned(),
                    formula: self.text(size),
                    value: self.exact(size, inputs).unwrap_or(value.into()),
                };
                RunErrorKind::Sizes {
                    left: side(&r.left, &r.left_is, left),
                    relation: r.relation,
                    right: side(if sabotage::on(Bug::SwappedSides) { &r.left } else { &r.right }, &r.right_is, right),
                    purpose: r.purpose,
                    names: self.names(&[&r.left, &r.right], inputs),
                    at: range(r.origin),
                }
            }
            BindError::RequirementSize { requirement, error } => {
                let r = &self.program.requires[requirement];
                let (size, what) = self.without_value(r, inputs);
                self.size(size, what.to_owned(), Err(error), Some(range(r.origin)), inputs)
            }
            BindError::Length { buffer, axis, value } => {
                let buffer = &self.program.buffers[buffer];
                self.size(&buffer.shape[axis], format!("axis {axis} of {}", buffer.name), value, None, inputs)
            }
        })
    }

    fn size(
        &self,
        size: &Size,
        what: String,
        value: Result<i64, SizeError>,
        at: Option<Range<usize>>,
        inputs: &[impl Given],
    ) -> RunErrorKind {
        RunErrorKind::Size { what, formula: self.text(size), value, names: self.names(&[size], inputs), at }
    }

    /// The exact value of a size, with the arguments as given: the engines clamp a `u64` argument
    /// to `i64::MAX`.
    fn exact(&self, size: &Size, inputs: &[impl Given]) -> Option<i128> {
        let atom = |atom: &Atom| match atom {
            Atom::Symbol(s) => Some(match &self.program.symbols.get(*s)?.source {
                SymbolSource::Dimension { input, axis } => {
                    i128::try_from(*inputs.get(*input)?.shape().get(*axis)?).ok()?
                }
                SymbolSource::Scalar { input } => integer(inputs.get(*input)?.scalar()),
                SymbolSource::Solved { value, .. } => self.exact(value, inputs)?,
            }),
            Atom::FloorDiv(a, b) => {
                let (a, b) = (self.exact(a, inputs)?, self.exact(b, inputs)?);
                // Rounded down, by a divisor above 0.
                (b > 0).then(|| a.div_euclid(b))
            }
            Atom::KeyedChunk(_) | Atom::Overflow(_) => None,
        };
        size.terms().iter().try_fold(0i128, |sum, (product, coefficient)| {
            let product = product.iter().try_fold(i128::from(*coefficient), |p, a| p.checked_mul(atom(a)?));
            sum.checked_add(product?)
        })
    }

    /// The side of a requirement that has no value.
    fn without_value<'r>(&self, r: &'r Requirement, inputs: &[impl Given]) -> (&'r Size, &'r str) {
        match self.exact(&r.left, inputs).and_then(|value| i64::try_from(value).ok()) {
            Some(_) => (&r.right, &r.right_is),
            None => (&r.left, &r.left_is),
        }
    }

    /// The formula of a size. A length that has no name in the source is described by its place.
    pub fn text(&self, size: &Size) -> String {
        let names: Vec<String> = self.program.symbols.keys().map(|s| self.symbol(s)).collect();
        size.display(&|s: SymbolId| names.get(s.as_u32() as usize).map_or("?", String::as_str)).to_string()
    }

    fn symbol(&self, s: SymbolId) -> String {
        let Some(symbol) = self.program.symbols.get(s) else { return "?".to_owned() };
        if let SymbolSource::Dimension { input, axis } = symbol.source
            && let Some(param) = self.signature.params.get(input)
            && param.shape.get(axis) != Some(&symbol.name)
        {
            return format!("axis {axis} of {}", param.name);
        }
        symbol.name.clone()
    }

    /// The size names in formulas, with their values and the origins of these.
    fn names(&self, sizes: &[&Size], inputs: &[impl Given]) -> Vec<SizeName> {
        let mut symbols = vec![];
        sizes.iter().for_each(|size| size.for_each_symbol(&mut |s| symbols.push(s)));
        symbols.sort_unstable();
        symbols.dedup();
        let name = |s: SymbolId| {
            let symbol = self.program.symbols.get(s)?;
            let name = self.symbol(s);
            let param = |input: usize| self.signature.params.get(input).map(|p| p.name.as_str());
            let (value, from) = match &symbol.source {
                SymbolSource::Dimension { input, axis } => {
                    let length = inputs.get(*input)?.shape().get(*axis)?;
                    (i128::try_from(*length).ok()?, format!("axis {axis} of {}", param(*input)?))
                }
                SymbolSource::Scalar { input } => {
                    let value = integer(inputs.get(*input)?.scalar());
                    (value, format!("the argument {}", param(*input)?))
                }
                SymbolSource::Solved { input, axis, value } => {
                    let length = inputs.get(*input)?.shape().get(*axis)?;
                    let from = format!("axis {axis} of {}, which has length {length}", param(*input)?);
                    (self.exact(value, inputs)?, from)
                }
            };
            (name != from).then_some(SizeName { name, value, from })
        };
        symbols.into_iter().filter_map(name).collect()
    }
}

/// The value of an integer argument, or 0 for anything else.
fn integer(value: Option<Scalar>) -> i128 {
    match value {
        Some(Scalar::U64(value)) => value.into(),
        value => ir::bind::integer(value).into(),
    }
}

fn range(origin: Origin) -> Range<usize> {
    origin.start as usize..origin.end as usize
}
