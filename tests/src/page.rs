//! The program blocks of documentation pages. The head of a block states its expected outcome:
//!
//! ````text
//! ```fl                                  the program checks
//! ```fl x=ones:9 k=3                     and its last function runs with these arguments
//! ```fl error E0115                      it has this error, before any other
//! ```fl warning W0001                    it has this warning and no other, and no error
//! ```fl error E0201 x=ones:9 y=ones:4    the call of its last function has
//! ```fl x=ones:3 -> f32/3                the results are written to arrays of these types and shapes
//! ````
//!
//! Arguments are those of the command line, behind a type and `/` where it is not the parameter's.
//! `max-memory=1000` and `max-steps=1000` limit the call, `entry=g` checks but that function, and
//! `repeat=1000` makes a thousand copies of the text in `«»`.

use std::fmt::Write;

use fuseloop::values::Value;
use fuseloop::{Array, Code, Dtype, Options, Program, Report, Slot};

/// A block of a page.
#[derive(Clone, Debug)]
pub struct Block {
    /// The line of its head, from 1.
    pub line: usize,
    /// The error or warning that it must give.
    pub error: Option<String>,
    /// Arguments and options, by name.
    arguments: Vec<(String, String)>,
    /// Types and shapes of arrays to write to.
    outputs: Option<Vec<String>>,
    /// The program.
    pub source: String,
}

/// The blocks of a page that are programs.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found = vec![];
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(head) = line.strip_prefix("```") else { continue };
        let mut source = String::new();
        for (line, _) in lines.by_ref().take_while(|(line, _)| !line.starts_with("```")) {
            writeln!(source, "{line}").expect("a string takes any text");
        }
        found.extend(block(number, head, source));
    }
    found
}

fn block(line: usize, head: &str, source: String) -> Option<Block> {
    let (head, outputs) = match head.split_once("->") {
        Some((head, outputs)) => (head, Some(outputs.split_whitespace().map(str::to_owned).collect())),
        None => (head, None),
    };
    let mut words = head.split_whitespace().peekable();
    (words.next()? == "fl").then_some(())?;
    let error = words.next_if(|word| ["error", "warning"].contains(word)).and_then(|_| words.next()).map(str::to_owned);
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Block { line, error, arguments: words.filter_map(pair).collect(), outputs, source })
}

impl Block {
    /// Takes an option out of the arguments.
    fn option(&mut self, name: &str) -> Option<String> {
        let at = self.arguments.iter().position(|(n, _)| n == name)?;
        Some(self.arguments.remove(at).1)
    }

    /// The program and its first error, or else warning.
    pub fn outcome(&self) -> (String, Option<Report>) {
        let mut block = self.clone();
        let times = block.option("repeat").and_then(|n| n.parse().ok()).unwrap_or(1);
        let source = repeated(&block.source, times);
        let warning = || Program::parse(source.as_str()).ok()?.warnings().reports().next();
        let report = block.run(&source).or_else(warning);
        (source, report)
    }

    fn run(&mut self, source: &str) -> Option<Report> {
        if let Some(entry) = self.option("entry") {
            let file = grammar::parse(source).ok()?;
            return compiler::check::check(&file, &entry).err().map(|errors| Report::from(&errors[0]));
        }
        let program = match Program::parse(source) {
            Ok(program) => program,
            Err(errors) => return errors.reports().next(),
        };
        let max_memory = self.option("max-memory").and_then(|n| n.parse().ok());
        let max_steps = self.option("max-steps").and_then(|n| n.parse().ok());
        let called = !self.arguments.is_empty() || max_memory.is_some() || self.outputs.is_some();
        let last = program.functions().last().filter(|_| called)?;
        let function = program.function(&last.name).expect("it is one of the program's");
        let kernel = match function.compile(&Options { max_memory, max_steps, ..Options::default() }) {
            Ok(kernel) => kernel,
            Err(error) => return Some(error.report()),
        };
        let values: Vec<Array> =
            self.arguments.iter().zip(&last.params).map(|((_, text), param)| argument(text, param)).collect();
        let Some(outputs) = &self.outputs else { return kernel.call(&values).err().map(|e| e.report()) };
        let array = |text: &String| argument(&text.replace('/', "/zeros:"), &last.results[0]);
        let mut outputs: Vec<Array> = outputs.iter().map(array).collect();
        kernel.call_into(&values, &mut outputs).err().map(|e| e.report())
    }

    /// The failure of the block, if any: an error other than stated, or a suggestion that does not
    /// fix it.
    pub fn fault(&self) -> Option<String> {
        let (source, report) = self.outcome();
        let found = report.as_ref().and_then(|r| r.code).as_ref().map(Code::to_string);
        if found != self.error {
            let message = report.map(|r| r.message).unwrap_or_default();
            return Some(format!("line {}: expected {:?}, found {found:?} {message}", self.line, self.error));
        }
        let mut edits = report?.suggestion;
        if edits.is_empty() {
            return None;
        }
        edits.sort_by_key(|(range, _)| range.start);
        let mut mended = source;
        edits.iter().rev().for_each(|(range, replacement)| mended.replace_range(range.clone(), replacement));
        let left = match Program::parse(mended.as_str()) {
            Err(errors) => errors.to_string(),
            Ok(program) if program.warnings().is_empty() => return None,
            Ok(program) => program.warnings().to_string(),
        };
        Some(format!("line {}: the suggestion makes\n{mended}{left}", self.line))
    }
}

/// An argument as text, for a parameter that may have another type and rank.
fn argument(text: &str, param: &Slot) -> Array {
    let (dtype, text) = match text.split_once('/') {
        Some((dtype, text)) => (Dtype::from_name(dtype).expect("a type stands before the `/`"), text),
        None => (param.dtype, text),
    };
    let rank = text.split_once(':').map_or(0, |(_, shape)| shape.split('x').count());
    let slot = Slot { name: param.name.clone(), dtype, shape: vec!["n".to_owned(); rank] };
    Value::parse(text, &slot).and_then(|value| value.load(0, 0)).expect("the page's arguments are well formed")
}

/// The text with `times` copies of the part between `«` and `»`.
fn repeated(text: &str, times: usize) -> String {
    let mut parts = text.split('«');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inner, after) = part.split_once('»').expect("a `»` closes each `«`");
        all += &inner.repeat(times);
        all += after;
    }
    all
}
