//! Bodies of kernels: declarations, labels and instructions, and the rows that names refer to.

use std::collections::HashMap;

use crate::decode::decode;
use crate::op::{Instruction, Kernel, Layout, Op, PredKind, RowKind};
use crate::parse::ParseError;
use crate::parse::cursor::Cursor;
use crate::parse::lexer::Kind;
use crate::parse::module::{Module, Place, Variable, declared, place};
use crate::parse::operand::Operand;
use crate::types::{Condition, Pred, Reg, Space, Type};

/// The maximum bytes of a kernel's parameters in PTX.
const MOST_PARAMETERS: u32 = 4352;

/// The maximum bytes of a thread's local variables on GPUs.
const MOST_LOCAL: u32 = 512 << 10;

/// The meaning of a register's name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    Row(Reg, Type),
    Pred(Pred),
}

/// The names that one pair of braces declares.
#[derive(Default)]
struct Scope<'t> {
    /// `%r<10>`: rows are allocated to the registers that are used.
    families: HashMap<&'t str, (u32, Type)>,
    registers: HashMap<&'t str, Slot>,
    variables: HashMap<&'t str, Variable>,
}

/// A kernel as it is read.
pub(crate) struct Body<'m, 't> {
    module: &'m Module,
    scopes: Vec<Scope<'t>>,
    rows: Vec<RowKind>,
    constants: HashMap<RowKind, Reg>,
    preds: Vec<PredKind>,
    operations: Vec<Instruction>,
    labels: HashMap<&'t str, u32>,
    /// Branches, by the label they go to.
    branches: Vec<(usize, &'t str)>,
    pub(crate) parameters: Layout,
    parameter_names: HashMap<&'t str, (u32, u32)>,
    shared: Layout,
    dynamic: Option<u32>,
    local: Layout,
}

impl<'m, 't> Body<'m, 't> {
    pub(crate) fn new(module: &'m Module) -> Body<'m, 't> {
        let (shared, dynamic) = module.shared();
        Body {
            module,
            scopes: vec![],
            rows: vec![],
            constants: HashMap::new(),
            preds: vec![],
            operations: vec![],
            labels: HashMap::new(),
            branches: vec![],
            parameters: Layout::default(),
            parameter_names: HashMap::new(),
            shared,
            dynamic,
            local: Layout::default(),
        }
    }

    /// The number of the architecture that the module is for.
    pub(crate) fn target(&self) -> u32 {
        self.module.target
    }

    /// Whether the target has the instructions that no later architecture has.
    pub(crate) fn has_specifics(&self) -> bool {
        self.module.specifics
    }

    /// Declares the next parameter.
    pub(crate) fn parameter(&mut self, name: &'t str, bytes: u32, align: u32) -> Result<(), String> {
        // Parameters follow each other without further gaps, as the caller lays the arguments out.
        let at = self.parameters.bytes.next_multiple_of(align);
        self.parameters.bytes = at + bytes;
        if self.parameters.bytes > MOST_PARAMETERS {
            return Err(format!("more than {MOST_PARAMETERS} bytes of parameters"));
        }
        match self.parameter_names.insert(name, (at, bytes)) {
            None => Ok(()),
            Some(_) => Err(format!("parameter `{name}` is declared twice")),
        }
    }

    /// The extent of a parameter.
    pub(crate) fn parameter_at(&self, name: &str) -> Option<(u32, u32)> {
        self.parameter_names.get(name).copied()
    }

    /// Reads from `{` to the `}` of the kernel.
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'t>) -> Result<(), ParseError> {
        self.scopes.push(Scope::default());
        while !self.scopes.is_empty() {
            let token = cursor.peek();
            match token.kind {
                Kind::OpenBrace => {
                    cursor.next();
                    self.scopes.push(Scope::default());
                }
                Kind::CloseBrace => {
                    cursor.next();
                    self.scopes.pop();
                }
                Kind::Dot => self.directive(cursor)?,
                Kind::Word if cursor.second().kind == Kind::Colon => {
                    cursor.next();
                    cursor.next();
                    if self.labels.insert(token.text, self.operations.len() as u32).is_some() {
                        return Err(ParseError { line: token.line, what: format!("label `{}` again", token.text) });
                    }
                }
                _ => self.instruction(cursor)?,
            }
        }
        Ok(())
    }

    fn directive(&mut self, cursor: &mut Cursor<'t>) -> Result<(), ParseError> {
        let line = cursor.line();
        match cursor.dot()? {
            "reg" => return self.registers(cursor),
            "loc" | "file" => {
                cursor.skip_line(line);
                return Ok(());
            }
            "pragma" => drop(cursor.expect(Kind::Text, "a string")?),
            space @ ("shared" | "local") => {
                let declared = declared(cursor)?;
                let Some(bytes) = declared.bytes else {
                    return Err(cursor.error(format!("`{}` has no size", declared.name)));
                };
                let (space, layout) = match space {
                    "shared" => (Space::Shared, &mut self.shared),
                    _ => (Space::Local, &mut self.local),
                };
                let place = place(layout, bytes, declared.align).map_err(|what| cursor.error(what))?;
                if self.local.bytes > MOST_LOCAL {
                    return Err(cursor.error(format!("more than {MOST_LOCAL} bytes of local memory")));
                }
                let scope = self.scope();
                if scope.variables.insert(declared.name, Variable { space, place }).is_some() {
                    return Err(cursor.error(format!("`{}` is declared twice", declared.name)));
                }
            }
            other => return Err(ParseError { line, what: format!("`.{other}` is not in the subset") }),
        }
        cursor.expect(Kind::Semicolon, "`;`")?;
        Ok(())
    }

    fn scope(&mut self) -> &mut Scope<'t> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Reads the rest of a `.reg` declaration.
    fn registers(&mut self, cursor: &mut Cursor<'t>) -> Result<(), ParseError> {
        let ty = cursor.ty()?;
        loop {
            let name = cursor.word()?;
            let again = if cursor.take(Kind::Less).is_some() {
                let count = cursor.count()?;
                cursor.expect(Kind::Greater, "`>`")?;
                self.scope().families.insert(name, (count, ty)).is_some()
            } else {
                let slot = self.slot(ty);
                self.scope().registers.insert(name, slot).is_some()
            };
            if again {
                return Err(cursor.error(format!("`{name}` is declared twice")));
            }
            if cursor.take(Kind::Comma).is_none() {
                break;
            }
        }
        cursor.expect(Kind::Semicolon, "`;`")?;
        Ok(())
    }

    fn slot(&mut self, ty: Type) -> Slot {
        if ty == Type::Pred {
            self.preds.push(PredKind::Register);
            Slot::Pred(Pred(self.preds.len() as u32 - 1))
        } else {
            self.rows.push(RowKind::Register);
            Slot::Row(Reg(self.rows.len() as u32 - 1), ty)
        }
    }

    /// The register of a name, in the innermost scope that has one.
    pub(crate) fn register(&mut self, name: &'t str) -> Option<Slot> {
        for scope in (0..self.scopes.len()).rev() {
            if let Some(slot) = self.scopes[scope].registers.get(name) {
                return Some(*slot);
            }
            let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if let Some(&(count, ty)) = self.scopes[scope].families.get(prefix) {
                let digits = &name[prefix.len()..];
                let plain = digits == "0" || !digits.starts_with('0');
                if plain && digits.parse::<u32>().is_ok_and(|n| n < count) {
                    let slot = self.slot(ty);
                    self.scopes[scope].registers.insert(name, slot);
                    return Some(slot);
                }
            }
        }
        None
    }

    /// The variable of a name.
    pub(crate) fn variable(&self, name: &str) -> Option<Variable> {
        let local = self.scopes.iter().rev().find_map(|scope| scope.variables.get(name).copied());
        local.or_else(|| self.module.variable(name))
    }

    /// The row of the address of a variable.
    pub(crate) fn address(&mut self, variable: Variable) -> Reg {
        match variable.place {
            Place::At(at) => self.row(RowKind::Constant(u64::from(at))),
            Place::Global(global) => self.row(RowKind::Global(global)),
            Place::Dynamic => self.row(RowKind::Dynamic),
        }
    }

    /// A row that does not change.
    pub(crate) fn row(&mut self, kind: RowKind) -> Reg {
        *self.constants.entry(kind).or_insert_with(|| {
            self.rows.push(kind);
            Reg(self.rows.len() as u32 - 1)
        })
    }

    /// A predicate that does not change.
    pub(crate) fn constant_pred(&mut self, value: bool) -> Pred {
        let kind = PredKind::Constant(value);
        let found = self.preds.iter().position(|k| *k == kind);
        Pred(found.unwrap_or_else(|| {
            self.preds.push(kind);
            self.preds.len() - 1
        }) as u32)
    }

    /// A branch to a label, which may be declared below.
    pub(crate) fn branch(&mut self, label: &'t str) -> Op {
        self.branches.push((self.operations.len(), label));
        Op::Branch { target: 0 }
    }

    fn instruction(&mut self, cursor: &mut Cursor<'t>) -> Result<(), ParseError> {
        let line = cursor.line();
        let at_line = |what| ParseError { line, what };
        let guard = match cursor.take(Kind::At) {
            None => None,
            Some(_) => {
                let negated = cursor.take(Kind::Bang).is_some();
                let name = cursor.word()?;
                match self.register(name) {
                    Some(Slot::Pred(pred)) => Some(Condition { pred, negated }),
                    _ => return Err(at_line(format!("`{name}` is no predicate"))),
                }
            }
        };
        let opcode = cursor.expect(Kind::Word, "an instruction")?.text;
        let mut modifiers = vec![];
        while cursor.peek().kind == Kind::Dot {
            modifiers.push(cursor.dot()?);
        }
        let mut operands = vec![];
        while cursor.take(Kind::Semicolon).is_none() {
            if !operands.is_empty() {
                cursor.expect(Kind::Comma, "`,` or `;`")?;
            }
            operands.push(Operand::read(cursor)?);
        }
        let op = decode(self, opcode, &modifiers, &operands).map_err(at_line)?;
        self.operations.push(Instruction { guard, op, line });
        Ok(())
    }

    /// The kernel, with its branches bound.
    pub(crate) fn finish(
        mut self,
        name: &str,
        line: u32,
        (most, required): (Option<[u32; 3]>, Option<[u32; 3]>),
        cluster: u32,
    ) -> Result<Kernel, ParseError> {
        // Running off the end is to return.
        let end = self.operations.last().map_or(line, |last| last.line);
        self.operations.push(Instruction { guard: None, op: Op::Exit, line: end });
        for (at, label) in self.branches {
            let branch = &mut self.operations[at];
            match self.labels.get(label) {
                Some(target) => branch.op = Op::Branch { target: *target },
                None => return Err(ParseError { line: branch.line, what: format!("no label `{label}`") }),
            }
        }
        // A barrier of a cluster consists of two instructions, executed here one after the other.
        let arrives =
            |i: Option<&Instruction>| i.is_some_and(|i| matches!(i.op, Op::ArriveInCluster) && i.guard.is_none());
        let awaits =
            |i: Option<&Instruction>| i.is_some_and(|i| matches!(i.op, Op::AwaitCluster { .. }) && i.guard.is_none());
        for (at, instruction) in self.operations.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| self.operations.get(at));
            let alone = match instruction.op {
                Op::ArriveInCluster => !awaits(self.operations.get(at + 1)) || instruction.guard.is_some(),
                Op::AwaitCluster { .. } => !arrives(before) || instruction.guard.is_some(),
                Op::Branch { target } => awaits(self.operations.get(target as usize)),
                _ => false,
            };
            if alone {
                let what = "a cluster's barrier is an arrival with its wait behind it".into();
                return Err(ParseError { line: instruction.line, what });
            }
        }
        Ok(Kernel {
            name: name.to_owned(),
            line,
            cluster,
            operations: self.operations,
            rows: self.rows,
            preds: self.preds,
            parameters: self.parameters.bytes,
            most,
            required,
            shared: self.shared,
            dynamic: self.dynamic,
            local: self.local,
        })
    }
}
