//! What jobs are to their instance: whose they are and what they may use.

use rustix::process::Rlimit;

use crate::user::Credentials;

/// What a job's processes have that the guest itself has not.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The user they belong to, where that is not the guest's own.
    pub(crate) credentials: Option<Credentials>,
    /// How many files each may have open, where the guest gave itself more.
    pub(crate) files: Option<Rlimit>,
}
