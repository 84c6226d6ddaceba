//! Loops that the schedule has laid out.

use std::collections::{BTreeMap, BTreeSet};

use ir::Size;
use ir::linear::mergeable;
use ir::nest::{Extent, IndexId, Loop, Op, Statement, ValueId};
use ir::order::Scope;
use ir::sched::{Axis, Inner, Shared, Tail, Variant};

use super::helpers::Helper;
use super::kernel::{Result, Writer};
use super::module::Unsupported;
use super::scalar::{self, Level, Text};

/// The indices of an axis after merging, the slowest first, with their extents, and the number of
/// iterations.
pub(super) struct Range {
    indices: Vec<(IndexId, String)>,
    /// The indices that the body mentions.
    mentioned: BTreeSet<IndexId>,
    pub(super) total: String,
}

impl Writer<'_> {
    /// The iterations of this thread, after statements that each thread computes for itself.
    pub(super) fn laid_out(&mut self, before: &[Statement], l: &Loop, layout: &Variant) -> Result {
        self.inside(|w| {
            if let Inner::Together(threads) = layout.inner {
                w.together = Some(threads);
            }
            w.opening(before)?;
            match &layout.inner {
                Inner::Alone => w.in_units(l, layout),
                Inner::Together(_) => w.in_blocks(l),
                Inner::Row(_) => Err(Unsupported("rows in registers")),
            }
        })
    }

    /// Statements that the threads of one block run together.
    pub(super) fn in_one_block(&mut self, body: &[Statement], threads: i64) -> Result {
        self.inside(|w| {
            w.together = Some(threads);
            w.opening(body)
        })
    }

    /// An iteration for each block.
    fn in_blocks(&mut self, l: &Loop) -> Result {
        let range = self.range(l, &l.dims);
        let number = self.number(&range);
        self.comment("An iteration for each block.");
        let head = format!("for (long long {number} = blockIdx.x; {number} < {}; {number} += gridDim.x)", range.total);
        self.nested(&head, |w| {
            w.unravel(&range, &number);
            w.block(&l.body)?;
            w.line("__syncthreads();");
            Ok(())
        })
    }

    /// A parallel loop that the threads of a block share.
    pub(super) fn spread(&mut self, l: &Loop, threads: i64) -> Result {
        let range = self.range(l, &l.dims);
        let number = self.number(&range);
        let head = format!("for (long long {number} = threadIdx.x; {number} < {}; {number} += {threads})", range.total);
        self.nested(&head, |w| {
            w.unravel(&range, &number);
            w.by_each(|w| w.block(&l.body))
        })?;
        self.settle(&l.body);
        Ok(())
    }

    fn in_units(&mut self, l: &Loop, layout: &Variant) -> Result {
        if !layout.stages.is_empty() {
            return self.in_tiles(l, layout);
        }
        let [axis] = layout.axes.as_slice() else { return self.in_columns(l, layout) };
        match axis.count(|scope| scope == Scope::Vector) {
            1 => self.in_threads(l, axis),
            width => self.in_vectors(l, layout, axis, width),
        }
    }

    /// The range of an axis. Adjacent indices become one where accesses allow it: the outer one
    /// then stays 0.
    pub(super) fn range(&mut self, l: &Loop, dims: &[(IndexId, Extent)]) -> Range {
        let mut indices: Vec<(IndexId, Text)> = vec![];
        for (place, (index, extent)) in dims.iter().enumerate() {
            let text = self.extent(extent);
            match indices.last_mut() {
                Some((outer, count)) if mergeable(self.program, dims[place - 1].0, *index, extent, &[&l.body]) => {
                    let merged = std::mem::replace(outer, *index);
                    *count = Text::infix(Level::Product, count, "*", &text);
                    self.bind(merged, None);
                }
                _ => indices.push((*index, text)),
            }
        }
        let total = indices.iter().map(|(_, n)| n.clone());
        let total = total.reduce(|a, b| Text::infix(Level::Product, &a, "*", &b));
        let mentioned = |index: &IndexId| l.body.iter().any(|s| mentions(s, *index));
        Range {
            mentioned: indices.iter().map(|(index, _)| *index).filter(mentioned).collect(),
            indices: indices.into_iter().map(|(index, n)| (index, n.at(Level::Sign))).collect(),
            total: total.map_or_else(|| "1".to_owned(), |total| total.text),
        }
    }

    /// The name for the number of an iteration: that of its index, if there is only one.
    pub(super) fn number(&mut self, range: &Range) -> String {
        match range.indices.as_slice() {
            [(index, _)] => self.index_name(*index),
            _ => "number".to_owned(),
        }
    }

    /// Binds the indices of an iteration by its number.
    pub(super) fn unravel(&mut self, range: &Range, number: &str) {
        if let [(index, _)] = range.indices.as_slice() {
            return self.bind(*index, Some(number.to_owned()));
        }
        let mut rest = number.to_owned();
        let mut lines = vec![];
        for (place, (index, extent)) in range.indices.iter().enumerate().rev() {
            let name = self.index_name(*index);
            let mentioned = range.mentioned.contains(index);
            if place == 0 {
                lines.extend(mentioned.then(|| format!("const long long {name} = {rest};")));
            } else {
                let outer = if place == 1 { String::new() } else { self.names.fresh("rest") };
                lines.extend(mentioned.then(|| format!("const long long {name} = {rest} % {extent};")));
                if place > 1 {
                    lines.push(format!("const long long {outer} = {rest} / {extent};"));
                    rest = outer;
                } else {
                    rest = format!("{rest} / {extent}");
                }
            }
            self.bind(*index, Some(name));
        }
        lines.iter().for_each(|line| self.line(line));
    }

    /// An iteration for each thread, which takes further ones if the grid has fewer threads.
    fn in_threads(&mut self, l: &Loop, axis: &Axis) -> Result {
        let range = self.range(l, &l.dims);
        let threads = axis.of_block();
        self.comment("An iteration for each thread.");
        let first = format!("blockIdx.x * {threads}LL + threadIdx.x");
        let number = self.number(&range);
        let head = format!(
            "for (long long {number} = {first}; {number} < {}; {number} += gridDim.x * {threads}LL)",
            range.total
        );
        self.nested(&head, |w| {
            w.unravel(&range, &number);
            w.block(&l.body)
        })
    }

    /// Several adjacent iterations for each thread. Accesses along memory are wide.
    fn in_vectors(&mut self, l: &Loop, layout: &Variant, axis: &Axis, width: i64) -> Result {
        let range = self.range(l, &l.dims);
        let (block, threads) = (axis.of_block(), layout.threads());
        let times = axis.count(|scope| scope == Scope::Register);
        let own = if layout.descending { "(gridDim.x - 1 - blockIdx.x)" } else { "blockIdx.x" };
        self.line(&format!("const long long first = {own} * {block}LL, end = first + {block};"));
        let mut whole = format!("end <= {}", range.total);
        if let Tail::Single(unless) = &layout.tail
            && !unless.is_empty()
        {
            let multiple =
                |w: &mut Self, (size, of): &(Size, i64)| format!("{} % {of} == 0", w.size(size).at(Level::Sign));
            let aligned: Vec<String> = unless.iter().map(|multiple_of| multiple(self, multiple_of)).collect();
            whole = format!("{} && {whole}", aligned.join(" && "));
        }
        let number = self.number(&range);
        self.nested(&format!("if ({whole})"), |w| {
            w.comment(&format!("{width} neighbours for each thread, with one access."));
            let own = format!("threadIdx.x * {width}");
            if times == 1 {
                w.line(&format!("const long long {number} = first + {own};"));
                return w.vector(l, &range, &number, width);
            }
            let step = threads * width;
            let head = format!("for (long long {number} = first + {own}; {number} < end; {number} += {step})");
            w.nested(&head, |w| w.vector(l, &range, &number, width))
        })?;
        let limit = format!("(end < {0} ? end : {0})", range.total);
        self.nested("else", |w| {
            w.comment("The end of the range, or rows that are not aligned: one by one.");
            let head =
                format!("for (long long {number} = first + threadIdx.x; {number} < {limit}; {number} += {threads})");
            w.nested(&head, |w| {
                w.unravel(&range, &number);
                w.block(&l.body)
            })
        })
    }

    /// Adjacent iterations from a number on.
    fn vector(&mut self, l: &Loop, range: &Range, number: &str, width: i64) -> Result {
        self.unravel(range, number);
        let Some((index, _)) = range.indices.last() else { return Ok(()) };
        let shared = Shared::of(self.program, &self.part.kernel);
        let mut vectors: BTreeMap<ValueId, String> = BTreeMap::new();
        let mut stores: Vec<(usize, String, String)> = vec![];
        self.helpers.insert(Helper::Vector);
        for (place, statement) in l.body.iter().enumerate() {
            let effects = statement.effects();
            let (Some(access), loads) = (effects.load.or(effects.store), effects.load.is_some()) else { continue };
            let Some(linear) = shared.along(self.program, *index, access) else { continue };
            let buffer = &self.program.buffers[access.buffer];
            let (ty, name) = (scalar::name(buffer.dtype), self.names.fresh(&format!("{}_vector", buffer.name)));
            let element = self.element_at(access.buffer, &linear).text;
            // An access has at most 16 bytes, and four elements.
            let vector = format!("Vector<{ty}, {width}>");
            match statement {
                Statement::Let { value, .. } if self.is_unused(*value) => {}
                Statement::Let { value, .. } if loads => {
                    self.line(&format!("const {vector} {name} = *(const {vector}*)&{element};"));
                    vectors.insert(*value, name);
                }
                _ => {
                    self.line(&format!("{vector} {name};"));
                    stores.push((place, name, format!("*({vector}*)&{element}")));
                }
            }
        }
        let first = self.affine(&ir::Affine::index(*index)).text;
        self.line("#pragma unroll");
        self.nested(&format!("for (int lane = 0; lane < {width}; lane++)"), |w| {
            let mentioned = l.body.iter().enumerate().any(|(place, s)| {
                let along = stores.iter().any(|(other, ..)| *other == place);
                let vector = |value| vectors.contains_key(value) || w.is_unused(*value);
                let passed = matches!(s, Statement::Let { value, .. } if vector(value));
                !along && !passed && mentions(s, *index)
            });
            if mentioned {
                let name = w.index_name(*index);
                w.line(&format!("const long long {name} = {first} + lane;"));
                w.bind(*index, Some(name));
            }
            for (place, statement) in l.body.iter().enumerate() {
                match statement {
                    Statement::Let { value, op: Op::Load { .. } } if let Some(name) = vectors.get(value) => {
                        w.define(*value, Text::atom(format!("{name}.at[lane]")));
                    }
                    Statement::Store { value, .. }
                        if let Some((_, name, _)) = stores.iter().find(|(other, ..)| *other == place) =>
                    {
                        let value = w.value(*value);
                        w.line(&format!("{name}.at[lane] = {};", value.text));
                    }
                    _ => w.statement(statement, &l.body[place + 1..])?,
                }
            }
            Ok(())
        })?;
        for (_, name, to) in stores {
            self.line(&format!("{to} = {name};"));
        }
        Ok(())
    }

    /// A few rows of a column for each thread.
    fn in_columns(&mut self, l: &Loop, layout: &Variant) -> Result {
        let ([(row, rows), (column, columns)], [down, along]) = (l.dims.as_slice(), layout.axes.as_slice()) else {
            return Err(Unsupported("this layout"));
        };
        let (each, wide) = (down.of_block(), along.of_block());
        let (rows, columns) = (self.extent(rows).at(Level::Sum), self.extent(columns).at(Level::Sum));
        let (i, j) = (self.index_name(*row), self.index_name(*column));
        self.comment(&format!("{each} rows of a column for each thread, {wide} columns for each block."));
        self.line(&format!("const long long spans = ({columns} + {}) / {wide};", wide - 1));
        self.line(&format!("const long long {j} = blockIdx.x % spans * {wide} + threadIdx.x;"));
        self.line(&format!("const long long first = blockIdx.x / spans * {each};"));
        self.line(&format!("if ({j} >= {columns}) return;"));
        self.bind(*row, Some(i.clone()));
        self.bind(*column, Some(j));
        self.line("#pragma unroll");
        let head = format!("for (long long {i} = first; {i} < first + {each}; {i}++)");
        self.nested(&head, |w| {
            w.line(&format!("if ({i} >= {rows}) break;"));
            w.block(&l.body)
        })
    }

    /// Tiles, which a block reads along memory into shared memory.
    fn in_tiles(&mut self, l: &Loop, layout: &Variant) -> Result {
        let ([rest @ .., outer, last], [stage]) = (layout.axes.as_slice(), layout.stages.as_slice()) else {
            return Err(Unsupported("this layout"));
        };
        let (side, step) = (last.of_block(), outer.count(Scope::is_of_block));
        let dim = |axis: &Axis| l.dims.iter().find(|(index, _)| axis.indices == [*index]);
        let (Some(outer), Some(last)) = (dim(outer), dim(last)) else { return Err(Unsupported("this layout")) };
        let [tall, long] = [outer, last].map(|(_, extent)| self.extent(extent).at(Level::Sum));
        let [i, j] = [outer, last].map(|(index, _)| self.index_name(*index));
        self.comment(&format!("A tile of {side} by {side} for each block."));
        self.line(&format!(
            "const long long spans = ({long} + {0}) / {side}, bands = ({tall} + {0}) / {side};",
            side - 1
        ));
        self.line(&format!("const long long first_{j} = blockIdx.x % spans * {side};"));
        self.line(&format!("const long long first_{i} = blockIdx.x / spans % bands * {side};"));
        let mut left = "blockIdx.x / spans / bands".to_owned();
        for (place, axis) in rest.iter().enumerate().rev() {
            let Some((index, extent)) = dim(axis) else { return Err(Unsupported("this layout")) };
            let (name, extent) = (self.index_name(*index), self.extent(extent).at(Level::Sign));
            let own = if place == 0 { left.clone() } else { format!("{left} % {extent}") };
            self.line(&format!("const long long {name} = {own};"));
            left = format!("{left} / {extent}");
            self.bind(*index, Some(name));
        }
        let [x, y, row] = ["x", "y", "row"].map(|wanted| self.names.fresh(wanted));
        self.line(&format!("const int {x} = threadIdx.x % {side}, {y} = threadIdx.x / {side};"));
        let mut tiles: BTreeMap<usize, String> = BTreeMap::new();
        for at in &stage.loads {
            let Statement::Let { op: Op::Load { buffer, .. }, .. } = &l.body[*at] else { continue };
            let buffer = &self.program.buffers[*buffer];
            let bytes = i64::try_from(buffer.dtype.bytes()).unwrap_or(1);
            let name = self.names.fresh(&format!("{}_tile", buffer.name));
            let pitch = side + stage.padding.max(bytes) / bytes;
            self.line(&format!("__shared__ {} {name}[{side}][{pitch}];", scalar::name(buffer.dtype)));
            tiles.insert(*at, name);
        }
        self.comment("Neighbouring threads load neighbouring elements.");
        self.bind(outer.0, Some(i.clone()));
        self.bind(last.0, Some(j.clone()));
        self.nested(&format!("for (int {row} = {y}; {row} < {side}; {row} += {step})"), |w| {
            w.line(&format!("const long long {i} = first_{i} + {x}, {j} = first_{j} + {row};"));
            w.nested(&format!("if ({i} < {tall} && {j} < {long})"), |w| {
                for (at, tile) in &tiles {
                    let Statement::Let { op: Op::Load { buffer, view, at }, .. } = &l.body[*at] else { continue };
                    let element = w.element(*buffer, view.as_deref(), at);
                    w.line(&format!("{tile}[{row}][{x}] = {};", element.text));
                }
                Ok(())
            })
        })?;
        self.line("__syncthreads();");
        self.comment("Neighbouring threads compute neighbouring results.");
        self.nested(&format!("for (int {row} = {y}; {row} < {side}; {row} += {step})"), |w| {
            w.line(&format!("const long long {i} = first_{i} + {row}, {j} = first_{j} + {x};"));
            w.nested(&format!("if ({i} < {tall} && {j} < {long})"), |w| {
                for (place, statement) in l.body.iter().enumerate() {
                    match statement {
                        Statement::Let { value, .. } if let Some(tile) = tiles.get(&place) => {
                            w.define(*value, Text::atom(format!("{tile}[{x}][{row}]")));
                        }
                        _ => w.statement(statement, &l.body[place + 1..])?,
                    }
                }
                Ok(())
            })
        })
    }
}

/// Whether a statement, or one inside it, mentions an index.
fn mentions(statement: &Statement, index: IndexId) -> bool {
    let mut found = false;
    ir::visit::for_each_affine(&vec![statement.clone()], &mut |affine| found |= !affine.coefficient(index).is_zero());
    found
}
