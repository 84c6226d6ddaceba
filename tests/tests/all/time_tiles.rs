//! Random stencils over time give the bits of the nest interpreter on every engine. CPUs run them
//! in time tiles, the smallest possible ones in tests.
//!
//! It runs 24 programs, or `PROPTEST_CASES`, the same ones each time unless `PROPTEST_RNG_SEED` is
//! set.

use std::cell::Cell;
use std::fmt::Write;

use ir::array::Array;
use ir::nest::Program;
use ir::sched::time_tiles::TimeTiles;
use ir::{Dtype, Scalar};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use schedule::{Machine, schedule};
use tests::generate::Choices;
use tests::generate::data::Random;

use crate::everywhere;

/// The numbers of rows, columns and iterations of each call.
const CALLS: [[usize; 3]; 7] = [[9, 4, 5], [40, 3, 7], [1, 1, 4], [0, 2, 3], [5, 0, 3], [23, 5, 1], [64, 2, 10]];

/// A program on its way to text.
struct Draft<'w> {
    choices: Choices<'w>,
    declarations: String,
    rank: usize,
    /// How many temporaries and values there are.
    temps: usize,
    values: usize,
}

impl Draft<'_> {
    fn program(words: &[u16]) -> String {
        let mut choices = Choices::new(words);
        let rank = 1 + choices.below(2);
        let mut draft = Draft { choices, declarations: String::new(), rank, temps: 0, values: 0 };
        let carried: Vec<[String; 2]> = (0..=draft.choices.below(2)).map(|_| [(); 2].map(|()| draft.temp())).collect();
        let heads: Vec<String> = carried.iter().map(|[now, next]| format!("%{now} = %x then %{next}")).collect();
        let mut seen: Vec<String> = carried.iter().map(|[now, _]| now.clone()).collect();
        let mut body = String::new();
        for [_, next] in &carried {
            for _ in 0..draft.choices.below(3) {
                let temp = draft.temp();
                body += &draft.stencil(&temp, &seen);
                seen.push(temp);
            }
            body += &draft.stencil(next, &seen);
            seen.push(next.clone());
        }
        let (axes, at) = (["[n]", "[n, m]"][rank - 1], ["i", "i, j"][rank - 1]);
        let mut results = String::new();
        for (n, [now, _]) in carried.iter().enumerate() {
            writeln!(draft.declarations, "output %y{n}: f32{axes}").unwrap();
            let copy = format!("v0 = load %{now}[{at}] store %y{n}[{at}], v0");
            writeln!(results, "kernel @y{n} {{ {} {{ {copy} }} }}", draft.loops()).unwrap();
        }
        let columns = ["", "symbol m = dim 1 of input 0"][rank - 1];
        format!(
            "program @p {{ symbol n = dim 0 of input 0 {columns} symbol t = value of input 1
               input %x: f32{axes} input %t: i64 {}
               repeat t with {} {{ {body} }} {results} }}",
            draft.declarations,
            heads.join(", ")
        )
    }

    fn loops(&self) -> &'static str {
        ["parallel i < n", "parallel i < n, j < m"][self.rank - 1]
    }

    fn temp(&mut self) -> String {
        self.temps += 1;
        let axes = ["[n]", "[n, m]"][self.rank - 1];
        writeln!(self.declarations, "temp %b{}: f32{axes}", self.temps).unwrap();
        format!("b{}", self.temps)
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("v{}", self.values - 1)
    }

    /// A kernel that stores an array from neighbouring elements of others, inside the borders that
    /// these need.
    fn stencil(&mut self, to: &str, from: &[String]) -> String {
        self.values = 0;
        let (before, after) = (self.choices.below(3), self.choices.below(3));
        let side = self.choices.below(2);
        let mut text = String::new();
        let mut holds: Option<String> = None;
        let mut require = |draft: &mut Draft<'_>, index: &str, least: usize, most: String| {
            let [at, low, above, high, below, both] = [(); 6].map(|()| draft.value());
            write!(text, "{at} = affine {index} {low} = const i64 {least} {above} = ge {at}, {low} ").unwrap();
            write!(text, "{high} = affine {most} {below} = lt {at}, {high} {both} = and {above}, {below} ").unwrap();
            if let Some(other) = holds.replace(both.clone()) {
                let all = draft.value();
                write!(text, "{all} = and {other}, {both} ").unwrap();
                holds = Some(all);
            }
        };
        require(self, "i", before, format!("n - {after}"));
        if self.rank == 2 {
            require(self, "j", side, format!("m - {side}"));
        }
        let center = ["i", "i, j"][self.rank - 1];
        let [inside, outside] = [(); 2].map(|()| self.value());
        let mut then = format!("{inside} = const f32 0.25 ");
        let mut sum = inside;
        for _ in 0..=self.choices.below(3) {
            let row = self.choices.below(before + after + 1) as i64 - before as i64;
            let column = self.choices.below(2 * side + 1) as i64 - side as i64;
            let at = [format!("i + {row}"), format!("i + {row}, j + {column}")][self.rank - 1].replace("+ -", "- ");
            let array = self.choices.pick(from).unwrap().clone();
            let [element, next] = [(); 2].map(|()| self.value());
            let op = self.choices.pick(&["sub", "add", "max"]).unwrap().to_owned();
            write!(then, "{element} = load %{array}[{at}] {next} = {op} {element}, {sum} ").unwrap();
            sum = next;
        }
        let array = self.choices.pick(from).unwrap().clone();
        let result = self.value();
        let condition = holds.unwrap_or_default();
        format!(
            "kernel @{to} {{ {} {{ {text} {result} = if {condition} {{ {then} yield {sum} }} else {{
               {outside} = load %{array}[{center}] yield {outside} }} store %{to}[{center}], {result} }} }}\n",
            self.loops()
        )
    }
}

#[test]
fn engines_agree_on_stencils_over_time() {
    let config = Config { max_shrink_iters: 300, ..crate::random_cases(24, 5) };
    let (programs, tiled) = (Cell::new(0), Cell::new(0));
    let held = TestRunner::new(config).run(&(vec(any::<u16>(), 20..120), any::<u64>()), |(words, seed)| {
        let text = Draft::program(&words);
        let program: Program = text.parse().map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        let scheduled = schedule(&program, Machine::CPU).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        let repeats = scheduled.program.repeats();
        programs.set(programs.get() + 1);
        tiled.set(tiled.get() + usize::from(repeats.iter().all(|r| TimeTiles::of(&scheduled, r).is_some())));
        let rank = program.buffers[program.inputs()[0]].shape.len();
        let mut random = Random::new(seed);
        let mut call = |[n, m, t]: [usize; 3]| {
            let shape = &[n, m][..rank];
            let mut element = || Scalar::F32(random.below(64) as f32 / 8.0 - 4.0);
            let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| element()).collect();
            let array = Array::from_scalars(Dtype::F32, shape, &elements).unwrap();
            vec![array, Array::scalar(Scalar::I64(t as i64))]
        };
        let calls: Vec<Vec<Array>> = CALLS.into_iter().map(&mut call).collect();
        everywhere::run(&program, seed, &calls).map(|_| ()).map_err(TestCaseError::fail)
    });
    println!("{} of {} programs in time tiles", tiled.get(), programs.get());
    held.unwrap_or_else(|error| panic!("{error}"));
    assert!(tiled.get() * 2 > programs.get());
}
