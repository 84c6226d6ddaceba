//! The text form of a scheduled program: the program with the parts as its kernels, followed by the
//! way in which each part runs.

use std::fmt;

use super::{Printer, list, name};
use crate::Size;
use crate::nest::{BufferId, Index};
use crate::sched::{Part, Run, Scheduled};

impl fmt::Display for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scheduled { machine, program, planned, operations, parts } = self;
        writeln!(f, "schedule for {}, {planned} buffers planned, {operations} operations", machine.name)?;
        write!(f, "{}", self.as_program())?;
        let printer = Printer::new(program);
        for part in parts {
            write!(f, "part @{} of {}: {}", name(&part.kernel.name), part.of, run(&printer, &part.run))?;
            writeln!(f, "{}", joins(part))?;
        }
        Ok(())
    }
}

fn joins(part: &Part) -> String {
    if part.joins.is_empty() {
        return String::new();
    }
    let index = |found: Option<&Index>| found.map_or_else(String::new, |index| name(&index.name));
    format!(" joins {}", list(&part.joins, |id| index(part.kernel.indices.get(*id))))
}

/// How a part runs.
fn run(printer: &Printer<'_>, run: &Run) -> String {
    let buffers = |ids: &[BufferId]| list(ids, |id| printer.buffer_name(*id));
    let sizes = |sizes: &[Size]| list(sizes, |size| printer.size(size));
    match run {
        Run::Whole => "whole".to_string(),
        Run::Ranges => "ranges".to_string(),
        Run::Transpose(t) => {
            let loads = list(&t.loads, ToString::to_string);
            format!("transpose dim {} of ({}), loads {loads} height {}", t.outer, sizes(&t.extents), t.height)
        }
        Run::Strips { joined: None } => "strips".to_string(),
        Run::Strips { joined: Some(count) } => format!("strips of {}", printer.size(count)),
        Run::Chunks { results } => format!("chunks to {}", buffers(results)),
        Run::Blocks { results } => format!("blocks to {}", buffers(results)),
        Run::HandOff(h) => format!("hand off {} in {}", h.prefixes, printer.buffer_name(h.buffer)),
        Run::Phase { phase, results } => format!("{} in {}", phase.name(), buffers(results)),
        Run::Tiles(t) => {
            let sums = list(&t.sums, |sums| format!("({})", buffers(sums)));
            format!("tiles of {} by {}, rows {} sums {sums}", printer.size(&t.height), printer.size(&t.width), t.rows)
        }
    }
}
