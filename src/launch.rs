//! Describes as data how a host program launches the kernels of a function's PTX for some sizes.

use backends::ptx::{Facts, Module, Word};
use ir::array::byte_len;
use ir::bind::{Binding, Given};
use ir::nest::{BufferId, Program, SymbolSource};
use ir::{Dtype, Scalar, Size, SymbolId};
use reports::launches::{self, Argument, Array, Check, Contents, Launch, Launches, Scratch};
use schedule::{Machine, schedule};

use crate::error::Context;
use crate::lowered::Lowered;
use crate::{CompileError, Function, Options, RunError};

/// The shared memory that a block has on every device that the kernels are made for.
const SHARED: usize = 99 << 10;
/// The multiprocessors that the number of blocks suits, where it matters. Any device runs them.
const MULTIPROCESSORS: u32 = 128;

/// The reason why the launches cannot be described.
#[derive(Debug)]
pub enum LaunchError {
    /// A size is missing, unknown or invalid.
    Sizes(String),
    /// The function cannot be compiled.
    Compile(CompileError),
    /// It cannot be called with these sizes.
    Run(RunError),
}

/// An argument of a call that is planned but not made.
struct Planned {
    dtype: Dtype,
    shape: Vec<usize>,
    scalar: Option<Scalar>,
}

impl Given for Planned {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn scalar(&self) -> Option<Scalar> {
        self.scalar
    }
}

impl From<CompileError> for LaunchError {
    fn from(error: CompileError) -> LaunchError {
        LaunchError::Compile(error)
    }
}

/// Describes the launches of a function for a call of these sizes, as JSON. Integer parameters
/// count as sizes.
pub(crate) fn describe(
    function: &Function<'_>,
    options: &Options,
    sizes: &[(&str, i64)],
) -> Result<String, LaunchError> {
    let lowered = Lowered::new(function, options)?;
    let program = &lowered.program;
    let scheduled = schedule(program, Machine::PTX).map_err(CompileError::from)?;
    let module = Module::compile_with(&scheduled, function.math(options)).map_err(CompileError::from)?;
    let module = module.for_later_devices();
    let values = match values(program, sizes) {
        Err(_) if sizes.is_empty() => {
            return Ok(launches::without_sizes(&lowered.signature, &module.target().to_string()));
        }
        values => values?,
    };
    let inputs = inputs(program, &values)?;
    let facts = Facts { shared: SHARED, target: module.target(), multiprocessors: MULTIPROCESSORS };
    let context = Context { source: &lowered.source, program, signature: &lowered.signature };
    let plan = module.plan_for(&inputs, facts).map_err(|e| LaunchError::Run(context.cpu(e, &inputs)))?;
    let binding = Binding::new(program, &inputs).map_err(|e| LaunchError::Run(context.bind(e, &inputs)))?;
    let array = |id: &BufferId| {
        let buffer = &program.buffers[*id];
        let shape = binding.shape(program, *id).unwrap_or_default();
        let bytes = byte_len(buffer.dtype, &shape).unwrap_or(usize::MAX);
        Array { name: buffer.name.clone(), dtype: buffer.dtype.name(), shape, bytes }
    };
    let (parameters, results): (Vec<_>, Vec<_>) =
        (program.inputs().iter().map(array).collect(), program.outputs().iter().map(array).collect());
    let argument = |word: &Word| match word {
        Word::Number(number) => Argument::Number(*number),
        Word::Own(at) => Argument::Scratch(*at),
        Word::Input(n) => Argument::Parameter(parameters[*n].name.clone()),
        Word::Output(n) => Argument::Result(results[*n].name.clone()),
    };
    let launches = plan.launches.iter().map(|launch| Launch {
        kernel: launch.kernel.clone(),
        grid: [launch.blocks, 1, 1],
        block: [launch.threads, 1, 1],
        shared: launch.shared,
        arguments: launch.arguments.iter().map(argument).collect(),
    });
    let launches = launches.collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let contents = plan.contents().map(|(at, bytes)| Contents { at, hex: hex(bytes) }).collect();
    let sites: Vec<String> = program.sites.keys().map(|site| lowered.site(site)).collect();
    let launches = Launches {
        function: program.name.clone(),
        target: module.target().to_string(),
        sizes: sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
        scratch: Scratch { bytes: plan.own, contents },
        parameters,
        results,
        launches,
        check: (!sites.is_empty()).then_some(Check { at: 0, sites }),
    };
    Ok(launches.to_json())
}

/// The value of each size, by symbol number; a length without a name counts as 0.
fn values(program: &Program, sizes: &[(&str, i64)]) -> Result<Vec<i64>, LaunchError> {
    let mut named: Vec<SymbolId> = vec![];
    for id in program.inputs() {
        program.buffers[id].shape.iter().for_each(|size| size.for_each_symbol(&mut |s| named.push(s)));
    }
    let is_scalar = |s: SymbolId| matches!(program.symbols[s].source, SymbolSource::Scalar { .. });
    let wanted: Vec<SymbolId> = program.symbols.keys().filter(|s| is_scalar(*s) || named.contains(s)).collect();
    let list = |names: Vec<&str>| names.iter().map(|name| format!("{name}=N")).collect::<Vec<_>>().join(" ");
    let name = |s: &SymbolId| program.symbols[*s].name.as_str();
    let given = |s: &SymbolId| sizes.iter().any(|(given, _)| *given == name(s));
    let missing: Vec<&str> = wanted.iter().filter(|s| !given(s)).map(name).collect();
    if !missing.is_empty() {
        return Err(LaunchError::Sizes(format!(
            "the launches depend on sizes that are not given: add {}",
            list(missing)
        )));
    }
    if let Some((other, _)) = sizes.iter().find(|(given, _)| !wanted.iter().any(|s| name(s) == *given)) {
        return Err(LaunchError::Sizes(format!(
            "there is no size `{other}`: the function has {}",
            list(wanted.iter().map(name).collect())
        )));
    }
    let value = |s: SymbolId| {
        sizes.iter().find(|(given, _)| wanted.contains(&s) && *given == name(&s)).map_or(0, |(_, size)| *size)
    };
    Ok(program.symbols.keys().map(value).collect())
}

/// The arguments of the function, as far as sizes determine them.
fn inputs(program: &Program, values: &[i64]) -> Result<Vec<Planned>, LaunchError> {
    let value = |s: SymbolId| values[s.as_u32() as usize];
    let length = |size: &Size| {
        let length = size.eval(&value).ok().and_then(|n| usize::try_from(n).ok());
        length.ok_or_else(|| LaunchError::Sizes("a size is negative, or has no value".to_owned()))
    };
    let scalar = |input: usize, dtype: Dtype| {
        let own = |s: &SymbolId| program.symbols[*s].source == SymbolSource::Scalar { input };
        program.symbols.keys().find(own).map(|s| interp::scalar::cast(dtype, Scalar::I64(value(s))))
    };
    let planned = program.inputs().into_iter().enumerate().map(|(input, id)| {
        let buffer = &program.buffers[id];
        let shape = buffer.shape.iter().map(length).collect::<Result<_, _>>()?;
        Ok(Planned { dtype: buffer.dtype, shape, scalar: scalar(input, buffer.dtype) })
    });
    planned.collect()
}
