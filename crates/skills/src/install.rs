//! Putting skills into a profile, and taking them out.

use std::path::{Path, PathBuf};

use vestal_config::AnyKey as _;

use crate::catalogue::{Broken, Survey};
use crate::error::SkillError;
use crate::front_matter::{FrontMatter, Problem};
use crate::invoke::Need;
use crate::keys;
use crate::manage::Staging;
use crate::package::{Package, PackedFile};
use crate::remote::{SkillOrigin, digest};
use crate::skill::{INSTRUCTIONS, MAX_INSTRUCTIONS, Skill, SkillName};
use crate::skills::Skills;

/// A skill that may be installed, and what it asks for. Nothing is on disk yet.
#[derive(Debug)]
pub struct Proposal {
    /// What it says of itself.
    pub about: FrontMatter,
    /// What it consists of.
    pub survey: Survey,
    /// The variables that it asks for, and whether it would have them.
    pub needs: Vec<Need>,
    /// The skill whose place it would take.
    pub replaces: Option<Skill>,
    /// The broken one whose place it would take.
    pub mends: Option<Broken>,
    /// What is left out of it.
    pub left_out: Vec<String>,
    package: Package,
}

/// A skill that was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Its name.
    pub name: SkillName,
    /// Where it is.
    pub dir: PathBuf,
    /// Its files.
    pub files: usize,
    /// Whether it has taken the place of another.
    pub replaced: bool,
}

impl Proposal {
    /// Returns the folder that would go for it.
    pub fn goes(&self) -> Option<&Path> {
        let skill = self.replaces.as_ref().map(Skill::dir);
        skill.or_else(|| self.mends.as_ref().map(Broken::folder))
    }
}

impl Skills {
    /// Looks at a folder or an archive that is to be installed, under another
    /// name if one is given.
    pub fn propose(&self, source: &Path, name: Option<&SkillName>) -> Result<Proposal, SkillError> {
        let refused = |reason: String| SkillError::Source { path: source.to_owned(), reason };
        let mut package = Package::open(source).map_err(refused)?;
        let text = package.instructions().map_err(refused)?;
        let mut about =
            check(text).map_err(|problem| refused(format!("{INSTRUCTIONS}: {problem}")))?;
        if let Some(name) = name.filter(|name| **name != about.name) {
            let renamed = rename(text, &about, name).ok_or_else(|| {
                refused(format!(
                    "its name is not alone on line {}; change it there",
                    about.name_line
                ))
            })?;
            about = FrontMatter::parse(&renamed).map_err(|problem| refused(problem.to_string()))?;
            let file = PackedFile { bytes: renamed.into_bytes(), executable: false };
            package.files.insert(INSTRUCTIONS.into(), file);
        }
        let need = |variable| Need::of(self.settings(), variable);
        let catalogue = self.catalogue();
        let replaces = catalogue.get(about.name.as_str()).cloned();
        let broken = catalogue.get_broken(about.name.as_str()).cloned();
        Ok(Proposal {
            survey: package.survey(),
            needs: about.variables.iter().map(need).collect(),
            mends: broken.filter(|_| replaces.is_none()),
            replaces,
            left_out: package.left_out.clone(),
            about,
            package,
        })
    }

    /// Installs a skill that was looked at. One of the same name makes place for
    /// it if the proposal says so.
    pub fn install(&self, proposal: &Proposal) -> Result<Installed, SkillError> {
        self.install_from(proposal, None)
    }

    /// The same for a skill that is from elsewhere, which is noted.
    pub fn install_from(
        &self,
        proposal: &Proposal,
        origin: Option<&SkillOrigin>,
    ) -> Result<Installed, SkillError> {
        let Proposal { about, package, .. } = proposal;
        let staging = Staging::enter(self.root())?;
        let name = about.name.clone();
        let there = match self.located(name.as_str()) {
            Ok(located) => Some(located.dir),
            Err(SkillError::Unknown { .. }) => None,
            Err(error) => return Err(error),
        };
        let dir = match &there {
            Some(dir) if Some(dir.as_path()) == proposal.goes() => dir.clone(),
            // Another process has put it there meanwhile.
            Some(path) => {
                return Err(SkillError::Exists { name: name.to_string(), path: path.clone() });
            }
            None => self.root().join(name.as_str()),
        };
        let new = staging.temporary("new")?;
        let written = package.write(&new).map_err(SkillError::io("write", &new));
        let placed = written.and_then(|()| match &there {
            Some(_) => staging.replace(&new, &dir),
            None => staging.place(&new, &dir),
        });
        if placed.is_err() {
            // The first failure is the one that matters.
            std::fs::remove_dir_all(&new).ok();
        }
        placed?;
        let origin = origin.map(|origin| SkillOrigin { digest: digest(package), ..origin.clone() });
        self.note_origin(&staging, name.as_str(), origin)?;
        Ok(Installed { name, dir, files: package.files.len(), replaced: there.is_some() })
    }

    /// Removes a skill, broken or not, and returns the folder that went.
    pub fn remove(&self, name: &str) -> Result<PathBuf, SkillError> {
        let staging = Staging::enter(self.root())?;
        let dir = self.located(name)?.dir;
        staging.discard(&dir)?;
        self.note_origin(&staging, name, None)?;
        self.forget_disabled(name);
        Ok(dir)
    }

    /// Takes a skill that is gone out of those that are not used: one that is
    /// installed under its name later is another, and used.
    pub(crate) fn forget_disabled(&self, name: &str) {
        let key = keys::SKILLS_DISABLED.name();
        if let Err(error) = vestal_config::take_out(&self.settings().reload(), key, name) {
            tracing::warn!(%error, name, "a skill that is gone stays in {key}");
        }
    }

    /// Looks whether a folder, an archive or a `SKILL.md` would be a skill, and
    /// returns what it says of itself.
    pub fn check(&self, path: &Path) -> Result<FrontMatter, SkillError> {
        let is_instructions = path.file_name().is_some_and(|name| name == INSTRUCTIONS);
        let dir = match path.parent() {
            Some(parent) if is_instructions && parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) if is_instructions => parent,
            _ => path,
        };
        Ok(self.propose(dir, None)?.about)
    }
}

/// Checks the text of a `SKILL.md`.
pub(crate) fn check(text: &str) -> Result<FrontMatter, Problem> {
    if text.len() as u64 > MAX_INSTRUCTIONS {
        return Err(Problem {
            line: 1,
            reason: format!("it is larger than {} KiB", MAX_INSTRUCTIONS >> 10),
            advice: "put parts of it into files of their own beside it".to_owned(),
        });
    }
    FrontMatter::parse(text)
}

/// Returns the text with another name in its front matter, if the name is on a
/// line of its own.
fn rename(text: &str, about: &FrontMatter, name: &SkillName) -> Option<String> {
    let mut renamed = String::with_capacity(text.len());
    let mut done = false;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let is_name = number == about.name_line && line.trim_start().starts_with("name:");
        if is_name {
            let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
            renamed.extend(["name: ", name.as_str(), end]);
            done = true;
        } else {
            renamed.push_str(line);
        }
    }
    done.then_some(renamed)
}
