//! Keeping a directory of this machine and one of a sandbox that does not see it the
//! same: see "Directories that are synced" in the crate's README.

mod agreement;
mod carry_out;
mod end;
mod intent;
mod plan;
mod run;
mod survey;

pub(crate) use self::agreement::{Agreement, FILE as AGREEMENT_FILE};
pub(crate) use self::end::TreeEnd;
pub(crate) use self::plan::{IGNORE_FILE, SyncDirection};
pub use self::run::{SyncConflict, SyncError, SyncReport, SyncSide};
pub(crate) use self::run::{SyncTask, copy_tree, refuse_unless_brought_back, sync};

/// Returns the path of a name in a directory; the root is empty.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
