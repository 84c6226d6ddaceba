//! Prints the tree as nested lists, one line for each statement, for tests.

use std::fmt::{self, Display, Formatter, Write};

use crate::ast::{
    Binder, Bound, Definition, Derivative, Equation, ExprId, ExprKind, File, Function, Item, Loop, Pattern, Results,
    Target, Type, Use, Used,
};

impl Display for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.modules.values().flat_map(|module| &module.uses).try_for_each(|one| use_(f, one))?;
        self.functions.iter().try_for_each(|function| self.function(f, function))
    }
}

impl File {
    /// An expression as a nested list: `(+ x (* 2 y))`.
    pub fn expr(&self, id: ExprId) -> impl Display + '_ {
        Show(move |f: &mut Formatter<'_>| self.write(f, id))
    }

    fn function(&self, f: &mut Formatter<'_>, function: &Function) -> fmt::Result {
        for decorator in &function.decorators {
            write!(f, "@{}{} ", decorator.name.text, self.list(&decorator.args))?;
        }
        write!(f, "fn {}", function.name.text)?;
        for param in &function.params {
            write!(f, " {}: {}", param.name.text, self.ty(&param.ty))?;
        }
        match &function.results {
            None => {}
            Some(Results::One(ty)) => write!(f, " -> {}", self.ty(ty))?,
            Some(Results::Tuple(results)) => {
                f.write_str(" ->")?;
                for (name, ty) in results {
                    match name {
                        Some(name) => write!(f, " {}: {}", name.text, self.ty(ty))?,
                        None => write!(f, " {}", self.ty(ty))?,
                    }
                }
            }
        }
        if let Some(condition) = function.condition {
            write!(f, " where {}", self.expr(condition))?;
        }
        f.write_char('\n')?;
        for one in &function.lets {
            writeln!(f, "  {}", self.definition(&one.definition))?;
        }
        writeln!(f, "  {}", self.expr(function.result))
    }

    fn loop_(&self, f: &mut Formatter<'_>, Loop { states, counter, condition, body }: &Loop) -> fmt::Result {
        f.write_str("(loop")?;
        for state in states {
            write!(f, " {}={}", state.name.text, self.expr(state.first))?;
        }
        if let Some(counter) = counter {
            write!(f, " {}", self.binders(std::slice::from_ref(counter), None))?;
        }
        if let Some(condition) = condition {
            write!(f, " while {}", self.expr(*condition))?;
        }
        f.write_str(" {")?;
        for one in &body.lets {
            write!(f, "{}; ", self.definition(&one.definition))?;
        }
        write!(f, "{}}})", self.expr(body.result))
    }

    /// `y[i] = value`
    fn definition<'a>(&'a self, definition: &'a Definition) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| match definition {
            Definition::Values { target: Target { pattern, binders }, value } => {
                match pattern {
                    Pattern::Name(name) => f.write_str(&name.text)?,
                    Pattern::Tuple(names) => {
                        let names: Vec<_> = names.iter().map(|name| name.text.as_str()).collect();
                        write!(f, "({})", names.join(" "))?;
                    }
                }
                if !binders.is_empty() {
                    write!(f, "{}", self.binders(binders, None))?;
                }
                write!(f, " = {}", self.expr(*value))
            }
            Definition::Recurrence(equations) => {
                f.write_str("rec")?;
                for Equation { name, binders, value } in equations {
                    write!(f, " {}{} = {}", name.text, self.binders(binders, None), self.expr(*value))?;
                }
                Ok(())
            }
        })
    }

    fn ty<'a>(&'a self, ty: &'a Type) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| write!(f, "{}{}", ty.dtype.name(), self.list(&ty.shape)))
    }

    /// `[a b]`, or nothing for nothing.
    fn list<'a>(&'a self, list: &'a [ExprId]) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| {
            for (n, id) in list.iter().enumerate() {
                f.write_str(if n == 0 { "[" } else { " " })?;
                self.write(f, *id)?;
            }
            f.write_str(if list.is_empty() { "" } else { "]" })
        })
    }

    fn binders<'a>(&'a self, binders: &'a [Binder], filter: Option<ExprId>) -> impl Display + 'a {
        Show(move |f: &mut Formatter<'_>| {
            let symbol = |bound: Bound| if bound.inclusive { "<=" } else { "<" };
            for (n, binder) in binders.iter().enumerate() {
                f.write_str(if n == 0 { "[" } else { " " })?;
                if let Some(bound) = binder.lower {
                    write!(f, "{}{}", self.expr(bound.limit), symbol(bound))?;
                }
                f.write_str(&binder.name.text)?;
                if let Some(bound) = binder.upper {
                    write!(f, "{}{}", symbol(bound), self.expr(bound.limit))?;
                }
            }
            if let Some(filter) = filter {
                write!(f, " where {}", self.expr(filter))?;
            }
            f.write_char(']')
        })
    }

    fn write(&self, f: &mut Formatter<'_>, id: ExprId) -> fmt::Result {
        match &self.exprs[id].kind {
            ExprKind::Int(value) => write!(f, "{value}"),
            ExprKind::Float(text) | ExprKind::Name(text) => f.write_str(text),
            ExprKind::Hole => f.write_char('_'),
            ExprKind::Unary(op, x) => write!(f, "({} {})", op.symbol(), self.expr(*x)),
            ExprKind::Binary(op, x, y) => write!(f, "({} {} {})", op.symbol(), self.expr(*x), self.expr(*y)),
            ExprKind::If { condition, then, otherwise } => {
                write!(f, "(if {} {} {})", self.expr(*condition), self.expr(*then), self.expr(*otherwise))
            }
            ExprKind::Call { callee, args } => {
                write!(f, "({}", callee.text)?;
                for arg in args {
                    match &arg.name {
                        Some(name) => write!(f, " {}={}", name.text, self.expr(arg.value))?,
                        None => write!(f, " {}", self.expr(arg.value))?,
                    }
                }
                f.write_char(')')
            }
            ExprKind::Cast(dtype, x) => write!(f, "({} {})", dtype.name(), self.expr(*x)),
            ExprKind::Bitcast { callee, to, of } => {
                write!(f, "({} {} {})", callee.text, to.name(), self.expr(*of))
            }
            ExprKind::Reduce { callee, binders, filter, body } => {
                write!(f, "({}{} {})", callee.text, self.binders(binders, *filter), self.expr(*body))
            }
            ExprKind::Derivative(Derivative { of, value, changes }) => {
                let names: Vec<&str> = of.iter().map(|name| name.text.as_str()).collect();
                let callee = if changes.is_some() { "jvp" } else { "grad" };
                write!(f, "({callee}[{}] {}", names.join(" "), self.expr(*value))?;
                changes.iter().flatten().try_for_each(|change| write!(f, " {}", self.expr(*change)))?;
                f.write_char(')')
            }
            ExprKind::Index { base, items } => {
                write!(f, "(at {}", self.expr(*base))?;
                for item in items {
                    f.write_char(' ')?;
                    self.item(f, item)?;
                }
                f.write_char(')')
            }
            ExprKind::Array(elements) => write!(f, "(array {})", self.list(elements)),
            ExprKind::Tuple(elements) => write!(f, "(tuple {})", self.list(elements)),
            ExprKind::Loop(one) => self.loop_(f, one),
        }
    }

    fn item(&self, f: &mut Formatter<'_>, item: &Item) -> fmt::Result {
        let part = |f: &mut Formatter<'_>, part: Option<ExprId>| match part {
            Some(part) => self.write(f, part),
            None => Ok(()),
        };
        match item {
            Item::At(at) => self.write(f, *at),
            Item::Slice { start, stop, step, .. } => {
                part(f, *start)?;
                f.write_char(':')?;
                part(f, *stop)?;
                if step.is_some() {
                    f.write_char(':')?;
                }
                part(f, *step)
            }
        }
    }
}

/// `use "path" name name`
fn use_(f: &mut Formatter<'_>, Use { what, names, .. }: &Use) -> fmt::Result {
    match what {
        Used::Path(path) => write!(f, "use \"{}\"", path.text)?,
        Used::Library(name) => write!(f, "use {}", name.text)?,
    }
    names.iter().try_for_each(|name| write!(f, " {}", name.text))?;
    f.write_char('\n')
}

/// Displays by a function.
struct Show<F>(F);

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> Display for Show<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}
