//! The corpus: programs with their expected results, one rule of the language per file.
//!
//! A case is a comment line of the program itself:
//!
//! ```text
//! #! call f x=[1, 2, 3] s=0.5 -> [2, 4, 6]
//! #! call f x=[] -> s=f32 [] c=[]            # names and types of results where they matter
//! #! call f x=[1] y=[1, 2] -> refused 1 2    # the sizes that do not fit
//! #! call f x=[1] i=[7] -> fault 7 1         # the subscript and its bound
//! #! error f E0124                           # does not compile, for this reason
//! ```
//!
//! Elements are read as the parameter's (or result's) type; `AxB[]` is an empty array of that
//! shape, `iota(3, 4)` counts from 0 and `fill(n, v)` repeats.

use ir::array::Array;
use ir::bind::{BindError, Fault};
use ir::nest::{Program, Role};
use ir::{Dtype, Scalar};

use crate::engines::{Engine, Outcome, Rejected, Shown, compile};

/// A `#!` line.
#[derive(Clone, Debug)]
pub struct Case {
    /// The text after `#!`.
    pub text: String,
}

/// The cases of a file.
pub fn cases(source: &str) -> Vec<Case> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("#! "));
    lines.map(|text| Case { text: text.split("  #").next().unwrap_or(text).trim().to_owned() }).collect()
}

impl Case {
    /// The function that a call calls.
    pub fn entry(&self) -> Option<&str> {
        self.text.strip_prefix("call ")?.split(' ').next()
    }

    /// The arguments of a call of that function.
    pub fn inputs(&self, program: &Program) -> Result<Vec<Array>, String> {
        let text = self.text.strip_prefix("call ").and_then(|text| text.split_once("->")).ok_or("not a call")?;
        let mut head = Reader { rest: text.0 };
        head.word();
        arguments(&mut head, program)
    }

    /// Checks the case on every engine.
    pub fn check(&self, source: &str) -> Result<(), String> {
        match self.text.split_once(' ') {
            Some(("call", rest)) => call(source, rest),
            Some(("error", rest)) => error(source, rest),
            _ => Err(format!("not a case: {}", self.text)),
        }
    }
}

fn error(source: &str, text: &str) -> Result<(), String> {
    let (entry, wanted) = text.split_once(' ').ok_or("an error needs a function and a code")?;
    match compile(source, entry) {
        Ok(_) => Err(format!("compiles, but {wanted} was expected")),
        Err(Rejected::Compiler(message)) => Err(message),
        Err(Rejected::Source(diagnostics)) => {
            let found: Vec<String> = diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
            let is_wanted = found.first().is_some_and(|first| first.contains(wanted));
            if is_wanted { Ok(()) } else { Err(format!("expected {wanted}, found {}", found.join("; "))) }
        }
    }
}

fn call(source: &str, text: &str) -> Result<(), String> {
    let (head, wanted) = text.split_once("->").ok_or("a call needs `->`")?;
    let mut head = Reader { rest: head };
    let entry = head.word().ok_or("a call needs a function")?;
    let compiled = match compile(source, entry) {
        Ok(compiled) => compiled,
        Err(Rejected::Compiler(message)) => return Err(message),
        Err(Rejected::Source(diagnostics)) => {
            let found: Vec<String> = diagnostics.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
            return Err(format!("does not compile: {}", found.join("; ")));
        }
    };
    let program = compiled.program();
    let inputs = arguments(&mut head, program)?;
    let borrowed: Vec<_> = inputs.iter().map(Array::as_ref).collect();
    let names: Vec<&str> = program.outputs().iter().map(|id| program.buffers[*id].name.as_str()).collect();
    debug_assert!(program.outputs().iter().all(|id| matches!(program.buffers[*id].role, Role::Output(_))));
    compiled.hold(&borrowed)?;
    let emulated = inputs.iter().all(is_small).then_some(Engine::Ptx);
    for engine in Engine::ALL.into_iter().chain(emulated) {
        let outcome = compiled.run(engine, &borrowed);
        compare(&outcome, &names, wanted.trim()).map_err(|why| format!("{engine:?}: {why}"))?;
    }
    Ok(())
}

/// Whether a call with the array is short enough for the emulator: few elements, and no number that
/// may be the length of long arrays.
fn is_small(array: &Array) -> bool {
    const MOST: usize = 1_000;
    let is_long = |number| matches!(interp::scalar::cast(Dtype::I64, number), Scalar::I64(n) if n > MOST as i64);
    array.len() <= MOST && !(array.shape().is_empty() && array.get(0).is_some_and(is_long))
}

/// The arguments of a call.
fn arguments(head: &mut Reader<'_>, program: &Program) -> Result<Vec<Array>, String> {
    let mut inputs = vec![];
    for id in program.inputs() {
        let buffer = &program.buffers[id];
        let name = head.name().ok_or_else(|| format!("no value for `{}`", buffer.name))?;
        if name != buffer.name {
            return Err(format!("a value for `{name}` where `{}` was expected", buffer.name));
        }
        inputs.push(head.array(buffer.dtype)?);
    }
    Ok(inputs)
}

/// Compares an outcome with the text after `->`.
fn compare(outcome: &Outcome, names: &[&str], wanted: &str) -> Result<(), String> {
    let differs = || Err(format!("expected {wanted}, found {outcome:?}"));
    let mut reader = Reader { rest: wanted };
    let mut numbers = |word: &str| -> Option<Vec<i64>> {
        let rest = wanted.strip_prefix(word)?;
        reader.rest = "";
        rest.split_whitespace().map(|n| n.parse().ok()).collect()
    };
    if let Some(wanted) = numbers("refused") {
        return match outcome {
            Outcome::Refused(_) if wanted.is_empty() => Ok(()),
            Outcome::Refused(BindError::Requirement { left, right, .. }) => {
                let same = wanted == [*left, *right] || wanted == [*right, *left];
                if same { Ok(()) } else { differs() }
            }
            Outcome::Refused(BindError::Length { value: Ok(length), .. }) if wanted == [*length] => Ok(()),
            _ => differs(),
        };
    }
    if let Some(wanted) = numbers("fault") {
        return match outcome {
            Outcome::Fault(Fault { index, bound, .. }) if wanted == [*index, *bound] => Ok(()),
            _ => differs(),
        };
    }
    let Outcome::Results(results) = outcome else { return differs() };
    let mut reader = Reader { rest: wanted };
    for (result, name) in results.iter().zip(names) {
        if let Some(wanted) = reader.name()
            && wanted != *name
        {
            return Err(format!("a result is called `{name}`, expected `{wanted}`"));
        }
        if let Some(dtype) = reader.dtype()
            && dtype != result.dtype()
        {
            return Err(format!("`{name}` is {}, expected {dtype}", result.dtype()));
        }
        let wanted = reader.array(result.dtype())?;
        if wanted != *result {
            return Err(format!("`{name}`: expected {:?}, found {:?}", Shown(&wanted), Shown(result)));
        }
    }
    if reader.rest.trim().is_empty() { Ok(()) } else { Err(format!("more was expected: {}", reader.rest)) }
}

/// Reads words and arrays.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// The next word.
    fn word(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// A name followed by `=`, if that comes next.
    fn name(&mut self) -> Option<&'a str> {
        let before = self.rest;
        if let Some(word) = self.word()
            && let Some(rest) = self.rest.strip_prefix('=')
        {
            self.rest = rest;
            return Some(word);
        }
        self.rest = before;
        None
    }

    /// A type, if that comes next.
    fn dtype(&mut self) -> Option<Dtype> {
        let before = self.rest;
        let dtype = self.word().and_then(Dtype::from_name);
        if dtype.is_none() {
            self.rest = before;
        }
        dtype
    }

    /// An array or scalar of the given type.
    fn array(&mut self, dtype: Dtype) -> Result<Array, String> {
        self.rest = self.rest.trim_start();
        let make = |shape: &[usize], elements: &[Scalar]| {
            Array::from_scalars(dtype, shape, elements).map_err(|error| error.to_string())
        };
        if let Some(arguments) = self.arguments("iota(") {
            let shape: Vec<usize> = arguments
                .iter()
                .map(|n| n.parse().map_err(|_| format!("not a size: {n}")))
                .collect::<Result<_, _>>()?;
            let elements: Result<Vec<Scalar>, String> =
                (0..shape.iter().product::<usize>()).map(|n| scalar(dtype, &n.to_string())).collect();
            return make(&shape, &elements?);
        }
        if let Some(arguments) = self.arguments("fill(") {
            let [count, value] = arguments.as_slice() else { return Err("fill(n, v)".into()) };
            let count = count.parse().map_err(|_| format!("not a size: {count}"))?;
            return make(&[count], &vec![scalar(dtype, value)?; count]);
        }
        if let Some((shape, rest)) = self.rest.split_once("[]")
            && shape.contains('x')
            && let Ok(shape) = shape.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>()
        {
            self.rest = rest;
            return make(&shape, &[]);
        }
        let mut shape = vec![];
        let mut elements = vec![];
        self.nested(dtype, 0, &mut shape, &mut elements)?;
        make(&shape, &elements)
    }

    fn arguments(&mut self, head: &str) -> Option<Vec<&'a str>> {
        let (inner, rest) = self.rest.strip_prefix(head)?.split_once(')')?;
        self.rest = rest;
        Some(inner.split(',').map(str::trim).collect())
    }

    fn nested(
        &mut self,
        dtype: Dtype,
        depth: usize,
        shape: &mut Vec<usize>,
        elements: &mut Vec<Scalar>,
    ) -> Result<(), String> {
        let Some(inner) = self.rest.strip_prefix('[') else {
            let end = self.rest.find([',', ']', ' ']).unwrap_or(self.rest.len());
            elements.push(scalar(dtype, &self.rest[..end])?);
            self.rest = &self.rest[end..];
            return Ok(());
        };
        self.rest = inner.trim_start();
        let mut count = 0;
        if shape.len() == depth {
            shape.push(0);
        }
        while !self.rest.starts_with(']') {
            if self.rest.is_empty() {
                return Err("a bracket is open".into());
            }
            self.nested(dtype, depth + 1, shape, elements)?;
            count += 1;
            self.rest = self.rest.trim_start().trim_start_matches(',').trim_start();
        }
        self.rest = &self.rest[1..];
        shape[depth] = count;
        Ok(())
    }
}

/// A number as text, as a type.
fn scalar(dtype: Dtype, text: &str) -> Result<Scalar, String> {
    let found = Scalar::parse(dtype, text);
    found.ok_or_else(|| format!("not a value of type {dtype}: `{text}`"))
}
