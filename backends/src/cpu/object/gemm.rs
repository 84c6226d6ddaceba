//! Matrix products for objects, which cannot call a library. As in `cpu::gemm`, a tile of the
//! result is accumulated in registers. Both factors are packed into panels as high or wide as a
//! tile, in blocks: one of the right factor that stays in the L2 cache, and one of the left. Tiles
//! use the same vector width as leaves.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I64};
use cranelift_codegen::ir::{
    AbiParam, BlockArg, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use cranelift_module::{FuncId, Module};
use ir::Dtype;

use super::runtime::counted;
use super::target::Target;
use crate::abi::GemmCall;
use crate::cpu::gemm;
use crate::cpu::jit::{BLOCK_COLUMNS, BLOCK_ROWS};
use crate::cpu::state::own_memory;
use crate::cpu::wide::product;
use crate::error::{CompileError, internal};

/// The rows of a tile in Cranelift's vectors, and the vectors per row.
const ROWS: i64 = 6;
const VECTORS: i64 = 2;

/// How the accumulators of a tile are computed.
enum Sums {
    /// With Cranelift's vectors. `fused` says whether the processor has fused multiply-add.
    Vectors { fused: bool },
    /// By a machine-code function with wide vectors; see `product::tile`.
    Wide(FuncId),
}

/// The state of code generation for a product.
struct Product<'a, 'b> {
    b: &'a mut FunctionBuilder<'b>,
    module: &'a mut dyn Module,
    sums: &'a Sums,
    element: Type,
    /// The size of a tile.
    rows: i64,
    columns: i64,
    /// Stack memory for the accumulators of a tile, and for the arguments of the wide function.
    spilled: Value,
    words: Value,
}

/// A matrix: the address of its first element, and its strides in bytes.
#[derive(Clone, Copy)]
struct Matrix {
    first: Value,
    down: Value,
    across: Value,
}

/// A panel of each factor, by their addresses, and the number of inner indices in them.
#[derive(Clone, Copy)]
struct Panels {
    inner: Value,
    left: Value,
    right: Value,
}

/// Emits the body of a helper that computes the product that a [`GemmCall`] describes.
pub(super) fn body(
    b: &mut FunctionBuilder<'_>,
    module: &mut dyn Module,
    target: Target,
    call: Value,
    element: Type,
) -> Result<(), CompileError> {
    let (sums, rows, bytes) = sums(module, target, element)?;
    let width = i64::from(element.bytes());
    let mut slot = |bytes: i64| {
        let bytes = u32::try_from(bytes).expect("a tile is small");
        let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4));
        b.ins().stack_addr(I64, slot, 0)
    };
    let (spilled, words) = (slot(rows * bytes), slot(32));
    let mut p = Product { b, module, sums: &sums, element, rows, columns: bytes / width, spilled, words };
    p.blocks(call);
    Ok(())
}

/// How tiles of a type are computed, their number of rows, and the size of a row in bytes.
fn sums(module: &mut dyn Module, target: Target, element: Type) -> Result<(Sums, i64, i64), CompileError> {
    let Some(isa) = target.wide() else {
        return Ok((Sums::Vectors { fused: target.fuses() }, ROWS, VECTORS * 16));
    };
    let code = product::tile(isa, element == F64).ok_or_else(|| internal(&"no code for a tile"))?;
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(I64));
    let id = module.declare_anonymous_function(&signature).map_err(|e| internal(&e))?;
    module.define_function_bytes(id, 64, &code, &[]).map_err(|e| internal(&e))?;
    Ok((Sums::Wide(id), product::rows(isa).into(), product::row_bytes(isa).into()))
}

/// Flags for the caller's memory, which can have any alignment.
fn outside() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

macro_rules! field {
    ($product:expr, $call:expr, $field:ident) => {{
        let at = i32::try_from(std::mem::offset_of!(GemmCall, $field)).expect("a small record");
        $product.b.ins().load(I64, own_memory(), $call, at)
    }};
}

impl Product<'_, '_> {
    fn width(&self) -> i64 {
        self.element.bytes().into()
    }

    /// The number of inner indices in a block: that of products in this process, whose bits it
    /// gives.
    fn inner_most(&self) -> i64 {
        let dtype = if self.element == F32 { Dtype::F32 } else { Dtype::F64 };
        i64::try_from(gemm::inner(dtype)).expect("a block is small")
    }

    /// A matrix of the call, from strides in elements.
    fn matrix(&mut self, first: Value, down: Value, across: Value) -> Matrix {
        let width = self.width();
        let [down, across] = [down, across].map(|step| self.b.ins().imul_imm_s(step, width));
        Matrix { first, down, across }
    }

    /// The submatrix that begins at a row and a column.
    fn from(&mut self, m: Matrix, row: Value, column: Value) -> Matrix {
        let down = self.b.ins().imul(row, m.down);
        let across = self.b.ins().imul(column, m.across);
        let first = self.b.ins().iadd(m.first, down);
        Matrix { first: self.b.ins().iadd(first, across), ..m }
    }

    /// The number of elements from `from` to the end, at most `most`.
    fn left(&mut self, all: Value, from: Value, most: i64) -> Value {
        let left = self.b.ins().isub(all, from);
        let most = self.b.ins().iconst(I64, most);
        self.b.ins().smin(left, most)
    }

    /// Emits a loop over the multiples of `step` below a limit.
    fn steps(&mut self, limit: Value, step: i64, body: &mut dyn FnMut(&mut Self, Value)) {
        let more = self.b.ins().iadd_imm_s(limit, step - 1);
        let step_value = self.b.ins().iconst(I64, step);
        let count = self.b.ins().sdiv(more, step_value);
        let (head, inside, out) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let number = self.b.append_block_param(head, I64);
        let zero = self.b.ins().iconst(I64, 0);
        self.b.ins().jump(head, &[BlockArg::from(zero)]);
        self.b.switch_to_block(head);
        let go = self.b.ins().icmp(IntCC::SignedLessThan, number, count);
        self.b.ins().brif(go, inside, &[], out, &[]);
        self.b.switch_to_block(inside);
        let at = self.b.ins().imul_imm_s(number, step);
        body(self, at);
        let next = self.b.ins().iadd_imm_s(number, 1);
        self.b.ins().jump(head, &[BlockArg::from(next)]);
        self.b.switch_to_block(out);
    }

    fn blocks(&mut self, call: Value) {
        let (m, k, n) = (field!(self, call, m), field!(self, call, k), field!(self, call, n));
        let (first, down, across) = (field!(self, call, a), field!(self, call, a_row), field!(self, call, a_column));
        let a = self.matrix(first, down, across);
        let (first, down, across) = (field!(self, call, b), field!(self, call, b_row), field!(self, call, b_column));
        let b = self.matrix(first, down, across);
        let (first, down, across) = (field!(self, call, c), field!(self, call, c_row), field!(self, call, c_column));
        let c = self.matrix(first, down, across);
        let accumulate = field!(self, call, accumulate);
        let left = field!(self, call, work);
        let inner_most = self.inner_most();
        let block = BLOCK_ROWS * inner_most * self.width();
        let right = self.b.ins().iadd_imm_s(left, block);
        let (rows, columns) = (self.rows, self.columns);
        // The loop over inner blocks runs at least once, to store zeros if there is nothing to sum.
        let one = self.b.ins().iconst(I64, 1);
        let at_least_one = self.b.ins().smax(k, one);
        self.steps(n, BLOCK_COLUMNS, &mut |p, j| {
            let width = p.left(n, j, BLOCK_COLUMNS);
            p.steps(at_least_one, inner_most, &mut |p, at| {
                let inner = p.left(k, at, inner_most);
                // The first inner block stores its result, unless the caller accumulates; later
                // blocks add to it.
                let later = p.b.ins().bor(accumulate, at);
                let part = p.from(b, at, j);
                // Packing takes rows, so the right factor is transposed: a panel has a few of its
                // columns.
                p.pack(Matrix { down: part.across, across: part.down, ..part }, width, inner, right, columns);
                p.steps(m, BLOCK_ROWS, &mut |p, i| {
                    let height = p.left(m, i, BLOCK_ROWS);
                    let part = p.from(a, i, at);
                    p.pack(part, height, inner, left, rows);
                    p.steps(width, columns, &mut |p, y| {
                        // A panel of the right factor stays in the first-level cache while all
                        // panels of the left block pass by.
                        let panel = p.panel(right, y, inner);
                        let there = p.left(width, y, columns);
                        p.steps(height, rows, &mut |p, x| {
                            let (row, column) = (p.b.ins().iadd(i, x), p.b.ins().iadd(j, y));
                            let to = p.from(c, row, column);
                            let panels = Panels { inner, left: p.panel(left, x, inner), right: panel };
                            let some = p.left(height, x, rows);
                            p.tile(panels, to, some, there, later);
                        });
                    });
                });
            });
        });
    }

    /// The address of the panel that begins at a row or column.
    fn panel(&mut self, first: Value, number: Value, inner: Value) -> Value {
        let width = self.width();
        let before = self.b.ins().imul(number, inner);
        let before = self.b.ins().imul_imm_s(before, width);
        self.b.ins().iadd(first, before)
    }

    /// Packs rows into panels of `high` rows, element by element along the inner index. Missing
    /// rows of the last panel repeat the last row.
    fn pack(&mut self, from: Matrix, rows: Value, inner: Value, to: Value, high: i64) {
        let (width, element) = (self.width(), self.element);
        self.steps(rows, high, &mut |p, row| {
            let to = p.panel(to, row, inner);
            let last = p.b.ins().iadd_imm_s(rows, -1);
            let mut firsts = vec![];
            for k in 0..high {
                let number = p.b.ins().iadd_imm_s(row, k);
                let number = p.b.ins().smin(number, last);
                let down = p.b.ins().imul(number, from.down);
                firsts.push(p.b.ins().iadd(from.first, down));
            }
            // If the elements of adjacent rows are contiguous, copy them as vectors.
            let lanes = element.by(128 / element.bits()).expect("a vector of the type");
            let beside = p.b.ins().icmp_imm_s(IntCC::Equal, from.down, width);
            let left = p.b.ins().isub(rows, row);
            let whole = p.b.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, left, high);
            let beside = p.b.ins().band(beside, whole);
            let (moves, gathers, done) = (p.b.create_block(), p.b.create_block(), p.b.create_block());
            // Panels that are not whole vectors high are always copied element by element.
            let step = if high % (16 / width) == 0 { moves } else { gathers };
            p.b.ins().brif(beside, step, &[], gathers, &[]);
            for (block, ty) in [(moves, lanes), (gathers, element)] {
                p.b.switch_to_block(block);
                counted(p.b, inner, &mut |b, k| {
                    let along = b.ins().imul(k, from.across);
                    let place = b.ins().imul_imm_s(k, high * width);
                    let place = b.ins().iadd(to, place);
                    let apart = i64::from(ty.bytes()) / width;
                    for part in 0..high / apart {
                        let first = firsts[usize::try_from(part * apart).expect("few rows")];
                        let at = b.ins().iadd(first, along);
                        let x = b.ins().load(ty, outside(), at, 0);
                        let offset = i32::try_from(part * apart * width).expect("a small number");
                        b.ins().store(outside(), x, place, offset);
                    }
                });
                p.b.ins().jump(done, &[]);
            }
            p.b.switch_to_block(done);
        });
    }

    /// Computes a tile from a panel of each factor and stores the given number of its rows and
    /// columns.
    fn tile(&mut self, panels: Panels, to: Matrix, rows: Value, columns: Value, add: Value) {
        match self.sums {
            Sums::Wide(function) => {
                let Panels { inner, left, right } = panels;
                for (word, value) in [inner, left, right, self.spilled].into_iter().enumerate() {
                    let at = i32::try_from(8 * word).expect("four words");
                    self.b.ins().store(own_memory(), value, self.words, at);
                }
                let function = self.module.declare_func_in_func(*function, self.b.func);
                self.b.ins().call(function, &[self.words]);
            }
            Sums::Vectors { fused } => self.sum(panels, *fused),
        }
        let width = self.width();
        let vector = self.element.by(128 / self.element.bits()).expect("a vector of the type");
        let beside = self.b.ins().icmp_imm_s(IntCC::Equal, to.across, width);
        // Whole rows of a tile that are contiguous in the result are stored as vectors; tiles at
        // the right edge, and those of transposed results, element by element.
        let wide = self.b.ins().icmp_imm_s(IntCC::Equal, columns, self.columns);
        let whole = self.b.ins().band(beside, wide);
        let (lanes, one_by_one, out) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().brif(whole, lanes, &[], one_by_one, &[]);
        let (spilled, bytes) = (self.spilled, self.columns * width);
        self.b.switch_to_block(lanes);
        counted(self.b, rows, &mut |b, row| {
            let from = b.ins().imul_imm_s(row, bytes);
            let from = b.ins().iadd(spilled, from);
            let down = b.ins().imul(row, to.down);
            let at = b.ins().iadd(to.first, down);
            let (adds, puts, next) = (b.create_block(), b.create_block(), b.create_block());
            b.ins().brif(add, adds, &[], puts, &[]);
            for (block, adds) in [(adds, true), (puts, false)] {
                b.switch_to_block(block);
                for part in 0..bytes / 16 {
                    let offset = i32::try_from(part * 16).expect("a small number");
                    let mut x = b.ins().load(vector, outside(), from, offset);
                    if adds {
                        let before = b.ins().load(vector, outside(), at, offset);
                        x = b.ins().fadd(before, x);
                    }
                    b.ins().store(outside(), x, at, offset);
                }
                b.ins().jump(next, &[]);
            }
            b.switch_to_block(next);
        });
        self.b.ins().jump(out, &[]);
        self.b.switch_to_block(one_by_one);
        let element = self.element;
        counted(self.b, rows, &mut |b, row| {
            counted(b, columns, &mut |b, column| {
                let from = b.ins().imul_imm_s(row, bytes);
                let from = b.ins().iadd(spilled, from);
                let along = b.ins().imul_imm_s(column, width);
                let from = b.ins().iadd(from, along);
                let (down, across) = (b.ins().imul(row, to.down), b.ins().imul(column, to.across));
                let at = b.ins().iadd(to.first, down);
                let at = b.ins().iadd(at, across);
                let x = b.ins().load(element, outside(), from, 0);
                let before = b.ins().load(element, outside(), at, 0);
                let sum = b.ins().fadd(before, x);
                let x = b.ins().select(add, sum, x);
                b.ins().store(outside(), x, at, 0);
            });
        });
        self.b.ins().jump(out, &[]);
        self.b.switch_to_block(out);
    }

    /// Accumulates a tile with Cranelift's vectors.
    fn sum(&mut self, Panels { inner, left, right }: Panels, fused: bool) {
        let element = self.element;
        let vector = element.by(128 / element.bits()).expect("a vector of the type");
        let count = usize::try_from(ROWS * VECTORS).expect("few sums");
        let zero = if element == F32 { self.b.ins().f32const(0.0) } else { self.b.ins().f64const(0.0) };
        let zero = self.b.ins().splat(vector, zero);
        let (head, inside, out) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        // The loop carries the number of inner indices left, both addresses, and the accumulators.
        for ty in [I64; 3].into_iter().chain(vec![vector; count]) {
            self.b.append_block_param(head, ty);
        }
        let arguments = |values: &[Value]| values.iter().map(|v| BlockArg::from(*v)).collect::<Vec<_>>();
        let begin = [vec![inner, left, right], vec![zero; count]].concat();
        self.b.ins().jump(head, &arguments(&begin));
        self.b.switch_to_block(head);
        let state = self.b.block_params(head).to_vec();
        let more = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, state[0], 0);
        self.b.ins().brif(more, inside, &[], out, &[]);
        self.b.switch_to_block(inside);
        let width = self.width();
        let at = |bytes: i64| i32::try_from(bytes).expect("a small number");
        // The outer product of a column of the left panel and a row of the right one: each element
        // of the left is broadcast, and multiplied by all vectors of the row.
        let columns: Vec<Value> =
            (0..VECTORS).map(|part| self.b.ins().load(vector, outside(), state[2], at(16 * part))).collect();
        let mut next = vec![
            self.b.ins().iadd_imm_s(state[0], -1),
            self.b.ins().iadd_imm_s(state[1], ROWS * width),
            self.b.ins().iadd_imm_s(state[2], VECTORS * 16),
        ];
        let mut sums = state[3..].iter();
        for row in 0..ROWS {
            let x = self.b.ins().load(element, outside(), state[1], at(row * width));
            let x = self.b.ins().splat(vector, x);
            for (y, sum) in columns.iter().zip(sums.by_ref()) {
                next.push(if fused {
                    self.b.ins().fma(x, *y, *sum)
                } else {
                    let product = self.b.ins().fmul(x, *y);
                    self.b.ins().fadd(*sum, product)
                });
            }
        }
        self.b.ins().jump(head, &arguments(&next));
        self.b.switch_to_block(out);
        for (number, sum) in state[3..].iter().enumerate() {
            self.b.ins().store(outside(), *sum, self.spilled, at(16 * number as i64));
        }
    }
}
