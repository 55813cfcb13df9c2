//! What the tools for files have in common.

mod diff;
mod observed;
mod path;
mod text;

pub use observed::ObservedFiles;

pub(super) use diff::unified_diff;
pub(super) use observed::FilePage;
pub(super) use path::{
    Readable, ResolvedPath, check_write, has_code, message_of, not_found, readable, resolve,
};
pub(super) use text::{
    BOM, FileText, Newline, StrayBytes, TextChange, TextLines, numbered_lines, pieces,
    require_unmasked, with_lf,
};
