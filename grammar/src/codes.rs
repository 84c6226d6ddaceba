//! The errors of reading text, E0001 to E0099. A number is never given another meaning.

use crate::Code;

macro_rules! table {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code($number);)*

        /// Every code of this crate with its title, by number.
        pub const TABLE: &[(Code, &str)] = &[$(($name, $title)),*];
    };
}

table! {
    SOURCE_TOO_LARGE = 1, "The source is larger than the limit";
    TOO_DEEP = 2, "An expression is nested deeper than the limit";
    CHARACTER = 3, "A character that no program contains";
    NUMBER = 4, "A malformed number";
    INTEGER_TOO_LARGE = 5, "An integer literal beyond 64 bits";
    OPERATOR = 6, "An operator of another language";
    TEXT = 7, "Text in quotes";
    UNCLOSED = 10, "A bracket that is never closed";
    UNOPENED = 11, "A bracket that closes nothing";
    SYNTAX = 20, "Something else was expected here";
    COMPARISON_CHAIN = 21, "A chain of comparisons";
    TUPLE = 22, "A tuple that is not the result of a function";
    BINDER = 23, "Not an index of a reducer";
    REDUCER_ARGUMENT = 24, "A reducer with indices takes one argument";
    UNKNOWN_TYPE = 25, "An unknown type";
    NO_RESULT = 26, "A block without a result";
    UNUSED_VALUE = 27, "A value in a block that nothing uses";
    POSITIONAL_AFTER_NAMED = 28, "A positional argument after a named one";
}
