//! The operations of vector code, the same for each instruction set: `lanes` writes leaves in them,
//! and `avx512` and `avx2` select instructions.

/// Lanes of four bytes.
pub(super) const W32: bool = false;
/// Lanes of eight bytes.
pub(super) const W64: bool = true;

/// An operation, for many of them with the width of lanes. Its operands are in the order of those
/// of the AVX-512 instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VectorOp {
    // Arithmetic on floats.
    FAdd(bool),
    FSub(bool),
    FMul(bool),
    FDiv(bool),
    FSqrt(bool),
    // The first operand where it is less, or greater, than the second one, else the second.
    FMin(bool),
    FMax(bool),
    // Rounds as an immediate says.
    FRound(bool),
    // The minimum or maximum, as an immediate says, of the numbers among two operands.
    FRange(bool),
    // Comparisons of floats, and of signed and unsigned integers, by an immediate. They give masks.
    FCompare(bool),
    SCompare(bool),
    UCompare(bool),
    // Arithmetic on integers, and operations on bits.
    Add(bool),
    Sub(bool),
    Mul(bool),
    And(bool),
    Or(bool),
    Xor(bool),
    Abs(bool),
    SMin(bool),
    UMin(bool),
    SMax(bool),
    UMax(bool),
    // Shifts by an immediate.
    Shl(bool),
    UShr(bool),
    SShr(bool),
    // Shifts by an amount for each lane.
    ShlEach(bool),
    UShrEach(bool),
    SShrEach(bool),
    // The second operand in the lanes of a mask, the first one in the others.
    Blend(bool),
    BlendHalfwords,
    // Moves a register: floats, and anything in the lanes of a mask.
    Copy(bool),
    Keep(bool),
    // Loads a vector, and stores one.
    Load(bool),
    Store(bool),
    StoreNonTemporal,
    StoreFirst(bool),
    LoadNumbers,
    // The same for lanes of two bytes and of one, as many as there are lanes of four.
    LoadHalfwords,
    StoreHalfwords,
    LoadBytes,
    StoreBytes,
    // Loads and stores elements by their numbers.
    Gather(bool),
    Scatter(bool),
    // Concatenates two vectors and shifts lanes out, by an immediate.
    Align(bool),
    // Takes lanes by their numbers: of one vector, or of the overwritten one and another.
    Permute(bool),
    PermuteBoth(bool),
    // Exchanges lanes of four bytes in each 16 bytes, and groups of 16 bytes, by an immediate.
    ShuffleWithin,
    ShuffleAcross,
    // One half of a vector, and a vector with another half.
    Half,
    Join,
    // The number of the current element in each lane.
    SplatIndex,
    // Lanes of four bytes from narrower ones, and of eight from four.
    SExtendBytes,
    UExtendBytes,
    SExtendHalfwords,
    UExtendHalfwords,
    SExtendWords,
    UExtendWords,
    // The lowest bytes of lanes of four, or of eight.
    ToBytes,
    ToHalfwords,
    ToWords,
    // Conversions.
    I32ToF32,
    I32ToF64,
    U32ToF32,
    U32ToF64,
    I64ToF32,
    I64ToF64,
    U64ToF32,
    U64ToF64,
    F32ToI32,
    F32ToU32,
    F32ToI64,
    F32ToU64,
    F64ToI32,
    F64ToU32,
    F64ToI64,
    F64ToU64,
    F32ToF64,
    F64ToF32,
    F16ToF32,
    F32ToF16,
    // A mask of the bytes that are not 0.
    TestBytes,
    // Operations on masks.
    MaskAnd,
    MaskAndNot,
    MaskOr,
    MaskXor,
    MaskXnor,
    MaskNot,
    // The upper half of a mask, and a mask of two halves, the upper one first.
    MaskShr,
    MaskJoin,
    // A mask from a slot.
    MaskLoad,
}
