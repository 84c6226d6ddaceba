//! A program text: formatting preserves its tree, tokens and comments.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::format(bytes));
