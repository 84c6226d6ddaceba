//! Pages on what concerns every call: [threads], [memory] and [errors]; and on calls [on a
//! GPU](gpu) and [measuring].

#[doc = include_str!("guide/threads.md")]
pub mod threads {}

#[doc = include_str!("guide/memory.md")]
pub mod memory {}

#[doc = include_str!("guide/errors.md")]
pub mod errors {}

#[cfg(feature = "gpu")]
#[doc = include_str!("guide/gpu.md")]
pub mod gpu {}

#[cfg(all(feature = "gpu", feature = "reports"))]
#[doc = include_str!("guide/measuring.md")]
pub mod measuring {}
