//! Formats results: values as they are entered, followed by `#` and their type.

use fuseloop::{Array, Outcome, Style, print};

/// The text of an outcome, with a newline at the end.
pub fn outcome(outcome: &Outcome, style: Style, format: &print::Format) -> String {
    match outcome {
        Outcome::Used { line, names } => format!("{line}: {}\n", names.join(", ")),
        Outcome::Defined { signature, .. } => format!("{signature}\n"),
        Outcome::Waits { name, errors } => {
            let missing = errors.reports().map(|error| {
                let help = error.help.map(|help| format!("\n  = help: {help}")).unwrap_or_default();
                format!("fn {name} waits: {} yet{help}\n", error.message)
            });
            missing.collect()
        }
        // This is printed as an error.
        Outcome::Refused { .. } => String::new(),
        Outcome::Bound { values } => {
            values.iter().map(|(name, value)| format!("{name}: {}\n", type_of(value))).collect()
        }
        Outcome::Value { results } => match results.as_slice() {
            [(_, only)] => value(None, only, style, format),
            several => several.iter().map(|(name, one)| value(Some(name), one, style, format)).collect(),
        },
    }
}

fn value(name: Option<&str>, value: &Array, style: Style, format: &print::Format) -> String {
    let text = print::to_text(value.as_ref(), format);
    let ty = match style {
        Style::Plain => format!("# {}", type_of(value)),
        Style::Colored => format!("\x1b[2m# {}\x1b[0m", type_of(value)),
    };
    let name = name.map(|name| format!("{name} =")).unwrap_or_default();
    match (text.contains('\n'), name.as_str()) {
        (true, "") => format!("{ty}\n{text}\n"),
        (true, name) => format!("{name} {ty}\n{text}\n"),
        (false, "") => format!("{text}  {ty}\n"),
        (false, name) => format!("{name} {text}  {ty}\n"),
    }
}

/// `f32[2, 3]`
pub fn type_of(value: &Array) -> String {
    let shape: Vec<String> = value.shape().iter().map(usize::to_string).collect();
    match shape.is_empty() {
        true => value.dtype().to_string(),
        false => format!("{}[{}]", value.dtype(), shape.join(", ")),
    }
}
