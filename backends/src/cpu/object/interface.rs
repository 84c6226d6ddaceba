//! The C interface of a function in an object: its parameters with their names, and its statuses.
//! Both the code and the header are generated from it.

use std::collections::{BTreeMap, BTreeSet};

use ir::nest::{BufferId, CheckKind, Program, Purpose, Relation, SiteId, SymbolSource, is_length};
use ir::sched::Scheduled;
use ir::{Dtype, SymbolId};

use super::names::{distinct, in_c, symbol};
use super::target::Target;

/// A function of an object.
pub struct Function<'a> {
    /// The program that it computes, scheduled for [`Machine::OBJECT`](ir::sched::Machine::OBJECT).
    pub scheduled: &'a Scheduled,
    /// Its signature in the source.
    pub signature: String,
    /// Its doc comment in the source.
    pub comment: String,
    /// The message for a status, in terms of the source.
    pub text: &'a dyn Fn(Status) -> String,
}

/// The settings of an object.
pub struct Settings<'a> {
    /// The machine that it is for.
    pub target: Target,
    /// The prefix of its functions' symbols.
    pub prefix: &'a str,
    /// The name of its source, for comments and the include guard of its header.
    pub origin: &'a str,
}

/// The outcome of a call of a function in an object. Its number is its position in the function's
/// list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The results are complete.
    Done,
    /// A pointer is null or not aligned to its elements.
    Pointer,
    /// The caller passed less scratch memory than the call needs.
    Scratch,
    /// A result overlaps another array of the call or its scratch memory.
    Overlap,
    /// A parameter that is a length is below 0 or beyond [`ir::bind::MAX_LENGTH`].
    Size,
    /// The temporaries need more memory than the address space has.
    Memory,
    /// A requirement of the program is not met.
    Requirement(usize),
    /// A size in a requirement of the program has no value.
    NoValue(usize),
    /// A result would have a negative length, or one without a value.
    Length(BufferId, usize),
    /// A subscript is out of bounds.
    Site(SiteId),
}

/// Where C gets the value of a size from.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    /// A parameter.
    Given,
    /// Computed from others, by a declaration: the right side of this requirement.
    Declared(usize),
    /// The value of this scalar input.
    Scalar(usize),
}

/// A function of an object.
pub(super) struct Interface<'p> {
    pub(super) program: &'p Program,
    /// The names of the function and its companions, and of the struct that the query fills in.
    pub(super) name: String,
    pub(super) query: String,
    pub(super) error: String,
    pub(super) needs: String,
    /// Where the value of each size comes from.
    pub(super) origins: Vec<(SymbolId, Origin)>,
    pub(super) inputs: Vec<BufferId>,
    pub(super) outputs: Vec<BufferId>,
    pub(super) statuses: Vec<Status>,
    /// The C name of each status, and of their enum.
    pub(super) status_names: Vec<String>,
    pub(super) status_type: String,
}

/// A parameter of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Param {
    /// A length.
    Size(SymbolId),
    /// A scalar, by value.
    Scalar(BufferId),
    Input(BufferId),
    Output(BufferId),
    /// Scratch memory and its size in bytes.
    Scratch,
    Bytes,
    /// The struct that a query fills in.
    Needs,
    /// The struct for the two numbers that give details of a status.
    Numbers,
}

impl<'p> Interface<'p> {
    /// The interfaces of an object's functions. If a companion of one function (`f_query`) has the
    /// name of another function, the companion is renamed.
    pub(super) fn all(functions: &[Function<'p>], prefix: &str) -> Vec<Interface<'p>> {
        let mut taken = BTreeSet::new();
        let name = |f: &Function<'p>| distinct(symbol(prefix, &f.scheduled.program.name), &mut taken);
        let names: Vec<String> = functions.iter().map(name).collect();
        let named = functions.iter().zip(names);
        named.map(|(f, name)| Interface::new(&f.scheduled.program, name, &mut taken)).collect()
    }

    fn new(program: &'p Program, name: String, taken: &mut BTreeSet<String>) -> Interface<'p> {
        let declared = |s: SymbolId| {
            program.requires.iter().position(|r| {
                r.purpose == Purpose::Declared && r.relation == Relation::Equal && r.left.as_symbol() == Some(s)
            })
        };
        let origin = |(s, symbol): (SymbolId, &ir::nest::Symbol)| {
            let origin = match symbol.source {
                SymbolSource::Scalar { input } => Origin::Scalar(input),
                // A caller gives the number that is solved for by the engines.
                SymbolSource::Dimension { .. } | SymbolSource::Solved { .. } => {
                    declared(s).map_or(Origin::Given, Origin::Declared)
                }
            };
            (s, origin)
        };
        let origins = program.symbols.iter().map(origin).collect();
        let outputs = program.outputs();
        let mut statuses = vec![Status::Done, Status::Pointer, Status::Scratch];
        statuses.extend([Status::Size, Status::Memory, Status::Overlap]);
        for number in 0..program.requires.len() {
            statuses.extend([Status::Requirement(number), Status::NoValue(number)]);
        }
        for id in &outputs {
            let lengths =
                program.buffers[*id].shape.iter().enumerate().filter(|(_, size)| !is_length(&program.symbols, size));
            statuses.extend(lengths.map(|(axis, _)| Status::Length(*id, axis)));
        }
        statuses.extend(program.sites.keys().map(Status::Site));
        let [query, error, needs, status_type] =
            ["query", "error", "needs", "status"].map(|beside| distinct(format!("{name}_{beside}"), taken));
        let status_names = status_names(program, &name, &statuses, taken);
        let inputs = program.inputs();
        Interface { program, name, query, error, needs, origins, inputs, outputs, statuses, status_names, status_type }
    }

    /// The number of a status.
    pub(super) fn code(&self, status: Status) -> i64 {
        let found = self.statuses.iter().position(|s| *s == status);
        i64::try_from(found.expect("the list has every status of the program")).expect("few statuses")
    }

    pub(super) fn is_scalar(&self, id: BufferId) -> bool {
        self.program.buffers[id].shape.is_empty()
    }

    fn sizes(&self) -> impl Iterator<Item = Param> {
        self.origins.iter().filter(|(_, origin)| matches!(origin, Origin::Given)).map(|(s, _)| Param::Size(*s))
    }

    /// The parameters of the function.
    pub(super) fn params(&self) -> Vec<Param> {
        let input = |id: &BufferId| if self.is_scalar(*id) { Param::Scalar(*id) } else { Param::Input(*id) };
        let mut params: Vec<Param> = self.sizes().chain(self.inputs.iter().map(input)).collect();
        params.extend(self.outputs.iter().map(|id| Param::Output(*id)));
        params.extend([Param::Scratch, Param::Bytes, Param::Numbers]);
        params
    }

    /// The parameters of the query: the sizes, and the scalar inputs that are sizes.
    pub(super) fn query_params(&self) -> Vec<Param> {
        let scalars = self.origins.iter().filter_map(|(_, origin)| match origin {
            Origin::Scalar(input) => Some(Param::Scalar(self.inputs[*input])),
            Origin::Given | Origin::Declared(_) => None,
        });
        self.sizes().chain(scalars).chain([Param::Needs, Param::Numbers]).collect()
    }

    /// The names of parameters in C: distinct, none reserved, and none the name of a type that a
    /// later parameter may use.
    pub(super) fn names(&self, params: &[Param]) -> Vec<String> {
        let mut taken = BTreeSet::from([NUMBERS.to_owned(), self.needs.clone()]);
        let name = |param: &Param| match param {
            Param::Size(s) => self.program.symbols[*s].name.as_str(),
            Param::Scalar(id) | Param::Input(id) | Param::Output(id) => &self.program.buffers[*id].name,
            Param::Scratch => "scratch",
            Param::Bytes => "scratch_bytes",
            Param::Needs => "needs",
            Param::Numbers => "numbers",
        };
        params.iter().map(|param| distinct(in_c(name(param)), &mut taken)).collect()
    }

    /// The shapes that the query returns: for each result its name, its buffer and its rank.
    pub(super) fn lengths(&self) -> Vec<(String, BufferId, usize)> {
        let mut taken = BTreeSet::from(["scratch".to_owned()]);
        let rank = |id: &BufferId| self.program.buffers[*id].shape.len();
        let results = self.outputs.iter().filter(|id| rank(id) > 0);
        results.map(|id| (distinct(in_c(&self.program.buffers[*id].name), &mut taken), *id, rank(id))).collect()
    }
}

/// The C names of the statuses of a function: its name and the kind of status; the second and later
/// ones of a kind are numbered from 2.
fn status_names(program: &Program, name: &str, statuses: &[Status], taken: &mut BTreeSet<String>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let named = statuses.iter().map(|status| {
        let kind = status.kind(program);
        let count = counts.entry(kind).or_default();
        *count += 1;
        let number = if *count == 1 { String::new() } else { format!("_{count}") };
        distinct(format!("{name}_{kind}{number}"), taken)
    });
    named.collect()
}

impl Status {
    /// The kind of status, in one word. Kinds that depend on the program are named after what their
    /// error codes are about.
    fn kind(self, program: &Program) -> &'static str {
        match self {
            Status::Done => "OK",
            Status::Pointer => "POINTER",
            Status::Scratch => "SCRATCH",
            Status::Size => "SIZE",
            Status::Memory => "MEMORY",
            Status::NoValue(_) => "NO_VALUE",
            Status::Overlap => "OVERLAP",
            Status::Length(..) => "NEGATIVE_LENGTH",
            Status::Requirement(number) => match program.requires[number].purpose {
                Purpose::Lengths => "LENGTHS",
                Purpose::Declared => "DECLARED",
                Purpose::Stated => "CONDITION",
                Purpose::Length => "NEGATIVE_LENGTH",
                Purpose::Slice => "SLICE",
                Purpose::Access => "TOO_SMALL",
                Purpose::Elements => "EMPTY",
                Purpose::Scalar => "SCALAR",
                Purpose::Value => "NO_VALUE",
            },
            Status::Site(site) => match program.sites[site].what {
                CheckKind::Axis { .. } => "OUTSIDE",
                CheckKind::Elements(_) => "EMPTY",
                CheckKind::Steps => "STEPS",
            },
        }
    }
}

/// The type of the two numbers that give details of a status.
pub(super) const NUMBERS: &str = "fuseloop_numbers";

/// The type of elements in C. 16-bit floats are their bits.
pub(super) fn c_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "bool",
        Dtype::I8 => "int8_t",
        Dtype::U8 => "uint8_t",
        Dtype::I16 => "int16_t",
        Dtype::I32 => "int32_t",
        Dtype::I64 => "int64_t",
        Dtype::U32 => "uint32_t",
        Dtype::U64 => "uint64_t",
        Dtype::U16 | Dtype::F16 | Dtype::Bf16 => "uint16_t",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
    }
}
