//! The textual form of an array's location: a file, a name within it, or a standard stream.

use std::fmt;
use std::path::{Path, PathBuf};

use ir::Dtype;

use super::error::{Fault, FileError};

/// An array in a file: `a.npy`, `a.npz:key`, `a.safetensors:key`; or `-`, `.npy` on standard input
/// or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// None for a standard stream.
    path: Option<PathBuf>,
    format: Format,
    key: Option<String>,
}

/// The format of a file, determined by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One array, as `numpy.save` writes it.
    Npy,
    /// Arrays by name, as `numpy.savez` and `numpy.savez_compressed` write them.
    Npz,
    /// Arrays by name, as the `safetensors` package writes them.
    Safetensors,
    /// One array with at most two axes: a line for each row, with commas between the elements.
    Csv,
    /// One array of `u8` or `u16`: the rows of a picture.
    Png,
    /// Lines through the elements of one array. It is written, not read.
    Svg,
}

const ENDINGS: [(&str, Format); 6] = [
    (".npz", Format::Npz),
    (".safetensors", Format::Safetensors),
    (".npy", Format::Npy),
    (".csv", Format::Csv),
    (".png", Format::Png),
    (".svg", Format::Svg),
];

impl Format {
    /// Whether files of this format hold arrays by name.
    pub fn has_names(self) -> bool {
        match self {
            Format::Npz | Format::Safetensors => true,
            Format::Npy | Format::Csv | Format::Png | Format::Svg => false,
        }
    }

    /// The ending of its files.
    pub(crate) fn ending(self) -> &'static str {
        ENDINGS.iter().find(|(_, format)| *format == self).map_or("", |(ending, _)| ending)
    }
}

impl Place {
    /// Parses a place. The first ending in the text that is known as a format ends the path;
    /// without any it is an error.
    ///
    /// # Errors
    ///
    /// [`Fault::UnknownFormat`] if no ending in the text tells a format.
    ///
    /// ```
    /// use files::{Format, Place};
    ///
    /// let place = Place::parse("data/a.npz:w1").unwrap();
    /// assert_eq!((place.format(), place.key()), (Format::Npz, Some("w1")));
    /// assert!(Place::parse("a.txt").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Place, FileError> {
        let unknown = || FileError::new(text.to_owned(), Fault::UnknownFormat);
        if text == "-" {
            return Ok(Place { path: None, format: Format::Npy, key: None });
        }
        let lower = text.to_ascii_lowercase();
        let mut ends: Vec<(usize, Format)> = vec![];
        for (ending, format) in ENDINGS {
            let mut places = lower.match_indices(ending).map(|(at, _)| at + ending.len());
            ends.extend(places.find(|end| matches!(text.as_bytes().get(*end), None | Some(b':'))).map(|e| (e, format)));
        }
        let (end, format) = ends.into_iter().min_by_key(|(end, _)| *end).ok_or_else(unknown)?;
        let key = text[end..].strip_prefix(':').map(str::to_owned);
        Ok(Place { path: Some(PathBuf::from(&text[..end])), format, key })
    }

    /// The file; `None` for a standard stream.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The name of the array in the file, if the place has one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The place with a name for the array, if the format has names and the place has none.
    #[must_use]
    pub fn or_key(mut self, name: &str) -> Place {
        if self.format.has_names() {
            self.key.get_or_insert_with(|| name.to_owned());
        }
        self
    }

    /// The place without the element type that may end it, as in `a.npy:f32` and `a.npz:x:f32`, and
    /// that type.
    ///
    /// ```
    /// use files::Place;
    /// use ir::Dtype;
    ///
    /// let (place, dtype) = Place::parse("a.npz:x:f32").unwrap().split_dtype();
    /// assert_eq!((place.key(), dtype), (Some("x"), Some(Dtype::F32)));
    /// let (place, dtype) = Place::parse("a.npz:f32").unwrap().split_dtype();
    /// assert_eq!((place.key(), dtype), (Some("f32"), None));
    /// ```
    #[must_use]
    pub fn split_dtype(mut self) -> (Place, Option<Dtype>) {
        let key = self.key.as_deref().unwrap_or_default();
        let (before, last) = match (self.format.has_names(), key.rsplit_once(':')) {
            (true, Some((before, last))) => (Some(before.to_owned()), last),
            (true, None) => return (self, None),
            (false, _) => (None, key),
        };
        match Dtype::from_name(last) {
            Some(dtype) => {
                self.key = before;
                (self, Some(dtype))
            }
            None => (self, None),
        }
    }

    /// The file, for messages.
    pub(crate) fn file_name(&self) -> String {
        self.path.as_ref().map_or_else(|| "-".to_owned(), |path| path.display().to_string())
    }
}

/// The place as [`Place::parse`] reads it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file_name())?;
        self.key.as_ref().map_or(Ok(()), |key| write!(f, ":{key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_paths_from_keys() {
        let parts = |text: &str| {
            let place = Place::parse(text).ok()?;
            let path = place.path().map_or("-".to_owned(), |p| p.display().to_string());
            Some((path, place.format(), place.key().map(str::to_owned)))
        };
        let key = |key: &str| Some(key.to_owned());
        for (text, expected) in [
            ("-", ("-", Format::Npy, None)),
            ("a.npy", ("a.npy", Format::Npy, None)),
            ("a.NPY", ("a.NPY", Format::Npy, None)),
            ("b/a.npz", ("b/a.npz", Format::Npz, None)),
            ("a.npz:", ("a.npz", Format::Npz, key(""))),
            ("a.npz:x", ("a.npz", Format::Npz, key("x"))),
            ("a.npz:x.npy", ("a.npz", Format::Npz, key("x.npy"))),
            ("a.npz:x.npz:y", ("a.npz", Format::Npz, key("x.npz:y"))),
            ("a.npy:x", ("a.npy", Format::Npy, key("x"))),
            ("a.npy.d/a.npz", ("a.npy.d/a.npz", Format::Npz, None)),
            ("C:\\a.safetensors:l.0:w", ("C:\\a.safetensors", Format::Safetensors, key("l.0:w"))),
        ] {
            let (path, format, key) = expected;
            assert_eq!(parts(text), Some((path.to_owned(), format, key)), "{text}");
            assert_eq!(Place::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "a", "a.txt", "a.npyx", "3", "npz:a", "a.npy2:x"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
