//! Carries the change from one text of the model's to the other over to the
//! lines of the file that the first one stands for.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::indent::Indents;

/// Returns the lines to put in the place of `found`. Lines that the model
/// repeats are left as the file has them, down to the last blank.
pub(super) fn transfer(found: &[&str], old: &[&str], new: &[&str]) -> Vec<String> {
    let indents = Indents::towards(old, found, new);
    let mut lines = Vec::with_capacity(new.len());
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                let kept = found[old_index..old_index + len].iter();
                lines.extend(kept.map(|line| (*line).to_owned()));
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { new_index, new_len, .. }
            | DiffOp::Replace { new_index, new_len, .. } => {
                let given = new[new_index..new_index + new_len].iter();
                lines.extend(given.map(|line| indents.apply(line)));
            }
        }
    }
    lines
}
