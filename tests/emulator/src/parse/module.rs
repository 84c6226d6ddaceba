//! Reads the text outside of kernels: versions, variables, and the heads of kernels.

use std::collections::HashMap;

use crate::op::{Kernel, Layout};
use crate::parse::ParseError;
use crate::parse::body::Body;
use crate::parse::cursor::Cursor;
use crate::parse::lexer::Kind;
use crate::parse::operand::Operand;
use crate::types::{Class, Space, Type};

/// A PTX module: decoded kernels and the variables that they share.
#[derive(Debug)]
pub struct Module {
    pub(crate) kernels: Vec<Kernel>,
    /// Contents of `.global` variables as a launch starts.
    pub(crate) globals: Vec<Vec<u8>>,
    /// Contents of the `.const` variables, and their positions.
    pub(crate) constants: Vec<u8>,
    pub(crate) constant: Layout,
    /// The number of the architecture: 80 is `sm_80`.
    pub(crate) target: u32,
    /// Whether the architecture's specific instructions are there: `sm_90a`.
    pub(crate) specifics: bool,
    shared: Layout,
    dynamic: Option<u32>,
    variables: HashMap<String, Variable>,
}

/// A variable, and the size of the object that a name refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    pub(crate) space: Space,
    pub(crate) place: Place,
}

/// Where a variable lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In its space.
    At(u32),
    /// The position that a launch gives to the global variable of this number.
    Global(u32),
    /// Behind all shared variables of the kernel.
    Dynamic,
}

/// The declaration of a variable.
pub(crate) struct Declared<'t> {
    pub(crate) name: &'t str,
    pub(crate) align: u32,
    /// None: `name[]`.
    pub(crate) bytes: Option<u32>,
    pub(crate) ty: Type,
}

impl Module {
    /// Reads a module.
    ///
    /// # Errors
    /// An error if the text is not PTX or uses a feature that the emulator does not have.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        let mut cursor = Cursor::new(text)?;
        let mut module = Module {
            kernels: vec![],
            globals: vec![],
            constants: vec![],
            constant: Layout::default(),
            target: 0,
            specifics: false,
            shared: Layout::default(),
            dynamic: None,
            variables: HashMap::new(),
        };
        while cursor.peek().kind != Kind::End {
            module.directive(&mut cursor)?;
        }
        Ok(module)
    }

    /// The names of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|k| k.name.as_str())
    }

    pub(crate) fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.get(name).copied()
    }

    fn directive<'t>(&mut self, cursor: &mut Cursor<'t>) -> Result<(), ParseError> {
        let line = cursor.line();
        match cursor.dot()? {
            "version" => {
                cursor.expect(Kind::Float, "a version")?;
                Ok(())
            }
            "target" => {
                let name = cursor.word()?;
                let digits = name.strip_prefix("sm_").map(|n| n.trim_end_matches(|c: char| c.is_ascii_alphabetic()));
                self.specifics = name.ends_with('a');
                self.target = digits
                    .and_then(|digits| digits.parse().ok())
                    .ok_or_else(|| cursor.error(format!("`{name}` is no target of the subset")))?;
                Ok(())
            }
            "address_size" => match cursor.count()? {
                64 => Ok(()),
                other => Err(cursor.error(format!("addresses of {other} bits"))),
            },
            "file" | "loc" => {
                cursor.skip_line(line);
                Ok(())
            }
            // Whether other modules see it says nothing here.
            "visible" => Ok(()),
            "extern" => {
                if !cursor.take_dot("shared") {
                    return Err(cursor.error("only shared memory is extern".into()));
                }
                let declared = declared(cursor)?;
                cursor.expect(Kind::Semicolon, "`;`")?;
                if declared.bytes.is_some() {
                    return Err(cursor.error("shared memory that is extern has no size".into()));
                }
                self.dynamic = Some(self.dynamic.unwrap_or(1).max(declared.align));
                self.define(cursor, declared.name, Variable { space: Space::Shared, place: Place::Dynamic })
            }
            "shared" => {
                let declared = declared(cursor)?;
                cursor.expect(Kind::Semicolon, "`;`")?;
                let Some(bytes) = declared.bytes else {
                    return Err(cursor.error("shared memory without a size is extern".into()));
                };
                let place = place(&mut self.shared, bytes, declared.align).map_err(|what| cursor.error(what))?;
                self.define(cursor, declared.name, Variable { space: Space::Shared, place })
            }
            "global" => {
                let (declared, contents) = self.initialised(cursor)?;
                let place = Place::Global(self.globals.len() as u32);
                self.globals.push(contents);
                self.define(cursor, declared.name, Variable { space: Space::Global, place })
            }
            "const" => {
                let (declared, contents) = self.initialised(cursor)?;
                let bytes = contents.len() as u32;
                let place = place(&mut self.constant, bytes, declared.align).map_err(|what| cursor.error(what))?;
                self.constants.resize((self.constant.bytes - bytes) as usize, 0);
                self.constants.extend(contents);
                self.define(cursor, declared.name, Variable { space: Space::Constant, place })
            }
            "entry" => self.kernel(cursor),
            other => Err(ParseError { line, what: format!("`.{other}` is not in the subset") }),
        }
    }

    fn define(&mut self, cursor: &Cursor<'_>, name: &str, variable: Variable) -> Result<(), ParseError> {
        match self.variables.insert(name.to_owned(), variable) {
            None => Ok(()),
            Some(_) => Err(cursor.error(format!("`{name}` is declared twice"))),
        }
    }

    /// A variable with its initial bytes: zeros unless there is an initializer.
    fn initialised<'t>(&self, cursor: &mut Cursor<'t>) -> Result<(Declared<'t>, Vec<u8>), ParseError> {
        let declared = declared(cursor)?;
        let mut contents = vec![];
        let element = declared.ty.bytes() as usize;
        if cursor.take(Kind::Equals).is_some() {
            let values = match Operand::read(cursor)? {
                Operand::Vector(values) => values,
                value => vec![value],
            };
            for value in values {
                let bits = immediate(&value, declared.ty).map_err(|what| cursor.error(what))?;
                contents.extend(&bits.to_le_bytes()[..element]);
            }
        }
        let bytes = match declared.bytes {
            Some(bytes) => bytes as usize,
            None => contents.len(),
        };
        if contents.len() > bytes {
            return Err(cursor.error(format!("more values than `{}` has room for", declared.name)));
        }
        contents.resize(bytes, 0);
        cursor.expect(Kind::Semicolon, "`;`")?;
        Ok((declared, contents))
    }

    /// Reads the rest of an `.entry`.
    fn kernel(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        let line = cursor.line();
        let name = cursor.word()?;
        if self.kernels.iter().any(|k| k.name == name) {
            return Err(cursor.error(format!("kernel `{name}` is declared twice")));
        }
        let mut body = Body::new(self);
        if cursor.take(Kind::OpenRound).is_some() {
            while cursor.take(Kind::CloseRound).is_none() {
                // Every parameter has at least a byte, so this is not the first one.
                if body.parameters.bytes > 0 {
                    cursor.expect(Kind::Comma, "`,` or `)`")?;
                }
                if !cursor.take_dot("param") {
                    return Err(cursor.error("`.param` expected".into()));
                }
                let declared = declared(cursor)?;
                let Some(bytes) = declared.bytes else {
                    return Err(cursor.error(format!("parameter `{}` has no size", declared.name)));
                };
                body.parameter(declared.name, bytes, declared.align).map_err(|what| cursor.error(what))?;
            }
        }
        let (mut most, mut required, mut cluster) = (None, None, 1);
        while cursor.peek().kind == Kind::Dot {
            match cursor.dot()? {
                "maxntid" => most = Some(shape(cursor)?),
                "reqntid" => required = Some(shape(cursor)?),
                // A hint for the register allocator of the driver, without a meaning here.
                "minnctapersm" => drop(cursor.count()?),
                "explicitcluster" | "reqnctapercluster" if self.target < 90 => {
                    return Err(cursor.error("clusters are for `sm_90`".into()));
                }
                "explicitcluster" => {}
                "reqnctapercluster" => match shape(cursor)? {
                    [blocks @ 1..=8, 1, 1] => cluster = blocks,
                    other => return Err(cursor.error(format!("clusters of {other:?} blocks"))),
                },
                other => return Err(cursor.error(format!("`.{other}` is not in the subset"))),
            }
        }
        cursor.expect(Kind::OpenBrace, "`{`")?;
        body.read(cursor)?;
        let kernel = body.finish(name, line, (most, required), cluster)?;
        // `ptxas` refuses such a kernel too; shared memory beyond this limit is given at the
        // launch.
        if kernel.shared.sum() > MOST_SHARED {
            let what = format!("`{name}` declares more than {MOST_SHARED} bytes of shared memory");
            return Err(ParseError { line, what });
        }
        self.kernels.push(kernel);
        Ok(())
    }

    /// The shared memory that every kernel starts with, and the alignment of the part that launches
    /// add.
    pub(crate) fn shared(&self) -> (Layout, Option<u32>) {
        (self.shared.clone(), self.dynamic)
    }
}

/// One to three sizes; missing ones are 1.
fn shape(cursor: &mut Cursor<'_>) -> Result<[u32; 3], ParseError> {
    let mut shape = [cursor.count()?, 1, 1];
    for size in &mut shape[1..] {
        if cursor.take(Kind::Comma).is_none() {
            break;
        }
        *size = cursor.count()?;
    }
    Ok(shape)
}

/// The maximum bytes of a variable: more than any kernel has in addition to its arrays, which hosts
/// allocate.
const MOST_BYTES: u32 = 1 << 20;

/// The maximum bytes of shared memory that a kernel may declare; a launch must ask for more.
const MOST_SHARED: u32 = 48 << 10;

/// Bytes of all variables of a space, at most.
const MOST_LAID_OUT: u32 = 1 << 24;

/// Room for a declared variable in a space.
pub(crate) fn place(layout: &mut Layout, bytes: u32, align: u32) -> Result<Place, String> {
    let at = layout.place(bytes, align);
    if layout.bytes <= MOST_LAID_OUT {
        Ok(Place::At(at))
    } else {
        Err("more variables than a space has room for".into())
    }
}

/// A variable after its space: `.align 8 .b8 name[16]`.
pub(crate) fn declared<'t>(cursor: &mut Cursor<'t>) -> Result<Declared<'t>, ParseError> {
    let declared = cursor.align(0)?;
    let ty = cursor.ty()?;
    if ty == Type::Pred {
        return Err(cursor.error("predicates are no variables".into()));
    }
    let align = cursor.align(declared)?.max(ty.bytes());
    let name = cursor.word()?;
    if cursor.take(Kind::OpenSquare).is_none() {
        return Ok(Declared { name, align, bytes: Some(ty.bytes()), ty });
    }
    if cursor.take(Kind::CloseSquare).is_some() {
        return Ok(Declared { name, align, bytes: None, ty });
    }
    let count = cursor.count()?;
    cursor.expect(Kind::CloseSquare, "`]`")?;
    match count.checked_mul(ty.bytes()).filter(|bytes| *bytes <= MOST_BYTES) {
        Some(bytes) => Ok(Declared { name, align, bytes: Some(bytes), ty }),
        None => Err(cursor.error(format!("`{name}` is too large"))),
    }
}

/// The bits of a constant as a type.
pub(crate) fn immediate(operand: &Operand<'_>, ty: Type) -> Result<u64, String> {
    match (operand, ty) {
        (Operand::Integer(value), _) if matches!(ty.class(), Class::Bits | Class::Unsigned | Class::Signed) => {
            if *value < -(1 << (ty.bits() - 1)) || *value >= 1 << ty.bits() {
                return Err(format!("{value} is out of range for `.{}`", ty.name()));
            }
            Ok(*value as u64 & ty.mask())
        }
        (Operand::Single(bits), Type::F32 | Type::B32) => Ok(u64::from(*bits)),
        (Operand::Double(bits), Type::F64 | Type::B64) => Ok(*bits),
        (Operand::Decimal(value), Type::F32) => Ok(u64::from((*value as f32).to_bits())),
        (Operand::Decimal(value), Type::F64) => Ok(value.to_bits()),
        _ => Err(format!("an operand of type `.{}` cannot be `{operand:?}`", ty.name())),
    }
}
