//! Programs of every form in the grammar, whatever they mean.

use crate::generate::Choices;

/// A program from a list of choices.
pub fn program(words: &[u16]) -> String {
    let mut writer = Writer { choices: Choices::new(words), out: String::new() };
    loop {
        writer.function();
        if writer.choices.is_exhausted() {
            return writer.out;
        }
    }
}

/// How deep expressions get.
const DEPTH: usize = 6;

struct Writer<'a> {
    choices: Choices<'a>,
    out: String,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn one_of(&mut self, texts: &[&str]) {
        let text = self.choices.pick(texts).copied().unwrap_or_default();
        self.put(text);
    }

    fn name(&mut self) {
        self.one_of(&["x", "y", "sum", "weight", "i", "_k2", "the_gain_of_the_layer"]);
    }

    /// Up to three elements, occasionally with an extra comma.
    fn list(&mut self, least: usize, one: &mut dyn FnMut(&mut Self)) {
        let count = least + self.choices.below(4 - least);
        for n in 0..count {
            one(self);
            if n + 1 < count || self.choices.chance(20) {
                self.one_of(&[", ", ","]);
            }
        }
    }

    fn function(&mut self) {
        while self.choices.chance(20) {
            self.one_of(&["@fast", "@kernels(1)", "@kernels(n, 2,)"]);
            self.one_of(&["\n", " ", "\n\n"]);
        }
        self.put("fn ");
        self.name();
        self.put("(");
        self.list(0, &mut |w| {
            w.name();
            w.one_of(&[": ", ":"]);
            w.ty();
        });
        self.put(")");
        match self.choices.below(4) {
            1 => {
                self.put(" -> ");
                self.ty();
            }
            2 => {
                self.put("->(");
                self.list(1, &mut |w| {
                    if w.choices.chance(50) {
                        w.name();
                        w.put(": ");
                    }
                    w.ty();
                });
                self.put(")");
            }
            _ => {}
        }
        if self.choices.chance(50) {
            self.put(" {");
            self.one_of(&["\n", " ", "\n\n"]);
            for _ in 0..self.choices.below(4) {
                self.statement();
            }
            self.result();
            self.one_of(&["\n", " ", "\n\n", ";"]);
            self.put("}");
        } else {
            self.one_of(&[" = ", " =\n  ", "="]);
            self.result();
        }
        self.one_of(&["\n", "\n\n", ";", "\n\n\n"]);
    }

    fn statement(&mut self) {
        self.put("let ");
        match self.choices.below(4) {
            3 => {
                self.put("rec ");
                for _ in 0..self.choices.below(3) {
                    self.equation();
                    self.one_of(&[", ", ",\n"]);
                }
                self.name();
                self.indices();
            }
            0 => self.name(),
            1 => {
                self.put("(");
                self.list(1, &mut |w| w.name());
                self.put(")");
            }
            _ => {
                self.name();
                self.indices();
            }
        }
        self.one_of(&[" = ", "="]);
        self.expr(0);
        self.one_of(&["\n", ";", "\n\n\n", "; ;\n"]);
    }

    /// An array of a recurrence with its value.
    fn equation(&mut self) {
        self.name();
        self.indices();
        self.one_of(&[" = ", "="]);
        self.expr(0);
    }

    fn indices(&mut self) {
        self.put("[");
        self.list(1, &mut Writer::binder);
        self.put("]");
    }

    fn binder(&mut self) {
        self.name();
        if self.choices.chance(40) {
            self.one_of(&[" < ", "<="]);
            self.atom();
        }
    }

    fn ty(&mut self) {
        self.one_of(&["f32", "i64", "bf16"]);
        if self.choices.chance(60) {
            self.put("[");
            self.list(1, &mut |w| w.expr(DEPTH - 1));
            self.put("]");
        }
    }

    fn result(&mut self) {
        if self.choices.chance(20) {
            let doubled = self.choices.chance(30);
            self.put(if doubled { "((" } else { "(" });
            self.expr(1);
            self.put(", ");
            self.list(1, &mut |w| w.expr(1));
            self.put(if doubled { "))" } else { ")" });
        } else {
            self.expr(0);
        }
    }

    fn atom(&mut self) {
        match self.choices.below(3) {
            0 => self.name(),
            1 => self.one_of(&["1", "2.", ".5", "1e-5", "1_000", "3E+7", "0xF_f", "0b1_01", "inf"]),
            _ => self.put("(n + 1)"),
        }
    }

    /// Brackets separate expressions that would not parse next to each other.
    fn expr(&mut self, depth: usize) {
        if depth >= DEPTH {
            return self.atom();
        }
        match self.choices.below(17) {
            0 | 1 => self.atom(),
            2..=5 => {
                let level: &[&str] = match self.choices.below(5) {
                    0 => &[" + ", "-", " - "],
                    1 => &[" * ", "/", " % ", "@"],
                    2 => &[" && "],
                    3 => &["||", " || "],
                    _ => &[" ^ ", "^"],
                };
                self.operand(depth);
                for _ in 0..1 + self.choices.below(4) {
                    self.one_of(level);
                    self.operand(depth);
                }
            }
            6 => {
                self.operand(depth);
                self.one_of(&[" == ", "<", " <= ", "!="]);
                self.operand(depth);
            }
            7 => {
                self.one_of(&["-", "!", "- -"]);
                self.operand(depth);
            }
            8 | 9 => {
                self.put("if ");
                self.expr(depth + 1);
                self.put(" then ");
                self.expr(depth + 1);
                self.put(" else ");
                self.expr(depth + 1);
            }
            10 | 11 => {
                self.name();
                self.put("(");
                self.list(0, &mut |w| w.expr(depth + 1));
                self.put(")");
            }
            12 => {
                let around =
                    [("f32(", ")"), ("mean(axis = ", ",)"), ("((", "))"), ("(((", ",),))"), ("reshape(_,x=", ")")];
                let (open, close) = self.choices.pick(&around).copied().unwrap_or_default();
                self.put(open);
                self.expr(depth + 1);
                self.put(close);
            }
            13 => {
                self.name();
                self.put("[");
                self.list(1, &mut Writer::binder);
                self.put("](");
                self.expr(depth + 1);
                self.put(")");
            }
            14 => {
                self.name();
                self.put("[");
                self.list(1, &mut |w| match w.choices.below(4) {
                    0 | 1 => w.expr(depth + 1),
                    2 => w.one_of(&[":", "::2", "1:", " : n : 2", "i+1:n - 1"]),
                    _ => w.one_of(&["-1", "n:"]),
                });
                self.put("]");
            }
            15 => self.loop_(depth + 1),
            _ => {
                self.put("[");
                self.list(0, &mut |w| w.expr(depth + 1));
                self.put("]");
            }
        }
    }

    fn loop_(&mut self, depth: usize) {
        self.put("loop ");
        if self.choices.chance(30) {
            self.one_of(&["t < n, ", "1 <= t<= 9,"]);
        }
        for _ in 0..self.choices.below(3) {
            self.name();
            self.one_of(&[" = ", "="]);
            self.expr(depth);
            self.one_of(&[", ", ","]);
        }
        self.put("x = ");
        self.expr(depth);
        if self.choices.chance(50) {
            self.put(" while ");
            self.expr(depth);
        }
        self.one_of(&[" {", "{ ", " {\n"]);
        if depth < DEPTH {
            for _ in 0..self.choices.below(3) {
                self.statement();
            }
        }
        self.expr(depth);
        self.one_of(&[" }", "}", "\n}", ";}"]);
    }

    /// An operand of any operator: an atom, or an expression in brackets.
    fn operand(&mut self, depth: usize) {
        match self.choices.below(4) {
            0 => self.atom(),
            1 => {
                self.name();
                self.put("(");
                self.list(0, &mut |w| w.expr(depth + 1));
                self.put(")");
            }
            2 => {
                self.put("(");
                self.expr(depth + 1);
                self.put(")");
            }
            _ => {
                self.put("x[");
                self.list(1, &mut |w| w.expr(depth + 1));
                self.put("]");
            }
        }
    }
}
