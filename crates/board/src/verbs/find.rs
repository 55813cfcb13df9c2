//! Finding a task by what somebody typed.

use crate::error::Error;
use crate::id::{InvalidId, TaskId};
use crate::{Board, Result};

/// How many names are shown where a beginning fits several.
const SHOWN: u32 = 6;

impl Board {
    /// Returns the task with this name, or the only one whose name begins so.
    /// The `t_` in front may be left out.
    pub async fn find(&self, text: &str) -> Result<TaskId> {
        let wanted = text.trim().to_ascii_lowercase();
        let wanted = if wanted.starts_with("t_") { wanted } else { format!("t_{wanted}") };
        if wanted == "t_" || !TaskId::is_prefix(&wanted) {
            return Err(InvalidId { text: text.chars().take(40).collect() }.into());
        }
        let mut tx = self.read().await?;
        if let Ok(id) = wanted.parse::<TaskId>()
            && tx.task(&id).await?.is_some()
        {
            return Ok(id);
        }
        let mut names = tx.names_like(&wanted, SHOWN).await?;
        match names.len() {
            0 => Err(Error::NotFound { wanted: text.to_owned() }),
            1 => Ok(names.remove(0)),
            _ => Err(Error::Ambiguous { wanted: text.to_owned(), candidates: names }),
        }
    }
}
