//! Choices drawn from a list of numbers. A shorter list and smaller numbers make a simpler program,
//! so that shrinking the list shrinks the program: 0 always stands for the simplest alternative,
//! and an exhausted list yields 0 forever.

/// Draws choices from a list.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    words: &'a [u16],
}

impl Choices<'_> {
    /// Draws from `words` in order.
    pub fn new(words: &[u16]) -> Choices<'_> {
        Choices { words }
    }

    /// Whether nothing but zeros is left.
    pub fn is_exhausted(&self) -> bool {
        self.words.is_empty()
    }

    /// A number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let Some((word, rest)) = self.words.split_first() else { return 0 };
        self.words = rest;
        usize::from(*word).checked_rem(n).unwrap_or(0)
    }

    /// True in this percentage of cases; false is the simpler choice.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of several; the first is the simplest.
    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> Option<&'t T> {
        from.get(self.below(from.len()))
    }

    /// One of several by weight; the first is the simplest.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> Option<T> {
        let total = from.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, item) in from {
            if at < *weight {
                return Some(*item);
            }
            at -= weight;
        }
        None
    }
}
