//! The skills that a task names, opened where its work begins.

use vestal_board::{Authority, Error};
use vestal_sandbox::Sandbox;
use vestal_skills::Skills;

use crate::work::Work;

/// Bytes of skills that are put into the first words; the first is whole
/// whatever it takes.
const MOST: usize = 128 * 1024;

/// What came of opening the skills of a task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// What the model is told.
    pub(crate) words: String,
    /// Which cannot be used, and why.
    troubles: Vec<String>,
}

impl Opened {
    fn add(&mut self, name: &str, said: &str) {
        if !self.words.is_empty() && self.words.len() + said.len() > MOST {
            let long = "too. It is too long to be put here: read it with skill_view.";
            self.words.extend(["\nUse the skill ", name, ", ", long, "\n"]);
        } else {
            self.words.extend(["\n", said, "\n"]);
        }
    }

    fn lack(&mut self, trouble: String) {
        self.words.extend(["\n", &trouble, ". Go on without it.\n"]);
        self.troubles.push(trouble);
    }
}

/// Opens the skills of these names as a chat does where somebody calls them.
pub(crate) async fn open(skills: &Skills, names: &[String], sandbox: &Sandbox) -> Opened {
    let mut opened = Opened::default();
    for name in names {
        match skills.open_in(sandbox, name).await {
            Ok(said) => opened.add(name, &said),
            Err(error) => opened
                .lack(format!("The task names the skill {name:?}, which cannot be used: {error}")),
        }
    }
    opened
}

impl Work<'_> {
    /// Says on the board which skills of the task cannot be used: once, however
    /// often it is tried.
    pub(crate) async fn say_lacking(&self, opened: &Opened) -> Result<(), Error> {
        if opened.troubles.is_empty() {
            return Ok(());
        }
        let by = Authority::Worker(self.fence.clone());
        let said = self.board.show(&self.task.id).await?.comments;
        for trouble in &opened.troubles {
            self.log.write(&format!("warning: {trouble}"));
            let trouble = self.redactor.redact(trouble);
            if !said.iter().any(|comment| comment.body == *trouble) {
                self.board.comment(&by, &self.task.id, &trouble).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_skill_is_told_whole_and_what_is_too_much_is_named() {
        let mut opened = Opened::default();
        opened.add("long", &"x".repeat(2 * MOST));
        opened.add("short", "do it");
        assert!(opened.words.len() > 2 * MOST);
        assert!(opened.words.contains("Use the skill short, too."), "{}", opened.words.len());
        let mut opened = Opened::default();
        opened.add("one", "first");
        opened.add("other", "second");
        opened.lack("It is gone".to_owned());
        assert_eq!(opened.words, "\nfirst\n\nsecond\n\nIt is gone. Go on without it.\n");
        assert_eq!(opened.troubles, ["It is gone"]);
    }
}
