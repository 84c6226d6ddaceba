//! The command `fuseloop`, as its users meet it.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[cfg(unix)]
mod arrays;
mod build;
mod commands;
mod explain;
mod fmt;
mod fuzz;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod headers;
mod lsp;
mod pages;
mod pictures;
#[cfg(unix)]
mod repl;
mod reports;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod shell;
#[cfg(unix)]
mod used;
