//! Queries about statements and sizes that the passes and every code generator use.

use ir::Size;
use ir::nest::{Program, Statement, SymbolSource};

/// Whether a size is known not to be negative.
pub fn is_length(program: &Program, size: &Size) -> bool {
    size.as_constant().is_some_and(|n| n >= 0)
        || size.as_symbol().is_some_and(|s| matches!(program.symbols[s].source, SymbolSource::Dimension { .. }))
}

/// Whether each part may compute the statement for itself.
pub fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_scalar),
        Statement::Store { .. } | Statement::Loop(_) | Statement::Contract(_) => false,
    }
}
