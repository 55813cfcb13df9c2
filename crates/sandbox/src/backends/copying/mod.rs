//! Copying trees of files with the program that does so.
//!
//! | file | what |
//! |---|---|
//! | `run.rs` | running it, to the end or until nobody waits |
//! | `said.rs` | what it says, and what that means for people |

mod run;
mod said;

pub(crate) use run::{How, copy};
pub(crate) use said::Said;
