//! Answers to requests: lines of JSON as the command writes them (`docs/json.md`), and of these
//! types in addition:
//!
//! | `type` | fields |
//! |---|---|
//! | `words` | `words`: the classes of words, each with its first byte and the byte behind it |
//! | `function` | `name`, the function that the answer is about, and its `sizes`: names and lengths |
//! | `machines` | `names`, the machines to choose from |
//! | `page` | `html`, the report as a part of a page |
//! | `shades` | `shades`: operations, each its first byte, the byte behind it and its kernel |
//! | `text` | `text`: nests, a schedule, a derivative, or the program in the one style |
//! | `printed` | a result as text: `name`, `dtype`, `shape`, `text`, and the `file` with its bytes |

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use fuseloop::editor::{Class, Names, words};
use fuseloop::values::{self, Value};
use fuseloop::{
    Array, Device, Emit, Errors, ExplainError, Function, Options, Program, Report, Signature, Slot, Source, Style,
    json, print,
};
use serde_json::json as object;

use crate::{Request, Want, machines};

/// The most bytes of the arrays of a call: a page has no more than some gigabytes.
const MAX_MEMORY: u64 = 1 << 30;
/// The seed of random arguments.
const SEED: u64 = 0;
/// The length of axes that the request does not say.
const LENGTH: i64 = 64;
/// The longest text with colours.
const COLOURED: usize = 200_000;

/// Why there is no answer: lines that say so.
struct Failed(Vec<String>);

/// The lines of the answer to a request.
pub(crate) fn lines(request: &Request) -> Vec<String> {
    let source = Source::new("program", request.source.as_str());
    match request.want {
        Want::Format => match fuseloop::format(source) {
            Ok(text) => vec![line("text", &text)],
            Err(errors) => diagnostics(&errors),
        },
        // Of the other functions nothing is checked for it.
        Want::Report => {
            let report = report(&Names::new(source, None), request).unwrap_or_else(|Failed(lines)| lines);
            [vec![coloured(&request.source)], report].concat()
        }
        Want::Check | Want::Results | Want::Nests | Want::Schedule | Want::Derivative => {
            [vec![coloured(&request.source)], of_program(source, request)].concat()
        }
    }
}

/// The errors or warnings of a program, and the lines about one of its functions.
fn of_program(source: Source, request: &Request) -> Vec<String> {
    let program = match Program::parse(source) {
        Ok(program) => program,
        Err(errors) => return diagnostics(&errors),
    };
    let warnings = program.warnings();
    let mut lines: Vec<String> =
        warnings.reports().map(|report| json::diagnostic(Some(warnings.source()), &report)).collect();
    lines.extend(program.functions().map(json::signature));
    lines.extend(of_function(&program, request).unwrap_or_else(|Failed(lines)| lines));
    lines
}

/// The words of a text with their classes.
fn coloured(text: &str) -> String {
    let words = if text.len() > COLOURED { vec![] } else { words(text) };
    let word = |(place, class): &(std::ops::Range<usize>, Class)| (place.start, place.end, name(*class));
    object!({ "type": "words", "words": words.iter().map(word).collect::<Vec<_>>() }).to_string()
}

fn name(class: Class) -> &'static str {
    match class {
        Class::Keyword => "keyword",
        Class::Type => "type",
        Class::Variable => "variable",
        Class::Definition => "definition",
        Class::Function => "function",
        Class::Builtin => "builtin",
        Class::Decorator => "decorator",
        Class::Number => "number",
        Class::Text => "string",
        Class::Operator => "operator",
        Class::Comment => "comment",
    }
}

/// The lines about the function that is asked about.
fn of_function(program: &Program, request: &Request) -> Result<Vec<String>, Failed> {
    // While one types, a name may be of a function that is not there any more.
    let named = request.function.iter().find_map(|name| program.function(name).ok());
    let last = || program.functions().last().and_then(|last| program.function(&last.name).ok());
    let Some(function) = named.or_else(|| program.main().ok()).or_else(last) else {
        return Err(said("the program has no function"));
    };
    let signature = function.signature();
    let about = object!({ "type": "function", "name": signature.name, "sizes": sizes(signature, request) }).to_string();
    let options = options();
    let emit = |emit| {
        let text = function.emit(&options, emit);
        text.map(|text| vec![line("text", &text)]).map_err(|error| refused(error.source(), &error.report()))
    };
    let answer = match request.want {
        Want::Results => results(&function, &options, request),
        Want::Nests => emit(Emit::Ir),
        Want::Schedule => emit(Emit::Schedule),
        Want::Derivative => Ok(vec![line("text", &derivative(&request.source, &signature.name))]),
        Want::Check | Want::Report | Want::Format => Ok(vec![]),
    };
    let mut lines = vec![about];
    lines.extend(answer.unwrap_or_else(|Failed(lines)| lines));
    Ok(lines)
}

fn options() -> Options {
    Options { device: Device::Interp, max_memory: Some(MAX_MEMORY), ..Options::default() }
}

/// The sizes of a function: names in the shapes of its parameters, in their order.
fn sizes<'f>(signature: &'f Signature, request: &Request) -> Vec<(&'f str, Option<i64>)> {
    let lengths = signature.params.iter().flat_map(|param| &param.shape);
    let words = lengths.flat_map(|length| length.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let mut known = BTreeSet::new();
    let names = words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_') && known.insert(*word));
    names.map(|name| (name, request.sizes.get(name).copied().unwrap_or(Some(LENGTH)))).collect()
}

/// The report on the function that is asked about: nothing, if that has errors or is not there.
fn report(names: &Names, request: &Request) -> Result<Vec<String>, Failed> {
    let all: Vec<String> = names.functions().map(|function| function.name).collect();
    let main = || all.iter().find(|name| *name == "main").or(all.last());
    let Some((name, signature)) =
        request.function.as_ref().or_else(main).and_then(|name| Some((name, names.signature(name)?)))
    else {
        return Ok(vec![]);
    };
    let given: Vec<(&str, i64)> =
        sizes(&signature, request).into_iter().filter_map(|(name, length)| Some((name, length?))).collect();
    let explain = |sizes: &[(&str, i64)]| names.explain(name, &options(), sizes);
    let explained = match explain(&given) {
        // Without sizes there are formulas.
        Some(Err(ExplainError::Sizes { .. } | ExplainError::UnknownSize { .. })) => explain(&[]),
        explained => explained,
    };
    let Some(explained) = explained else { return Ok(vec![]) };
    let explained = explained.map_err(|error| match error {
        ExplainError::Compile(error) => refused(error.source(), &error.report()),
        error => said(&error.to_string()),
    })?;
    let explanation = explained.with_roof(machines::roof(request.machine.as_deref()));
    let shades: Vec<_> = explanation.shades().iter().map(|shade| (shade.start, shade.end, shade.kernel)).collect();
    Ok(vec![
        object!({ "type": "machines", "names": machines::names() }).to_string(),
        object!({ "type": "shades", "shades": shades }).to_string(),
        object!({ "type": "page", "html": explanation.to_html_part() }).to_string(),
    ])
}

/// The derivative of a function, or why it has none.
fn derivative(source: &str, function: &str) -> String {
    let text = Program::gradient(Source::new("program", source), None, function, &[]);
    text.unwrap_or_else(|errors| errors.render(Style::Plain))
}

/// The results of a call.
fn results(function: &Function<'_>, options: &Options, request: &Request) -> Result<Vec<String>, Failed> {
    // Arguments in `f64` fit only where `float` is that.
    let wide = || function.for_f64().and_then(|wide| Some((wide, given(&wide, request).ok()?)));
    let (function, values) = match given(function, request) {
        Ok(values) => (*function, values),
        Err(failed) => wide().ok_or(failed)?,
    };
    let kernel = function.compile(options).map_err(|error| refused(error.source(), &error.report()))?;
    let inputs = values::load(values, SEED, options.max_memory).map_err(|error| refused(None, &error.report()))?;
    let results = kernel.call(&inputs).map_err(|error| refused(Some(error.source()), &error.report()))?;
    let slots = function.signature().results.iter();
    slots.zip(&results).map(|(slot, array)| printed(&slot.name, array)).collect()
}

/// A result: as text, and its bytes in a file of its own.
fn printed(name: &str, array: &Array) -> Result<String, Failed> {
    let file = format!("/{name}");
    std::fs::write(&file, array.bytes()).map_err(|error| said(&format!("`{name}` cannot be written: {error}")))?;
    let text = print::to_text(array.as_ref(), &print::Format::default());
    let (dtype, shape) = (array.dtype().name(), array.shape());
    let printed = object!({
        "type": "printed", "name": name, "dtype": dtype, "shape": shape, "text": text, "file": file
    });
    Ok(printed.to_string())
}

/// A value for each parameter.
fn given(function: &Function<'_>, request: &Request) -> Result<Vec<Value>, Failed> {
    let parse = |param: &Slot| {
        let Some(text) = request.arguments.get(&param.name) else {
            return Err(said(&format!("no value is given for `{}`", param.name)));
        };
        Value::parse(text, param).map_err(|error| refused(None, &error.report()))
    };
    function.signature().params.iter().map(parse).collect()
}

fn line(kind: &str, text: &str) -> String {
    object!({ "type": kind, "text": text }).to_string()
}

fn diagnostics(errors: &Errors) -> Vec<String> {
    errors.reports().take(100).map(|report| json::diagnostic(Some(errors.source()), &report)).collect()
}

/// An error.
fn refused(source: Option<&Source>, report: &Report) -> Failed {
    Failed(vec![json::diagnostic(source, report)])
}

/// A request that cannot be met, in a sentence.
fn said(message: &str) -> Failed {
    let (severity, spans) = ("error", [(); 0]);
    Failed(vec![
        object!({ "type": "diagnostic", "severity": severity, "message": message, "spans": spans }).to_string(),
    ])
}
