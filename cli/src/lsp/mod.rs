//! `fuseloop lsp`: a server of the Language Server Protocol, for editors. One file for each
//! capability.
//!
//! A thread reads messages; the server takes all that have arrived at once, applies the changes of
//! documents, and answers the requests that are still of use. When nothing is left to answer, it
//! has the texts that changed checked, so that fast typing is checked once and not for each key.
//! Checks and commands run on threads of their own: no answer waits for them.

mod actions;
mod commands;
mod completion;
mod diagnostics;
mod documents;
mod facts;
mod formatting;
mod hints;
mod hover;
mod lenses;
mod positions;
mod server;
mod symbols;
mod threads;
mod tokens;
mod transport;
mod uris;
mod workspace;

use std::io::Write;

use crate::failure::Failure;

/// Serves an editor over stdin and stdout by the Language Server Protocol.
#[derive(Debug, clap::Args)]
#[command(after_help = "An editor starts it: docs/editors.md has the lines for some of them.

Example: fuseloop lsp")]
pub struct Arguments {
    /// Accepted for editors that pass it; there is no other way to talk to the server
    #[arg(long)]
    stdio: bool,
}

/// Serves until the editor says `exit` or closes the connection.
pub fn run(_: &Arguments, stdout: &mut impl Write) -> Result<(), Failure> {
    let (sender, received) = transport::receive()?;
    server::Server::new(stdout, sender).serve(&received)
}
