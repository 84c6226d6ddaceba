//! Pages on what concerns every call: [threads], [memory] and [errors].

#[doc = include_str!("guide/threads.md")]
pub mod threads {}

#[doc = include_str!("guide/memory.md")]
pub mod memory {}

#[doc = include_str!("guide/errors.md")]
pub mod errors {}
