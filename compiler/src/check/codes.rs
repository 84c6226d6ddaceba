//! The checker's error codes. A code never changes its meaning.

grammar::codes! {
    UNKNOWN_NAME = 101, "unknown name";
    UNKNOWN_FUNCTION = 102, "unknown function";
    DUPLICATE_NAME = 103, "a name is declared twice";
    NOT_A_VALUE = 104, "a function is used as a value";
    RECURSION = 105, "a function calls itself";
    ARGUMENT_COUNT = 106, "wrong number of arguments";
    ARGUMENT_NAME = 107, "unknown or repeated named argument";
    DECORATOR = 108, "unknown or malformed decorator";
    NO_FUNCTION = 109, "no function of that name";
    DTYPE_MISMATCH = 110, "operands of different types";
    DTYPE_EXPECTED = 111, "a value of another type was expected";
    LITERAL_RANGE = 112, "a literal does not fit its type";
    LITERAL_TYPE = 113, "a literal cannot have the type of its context";
    RANK_MISMATCH = 114, "a value of another rank was expected";
    SIZE_MISMATCH = 115, "sizes that can never be equal";
    NOT_A_SIZE = 116, "a size that is not made of sizes";
    UNBOUND_SIZE = 117, "a size name that no parameter binds";
    NEGATIVE_SIZE = 118, "a size that is always negative";
    TUPLE_USE = 119, "several results where one value is expected";
    RESULT_MISMATCH = 120, "the result differs from its declaration";
    NOT_INDEXABLE = 121, "a scalar is indexed";
    TOO_MANY_SUBSCRIPTS = 122, "more subscripts than axes";
    SUBSCRIPT_TYPE = 123, "a subscript that is not an integer";
    OUTSIDE = 124, "an access is outside for some index";
    UNBOUNDED_INDEX = 125, "an index without an end";
    RAGGED = 126, "an array whose size depends on an index";
    BAD_SLICE = 127, "a slice that cannot be";
    NOT_A_REDUCER = 128, "indices on something that is not a reducer";
    BAD_AXIS = 129, "no such axis";
    BAD_RESHAPE = 130, "a reshape that cannot be";
    BAD_EXPONENT = 131, "an exponent that cannot be";
    HOLE = 132, "`_` where no size is worked out";
    TOO_LARGE = 133, "the program is larger than the stated limit";
    TOO_MANY_AXES = 134, "an array has more axes than the stated limit";
    EMPTY_LITERAL = 135, "an array literal that has no shape";
    EMPTY_REDUCTION = 136, "argmax or argmin of nothing";
    NO_NUMBER = 137, "argmax or argmin over elements that have no number";
    READS_ITSELF = 138, "an array that reads itself";
    LOOSE_INDEX = 139, "an index that nothing runs over";
    LOOP_STATE = 145, "the state of a loop changes its type or shape";
    STATED = 146, "a condition of a signature that cannot be checked or met";
    NOT_EARLIER = 150, "a recurrence that reads elements that are not earlier";
    CLASH = 160, "a function that several used files have";
    NOT_IN_FILE = 161, "a picked function that the used file does not have";
}
