//! The errors after checking: of compiling a function and of calling it. They are data, with their
//! sentences; [`crate::render`] draws them. `context` translates the reports of the engines into
//! the user's terms.

mod context;
#[cfg(feature = "gpu")]
mod gpu;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use compiler::lower::LowerError;
use compiler::pipeline::PipelineError;
use grammar::Code;
use ir::Dtype;
use ir::array::ArrayError;
use ir::nest::{Purpose, Relation};
use ir::size::SizeError;
use schedule::ScheduleError;

pub(crate) use context::Context;

use crate::render::{Report, draw};
use crate::{Source, Style};

/// The codes of this module: E0200 to E0249 for calls; from E0250 for programs that the compiler or
/// the engines cannot handle.
pub(crate) mod codes {
    grammar::codes! {
        ARGUMENT_COUNT = 200, "not as many arguments as parameters";
        LENGTHS = 201, "lengths of a call that disagree";
        ARGUMENT_TYPE = 202, "an argument of another element type";
        ARGUMENT_RANK = 203, "an argument of another rank";
        DECLARED = 204, "an argument of another length than declared";
        TOO_SMALL = 205, "an array too small for the accesses to it";
        SLICE = 206, "a slice that reaches beyond its array";
        NEGATIVE = 207, "a length that would be negative";
        EMPTY = 208, "argmax or argmin of an array without elements";
        SCALAR = 209, "a number or a length beyond 2^48";
        NO_VALUE = 210, "a length without a value";
        STATED = 211, "a condition of the signature that a call does not meet";
        ARGUMENT_NAME = 212, "an argument whose name is not that of one parameter";
        OUTSIDE = 220, "an access outside, found as the program runs";
        OUTPUT_COUNT = 230, "not as many arrays to write to as results";
        OUTPUT = 231, "an array to write to that does not fit";
        MEMORY = 240, "a call that takes more memory than allowed";
        ARRAY = 241, "an array that does not fit into memory";
        DEVICE_MEMORY = 242, "a call that takes more of a GPU's memory than it may";
        CANCELLED = 243, "a call that was cancelled";
        STEPS = 244, "a loop that takes more steps than allowed";
        TOO_LARGE = 250, "a function too large to compile";
        TOO_DEEP = 251, "reductions and conditions nested too deep to compile";
        TOO_MANY_KERNELS = 252, "more kernels than the function allows";
        LOOP_FORM = 253, "a loop of a form that no kernel computes";
        NO_GPU = 260, "no GPU that can be used";
        GPU = 261, "a GPU that failed";
        LEFT_OUT = 262, "a device that this build leaves out";
        NO_CUDA_C = 263, "a kernel that cannot be written as CUDA C yet";
        FAULT = 299, "a fault of Fuseloop itself";
    }
}

/// The reason why a checked function could not be compiled: a stated limit, the function's own
/// limit, or a bug in the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    report: Box<Report>,
    source: Option<Arc<Source>>,
}

impl CompileError {
    pub(crate) fn new(report: Report) -> CompileError {
        CompileError { report: Box::new(report), source: None }
    }

    /// The error, with the source that its labels refer to.
    pub(crate) fn at(self, source: &Arc<Source>) -> CompileError {
        CompileError { source: Some(Arc::clone(source)), ..self }
    }

    pub(crate) fn fault(message: String) -> CompileError {
        CompileError::of(codes::FAULT, message)
    }

    fn of(code: Code, message: String) -> CompileError {
        let mut report = Report::new(code, message);
        report.help = match code {
            codes::FAULT => Some("please report it, with the program".to_owned()),
            codes::LEFT_OUT => Some("build `fuseloop` with that feature, or choose another device".to_owned()),
            codes::NO_GPU | codes::GPU => Some("everything runs on the CPU too, with the same bits".to_owned()),
            codes::LOOP_FORM => Some("let one loop take the steps of all indices, outside of any `if`".to_owned()),
            codes::NO_CUDA_C => Some("`build --emit ptx` writes every function".to_owned()),
            codes::TOO_DEEP => Some("name inner reductions as arrays, with `let`: they are computed before".to_owned()),
            _ => Some("split the function into several, called one after the other".to_owned()),
        };
        CompileError::new(report)
    }

    /// A request for what this build leaves out.
    #[cfg(not(all(feature = "gpu", feature = "interp")))]
    pub(crate) fn left_out(what: &str, feature: &str) -> CompileError {
        CompileError::of(codes::LEFT_OUT, format!("{what} needs the feature `{feature}`, which this build leaves out"))
    }

    /// The code of the error.
    pub fn code(&self) -> Code {
        self.report.code.unwrap_or(codes::FAULT)
    }

    /// The source of the function, if the error has a place in it.
    pub fn source(&self) -> Option<&Source> {
        self.source.as_deref()
    }

    /// The error, ready to be drawn or written as JSON.
    pub fn report(&self) -> Report {
        Report::clone(&self.report)
    }

    /// The error with its reasons, drawn over the source where it has a place there.
    pub fn render(&self, style: Style) -> String {
        draw(self.source().unwrap_or(&Source::from("")), &self.report, style)
    }
}

impl From<PipelineError> for CompileError {
    fn from(error: PipelineError) -> CompileError {
        let code = match &error {
            PipelineError::Lower(LowerError::TooLarge) => codes::TOO_LARGE,
            PipelineError::Lower(LowerError::TooDeep) => codes::TOO_DEEP,
            PipelineError::Lower(LowerError::Loop(..)) => codes::LOOP_FORM,
            PipelineError::Lower(LowerError::Malformed(_)) | PipelineError::Broken { .. } => codes::FAULT,
        };
        let mut error_here = CompileError::of(code, error.to_string());
        if let PipelineError::Lower(LowerError::Loop(origin, _)) = error {
            error_here.report.labels = place(&(origin.start as usize..origin.end as usize), "");
        }
        error_here
    }
}

impl From<ScheduleError> for CompileError {
    fn from(error: ScheduleError) -> CompileError {
        let code = match &error {
            ScheduleError::TooLarge { .. } => codes::TOO_LARGE,
            ScheduleError::Broken { .. } => codes::FAULT,
        };
        CompileError::of(code, error.to_string())
    }
}

impl From<backends::cpu::CompileError> for CompileError {
    fn from(error: backends::cpu::CompileError) -> CompileError {
        CompileError::of(codes::FAULT, error.to_string())
    }
}

#[cfg(feature = "gpu")]
impl From<backends::cuda_c::Error> for CompileError {
    fn from(error: backends::cuda_c::Error) -> CompileError {
        let backends::cuda_c::Error::Unsupported { what, origins } = error else {
            return CompileError::of(codes::FAULT, error.to_string());
        };
        let message = format!("a kernel has {what}, which cannot be written as CUDA C yet");
        let mut error = CompileError::of(codes::NO_CUDA_C, message);
        if let Some(origin) = origins.iter().find(|origin| origin.end > 0) {
            error.report.labels = place(&(origin.start as usize..origin.end as usize), "");
        }
        error
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report.message)
    }
}

impl std::error::Error for CompileError {}

/// The reason why a call failed. The caller's arrays are unchanged.
///
/// Its `Display` is one sentence; [`RunError::render`] adds the source and the reasons.
#[derive(Clone, Debug)]
pub struct RunError {
    kind: Box<RunErrorKind>,
    source: Arc<Source>,
}

/// The kinds of failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunErrorKind {
    /// The number of arrays differs from the number of parameters.
    ArgumentCount {
        /// The parameters' names.
        params: Vec<String>,
        /// How many arrays were given.
        found: usize,
    },
    /// Arguments given by name do not fit the parameters' names.
    ArgumentName {
        /// The name.
        name: String,
        /// The fault.
        fault: NameFault,
        /// The parameters' names.
        params: Vec<String>,
    },
    /// An array of another element type.
    ArgumentType {
        /// The parameter.
        param: String,
        /// Its type.
        expected: Dtype,
        /// The array's.
        found: Dtype,
    },
    /// An array of another rank.
    ArgumentRank {
        /// The parameter.
        param: String,
        /// Its type as declared, such as `f32[n, 64]`.
        declared: String,
        /// The shape given.
        found: Vec<usize>,
    },
    /// An argument with an axis longer than 2^48, which only an array without elements can have.
    ArgumentLength {
        /// The parameter.
        param: String,
        /// The axis.
        axis: usize,
        /// Its length.
        found: usize,
    },
    /// Two sizes that do not match.
    Sizes {
        /// One side.
        left: SizeSide,
        /// The required relation.
        relation: Relation,
        /// The other side.
        right: SizeSide,
        /// The origin of the requirement.
        purpose: Purpose,
        /// The size names of both sides.
        names: Vec<SizeName>,
        /// The place in the source that the requirement comes from, in bytes.
        at: Range<usize>,
    },
    /// A size without a valid value: negative, divided by zero or beyond 64 bits.
    Size {
        /// The size, in the user's words.
        what: String,
        /// Its formula.
        formula: String,
        /// Its value, if there is one.
        value: Result<i64, SizeError>,
        /// The size names in it.
        names: Vec<SizeName>,
        /// The place in the source that it comes from, in bytes, if there is one.
        at: Option<Range<usize>>,
    },
    /// A subscript that is out of bounds.
    Access {
        /// The array, in the user's words.
        array: String,
        /// The axis.
        axis: usize,
        /// The subscript.
        index: i64,
        /// One past the greatest legal subscript.
        bound: i64,
        /// The bytes of the source that access it.
        at: Range<usize>,
    },
    /// A loop takes more steps than are allowed.
    Steps {
        /// The most steps.
        limit: i64,
        /// The bytes of the source that a step computes.
        at: Range<usize>,
    },
    /// `argmax` or `argmin` of no elements.
    NoElement {
        /// The reducer.
        reducer: &'static str,
        /// The bytes of the source that reduce.
        at: Range<usize>,
    },
    /// The number of output arrays differs from the number of results.
    OutputCount {
        /// The results' names.
        results: Vec<String>,
        /// The number of arrays given.
        found: usize,
    },
    /// An output array that does not fit the result.
    Output {
        /// The result.
        result: String,
        /// Its type and shape.
        expected: (Dtype, Vec<usize>),
        /// The array's.
        found: (Dtype, Vec<usize>),
    },
    /// The arrays of the call would take more memory than the options allow.
    Memory {
        /// Bytes that all of them take.
        needed: u128,
        /// Bytes that the options allow.
        limit: u64,
    },
    /// The memory for an array could not be allocated.
    Array(ArrayError),
    /// The call would take more GPU memory than is available or than the options allow.
    DeviceMemory {
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that it may take.
        limit: usize,
    },
    /// The GPU failed.
    #[cfg(feature = "gpu")]
    Gpu(crate::GpuError),
    /// The kernel was compiled for another device than the one that holds the arrays.
    NotOnGpu,
    /// The call was cancelled.
    Cancelled,
    /// A stated limit of the engine, or a fault in it.
    Engine(String),
}

/// One side of a condition on sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSide {
    /// The size in the user's words, such as "axis 0 of y".
    pub what: String,
    /// Its formula, such as `(m + 1) / 2`.
    pub formula: String,
    /// Its value in this call, which may be a `u64` argument.
    pub value: i128,
}

/// A size name in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeName {
    /// The name.
    pub name: String,
    /// Its value.
    pub value: i128,
    /// Where the value came from, such as "axis 0 of x".
    pub from: String,
}

impl RunError {
    /// The kind of failure.
    pub fn kind(&self) -> &RunErrorKind {
        &self.kind
    }

    /// The code of the error.
    pub fn code(&self) -> Code {
        match &*self.kind {
            RunErrorKind::ArgumentCount { .. } => codes::ARGUMENT_COUNT,
            RunErrorKind::ArgumentName { .. } => codes::ARGUMENT_NAME,
            RunErrorKind::ArgumentType { .. } => codes::ARGUMENT_TYPE,
            RunErrorKind::ArgumentRank { .. } => codes::ARGUMENT_RANK,
            RunErrorKind::ArgumentLength { .. } => codes::SCALAR,
            RunErrorKind::Sizes { purpose, .. } => match purpose {
                Purpose::Lengths => codes::LENGTHS,
                Purpose::Declared => codes::DECLARED,
                Purpose::Stated => codes::STATED,
                Purpose::Length => codes::NEGATIVE,
                Purpose::Slice => codes::SLICE,
                Purpose::Access => codes::TOO_SMALL,
                Purpose::Elements => codes::EMPTY,
                Purpose::Scalar => codes::SCALAR,
                Purpose::Value => codes::NO_VALUE,
            },
            RunErrorKind::Size { value: Ok(_), .. } => codes::NEGATIVE,
            RunErrorKind::Size { value: Err(_), .. } => codes::NO_VALUE,
            RunErrorKind::Access { .. } => codes::OUTSIDE,
            RunErrorKind::NoElement { .. } => codes::EMPTY,
            RunErrorKind::Steps { .. } => codes::STEPS,
            RunErrorKind::OutputCount { .. } => codes::OUTPUT_COUNT,
            RunErrorKind::Output { .. } => codes::OUTPUT,
            RunErrorKind::Memory { .. } => codes::MEMORY,
            RunErrorKind::Array(ArrayError::Layout) => codes::OUTPUT,
            RunErrorKind::Array(_) => codes::ARRAY,
            RunErrorKind::DeviceMemory { .. } => codes::DEVICE_MEMORY,
            #[cfg(feature = "gpu")]
            RunErrorKind::Gpu(error) => gpu::code(error),
            RunErrorKind::NotOnGpu => codes::GPU,
            RunErrorKind::Cancelled => codes::CANCELLED,
            RunErrorKind::Engine(_) => codes::FAULT,
        }
    }

    /// The source of the function called.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The error with its reasons, drawn over the source where it has a place there.
    pub fn render(&self, style: Style) -> String {
        draw(&self.source, &self.report(), style)
    }

    /// The error with its reasons, ready to be drawn or written as JSON.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.code(), self.to_string());
        match &*self.kind {
            RunErrorKind::Sizes { left, right, purpose, names, at, .. } => {
                report.labels = place(at, "");
                report.notes.extend([left, right].into_iter().filter_map(|side| side.note(names)));
                report.notes.extend(names.iter().map(SizeName::to_string));
                if *purpose == Purpose::Scalar {
                    report
                        .notes
                        .push("it is used in a condition, which numbers beyond 2^48 could make wrap".to_owned());
                }
            }
            RunErrorKind::Size { names, at, .. } => {
                report.labels = at.as_ref().map_or_else(Vec::new, |at| place(at, ""));
                report.notes.extend(names.iter().map(SizeName::to_string));
            }
            RunErrorKind::Access { axis, bound, at, .. } => {
                report.labels = place(at, "accessed here");
                report.notes.push(match bound {
                    ..1 => format!("axis {axis} has no element"),
                    _ => format!("along axis {axis} subscripts go from 0 to {}", bound - 1),
                });
            }
            RunErrorKind::ArgumentLength { .. } => {
                report.notes.push(
                    "proofs rely on lengths of at most 2^48; only an array without elements has a longer axis"
                        .to_owned(),
                );
            }
            RunErrorKind::NoElement { at, .. } => report.labels = place(at, "there is no element here"),
            RunErrorKind::Steps { at, .. } => {
                report.labels = place(at, "in each step of the loop");
                report.help = Some("raise the limit, or end the loop earlier".to_owned());
            }
            RunErrorKind::DeviceMemory { .. } => {
                report.help = Some("run on smaller arrays, or on the CPU".to_owned());
            }
            RunErrorKind::Memory { .. } => report.help = Some("raise the limit, or run on smaller arrays".to_owned()),
            RunErrorKind::Engine(_) => {
                report.help = Some("please report it, with the program and the sizes of its arguments".to_owned());
            }
            _ => {}
        }
        report
    }
}

/// A label, unless the place is empty.
fn place(at: &Range<usize>, text: &str) -> Vec<(Range<usize>, String)> {
    if at.end == 0 { vec![] } else { vec![(at.clone(), text.to_owned())] }
}

impl SizeSide {
    /// A note on the origin of the value, unless its name or its description says that already.
    fn note(&self, names: &[SizeName]) -> Option<String> {
        let alone = names.iter().find(|n| n.name == self.formula).is_some_and(|n| n.from == self.what.replace('`', ""));
        let said = alone || self.formula == self.value.to_string() || self.formula == self.what.replace('`', "");
        (!said).then(|| format!("{} is `{}` = {}", self.what, self.formula, self.value))
    }
}

/// A fault in the names of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// No parameter has the name.
    Unknown,
    /// Two arguments have the name.
    Twice,
    /// No argument has the name of a parameter.
    Missing,
}

impl fmt::Display for SizeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}, from {}", self.name, self.value, self.from)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            RunErrorKind::ArgumentCount { params, found } => {
                let names = params.join(", ");
                write!(f, "the function takes {} ({names}), {found} given", count(params.len(), "argument"))
            }
            RunErrorKind::ArgumentName { name, fault, params } => match fault {
                NameFault::Unknown if params.is_empty() => write!(f, "the function has no parameter `{name}`, nor any"),
                NameFault::Unknown => {
                    let params: Vec<String> = params.iter().map(|param| format!("`{param}`")).collect();
                    write!(f, "the function has no parameter `{name}`, but {}", params.join(", "))
                }
                NameFault::Twice => write!(f, "the argument `{name}` is given twice"),
                NameFault::Missing => write!(f, "the argument `{name}` is missing"),
            },
            RunErrorKind::ArgumentType { param, expected, found } => {
                write!(f, "`{param}` has elements of type {expected}, the array given has {found}")
            }
            RunErrorKind::ArgumentRank { param, declared, found } => {
                write!(f, "`{param}` is {declared}, the array given has shape {}", shape(found))
            }
            RunErrorKind::ArgumentLength { param, axis, found } => {
                write!(f, "axis {axis} of `{param}` is {found}, more than {}", ir::bind::MAX_LENGTH)
            }
            RunErrorKind::Sizes { left, relation, right, purpose, .. } => {
                let (least, most) = (left.value, right.value);
                let (left_is, right_is) = (&left.what, &right.what);
                // The left side must be at least a number that is in no source.
                let bounds_below = left.formula == left.value.to_string();
                match (relation, purpose) {
                    (_, Purpose::Declared) => write!(f, "{left_is} is {least}, {right_is} is {most}"),
                    (Relation::Equal, _) => write!(f, "{left_is} must equal {right_is}: {least} against {most}"),
                    (_, Purpose::Length | Purpose::Value) => write!(f, "{right_is} would be {most}"),
                    (_, Purpose::Elements) => write!(f, "{right_is} is {most}: there must be one"),
                    (_, Purpose::Scalar) if bounds_below => write!(f, "{right_is} is {most}, less than {least}"),
                    (_, Purpose::Scalar) => write!(f, "{left_is} is {least}, more than {most}"),
                    (_, Purpose::Access | Purpose::Slice) if bounds_below && least == 0 => {
                        write!(f, "{right_is} is {most}, below 0")
                    }
                    (_, Purpose::Access) => write!(f, "{right_is} has length {most}, this access needs {least}"),
                    (_, Purpose::Slice) => write!(f, "{left_is} is {least}, beyond {right_is}: {most}"),
                    (_, Purpose::Lengths | Purpose::Stated) => {
                        write!(f, "{right_is} must be at least {left_is}: {most} against {least}")
                    }
                }
            }
            RunErrorKind::Size { what, formula, value, .. } => match value {
                Ok(value) => write!(f, "{what} would have the length `{formula}` = {value}"),
                Err(e) => write!(f, "{what} {}: `{formula}`", no_value(*e)),
            },
            RunErrorKind::Access { array, index, bound, axis, .. } => {
                // The engines clamp a `u64` subscript to `i64::MAX`, so the actual one may be
                // greater.
                let or_more = if *index == i64::MAX { " or more" } else { "" };
                write!(
                    f,
                    "subscript {index}{or_more} is outside of {}, whose axis {axis} has length {bound}",
                    named(array)
                )
            }
            RunErrorKind::Steps { limit, .. } => {
                write!(
                    f,
                    "a loop takes more than {}, the limit of the call",
                    count(usize::try_from(*limit).unwrap_or(usize::MAX), "step")
                )
            }
            RunErrorKind::NoElement { reducer, .. } => write!(f, "`{reducer}` of no element has no answer"),
            RunErrorKind::OutputCount { results, found } => {
                let names = results.join(", ");
                let (results, arrays) = (count(results.len(), "result"), count(*found, "array"));
                write!(f, "the function gives {results} ({names}), {arrays} to write to")
            }
            RunErrorKind::Output { result, expected, found } => {
                let [e, o] = [expected, found].map(|(dtype, lengths)| format!("{dtype}{}", shape(lengths)));
                write!(f, "`{result}` is {e}, the array to write to is {o}")
            }
            RunErrorKind::Memory { needed, limit } => {
                write!(f, "the arrays of this call take {needed} bytes, the limit is {limit}")
            }
            RunErrorKind::Array(e) => write!(f, "{e}"),
            RunErrorKind::DeviceMemory { needed, limit } => {
                write!(f, "the call takes {needed} bytes of the GPU's memory, it may take {limit}")
            }
            #[cfg(feature = "gpu")]
            RunErrorKind::Gpu(e) => write!(f, "{e}"),
            RunErrorKind::NotOnGpu => f.write_str("the arrays are in a GPU's memory, and the kernel runs elsewhere"),
            RunErrorKind::Cancelled => f.write_str("the call was cancelled"),
            RunErrorKind::Engine(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for RunError {}

fn no_value(error: SizeError) -> &'static str {
    match error {
        SizeError::Overflow => "is beyond 64 bits",
        SizeError::DivisionByZero => "has no value, because it divides by a number below 1",
    }
}

/// An array, in quotes if it has a name.
pub(crate) fn named(array: &str) -> String {
    if array.contains(' ') { array.to_owned() } else { format!("`{array}`") }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `[3, 4]`
fn shape(lengths: &[usize]) -> String {
    format!("[{}]", lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}
