//! The errors of reading text, E0001 to E0099. A number is never given another meaning.

crate::codes! {
    SOURCE_TOO_LARGE = 1, "the source is larger than the limit";
    TOO_DEEP = 2, "an expression is nested deeper than the limit";
    CHARACTER = 3, "a character that no program contains";
    NUMBER = 4, "a malformed number";
    INTEGER_TOO_LARGE = 5, "an integer literal beyond 64 bits";
    OPERATOR = 6, "an operator of another language";
    TEXT = 7, "text in quotes";
    HIDDEN = 8, "a character that nobody sees";
    UNCLOSED = 10, "a bracket that is never closed";
    UNOPENED = 11, "a bracket that closes nothing";
    SYNTAX = 20, "other text than the grammar expects";
    COMPARISON_CHAIN = 21, "a chain of comparisons";
    TUPLE = 22, "a tuple that is not the result of a function";
    BINDER = 23, "not an index of a reducer";
    REDUCER_ARGUMENT = 24, "a reducer with indices takes one argument";
    UNKNOWN_TYPE = 25, "an unknown type";
    NO_RESULT = 26, "a block without a result";
    UNUSED_VALUE = 27, "a value in a block that nothing uses";
    POSITIONAL_AFTER_NAMED = 28, "a positional argument after a named one";
    LOOP = 29, "a loop without state, or with something other than states and one counter";
}
