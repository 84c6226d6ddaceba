//! Each way to simplify a kernel, with IR text before and after.

mod arithmetic;
mod equal;
mod forward;
mod hoist;
mod units;

use ir::nest::{Kernel, Program};
use ir::rewrite::renumber;
use ir::{print, verify};

const HEADER: &str = "program @p {
  symbol n = dim 0 of input 0
  symbol m = dim 1 of input 0
  input %x: f32[n, m]
  input %b: f32[m]
  input %c: f32
  input %k: i64[n]
  output %y: f32[n, m]
  output %z: f32[n]
  temp %t: f32[n, m]
  scratch %e: f32[m]
  site0 = axis 0 of \"t\" at 0..0
  site1 = axis 1 of \"t\" at 0..0
  require 2 <= m as \"left\", \"right\" at 0..0
  require 3 <= n unless empty(m - 5) as \"left\", \"right\" at 0..0
  function @tanh.f32 = tanh(v0: f32) { v1 = neg v0 yield v1 }
  function @cosh.f32 = cosh(v0: f32) { v1 = abs v0 yield v1 }";

/// The kernel's body after a rewrite.
fn after(body: &str, rewrite: impl FnOnce(&Program, &mut Kernel)) -> String {
    let mut program: Program = format!("{HEADER} kernel @k {{ {body} }} }}").parse().unwrap_or_else(|e| panic!("{e}"));
    verify::verify(&program).unwrap_or_else(|e| panic!("{e}"));
    let mut kernel = program.kernels.values().next().cloned().unwrap();
    rewrite(&program, &mut kernel);
    let kernel = renumber(&program, &kernel);
    let text = print::kernel(&program, &kernel);
    program.kernels.clear();
    program.body.clear();
    program.push_kernel(kernel);
    verify::verify(&program).unwrap_or_else(|e| panic!("{e}\n{text}"));
    text
}
