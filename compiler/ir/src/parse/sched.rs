//! Reads the text form of a scheduled program.

use std::str::FromStr;

use super::token::Token;
use super::{ParseError, Parser, Result};
use crate::Size;
use crate::leaf::Obstacle;
use crate::nest::{IndexId, Kernel, KernelId};
use crate::order::Scope;
use crate::sched::{
    Axis, Beyond, Fill, Form, HandOff, Inner, Level, LoopForm, Machine, Part, Refusal, Relay, Row, Run, Scheduled,
    Stage, Staged, Strategy, Tail, Tiles, Transpose, Variant,
};

impl FromStr for Scheduled {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Scheduled> {
        let mut parser = Parser::new(text)?;
        parser.word("schedule")?;
        parser.word("for")?;
        let machine = parser.named("a machine", Machine::from_name)?;
        parser.mark(",")?;
        let planned = parser.number()?;
        parser.word("buffers")?;
        parser.word("planned")?;
        parser.mark(",")?;
        let operations = parser.number()?;
        parser.word("operations")?;
        parser.program()?;
        parser.indices.clear();
        let mut parts = vec![];
        for (_, kernel) in std::mem::take(&mut parser.program.kernels) {
            parts.push(parser.part(kernel)?);
        }
        parser.end()?;
        Ok(Scheduled { machine, program: parser.program, planned, operations, parts })
    }
}

impl Parser<'_> {
    /// The line of the part with the statements of a kernel.
    fn part(&mut self, kernel: Kernel) -> Result<Part> {
        self.word("part")?;
        self.mark("@")?;
        if self.name()? != kernel.name {
            return Err(self.error_before(format!("the part @{} is next", kernel.name)));
        }
        self.word("of")?;
        let number = |word: &str| word.strip_prefix('k')?.parse::<u32>().ok().filter(|n| *n < u32::MAX);
        let of = KernelId::from_u32(self.named("a kernel such as `k0`", number)?);
        self.mark(":")?;
        let run = self.run()?;
        let mut joins = vec![];
        if self.take_word("joins") {
            joins = self.list(|p| p.index_of(&kernel))?;
        }
        let mut last = None;
        if self.take_word("in") {
            ["the", "last", "block", "by"].iter().try_for_each(|word| self.word(word))?;
            last = Some(self.buffer_use()?);
        }
        let mut refused = vec![];
        while self.take_word("refused") {
            let strategy = self.named("a strategy", strategy)?;
            self.mark(":")?;
            refused.push((strategy, self.named("a refusal", Refusal::from_name)?));
        }
        let mut variants = vec![];
        while let Some(Token::Word(word)) = self.peek()
            && let Some(strategy) = strategy(word)
        {
            self.next += 1;
            variants.push(self.variant(strategy, &kernel)?);
        }
        let forms = self.forms(&kernel)?;
        Ok(Part { of, kernel, run, joins, last, variants, refused, forms })
    }

    /// How loops run on a core.
    fn forms(&mut self, kernel: &Kernel) -> Result<Vec<LoopForm>> {
        let mut forms = vec![];
        while self.take_word("loop") {
            let index = self.index_of(kernel)?;
            self.mark(":")?;
            forms.push(LoopForm { index, form: self.form(kernel)? });
        }
        Ok(forms)
    }

    fn form(&mut self, kernel: &Kernel) -> Result<Form> {
        if self.take_word("vectors") {
            return Ok(Form::Vectors);
        }
        if self.take_word("single") {
            self.mark("(")?;
            let obstacle = self.named("an obstacle such as `branch`", Obstacle::from_name)?;
            self.mark(")")?;
            let mut inside = vec![];
            if self.take_mark("{") {
                inside = self.forms(kernel)?;
                self.mark("}")?;
            }
            return Ok(Form::Single { obstacle, inside });
        }
        self.word("split")?;
        let at = self.value_id()?;
        let holds = Box::new(self.side(kernel)?);
        self.word("else")?;
        let fails = Box::new(self.side(kernel)?);
        Ok(Form::Split { at, holds, fails })
    }

    fn side(&mut self, kernel: &Kernel) -> Result<Form> {
        self.mark("{")?;
        let form = self.form(kernel)?;
        self.mark("}")?;
        Ok(form)
    }

    /// A way to run a part, behind its strategy.
    fn variant(&mut self, strategy: Strategy, kernel: &Kernel) -> Result<Variant> {
        self.mark("{")?;
        let at_most = if self.take_word("when") { self.numbers(&["at", "most"])? } else { vec![] };
        let axes = self.layout(kernel)?;
        let inner = if self.take_word("together") {
            Inner::Together(self.number()?)
        } else if self.take_word("row") {
            Inner::Row(Box::new(self.row(kernel)?))
        } else {
            Inner::Alone
        };
        let mut tail = Tail::Masked;
        if self.take_word("single") {
            tail = Tail::Single(if self.take_word("unless") { self.numbers(&["by"])? } else { vec![] });
        }
        let mut stages = vec![];
        while self.take_word("stage") {
            let loads = self.list(Self::number)?;
            self.word("padding")?;
            let padding = self.number()?;
            self.mark("{")?;
            stages.push(Stage { loads, axes: self.layout(kernel)?, padding });
            self.mark("}")?;
        }
        let descending = self.take_word("descending");
        let resident = if self.take_word("resident") { Some(self.number()?) } else { None };
        self.mark("}")?;
        Ok(Variant { strategy, at_most, axes, inner, tail, stages, resident, descending })
    }

    /// Sizes, each with some words and a number.
    fn numbers(&mut self, words: &[&str]) -> Result<Vec<(Size, i64)>> {
        self.list(|p| {
            let size = p.size()?;
            words.iter().try_for_each(|word| p.word(word))?;
            Ok((size, p.number()?))
        })
    }

    /// The layout of rows.
    fn row(&mut self, kernel: &Kernel) -> Result<Row> {
        let length = self.size()?;
        let fill = ["whole", "beyond"].into_iter().find(|fill| self.take_word(fill));
        let mut at_least = 0;
        if self.take_word("at") {
            self.word("least")?;
            at_least = self.number()?;
        }
        self.mark(":")?;
        let levels = self.list(Self::level)?;
        let registers = if self.take_word("registers") { self.list(Self::buffer_use)? } else { vec![] };
        let fill = match fill {
            None => Fill::Masked,
            Some("whole") => Fill::Whole,
            Some(_) => {
                self.word("others")?;
                self.mark(":")?;
                let levels = self.list(Self::level)?;
                let mut staged = vec![];
                while self.take_word("staged") {
                    staged.push(self.staged(kernel)?);
                }
                Fill::Beyond(Beyond { levels, staged })
            }
        };
        Ok(Row { length, levels, fill, at_least, registers: registers.into_iter().collect() })
    }

    fn staged(&mut self, kernel: &Kernel) -> Result<Staged> {
        let buffer = self.buffer_use()?;
        self.mark("[")?;
        self.indices = kernel.indices.iter().map(|(id, index)| (index.name.clone(), id)).collect();
        let rest = self.affine()?;
        self.indices.clear();
        self.word("by")?;
        let step = self.size()?;
        self.mark("]")?;
        self.word("at")?;
        let offset = self.number()?;
        self.word("in")?;
        self.word("loops")?;
        let first = self.number()?;
        self.word("to")?;
        let loops = (first, self.number()?);
        Ok(Staged { buffer, step, rest, loops, offset, sole: self.take_word("sole") })
    }

    /// The axes of a variant or stage.
    fn layout(&mut self, kernel: &Kernel) -> Result<Vec<Axis>> {
        let mut axes = vec![];
        while self.take_word("axis") {
            let indices = self.list(|p| p.index_of(kernel))?;
            self.mark(":")?;
            axes.push(Axis { indices, levels: self.list(Self::level)? });
        }
        Ok(axes)
    }

    fn level(&mut self) -> Result<Level> {
        let named = |name: &str| Scope::ALL.into_iter().find(|scope| scope.name() == name);
        let scope = self.named("a unit such as `block`", named)?;
        if self.take_word("up") {
            self.word("to")?;
            return Ok(Level::up_to(scope, self.number()?));
        }
        let counted = matches!(self.peek(), Some(Token::Int(_)));
        Ok(if counted { Level::of(scope, self.number()?) } else { Level::all(scope) })
    }

    fn index_of(&mut self, kernel: &Kernel) -> Result<IndexId> {
        let name = self.name()?;
        let found = kernel.indices.iter().find(|(_, index)| index.name == name);
        found.map(|(id, _)| id).ok_or_else(|| self.error_before(format!("the part has no index {name}")))
    }

    /// How a part runs.
    fn run(&mut self) -> Result<Run> {
        let Some(Token::Word(word)) = self.peek() else { return Err(self.expected("how the part runs")) };
        self.next += 1;
        match word {
            "whole" => Ok(Run::Whole),
            "ranges" => Ok(Run::Ranges),
            "sweeps" => Ok(Run::Sweeps),
            "transpose" => self.transpose(),
            "strips" => {
                let joined = if self.take_word("of") { Some(self.size()?) } else { None };
                Ok(Run::Strips { joined })
            }
            "chunks" => {
                self.word("to")?;
                Ok(Run::Chunks { results: self.list(Self::buffer_use)? })
            }
            "blocks" => {
                self.word("to")?;
                Ok(Run::Blocks { results: self.list(Self::buffer_use)? })
            }
            "hand" => {
                self.word("off")?;
                let prefixes = self.number()?;
                self.word("in")?;
                Ok(Run::HandOff(HandOff { buffer: self.buffer_use()?, prefixes }))
            }
            "relay" => {
                let prefixes = self.number()?;
                self.word("in")?;
                let buffer = self.buffer_use()?;
                self.word("window")?;
                Ok(Run::Relay(Relay { buffer, prefixes, window: self.number()? }))
            }
            "tiles" => self.tiles(),
            _ => Err(self.error_before("no part runs in this way")),
        }
    }

    fn transpose(&mut self) -> Result<Run> {
        self.word("dim")?;
        let outer = self.number()?;
        self.word("of")?;
        let extents = self.bracketed("(", ")", Self::size)?;
        self.mark(",")?;
        self.word("loads")?;
        let loads = self.list(Self::number)?;
        self.word("height")?;
        Ok(Run::Transpose(Transpose { outer, loads, height: self.number()?, extents }))
    }

    fn tiles(&mut self) -> Result<Run> {
        self.word("of")?;
        let height = self.size()?;
        self.word("by")?;
        let width = self.size()?;
        self.mark(",")?;
        self.word("rows")?;
        let rows = self.number()?;
        self.word("sums")?;
        let sums = self.list(|p| p.bracketed("(", ")", Self::buffer_use))?;
        Ok(Run::Tiles(Tiles { rows, sums, height, width }))
    }
}

/// The strategy of a name.
fn strategy(name: &str) -> Option<Strategy> {
    Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
}
