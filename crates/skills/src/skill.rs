//! One skill.

use std::path::{Path, PathBuf};

use crate::front_matter::FrontMatter;
use crate::name::SkillName;

/// Name of the file that makes a folder a skill.
pub(crate) const INSTRUCTIONS: &str = "SKILL.md";

/// A skill that is installed and in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What its front matter says.
    pub about: FrontMatter,
    /// The folder it is in below the skills' own, if any.
    pub category: Option<String>,
    /// Its own folder.
    pub dir: PathBuf,
    /// Whether it is used.
    pub enabled: bool,
}

impl Skill {
    /// Returns its name.
    pub fn name(&self) -> &SkillName {
        &self.about.name
    }

    /// Returns the file with its instructions.
    pub fn instructions(&self) -> PathBuf {
        self.dir.join(INSTRUCTIONS)
    }

    /// Returns its own folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
