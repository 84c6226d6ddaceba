//! Reduces data: smaller sizes, simpler elements.

use std::io;

use ir::array::Array;
use ir::bind::Binding;
use ir::nest::SymbolSource;
use ir::{Dtype, Scalar, SymbolId};

use super::Reduction;
use crate::case::{Arguments, Case};
use crate::judge::check;

/// Elements that take no explaining, the plainest first.
const PLAIN: [i64; 3] = [0, 1, 2];
/// The maximum number of parts into which an array is divided to simplify its elements part by
/// part.
const MOST_PARTS: usize = 64;

impl Reduction<'_, '_> {
    /// Smaller sizes, plainer elements.
    pub(super) fn data(&mut self) -> io::Result<bool> {
        let mut any = false;
        let Ok(checked) = check(&self.case.setting.source, &self.case.setting.entry) else { return Ok(false) };
        for symbol in checked.symbols.keys() {
            any |= self.size(&checked, symbol)?;
        }
        for n in 0..self.case.arguments.len() {
            any |= self.elements(n)?;
        }
        Ok(any)
    }

    /// The least value of a size.
    fn size(&mut self, checked: &ir::checked::Checked, symbol: SymbolId) -> io::Result<bool> {
        let Some(now) = sizes(checked, &self.case.arguments).map(|binding| binding.symbol(symbol)) else {
            return Ok(false);
        };
        // The least sizes first, then halves, then one less.
        let halves = std::iter::successors(Some(now / 2), |n| (*n + 1 < now).then(|| n.midpoint(now).max(n + 1)));
        for value in (0..5).chain(halves).filter(|value| *value < now) {
            let Some(arguments) = resized(checked, &self.case.arguments, symbol, value) else { continue };
            if self.accept(Case { setting: self.case.setting.clone(), arguments })? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Simplifies the elements of an argument: all of them, or as many parts as possible.
    fn elements(&mut self, n: usize) -> io::Result<bool> {
        let array = &self.case.arguments[n].1;
        let count = array.len();
        if count == 0 {
            return Ok(false);
        }
        let mut any = false;
        for value in PLAIN {
            if self.part(n, 0..count, value)? {
                return Ok(true);
            }
        }
        let mut parts = 2;
        while parts <= MOST_PARTS.min(count) && !self.is_over() {
            for part in 0..parts {
                let range = part * count / parts..(part + 1) * count / parts;
                any |= self.part(n, range.clone(), 0)? || self.part(n, range, 1)?;
            }
            parts *= 2;
        }
        Ok(any)
    }

    fn part(&mut self, n: usize, range: std::ops::Range<usize>, value: i64) -> io::Result<bool> {
        let mut arguments = self.case.arguments.clone();
        let Some((_, array)) = arguments.get_mut(n) else { return Ok(false) };
        let plain = |array: &Array, k: usize| {
            let small = |v: Scalar| matches!(v, Scalar::I64(v) if v <= value && v >= 0);
            array.get(k).is_some_and(|v| small(interp::scalar::cast(Dtype::I64, v)) && whole(v))
        };
        if range.clone().all(|k| plain(array, k)) {
            return Ok(false);
        }
        for k in range {
            array.set(k, interp::scalar::cast(array.dtype(), Scalar::I64(value)));
        }
        self.accept(Case { setting: self.case.setting.clone(), arguments })
    }
}

/// An integer with the same value as a scalar, if there is one.
fn whole(value: Scalar) -> bool {
    let back = interp::scalar::cast(value.dtype(), interp::scalar::cast(Dtype::I64, value));
    back == value
}

fn sizes(checked: &ir::checked::Checked, arguments: &Arguments) -> Option<Binding> {
    let params: Vec<(Dtype, usize)> = checked.params.iter().map(|p| (p.ty.dtype, p.ty.shape.len())).collect();
    let inputs: Vec<_> = arguments.iter().map(|(_, array)| array.as_ref()).collect();
    Binding::of_call(&checked.symbols, &params, &[], &inputs).ok()
}

/// The arguments with another value of a size. Elements keep their positions.
fn resized(checked: &ir::checked::Checked, arguments: &Arguments, symbol: SymbolId, value: i64) -> Option<Arguments> {
    let binding = sizes(checked, arguments)?;
    let size = |s: SymbolId| if s == symbol { value } else { binding.symbol(s) };
    let mut resized = vec![];
    for (n, (param, (name, array))) in checked.params.iter().zip(arguments).enumerate() {
        let lengths = param.ty.shape.iter().map(|axis| usize::try_from(axis.eval(&size).ok()?).ok());
        let shape: Option<Vec<usize>> = lengths.collect();
        let shape = shape?;
        let is_size = matches!(checked.symbols[symbol].source, SymbolSource::Scalar { input } if input == n);
        let new = match is_size {
            true => Array::scalar(interp::scalar::cast(array.dtype(), Scalar::I64(value))),
            false => cropped(array, &shape)?,
        };
        resized.push((name.clone(), new));
    }
    Some(resized)
}

/// The elements of an array in another shape, filled up with 0.
fn cropped(array: &Array, shape: &[usize]) -> Option<Array> {
    let mut new = Array::zeros(array.dtype(), shape).ok()?;
    for k in 0..new.len() {
        let (mut rest, mut from, mut stride, mut inside) = (k, 0, 1, true);
        for (old, new) in array.shape().iter().zip(shape).rev() {
            let at = rest % new;
            rest /= new;
            inside &= at < *old;
            from += at * stride;
            stride *= old;
        }
        if inside && let Some(value) = array.get(from) {
            new.set(k, value);
        }
    }
    Some(new)
}
