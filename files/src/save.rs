//! Saves results to files, all or none: each file is written under a temporary name in the same
//! folder and renamed when all are complete. So a failure leaves the old files unchanged, and one
//! command may read and write the same file.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ir::Dtype;
use ir::array::ArrayRef;
use tempfile::NamedTempFile;

use super::error::{Fault, FileError};
use super::place::{Format, Place};
use super::zip::Packing;
use super::{csv, npy, picture, plot, safetensors, zip};

/// Writes arrays to files, with NaNs as in [`Array::canonical_nan`](ir::Array::canonical_nan).
/// Arrays for the same `.npz` or `.safetensors` file are written to it together. Existing files are
/// replaced. After an error every file is as it was.
///
/// # Errors
///
/// [`FileError`] with the file and the fault: a place that cannot hold the array, or what the
/// system reports.
pub fn save(arrays: &[(Place, ArrayRef<'_>)], packing: Packing) -> Result<(), FileError> {
    let groups = group(arrays, |array| (array.dtype(), array.shape().len()))?;
    let mut ready = vec![];
    for group in &groups {
        if let Some(path) = group.place.path() {
            let staged = stage(path, |file| group.write(file, packing)).map_err(|fault| group.failed(fault))?;
            ready.push((group, staged));
        }
    }
    for (group, staged) in ready {
        staged.commit().map_err(|e| group.failed(e.into()))?;
    }
    // Last, because it cannot be taken back.
    let streams = groups.iter().filter(|group| group.place.path().is_none());
    streams
        .into_iter()
        .try_for_each(|group| group.write(&mut io::stdout().lock(), packing).map_err(|fault| group.failed(fault)))
}

/// Replaces a file by a text, atomically.
///
/// # Errors
///
/// [`FileError`] if the file cannot be written; it is as it was then.
pub fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    let staged = stage(path, |file| Ok(file.write_all(text.as_bytes())?));
    let done = staged.and_then(|staged| Ok(staged.commit()?));
    done.map_err(|fault| FileError::new(path.display().to_string(), fault))
}

/// Reports the errors that [`save`] would report for arrays of these types and ranks, before they
/// exist: of their places, and of missing folders.
///
/// # Errors
///
/// The first of them.
pub fn check(arrays: &[(Place, (Dtype, usize))]) -> Result<(), FileError> {
    for group in group(arrays, |of| *of)? {
        if let Some(path) = &group.absolute {
            fs::metadata(folder(path)).map_err(|e| group.failed(e.into()))?;
        }
    }
    Ok(())
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The maximum number of symbolic links followed on the way to a file, as on Linux.
const MOST_LINKS: usize = 40;

/// The file that a path leads to through symbolic links, even if it does not exist yet. A link is
/// kept, and its target is written.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder(&path).join(next),
            Err(_) => break,
        }
    }
    let in_folder = fs::canonicalize(folder(&path)).ok().zip(path.file_name()).map(|(folder, name)| folder.join(name));
    in_folder.or_else(|| std::path::absolute(&path).ok()).unwrap_or(path)
}

/// The arrays for one file.
struct Group<'a, T> {
    place: &'a Place,
    /// The absolute path, with links resolved, so that different spellings of it compare equal.
    absolute: Option<PathBuf>,
    /// The arrays by name.
    arrays: Vec<(&'a str, &'a T)>,
}

/// The arrays for each file. `of` gives an array's type and rank.
fn group<'a, T>(arrays: &'a [(Place, T)], of: impl Fn(&T) -> (Dtype, usize)) -> Result<Vec<Group<'a, T>>, FileError> {
    let mut groups: Vec<Group<'a, T>> = vec![];
    for (place, array) in arrays {
        let failed = |fault| Err(FileError::new(place.file_name(), fault));
        let (dtype, rank) = of(array);
        let writable = match place.format() {
            Format::Npy | Format::Npz => dtype != Dtype::Bf16,
            Format::Safetensors | Format::Csv | Format::Svg => true,
            Format::Png => matches!(dtype, Dtype::U8 | Dtype::U16),
        };
        if !writable {
            return failed(Fault::UnwritableDtype(dtype, place.format()));
        }
        let has_rank = match place.format() {
            Format::Npy | Format::Npz | Format::Safetensors => true,
            Format::Csv => rank <= 2,
            Format::Svg => rank == 1 || rank == 2,
            Format::Png => rank == 2 || rank == 3,
        };
        if !has_rank {
            return failed(Fault::UnwritableRank(rank, place.format()));
        }
        let key = match (place.format(), place.key()) {
            (Format::Npy | Format::Csv | Format::Png | Format::Svg, None) => "",
            (Format::Npy | Format::Csv | Format::Png | Format::Svg, Some(key)) => {
                return failed(Fault::KeyUnused(key.to_owned()));
            }
            (_, None) => return failed(Fault::KeyName(String::new())),
            // As in NumPy, the array has this name, and the part of the archive is `key.npy`.
            (Format::Npz, Some(key)) => key.strip_suffix(".npy").unwrap_or(key),
            (Format::Safetensors, Some(safetensors::METADATA)) => {
                return failed(Fault::KeyName(safetensors::METADATA.to_owned()));
            }
            (Format::Safetensors, Some(key)) => key,
        };
        let absolute = place.path().map(target);
        match groups.iter_mut().find(|g| g.absolute == absolute) {
            None => groups.push(Group { place, absolute, arrays: vec![(key, array)] }),
            Some(_) if !place.format().has_names() => return failed(Fault::WrittenTwice(None)),
            Some(group) if group.arrays.iter().any(|(other, _)| *other == key) => {
                return failed(Fault::WrittenTwice(Some(key.to_owned())));
            }
            Some(group) => group.arrays.push((key, array)),
        }
    }
    Ok(groups)
}

impl<T> Group<'_, T> {
    fn failed(&self, fault: Fault) -> FileError {
        FileError::new(self.place.file_name(), fault)
    }
}

impl Group<'_, ArrayRef<'_>> {
    fn write(&self, mut to: impl Write, packing: Packing) -> Result<(), Fault> {
        match self.place.format() {
            Format::Npy => {
                for (_, array) in &self.arrays {
                    to.write_all(&npy::encode_header(array.dtype(), array.shape())?)?;
                    npy::write_elements(array, &mut to)?;
                }
            }
            Format::Csv => self.arrays.iter().try_for_each(|(_, array)| csv::write(array, &mut to))?,
            Format::Png => self.arrays.iter().try_for_each(|(_, array)| picture::write(array, &mut to))?,
            Format::Svg => self.arrays.iter().try_for_each(|(_, array)| plot::write(array, &mut to))?,
            Format::Npz => {
                let mut archive = zip::Writer::new(&mut to, zip::LIMIT);
                for (name, array) in &self.arrays {
                    let header = npy::encode_header(array.dtype(), array.shape())?;
                    let content = |mut to: &mut dyn Write| {
                        to.write_all(&header)?;
                        npy::write_elements(array, &mut to)
                    };
                    archive.add(&format!("{name}.npy"), &content, packing)?;
                }
                archive.finish()?;
            }
            Format::Safetensors => {
                let arrays: Vec<_> = self.arrays.iter().map(|(name, array)| (*name, **array)).collect();
                safetensors::write(&mut to, &arrays)?;
            }
        }
        Ok(to.flush()?)
    }
}

/// A complete file that waits to be renamed.
struct Staged {
    file: NamedTempFile,
    path: PathBuf,
}

fn stage(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> Result<(), Fault>) -> Result<Staged, Fault> {
    let path = target(path);
    let before = match fs::metadata(&path) {
        Ok(before) => Some(before),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e.into()),
    };
    if let Some(before) = &before {
        if !before.is_file() {
            return Err(Fault::NotAFile);
        }
        // It may be replaced if it could be overwritten.
        File::options().write(true).open(&path)?;
    }
    let folder = folder(&path);
    fs::metadata(folder)?;
    let mut builder = tempfile::Builder::new();
    let permissions = before.map_or_else(usual_permissions, |before| Some(before.permissions()));
    if let Some(permissions) = &permissions {
        builder.permissions(permissions.clone());
    }
    // The name would say nothing.
    let file = builder.prefix(".fuseloop-").tempfile_in(folder).map_err(|e| io::Error::from(e.kind()))?;
    let mut buffered = BufWriter::with_capacity(1 << 16, file.as_file());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    Ok(Staged { file, path })
}

/// The permissions of a new file under the user's mask; a temporary file is private otherwise.
#[cfg(unix)]
fn usual_permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn usual_permissions() -> Option<Permissions> {
    None
}

impl Staged {
    fn commit(self) -> io::Result<()> {
        self.file.persist(self.path).map(drop).map_err(|e| e.error)
    }
}
