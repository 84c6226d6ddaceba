//! Recurrences: a `let rec` for all arrays of one.

use ir::checked::{Checked, ExprId, Kind, RecurrenceId};

use super::{PROTECTED, Unwritten, Writer};

impl Writer<'_> {
    /// Writes a recurrence, if that has not been done for another one of its arrays. Makes the
    /// array a `let`.
    pub fn recurrence(&mut self, id: ExprId, recurrence: RecurrenceId, array: usize) -> Result<(), Unwritten> {
        let around = self.checked.recurrences[recurrence].free.clone();
        if !self.recurrences.contains_key(&recurrence) {
            if self.checked.exprs[id].guard != Checked::TOP {
                return Err(PROTECTED);
            }
            if !around.is_empty() {
                return Err(Unwritten("a recurrence for each element of an array"));
            }
            self.let_rec(recurrence)?;
        }
        self.lets.insert(id, (self.recurrences[&recurrence][array].clone(), around));
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
        self.recurrences.insert(recurrence, names.clone());
        let mut definitions = vec![];
        for (name, equation) in names.iter().zip(equations) {
            let depth = self.scope.len();
            self.open(&equation.indices);
            let text = self.expr(equation.body)?;
            let text = self.with_type(text, equation.body);
            let mut binders = vec![];
            for index in &equation.indices {
                binders.push(self.ended(*index)?);
            }
            self.scope.truncate(depth);
            definitions.push(format!("{name}[{}] = {}", binders.join(", "), text.text));
        }
        self.lines.push(format!("let rec {}", definitions.join(", ")));
        Ok(())
    }
}
