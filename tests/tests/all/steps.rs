//! Random programs with loops over kernels give the bits of the nest interpreter on every engine:
//! compiled with 1 and 2 threads at two widths, as objects, and as PTX on the emulator; unfused,
//! fused as the cost model decides, and with random legal merges. Loops nest, carry several buffers
//! that may begin with the same contents, run no, one, or several iterations, and end at exits. The
//! predicted loads and stores are those that the interpreter counts.
//!
//! It runs 12 programs, or `PROPTEST_CASES`, the same ones each time unless `PROPTEST_RNG_SEED` is
//! set.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use backends::cpu::Simd;
use compiler::pipeline::Options;
use fuzzing::objects::{Object, is_possible};
use ir::array::{Array, ArrayRef};
use ir::nest::{Program, Repeat};
use ir::{Dtype, Scalar};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tests::engines::{Engine, Form, Outcome};
use tests::generate::Choices;
use tests::generate::data::Random;

use crate::everywhere;

/// The declarations of every program. `%c`, `%k`, `%z`, `%t` and `%u` are scalars.
const DECLARATIONS: &str = "
  symbol n = dim 0 of input 0
  symbol m = dim 0 of input 2
  symbol t = value of input 3
  symbol u = value of input 4
  input %x: f32[n]
  input %i: i64[n]
  input %g: f32[m, n]
  input %t: i64
  input %u: i64
  constant %c: f32 = [1.5]
  constant %k: i64 = [3]
  constant %z: i64 = [0]
  site0 = axis 0 of \"a\" at 0..0
";

/// The values of `n`, `m`, `t` and `u` in each call.
const CALLS: [[i64; 4]; 7] =
    [[5, 3, 2, 1], [0, 2, 1, 2], [1, 1, 3, 0], [7, 0, 0, 3], [33, 2, 1, -1], [2, 3, 4, 1], [600, 2, 1, 1]];

/// The numbers of iterations of loops, the simplest first. They are small, since loops nest.
const TRIPS: [&str; 9] = ["2", "t", "1", "0", "u", "m", "t + u", "t - 1", "3"];

/// An array of the program. Its shape is that of `%c`, `%x` or `%g`.
#[derive(Clone)]
struct Buffer {
    name: String,
    dtype: Dtype,
    rank: usize,
}

/// A program on its way to text.
struct Draft<'w> {
    choices: Choices<'w>,
    declarations: String,
    /// How many names there are.
    names: usize,
    /// How many values the kernel has.
    values: usize,
    /// The buffers with contents here.
    visible: Vec<Buffer>,
}

impl Draft<'_> {
    fn program(words: &[u16]) -> String {
        let given = [("x", Dtype::F32, 1), ("i", Dtype::I64, 1), ("g", Dtype::F32, 2), ("t", Dtype::I64, 0)];
        let given = given.into_iter().chain([("u", Dtype::I64, 0), ("c", Dtype::F32, 0), ("k", Dtype::I64, 0)]);
        let visible = given.map(|(name, dtype, rank)| Buffer { name: name.to_owned(), dtype, rank }).collect();
        let declarations = DECLARATIONS.to_owned();
        let mut draft = Draft { choices: Choices::new(words), declarations, names: 0, values: 0, visible };
        let mut tree = String::new();
        for _ in 0..=draft.choices.below(2) {
            for _ in 0..draft.choices.below(3) {
                tree += &draft.kernel(None, 0);
            }
            let before = draft.visible.len();
            tree += &draft.repeat(0);
            for _ in 0..draft.choices.below(3) {
                tree += &draft.node(0);
            }
            let made = draft.visible[before..].to_vec();
            for result in made {
                if !draft.choices.chance(40) {
                    let output = draft.declare("output", result.dtype, result.rank);
                    tree += &draft.map(&output, &result);
                    draft.visible.push(output);
                }
            }
        }
        let output = draft.declare("output", Dtype::F32, 1);
        tree += &draft.kernel(Some(output), 0);
        format!("program @p {{ {} {tree} }}", draft.declarations)
    }

    fn declare(&mut self, role: &str, dtype: Dtype, rank: usize) -> Buffer {
        self.names += 1;
        let name = format!("b{}", self.names);
        let shape = ["", "[n]", "[m, n]"][rank];
        writeln!(self.declarations, "  {role} %{name}: {dtype}{shape}").unwrap();
        Buffer { name, dtype, rank }
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("v{}", self.values - 1)
    }

    fn any_visible(&mut self) -> Buffer {
        // The last ones are the most telling.
        let back = self.choices.below(self.visible.len());
        self.visible[self.visible.len() - 1 - back].clone()
    }

    /// A kernel or a loop. `depth` is the number of loops around it.
    fn node(&mut self, depth: usize) -> String {
        if depth < 3 && self.choices.chance(35) { self.repeat(depth) } else { self.kernel(None, depth) }
    }

    fn repeat(&mut self, depth: usize) -> String {
        let mut trips = self.choices.pick(&TRIPS).unwrap().to_owned();
        let outside = self.visible.clone();
        let (mut currents, mut nexts, mut heads) = (vec![], vec![], vec![]);
        let mut counted = String::new();
        if self.choices.chance(30) {
            let [number, next] = [(); 2].map(|()| self.declare("temp", Dtype::I64, 0));
            heads.push(format!("%{} = %z then %{}", number.name, next.name));
            counted = self.counted(&number, &next, trips);
            currents.push(number);
            trips = "forever";
        }
        for _ in 0..=self.choices.below(3) {
            let initial = self.any_visible();
            let [current, next] = [(); 2].map(|()| self.declare("temp", initial.dtype, initial.rank));
            heads.push(format!("%{} = %{} then %{}", current.name, initial.name, next.name));
            currents.push(current);
            nexts.push(next);
        }
        self.visible.extend(currents.iter().cloned());
        let mut body = counted;
        for next in nexts {
            for _ in 0..self.choices.below(3) {
                body += &self.node(depth + 1);
            }
            if self.choices.chance(25) {
                body += &self.exit();
            }
            body += &self.kernel(Some(next), depth + 1);
        }
        self.visible = outside;
        self.visible.extend(currents);
        format!("repeat {trips} with {} {{\n{body} }}\n", heads.join(", "))
    }

    /// Counts iterations, and ends the loop after some.
    fn counted(&mut self, number: &Buffer, next: &Buffer, trips: &str) -> String {
        let more = self.declare("temp", Dtype::Bool, 0);
        let load = format!("v0 = load %{}[]", number.name);
        let below = self.frame(&more, "", &format!("{load} v1 = affine {trips} v2 = lt v0, v1 STORE v2"));
        let add = self.frame(next, "", &format!("{load} v1 = const i64 1 v2 = add v0, v1 STORE v2"));
        format!("{below}exit unless %{}\n{add}", more.name)
    }

    /// Ends a loop if a scalar, or a sum, is small.
    fn exit(&mut self) -> String {
        let more = self.declare("temp", Dtype::Bool, 0);
        let from = self.any_visible();
        self.values = 0;
        let (loaded, value) = self.operand(&from, 0, from.dtype);
        let [limit, holds] = [(); 2].map(|()| self.value());
        let least = if from.dtype.is_float() { "-2.0" } else { "-2" };
        let compare = format!("{limit} = const {} {least} {holds} = gt {value}, {limit}", from.dtype);
        format!("{}exit unless %{}\n", self.frame(&more, "", &format!("{loaded}{compare} STORE {holds}")), more.name)
    }

    /// A kernel that stores a buffer: this one, or a new one.
    fn kernel(&mut self, to: Option<Buffer>, depth: usize) -> String {
        let to = to.unwrap_or_else(|| {
            let dtype = *self.choices.pick(&[Dtype::F32, Dtype::I64]).unwrap();
            let role = if depth == 0 && self.choices.chance(20) { "output" } else { "temp" };
            let rank = [1, 2, 0][self.choices.below(3)];
            self.declare(role, dtype, rank)
        });
        let from = self.any_visible();
        let text = match (self.choices.below(6), to.rank) {
            (3, 1) => self.scan(&to, &from),
            (4, 1) => self.gather(&to, &from),
            (5, 2) => self.rows(&to, &from),
            _ => self.map(&to, &from),
        };
        self.visible.push(to);
        text
    }

    fn frame(&mut self, to: &Buffer, loops: &str, body: &str) -> String {
        self.values = 0;
        let at = ["", "i", "j, i"][to.rank];
        let body = body.replace("STORE", &format!("store %{}[{at}],", to.name));
        if loops.is_empty() {
            return format!("kernel @k{} {{ {body} }}\n", to.name);
        }
        format!("kernel @k{} {{ {loops} {{ {body} }} }}\n", to.name)
    }

    /// An element of a buffer, or a sum of some, where there are the indices of this rank; as a
    /// value of this type.
    fn operand(&mut self, from: &Buffer, rank: usize, dtype: Dtype) -> (String, String) {
        let Buffer { name, dtype: own, rank: given } = from;
        let order = match (own.is_float(), given - rank.min(*given)) {
            (false, _) => "free",
            (true, 1) if *given == 2 => "blocks",
            (true, _) => "lanes",
        };
        let loaded = self.value();
        let [p, q] = [(); 2].map(|()| {
            self.names += 1;
            format!("p{}", self.names)
        });
        let turned = self.choices.chance(30);
        let reduce = |dims: String, at: String, sum: &str| {
            format!("{sum} = reduce {dims} {{ {loaded} = load %{name}[{at}] }} with sum {order} {loaded} ")
        };
        let (mut text, mut value) = match (given, rank) {
            (0, _) => (format!("{loaded} = load %{name}[] "), loaded),
            (1, 0) => {
                let sum = self.value();
                (reduce(format!("{p} < n"), p, &sum), sum)
            }
            (1, _) => {
                let at = if turned { "n - i - 1" } else { "i" };
                (format!("{loaded} = load %{name}[{at}] "), loaded)
            }
            (_, 0) => {
                let sum = self.value();
                (reduce(format!("{p} < m, {q} < n"), format!("{p}, {q}"), &sum), sum)
            }
            (_, 1) => {
                let sum = self.value();
                (reduce(format!("{p} < m"), format!("{p}, i"), &sum), sum)
            }
            _ => {
                let at = if turned { "m - j - 1" } else { "j" };
                (format!("{loaded} = load %{name}[{at}, i] "), loaded)
            }
        };
        if *own != dtype {
            let cast = self.value();
            write!(text, "{cast} = cast {dtype} {value} ").unwrap();
            value = cast;
        }
        (text, value)
    }

    fn combine(&mut self, a: &str, b: &str) -> (String, String) {
        let op = self.choices.pick(&["add", "sub", "max", "min", "mul"]).unwrap().to_owned();
        let value = self.value();
        (format!("{value} = {op} {a}, {b} "), value)
    }

    /// A buffer combined with another one, element by element.
    fn map(&mut self, to: &Buffer, from: &Buffer) -> String {
        let other = self.any_visible();
        let (first, a) = self.operand(from, to.rank, to.dtype);
        let (second, b) = self.operand(&other, to.rank, to.dtype);
        let (both, mut result) = self.combine(&a, &b);
        let mut body = format!("{first}{second}{both}");
        if self.choices.chance(30) {
            let (text, last) = self.carried(to, &result);
            body += &text;
            result = last;
        }
        let loops = ["", "parallel i < n", "parallel j < m, i < n"][to.rank];
        self.frame(to, loops, &format!("{body}STORE {result}"))
    }

    /// A loop that carries a value, from this one on, for an element of a buffer.
    fn carried(&mut self, to: &Buffer, first: &str) -> (String, String) {
        let dtype = to.dtype;
        let from = self.any_visible();
        let trips = self.choices.pick(&TRIPS).unwrap().to_owned();
        self.names += 1;
        let counter = format!("p{}", self.names);
        let [current, last] = [(); 2].map(|()| self.value());
        let mut text = format!("{last} = while {counter} < {trips} with {current} = {first} ");
        if self.choices.chance(60) {
            let [limit, holds] = [(); 2].map(|()| self.value());
            let least = if dtype.is_float() { "-2.0" } else { "-2" };
            write!(text, "if {{ {limit} = const {dtype} {least} {holds} = gt {current}, {limit} yield {holds} }} ")
                .unwrap();
        }
        let (loaded, element) = self.operand(&from, to.rank, dtype);
        let (both, next) = self.combine(&current, &element);
        write!(text, "do {{ {loaded}{both}yield {next} }} ").unwrap();
        (text, last)
    }

    /// Running sums.
    fn scan(&mut self, to: &Buffer, from: &Buffer) -> String {
        let from = Buffer { rank: 1, ..if from.rank == 1 { from.clone() } else { self.row() } };
        let (loaded, element) = self.operand(&from, 1, to.dtype);
        let prefix = self.value();
        self.frame(to, "scan i < n", &format!("{loaded}{prefix} = prefix sum {element} STORE {prefix}"))
    }

    /// Elements with subscripts from data, which are rarely out of bounds.
    fn gather(&mut self, to: &Buffer, from: &Buffer) -> String {
        let row = if from.rank == 1 { from.clone() } else { self.row() };
        let subscripts = self.any_visible();
        let (mut text, mut at) = self.operand(&subscripts, 1, Dtype::I64);
        if !self.choices.chance(10) {
            let [zero, low, last, high] = [(); 4].map(|()| self.value());
            let clamp = format!("{zero} = const i64 0 {low} = max {at}, {zero} {last} = affine n - 1 ");
            write!(text, "{clamp} {high} = min {low}, {last} ").unwrap();
            at = high;
        }
        let [checked, element] = [(); 2].map(|()| self.value());
        let load = format!("{checked} = check {at} < n at site0 {element} = load %{}[{checked}] ", row.name);
        text += &load;
        let mut result = element;
        if row.dtype != to.dtype {
            let cast = self.value();
            write!(text, "{cast} = cast {} {result} ", to.dtype).unwrap();
            result = cast;
        }
        self.frame(to, "parallel i < n", &format!("{text}STORE {result}"))
    }

    /// Rows combined with a reduction of each of them.
    fn rows(&mut self, to: &Buffer, from: &Buffer) -> String {
        let grid = if from.rank == 2 { from.clone() } else { self.visible[2].clone() };
        let [element, sum] = [(); 2].map(|()| self.value());
        let reduced =
            format!("{sum} = reduce p < n {{ {element} = load %{}[j, p] }} with max free {element} ", grid.name);
        let (mut outer, mut reduced_as) = (reduced, sum);
        if grid.dtype != to.dtype {
            let cast = self.value();
            write!(outer, "{cast} = cast {} {reduced_as} ", to.dtype).unwrap();
            reduced_as = cast;
        }
        let (inner, a) = self.operand(&grid, 2, to.dtype);
        let (both, result) = self.combine(&a, &reduced_as);
        self.frame(to, "parallel j < m", &format!("{outer}parallel i < n {{ {inner}{both}STORE {result} }}"))
    }

    /// A visible buffer of rank 1; the inputs are some.
    fn row(&mut self) -> Buffer {
        let rows: Vec<Buffer> = self.visible.iter().rev().filter(|buffer| buffer.rank == 1).cloned().collect();
        self.choices.pick(&rows).unwrap().clone()
    }
}

/// Small numbers; the sizes are those of a call.
fn inputs(program: &Program, sizes: [i64; 4], random: &mut Random) -> Vec<Array> {
    let array = |id| {
        let buffer = &program.buffers[id];
        match buffer.name.as_str() {
            "t" => return Array::scalar(Scalar::I64(sizes[2])),
            "u" => return Array::scalar(Scalar::I64(sizes[3])),
            _ => {}
        }
        let length = |size: &ir::Size| size.eval(&|s| sizes[s.as_u32() as usize]).unwrap();
        let shape: Vec<usize> = buffer.shape.iter().map(|n| usize::try_from(length(n)).unwrap()).collect();
        let mut element = || match buffer.dtype {
            Dtype::F32 => Scalar::F32(random.below(64) as f32 / 8.0 - 4.0),
            _ => Scalar::I64(random.below(9) - 2),
        };
        let elements: Vec<Scalar> = (0..shape.iter().product()).map(|_| element()).collect();
        Array::from_scalars(buffer.dtype, &shape, &elements).unwrap()
    };
    program.inputs().into_iter().map(array).collect()
}

/// Statistics over all programs.
#[derive(Debug, Default)]
struct Tally {
    loops: usize,
    nested: usize,
    carried: usize,
    exits: usize,
    /// Kernels before and after fusion as the cost model decides.
    kernels: (usize, usize),
    outcomes: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn program(&mut self, unfused: &Program, fused: &Program) {
        let repeats = unfused.repeats();
        let inner = |repeat: &&&Repeat| repeat.body.iter().any(|node| matches!(node, ir::nest::Node::Repeat(_)));
        self.loops += repeats.len();
        self.nested += repeats.iter().filter(inner).count();
        self.carried += unfused.carried().count();
        self.exits += repeats.iter().flat_map(|repeat| repeat.conditions()).count();
        self.kernels.0 += unfused.kernels.len();
        self.kernels.1 += fused.kernels.len();
    }
}

/// Runs a program in every way on every engine.
fn hold(words: &[u16], seed: u64, tally: &mut Tally) -> Result<(), String> {
    let text = Draft::program(words);
    let program: Program = text.parse().map_err(|error| format!("{error}\n{text}"))?;
    let mut random = Random::new(seed);
    let calls: Vec<Vec<Array>> = CALLS.into_iter().map(|sizes| inputs(&program, sizes, &mut random)).collect();
    let ran = everywhere::run(&program, seed, &calls)?;
    tally.program(&program, &ran.fused);
    for outcome in &ran.outcomes {
        *tally.outcomes.entry(name(outcome)).or_default() += 1;
    }
    Ok(())
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Results(_) => "results",
        Outcome::Refused(_) => "refused",
        Outcome::Fault(_) => "fault",
        Outcome::BeyondMemory | Outcome::Broken(_) => "broken",
    }
}

#[test]
fn engines_agree_on_loops() {
    let config = Config { max_shrink_iters: 300, ..crate::random_cases(12, 11) };
    let tally = RefCell::new(Tally::default());
    let held = TestRunner::new(config).run(&(vec(any::<u16>(), 20..160), any::<u64>()), |(words, seed)| {
        hold(&words, seed, &mut tally.borrow_mut()).map_err(TestCaseError::fail)
    });
    println!("{:?}", tally.into_inner());
    held.unwrap_or_else(|error| panic!("{error}"));
}

/// Sizes that a loop inside another one needs are known behind both.
#[test]
fn objects_share_sizes_with_inner_loops() {
    let copy = |from: &str, to: &str| {
        format!("kernel @{to} {{ parallel p < n {{ v0 = load %{from}[n - p - 1] store %{to}[p], v0 }} }}")
    };
    let text = format!(
        "program @p {{ {DECLARATIONS} output %y: f32[n] temp %a: f32[n] temp %a1: f32[n] temp %b: f32[n] temp %b1: f32[n]
         temp %d: f32[n] temp %d1: f32[n]
         repeat t with %a = %x then %a1 {{ repeat t + u with %b = %a then %b1 {{ {} }} {} }}
         repeat t + u with %d = %a then %d1 {{ {} }} {} }}",
        copy("b", "b1"),
        copy("b", "a1"),
        copy("d", "d1"),
        copy("d", "y"),
    );
    let program: Program = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let form = Form::of_nests(&program, &Options::default()).unwrap();
    if !is_possible() {
        return;
    }
    let object = Object::new(&form.program, Simd::Auto).unwrap();
    for sizes in CALLS {
        let inputs = inputs(&program, sizes, &mut Random::new(1));
        let inputs: Vec<ArrayRef<'_>> = inputs.iter().map(Array::as_ref).collect();
        let meant = form.run_nests(Engine::Nest, &inputs);
        assert_eq!(object.call(&inputs, &meant), Some(meant), "{sizes:?}");
    }
}
