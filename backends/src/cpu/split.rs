//! A kernel of several statements becomes parts, kernels of one function each: a parallel loop or contraction at the top
//! is a part of its own, whose range is split over threads; what stands between runs on one thread.
//!
//! A part computes again what scalars it needs. Where it cannot (results of reductions, say), the part that
//! defines them leaves them in a temporary of rank 0.

use ir::nest::{Block, Buffer, BufferId, Kernel, LoopKind, Op, Program, Role, Statement, ValueId};
use ir::visit;

use super::scan::may_fault;

/// The kernels of `kernel` in the order they run; temporaries that they need are added to the program.
pub(super) fn split(program: &mut Program, kernel: Kernel) -> Vec<Kernel> {
    let body = &kernel.body;
    let mut parts: Vec<Vec<usize>> = vec![];
    let mut scalars = vec![];
    let mut open = false;
    for (at, statement) in body.iter().enumerate() {
        if is_scalar(statement) {
            scalars.push(at);
            continue;
        }
        let alone = is_ranged(statement);
        if alone || !open {
            parts.push(vec![]);
        }
        if let Some(part) = parts.last_mut() {
            part.append(&mut scalars);
            part.push(at);
        }
        open = !alone;
    }
    // Scalars at the end matter only for the checks among them.
    if scalars.iter().any(|at| may_fault(&body[*at])) {
        parts.push(scalars);
    }
    if parts.len() < 2 {
        let end = parts.first().and_then(|part| part.last()).map_or(0, |at| at + 1);
        return vec![Kernel { body: body[..end].to_vec(), ..kernel }];
    }
    let mut spills = Spills { program, kernel: &kernel, buffers: vec![] };
    // Last ones first: what they ask for is then known when its part is made.
    let mut blocks: Vec<Block> = parts.iter().rev().map(|part| spills.block(part)).collect();
    blocks.reverse();
    let part = |(number, body)| Kernel { name: format!("{}.{number}", kernel.name), body, ..kernel.clone() };
    blocks.into_iter().enumerate().map(part).collect()
}

/// The statements before the last one of a part, which define scalars, and the last one, if that is run in ranges.
pub(super) fn root(body: &Block) -> Option<(&[Statement], &Statement)> {
    let (last, before) = body.split_last()?;
    (is_ranged(last) && before.iter().all(is_scalar)).then_some((before, last))
}

/// Whether each part may compute the statement for itself.
fn is_scalar(statement: &Statement) -> bool {
    match statement {
        Statement::Let { .. } => true,
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).all(is_scalar),
        Statement::Store { .. } | Statement::Loop(_) | Statement::Contract(_) => false,
    }
}

/// Whether a statement at the top is run in ranges.
fn is_ranged(statement: &Statement) -> bool {
    match statement {
        Statement::Loop(l) => matches!(l.kind, LoopKind::Parallel) && !l.dims.is_empty(),
        Statement::Contract(_) => true,
        _ => false,
    }
}

/// Values that go from one part to a later one through memory.
struct Spills<'a> {
    program: &'a mut Program,
    kernel: &'a Kernel,
    buffers: Vec<(ValueId, BufferId)>,
}

impl Spills<'_> {
    /// The part of the given statements, with what it needs of those before it.
    fn block(&mut self, part: &[usize]) -> Block {
        let body = &self.kernel.body;
        let mut block = vec![];
        for at in part {
            block.push(body[*at].clone());
            visit::for_each_definition(&body[*at], &mut |v| block.extend(self.store(v)));
        }
        let mut needed = visit::free_values(&block);
        let mut before = vec![];
        for statement in body[..part[0]].iter().rev() {
            let mut defined = vec![];
            visit::for_each_definition(statement, &mut |v| defined.extend(needed.contains(&v).then_some(v)));
            if defined.is_empty() {
                continue;
            }
            if is_scalar(statement) {
                let again = vec![statement.clone()];
                needed.extend(visit::free_values(&again));
                before.extend(again);
            } else {
                before.extend(defined.into_iter().map(|v| self.load(v)));
            }
        }
        before.reverse();
        before.append(&mut block);
        before
    }

    /// Keeps a value that a later part has asked for.
    fn store(&self, value: ValueId) -> Option<Statement> {
        let (_, buffer) = self.buffers.iter().find(|(v, _)| *v == value)?;
        Some(Statement::Store { buffer: *buffer, at: vec![], value })
    }

    fn load(&mut self, value: ValueId) -> Statement {
        let found = self.buffers.iter().find(|(v, _)| *v == value).map(|(_, buffer)| *buffer);
        let buffer = found.unwrap_or_else(|| {
            let name = format!("{}.{value}", self.kernel.name);
            let dtype = self.kernel.values[value];
            let buffer = self.program.buffers.push(Buffer { name, dtype, shape: vec![], role: Role::Temp });
            self.buffers.push((value, buffer));
            buffer
        });
        Statement::Let { value, op: Op::Load { buffer, view: None, at: vec![] } }
    }
}
