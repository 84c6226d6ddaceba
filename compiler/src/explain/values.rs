//! Relates the scalars of a fused kernel to values of the source. Fusion leaves scalars without
//! names; one that is computed from the inputs by the same operations as an operation of the source
//! gets its name.
//!
//! Every scalar of the unfused program gets a number for the formula that computes it from the
//! inputs, ignoring places in the source: equal numbers mean equal formulas.

use std::collections::BTreeMap;

use cranelift_entity::SecondaryMap;
use ir::nest::{Block, Kernel, Op, Program, Statement, ValueId};

/// The known formulas: numbers by formula, and names by number.
#[derive(Default)]
pub struct Formulas<'p> {
    numbers: BTreeMap<(String, Vec<usize>), usize>,
    /// The formula of the contents of each buffer of the unfused program.
    buffers: BTreeMap<&'p str, usize>,
    /// The operation with each formula.
    names: BTreeMap<usize, &'p str>,
}

impl<'p> Formulas<'p> {
    /// The formulas of an unfused program.
    pub fn new(unfused: &'p Program) -> Formulas<'p> {
        let mut formulas = Formulas::default();
        for kernel in unfused.kernels.values() {
            let mut walk = Walk { program: unfused, formulas: &mut formulas, of: SecondaryMap::new(), stored: vec![] };
            walk.block(&kernel.body);
            let stored = walk.stored;
            for (buffer, number) in stored {
                formulas.buffers.insert(buffer, number);
                formulas.names.entry(number).or_insert(&kernel.name);
            }
        }
        formulas
    }

    /// The name of each value of a kernel that is the value of an operation.
    pub fn names(&mut self, program: &Program, kernel: &Kernel) -> SecondaryMap<ValueId, Option<&'p str>> {
        let mut walk = Walk { program, formulas: self, of: SecondaryMap::new(), stored: vec![] };
        walk.block(&kernel.body);
        let of = walk.of;
        let mut names = SecondaryMap::new();
        for value in kernel.values.keys() {
            names[value] = of[value].and_then(|number| self.names.get(&number).copied());
        }
        names
    }

    fn number(&mut self, key: (String, Vec<usize>)) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(key).or_insert(next)
    }
}

struct Walk<'f, 'p, 'q> {
    program: &'q Program,
    formulas: &'f mut Formulas<'p>,
    of: SecondaryMap<ValueId, Option<usize>>,
    stored: Vec<(&'q str, usize)>,
}

impl Walk<'_, '_, '_> {
    fn block(&mut self, block: &Block) {
        for statement in block {
            match statement {
                Statement::Let { value, op } => self.of[*value] = self.op(op),
                Statement::Store { buffer, value, .. } => {
                    if let (Some(buffer), Some(number)) = (self.program.buffers.get(*buffer), self.of[*value]) {
                        self.stored.push((&buffer.name, number));
                    }
                }
                Statement::Scatter { buffer, value, monoid, .. } => {
                    let number = self.formula(format!("{} by key", monoid.name()), &[*value]);
                    if let (Some(buffer), Some(number)) = (self.program.buffers.get(*buffer), number) {
                        self.stored.push((&buffer.name, number));
                    }
                }
                Statement::If { condition, then, otherwise, results } => {
                    self.block(then);
                    self.block(otherwise);
                    for (value, a, b) in results {
                        self.of[*value] = self.formula("if".to_owned(), &[*condition, *a, *b]);
                    }
                }
                Statement::Loop(l) => {
                    self.block(&l.body);
                    for r in l.kind.reductions() {
                        let (merge, order) = (self.program.merge_name(r.merge), r.order.name());
                        let inputs: Vec<ValueId> = r.values().collect();
                        for (k, result) in r.results.iter().enumerate() {
                            self.of[*result] = self.formula(format!("{merge} {order} {k}"), &inputs);
                        }
                    }
                }
                // The numbers of states would need those of later steps.
                Statement::While(_) => statement.blocks().for_each(|block| self.block(block)),
                Statement::Contract(c) => {
                    self.block(&c.left.body);
                    self.block(&c.right.body);
                    self.of[c.result] = self.formula("contract".to_owned(), &[c.left.value, c.right.value]);
                    self.block(&c.epilogue);
                }
            }
        }
    }

    fn op(&mut self, op: &Op) -> Option<usize> {
        let (text, operands): (String, &[ValueId]) = match op {
            Op::Check { value, .. } => return self.of[*value],
            Op::Load { buffer, at, .. } => {
                let name = self.program.buffers.get(*buffer)?.name.as_str();
                if let Some(number) = self.formulas.buffers.get(name) {
                    return Some(*number);
                }
                (format!("load {name} {}", at.len()), &[])
            }
            Op::Constant(value) => (format!("{} {}", value.dtype(), value.bits()), &[]),
            Op::Affine(_) => ("affine".to_owned(), &[]),
            Op::Unary(op, a) => (op.to_string(), &[*a]),
            Op::Binary(op, a, b) => (op.to_string(), &[*a, *b]),
            Op::Compare(op, a, b) => (op.to_string(), &[*a, *b]),
            Op::Fma(a, b, c) => ("fma".to_owned(), &[*a, *b, *c]),
            Op::Select(a, b, c) => ("select".to_owned(), &[*a, *b, *c]),
            Op::Cast(to, a) => (format!("cast {to}"), &[*a]),
            Op::Bitcast(to, a) => (format!("bitcast {to}"), &[*a]),
            Op::Call(function, arguments) => (self.program.functions.get(*function)?.name.clone(), arguments),
            Op::Place(by) => ("place".to_owned(), &[*by]),
            Op::Prefix(p) => {
                let text = format!("prefix {} {}", self.program.merge_name(p.merge), p.field);
                let inputs: Vec<ValueId> = p.inputs.iter().filter_map(|input| input.value()).collect();
                return self.formula(text, &inputs);
            }
        };
        self.formula(text, operands)
    }

    fn formula(&mut self, text: String, operands: &[ValueId]) -> Option<usize> {
        let operands = operands.iter().map(|v| self.of[*v]).collect::<Option<Vec<_>>>()?;
        Some(self.formulas.number((text, operands)))
    }
}
