//! A program: functions as attributes. It pickles as its text, with the texts of the files that it
//! uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fuseloop::{Device, Errors, Folder, Loader, Located, Math, NotRead, Options, Program, Source};
use pyo3::exceptions::{PyAttributeError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error;
use crate::function::Function;

/// A program. Its functions are its attributes, `module.softmax`; `module["softmax"]` is the same,
/// also for a function with the name of one of the methods.
#[pyclass(frozen, module = "fuseloop", dict)]
pub(crate) struct Module {
    text: Arc<Text>,
    functions: Mutex<BTreeMap<String, Py<Function>>>,
}

/// The program of a module, which its functions share. They do not refer to the module, so that
/// neither keeps the other alive.
pub(crate) struct Text {
    pub(crate) program: Program,
    pub(crate) options: Options,
    source: Source,
    files: Files,
    settings: Settings,
}

impl Text {
    /// The derivative of a function in some parameters, as a program.
    pub(crate) fn gradient(&self, function: &str, of: &[String]) -> Result<String, Errors> {
        Program::gradient(self.source.clone(), Some(&self.files), function, of)
    }
}

/// The files that a program used: where each path led, and the text of each file.
#[derive(Clone, Default)]
struct Files {
    /// The program itself, by its identity and its path, if it is a file.
    program: Option<(String, String)>,
    /// The file that names another, empty for the program itself; the path as written; the file
    /// that it means, by its identity and by the path that errors show.
    links: Vec<(String, String, String, String)>,
    texts: BTreeMap<String, String>,
}

/// The options of a module as Python gives them.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) device: String,
    pub(crate) threads: usize,
    pub(crate) max_memory: Option<u64>,
    pub(crate) max_steps: Option<u64>,
    pub(crate) math: String,
}

impl Settings {
    fn options(&self, py: Python<'_>) -> PyResult<Options> {
        let device = match self.device.as_str() {
            "cpu" => Device::Cpu,
            "gpu" => Device::Gpu,
            "auto" => Device::Auto,
            "interp" => Device::Interp,
            other => {
                return Err(error::refused(
                    py,
                    format!("there is no device `{other}`"),
                    "name cpu, gpu, auto or interp",
                ));
            }
        };
        let math = match self.math.as_str() {
            "exact" => Math::Exact,
            "fast" => Math::Fast,
            other => return Err(error::refused(py, format!("there is no math `{other}`"), "name exact or fast")),
        };
        let Settings { threads, max_memory, max_steps, .. } = *self;
        Ok(Options { device, threads, max_memory, max_steps, math, ..Options::default() })
    }
}

/// Reads files, and keeps what it read.
struct Recorder<'a> {
    from: &'a dyn Loader,
    files: Mutex<Files>,
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Loader for Recorder<'_> {
    fn program(&self) -> Option<Located> {
        self.from.program()
    }

    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead> {
        let found = self.from.locate(path, from)?;
        let by = from.map(|from| text(&from.id)).unwrap_or_default();
        let link = (by, path.to_owned(), text(&found.id), text(&found.path));
        self.files.lock().unwrap_or_else(|e| e.into_inner()).links.push(link);
        Ok(found)
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let read = self.from.read(file)?;
        self.files.lock().unwrap_or_else(|e| e.into_inner()).texts.insert(text(&file.id), read.clone());
        Ok(read)
    }
}

impl Loader for Files {
    fn program(&self) -> Option<Located> {
        self.program.as_ref().map(|(id, path)| Located { id: id.into(), path: path.into() })
    }

    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead> {
        let by = from.map(|from| text(&from.id)).unwrap_or_default();
        let link = self.links.iter().find(|(other, written, ..)| *other == by && written == path);
        let missing = || NotRead(format!("the pickled program has no file `{path}`"));
        link.map(|(.., id, shown)| Located { id: id.into(), path: shown.into() }).ok_or_else(missing)
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let missing = || NotRead(format!("the pickled program has no file `{}`", file.path.display()));
        self.texts.get(&text(&file.id)).cloned().ok_or_else(missing)
    }
}

/// The text of a program without the parts that it has from elsewhere.
fn own_text(source: &Source) -> &str {
    // A newline stands before each part.
    source.parts.first().map_or(&source.text, |part| &source.text[..part.start - 1])
}

impl Module {
    /// The module of a program.
    pub(crate) fn of(text: Arc<Text>) -> Module {
        Module { text, functions: Mutex::default() }
    }

    /// Parses and checks a program; `loader` finds the files that it uses.
    pub(crate) fn new(
        py: Python<'_>,
        source: Source,
        loader: &(dyn Loader + Sync),
        settings: Settings,
    ) -> PyResult<Module> {
        let options = settings.options(py)?;
        let (parsed, files) = py.detach(|| {
            let program = loader.program().map(|file| (text(&file.id), text(&file.path)));
            let recorder = Recorder { from: loader, files: Mutex::new(Files { program, ..Files::default() }) };
            let parsed = Program::parse_with(source.clone(), &recorder);
            (parsed, recorder.files.into_inner().unwrap_or_else(|e| e.into_inner()))
        });
        let program = parsed.map_err(|errors| error::of_source(py, &errors))?;
        Ok(Module::of(Arc::new(Text { program, options, source, files, settings })))
    }

    fn function(&self, py: Python<'_>, name: &str) -> PyResult<Option<Py<Function>>> {
        let known = self.functions.lock().unwrap_or_else(|e| e.into_inner()).get(name).map(|f| f.clone_ref(py));
        if known.is_some() {
            return Ok(known);
        }
        let Some(made) = Function::find(py, &self.text, name)? else { return Ok(None) };
        let mut functions = self.functions.lock().unwrap_or_else(|e| e.into_inner());
        Ok(Some(functions.entry(name.to_owned()).or_insert(made).clone_ref(py)))
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<String> = self.text.program.functions().map(|s| format!("`{}`", s.name)).collect();
        format!("there is no function `{name}` in {}; it has {}", self.name(), known.join(", "))
    }
}

#[pymethods]
impl Module {
    fn __getattr__(slf: &Bound<'_, Module>, name: &str) -> PyResult<Py<Function>> {
        let this = slf.get();
        let found = this.function(slf.py(), name)?.ok_or_else(|| PyAttributeError::new_err(this.unknown(name)))?;
        // Python asks here for what the dictionary lacks, so it finds the function there from now on.
        slf.getattr("__dict__")?.set_item(name, &found)?;
        Ok(found)
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<Function>> {
        self.function(py, name)?.ok_or_else(|| PyKeyError::new_err(self.unknown(name)))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.text.program.signature(name).is_some()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PyList::new(py, self.functions())?.as_any().try_iter().map(Bound::into_any)
    }

    fn __len__(&self) -> usize {
        self.text.program.functions().count()
    }

    fn __dir__(&self) -> Vec<String> {
        let own = ["check", "functions", "name", "source"].map(str::to_owned);
        self.functions().into_iter().chain(own).collect()
    }

    /// The names of the functions, in the order of the source.
    #[getter]
    fn functions(&self) -> Vec<String> {
        self.text.program.functions().map(|signature| signature.name.clone()).collect()
    }

    /// The name that errors use for the program: its path, if it was loaded.
    #[getter]
    fn name(&self) -> &str {
        &self.text.source.name
    }

    /// The text of the program, without the files that it uses.
    #[getter]
    fn source(&self) -> &str {
        own_text(&self.text.source)
    }

    /// The signature of each function with its conditions, and the warnings about the program.
    fn check(&self) -> String {
        let signatures = self.text.program.functions().map(ToString::to_string);
        let warnings = self.text.program.warnings().clone().for_all_functions();
        let warnings = Some(warnings.to_string()).filter(|text| !text.is_empty());
        signatures.chain(warnings).collect::<Vec<_>>().join("\n")
    }

    fn __repr__(&self) -> String {
        format!("<fuseloop module {}: {}>", self.name(), self.functions().join(", "))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let state = PyDict::new(py);
        let source = &self.text.source;
        state.set_item("name", &source.name)?;
        state.set_item("text", own_text(source))?;
        let parts = source.parts.iter().map(|part| {
            let text = source.text[source.part(part.start).0].trim_end();
            (&part.name, part.line, text)
        });
        state.set_item("parts", parts.collect::<Vec<_>>())?;
        state.set_item("program", self.text.files.program.clone())?;
        state.set_item("links", self.text.files.links.clone())?;
        state.set_item("texts", self.text.files.texts.clone())?;
        let Settings { device, threads, max_memory, max_steps, math } = &self.text.settings;
        state.set_item("device", device)?;
        state.set_item("threads", threads)?;
        state.set_item("max_memory", max_memory)?;
        state.set_item("max_steps", max_steps)?;
        state.set_item("math", math)?;
        Ok((py.import("fuseloop._native")?.getattr("unpickle")?, (state,)))
    }
}

/// A program that was pickled.
#[pyfunction]
pub(crate) fn unpickle(py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<Module> {
    let item = |key: &str| state.get_item(key)?.ok_or_else(|| PyKeyError::new_err(key.to_owned()));
    let settings = Settings {
        device: item("device")?.extract()?,
        threads: item("threads")?.extract()?,
        max_memory: item("max_memory")?.extract()?,
        max_steps: item("max_steps")?.extract()?,
        math: item("math")?.extract()?,
    };
    let program = item("program")?.extract()?;
    let files = Files { program, links: item("links")?.extract()?, texts: item("texts")?.extract()? };
    let mut source = Source::new(item("name")?.extract::<String>()?, item("text")?.extract::<String>()?);
    let parts: Vec<(String, usize, String)> = item("parts")?.extract()?;
    parts.iter().for_each(|(name, line, text)| source.push_part(name, *line, text));
    Module::new(py, source, &files, settings)
}

/// Compiles a program from its text.
///
/// Each function is checked at once, and compiled to machine code when it is first called. Paths in
/// `use "..."` start from `folder`, by default the current one. `device` is `cpu`, `gpu`, `auto` or
/// `interp`; `threads` the number of threads that may work on a call, 0 for one a core. A call that
/// takes more bytes than `max_memory`, or a loop of more steps than `max_steps`, ends in an error.
/// `math="fast"` gives up exact bits for speed. Raises `fuseloop.Error`, with all errors of the
/// text.
#[pyfunction]
#[pyo3(signature = (source, *, name = "<source>", folder = None, device = "cpu", threads = 0, max_memory = None,
    max_steps = None, math = "exact"))]
#[expect(clippy::too_many_arguments, reason = "each is an option by name in Python")]
pub(crate) fn compile(
    py: Python<'_>,
    source: String,
    name: &str,
    folder: Option<PathBuf>,
    device: &str,
    threads: usize,
    max_memory: Option<u64>,
    max_steps: Option<u64>,
    math: &str,
) -> PyResult<Module> {
    let settings = Settings { device: device.to_owned(), threads, max_memory, max_steps, math: math.to_owned() };
    Module::new(py, Source::new(name, source), &Folder::new(folder.unwrap_or_default()), settings)
}

/// Compiles a program from a file. The options are those of `compile`.
#[pyfunction]
#[pyo3(signature = (path, *, device = "cpu", threads = 0, max_memory = None, max_steps = None, math = "exact"))]
pub(crate) fn load(
    py: Python<'_>,
    path: PathBuf,
    device: &str,
    threads: usize,
    max_memory: Option<u64>,
    max_steps: Option<u64>,
    math: &str,
) -> PyResult<Module> {
    let settings = Settings { device: device.to_owned(), threads, max_memory, max_steps, math: math.to_owned() };
    let source = std::fs::read_to_string(&path)?;
    Module::new(py, Source::new(text(&path), source), &Folder::of(&path), settings)
}
