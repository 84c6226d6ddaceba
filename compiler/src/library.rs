//! The libraries that a program can use by name. They are written in the language itself, one file
//! each, and a program reads only those that it uses.

use grammar::{Highlight, highlight};

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its name.
    pub name: &'static str,
    /// Its contents, in a few words.
    pub about: &'static str,
    /// Its source.
    pub text: &'static str,
}

/// Every library.
pub const ALL: [Library; 2] = [
    Library { name: "nn", about: "layers, norms and losses of neural networks", text: include_str!("library/nn.fl") },
    Library {
        name: "stats",
        about: "statistics, distances and moving windows",
        text: include_str!("library/stats.fl"),
    },
];

impl Library {
    /// The library of that name.
    pub fn named(name: &str) -> Option<Library> {
        ALL.into_iter().find(|library| library.name == name)
    }

    /// The library that has a function of that name.
    pub fn with(function: &str) -> Option<Library> {
        ALL.into_iter().find(|library| library.functions().any(|name| name == function))
    }

    /// The names of its functions, in order.
    pub fn functions(self) -> impl Iterator<Item = &'static str> {
        let text = self.text;
        let words = highlight(text)
            .into_iter()
            .map(move |(span, class)| (text.get(span.start as usize..span.end as usize).unwrap_or_default(), class));
        let mut after_fn = false;
        words.filter_map(move |(word, class)| {
            let named = std::mem::replace(&mut after_fn, (word, class) == ("fn", Highlight::Keyword));
            named.then_some(word)
        })
    }
}
