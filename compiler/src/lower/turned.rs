//! Equal kernels with their axes in another order: `e[i, j]` and `e[j, i]` of one operation are one
//! temporary, which one of its readers reads the other way around. Derivatives have many of these,
//! because the same change goes to rows here and to columns there.
//!
//! Elementwise work is better done again where it is used than stored and read the other way
//! around, unless it is stored anyway: a matrix product takes its factors from memory.

use cranelift_entity::SecondaryMap;
use ir::checked::{Checked, ExprId, Kind};
use ir::nest::{Block, BufferId, Extent, IndexId, LoopKind, Statement};
use ir::rewrite::for_each_affine_mut;
use ir::{Affine, Size};

/// The most axes that are tried in other orders.
const MAX_AXES: usize = 4;

/// Whether each expression is elementwise work that ends in a factor of a contraction, or no
/// elementwise work.
pub(super) fn worth_sharing(checked: &Checked) -> SecondaryMap<ExprId, bool> {
    let mut worth: SecondaryMap<ExprId, bool> = SecondaryMap::new();
    for (id, expr) in checked.exprs.iter().rev() {
        match &expr.kind {
            Kind::Contract { left, right, .. } => {
                [id, *left, *right].into_iter().for_each(|id| worth[id] = true);
            }
            Kind::Reduce { .. } | Kind::Sort { .. } => worth[id] = true,
            Kind::Access { array, .. } if worth[id] => worth[*array] = true,
            Kind::Unary(..)
            | Kind::Binary(..)
            | Kind::Compare(..)
            | Kind::Fma(..)
            | Kind::Cast(_)
            | Kind::Bitcast(_)
            | Kind::Math(..)
            | Kind::If { .. }
            | Kind::Comprehension { .. }
            | Kind::Reshape(_) => {
                if worth[id] {
                    checked.for_each_operand(&expr.kind, |operand| worth[operand] = true);
                }
            }
            Kind::Constant(_)
            | Kind::Size(_)
            | Kind::Index(_)
            | Kind::Param(_)
            | Kind::Access { .. }
            | Kind::ArrayLiteral(_)
            | Kind::State { .. }
            | Kind::Loop { .. }
            | Kind::Recurrence { .. }
            | Kind::Earlier { .. } => {}
        }
    }
    worth
}

/// If a kernel that stores `buffer`, of a shape, does what another one does that stores the same in
/// another shape: for each axis of the other one, the axis here.
pub(super) fn turned(
    (body, shape): (&Block, &[Size]),
    (other, there): (&Block, &[Size]),
    buffer: BufferId,
) -> Option<Vec<usize>> {
    let (dims, theirs) = (dims(body)?, dims(other)?);
    if shape.len() > MAX_AXES || shape.len() != there.len() || dims.len() != shape.len() || theirs.len() != there.len()
    {
        return None;
    }
    let mut orders = vec![vec![]];
    for length in there {
        let next = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            let fits = |axis: &usize| !order.contains(axis) && shape[*axis] == *length;
            (0..shape.len()).filter(fits).map(|axis| order.iter().copied().chain([axis]).collect()).collect()
        };
        orders = orders.iter().flat_map(next).collect();
    }
    orders.into_iter().find(|order| {
        let names: Vec<(IndexId, IndexId)> =
            order.iter().zip(theirs).map(|(axis, (index, _))| (dims[*axis].0, *index)).collect();
        let mut body = body.clone();
        turn(&mut body, order, &names, buffer);
        body == *other
    })
}

/// The indices of a kernel's only outermost loop, if its iterations are independent.
fn dims(body: &Block) -> Option<&[(IndexId, Extent)]> {
    let mut loops = body.iter().filter_map(|statement| match statement {
        Statement::Loop(l) if l.kind == LoopKind::Parallel => Some(l.dims.as_slice()),
        Statement::Contract(c) => Some(c.free.as_slice()),
        Statement::Let { .. }
        | Statement::Store { .. }
        | Statement::Scatter { .. }
        | Statement::If { .. }
        | Statement::Loop(_)
        | Statement::While(_) => None,
    });
    loops.next().filter(|_| loops.next().is_none())
}

/// Renames indices, and puts those of the outermost loop and the subscripts of stores into another
/// order.
fn turn(body: &mut Block, order: &[usize], names: &[(IndexId, IndexId)], buffer: BufferId) {
    let renamed = |index: IndexId| names.iter().find(|(from, _)| *from == index).map_or(index, |(_, to)| *to);
    for statement in body.iter_mut() {
        for_each_affine_mut(statement, &mut |affine| {
            *affine = affine.substitute(&mut |index| Affine::index(renamed(index)));
        });
        let dims = match statement {
            Statement::Loop(l) => &mut l.dims,
            Statement::Contract(c) => &mut c.free,
            Statement::Let { .. }
            | Statement::Store { .. }
            | Statement::Scatter { .. }
            | Statement::If { .. }
            | Statement::While(_) => continue,
        };
        if dims.len() == order.len() {
            *dims = order.iter().map(|axis| (renamed(dims[*axis].0), dims[*axis].1.clone())).collect();
        }
    }
    turn_stores(body, order, buffer);
}

fn turn_stores(body: &mut Block, order: &[usize], buffer: BufferId) {
    for statement in body {
        if let Statement::Store { buffer: to, at, .. } = statement
            && *to == buffer
            && at.len() == order.len()
        {
            *at = order.iter().map(|axis| at[*axis].clone()).collect();
        }
        statement.blocks_mut().for_each(|inner| turn_stores(inner, order, buffer));
    }
}
