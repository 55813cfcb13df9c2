//! Changing skills, one step at a time and each of them whole.

mod staging;

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use vestal_config::EnvName;
use vestal_sandbox::{Bundle, BundleContent, SandboxSettings as _, VariableForwarding};

use crate::error::SkillError;
use crate::front_matter::FrontMatter;
use crate::install::check;
use crate::package::{Package, PackedFile};
use crate::path::{inner_path, open_file, within};
use crate::skill::{INSTRUCTIONS, MAX_BYTES, MAX_FILE, MAX_FILES, SkillName};
use crate::skills::Skills;

pub(crate) use staging::Staging;

/// A change of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillEdit {
    /// The skill.
    pub name: SkillName,
    /// What is done to it.
    pub change: SkillChange,
}

/// What is done to a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillChange {
    /// It is made.
    Create {
        /// Its whole `SKILL.md`.
        content: String,
        /// The folder it is put into below the skills' own.
        category: Option<SkillName>,
    },
    /// Its `SKILL.md` is replaced.
    Replace {
        /// The whole new one.
        content: String,
    },
    /// Some text is replaced by another.
    Patch {
        /// The file; none: its `SKILL.md`.
        file: Option<String>,
        /// What is there.
        old: String,
        /// What takes its place.
        new: String,
        /// Whether it is replaced wherever it is, in place of at one place.
        everywhere: bool,
    },
    /// It goes.
    Delete,
    /// A file is written beside its `SKILL.md`.
    WriteFile {
        /// The file.
        file: String,
        /// All that is in it.
        content: String,
    },
    /// A file beside its `SKILL.md` goes.
    RemoveFile {
        /// The file.
        file: String,
    },
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillChanged {
    /// It is done.
    Done {
        /// The file or folder that was changed.
        path: PathBuf,
    },
    /// It is not done: the skill would ask for these variables, which it did not
    /// before, and nobody has allowed that.
    Asks(Vec<EnvName>),
}

/// A skill's folder, whether the skill is in order or not.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) dir: PathBuf,
    about: Option<FrontMatter>,
}

impl Skills {
    /// Changes a skill. Variables that it would ask for and did not before have
    /// to be among those that a person has allowed.
    pub fn change(
        &self,
        edit: &SkillEdit,
        allowed: &BTreeSet<EnvName>,
    ) -> Result<SkillChanged, SkillError> {
        let staging = Staging::enter(self.root())?;
        let name = &edit.name;
        match &edit.change {
            SkillChange::Create { content, category } => {
                self.create(&staging, name, category.as_ref(), content, allowed)
            }
            SkillChange::Replace { content } => self.rewrite(&staging, name, content, allowed),
            SkillChange::Patch { file, old, new, everywhere } => {
                let dir = self.located(name.as_str())?.dir;
                let inner = inner_path(file.as_deref().unwrap_or(INSTRUCTIONS))?;
                let text = read_text(name, &dir, &inner)?;
                let patched = patch(&text, old, new, *everywhere)?;
                if inner == Path::new(INSTRUCTIONS) {
                    return self.rewrite(&staging, name, &patched, allowed);
                }
                write_beside(&staging, &dir, &inner, &patched)
            }
            SkillChange::Delete => {
                let dir = self.located(name.as_str())?.dir;
                staging.discard(&dir)?;
                self.note_origin(&staging, name.as_str(), None)?;
                self.forget_disabled(name.as_str());
                Ok(SkillChanged::Done { path: dir })
            }
            SkillChange::WriteFile { file, content } => {
                let inner = beside(file)?;
                let dir = self.located(name.as_str())?.dir;
                write_beside(&staging, &dir, &inner, content)
            }
            SkillChange::RemoveFile { file } => {
                let inner = beside(file)?;
                let dir = self.located(name.as_str())?.dir;
                remove_beside(name, &dir, &inner)
            }
        }
    }

    /// Returns the folder of a skill, also of one that is broken and has a
    /// folder of that name.
    pub(crate) fn located(&self, name: &str) -> Result<Located, SkillError> {
        match self.installed(name) {
            Ok(skill) => Ok(Located { dir: skill.dir, about: Some(skill.about) }),
            Err(SkillError::Broken(broken)) => {
                Ok(Located { dir: broken.folder().to_owned(), about: None })
            }
            Err(error) => Err(error),
        }
    }

    fn create(
        &self,
        staging: &Staging,
        name: &SkillName,
        category: Option<&SkillName>,
        content: &str,
        allowed: &BTreeSet<EnvName>,
    ) -> Result<SkillChanged, SkillError> {
        let catalogue = self.catalogue();
        let taken = |path: PathBuf| SkillError::Exists { name: name.to_string(), path };
        if let Some(skill) = catalogue.get(name.as_str()) {
            return Err(taken(skill.dir.clone()));
        }
        if let Some(broken) = catalogue.get_broken(name.as_str()) {
            return Err(taken(broken.path.clone()));
        }
        let about = vetted(name, content)?;
        if let Some(asks) = self.unallowed(None, &about, allowed) {
            return Ok(asks);
        }
        let parent = match category {
            Some(category) => {
                let dir = self.root().join(category.as_str());
                let is_skill = dir.join(INSTRUCTIONS).symlink_metadata().is_ok();
                if is_skill || dir.is_symlink() {
                    let text =
                        format!("{category} is not a category: there is a skill in its place");
                    return Err(SkillError::Change(text));
                }
                fs::create_dir_all(&dir).map_err(SkillError::io("make", &dir))?;
                dir
            }
            None => self.root().to_owned(),
        };
        let file = PackedFile { bytes: content.as_bytes().to_vec(), executable: false };
        let package = Package { files: [(INSTRUCTIONS.into(), file)].into(), left_out: Vec::new() };
        let (new, dir) = (staging.temporary("new")?, parent.join(name.as_str()));
        let written = package.write(&new).map_err(SkillError::io("write", &new));
        let placed = written.and_then(|()| staging.place(&new, &dir));
        if placed.is_err() {
            fs::remove_dir_all(&new).ok();
        }
        placed?;
        Ok(SkillChanged::Done { path: dir.join(INSTRUCTIONS) })
    }

    fn rewrite(
        &self,
        staging: &Staging,
        name: &SkillName,
        content: &str,
        allowed: &BTreeSet<EnvName>,
    ) -> Result<SkillChanged, SkillError> {
        let Located { dir, about: before } = self.located(name.as_str())?;
        let about = vetted(name, content)?;
        if let Some(asks) = self.unallowed(before.as_ref(), &about, allowed) {
            return Ok(asks);
        }
        let path = dir.join(INSTRUCTIONS);
        staging.write(&path, content.as_bytes())?;
        Ok(SkillChanged::Done { path })
    }

    /// Returns what a skill would ask for that it did not before and that nobody
    /// has allowed. What is never forwarded needs nobody's word.
    fn unallowed(
        &self,
        before: Option<&FrontMatter>,
        about: &FrontMatter,
        allowed: &BTreeSet<EnvName>,
    ) -> Option<SkillChanged> {
        let had = |name: &EnvName| {
            before.is_some_and(|before| before.variables.iter().any(|own| own.name == *name))
        };
        let names = about.variables.iter().map(|own| &own.name);
        let new: Vec<EnvName> = names
            .filter(|name| !had(name) && !allowed.contains(name))
            .filter(|name| self.settings().handing(name) == VariableForwarding::Handed)
            .cloned()
            .collect();
        (!new.is_empty()).then_some(SkillChanged::Asks(new))
    }
}

/// Checks a `SKILL.md` that is about to be written.
fn vetted(name: &SkillName, content: &str) -> Result<FrontMatter, SkillError> {
    let wrong = |text: String| SkillError::Change(format!("SKILL.md of {name}: {text}"));
    let about = check(content).map_err(|problem| wrong(problem.to_string()))?;
    if about.name != *name {
        return Err(wrong(format!("`name` must be {name}, not {}", about.name)));
    }
    Ok(about)
}

/// Returns the path of a file beside the instructions.
fn beside(file: &str) -> Result<PathBuf, SkillError> {
    let inner = inner_path(file)?;
    if inner == Path::new(INSTRUCTIONS) {
        let text = "SKILL.md is changed with the actions edit and patch, and goes with delete";
        return Err(SkillError::Change(text.to_owned()));
    }
    Ok(inner)
}

fn read_text(name: &SkillName, dir: &Path, inner: &Path) -> Result<String, SkillError> {
    let path = within(dir, inner)?;
    let file = match open_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (name, file) = (name.to_string(), inner.display().to_string());
            return Err(SkillError::NoFile { name, file });
        }
        opened => opened.map_err(SkillError::io("read", &path))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(SkillError::io("read", &path))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(too_large(inner));
    }
    let text = format!("{} is not text and can only be replaced as a whole", inner.display());
    String::from_utf8(bytes).map_err(|_| SkillError::Change(text))
}

fn patch(text: &str, old: &str, new: &str, everywhere: bool) -> Result<String, SkillError> {
    let wrong = |text: String| Err(SkillError::Change(text));
    if old.is_empty() {
        return wrong("`old_string` is empty; say what is to be replaced".to_owned());
    }
    match text.matches(old).count() {
        0 => wrong("`old_string` is not in the file; read it again with skill_view".to_owned()),
        1 => Ok(text.replacen(old, new, 1)),
        _ if everywhere => Ok(text.replace(old, new)),
        times => wrong(format!(
            "`old_string` is in the file {times} times; say more of what is around it, or \
             replace_all"
        )),
    }
}

fn write_beside(
    staging: &Staging,
    dir: &Path,
    inner: &Path,
    content: &str,
) -> Result<SkillChanged, SkillError> {
    if content.len() as u64 > MAX_FILE {
        return Err(too_large(inner));
    }
    let path = within(dir, inner)?;
    match fs::symlink_metadata(&path) {
        Ok(found) if !found.is_file() => {
            let path = inner.display().to_string();
            return Err(SkillError::Path { path, reason: "it is not a file" });
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(SkillError::io("look at", &path)(error));
        }
        _ => {}
    }
    if !has_room(dir, inner, content)? {
        let most = MAX_BYTES >> 20;
        let text = format!("a skill has at most {MAX_FILES} files and folders, and {most} MiB");
        return Err(SkillError::TooLarge(text));
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(SkillError::io("make", parent))?;
    }
    staging.write(&path, content.as_bytes())?;
    Ok(SkillChanged::Done { path })
}

/// Reports whether a sandbox can be shown the skill with this file in it. Folders
/// count as files do.
fn has_room(dir: &Path, inner: &Path, content: &str) -> Result<bool, SkillError> {
    let bundle = Bundle::read(dir).map_err(|error| {
        SkillError::Change(format!("the skill has to be mended first: {error}"))
    })?;
    let (mut bytes, mut places) = (content.len() as u64, BTreeSet::new());
    places.extend(inner.ancestors().filter(|at| !at.as_os_str().is_empty()));
    for item in bundle.items() {
        places.insert(&item.path);
        if let BundleContent::File { bytes: own, .. } = &item.content
            && item.path != inner
        {
            bytes += own.len() as u64;
        }
    }
    Ok(bytes <= MAX_BYTES && places.len() <= MAX_FILES)
}

fn remove_beside(name: &SkillName, dir: &Path, inner: &Path) -> Result<SkillChanged, SkillError> {
    let path = within(dir, inner)?;
    let none = || SkillError::NoFile { name: name.to_string(), file: inner.display().to_string() };
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => return Err(none()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(none()),
        _ => {}
    }
    fs::remove_file(&path).map_err(SkillError::io("remove", &path))?;
    // Folders that have become empty go along; others refuse.
    let mut at = path.parent();
    while let Some(parent) = at.filter(|parent| *parent != dir && parent.starts_with(dir)) {
        if fs::remove_dir(parent).is_err() {
            break;
        }
        at = parent.parent();
    }
    Ok(SkillChanged::Done { path })
}

fn too_large(inner: &Path) -> SkillError {
    SkillError::TooLarge(format!("{} is larger than {} KiB", inner.display(), MAX_FILE >> 10))
}

#[cfg(test)]
#[path = "manage_tests.rs"]
mod tests;
