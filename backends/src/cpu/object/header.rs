//! The C header of an object. It is generated from the same [`Interface`] as the code, so the two
//! cannot disagree.

use std::fmt::Write;

use ir::Dtype;

use super::interface::{Function, Interface, NUMBERS, Param, Settings, Status, c_type};

/// The declarations that all headers share.
const SHARED: &str = "\
#ifndef FUSELOOP_NUMBERS
#define FUSELOOP_NUMBERS
/* What a call that fails says beside its status, if it is asked to: the number found and the one wanted. */
typedef struct fuseloop_numbers {
    int64_t found;
    int64_t wanted;
} fuseloop_numbers;
#endif
";

pub(super) fn header(functions: &[Function<'_>], settings: &Settings<'_>) -> String {
    let guard: String = settings.origin.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let guard = format!("FUSELOOP_{}_H", guard.to_ascii_uppercase());
    let mut out = format!("/* Made by Fuseloop from {}, for {}.", comment(settings.origin), settings.target);
    out += "\n   A function returns 0, or another of its statuses, which its _error function explains; then the results are as they were.";
    out += "\n   Arrays are dense and row-major and aligned to their elements. No result overlaps another array. */\n";
    let _ = write!(out, "#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>\n\n{SHARED}");
    out += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    for (function, interface) in functions.iter().zip(Interface::all(functions, settings.prefix)) {
        out += &section(function, &interface);
    }
    out += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    out
}

/// Text for inside a comment.
fn comment(text: &str) -> String {
    text.replace("*/", "* /").replace("/*", "/ *")
}

/// The declarations of one function.
fn section(function: &Function<'_>, interface: &Interface<'_>) -> String {
    let needs = &interface.needs;
    let text = [function.comment.as_str(), &function.signature].join("\n\n");
    let mut out = format!("\n/* {}", comment(text.trim_start()).replace('\n', "\n   ").replace("   \n", "\n"));
    let buffers = &interface.program.buffers;
    for id in interface.inputs.iter().chain(&interface.outputs) {
        let bits = match buffers[*id].dtype {
            Dtype::F16 | Dtype::Bf16 => format!("the bits of {}", buffers[*id].dtype),
            _ => continue,
        };
        let _ = write!(out, "\n   {}: {bits}.", buffers[*id].name);
    }
    out += " */\n";
    out += &statuses(function, interface);
    let _ = writeln!(out, "typedef struct {needs} {{");
    let _ = writeln!(out, "    int64_t scratch; /* bytes of scratch memory */");
    for (result, id, rank) in interface.lengths() {
        let _ = writeln!(out, "    int64_t {result}[{rank}]; /* the shape of {} */", buffers[id].name);
    }
    let _ = writeln!(out, "}} {needs};");
    out += &prototype(&interface.query, interface, &interface.query_params());
    out += &prototype(&interface.name, interface, &interface.params());
    let _ = writeln!(out, "const char *{}(int32_t status);", interface.error);
    out
}

/// The enum of a function's statuses.
fn statuses(function: &Function<'_>, interface: &Interface<'_>) -> String {
    let mut out = format!("enum {} {{\n", interface.status_type);
    let last = interface.statuses.len() - 1;
    for (number, (status, name)) in interface.statuses.iter().zip(&interface.status_names).enumerate() {
        let comma = if number == last { "" } else { "," };
        let said = match status {
            Status::Done => String::new(),
            status => format!(" /* {} */", comment(&(function.text)(*status))),
        };
        let _ = writeln!(out, "    {name} = {number}{comma}{said}");
    }
    out + "};\n"
}

fn prototype(name: &str, interface: &Interface<'_>, params: &[Param]) -> String {
    let buffers = &interface.program.buffers;
    let declared = |(param, as_name): (&Param, String)| match param {
        Param::Size(_) | Param::Bytes => format!("int64_t {as_name}"),
        Param::Scalar(id) => format!("{} {as_name}", c_type(buffers[*id].dtype)),
        Param::Input(id) => format!("const {} *{as_name}", c_type(buffers[*id].dtype)),
        Param::Output(id) => format!("{} *{as_name}", c_type(buffers[*id].dtype)),
        Param::Scratch => format!("void *{as_name}"),
        Param::Needs => format!("{} *{as_name}", interface.needs),
        Param::Numbers => format!("{NUMBERS} *{as_name}"),
    };
    let all: Vec<String> = params.iter().zip(interface.names(params)).map(declared).collect();
    format!("int32_t {name}({});\n", all.join(", "))
}
