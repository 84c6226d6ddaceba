//! Runs ahead-of-time objects in the process that compiled them: the system linker makes a shared
//! library of the object, `dlopen` loads it, and its functions are called with the types that the
//! header declares.
//!
//! It is a crate of its own because it is unsafe, unlike the rest of the differential tester.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use backends::cpu::object::{Function, Settings, Status, Target, header, object};
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, Type};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use guarded::{Edge, Guarded};
use ir::array::{Array, ArrayRef};
use ir::bind::Binding;
use ir::nest::{BufferId, Program, Purpose, Relation, SymbolSource};
use ir::{Dtype, SymbolId};
use libloading::Library;
use schedule::{Machine, schedule};
use tempfile::TempDir;

/// A program loaded as a shared library.
pub struct Opened {
    program: Program,
    shared: Library,
    compute: Caller,
    query: Caller,
    _folder: TempDir,
}

/// The outcome of a call.
#[derive(Debug)]
pub struct Reply {
    /// The library's text for the status: [`Status`] as `{:?}` prints it; `None` on success.
    pub status: Option<String>,
    /// The number found and the one wanted.
    pub numbers: [i64; 2],
    /// The results. On failure they still hold what they held before the call.
    pub results: Vec<Array>,
}

const NAME: &str = "f";
const COMPUTE: &str = "fl_f";
const QUERY: &str = "fl_f_query";
const ERROR: &str = "fl_f_error";

/// Whether this machine can link objects and open them.
pub fn is_possible() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    let asked = || Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    cfg!(target_os = "linux") && *THERE.get_or_init(asked)
}

impl Opened {
    /// Compiles a program, links it with `cc` and loads the library.
    pub fn new(program: &Program, target: Target) -> Result<Opened, String> {
        let program = Program { name: NAME.to_owned(), ..program.clone() };
        let text = |status: Status| format!("{status:?}");
        let scheduled = schedule(&program, Machine::OBJECT).map_err(|e| e.to_string())?;
        let functions =
            [Function { scheduled: &scheduled, signature: String::new(), comment: String::new(), text: &text }];
        let settings = Settings { target, prefix: "fl_", origin: "program" };
        let object = object(&functions, &settings).map_err(|e| e.to_string())?;
        let header = header(&functions, &settings);
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        std::fs::write(folder.path().join("object.o"), object).map_err(|e| e.to_string())?;
        let mut link = Command::new("cc");
        link.current_dir(folder.path()).args(["-shared", "-o", "object.so", "object.o", "-lm"]);
        let done = link.output().map_err(|e| format!("cc: {e}"))?;
        if !done.status.success() {
            return Err(format!("cc: {}", String::from_utf8_lossy(&done.stderr)));
        }
        let shared = open(&folder.path().join("object.so"))?;
        let compute = Caller::new(&params(&header, COMPUTE)?)?;
        let query = Caller::new(&params(&header, QUERY)?)?;
        Ok(Opened { program, shared, compute, query, _folder: folder })
    }

    /// Calls the function on arrays with no mapped memory next to them, and with results filled
    /// with `fill`. `None` if the call cannot be expressed in C, which has one parameter for each
    /// length, so all arrays that declare that length have to agree.
    pub fn call(&self, inputs: &[ArrayRef<'_>], fill: fn(Dtype) -> u8) -> Result<Option<Reply>, String> {
        let program = &self.program;
        let param = |id: &BufferId| (program.buffers[*id].dtype, program.buffers[*id].shape.len());
        let params: Vec<_> = program.inputs().iter().map(param).collect();
        let Ok(binding) = Binding::of_call(&program.symbols, &params, &[], inputs) else { return Ok(None) };
        let mut declared = program.requires.iter().filter(|r| r.purpose == Purpose::Declared);
        let differs = declared.any(|r| binding.size(&r.left) != binding.size(&r.right));
        if differs || self.sizes().any(|s| binding.symbol(s) < 0) {
            return Ok(None);
        }
        let sizes: Vec<u64> = self.sizes().map(|s| binding.symbol(s) as u64).collect();
        let scalars = program.symbols.values().filter_map(|symbol| match symbol.source {
            SymbolSource::Scalar { input } => Some(word(&inputs[input])),
            SymbolSource::Dimension { .. } | SymbolSource::Solved { .. } => None,
        });
        let shaped: Vec<usize> = program.outputs().iter().map(|id| program.buffers[*id].shape.len()).collect();
        let mut needs = vec![0i64; 1 + shaped.iter().sum::<usize>()];
        let mut numbers = [0i64; 2];
        let mut words: Vec<u64> = sizes.iter().copied().chain(scalars).collect();
        words.extend([needs.as_mut_ptr() as u64, numbers.as_mut_ptr() as u64]);
        // SAFETY: the query writes as many numbers as there are in `needs`, and two to `numbers`.
        let status = unsafe { self.query.call(self.symbol(QUERY)?, &words) }?;
        if status != 0 {
            return Ok(Some(Reply { status: Some(self.text(status)?), numbers, results: vec![] }));
        }

        let guarded = |bytes: &[u8], edge| Guarded::of(bytes, edge).ok_or("no memory");
        let edge = if needs.iter().sum::<i64>() % 2 == 0 { Edge::Front } else { Edge::Back };
        let scratch_bytes = usize::try_from(needs[0]).map_err(|e| e.to_string())?;
        let mut own = vec![];
        for input in inputs {
            own.push(guarded(input.bytes(), edge)?);
        }
        let (mut results, mut room, mut lengths) = (vec![], vec![], &needs[1..]);
        for (id, rank) in program.outputs().iter().zip(&shaped) {
            let (these, rest) = lengths.split_at(*rank);
            lengths = rest;
            let shape: Result<Vec<usize>, _> = these.iter().map(|n| usize::try_from(*n)).collect();
            let dtype = program.buffers[*id].dtype;
            let mut result = Array::zeros(dtype, &shape.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
            result.bytes_mut().fill(fill(dtype));
            room.push(guarded(result.bytes(), edge)?);
            results.push(result);
        }
        let mut scratch = guarded(&vec![0xa5; scratch_bytes], Edge::Front)?;
        let mut words = sizes;
        for (input, own) in inputs.iter().zip(&own) {
            words.push(if input.shape().is_empty() { word(input) } else { own.bytes().as_ptr() as u64 });
        }
        words.extend(room.iter_mut().map(|room| room.bytes_mut().as_mut_ptr() as u64));
        words.extend([scratch.bytes_mut().as_mut_ptr() as u64, needs[0] as u64, numbers.as_mut_ptr() as u64]);
        // SAFETY: inputs have the lengths that the sizes say, results and scratch memory those that
        // the query says.
        let status = unsafe { self.compute.call(self.symbol(COMPUTE)?, &words) }?;
        for (result, room) in results.iter_mut().zip(&room) {
            result.bytes_mut().copy_from_slice(room.bytes());
        }
        let status = if status == 0 { None } else { Some(self.text(status)?) };
        Ok(Some(Reply { status, numbers, results }))
    }

    /// The lengths that are parameters: those that no declaration determines.
    fn sizes(&self) -> impl Iterator<Item = SymbolId> {
        let requires = &self.program.requires;
        let is_declared = |s| {
            let mut declared =
                requires.iter().filter(|r| r.purpose == Purpose::Declared && r.relation == Relation::Equal);
            declared.any(|r| r.left.as_symbol() == Some(s))
        };
        let lengths = self.program.symbols.iter().filter(|(_, s)| s.source.is_length());
        lengths.map(|(s, _)| s).filter(move |s| !is_declared(*s))
    }

    fn symbol(&self, name: &str) -> Result<*const u8, String> {
        // SAFETY: the symbol is a function, and its address is a pointer; it is not called here.
        let symbol = unsafe { self.shared.get::<*const u8>(name) }.map_err(|e| e.to_string())?;
        Ok(*symbol)
    }

    /// The library's text of a status.
    fn text(&self, status: i32) -> Result<String, String> {
        let function = self.symbol(ERROR)?;
        // SAFETY: the object defines the function, and the header declares it with this type.
        let function = unsafe { std::mem::transmute::<*const u8, extern "C" fn(i32) -> *const c_char>(function) };
        // SAFETY: the function returns a static, null-terminated text for every status.
        Ok(unsafe { CStr::from_ptr(function(status)) }.to_string_lossy().into_owned())
    }
}

/// The element of a scalar, in the low bytes of a word.
fn word(scalar: &ArrayRef<'_>) -> u64 {
    let mut word = [0; 8];
    word[..scalar.bytes().len()].copy_from_slice(scalar.bytes());
    u64::from_le_bytes(word)
}

/// The types of a function's parameters as the header declares them.
fn params(header: &str, function: &str) -> Result<Vec<Type>, String> {
    let head = format!("int32_t {function}(");
    let params = header.lines().find_map(|line| line.strip_prefix(&head)?.strip_suffix(");"));
    params.ok_or_else(|| format!("the header has no {function}"))?.split(", ").map(machine_type).collect()
}

fn open(path: &Path) -> Result<Library, String> {
    // SAFETY: our objects have no constructors or destructors, so loading and unloading runs no
    // code.
    unsafe { Library::new(path) }.map_err(|e| e.to_string())
}

/// The machine type in which a parameter with this declaration in C is passed.
fn machine_type(declared: &str) -> Result<Type, String> {
    if declared.contains('*') {
        return Ok(I64);
    }
    Ok(match declared.split(' ').next().unwrap_or("") {
        "bool" | "int8_t" | "uint8_t" => I8,
        "int16_t" | "uint16_t" => I16,
        "int32_t" | "uint32_t" => I32,
        "int64_t" | "uint64_t" => I64,
        "float" => F32,
        "double" => F64,
        _ => return Err(format!("`{declared}` has an unknown type")),
    })
}

/// Code that loads arguments from an array of words and calls a function with them.
struct Caller {
    params: usize,
    module: Option<JITModule>,
    code: extern "C" fn(*const u8, *const u64) -> i32,
}

impl Caller {
    fn new(params: &[Type]) -> Result<Caller, String> {
        let builder = JITBuilder::new(default_libcall_names()).map_err(|e| e.to_string())?;
        let mut module = JITModule::new(builder);
        let convention = module.isa().default_call_conv();
        let signature = signature(&[I64, I64], convention);
        let id = module.declare_function("caller", Linkage::Export, &signature).map_err(|e| e.to_string())?;
        let mut context = module.make_context();
        context.func.signature = signature;
        let mut memory = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut context.func, &mut memory);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [function, words] = *b.block_params(entry) else { return Err("two parameters".to_owned()) };
        let mut arguments = vec![];
        for (n, ty) in params.iter().enumerate() {
            let at = i32::try_from(8 * n).map_err(|e| e.to_string())?;
            arguments.push(b.ins().load(*ty, MemFlagsData::trusted(), words, at));
        }
        let called = b.import_signature(self::signature(params, convention));
        let call = b.ins().call_indirect(called, function, &arguments);
        let status = b.inst_results(call).to_vec();
        b.ins().return_(&status);
        b.seal_all_blocks();
        b.finalize(module.target_config());
        module.define_function(id, &mut context).map_err(|e| e.to_string())?;
        module.finalize_definitions().map_err(|e| e.to_string())?;
        let code = module.get_finalized_function(id);
        // SAFETY: `code` is a function of this signature, in memory that lives as long as the
        // module.
        let code = unsafe { std::mem::transmute::<*const u8, extern "C" fn(*const u8, *const u64) -> i32>(code) };
        Ok(Caller { params: params.len(), module: Some(module), code })
    }

    /// Calls a function.
    ///
    /// # Safety
    ///
    /// The function has the parameters that this was made for, and the words are arguments that it
    /// may be called with.
    unsafe fn call(&self, function: *const u8, words: &[u64]) -> Result<i32, String> {
        if words.len() != self.params {
            return Err(format!("the header declares {} parameters, not {}", self.params, words.len()));
        }
        Ok((self.code)(function, words.as_ptr()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: only `self` has the address of the code, and it is being dropped.
            unsafe { module.free_memory() };
        }
    }
}

/// The signature of a function that returns `int32_t`.
fn signature(params: &[Type], convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params.extend(params.iter().map(|ty| AbiParam::new(*ty)));
    signature.returns.push(AbiParam::new(I32));
    signature
}
