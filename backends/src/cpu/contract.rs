//! stub
use cranelift_codegen::ir::Value;
use ir::Size;
use ir::nest::Contraction;

use super::emit::Emitter;

impl Emitter<'_> {
    pub(super) fn contract(&mut self, _c: &Contraction, _range: Option<(Value, Value)>) {}
}
pub(super) fn range(_c: &Contraction) -> Option<Vec<Size>> {
    None
}
