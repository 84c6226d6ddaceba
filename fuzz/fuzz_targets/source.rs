//! A program text: checked and lowered, or refused with errors that point into it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::source(bytes));
