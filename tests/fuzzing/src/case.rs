//! A case: a function with arguments, an engine, and a way to fuse. It is drawn from a number,
//! judged, reduced, saved in a folder and read back.

use std::fmt;
use std::path::Path;

use backends::cpu::MemoryRegime;
use compiler::pipeline::Options;
use fuseloop::files::{self, Packing, Place};
use ir::array::Array;
use ir::choice::Policy;
use ir::{Dtype, Passes, Scalar};
use serde::{Deserialize, Serialize};

use crate::derived::{Direction, derive};
use crate::engines::Engine;
use crate::generate::data::{Random, SMALL_AGAIN};
use crate::generate::{Program, Recipe};
use crate::linked::Linked;
use crate::variation::Variation;
use crate::ways;

/// The files of a saved case.
const PROGRAM: &str = "program.fl";
const DATA: &str = "data.safetensors";
const SETTING: &str = "case.json";

/// How a case reaches its engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// Directly, with any way to fuse and with settings that only tests use.
    #[default]
    Backend,
    /// Through the public library, as a user's program does.
    Library,
    /// Compiled ahead of time and loaded as a shared library, on a processor that has the engine's
    /// vectors.
    Object,
}

/// A function, how it is fused, and the engine that runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The source text.
    pub source: String,
    /// The function that is called.
    pub entry: String,
    /// How it is fused.
    pub options: Options,
    /// The engine.
    pub engine: Engine,
    /// How it gets there.
    pub through: Through,
    /// Whether threads on the CPU wait for each other before each kernel.
    pub meet: bool,
    /// Which arrays the CPU treats as larger than its caches.
    pub far: MemoryRegime,
    /// A change that must not change its results.
    pub variation: Option<Variation>,
}

impl Setting {
    /// The engine and the route to it: `cpu:2:256`, `library interp`.
    pub fn runner(&self) -> String {
        match self.through {
            Through::Backend => self.engine.to_string(),
            Through::Library => format!("library {}", self.engine),
            Through::Object => format!("object {}", self.engine),
        }
    }
}

/// The arguments of a call, as names and values in the order of the parameters.
pub type Arguments = Vec<(String, Array)>;

/// A setting with the arguments of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The function and its setting.
    pub setting: Setting,
    /// On what.
    pub arguments: Arguments,
}

/// Everything about a saved case except the program, as JSON.
#[derive(Serialize, Deserialize)]
struct Saved {
    entry: String,
    engine: String,
    #[serde(default)]
    through: Through,
    fuse: String,
    /// The seed of the coin that replaces the cost model.
    coin: Option<u64>,
    fuel: Option<u64>,
    #[serde(default)]
    meet: bool,
    #[serde(default, with = "FarName")]
    far: MemoryRegime,
    variation: Option<Variation>,
    arguments: Vec<String>,
    /// The bits of each NaN that is not the canonical one of files: argument, element, bits.
    #[serde(default)]
    nans: Vec<(usize, usize, u64)>,
}

/// The names of [`MemoryRegime`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", remote = "MemoryRegime")]
enum FarName {
    Auto,
    Pages,
    Streams,
}

/// Why a folder holds no case.
#[derive(Debug)]
pub struct CaseError(pub String);

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CaseError {}

/// Everything that is drawn from one number: a program, a setting for it, and calls.
pub struct Drawn {
    /// The program.
    pub program: Program,
    /// The setting.
    pub setting: Setting,
    /// Its calls.
    pub calls: Vec<Arguments>,
}

/// The case of a number. One of the engines runs it: configurations take turns over programs, since
/// compiling a program for one of them takes longer than running it.
pub fn draw(seed: u64, engines: &[Engine]) -> Drawn {
    draw_with(&Recipe::drawn(seed), seed, engines)
}

/// A case with the program of a recipe.
pub fn draw_with(recipe: &Recipe, seed: u64, engines: &[Engine]) -> Drawn {
    let mut program = recipe.program();
    let mut random = Random::new(seed ^ 0x5eed);
    let mut below = |n: usize| usize::try_from(random.below(i64::try_from(n).unwrap_or(1))).unwrap_or(0);
    let mut derivatives = Random::new(seed ^ 0xd1ff);
    let direction = if derivatives.below(DERIVED_ON_ONCE_IN) == 0 { Direction::On } else { Direction::Back };
    if derivatives.below(DERIVED_ONCE_IN) == 0
        && let Some(derived) = derive(&program, direction)
    {
        program = derived;
    }
    let engine = engines.get(below(engines.len())).copied().unwrap_or(Engine::Nest);
    let mut drawn = ways::drawn(program.data);
    let options = match below(8) {
        0 => Options { fuse: Passes::NONE, ..Options::default() },
        1..5 => Options::default(),
        5 | 6 => drawn.swap_remove(0),
        _ => drawn.swap_remove(1),
    };
    let is_public = !matches!(engine, Engine::Ptx | Engine::CudaC | Engine::Source);
    let takes_integers = program.params.iter().any(|param| param.shape.is_empty() && param.ty.is_int());
    let object_once_in = if takes_integers { INTEGERS_OBJECT_ONCE_IN } else { OBJECT_ONCE_IN };
    let ships = program.constructs.contains("library function");
    let library_once_in = if ships { SHIPPED_ONCE_IN } else { LIBRARY_ONCE_IN };
    let through = match engine {
        _ if is_public && below(library_once_in) == 0 => Through::Library,
        Engine::Cpu(1, _) if below(object_once_in) == 0 && opened::is_possible() => Through::Object,
        _ => Through::Backend,
    };
    let options = match through {
        Through::Backend | Through::Object => options,
        // A user chooses the passes alone.
        Through::Library => Options { fuse: options.fuse, ..Options::default() },
    };
    if through == Through::Library
        && let Some(linked) = Linked::new(&program.source, program.entry)
    {
        program.constructs.extend(linked.of_file().then_some("use of a file"));
        program.constructs.extend(linked.of_library.then_some("use of a library"));
    }
    let variation = (below(4) == 0).then(|| Variation::drawn(seed));
    // The first call is small: interpreting a long one takes as long as many small programs do.
    let mut numbers = vec![0];
    let in_chunks = program.constructs.iter().any(|construct| IN_CHUNKS.contains(construct));
    let once_in = match in_chunks {
        // Only some engines take such chunks one by one, and only long arrays have several.
        true if program.constructs.contains("table by key") => 1,
        true => IN_CHUNKS_LONG_ONCE_IN,
        false => LONG_ONCE_IN,
    };
    if below(once_in * if matches!(engine, Engine::Ptx | Engine::CudaC) { EMULATED_LONGER } else { 1 }) == 0 {
        numbers.push(2 + below(2) as u64);
    }
    if through == Through::Object {
        numbers.extend((0..OBJECT_CALLS).map(|n| SMALL_AGAIN + n));
    }
    let direct = through == Through::Backend;
    let meet = matches!(engine, Engine::Cpu(2.., _)) && below(MEET_ONCE_IN) == 0 && direct;
    let far = [MemoryRegime::Auto, MemoryRegime::Auto, MemoryRegime::Pages, MemoryRegime::Streams]
        [if direct { below(4) } else { 0 }];
    let (source, entry) = (program.source.clone(), program.entry.to_owned());
    let setting = Setting { source, entry, options, engine, through, meet, far, variation };
    let calls = numbers.into_iter().map(|n| program.call(n).inputs).collect();
    Drawn { program, setting, calls }
}

/// One program in this many is derived, if it has a derivative.
const DERIVED_ONCE_IN: i64 = 6;
/// And one in this many of those as the change of a result.
const DERIVED_ON_ONCE_IN: i64 = 4;
/// One program in this many goes through the public library, if that has its engine: a tenth of
/// all.
const LIBRARY_ONCE_IN: usize = 8;
/// The same for programs that call functions of the shipped libraries.
const SHIPPED_ONCE_IN: usize = 2;
/// One of this many of the remaining programs for one CPU thread is compiled to an object: linking
/// is the slowest step of a case.
const OBJECT_ONCE_IN: usize = 10;
/// The same for those that take integers by value, which are sizes in C.
const INTEGERS_OBJECT_ONCE_IN: usize = 3;
/// A linked object is called this many more times.
const OBJECT_CALLS: u64 = 8;
/// One program in this many is also called with long inputs.
const LONG_ONCE_IN: usize = 8;
/// And of those with something that passes a state from chunk to chunk, where errors show only in
/// long arrays.
const IN_CHUNKS_LONG_ONCE_IN: usize = 2;
/// The constructs that do.
const IN_CHUNKS: [&str; 9] =
    ["prefix <", "prefix <=", "exclusive prefix", "suffix", "sort", "argsort", "top", "key", "table by key"];
/// Long inputs are this many times rarer on the emulator, where they take longest.
const EMULATED_LONGER: usize = 2;
/// One in this many of the programs on several threads makes them wait for each other before each
/// kernel, which is slower than anything else.
const MEET_ONCE_IN: usize = 4;

impl Case {
    /// Saves the case in a folder, which is created.
    pub fn save(&self, folder: &Path) -> Result<(), CaseError> {
        let failed = |what: &dyn fmt::Display| CaseError(format!("{}: {what}", folder.display()));
        std::fs::create_dir_all(folder).map_err(|e| failed(&e))?;
        let Setting { source, entry, options, engine, through, meet, far, variation } = &self.setting;
        let coin = if let Policy::Random(seed) = options.policy { Some(seed) } else { None };
        let saved = Saved {
            entry: entry.clone(),
            engine: engine.to_string(),
            through: *through,
            fuse: options.fuse.to_string(),
            coin,
            fuel: options.fuel,
            meet: *meet,
            far: *far,
            variation: *variation,
            arguments: self.arguments.iter().map(|(name, _)| name.clone()).collect(),
            nans: self.nans(),
        };
        let text = serde_json::to_string_pretty(&saved).map_err(|e| failed(&e))?;
        std::fs::write(folder.join(SETTING), text + "\n").map_err(|e| failed(&e))?;
        std::fs::write(folder.join(PROGRAM), source).map_err(|e| failed(&e))?;
        let mut arrays = vec![];
        for (name, array) in &self.arguments {
            arrays.push((place(folder, name)?, array.as_ref()));
        }
        files::save(&arrays, Packing::Stored).map_err(|e| failed(&e))
    }

    /// The NaNs in the arguments, with their bits.
    fn nans(&self) -> Vec<(usize, usize, u64)> {
        let arrays = self.arguments.iter().enumerate().filter(|(_, (_, array))| array.dtype().is_float());
        let elements = arrays.flat_map(|(n, (_, array))| {
            (0..array.len()).filter_map(move |k| array.get(k).map(|element| (n, k, element)))
        });
        let is_nan =
            |element: Scalar| matches!(interp::scalar::cast(Dtype::F64, element), Scalar::F64(v) if v.is_nan());
        elements.filter(|(_, _, element)| is_nan(*element)).map(|(n, k, element)| (n, k, element.bits())).collect()
    }

    /// Reads the case in a folder.
    pub fn load(folder: &Path) -> Result<Case, CaseError> {
        let failed = |what: &dyn fmt::Display| CaseError(format!("{}: {what}", folder.display()));
        let text = std::fs::read_to_string(folder.join(SETTING)).map_err(|e| failed(&e))?;
        let saved: Saved = serde_json::from_str(&text).map_err(|e| failed(&e))?;
        let source = std::fs::read_to_string(folder.join(PROGRAM)).map_err(|e| failed(&e))?;
        let mut arguments = vec![];
        for name in saved.arguments {
            let array = files::read(&place(folder, &name)?).map_err(|e| failed(&e))?;
            arguments.push((name, array));
        }
        for (argument, element, bits) in saved.nans {
            if let Some((_, array)) = arguments.get_mut(argument) {
                array.set(element, Scalar::from_bits(array.dtype(), bits));
            }
        }
        let policy = saved.coin.map_or(Policy::Model, Policy::Random);
        let fuse = saved.fuse.parse().map_err(|e: String| failed(&e))?;
        let setting = Setting {
            source,
            entry: saved.entry,
            options: Options { fuse, policy, fuel: saved.fuel, ..Options::default() },
            engine: saved.engine.parse().map_err(|e: String| failed(&e))?,
            through: saved.through,
            meet: saved.meet,
            far: saved.far,
            variation: saved.variation,
        };
        Ok(Case { setting, arguments })
    }
}

/// An argument in the folder's file of arrays.
fn place(folder: &Path, name: &str) -> Result<Place, CaseError> {
    Place::parse(&format!("{}:{name}", folder.join(DATA).display())).map_err(|e| CaseError(e.to_string()))
}
