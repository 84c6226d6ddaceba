//! A program text: formatting keeps what it says.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::format(bytes));
