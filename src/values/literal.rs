//! Arrays as they are written: elements in brackets, with commas between.

use ir::{Array, Dtype, Scalar};

use super::{From, LiteralProblem, ValueErrorKind};

/// The deepest brackets.
const MAX_RANK: usize = 64;

/// The array that a text stands for, which begins with a bracket. `scalar` reads an element.
pub(super) fn parse(
    text: &str,
    dtype: Dtype,
    scalar: &dyn Fn(&str) -> Option<Scalar>,
) -> Result<(Vec<usize>, From), ValueErrorKind> {
    let mut parser = Parser { text, at: 0, counts: vec![], lengths: vec![], rank: None };
    let elements = parser.elements(dtype, scalar)?;
    let shape: Vec<usize> = parser.lengths.iter().map(|length| length.unwrap_or(0)).collect();
    let array = Array::from_scalars(dtype, &shape, &elements).map_err(ValueErrorKind::Array)?;
    Ok((shape, From::Array(array)))
}

struct Parser<'t> {
    text: &'t str,
    /// The byte to read next.
    at: usize,
    /// For each open bracket, the number of its elements or rows so far.
    counts: Vec<usize>,
    /// The length of each axis, once a bracket has closed it.
    lengths: Vec<Option<usize>>,
    /// The number of brackets around an element, once one or an empty row was read.
    rank: Option<usize>,
}

impl Parser<'_> {
    fn fail<T>(&self, problem: LiteralProblem) -> Result<T, ValueErrorKind> {
        Err(ValueErrorKind::Literal { problem, at: self.text[..self.at].chars().count() })
    }

    /// Reads all of the text.
    fn elements(
        &mut self,
        dtype: Dtype,
        scalar: &dyn Fn(&str) -> Option<Scalar>,
    ) -> Result<Vec<Scalar>, ValueErrorKind> {
        let mut elements = vec![];
        // Whether an element or a row is to follow, rather than a comma or the end of a row.
        let mut wanted = true;
        loop {
            self.at = self.text.len() - self.text[self.at..].trim_start().len();
            let rest = &self.text[self.at..];
            let Some(first) = rest.chars().next() else {
                return if self.counts.is_empty() { Ok(elements) } else { self.fail(LiteralProblem::Open) };
            };
            if self.counts.is_empty() && !wanted {
                return self.fail(LiteralProblem::GoesOn);
            }
            match first {
                '[' if wanted => self.open()?,
                // A row may be empty, and may end in a comma.
                ']' if !self.counts.is_empty() => {
                    self.close()?;
                    wanted = false;
                }
                ',' if !wanted => {
                    self.at += 1;
                    wanted = true;
                }
                ',' | ']' => return self.fail(LiteralProblem::NoElement),
                _ if !wanted => return self.fail(LiteralProblem::NoComma),
                _ => {
                    let end = rest.find(|c: char| "[],".contains(c) || c.is_whitespace()).unwrap_or(rest.len());
                    let word = &rest[..end];
                    if word == "..." {
                        return self.fail(LiteralProblem::Elided);
                    }
                    if *self.rank.get_or_insert(self.counts.len()) != self.counts.len() {
                        return self.fail(LiteralProblem::Depth);
                    }
                    let Some(value) = scalar(word) else {
                        return Err(ValueErrorKind::Element { text: word.to_owned(), dtype, at: self.counts.clone() });
                    };
                    elements.push(value);
                    self.count();
                    self.at += end;
                    wanted = false;
                }
            }
        }
    }

    fn open(&mut self) -> Result<(), ValueErrorKind> {
        if self.rank.is_some_and(|rank| self.counts.len() >= rank) {
            return self.fail(LiteralProblem::Depth);
        }
        if self.counts.len() == MAX_RANK {
            return self.fail(LiteralProblem::TooDeep);
        }
        self.counts.push(0);
        if self.lengths.len() < self.counts.len() {
            self.lengths.push(None);
        }
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), ValueErrorKind> {
        let depth = self.counts.len();
        if self.counts[depth - 1] == 0 && *self.rank.get_or_insert(depth) != depth {
            return self.fail(LiteralProblem::Depth);
        }
        let found = self.counts.pop().unwrap_or_default();
        let expected = *self.lengths[depth - 1].get_or_insert(found);
        if found != expected {
            return Err(ValueErrorKind::Rows { row: self.counts.clone(), expected, found });
        }
        self.count();
        self.at += 1;
        Ok(())
    }

    /// Counts an element or a row of the innermost bracket.
    fn count(&mut self) {
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
    }
}
