//! Deliberate bugs for testing the differential tester: a line for each in one table, and a query
//! at the place where it is planted. Without the feature `sabotage` the answer is the constant
//! `false`, and nothing of them remains in the code. `docs/fuzzing.md` says which test finds each.

macro_rules! bugs {
    ($($variant:ident = $room:literal, $what:literal;)*) => {
        /// A deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the table says what each is")]
        pub enum Bug { $($variant),* }

        impl Bug {
            /// Every bug, with the part of the code that it is planted in and a description.
            pub const ALL: &'static [(Bug, &'static str, &'static str)] = &[$((Bug::$variant, $room, $what)),*];
        }
    };
}

bugs! {
    ProofByOne = "check", "a proof allows one more than it shows";
    ElseTaken = "check", "what holds where a condition does is taken to hold in its `else`";
    PrefixToo = "check", "a prefix below an index takes its own element too";
    GreatestEnd = "check", "of several ends of an index the greatest counts";
    GuardedEnd = "check", "an access under an `if` ends an index";
    SliceStart = "check", "a slice begins at the first element";
    StretchedAxis = "check", "an axis of length 1 is not repeated";
    SizeOfAxis = "check", "the size of any axis is that of the first";
    ConcatStart = "check", "the second of two joined arrays does not begin after the first";
    LengthsUnasked = "check", "lengths that must be equal are not required to be";
    ElementsUnasked = "check", "`argmax` does not require an element";
    LiteralSign = "check", "a negative whole number loses its sign";
    OddPower = "check", "a power by an odd number is the one below";
    SwappedLogic = "check", "the operators of logic change places";
    KeptValue = "check", "every conversion of integers counts as one that keeps the value";
    SlopeSign = "derive", "a divisor's slope has the wrong sign";
    SecondFactor = "derive", "of an operand that stands there twice only the first counts";
    OwnFactor = "derive", "both factors of a contraction get the left one";
    BranchOfBoth = "derive", "what stands in no branch of an `if` gets the share of `else` where `then` is taken";
    InverseByOne = "derive", "an access is turned around to the element before";
    RangeUnasked = "derive", "the end of a range is not looked at where an access is turned around";
    NextKey = "derive", "a sum by key is that of the next key";
    GreatestGets = "derive", "the greatest element gets the share of the least";
    AllFactors = "derive", "the slope of a product is the product of all factors";
    SumFromBegin = "derive", "the derivative of a running sum runs from the beginning too";
    UnturnedSort = "derive", "the permutation of a sort is not turned around";
    StateOfStep = "derive", "the way back takes the states of its steps in their order";
    CarriedOn = "derive", "a step back adds to the derivatives in states that it replaces";
    BlockLate = "derive", "a block of a long loop begins one step late";
    ReadersUnseen = "derive", "an element of a recurrence gets nothing from those that read it";
    BoundAxis = "bind", "a size name is bound to the first axis";
    AtMost = "bind", "what must be at most a size may be one more";
    EmptyEnough = "bind", "a condition does not hold for one element either";
    RankUnchecked = "bind", "an argument's rank is not looked at";
    TypeUnchecked = "bind", "an argument's type is not looked at";
    FortranOrder = "files", "an `.npy` file is said to be in the other order";
    TensorShape = "files", "the shape of a tensor is written backwards";
    Checksum = "files", "the checksum in an archive is that of nothing";
    CancelUnseen = "library", "a wish that is older than the call is not seen";
    SwappedFault = "library", "an error has the subscript and the bound exchanged";
    SwappedSides = "library", "an error has the left side's number on the right";
    TurnedShapes = "library", "the shapes of results are in the wrong order";
    OutputsUncounted = "library", "the number of arrays to write to is not looked at";
    ObjectTemporaries = "objects", "temporaries begin where the scratch memory does";
    ObjectHeld = "objects", "a call that fails late has written results";
    ObjectUnsigned = "objects", "a `u64` beyond the greatest `i64` is a negative number";
    ObjectNeeds = "objects", "every axis of a result is said to be as long as the first";
    ObjectVoid = "objects", "what loops without iterations would need is required";
    ObjectText = "objects", "the text of a status is that of the next";
    SwappedOperands = "lower", "the operands of a subtraction change places";
    SwappedBranches = "lower", "the branches of an `if` without accesses change places";
    DroppedCheck = "lower", "a subscript that is data is not checked";
    ForgottenOrder = "lower", "sums of floats are taken in any order";
    LiteralShifted = "lower", "the elements of an array literal are one further";
    InclusiveScan = "lower", "a prefix up to an index takes its own element too";
    PrefixOfNothing = "lower", "the product of no elements is 0";
    OppositeEqual = "lower", "a difference counts as equal to the one with exchanged operands";
    KeyBeyond = "lower", "a key may be as great as the number of groups";
    StepMore = "lower", "a loop over kernels takes one step more";
    StepHeld = "lower", "a loop over scalars ends with the states before its last step";
    PlaneLess = "planes", "a recurrence in planes ends one plane early";
    InlinedAxes = "fusion", "a producer is computed at its consumer's subscripts in the wrong order";
    InlinedView = "fusion", "what a producer reads elsewhere is read where its consumer reads";
    JoinedLengths = "fusion", "loops of different lengths become one";
    JoinedReduction = "fusion", "a reduction is joined by some of its indices";
    JoinedPast = "fusion", "a loop moves past one that it needs";
    JoinedFlows = "fusion", "of several buffers between loops only the first is looked at";
    JoinedScan = "fusion", "a loop is joined with a scan of other elements";
    PlacedElsewhere = "fusion", "what is read beside a sorted element is read where the element was";
    ErasedStore = "fusion", "a store is erased that another kernel reads";
    ForwardedElsewhere = "rewrite", "a load takes what was stored at another place";
    HoistedLoad = "rewrite", "a load moves before the stores that it reads";
    HoistedOutside = "rewrite", "an access leaves a loop without iterations";
    HoistedGuarded = "rewrite", "an access leaves the branch that guards it";
    UnturnedExtreme = "rewrite", "the greatest before a function that falls is not the least behind it";
    SharedLoads = "rewrite", "loads of one buffer count as equal";
    OverlappingSlots = "plan", "what is still read shares memory with what is written";
    InPlace = "plan", "what other elements are read from is overwritten in place";
    LostAxis = "plan", "a row in scratch loses the axis that it runs along";
    OwnScratch = "plan", "what several kernels use becomes scratch of each";
    CheckedBound = "cpu nest", "a subscript may be the length of its axis";
    TileReach = "time tiles", "iterations of a loop over kernels lag one row too little behind each other";
    NarrowBorder = "borders", "the border at the beginning of an axis lacks one element";
    KeptFromZero = "carry", "the first iteration of a recurrence takes the element before it for zero";
    RowEnd = "jam", "of rows that run behind one another, the second is not computed to its end";
    BeyondRow = "across", "elements beyond the end of a short row count";
    SpoiledSum = "masks", "a sum that a factor beyond a border made NaN stays so";
    LastRow = "rows", "the last tile of rows of a product lacks its last row";
    JammedTail = "jam", "the last rows of a recurrence, fewer than run together, are not computed";
    SkippedTurn = "ptx ordered", "the second lane of those that merge into an element skips its turn";
    EqualPlaces = "sort", "equal elements change places";
    LostDigit = "sort", "elements are not sorted by the last digit of their keys";
    KeyedSum = "keyed", "each chunk merges the elements of the first";
    BehindStored = "keyed", "a result that is combined where a loop behind reads it is not stored";
    BinEnd = "keyed", "a range of keys does not merge its last element";
    EndedLane = "cpu whiles", "a lane takes the steps of the others after its loop has ended";
    MergedLoops = "cpu nest", "neighbouring loops become one though their accesses do not step evenly";
    LostTail = "cpu nest", "the elements after the last vector are not computed";
    Odometer = "cpu nest", "an outer index does not begin again on a thread";
    RowsBegin = "cpu nest", "a thread misses the first element of each row but its first";
    DividesByZero = "cpu scalar", "a divisor of 0 reaches the instruction";
    ShiftedTooFar = "cpu scalar", "a shift by more than the width is one by less";
    LessThanItself = "cpu scalar", "a float is less than an equal one";
    Saturation = "cpu scalar", "a float beyond 127 becomes the `i8` -128";
    WrongIdentity = "cpu reduce", "the greatest of no floats is infinity";
    LastOfEquals = "math", "`argmax` takes the last of equals";
    LostBlock = "cpu reduce", "the elements after the last whole block are not summed";
    ScanGroups = "cpu reduce", "what a group of a scan gives is not carried to the next";
    FoldedNeighbours = "cpu reduce", "the last lanes are folded by neighbours, not in halves";
    UnclearedLanes = "cpu reduce", "the lanes of a chunk keep what was there before";
    TilePitch = "cpu across", "the rows of a transposed tile lie too close";
    NegativeSubscript = "cpu checks", "the look before a loop misses negative subscripts";
    ScanChunks = "cpu scan", "a chunk of a scan knows the one before it alone";
    UnawaitedChunk = "cpu scan", "a thread does not wait for what the chunks before give";
    LastIteration = "cpu threads", "threads leave the last iteration out";
    LastChunk = "cpu threads", "the last chunk of a long reduction is not taken";
    LostEpilogue = "cpu contract", "what follows a contraction is not done";
    TurnedPanel = "cpu contract", "the rows of a packed factor are taken for its columns";
    StaleFactor = "cpu contract", "a packed factor stays for the next one of its sizes";
    UnmirroredTile = "cpu contract", "a symmetric product is not stored left of its diagonal";
    LostRun = "cpu contract", "the rows of a factor are packed as if they were contiguous";
    IndexLanes = "lanes128", "every second lane of an index has the number before";
    SelectedLanes = "lanes128", "a choice of lanes takes the other value";
    StridedGroups = "lanes128", "a group after the first of a step begins where the first does";
    GatheredLane = "lanes128", "all lanes of a gather have the first one's subscript";
    ShiftedLanes = "lanes128", "a vector's shift by more than the width is one by less";
    SignedLanes = "lanes128", "unsigned numbers compare as signed ones";
    LastLane = "wide", "the last element of the last group is left out";
    LaneAtHand = "wide", "half the lanes of a sum take the elements of all";
    IndexBegins = "wide", "an index counts from 0 in each part of a loop";
    WideSelect = "wide", "a choice takes the other value";
    WideNan = "wide", "the greater of a NaN and a number is the number";
    UpperHalf = "wide", "the upper half of a register is the lower";
    LostRest = "wide", "the elements after whole steps are not reduced";
    DirtyRegisters = "wide", "a reduction begins with what its registers held";
    WideCarry = "wide", "a group of a scan knows nothing of those before";
    FirstOrder = "orders", "a sum that leaves a loop is taken in the order of the first that stays";
    SweptBeyond = "sweeps", "elements beyond the last column of a product count";
    LanesBarrier = "ptx", "lanes are folded before all have been written: no barrier";
    TileBarrier = "ptx", "a tile is read before it has been written: no barrier";
    LoopBound = "ptx", "a loop runs once more";
    ThreadBound = "ptx", "a thread takes the element after the last";
    Unravelled = "ptx", "the outer of several indices is the number of the iteration";
    PtxSelect = "ptx", "a choice takes the other value";
    PtxDivision = "ptx", "division by 0 gives the dividend";
    PtxNan = "ptx", "a NaN does not differ from itself";
    PtxRounding = "ptx", "halves are cut off, not rounded to even";
    PtxPrefix = "ptx", "a prefix misses the element before it";
    PtxLastBlock = "ptx", "the first block that ends its chunk joins the results, not the last one";
    PtxRelay = "ptx", "what is before a window of a scan's chunks is passed on behind it too";
    PtxScanStep = "ptx", "a scan on one thread misses a step of its group";
    PtxEdge = "ptx", "a contraction writes past the edge of its result";
    PtxProducts = "ptx", "the factors of a contraction are overwritten while they are read: no barrier";
    PtxTogether = "ptx", "several iterations at once go past the end";
    PtxRest = "ptx", "the elements after the last whole block are not summed";
}

#[cfg(feature = "sabotage")]
mod switch {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The number of the active bug, from 1; 0 for none. It is global to the process, so that all
    /// threads of a run have the bug of its compiler.
    static ON: AtomicUsize = AtomicUsize::new(0);

    /// Whether a bug is on.
    pub fn on(bug: super::Bug) -> bool {
        ON.load(Ordering::Relaxed) == bug as usize + 1
    }

    /// Activates the bug with a number in the table, and no other.
    pub fn set(bug: Option<usize>) {
        ON.store(bug.map_or(0, |n| n + 1), Ordering::Relaxed);
    }
}

#[cfg(feature = "sabotage")]
pub use switch::{on, set};

/// Whether a bug is on: never.
#[cfg(not(feature = "sabotage"))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}
