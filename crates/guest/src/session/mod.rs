//! Shell sessions: the state that one command leaves to the next.
//!
//! Every command runs in a new shell. A prologue before the command's text restores
//! the state of the previous command. At the end of the command, an EXIT trap dumps
//! the state, and [`SavedSession::from_dump`] computes the difference to the
//! environment that callers provide again for each command.
//!
//! | | bash | other shells |
//! |---|---|---|
//! | cwd, `cd -`, umask, aliases, `set -o`, traps of signals | kept | kept |
//! | variables with attributes, removal of variables | kept | kept |
//! | arrays, functions, `shopt`, ERR and RETURN traps | kept | – |
//! | EXIT and DEBUG traps, `$?`, positional parameters, open files | end with their command | same |
//! | a command with its own EXIT trap | saved | not saved |
//! | a killed command, one replaced by `exec` | not saved | not saved |
//!
//! In bash the user's `trap` is a function of ours, which keeps the two EXIT traps
//! apart. A command that bypasses it (`builtin trap … EXIT`, or any EXIT trap in
//! POSIX mode) is not saved, nor is one that defines a function named `builtin`. A
//! RETURN trap fires once more when it is set.

mod bash;
mod dump;
mod environment;
mod quoting;
mod restore;
mod saved;
mod script;
mod turns;

pub(crate) use dump::Dump;
pub(crate) use environment::SessionEnvironment;
pub(crate) use restore::is_decided;
pub use saved::SavedSession;
pub(crate) use saved::{ShellKind, is_no_session};
pub(crate) use script::{DumpToken, Prologue, Saving, epilogue, trap_function};
pub(crate) use turns::{SaveDecision, Sessions, is_valid_name};
