//! A text of loop nests: refused, or verified and printed as it is read.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::ir(bytes));
