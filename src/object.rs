//! Compiles functions to an object file with a C header, for programs in C or any language that
//! calls C.

use backends::cpu::object::{self, Settings, Status, Target};
use ir::nest::{Purpose, Relation};
use schedule::{Machine, schedule};

use crate::boundary;
use crate::error::Context;
use crate::lowered::Lowered;
use crate::{CompileError, Function, Options};

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
    ///
    /// # Errors
    ///
    /// [`CompileError`] as for [`Function::compile`].
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
        let texts: Vec<_> = lowered.iter().map(|l| |status| meaning(l, status)).collect();
        let functions: Vec<object::Function<'_>> = functions
            .iter()
            .zip(lowered.iter().zip(&scheduled))
            .zip(&texts)
            .map(|((function, (l, scheduled)), text)| {
                let (signature, comment) = (l.signature.to_string(), function.comment());
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
    ///
    /// # Errors
    ///
    /// [`CompileError`] if the object is not one of this library's.
    pub fn assembly(&self) -> Result<String, CompileError> {
        Ok(object::assembly(&self.bytes)?)
    }
}

/// The meaning of a status, in words. `found` and `wanted` stand for the two numbers that a
/// call returns with it.
fn meaning(lowered: &Lowered, status: Status) -> String {
    let context = Context { source: &lowered.source, program: &lowered.program, signature: &lowered.signature };
    let requires = &lowered.program.requires;
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
            format!("{}{what}", lowered.place(r.origin))
        }
        Status::NoValue(number) => {
            let r = &requires[number];
            format!("{}{} or {} {NO_VALUE}", lowered.place(r.origin), r.left_is, r.right_is)
        }
        Status::Length(id, axis) => {
            let buffer = &lowered.program.buffers[id];
            let length = context.text(&buffer.shape[axis]);
            format!("axis {axis} of `{}`: its length `{length}` is below 0 (found), or {NO_VALUE}", buffer.name)
        }
        Status::Site(site) => lowered.site(site),
    }
}
