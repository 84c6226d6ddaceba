//! Matrices held in the registers of a whole warp: `ldmatrix` and `mma`.
//!
//! The ISA leaves the order of a product's sums open. Here it is ascending, with each product exact
//! and each sum rounded to nearest. That is one of the orders allowed, so if all orders give the
//! same exact result, a GPU gives it too.

use half::{bf16, f16};

use crate::exec::access::{Spot, plain};
use crate::exec::{Run, now};
use crate::lanes::Lane;
use crate::op::{Address, Factors, Strength};
use crate::types::{LANES, Reg, Row, Space, Type, lanes};
use crate::warp::{Stop, Warp};

/// Elements of a register, as exact numbers: two of 16 bits, the first lowest, or one.
pub(super) fn elements(factors: Factors, register: u64) -> Vec<f32> {
    match factors {
        Factors::F16 => [register, register >> 16].map(|bits| f16::of(bits).to_f32()).to_vec(),
        Factors::Bf16 => [register, register >> 16].map(|bits| bf16::of(bits).to_f32()).to_vec(),
        Factors::Tf32 => vec![f32::of(register & !0x1fff)],
    }
}

/// The first eight lanes' part of a factor: row `line` of these registers. A register holds four
/// lanes side by side.
fn line(factors: Factors, registers: &[&Row], line: usize) -> Vec<f32> {
    let parts = registers.iter().flat_map(|row| &row[4 * line..4 * line + 4]);
    parts.flat_map(|register| elements(factors, *register)).collect()
}

/// `c` plus the product of `a` and `b`. Each register holds eight rows (for `b`, columns) of 16
/// bytes. The first register of the left factor holds those of rows 0 to 7, the next those of rows
/// 8 to 15, and so on again for the following 16 bytes.
pub(super) fn multiply(warp: &Warp, factors: Factors, (a, b, c): (&[Reg], &[Reg], &[Reg])) -> Result<[Row; 4], Stop> {
    let read = |regs: &[Reg]| regs.iter().map(|reg| warp.read(*reg, u32::MAX)).collect::<Result<Vec<&Row>, Stop>>();
    let (a, b, c) = (read(a)?, read(b)?, read(c)?);
    let lines = |registers: &[&Row]| -> [Vec<f32>; 8] { std::array::from_fn(|k| line(factors, registers, k)) };
    let (left, right) = ([0, 1].map(|half| lines(&[a[half], a[half + 2]])), lines(&b));
    let mut result = [[0; LANES]; 4];
    for (index, (to, from)) in result.iter_mut().zip(&c).enumerate() {
        for (lane, (to, from)) in to.iter_mut().zip(*from).enumerate() {
            let (left, right) = (&left[index / 2][lane / 4], &right[lane % 4 * 2 + index % 2]);
            let sum = left.iter().zip(right).fold(f32::of(*from), |sum, (x, y)| x.mul_add(*y, sum));
            *to = sum.bits();
        }
    }
    Ok(result)
}

impl Run<'_, '_> {
    /// Lanes 0 to 7 hold the addresses of the rows of the first matrix, the next eight those of the
    /// second.
    pub(super) fn load_matrices(&mut self, into: &[Reg], at: Address, transposed: bool) -> Result<(), Stop> {
        let needed = u32::MAX >> (LANES - 8 * into.len());
        self.warp.need(at.base, needed)?;
        let mut rows = [0u128; LANES];
        for lane in lanes(needed) {
            let fault = |what| Stop { lane, what };
            let spot = Spot::new(self.warp, at, (&plain(Space::Shared, Type::B16), 16), lane).map_err(fault)?;
            let now = now(self.shared, self.warp, (lane, self.line), Strength::Weak);
            rows[lane] = spot.load(self.grid, self.shared, &now).map_err(fault)?;
        }
        for (matrix, reg) in rows.chunks(8).zip(into) {
            let element = |row: usize, column: usize| matrix[row] >> (16 * column) & 0xffff;
            let result: Row = std::array::from_fn(|lane| {
                let (row, column) = (lane / 4, lane % 4 * 2);
                let [low, high] = [column, column + 1]
                    .map(|column| if transposed { element(column, row) } else { element(row, column) });
                (high << 16 | low) as u64
            });
            self.warp.write(*reg, u32::MAX, &result);
        }
        Ok(())
    }
}
