//! Shell sessions: the state one command leaves to the next.
//!
//! Every command runs in a fresh shell. Before the command's text a prologue
//! brings back what the last one left; after it, however it ends, an EXIT trap
//! dumps the state raw, and [`SavedSession::harvest`] makes of it the delta
//! against the environment that callers bring anew each time.
//!
//! | | bash | other shells |
//! |---|---|---|
//! | cwd, `cd -`, umask, aliases, `set -o`, traps of signals | kept | kept |
//! | variables with attributes, removal of variables | kept | kept |
//! | arrays, functions, `shopt`, ERR and RETURN traps | kept | – |
//! | EXIT and DEBUG traps, `$?`, positional parameters, open files | end with their command | same |
//! | a command with an EXIT trap of its own | saved | not saved |
//! | a killed command, one replaced by `exec` | not saved | not saved |
//!
//! In bash the user's `trap` is a function of ours, to keep two EXIT traps apart.
//! A command that goes past it (`builtin trap … EXIT`, or any EXIT trap in POSIX
//! mode) is not saved, nor is one that defines a function named `builtin`. A
//! RETURN trap fires once more when it is set.

mod environment;
mod harvest;
mod names;
mod quoting;
mod restore;
mod saved;
mod script;
mod store;

pub use saved::SavedSession;

pub(crate) use environment::Environment;
pub(crate) use harvest::Dump;
pub(crate) use restore::is_decided;
pub(crate) use saved::ShellKind;
pub(crate) use script::{Prologue, Saving, Token, epilogue, trap_function};
