//! Decodes instructions to operations. One table lists the opcodes; each entry reads the modifiers
//! and operands of its opcode, in order. Anything that an entry leaves unread is an error.

mod arithmetic;
mod arrivals;
mod data;
mod logic;
mod memory;
mod threads;
mod tiles;

use crate::lanes::Map;
use crate::lanes::rounding::Direction;
use crate::op::{Address, Op, RowKind};
use crate::parse::{Body, Operand, Slot};
use crate::types::{Class, Condition, Pred, Reg, Space, Type};

/// Reads an instruction after its opcode.
type Decoder = fn(&mut Form<'_, '_, '_>) -> Result<Op, String>;

/// Every instruction of the subset.
#[rustfmt::skip]
const TABLE: &[(&str, Decoder)] = &[
    ("abs", arithmetic::abs), ("add", arithmetic::add), ("addc", arithmetic::addc), ("copysign", arithmetic::copysign),
    ("cos", arithmetic::cos), ("div", arithmetic::div), ("ex2", arithmetic::ex2), ("fma", arithmetic::fma),
    ("lg2", arithmetic::lg2), ("mad", arithmetic::mad), ("max", arithmetic::max), ("min", arithmetic::min),
    ("mul", arithmetic::mul), ("neg", arithmetic::neg), ("rcp", arithmetic::rcp), ("rem", arithmetic::rem),
    ("rsqrt", arithmetic::rsqrt), ("sad", arithmetic::sad), ("sin", arithmetic::sin), ("sqrt", arithmetic::sqrt),
    ("sub", arithmetic::sub), ("subc", arithmetic::subc), ("tanh", arithmetic::tanh),
    ("and", logic::and), ("bfe", logic::bfe), ("bfi", logic::bfi), ("bfind", logic::bfind), ("brev", logic::brev),
    ("clz", logic::clz), ("cnot", logic::cnot), ("lop3", logic::lop3), ("not", logic::not), ("or", logic::or),
    ("popc", logic::popc), ("prmt", logic::prmt), ("selp", logic::selp), ("set", logic::set), ("setp", logic::setp),
    ("shf", logic::shf), ("shl", logic::shl), ("shr", logic::shr), ("xor", logic::xor),
    ("cvt", data::cvt), ("cvta", data::cvta), ("mov", data::mov),
    ("atom", memory::atom), ("cp", memory::cp), ("fence", memory::fence), ("ld", memory::ld), ("membar", memory::membar),
    ("mbarrier", arrivals::mbarrier), ("ldmatrix", memory::ldmatrix), ("mapa", memory::mapa), ("red", memory::red), ("st", memory::st),
    ("activemask", threads::activemask), ("bar", threads::bar), ("barrier", threads::barrier), ("bra", threads::bra),
    ("exit", threads::exit), ("mma", threads::mma), ("nanosleep", threads::nanosleep), ("redux", threads::redux),
    ("match", threads::match_any), ("ret", threads::exit), ("setmaxnreg", threads::setmaxnreg), ("shfl", threads::shfl), ("trap", threads::trap), ("vote", threads::vote),
    ("wgmma", tiles::wgmma),
];

/// The operation of an instruction, or the reason why it is not supported.
pub(crate) fn decode<'t>(
    body: &mut Body<'_, 't>,
    opcode: &str,
    modifiers: &[&'t str],
    operands: &[Operand<'t>],
) -> Result<Op, String> {
    let Some((_, decoder)) = TABLE.iter().find(|(name, _)| *name == opcode) else {
        return Err(format!("`{opcode}` is not in the subset"));
    };
    let mut form = Form { body, modifiers, operands };
    let op = decoder(&mut form).map_err(|what| format!("{opcode}: {what}"))?;
    match (form.modifiers, form.operands) {
        ([], []) => Ok(op),
        ([modifier, ..], _) => Err(format!("{opcode}: `.{modifier}` is not in the subset there")),
        (_, [operand, ..]) => Err(format!("{opcode}: `{operand:?}` is one operand too many")),
    }
}

/// An instruction that has been read in part.
pub(crate) struct Form<'b, 'm, 't> {
    body: &'b mut Body<'m, 't>,
    modifiers: &'b [&'t str],
    operands: &'b [Operand<'t>],
}

/// Functions are chosen by type; `None` means that the instruction does not exist for the type.
pub(crate) fn known<T>(found: Option<T>, ty: Type) -> Result<T, String> {
    found.ok_or_else(|| format!("not for `.{}`", ty.name()))
}

impl<'b, 't> Form<'b, '_, 't> {
    /// Whether the next modifier is this one, which is then consumed.
    fn flag(&mut self, name: &str) -> bool {
        self.pick(&[(name, ())]).is_some()
    }

    /// The value of the next modifier, if it is in the table.
    fn pick<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let (first, rest) = self.modifiers.split_first()?;
        let (_, found) = table.iter().find(|(name, _)| name == first)?;
        self.modifiers = rest;
        Some(*found)
    }

    /// Like `pick`, but one of them must be there.
    fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Result<T, String> {
        self.pick(table).ok_or_else(|| {
            let names: Vec<String> = table.iter().map(|(name, _)| format!("`.{name}`")).collect();
            format!("one of {} expected", names.join(", "))
        })
    }

    fn modifier(&mut self) -> Result<&'t str, String> {
        let (first, rest) = self.modifiers.split_first().ok_or("a modifier is missing")?;
        self.modifiers = rest;
        Ok(first)
    }

    fn ty(&mut self) -> Result<Type, String> {
        let name = self.modifier()?;
        Type::named(name).ok_or_else(|| format!("`.{name}` is no type"))
    }

    /// `.rn`, `.rz`, `.rm` or `.rp`.
    fn direction(&mut self) -> Option<Direction> {
        self.pick(&[
            ("rn", Direction::Nearest),
            ("rz", Direction::Zero),
            ("rm", Direction::Down),
            ("rp", Direction::Up),
        ])
    }

    fn operand(&mut self) -> Result<&'b Operand<'t>, String> {
        let (first, rest) = self.operands.split_first().ok_or("an operand is missing")?;
        self.operands = rest;
        Ok(first)
    }

    fn peek(&self) -> Option<&'b Operand<'t>> {
        self.operands.first()
    }

    /// A register that takes results of a type.
    fn dest(&mut self, ty: Type) -> Result<Reg, String> {
        let operand = self.operand()?;
        let (reg, register) = self.named(operand)?;
        if ty.takes(register) { Ok(reg) } else { Err(unfit(operand, register, ty)) }
    }

    /// A register or a constant of a type.
    fn source(&mut self, ty: Type) -> Result<Reg, String> {
        let operand = self.operand()?;
        self.source_of(operand, ty)
    }

    fn source_of(&mut self, operand: &Operand<'t>, ty: Type) -> Result<Reg, String> {
        if let Operand::Name(_) = operand {
            let (reg, register) = self.named(operand)?;
            return if ty.takes(register) { Ok(reg) } else { Err(unfit(operand, register, ty)) };
        }
        let bits = crate::parse::immediate(operand, ty)?;
        Ok(self.body.row(RowKind::Constant(bits)))
    }

    /// A register that may be wider than the type if both are integers or bits, with its type.
    fn wide(&mut self, operand: &Operand<'t>, ty: Type) -> Result<(Reg, Type), String> {
        let (reg, register) = self.named(operand)?;
        let wider = register.bytes() > ty.bytes() && register.class() != Class::Float && ty.class() != Class::Float;
        if wider || ty.takes(register) { Ok((reg, register)) } else { Err(unfit(operand, register, ty)) }
    }

    /// The register that an operand names.
    fn named(&mut self, operand: &Operand<'t>) -> Result<(Reg, Type), String> {
        let Operand::Name(name) = operand else {
            return Err(format!("a register expected, not `{operand:?}`"));
        };
        match self.body.register(name) {
            Some(Slot::Row(reg, ty)) => Ok((reg, ty)),
            Some(Slot::Pred(_)) => Err(format!("`{name}` is a predicate")),
            None => Err(format!("no register `{name}`")),
        }
    }

    /// `count` registers or constants of a type, in braces.
    fn vector(&mut self, count: usize, ty: Type) -> Result<Vec<Reg>, String> {
        let Operand::Vector(parts) = self.operand()? else { return Err("a vector expected".into()) };
        if parts.len() != count {
            return Err(format!("a vector of {count} elements expected"));
        }
        parts.iter().map(|part| self.source_of(part, ty)).collect()
    }

    fn pred(&mut self, name: &'t str) -> Result<Pred, String> {
        match self.body.register(name) {
            Some(Slot::Pred(pred)) => Ok(pred),
            _ => Err(format!("no predicate `{name}`")),
        }
    }

    fn pred_dest(&mut self) -> Result<Pred, String> {
        match *self.operand()? {
            Operand::Name(name) => self.pred(name),
            ref other => Err(format!("a predicate expected, not `{other:?}`")),
        }
    }

    /// `%p`, `!%p`, or a constant.
    fn condition(&mut self) -> Result<Condition, String> {
        let (name, negated) = match *self.operand()? {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Integer(value) => {
                return Ok(Condition { pred: self.body.constant_pred(value != 0), negated: false });
            }
            ref other => return Err(format!("a predicate expected, not `{other:?}`")),
        };
        Ok(Condition { pred: self.pred(name)?, negated })
    }

    /// A row of a constant.
    fn constant(&mut self, bits: u64) -> Reg {
        self.body.row(RowKind::Constant(bits))
    }

    /// An operation that maps sources of the given types.
    fn map(&mut self, map: Map, to: Type, from: &[Type]) -> Result<Op, String> {
        let d = self.dest(to)?;
        let mut rows = [self.constant(0); 4];
        for (row, ty) in rows.iter_mut().zip(from) {
            *row = self.source(*ty)?;
        }
        Ok(Op::Map { map, d, from: rows })
    }

    /// # Errors
    /// An error if the module is for an architecture older than this one, which lacks the type.
    fn since(&self, target: u32, ty: Type) -> Result<(), String> {
        if self.body.target() >= target { Ok(()) } else { Err(format!("`.{}` needs `sm_{target}` there", ty.name())) }
    }

    /// An address within a space; generic without one.
    fn address(&mut self, space: Option<Space>) -> Result<Address, String> {
        let &Operand::Address(name, offset) = self.operand()? else {
            return Err("an address expected".into());
        };
        if let Some(variable) = self.body.variable(name) {
            return if space == Some(variable.space) {
                Ok(Address { base: self.body.address(variable), offset, mask: u64::MAX })
            } else {
                Err(format!("`{name}` lies in another space"))
            };
        }
        let (base, ty) = self.named(&Operand::Name(name))?;
        let short = ty.bytes() == 4 && space.is_some_and(|space| space != Space::Global);
        if ty.class() == Class::Float || ty.bytes() != 8 && !short {
            return Err(format!("`{name}` of type `.{}` is no address", ty.name()));
        }
        Ok(Address { base, offset, mask: ty.mask() })
    }
}

fn unfit(operand: &Operand<'_>, register: Type, ty: Type) -> String {
    format!("`{operand:?}` of type `.{}` where `.{}` is due", register.name(), ty.name())
}
