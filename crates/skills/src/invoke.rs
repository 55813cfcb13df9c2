//! A skill that a person calls by its name.

use std::io::Read as _;

use crate::error::SkillError;
use crate::front_matter::part;
use crate::limits::MAX_INSTRUCTIONS;
use crate::place::open_file;
use crate::skill::Skill;
use crate::skills::Skills;

impl Skills {
    /// Returns what is said to the model when a person calls a skill, as in
    /// `/deploy to staging`: the skill's instructions, and the person's words.
    pub fn invocation(&self, name: &str, words: &str) -> Result<String, SkillError> {
        let skill = self.get(name)?;
        let text = self.read_instructions(&skill)?;
        let body = part(&text).map_or(&*text, |parted| parted.body).trim();
        let files = match self.survey(&skill) {
            Ok(survey) if survey.has_more_than_instructions() => {
                format!("\n\n(Its files: skill_view with name={name} says where they are.)")
            }
            _ => String::new(),
        };
        let words = words.trim();
        let words = if words.is_empty() { String::new() } else { format!("\n\nWhat for: {words}") };
        Ok(format!("Use the skill {name}, which says:\n\n{body}{files}{words}"))
    }

    /// Reads the instructions of a skill, front matter and all.
    pub fn read_instructions(&self, skill: &Skill) -> Result<String, SkillError> {
        let path = skill.instructions();
        let failed = || SkillError::io("read", &path);
        let mut bytes = Vec::new();
        let file = open_file(&path).map_err(failed())?;
        file.take(MAX_INSTRUCTIONS + 1).read_to_end(&mut bytes).map_err(failed())?;
        if bytes.len() as u64 > MAX_INSTRUCTIONS {
            let text = format!("{} is larger than {} KiB", path.display(), MAX_INSTRUCTIONS >> 10);
            return Err(SkillError::TooLarge(text));
        }
        // What is no text further down should not hide the rest.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
