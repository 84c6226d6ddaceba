//! The choice among legal rewrites, for every pass that has one: by the pass's own judgement, or by
//! a coin in tests, and up to a limit that serves to find a wrong rewrite by bisection.

/// Who chooses among legal rewrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The cost model of the pass.
    #[default]
    Model,
    /// Makes every rewrite that does not repeat expensive work, to see what is possible.
    Legal,
    /// Decides each of them by a coin, whatever it costs, to test legality.
    Random(u64),
}

/// Grants rewrites to the passes that ask for them.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    policy: Policy,
    fuel: Option<u64>,
    granted: u64,
    coin: u64,
}

impl Choice {
    /// Grants by a policy, and at most `fuel` rewrites if that is given.
    pub fn new(policy: Policy, fuel: Option<u64>) -> Choice {
        let coin = if let Policy::Random(seed) = policy { seed } else { 0 };
        Choice { policy, fuel, granted: 0, coin }
    }

    /// Who chooses.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether to make a legal rewrite: by the model if it pays, at random by a coin, but never
    /// beyond the fuel.
    pub fn grants(&mut self, pays: bool) -> bool {
        if self.fuel.is_some_and(|fuel| self.granted >= fuel) {
            return false;
        }
        let granted = match self.policy {
            Policy::Model => pays,
            Policy::Legal => true,
            Policy::Random(_) => self.toss(),
        };
        self.granted += u64::from(granted);
        granted
    }

    /// True three times in four, by the generator `SplitMix64` (Steele, Lea and Flood, 2014).
    fn toss(&mut self) -> bool {
        self.coin = self.coin.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.coin;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 3 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Policy};

    #[test]
    fn the_model_is_asked_whether_a_rewrite_pays() {
        let mut choice = Choice::default();
        assert!(choice.grants(true) && !choice.grants(false));
        assert!(Choice::new(Policy::Legal, None).grants(false));
    }

    #[test]
    fn fuel_counts_the_rewrites_that_are_made() {
        let mut choice = Choice::new(Policy::Model, Some(1));
        assert_eq!([false, true, true].map(|pays| choice.grants(pays)), [false, true, false]);
    }

    #[test]
    fn the_same_seed_tosses_the_same_coin() {
        let tosses = |seed| {
            let mut choice = Choice::new(Policy::Random(seed), None);
            (0..64).map(|_| choice.grants(false)).collect::<Vec<_>>()
        };
        assert_eq!(tosses(7), tosses(7));
        assert!(tosses(7).contains(&true) && tosses(7).contains(&false));
    }
}
