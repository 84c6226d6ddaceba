//! The CUDA driver, through cudarc. No other module knows it.
//!
//! A [`Gpu`] is an open device, a [`Module`] a program loaded on it, and a [`DeviceArray`] an array
//! in its memory.
//!
//! | file | holds |
//! |---|---|
//! | `gpu` | an open device: its context, its one stream, its memory |
//! | `code`, `cache` | assembling PTX with the driver; a cache of the results on disk |
//! | `loaded` | the [`crate::ptx::Device`] that programs run on |
//! | `transfer` | copies of arrays from and to the device |
//! | `array` | the public types for programs and arrays |
//! | `foreign` | memory and streams of other libraries |
//! | `clock` | times and bandwidths |
//!
//! cudarc panics if the driver's library is missing, so `gpu` asks for the library first. All other
//! failures are returned as an [`Error`].

mod array;
mod cache;
mod clock;
mod code;
mod error;
mod foreign;
mod gpu;
mod loaded;
mod transfer;

pub use array::{DeviceArray, Failure, LoadError, Module, Replay};
pub use cache::Cache;
pub use clock::Ceilings;
pub use error::Error;
pub use gpu::{Facts, Gpu};
pub use loaded::Loaded;
