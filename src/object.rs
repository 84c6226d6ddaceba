//! Compiles functions to an object file with a C header, for programs in C or any language that
//! calls C.

use std::sync::Arc;

use backends::cpu::object::{self, Settings, Status, Target};
use ir::Origin;
use ir::nest::{Place, Program as Nest, Purpose, Relation};
use schedule::{Machine, schedule};

use crate::boundary;
use crate::error::{Context, named};
use crate::{CompileError, Function, Options, Signature, Source};

/// Objects do not distinguish these two causes.
const NO_VALUE: &str = "has no value: it is beyond 64 bits, or divides by a number below 1";

/// Functions compiled ahead of time.
///
/// ```
/// use fuseloop::{Object, Options, Program, Target};
///
/// let program = Program::parse("fn scaled(x: f32[n], by: f32) = x * by")?;
/// let object = Object::new(&[program.main()?], &Options::default(), Target::new(Some("x86_64"), None)?, "fl_")?;
/// assert!(object.bytes.starts_with(b"\x7fELF"));
/// assert!(object.header.contains("int32_t fl_scaled(int64_t n, const float *x, float by, float *out,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Object {
    /// A relocatable ELF file.
    pub bytes: Vec<u8>,
    /// Its C header.
    pub header: String,
}

impl Object {
    /// Compiles functions of one program for a target machine. Each symbol is `prefix` and the
    /// function's name.
    pub fn new(
        functions: &[Function<'_>],
        options: &Options,
        target: Target,
        prefix: &str,
    ) -> Result<Object, CompileError> {
        boundary::compile(|| Object::compile(functions, options, target, prefix))
    }

    fn compile(
        functions: &[Function<'_>],
        options: &Options,
        target: Target,
        prefix: &str,
    ) -> Result<Object, CompileError> {
        let lowered: Result<Vec<Lowered>, CompileError> = functions.iter().map(|f| Lowered::new(f, options)).collect();
        let lowered = lowered?;
        let scheduled: Result<Vec<_>, _> = lowered.iter().map(|l| schedule(&l.program, Machine::OBJECT)).collect();
        let scheduled = scheduled?;
        let texts: Vec<_> = lowered.iter().map(|l| |status| l.text(status)).collect();
        let functions: Vec<object::Function<'_>> = lowered
            .iter()
            .zip(&scheduled)
            .zip(&texts)
            .map(|((l, scheduled), text)| {
                let (signature, comment) = (l.signature.to_string(), l.comment.clone());
                object::Function { scheduled, signature, comment, text }
            })
            .collect();
        let origin = lowered.first().map_or("", |l| l.source.name.as_str());
        let settings = Settings { target, prefix, origin };
        Ok(Object { bytes: object::object(&functions, &settings)?, header: object::header(&functions, &settings) })
    }
}

impl Object {
    /// The object as assembly: bytes with labels and relocations, and on x86-64 with the
    /// instructions as comments.
    pub fn assembly(&self) -> Result<String, CompileError> {
        Ok(object::assembly(&self.bytes)?)
    }
}

/// A function that is being compiled to an object.
pub(crate) struct Lowered {
    pub(crate) source: Arc<Source>,
    pub(crate) signature: Signature,
    comment: String,
    pub(crate) program: Nest,
}

impl Lowered {
    pub(crate) fn new(function: &Function<'_>, options: &Options) -> Result<Lowered, CompileError> {
        function.hold_kernels()?;
        let (source, signature) = (Arc::clone(function.source()), function.signature().clone());
        let comment = function.comment();
        Ok(Lowered { source, signature, comment, program: function.lower(options)? })
    }

    /// The meaning of a status, in words. `found` and `wanted` stand for the two numbers that a
    /// call returns with it.
    pub(crate) fn text(&self, status: Status) -> String {
        let context = Context { source: &self.source, program: &self.program, signature: &self.signature };
        let requires = &self.program.requires;
        match status {
            Status::Done => "the results are there".to_owned(),
            Status::Pointer => "a pointer is null or not aligned to its elements".to_owned(),
            Status::Scratch => "there is less scratch memory than the call takes".to_owned(),
            Status::Overlap => "a result overlaps another array or the scratch memory".to_owned(),
            Status::Size => "a length is below 0 or beyond 2^48".to_owned(),
            Status::Memory => "the call takes more memory than there can be".to_owned(),
            Status::Requirement(number) => {
                let r = &requires[number];
                let (left, right) = (context.text(&r.left), context.text(&r.right));
                let (left_is, right_is) = (&r.left_is, &r.right_is);
                let what = match (r.relation, r.purpose) {
                    (Relation::Equal, _) => {
                        format!("{left_is} (found, `{left}`) must equal {right_is} (wanted, `{right}`)")
                    }
                    (Relation::AtMost, Purpose::Length) => format!("{right_is} (wanted, `{right}`) would be negative"),
                    (Relation::AtMost, Purpose::Elements) => format!("{right_is} (wanted) is 0: there must be one"),
                    (Relation::AtMost, _) => {
                        format!("{left_is} (found, `{left}`) must be at most {right_is} (wanted, `{right}`)")
                    }
                };
                format!("{}{what}", self.place(r.origin))
            }
            Status::NoValue(number) => {
                let r = &requires[number];
                format!("{}{} or {} {NO_VALUE}", self.place(r.origin), r.left_is, r.right_is)
            }
            Status::Length(id, axis) => {
                let buffer = &self.program.buffers[id];
                let length = context.text(&buffer.shape[axis]);
                format!("axis {axis} of `{}`: its length `{length}` is below 0 (found), or {NO_VALUE}", buffer.name)
            }
            Status::Site(site) => {
                let site = &self.program.sites[site];
                let place = self.place(site.origin);
                match &site.what {
                    Place::Axis { array, axis } => {
                        format!(
                            "{place}a subscript (found) is outside of {}, whose axis {axis} has a length (wanted)",
                            named(array)
                        )
                    }
                    Place::Elements(op) => format!("{place}`{}` of no element has no answer", op.name()),
                }
            }
        }
    }

    /// The place in the source, such as `softmax.fl:3:5: `, or nothing if there is none.
    fn place(&self, origin: Origin) -> String {
        let start = origin.start as usize;
        let Some(before) = self.source.text.get(..start).filter(|_| origin.end > 0) else { return String::new() };
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        format!("{}:{line}:{column}: ", self.source.name)
    }
}
