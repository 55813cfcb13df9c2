//! `machine`: the sandboxes of a user on this machine, for a host that reaches it over a
//! network alone and so neither sees its files nor its processes.
//!
//! One process answers one request on its standard streams. All that belongs to sandboxes is
//! in one directory:
//!
//! ```text
//! sandboxes/<key>/     workspace, home, and the state of the guest
//! instances/<id>/      label, and io with the guest's socket; of one in namespaces also what
//!                      it is built from, and init.json, which says what its first process is
//! marks/<id>           locked by who changes the instance; says whether it was removed
//! rehearsals/<name>/   of a sandbox that is built to see whether it can be
//! ```

mod enclosed;
mod engine;
mod instance;
mod launch;
mod places;
mod verbs;

pub(crate) use verbs::{Answered, answer};
