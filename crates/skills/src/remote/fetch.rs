//! Getting a skill from where it is, up to an archive on this machine.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use vestal_web::{FetchLimits, Fetcher};

use super::SkillSource;
use super::git::Repository;
use super::origins::SkillOrigin;
use crate::error::SkillError;
use crate::skill::INSTRUCTIONS;
use crate::skills::Skills;

/// What the web may take.
const LIMITS: FetchLimits = FetchLimits { timeout: Duration::from_mins(2), max_bytes: 64 << 20 };

/// Skills of a repository that an error names.
const MOST_NAMED: usize = 30;

/// After so long nobody works on what lies about.
const ABANDONED: Duration = Duration::from_hours(24);

/// What directories of fetches begin with.
const PREFIX: &str = "skill-";

/// A skill that was fetched, and where it is from. It is removed when it is dropped.
#[derive(Debug)]
pub struct FetchedSkill {
    /// The archive, to be proposed.
    pub archive: PathBuf,
    /// Where it is from.
    pub origin: SkillOrigin,
    _dir: FetchDir,
}

#[derive(Debug)]
struct FetchDir(PathBuf);

impl FetchDir {
    /// Makes a directory of its own, and removes those that nobody works in.
    fn new(cache: &Path) -> Result<Self, SkillError> {
        let failed = || SkillError::io("make", cache);
        DirBuilder::new().recursive(true).mode(0o700).create(cache).map_err(failed())?;
        let now = SystemTime::now();
        for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let modified = entry.metadata().and_then(|found| found.modified());
            let age = modified.ok().and_then(|then| now.duration_since(then).ok());
            if is_ours && age.is_some_and(|age| age > ABANDONED) {
                std::fs::remove_dir_all(entry.path()).ok();
            }
        }
        let random =
            getrandom::u64().map_err(|error| failed()(std::io::Error::other(error.to_string())))?;
        let dir = cache.join(format!("{PREFIX}{random:016x}"));
        DirBuilder::new().mode(0o700).create(&dir).map_err(failed())?;
        Ok(Self(dir))
    }
}

impl Drop for FetchDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Skills {
    /// Fetches a skill. Of a repository with several the source has to say which.
    #[boxed]
    pub async fn fetch(&self, source: &SkillSource) -> Result<FetchedSkill, SkillError> {
        let dir = FetchDir::new(&self.settings().home().dir().join("cache"))?;
        let failed = |reason: String| SkillError::Fetch { from: source.to_string(), reason };
        let archive = dir.0.join("skill.tar");
        let origin = match source {
            SkillSource::Git { url, reference, path } => {
                let environment = self.settings().environment();
                let repository = Repository { dir: &dir.0, environment };
                let wanted = reference.as_deref().unwrap_or("HEAD");
                let commit = repository.fetch(url, wanted).await.map_err(failed)?;
                let files = repository.files(&commit).await.map_err(failed)?;
                let folder = folder_of(&files, path.as_deref()).map_err(failed)?;
                repository.archive(&commit, &folder, &archive).await.map_err(failed)?;
                SkillOrigin {
                    url: url.clone(),
                    reference: reference.clone(),
                    path: (!folder.is_empty()).then_some(folder),
                    commit: Some(commit),
                    digest: String::new(),
                }
            }
            SkillSource::Archive { url } => {
                let page = fetcher(self)?.fetch(url).await;
                let page = page.map_err(|error| failed(error.to_string()))?;
                if page.status != 200 {
                    return Err(failed(format!("its server answered with status {}", page.status)));
                }
                if page.is_cut {
                    return Err(failed("it is larger than 64 MiB".to_owned()));
                }
                std::fs::write(&archive, &page.body).map_err(SkillError::io("write", &archive))?;
                SkillOrigin {
                    url: url.clone(),
                    reference: None,
                    path: None,
                    commit: None,
                    digest: String::new(),
                }
            }
        };
        Ok(FetchedSkill { archive, origin, _dir: dir })
    }
}

/// Returns what gets files from the web: from public addresses, and those that the settings allow.
pub(super) fn fetcher(skills: &Skills) -> Result<Fetcher, SkillError> {
    let allowed = skills.settings().get(&vestal_web::keys::WEB_ALLOWED_NETWORKS)?.value;
    Ok(Fetcher::new(Arc::new(allowed), LIMITS))
}

/// Returns the folder of the skill that is meant.
fn folder_of(files: &[String], wanted: Option<&str>) -> Result<String, String> {
    let folders: Vec<&str> = files
        .iter()
        .filter_map(|file| {
            let folder = file.strip_suffix(INSTRUCTIONS)?;
            (folder.is_empty() || folder.ends_with('/')).then(|| folder.trim_end_matches('/'))
        })
        .filter(|folder| !folder.split('/').any(|part| part.starts_with('.')))
        .collect();
    let listed = || {
        let more = folders.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = folders.iter().take(MOST_NAMED).map(|folder| match *folder {
            "" => ".",
            folder => folder,
        });
        format!("{}{more}", named.collect::<Vec<_>>().join(", "))
    };
    let Some(wanted) = wanted else {
        return match folders.as_slice() {
            [] => Err(format!("there is no {INSTRUCTIONS} in it")),
            [only] => Ok((*only).to_owned()),
            _ => Err(format!("it has several skills, name one with --path: {}", listed())),
        };
    };
    if folders.contains(&wanted) {
        return Ok(wanted.to_owned());
    }
    // The name of a folder will do, where only one has it.
    let named: Vec<&&str> =
        folders.iter().filter(|folder| folder.rsplit('/').next() == Some(wanted)).collect();
    match named.as_slice() {
        [only] => Ok((**only).to_owned()),
        [] if folders.is_empty() => Err(format!("there is no {INSTRUCTIONS} in it")),
        [] => Err(format!("it has no skill at {wanted}; there are: {}", listed())),
        _ => Err(format!("it has several folders {wanted}; there are: {}", listed())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skill_that_is_meant_is_found_or_the_others_are_named() {
        let files =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(folder_of(&files(&["SKILL.md", "a/b"]), None), Ok(String::new()));
        let one = files(&["README.md", "skills/pdf/SKILL.md", ".hidden/x/SKILL.md"]);
        assert_eq!(folder_of(&one, None), Ok("skills/pdf".to_owned()));
        let several = files(&["a/pdf/SKILL.md", "b/pdf/SKILL.md", "b/csv/SKILL.md", "XSKILL.md"]);
        let error = folder_of(&several, None).unwrap_err();
        assert!(error.contains("a/pdf, b/pdf, b/csv"), "{error}");
        assert_eq!(folder_of(&several, Some("csv")), Ok("b/csv".to_owned()));
        assert_eq!(folder_of(&several, Some("a/pdf")), Ok("a/pdf".to_owned()));
        assert!(folder_of(&several, Some("pdf")).unwrap_err().contains("several folders"));
        assert!(folder_of(&several, Some("doc")).unwrap_err().contains("no skill at doc"));
        assert!(folder_of(&files(&["README.md"]), None).is_err());
    }
}
