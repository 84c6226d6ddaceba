//! Reads the text form of a scheduled program.

use std::str::FromStr;

use super::token::Token;
use super::{ParseError, Parser, Result};
use crate::nest::{IndexId, Kernel, KernelId};
use crate::sched::{HandOff, Machine, Part, Phase, Run, Scheduled, Tiles, Transpose};

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
        Ok(Part { of, kernel, run, joins })
    }

    fn index_of(&mut self, kernel: &Kernel) -> Result<IndexId> {
        let name = self.name()?;
        let found = kernel.indices.iter().find(|(_, index)| index.name == name);
        found.map(|(id, _)| id).ok_or_else(|| self.error_before(format!("the part has no index {name}")))
    }

    /// How a part runs.
    fn run(&mut self) -> Result<Run> {
        let Some(Token::Word(word)) = self.peek() else { return Err(self.expected("how the part runs")) };
        if let Some(phase) = Phase::ALL.into_iter().find(|phase| phase.name() == word) {
            self.next += 1;
            self.word("in")?;
            return Ok(Run::Phase { phase, results: self.list(Self::buffer_use)? });
        }
        self.next += 1;
        match word {
            "whole" => Ok(Run::Whole),
            "ranges" => Ok(Run::Ranges),
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
