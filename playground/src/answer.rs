//! Answers to requests: lines of JSON as the command writes them (`docs/json.md`), and of these
//! types in addition:
//!
//! | `type` | fields |
//! |---|---|
//! | `page` | `html`, the report as a page |
//! | `text` | `text`: nests, a schedule, or the program in the one style |
//! | `printed` | a result as text: `name`, `dtype`, `shape` and `text` |

use std::iter::once;

use fuseloop::values::{self, Value};
use fuseloop::{Device, Emit, Errors, ExplainError, Function, Options, Program, Report, Slot, Source, json, print};
use serde_json::json as object;

use crate::{Request, Want};

/// The most bytes of the arrays of a call: a page has no more than some gigabytes.
const MAX_MEMORY: u64 = 1 << 30;
/// The seed of random arguments.
const SEED: u64 = 0;

/// Why there is no answer: lines that say so.
struct Failed(Vec<String>);

/// The lines of the answer to a request.
pub(crate) fn lines(request: &Request) -> Vec<String> {
    let source = Source::new("program", request.source.as_str());
    if request.want == Want::Format {
        return match fuseloop::format(source) {
            Ok(text) => vec![line("text", &text)],
            Err(errors) => diagnostics(&errors),
        };
    }
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

/// The lines about the function that is asked about.
fn of_function(program: &Program, request: &Request) -> Result<Vec<String>, Failed> {
    // While one types, a name may be of a function that is not there any more.
    let named = request.function.iter().find_map(|name| program.function(name).ok());
    let last = || program.functions().last().and_then(|last| program.function(&last.name).ok());
    let Some(function) = named.or_else(|| program.main().ok()).or_else(last) else {
        return Err(said("the program has no function"));
    };
    let options = Options { device: Device::Interp, max_memory: Some(MAX_MEMORY), ..Options::default() };
    let emit = |emit| {
        let text = function.emit(&options, emit);
        text.map(|text| vec![line("text", &text)]).map_err(|error| refused(error.source(), &error.report()))
    };
    match request.want {
        Want::Report => report(&function, &options, request),
        Want::Results => results(&function, &options, request),
        Want::Nests => emit(Emit::Ir),
        Want::Schedule => emit(Emit::Schedule),
        Want::Format => Ok(vec![]),
    }
}

/// The report on fusion.
fn report(function: &Function<'_>, options: &Options, request: &Request) -> Result<Vec<String>, Failed> {
    let mut sizes: Vec<(&str, i64)> = request.sizes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    loop {
        match function.explain(options, &sizes) {
            Ok(explanation) => {
                let html = explanation.to_html();
                return Ok(vec![object!({ "type": "page", "html": html }).to_string()]);
            }
            // One of the program before the last edit.
            Err(ExplainError::UnknownSize { name, .. }) => sizes.retain(|(other, _)| *other != name),
            // Without sizes there are formulas.
            Err(ExplainError::Sizes { .. }) if !sizes.is_empty() => sizes.clear(),
            Err(ExplainError::Compile(error)) => return Err(refused(error.source(), &error.report())),
            Err(error) => return Err(said(&error.to_string())),
        }
    }
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
    let printed = slots.zip(&results).flat_map(|(slot, array)| {
        let text = print::to_text(array.as_ref(), &print::Format::default());
        let (dtype, shape) = (array.dtype().name(), array.shape());
        let printed = object!({
            "type": "printed", "name": slot.name, "dtype": dtype, "shape": shape, "text": text
        });
        once(printed.to_string()).chain(once(json::result(&slot.name, array.as_ref(), None)))
    });
    Ok(printed.collect())
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
