//! What is installed, in order or not.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, DirEntry};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use vestal_sandbox::{Bundle, BundleContent, BundleError};

use crate::front_matter::FrontMatter;
use crate::path::open_file;
use crate::skill::{INSTRUCTIONS, MAX_FRONT_MATTER, MAX_INSTRUCTIONS, MAX_SKILLS, Skill};

/// What is below a folder of skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Those that are in order, by name.
    pub skills: Vec<Skill>,
    /// Those that are not.
    pub broken: Vec<Broken>,
}

/// A skill that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The name of its folder.
    pub name: String,
    /// The file or folder that is at fault.
    pub path: PathBuf,
    /// The line at fault.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, path, line, reason, advice } = self;
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        write!(f, "skill {name} is broken: {}{line}: {reason}; {advice}", path.display())
    }
}

impl Broken {
    /// Returns the folder of the skill, whatever in it is at fault.
    pub fn folder(&self) -> &Path {
        let is_file = self.path.file_name().is_some_and(|name| name == INSTRUCTIONS);
        self.path.parent().filter(|_| is_file).unwrap_or(&self.path)
    }
}

impl Catalogue {
    /// Looks at all skills below a folder: `<skill>/SKILL.md`, and
    /// `<category>/<skill>/SKILL.md`. A folder that is not there has none.
    pub(crate) fn scan(root: &Path, is_disabled: impl Fn(&str) -> bool) -> Self {
        let mut scan = CatalogueScan { found: BTreeMap::new(), broken: Vec::new(), looked: 0 };
        scan.folder(root, None);
        let CatalogueScan { found, mut broken, .. } = scan;
        let mut skills: Vec<Skill> = found.into_values().collect();
        for skill in &mut skills {
            skill.enabled = !is_disabled(skill.name().as_str());
        }
        broken.sort_by(|a, b| a.path.cmp(&b.path));
        Self { skills, broken }
    }

    /// Returns the skill of a name, used or not.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name().as_str() == name)
    }

    /// Returns the broken skill in a folder of this name.
    pub fn get_broken(&self, name: &str) -> Option<&Broken> {
        self.broken.iter().find(|broken| broken.name == name)
    }
}

/// Reads the front matter of the skill in a folder.
pub(crate) fn read_about(dir: &Path) -> Result<FrontMatter, Broken> {
    let path = dir.join(INSTRUCTIONS);
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let broken = |line, reason: String, advice: &str| Broken {
        name: name.clone(),
        path: path.clone(),
        line,
        reason,
        advice: advice.to_owned(),
    };
    let file = open_file(&path).map_err(|error| {
        let advice = "put a file there that you may read";
        broken(None, format!("it cannot be read: {error}"), advice)
    })?;
    let length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    if length > MAX_INSTRUCTIONS {
        let reason = format!("it is larger than {} KiB", MAX_INSTRUCTIONS >> 10);
        return Err(broken(None, reason, "put parts of it into files of their own beside it"));
    }
    // The front matter is all that is needed here.
    let mut bytes = Vec::new();
    let most = MAX_FRONT_MATTER as u64 + (4 << 10);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| broken(None, format!("it cannot be read: {error}"), "look at the disk"))?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // A character may be cut off at the end of what was read.
        Err(error) if error.error_len().is_none() && bytes.len() as u64 == most => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            return Err(broken(Some(line), "it is not UTF-8".to_owned(), "save it as UTF-8"));
        }
    };
    FrontMatter::parse(text)
        .map_err(|problem| broken(Some(problem.line), problem.reason, &problem.advice))
}

struct CatalogueScan {
    found: BTreeMap<String, Skill>,
    broken: Vec<Broken>,
    looked: usize,
}

impl CatalogueScan {
    /// Looks at the folders in a folder; at those of a category only for skills.
    fn folder(&mut self, dir: &Path, category: Option<&str>) {
        let mut entries: Vec<DirEntry> = match fs::read_dir(dir) {
            Ok(entries) => entries.flatten().collect(),
            Err(error) if error.kind() == ErrorKind::NotFound && category.is_none() => return,
            Err(error) => {
                let reason = format!("it cannot be looked into: {error}");
                self.report(dir, reason, "make it a folder that you may read");
                return;
            }
        };
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                Ok(kind) if kind.is_symlink() && path.is_dir() => {
                    let advice = "copy it there, or install it: vestal skills install PATH";
                    self.report(&path, "it is a link, which is not followed".to_owned(), advice);
                }
                Ok(kind) if kind.is_dir() => self.entry(&path, &name, category),
                _ => {}
            }
        }
    }

    fn entry(&mut self, dir: &Path, name: &str, category: Option<&str>) {
        if self.looked >= MAX_SKILLS {
            return;
        }
        if dir.join(INSTRUCTIONS).symlink_metadata().is_ok() {
            self.looked += 1;
            if self.looked == MAX_SKILLS {
                let reason = format!("there are more than {MAX_SKILLS} skills; this is the last");
                self.report(dir, reason, "remove some");
            }
            self.skill(dir, category);
        } else if ["skill.md", "Skill.md"].iter().any(|other| dir.join(other).exists()) {
            let reason = format!("it has no {INSTRUCTIONS}");
            self.report(dir, reason, "write the file's name in capitals: SKILL.md");
        } else if category.is_none() {
            self.folder(dir, Some(name));
        }
    }

    fn skill(&mut self, dir: &Path, category: Option<&str>) {
        let about = match read_about(dir) {
            Ok(about) => about,
            Err(broken) => return self.broken.push(broken),
        };
        let name = about.name.as_str().to_owned();
        if let Some(other) = self.found.get(&name) {
            let reason = format!("{} has the same name, {name}", other.dir.display());
            return self.report(dir, reason, "rename or remove one of them");
        }
        let category = category.map(str::to_owned);
        let skill = Skill { about, category, dir: dir.to_owned(), enabled: true };
        self.found.insert(name, skill);
    }

    fn report(&mut self, path: &Path, reason: String, advice: &str) {
        self.broken.push(Broken {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_owned(),
            line: None,
            reason,
            advice: advice.to_owned(),
        });
    }
}

/// Endings of files that are programs whatever their permissions say.
const SCRIPTS: [&str; 9] = [".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"];

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Where it is in the skill's folder.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is a program.
    pub is_script: bool,
}

/// What a skill consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Its files, by path.
    pub files: Vec<FileInfo>,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Survey {
    /// Looks at a folder, as a sandbox would be shown it.
    pub fn of(dir: &Path) -> Result<Self, BundleError> {
        Ok(Self::of_bundle(&Bundle::read(dir)?))
    }

    pub(crate) fn of_bundle(bundle: &Bundle) -> Self {
        let mut survey = Self::default();
        for item in bundle.items() {
            let (bytes, executable) = match &item.content {
                BundleContent::Dir => continue,
                BundleContent::Link(_) => (0, false),
                BundleContent::File { bytes, executable } => (bytes.len() as u64, *executable),
            };
            survey.add(&item.path, bytes, executable);
        }
        survey
    }

    pub(crate) fn add(&mut self, path: &Path, bytes: u64, executable: bool) {
        let name = path.to_string_lossy().to_lowercase();
        let is_script = executable || SCRIPTS.iter().any(|ending| name.ends_with(ending));
        self.files.push(FileInfo { path: path.to_owned(), bytes, is_script });
        self.bytes += bytes;
    }

    /// Returns the programs in it.
    pub fn scripts(&self) -> impl Iterator<Item = &FileInfo> {
        self.files.iter().filter(|file| file.is_script)
    }

    /// Reports whether there is more than the instructions.
    pub fn has_more_than_instructions(&self) -> bool {
        self.files.iter().any(|file| file.path != Path::new(INSTRUCTIONS))
    }
}

#[cfg(test)]
#[path = "catalogue_tests.rs"]
mod tests;
