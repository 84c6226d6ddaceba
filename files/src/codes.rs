//! The errors of array files and of argument values, E0300 to E0399. A code never changes its
//! meaning.

grammar::codes! {
    ACCESS = 300, "a file that cannot be read or written";
    NOT_A_FILE = 301, "not a regular file";
    UNKNOWN_FORMAT = 302, "a file name that tells no format";
    NOT_NPY = 303, "not a .npy file";
    NPY_VERSION = 304, "a version of .npy that is unknown";
    NPY_HEADER = 305, "a malformed .npy header";
    HEADER_TOO_LONG = 306, "a header longer than the stated limit";
    DTYPE = 307, "elements of a type that the language does not have";
    DATA_LENGTH = 308, "more or less data than the header says";
    TOO_LARGE = 309, "an array larger than memory";
    INVALID_BOOL = 310, "a truth value that is neither 0 nor 1";
    ZIP = 311, "not a .npz archive";
    ZIP_METHOD = 312, "a part of an archive that is packed in another way";
    DAMAGED = 313, "damaged data";
    RATIO = 314, "a part of an archive that claims to be larger than it can be";
    SAFETENSORS = 315, "a malformed .safetensors header";
    OFFSETS = 316, "tensors that overlap, leave gaps or lie outside of the file";
    DUPLICATE_KEY = 317, "two arrays of one name in a file";
    UNKNOWN_KEY = 318, "no array of that name in a file";
    KEY_NEEDED = 319, "a file of several arrays without saying which";
    KEY_UNUSED = 320, "a name within a file that holds a single array";
    UNWRITABLE_DTYPE = 321, "a type that a format does not have";
    WRITTEN_TWICE = 322, "two results for one place";
    STANDARD_INPUT = 323, "standard input is read twice";
    KEY_NAME = 324, "a name that an array in a file cannot have";
    CSV_CELL = 325, "a cell of a table that is no element";
    CSV_ROWS = 326, "a table with rows of different lengths";
    PNG = 327, "not a picture as .png";
    UNWRITABLE_SHAPE = 328, "a shape that a format does not have";
    ONLY_WRITTEN = 329, "a format that is written and not read";
    VALUE_FORM = 330, "not a value for this parameter";
    VALUE_RANGE = 331, "a number that the parameter's type does not hold";
    VALUE_SHAPE = 332, "an invalid shape";
    VALUE_LITERAL = 333, "brackets and commas that form no array";
    VALUE_ROWS = 334, "an array with rows of different lengths";
}
