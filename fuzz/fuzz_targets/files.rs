//! Files of arrays: read or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::bytes::files(bytes));
