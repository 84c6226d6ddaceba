//! Errors of a device. A fatal one, such as a kernel with an illegal access, destroys the context
//! and all memory in it, so the device cannot be used again in this process.

use std::fmt;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;

/// Why the device did not do what it was asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no driver.
    NoDriver,
    /// There is a driver, but no device of that number.
    NoDevice(i32),
    /// The device is older than the oldest that kernels are generated for. Holds its compute
    /// capability.
    TooOld(i32, i32),
    /// The device cannot allocate this many bytes.
    OutOfMemory(usize),
    /// The host cannot allocate this many bytes.
    HostMemory(usize),
    /// The host cannot create more threads, with the system's message.
    Threads(String),
    /// An array is in the memory of another device.
    WrongDevice,
    /// The device has no memory at this address; perhaps it was freed.
    NotThere(u64),
    /// An array of a recorded call begins at this address, which is no multiple of 16 bytes.
    NotAligned(u64),
    /// The driver rejects a kernel, which is a bug of ours. Holds the driver's message.
    Rejected(String),
    /// A call of the driver failed.
    Driver {
        /// The operation.
        doing: &'static str,
        /// The driver's message.
        message: String,
    },
    /// The device was lost at an earlier error, with this message. It is not used again.
    Lost(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver => f.write_str("there is no NVIDIA driver on this machine"),
            Error::NoDevice(number) => write!(f, "there is no CUDA device {number}"),
            Error::TooOld(major, minor) => {
                write!(f, "the device has compute capability {major}.{minor}, and 8.0 is the least that kernels run on")
            }
            Error::OutOfMemory(bytes) => write!(f, "the device has no memory for {bytes} bytes"),
            Error::Threads(why) => write!(f, "the system makes no thread to copy an array: {why}"),
            Error::HostMemory(bytes) => write!(f, "there is no memory for an array of {bytes} bytes"),
            Error::WrongDevice => f.write_str("an array is in the memory of another device"),
            Error::NotThere(address) => write!(f, "there is no memory of a device at {address:#x}, or it was freed"),
            Error::NotAligned(address) => {
                write!(f, "an array begins at {address:#x}: recorded calls need a multiple of 16 bytes")
            }
            Error::Rejected(log) => write!(f, "the driver rejects a kernel: {log}"),
            Error::Driver { doing, message } => write!(f, "the driver failed to {doing}: {message}"),
            Error::Lost(message) => write!(f, "the device is not used any more since an earlier error: {message}"),
        }
    }
}

impl std::error::Error for Error {}

pub(super) fn failed(doing: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver { doing, message: words(error) }
}

/// The driver's description of an error.
pub(super) fn words(error: DriverError) -> String {
    let name = error.error_name().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned());
    let text = error.error_string().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    format!("{text} ({name})")
}

/// Whether the error destroys the context.
pub(super) fn is_fatal(error: DriverError) -> bool {
    use CUresult as R;
    matches!(
        error.0,
        R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_ECC_UNCORRECTABLE
            | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | R::CUDA_ERROR_UNKNOWN
    )
}
