//! The decisions of fusion and their reasons: for each pair of operations that could share a
//! kernel, the pass that merged them or the rule that kept them apart. Data for reports; nothing
//! here changes a program.
//!
//! An *operation* is a kernel of the unfused program, and all ids here are of that program.

use std::fmt;

use crate::Size;
use crate::nest::{BufferId, KernelId};

macro_rules! passes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $purpose:literal;)*) => {
        /// A pass that merges kernels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FusionPass { $($(#[$doc])* $variant),* }

        impl FusionPass {
            /// Every pass, in the order they run.
            pub const ALL: &'static [FusionPass] = &[$(FusionPass::$variant),*];

            /// Its name, as options and reports give it.
            pub fn name(self) -> &'static str {
                match self { $(FusionPass::$variant => $name),* }
            }

            /// Its purpose, in a line.
            pub fn purpose(self) -> &'static str {
                match self { $(FusionPass::$variant => $purpose),* }
            }
        }
    };
}

passes! {
    /// Elementwise work into the loops that use it.
    Kloop = "kloop", "computes elementwise work where it is used";
    /// Elementwise work into the input of a reduction or scan, and scalar work into its end.
    Kinput = "kinput", "computes what a reduction takes as it reduces, and what becomes of its result at its end";
    /// Kernels without a path between them that read the same.
    Siblings = "siblings", "reads once for several results";
    /// Consecutive nests that agree on outer loops.
    Nest = "nest", "keeps a row in cache from one step to the next";
    /// Elementwise work before and after a contraction.
    Koutput = "koutput", "applies elementwise work to a contraction's tile while it is in cache";
}

impl FusionPass {
    /// The pass of that name.
    pub fn from_name(name: &str) -> Option<FusionPass> {
        FusionPass::ALL.iter().copied().find(|pass| pass.name() == name)
    }
}

impl fmt::Display for FusionPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Passes(u8);

impl Passes {
    /// No pass.
    pub const NONE: Passes = Passes(0);
    /// Every pass.
    pub const ALL: Passes = Passes((1 << FusionPass::ALL.len()) - 1);

    /// The set with one pass more.
    #[must_use]
    pub fn with(self, pass: FusionPass) -> Passes {
        Passes(self.0 | 1 << pass as u8)
    }

    /// Whether a pass is in the set.
    pub fn contains(self, pass: FusionPass) -> bool {
        self.0 & 1 << pass as u8 != 0
    }

    /// Whether all passes of another set are in the set.
    pub fn includes(self, other: Passes) -> bool {
        other.0 & !self.0 == 0
    }

    /// All sets of passes.
    pub fn sets() -> impl Iterator<Item = Passes> {
        (0..=Passes::ALL.0).map(Passes)
    }
}

impl Default for Passes {
    fn default() -> Passes {
        Passes::ALL
    }
}

impl FromIterator<FusionPass> for Passes {
    fn from_iter<I: IntoIterator<Item = FusionPass>>(passes: I) -> Passes {
        passes.into_iter().fold(Passes::NONE, Passes::with)
    }
}

/// `all`, `none`, or the names with commas between them.
impl fmt::Display for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Passes::ALL => f.write_str("all"),
            Passes::NONE => f.write_str("none"),
            some => {
                let names: Vec<&str> =
                    FusionPass::ALL.iter().filter(|p| some.contains(**p)).map(|p| p.name()).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl std::str::FromStr for Passes {
    /// The name that is no pass.
    type Err = String;

    fn from_str(text: &str) -> Result<Passes, String> {
        match text {
            "all" => Ok(Passes::ALL),
            "none" => Ok(Passes::NONE),
            names => names.split(',').map(|n| FusionPass::from_name(n).ok_or_else(|| n.to_string())).collect(),
        }
    }
}

/// The decision on one pair of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which two.
    pub pair: Pair,
    /// Whether they share a kernel.
    pub outcome: Outcome,
    /// The bytes that the pair moves through memory if it is not merged: those saved, or the price
    /// of the refusal.
    pub bytes: Size,
}

/// Two operations that could share a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pair {
    /// One loads what the other stores.
    Flow {
        /// Stores the buffer.
        producer: KernelId,
        /// Loads it.
        consumer: KernelId,
        /// The buffer that flows between them.
        buffer: BufferId,
    },
    /// Both load a buffer.
    Shared {
        /// One of them.
        first: KernelId,
        /// The other.
        second: KernelId,
        /// The buffer that both load.
        buffer: BufferId,
    },
}

/// Whether a pair shares a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It does, by the work of a pass.
    Fused(FusionPass),
    /// It does not.
    Refused(Reason),
}

/// Why a pair does not share a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The pass that would merge them is disabled.
    Disabled(FusionPass),
    /// Every element of the consumer needs the result of the producer's reduction over all
    /// elements.
    GlobalReduction,
    /// An iteration of the consumer reads elements that other iterations of the producer compute, or
    /// a loop over kernels begins or ends between the two.
    OtherIterations,
    /// The producer would be computed several times for each element, which costs more than reading
    /// it back.
    WouldDuplicate {
        /// How often each element would be computed.
        copies: Size,
        /// The cost of computing one element, in operations.
        operations: u64,
    },
    /// The producer's code would be duplicated too often in one kernel.
    TooManyCopies {
        /// How often.
        copies: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The loops run over different extents.
    ExtentsDiffer {
        /// Of the first operation.
        first: Size,
        /// Of the second.
        second: Size,
    },
    /// More scalars would be live at once than registers can hold.
    TooManyLiveValues {
        /// How many.
        live: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The kernel would be too large to compile well.
    TooLarge {
        /// Its operations, functions written out.
        operations: u64,
        /// The most there may be.
        limit: u64,
    },
    /// The program is too large for one kernel, and is cut between the two.
    Cut {
        /// Its operations.
        operations: u64,
        /// The most that a kernel may have.
        limit: u64,
    },
    /// It would take longer than two kernels, by the cost model.
    NotProfitable {
        /// Nanoseconds lost, at nominal sizes.
        loss: u64,
    },
    /// It would have too few iterations for all cores, and take longer than two kernels for that
    /// reason.
    LessParallel {
        /// Nanoseconds lost, at nominal sizes.
        loss: u64,
    },
    /// The producer must be stored in memory anyway, for an operation that it cannot be merged
    /// into.
    OtherConsumer {
        /// That operation.
        consumer: KernelId,
    },
    /// Another operation, in a kernel of its own, has to run between them.
    PathBetween {
        /// That operation.
        through: KernelId,
    },
    /// A contraction can only be merged with elementwise work over its own indices.
    Contraction,
    /// They could share a kernel, but do not in the cheapest plan.
    OtherPlan,
}

macro_rules! reason_names {
    ($($pattern:pat => $name:literal,)*) => {
        impl Reason {
            /// The name of every kind of reason.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name of the kind of reason, as reports show it.
            pub fn name(&self) -> &'static str {
                match self { $($pattern => $name),* }
            }
        }
    };
}

reason_names! {
    Reason::Disabled(_) => "disabled",
    Reason::GlobalReduction => "global-reduction",
    Reason::OtherIterations => "other-iterations",
    Reason::WouldDuplicate { .. } => "would-duplicate",
    Reason::TooManyCopies { .. } => "too-many-copies",
    Reason::ExtentsDiffer { .. } => "extents-differ",
    Reason::TooManyLiveValues { .. } => "too-many-live-values",
    Reason::TooLarge { .. } => "too-large",
    Reason::Cut { .. } => "cut",
    Reason::NotProfitable { .. } => "not-profitable",
    Reason::LessParallel { .. } => "less-parallel",
    Reason::OtherConsumer { .. } => "other-consumer",
    Reason::PathBetween { .. } => "path-between",
    Reason::Contraction => "contraction",
    Reason::OtherPlan => "other-plan",
}

#[cfg(test)]
mod tests {
    use super::{FusionPass, Passes};

    #[test]
    fn sets_of_passes_read_back() {
        let some = Passes::NONE.with(FusionPass::Nest).with(FusionPass::Kloop);
        assert_eq!(some.to_string(), "kloop,nest");
        for set in [Passes::ALL, Passes::NONE, some] {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        assert_eq!((some.with(FusionPass::Nest), Passes::ALL.with(FusionPass::Nest)), (some, Passes::ALL));
        assert_eq!("kloop,kinputs".parse::<Passes>(), Err("kinputs".to_string()));
    }
}
