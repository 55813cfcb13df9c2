//! Reading lists of text.

use crate::input::{Input, Refusal};
use crate::yaml::NodeKind;

/// Returns the items of a list; numbers and the like as they are written.
pub(super) fn texts(input: Input<'_>, hint: &str) -> Result<Vec<String>, Refusal> {
    let hint = || Some(hint.to_owned());
    let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
    let NodeKind::List { items, .. } = &tree.kind else {
        let reason = format!("is {}, not a list", tree.noun());
        return Err(Refusal::new(reason).suggesting(hint()));
    };
    items
        .iter()
        .map(|item| match item.scalar() {
            Some(text) if !item.is_null() => Ok(text.to_owned()),
            _ => {
                let reason = format!("holds an item that is {}, not text", item.noun());
                Err(Refusal::new(reason).suggesting(hint()))
            }
        })
        .collect()
}
