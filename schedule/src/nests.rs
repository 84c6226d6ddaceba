//! What every code generator asks of a loop nest.

use ir::nest::{Extent, Op, Program, Statement, SymbolSource};
use ir::{Size, visit};

/// Whether a statement may end the run.
pub fn may_fault(statement: &Statement) -> bool {
    let mut found = matches!(statement, Statement::Let { op: Op::Check { .. }, .. });
    for block in statement.blocks() {
        visit::for_each_op(block, &mut |_, op| found |= matches!(op, Op::Check { .. }));
    }
    found
}

/// Whether a size is known not to be negative.
pub fn is_length(program: &Program, size: &Size) -> bool {
    size.as_constant().is_some_and(|n| n >= 0)
        || size.as_symbol().is_some_and(|s| matches!(program.symbols[s].source, SymbolSource::Dimension { .. }))
}

/// A loop's extent, if it is a size.
pub fn extent_size(extent: &Extent) -> Option<&Size> {
    if let Extent::Affine(affine) = extent { affine.as_size() } else { None }
}

/// Whether each part may compute the statement for itself.
pub fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_scalar),
        Statement::Store { .. } | Statement::Loop(_) | Statement::Contract(_) => false,
    }
}
