//! Reads the files that a program uses, directly and indirectly, behind its own text: one text then
//! holds everything that its errors point at.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use compiler::library::{self, Library};
use grammar::ast::{self, ModuleId, Span, Use, Used};
use grammar::{Diagnostic, MAX_ERRORS, MAX_SOURCE};

use crate::Source;

/// The limit on the `use` lines of a program, in all its files together.
pub const MAX_USES: usize = 1000;

/// The codes of this module.
pub(crate) mod codes {
    grammar::codes! {
        NO_FILE = 170, "a used file that cannot be read";
        NO_FILES = 171, "a program without a folder uses a file";
        NO_LIBRARY = 172, "an unknown library";
        CYCLE = 173, "files that use each other";
        TOO_MANY = 174, "more used files than the stated limit";
    }
}

/// Finds and reads the files that programs use.
///
/// ```
/// use fuseloop::{Loader, Located, NotRead, Program};
///
/// struct Memory;
///
/// impl Loader for Memory {
///     fn locate(&self, path: &str, _: Option<&Located>) -> Result<Located, NotRead> {
///         Ok(Located { id: path.into(), path: path.into() })
///     }
///     fn read(&self, _: &Located) -> Result<String, NotRead> {
///         Ok("fn twice(x: f32[n]) = 2 * x".to_owned())
///     }
/// }
///
/// let text = "use \"twice.fl\"\nfn f(x: f32[n]) = twice(x) + 1";
/// let program = Program::parse_with(text, &Memory)?;
/// assert_eq!(program.functions().count(), 1);
/// # Ok::<(), fuseloop::Errors>(())
/// ```
pub trait Loader {
    /// The file that is the program, if it is one: no file that it uses may use it.
    fn program(&self) -> Option<Located> {
        None
    }

    /// The file at `path` as a file names it after `use`; `from` is that file, or `None` for a
    /// program that is no file.
    ///
    /// # Errors
    ///
    /// [`NotRead`] says in words why there is no such file.
    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead>;

    /// The text of a file.
    ///
    /// # Errors
    ///
    /// [`NotRead`] says in words why it cannot be read.
    fn read(&self, file: &Located) -> Result<String, NotRead>;
}

/// A file that has been found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The same for all paths to the file.
    pub id: PathBuf,
    /// The path to it, which errors show and paths in the file start from.
    pub path: PathBuf,
}

/// The reason why a file is not read, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRead(pub String);

/// The files of this machine.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    folder: PathBuf,
    /// The program, if it is a file.
    program: Option<Located>,
}

impl Folder {
    /// Paths of the program start from this folder; an empty path is the current folder.
    pub fn new(folder: impl Into<PathBuf>) -> Folder {
        Folder { folder: folder.into(), program: None }
    }

    /// The program is this file, and its paths start from the folder of the file.
    pub fn of(file: &Path) -> Folder {
        let program = file.canonicalize().ok().map(|id| Located { id, path: file.to_owned() });
        Folder { folder: file.parent().unwrap_or(Path::new("")).to_owned(), program }
    }
}

/// The path without `.`, and without `..` after the name of a folder. It may lead elsewhere if that
/// is a link.
fn shortened(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(short.components().next_back(), Some(Component::Normal(_))) => {
                short.pop();
            }
            other => short.push(other),
        }
    }
    short
}

impl Loader for Folder {
    fn program(&self) -> Option<Located> {
        self.program.clone()
    }

    fn locate(&self, path: &str, from: Option<&Located>) -> Result<Located, NotRead> {
        let folder = from.map_or(Some(self.folder.as_path()), |from| from.path.parent());
        let path = folder.unwrap_or(Path::new("")).join(path);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NotRead(format!("there is no file `{}`", path.display())),
            _ => NotRead(format!("`{}`: {error}", path.display())),
        };
        let id = path.canonicalize().map_err(failed)?;
        let kind = id.metadata().map_err(failed)?;
        match kind.is_file() {
            true => {
                let short = shortened(&path);
                let same = short.canonicalize().is_ok_and(|other| other == id);
                Ok(Located { path: if same { short } else { path }, id })
            }
            false if kind.is_dir() => Err(NotRead(format!("`{}` is a folder", path.display()))),
            false => Err(NotRead(format!("`{}` is not a regular file", path.display()))),
        }
    }

    fn read(&self, file: &Located) -> Result<String, NotRead> {
        let name = file.path.display();
        let mut bytes = vec![];
        // A limit, because a file may grow while it is read.
        let read = File::open(&file.id).and_then(|file| file.take(MAX_SOURCE as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| NotRead(format!("`{name}`: {error}")))?;
        String::from_utf8(bytes)
            .map_err(|error| NotRead(format!("`{name}`: byte {} is not UTF-8", error.utf8_error().valid_up_to())))
    }
}

/// Reads a program with all files that it uses. Their texts are added to `source`, so that the
/// errors have places there.
pub(crate) fn link(source: &mut Source, loader: Option<&dyn Loader>) -> Result<ast::File, Vec<Diagnostic>> {
    let mut file = ast::File::default();
    grammar::parse_module(&source.text, 0, &mut file)?;
    link_uses(source, loader, &mut file)?;
    Ok(file)
}

/// Adds to a program the files that it uses. Its own text has been read.
pub(crate) fn link_uses(
    source: &mut Source,
    loader: Option<&dyn Loader>,
    file: &mut ast::File,
) -> Result<(), Vec<Diagnostic>> {
    let (located, known) = (BTreeMap::new(), BTreeMap::new());
    let mut linker = Linker { source, loader, file, located, known, errors: vec![] };
    if let Some(program) = loader.and_then(Loader::program) {
        linker.known.insert(Id::File(program.id.clone()), ModuleId::PROGRAM);
        linker.located.insert(ModuleId::PROGRAM, program);
    }
    linker.read_all();
    if linker.errors.is_empty() {
        linker.refuse_cycles();
    }
    let mut errors = linker.errors;
    errors.truncate(MAX_ERRORS);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

struct Linker<'a> {
    source: &'a mut Source,
    loader: Option<&'a dyn Loader>,
    file: &'a mut ast::File,
    /// Where the modules are that come from files.
    located: BTreeMap<ModuleId, Located>,
    /// The modules read so far.
    known: BTreeMap<Id, ModuleId>,
    errors: Vec<Diagnostic>,
}

/// Something that is used, the same for all ways to name it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Library(&'static str),
    File(PathBuf),
}

/// A text that is used.
struct Text {
    name: String,
    text: String,
}

impl Linker<'_> {
    /// Reads the files that each file uses; those that this adds come last.
    fn read_all(&mut self) {
        let mut seen = 0;
        let mut next = 0;
        while let Some(module) = self.file.modules.keys().nth(next) {
            for k in 0..self.file.modules[module].uses.len() {
                let one = self.file.modules[module].uses[k].clone();
                seen += 1;
                if seen > MAX_USES {
                    let message = format!("the program has more than {MAX_USES} `use` lines in all its files");
                    self.errors.push(Diagnostic::new(codes::TOO_MANY, one.span, message));
                    return;
                }
                match self.used(module, &one) {
                    Ok(used) => self.file.modules[module].uses[k].module = used,
                    Err(error) => self.errors.push(*error),
                }
                if self.errors.len() >= MAX_ERRORS {
                    return;
                }
            }
            next += 1;
        }
    }

    /// The module that a `use` stands for, which is read if it is new. `None` if it has errors,
    /// which have been reported.
    fn used(&mut self, user: ModuleId, one: &Use) -> Result<Option<ModuleId>, Box<Diagnostic>> {
        let name = one.what.name();
        let (id, text, located) = match &one.what {
            Used::Library(_) => {
                let library = Library::named(&name.text).ok_or_else(|| Box::new(no_library(name)))?;
                let id = Id::Library(library.name);
                if let Some(known) = self.known.get(&id) {
                    return Ok(Some(*known));
                }
                (id, Text { name: format!("<{}>", library.name), text: library.text.to_owned() }, None)
            }
            Used::Path(_) => {
                let failed = |NotRead(why): NotRead| Box::new(no_file(name, &why));
                let loader = self.loader.ok_or_else(|| Box::new(no_files(name)))?;
                let located = loader.locate(&name.text, self.located.get(&user)).map_err(failed)?;
                let id = Id::File(located.id.clone());
                if let Some(known) = self.known.get(&id) {
                    return Ok(Some(*known));
                }
                let text = loader.read(&located).map_err(failed)?;
                (id, Text { name: located.path.display().to_string(), text }, Some(located))
            }
        };
        let module = self.add(&text, one.span)?;
        if let Some(module) = module {
            self.known.insert(id, module);
            self.located.extend(located.map(|located| (module, located)));
        }
        Ok(module)
    }

    /// Reads the text of a module, which is used at `by`.
    fn add(&mut self, Text { name, text }: &Text, by: Span) -> Result<Option<ModuleId>, Box<Diagnostic>> {
        if self.source.text.len() + text.len() >= MAX_SOURCE {
            let message = format!("with this file, the files of the program have more than {MAX_SOURCE} bytes");
            return Err(Box::new(Diagnostic::new(codes::TOO_MANY, by, message)));
        }
        let start = self.source.text.len() + 1;
        // A byte order mark is only allowed at the beginning of a text.
        self.source.push_part(name, 1, text.strip_prefix('\u{feff}').unwrap_or(text));
        match grammar::parse_module(&self.source.text, start, self.file) {
            Ok(module) => Ok(Some(module)),
            Err(errors) => {
                self.errors.extend(errors.into_iter().map(|error| error.label(by, "the file is used here")));
                Ok(None)
            }
        }
    }

    /// Reports each `use` that closes a circle: of a file on the current path, depth first.
    fn refuse_cycles(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let modules = &self.file.modules;
        let mut states = vec![State::New; modules.len()];
        states[ModuleId::PROGRAM.as_u32() as usize] = State::Open;
        // The files on the current path, each with the number of its next `use`.
        let mut path = vec![(ModuleId::PROGRAM, 0)];
        while let Some((module, next)) = path.last_mut() {
            let (module, at) = (*module, *next);
            *next += 1;
            let Some(one) = modules[module].uses.get(at) else {
                states[module.as_u32() as usize] = State::Done;
                path.pop();
                continue;
            };
            let Some(used) = one.module else { continue };
            match states[used.as_u32() as usize] {
                State::New => {
                    states[used.as_u32() as usize] = State::Open;
                    path.push((used, 0));
                }
                State::Open => {
                    let from = path.iter().position(|(open, _)| *open == used).unwrap_or(0);
                    let before = path[from..path.len() - 1].iter().map(|(open, next)| &modules[*open].uses[*next - 1]);
                    self.errors.push(cycle(one, before));
                }
                State::Done => {}
            }
        }
    }
}

/// The error that a `use` closes a circle, which begins with the others.
fn cycle<'u>(closing: &Use, before: impl Iterator<Item = &'u Use>) -> Diagnostic {
    let mut before = before.peekable();
    let message = match before.peek() {
        None => "the file uses itself",
        Some(_) => "the files use each other in a circle",
    };
    let error = Diagnostic::new(codes::CYCLE, closing.span, message).here("this leads back to the beginning");
    let labelled = before.enumerate().map(|(k, one)| (one.span, if k == 0 { "it begins here" } else { "then this" }));
    let error = labelled.fold(error, |error, (span, text)| error.label(span, text));
    error.help("move what both need into a file of its own, which both use")
}

fn no_library(name: &ast::Name) -> Diagnostic {
    let error = Diagnostic::new(codes::NO_LIBRARY, name.span, format!("there is no library `{}`", name.text));
    let known: Vec<String> = library::ALL.iter().map(|library| format!("`{}`", library.name)).collect();
    let error = error.note(format!("the libraries are {}", known.join(" and ")));
    match compiler::check::nearest(&name.text, library::ALL.iter().map(|library| library.name)) {
        Some(near) => error.help(format!("did you mean `{near}`?")).suggest(name.span, near),
        None => error.help("a file has its path in quotes").suggest(name.span, format!("\"{}.fl\"", name.text)),
    }
}

fn no_files(name: &ast::Name) -> Diagnostic {
    let error = Diagnostic::new(codes::NO_FILES, name.span, "this program has no folder that files could be in");
    error
        .note("its text was given to the library alone")
        .help("give `Program::parse_with` a loader, such as a `Folder`")
}

fn no_file(name: &ast::Name, why: &str) -> Diagnostic {
    let error = Diagnostic::new(codes::NO_FILE, name.span, why);
    match Library::named(&name.text) {
        Some(library) => error.help("a library has no quotes").suggest(name.span, library.name),
        None => error.note("the path starts from the folder of the file that it is in"),
    }
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotRead {}
