//! `float` in a signature: `f32` or `f64`, the same everywhere in the function, as the arguments of
//! a call decide. A function is checked again at each call anyway, so that it needs no other form.
//! Called from outside, it is one of `f32`; `check_instances` checks it as one of `f64` too.

use grammar::Diagnostic;
use grammar::ast::{self, Arg, Function, Span};
use ir::Dtype;
use ir::checked::ExprId;

use super::arena::Here;
use super::literal::Nature;
use super::{Checker, codes};

/// The types that `float` may be.
pub(super) const FLOATS: [Dtype; 2] = [Dtype::F32, Dtype::F64];

/// The arguments of a call.
pub(super) struct Arguments {
    /// Each with its place.
    pub values: Vec<(ExprId, Span)>,
    /// The type that `float` is in the call, if the function has a parameter of it.
    pub float: Option<Dtype>,
}

/// Whether a function has a parameter of type `float`.
pub(super) fn is_generic(function: &Function) -> bool {
    function.params.iter().any(|param| param.ty.dtype == ast::Dtype::Float)
}

/// The type that a name in the source stands for where `float` is a certain type, if it has one.
pub(super) fn element_type(dtype: ast::Dtype, float: Option<Dtype>) -> Option<Dtype> {
    Some(match dtype {
        ast::Dtype::Bool => Dtype::Bool,
        ast::Dtype::I8 => Dtype::I8,
        ast::Dtype::U8 => Dtype::U8,
        ast::Dtype::I16 => Dtype::I16,
        ast::Dtype::U16 => Dtype::U16,
        ast::Dtype::I32 => Dtype::I32,
        ast::Dtype::I64 => Dtype::I64,
        ast::Dtype::U32 => Dtype::U32,
        ast::Dtype::U64 => Dtype::U64,
        ast::Dtype::F16 => Dtype::F16,
        ast::Dtype::Bf16 => Dtype::Bf16,
        ast::Dtype::F32 => Dtype::F32,
        ast::Dtype::F64 => Dtype::F64,
        ast::Dtype::Float => return float,
    })
}

/// The error that `float` stands for no type.
pub(super) fn no_float(span: Span) -> Diagnostic {
    let message = "`float` stands for the type of a parameter, and no parameter is a `float`";
    let help = "write `f32` or `f64`, or declare a parameter with it: `x: float[n]`";
    Diagnostic::new(codes::NO_FLOAT, span, message).help(help)
}

impl<'a> Checker<'a> {
    /// The type that a name stands for in the function that is being inlined.
    pub(super) fn type_here(&self, dtype: ast::Dtype) -> Option<Dtype> {
        element_type(dtype, self.report.calls.float())
    }

    /// The same for a name at the beginning of a span; it is an error if it has none.
    pub(super) fn expect_type(&mut self, dtype: ast::Dtype, span: Span) -> Option<Dtype> {
        let found = self.type_here(dtype);
        if found.is_none() {
            let end = span.start.saturating_add(u32::try_from(dtype.name().len()).unwrap_or_default());
            self.report.error(no_float(span).suggest(Span { end, ..span }, "f32"));
        }
        found
    }

    /// The arguments of a call. Those for parameters of type `float` have the widest of their
    /// types; literals among them take it, and storage types are widened to it.
    pub(super) fn arguments(
        &mut self,
        function: &Function,
        args: &'a [Arg],
        want: Option<Dtype>,
        here: Here,
    ) -> Option<Arguments> {
        let is_float = |k: &usize| function.params[*k].ty.dtype == ast::Dtype::Float;
        let decides: Vec<bool> =
            (0..args.len()).map(|k| is_float(&k) && self.nature(args[k].value) == Nature::Typed).collect();
        let context = want.filter(|dtype| FLOATS.contains(dtype));
        let mut values = vec![None; args.len()];
        for k in (0..args.len()).filter(|k| decides[*k]) {
            values[k] = self.expr(args[k].value, context, here.guard);
        }
        let found = values.iter().flatten().map(|value| self.arena.dtype(*value).compute());
        let widest = found.filter(|dtype| FLOATS.contains(dtype)).max_by_key(|dtype| dtype.bytes());
        let float = is_generic(function).then_some(widest.or(context).unwrap_or(Dtype::F32));
        for k in (0..args.len()).filter(|k| !decides[*k]) {
            values[k] = self.expr(args[k].value, element_type(function.params[k].ty.dtype, float), here.guard);
        }
        if let Some(float) = float {
            for k in (0..args.len()).filter(is_float) {
                let stored =
                    |value: &ExprId| self.arena.dtype(*value).is_float() && self.arena.dtype(*value).is_storage();
                if let Some(value) = values[k].filter(stored) {
                    let here = Here { span: self.ast(args[k].value).span, ..here };
                    values[k] = self.cast(float, value, here);
                }
            }
        }
        let values = values.into_iter().zip(args).map(|(value, arg)| Some((value?, self.ast(arg.value).span)));
        Some(Arguments { values: values.collect::<Option<_>>()?, float })
    }
}
