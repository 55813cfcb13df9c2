//! What errors of the database mean to whoever uses a board.

use std::path::Path;

use crate::Error;

/// Says what an error of the database means.
pub(super) fn explain(path: &Path, error: sqlx::Error) -> Error {
    vestal_database::explain(path, error).into()
}
