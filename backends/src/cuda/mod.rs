//! NVIDIA's driver, through cudarc: the only room that knows it.
//!
//! A [`Gpu`] is a device with its context and one stream (`gpu`). `code` has the driver assemble kernels, and `cache` keeps what it made
//! in a folder. `loaded` is the [`crate::ptx::Device`] that programs run on, `transfer` how arrays get there and back, `array` what
//! stands for both: a [`Module`] is a program on a device, a [`DeviceArray`] an array in its memory. `clock` says how
//! long things take there.
//!
//! cudarc panics where the driver's library is missing, so that is asked first. Whatever else goes wrong comes back as an [`Error`].

mod array;
mod cache;
mod clock;
mod code;
mod error;
mod gpu;
mod loaded;
mod transfer;

pub use array::{DeviceArray, Failure, LoadError, Module, Replay};
pub use cache::Cache;
pub use clock::Ceilings;
pub use error::Error;
pub use gpu::{Facts, Gpu};
pub use loaded::Loaded;
