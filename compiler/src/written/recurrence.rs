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
        // One for each value of an index is one with a further axis.
        let around = self.not_open(&self.checked.recurrences[recurrence].free);
        let mut names = vec![];
        for array in 0..equations.len() {
            names.push(self.array_name(recurrence, array));
        }
        // The names stand in all bodies, and an equal recurrence may have others.
        let places: Vec<String> = (0..equations.len()).map(|array| format!("\0{array}\0")).collect();
        self.block.recurrences.insert(recurrence, (places.clone(), around.clone()));
        let mut definitions = vec![];
        for (place, equation) in places.iter().zip(equations) {
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
            definitions.push(format!("{place}[{}] = {}", binders.join(", "), text.text));
        }
        let mut text = definitions.join(", ");
        if let Some(known) = self.block.definitions.get(&text) {
            names.iter().for_each(|name| _ = self.block.taken.remove(name));
            names.clone_from(known);
        } else {
            self.block.definitions.insert(text.clone(), names.clone());
            for (place, name) in places.iter().zip(&names) {
                text = text.replace(place, name);
            }
            self.block.lines.push(format!("let rec {text}"));
        }
        self.block.recurrences.insert(recurrence, (names, around));
        Ok(())
    }

    /// A name for an array of a recurrence, like that of the array if it is used.
    fn array_name(&mut self, recurrence: RecurrenceId, array: usize) -> String {
        let is_it = |kind: &Kind| {
            matches!(kind, Kind::Recurrence { recurrence: other, array: number }
                if (*other, *number) == (recurrence, array))
        };
        let named = self.checked.exprs.values().filter(|expr| is_it(&expr.kind)).find_map(|expr| expr.name.clone());
        self.unique(named.as_deref())
    }
}
