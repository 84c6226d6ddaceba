//! The choices that make a program, which has the same results on every engine.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::pipeline(bytes));
