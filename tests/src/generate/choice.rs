//! Choices drawn from a list of numbers. A shorter list and smaller numbers make a simpler program, so that
//! shrinking the list shrinks the program: 0 always stands for the simplest alternative, and a list that has
//! run out gives 0 for ever.

/// Draws choices from a list.
#[derive(Clone, Debug)]
pub struct Choices {
    words: std::vec::IntoIter<u16>,
}

impl Choices {
    /// Draws from `words` in order.
    pub fn new(words: &[u16]) -> Choices {
        Choices { words: words.to_vec().into_iter() }
    }

    /// Whether nothing but zeros is left.
    pub fn is_exhausted(&self) -> bool {
        self.words.as_slice().is_empty()
    }

    /// A number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let word = usize::from(self.words.next().unwrap_or(0));
        word.checked_rem(n).unwrap_or(0)
    }

    /// True in so many cases of a hundred; false is the simpler.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of several; the first is the simplest.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
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
