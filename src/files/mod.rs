//! Array files. Each format's reader treats its file as hostile.

pub mod npy;
