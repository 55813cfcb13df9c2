//! The tables.

use vestal_database::Layout;

/// What is in the file, marked with `VstB`.
pub(super) const LAYOUT: Layout =
    Layout { application: 0x5673_7442, steps: &[include_str!("schema/1.sql")] };

/// The version of the file's layout, in its `user_version`.
pub const VERSION: i64 = LAYOUT.version();
