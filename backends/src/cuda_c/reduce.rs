//! Reductions: by the threads of a block, or by one thread, in the order that they have.

use ir::nest::{BufferId, IndexId, Input, Loop, Merge, Op, Prefix, Reduction, Statement, ValueId};
use ir::order::{BLOCK, LANES, LANES_CHUNK};
use ir::sched::InBlocks;
use ir::{Affine, Dtype, Order, visit};

use super::helpers::Helper;
use super::kernel::{Result, Writer};
use super::module::Unsupported;
use super::names::identifier;
use super::scalar::{self, Text};

/// The static shared memory of a block in bytes.
const SHARED: usize = 48 << 10;
/// The levels of pairs.
const LEVELS: usize = 48;

/// The state of a reduction.
#[derive(Clone)]
pub(super) struct State {
    /// The name of its type.
    pub(super) ty: String,
    /// Its values: one, or several in a structure.
    pub(super) dtypes: Vec<Dtype>,
    single: bool,
    /// The state of no elements, and the name of the function that merges two.
    pub(super) nothing: String,
    pub(super) merge: String,
}

/// A running reduction.
#[derive(Clone)]
pub(super) struct Prefixes {
    pub(super) state: State,
    pub(super) next: Next,
}

/// The next state of a running reduction.
#[derive(Clone)]
pub(super) enum Next {
    /// Of a variable that takes the element of this index.
    Of(String, IndexId),
    /// An expression.
    Known(String),
}

/// A reduction.
struct Sum {
    order: Order,
    results: Vec<ValueId>,
    inputs: Vec<Input>,
    state: State,
    /// The names of the state of a thread, and of the variable that combines those of all threads or
    /// lanes.
    own: String,
    of_all: String,
}

impl State {
    /// A value of a state.
    fn field(&self, state: &str, number: usize) -> Text {
        Text::atom(if self.single { state.to_owned() } else { format!("{state}.v{number}") })
    }

    /// Its bytes at most.
    fn bytes(&self) -> usize {
        if self.single { self.dtypes[0].bytes() } else { 8 * self.dtypes.len() }
    }
}

/// The structure and the merge of a reducer of the program.
pub(super) fn reducer_names(name: &str) -> (String, String) {
    let name = identifier(name);
    (format!("{name}_state"), format!("merge_{name}"))
}

impl Writer<'_> {
    /// The state of a reduction, with a function that merges two.
    pub(super) fn state(&mut self, merge: Merge, inputs: &[Input]) -> Result<State> {
        match merge {
            Merge::Monoid(monoid) => {
                let value = inputs.first().and_then(|input| input.value());
                let dtype = value.map_or(Dtype::I64, |value| self.dtypes[value]);
                if matches!(dtype, Dtype::F16 | Dtype::Bf16) {
                    return Err(Unsupported("a reduction of 16-bit floats"));
                }
                let name = self.names.fresh("merge");
                let (text, helper) = scalar::binary(monoid.primitive(), dtype, &Text::atom("a"), &Text::atom("b"));
                self.helpers.extend(helper);
                let ty = scalar::name(dtype);
                self.line(&format!("const auto {name} = []({ty} a, {ty} b) {{ return {}; }};", text.text));
                let nothing = scalar::constant(monoid.identity(dtype)).text;
                Ok(State { ty: ty.to_owned(), dtypes: vec![dtype], single: true, nothing, merge: name })
            }
            Merge::Reducer(id) => {
                let reducer = &self.program.reducers[id];
                self.reducers.insert(id);
                let (ty, merge) = reducer_names(&reducer.name);
                let identity: Vec<String> =
                    reducer.identity.iter().map(|value| scalar::constant(*value).text).collect();
                let nothing = format!("{ty}{{{}}}", identity.join(", "));
                Ok(State { ty, dtypes: reducer.state().collect(), single: false, nothing, merge })
            }
        }
    }

    /// The state that an element becomes, by the number of its iteration.
    pub(super) fn one(&mut self, state: &State, inputs: &[Input], number: &str) -> String {
        let value = |input: &Input| match input.value() {
            Some(value) => self.value(value).text,
            None => number.to_owned(),
        };
        let values: Vec<String> = inputs.iter().map(value).collect();
        if state.single { values.join(", ") } else { format!("{}{{{}}}", state.ty, values.join(", ")) }
    }

    /// The reductions of a loop.
    fn sums(&mut self, reductions: &[Reduction]) -> Result<Vec<Sum>> {
        let mut sums = vec![];
        for r in reductions {
            let name = self.program.merge_name(r.merge).to_owned();
            let name = self.names.fresh(&name);
            let state = self.state(r.merge, &r.inputs)?;
            let own = self.names.fresh(&format!("own_{name}"));
            let of_all = self.names.fresh(&format!("{name}_of_all"));
            sums.push(Sum { order: r.order, results: r.results.clone(), inputs: r.inputs.clone(), state, own, of_all });
        }
        Ok(sums)
    }

    /// Defines the values of a state.
    fn define_state(&mut self, sum: &Sum, state: &str) {
        for (number, result) in sum.results.iter().enumerate() {
            self.define(*result, sum.state.field(state, number));
        }
    }

    /// A scan that a thread runs alone.
    pub(super) fn scan_alone(&mut self, l: &Loop) -> Result {
        let Some((index, _)) = l.dims.first() else { return Ok(()) };
        let mut found = vec![];
        visit::for_each_statement(&l.body, &mut |s| {
            if let Statement::Let { value, op: Op::Prefix(prefix) } = s {
                found.push((*value, prefix));
            }
        });
        self.helpers.insert(Helper::Running);
        for (value, prefix) in found {
            let state = self.state(prefix.merge, &prefix.inputs)?;
            let name = self.names.fresh("running");
            self.line(&format!("Running<{}> {name};", state.ty));
            self.line(&format!("{name}.begin({});", state.nothing));
            self.prefixes.insert(value, Prefixes { state, next: Next::Of(name, *index) });
        }
        self.nest(&l.dims, &l.body)
    }

    /// The next prefix of a running reduction.
    pub(super) fn prefix(&mut self, value: ValueId, prefix: &Prefix) -> Result<Text> {
        let Some(Prefixes { state, next }) = self.prefixes.get(&value).cloned() else {
            return Err(Unsupported("a running reduction"));
        };
        let next = match next {
            Next::Known(next) => next,
            Next::Of(name, index) => {
                let number = self.affine(&Affine::index(index)).text;
                let one = self.one(&state, &prefix.inputs, &number);
                format!("{name}.take({one}, {}, {})", state.nothing, state.merge)
            }
        };
        Ok(state.field(&next, prefix.field))
    }

    /// A reduction by the threads of a block: a lane of a chunk, a block of elements, or one result
    /// of a chunk for each of them at a time.
    pub(super) fn reduce_together(&mut self, l: &Loop, reductions: &[Reduction], threads: i64) -> Result {
        let joins = l.dims.iter().any(|(index, _)| self.part.joins.contains(index));
        let only = |order| reductions.iter().all(|r| r.order == order || r.order == Order::Free);
        if reductions.iter().any(|r| r.order == Order::Scan) {
            return Err(Unsupported("a reduction in the order of a running one"));
        }
        if !(joins || only(Order::Lanes) || only(Order::Blocks)) {
            return Err(Unsupported("reductions in several orders"));
        }
        let by_lanes = !joins && only(Order::Lanes);
        let each = if joins { 1 } else { BLOCK as i64 };
        let sums = self.begin(reductions, threads)?;
        let range = self.range(l, &l.dims);
        let total = self.names.fresh("total");
        self.line(&format!("const long long {total} = {};", range.total));
        let base = self.names.fresh("base");
        let round = if by_lanes { threads / LANES as i64 * LANES_CHUNK as i64 } else { threads * each };
        self.nested(&format!("for (long long {base} = 0; {base} < {total}; {base} += {round})"), |w| {
            w.own(&sums);
            let (first, step, end) = match by_lanes {
                true if threads == LANES as i64 => ("threadIdx.x".to_owned(), LANES as i64, LANES_CHUNK as i64),
                true => {
                    w.line(&format!("const long long chunk = {base} + threadIdx.x / 128 * 4096LL;"));
                    ("threadIdx.x % 128".to_owned(), LANES as i64, LANES_CHUNK as i64)
                }
                false => {
                    w.line(&format!("const long long chunk = {base} + threadIdx.x * {each}LL;"));
                    ("0".to_owned(), 1, each)
                }
            };
            let chunk = if by_lanes && threads == LANES as i64 { base.clone() } else { "chunk".to_owned() };
            let number = w.number(&range);
            let head = format!(
                "for (long long {number} = {chunk} + {first}; {number} < {chunk} + {end} && {number} < {total}; {number} += {step})"
            );
            w.nested(&head, |w| {
                w.unravel(&range, &number);
                w.by_each(|w| w.block(&l.body))?;
                w.add(&sums, &number);
                Ok(())
            })?;
            let (method, length) = if by_lanes { ("lanes", LANES_CHUNK as i64) } else { ("results", each) };
            for Sum { own, state: State { merge, .. }, of_all, .. } in &sums {
                let left = format!("({total} - {base} + {}) / {length}", length - 1);
                w.line(&format!("{of_all}.{method}({own}, {left}, {merge});"));
            }
            Ok(())
        })?;
        self.joined(&sums);
        self.settle(&l.body);
        Ok(())
    }

    /// Declares the variables that combine the states of the threads of a block.
    fn begin(&mut self, reductions: &[Reduction], threads: i64) -> Result<Vec<Sum>> {
        let sums = self.sums(reductions)?;
        let places = usize::try_from(threads).unwrap_or(0) + LEVELS;
        self.shared_bytes += sums.iter().map(|sum| sum.state.bytes() * places + 16).sum::<usize>();
        if self.shared_bytes > SHARED {
            return Err(Unsupported("more reductions than shared memory has room for"));
        }
        self.helpers.insert(Helper::Together);
        for Sum { state: State { ty, nothing, .. }, of_all, .. } in &sums {
            self.line(&format!("__shared__ Together<{ty}, {threads}> {of_all};"));
            self.line(&format!("{of_all}.begin({nothing});"));
        }
        Ok(sums)
    }

    /// Declares the states of a thread.
    fn own(&mut self, sums: &[Sum]) {
        for Sum { state: State { ty, nothing, .. }, own, .. } in sums {
            self.line(&format!("{ty} {own} = {nothing};"));
        }
    }

    /// Merges the element of an iteration into the states of a thread.
    fn add(&mut self, sums: &[Sum], number: &str) {
        for Sum { state, inputs, own, .. } in sums {
            let one = self.one(state, inputs, number);
            self.line(&format!("{own} = {}({own}, {one});", state.merge));
        }
    }

    /// Defines the results.
    fn joined(&mut self, sums: &[Sum]) {
        for sum in sums {
            let State { ty, nothing, merge, .. } = &sum.state;
            let name = self.names.fresh("result");
            self.line(&format!("const {ty} {name} = {}.joined({nothing}, {merge});", sum.of_all));
            self.define_state(sum, &name);
        }
    }

    /// A reduction by one thread.
    pub(super) fn reduce_alone(&mut self, l: &Loop, reductions: &[Reduction]) -> Result {
        let joins = l.dims.iter().any(|(index, _)| self.part.joins.contains(index));
        let sums = self.sums(reductions)?;
        for Sum { order, state: State { ty, nothing, .. }, own, of_all, .. } in &sums {
            let helper = match (order, joins) {
                (Order::Lanes, false) => Some((Helper::Lanes, "Lanes")),
                (Order::Lanes | Order::Blocks, _) => Some((Helper::Pairs, "Pairs")),
                (Order::Scan, _) => Some((Helper::Running, "Running")),
                (Order::Free, _) => None,
            };
            if let Some((helper, name)) = helper {
                self.helpers.insert(helper);
                self.line(&format!("{name}<{ty}> {of_all};"));
                self.line(&format!("{of_all}.begin({nothing});"));
            }
            if matches!((order, joins), (Order::Blocks, false) | (Order::Free | Order::Scan, _)) {
                self.line(&format!("{ty} {own} = {nothing};"));
            }
        }
        let in_blocks = sums.iter().any(|sum| sum.order == Order::Blocks) && !joins;
        let counts = in_blocks || sums.iter().any(|sum| sum.inputs.contains(&Input::Number));
        let taken = self.names.fresh("taken");
        if counts {
            self.line(&format!("long long {taken} = 0;"));
        }
        self.nest_with(&l.dims, |w: &mut Self| {
            w.block(&l.body)?;
            for Sum { order, state, inputs, own, of_all, .. } in &sums {
                let one = w.one(state, inputs, &taken);
                let State { nothing, merge, .. } = state;
                match (order, joins) {
                    (Order::Lanes, false) => w.line(&format!("{of_all}.take({one}, {nothing}, {merge});")),
                    (Order::Lanes | Order::Blocks, true) => w.line(&format!("{of_all}.push({one}, {merge});")),
                    (Order::Blocks, false) => {
                        w.line(&format!("{own} = {merge}({own}, {one});"));
                        let full = format!("{taken} % {BLOCK} == {}", BLOCK - 1);
                        w.line(&format!("if ({full}) {of_all}.push({own}, {merge}), {own} = {nothing};"));
                    }
                    (Order::Scan, _) => w.line(&format!("{own} = {of_all}.take({one}, {nothing}, {merge});")),
                    (Order::Free, _) => w.line(&format!("{own} = {merge}({own}, {one});")),
                }
            }
            if counts {
                w.line(&format!("{taken}++;"));
            }
            Ok(())
        })?;
        for sum in &sums {
            let Sum { order, state: State { ty, nothing, merge, .. }, own, of_all, .. } = sum;
            if *order == Order::Blocks && in_blocks {
                self.line(&format!("if ({taken} % {BLOCK} > 0) {of_all}.push({own}, {merge});"));
            }
            let state = match order {
                Order::Lanes | Order::Blocks => {
                    let name = self.names.fresh("result");
                    self.line(&format!("const {ty} {name} = {of_all}.joined({nothing}, {merge});"));
                    name
                }
                Order::Free | Order::Scan => own.clone(),
            };
            self.define_state(sum, &state);
        }
        Ok(())
    }

    /// The chunk of a block, of a loop with reductions in chunks: its results go to `buffers`.
    pub(super) fn reduce_chunk(
        &mut self,
        before: &[Statement],
        l: &Loop,
        reductions: &[Reduction],
        buffers: &[BufferId],
    ) -> Result {
        self.inside(|w| {
            w.opening(before)?;
            let sums = w.begin(reductions, LANES as i64)?;
            let range = w.range(l, &l.dims);
            w.comment("A chunk for each block, a lane for each thread.");
            w.line(&format!("const long long first = blockIdx.x * {LANES_CHUNK}LL;"));
            w.own(&sums);
            let number = w.number(&range);
            let head = format!(
                "for (long long {number} = first + threadIdx.x; {number} < first + {LANES_CHUNK} && {number} < {}; {number} += {LANES})",
                range.total
            );
            w.nested(&head, |w| {
                w.unravel(&range, &number);
                w.block(&l.body)?;
                w.add(&sums, &number);
                Ok(())
            })?;
            for Sum { own, state: State { merge, .. }, of_all, .. } in &sums {
                w.line(&format!("{of_all}.lanes({own}, 1, {merge});"));
            }
            w.joined(&sums);
            for (sum, buffer) in sums.iter().zip(buffers) {
                w.store_result(*buffer, &sum.results[0]);
            }
            Ok(())
        })
    }

    /// Columns with a reduction in blocks of rows: a thread for each block of each column. The
    /// results go to `buffers`.
    pub(super) fn reduce_blocks(
        &mut self,
        before: &[Statement],
        l: &Loop,
        buffers: &[BufferId],
        threads: i64,
    ) -> Result {
        let Some(InBlocks { columns, before: first, rows }) = InBlocks::of(l) else { return Ok(()) };
        self.inside(|w| {
            w.opening(before)?;
            let sums = w.sums(rows.kind.reductions())?;
            let alone = columns.is_empty();
            let (columns, down) = (w.range(l, columns), w.range(rows, &rows.dims));
            let (of, total) = if alone { ("", "blocks") } else { (" of a column", "blocks * columns") };
            w.comment(&format!("A block of {BLOCK} rows{of} for each thread."));
            let columns_are = if alone { String::new() } else { format!("columns = {}, ", columns.total) };
            w.line(&format!("const long long {columns_are}rows = {};", down.total));
            w.line(&format!("const long long blocks = (rows + {}) / {BLOCK};", BLOCK - 1));
            let head = format!(
                "for (long long number = blockIdx.x * {threads}LL + threadIdx.x; number < {total}; number += gridDim.x * {threads}LL)"
            );
            w.nested(&head, |w| {
                if alone {
                    w.line(&format!("const long long first = number * {BLOCK};"));
                } else {
                    w.line(&format!(
                        "const long long column = number % columns, first = number / columns * {BLOCK};"
                    ));
                    w.unravel(&columns, "column");
                }
                w.block(first)?;
                w.own(&sums);
                let row = w.names.fresh("row");
                let head = format!("for (long long {row} = first; {row} < first + {BLOCK} && {row} < rows; {row}++)");
                w.nested(&head, |w| {
                    w.unravel(&down, &row);
                    w.block(&rows.body)?;
                    w.add(&sums, &row);
                    Ok(())
                })?;
                for (Sum { own, .. }, buffer) in sums.iter().zip(buffers) {
                    let array = w.array(*buffer);
                    w.line(&format!("{array}[number] = {own};"));
                }
                Ok(())
            })
        })
    }

    /// The first thread stores a result of its block.
    fn store_result(&mut self, buffer: BufferId, result: &ValueId) {
        let (array, value) = (self.array(buffer), self.value(*result).text);
        self.line(&format!("if (threadIdx.x == 0) {array}[blockIdx.x] = {value};"));
    }
}
