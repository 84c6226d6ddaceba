//! Recurrences: a `let rec` for all arrays of one.

use ir::checked::{ExprId, IndexId, Kind, RecurrenceId};

use super::{PROTECTED, Unwritten, Writer};

impl Writer<'_> {
    /// Writes a recurrence, if that has not been done for another one of its arrays. Makes the
    /// array a `let`.
    pub fn recurrence(&mut self, id: ExprId, recurrence: RecurrenceId, array: usize) -> Result<(), Unwritten> {
        if !self.block.recurrences.contains_key(&recurrence) {
            if !self.is_always(self.checked.exprs[id].guard) {
                return Err(PROTECTED);
            }
            self.let_rec(recurrence)?;
        }
        let (names, around) = &self.block.recurrences[&recurrence];
        self.block.lets.insert(id, (names[array].clone(), around.clone()));
        Ok(())
    }

    fn let_rec(&mut self, recurrence: RecurrenceId) -> Result<(), Unwritten> {
        let equations = &self.checked.recurrences[recurrence].equations;
        // Each is named like the array if it is used, and the names stand in all bodies.
        let mut names = vec![];
        for array in 0..equations.len() {
            let is_it = |kind: &Kind| matches!(kind, Kind::Recurrence { recurrence: other, array: number } if (*other, *number) == (recurrence, array));
            let named = self.checked.exprs.values().filter(|expr| is_it(&expr.kind)).find_map(|expr| expr.name.clone());
            names.push(self.unique(named.as_deref()));
        }
        // One for each value of an index is one with a further axis.
        let around = self.not_open(&self.checked.recurrences[recurrence].free);
        self.block.recurrences.insert(recurrence, (names.clone(), around.clone()));
        let mut definitions = vec![];
        for (name, equation) in names.iter().zip(equations) {
            let depth = self.block.scope.len();
            let indices: Vec<IndexId> = around.iter().chain(&equation.indices).copied().collect();
            self.open(&indices);
            let text = self.expr(equation.body)?;
            let text = self.with_type(text, equation.body);
            let mut binders = vec![];
            for index in &indices {
                binders.push(self.ended(*index)?);
            }
            self.block.scope.truncate(depth);
            definitions.push(format!("{name}[{}] = {}", binders.join(", "), text.text));
        }
        self.block.lines.push(format!("let rec {}", definitions.join(", ")));
        Ok(())
    }
}
