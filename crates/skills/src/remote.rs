//! Skills from elsewhere: from git repositories, from archives on the web, and catalogues that list them.

mod catalogue;
mod fetch;
mod git;
mod origins;

use std::fmt;

use vestal_config::kind::is_name;

pub use catalogue::{CatalogueEntry, RemoteCatalogue};
pub use fetch::FetchedSkill;
pub use origins::SkillOrigin;

pub(crate) use origins::digest;

/// Where a skill is to come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillSource {
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// A branch, a tag or a commit; none: what the repository shows first.
        reference: Option<String>,
        /// Where the skill is in it: a path, or the name of its folder; none: the only one there is.
        path: Option<String>,
    },
    /// An archive.
    Archive {
        /// Its address.
        url: String,
    },
}

/// Why an address is none of a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not an address that skills come from: {reason}")]
pub struct InvalidSource {
    address: String,
    reason: String,
}

/// Endings of archives.
const ARCHIVES: &[&str] = &[".zip", ".skill", ".tar", ".tar.gz", ".tgz"];

/// Characters of an address, a reference and a path.
const LONGEST: usize = 2048;

impl SkillSource {
    /// Reports whether a text is an address and not a path on this machine.
    pub fn is_address(text: &str) -> bool {
        text.contains("://") || is_scp(text)
    }

    /// Reads an address: of a repository (`https`, `ssh`, `git@host:path`), of a folder of one as
    /// `GitHub` shows it, or of an archive.
    pub fn parse(text: &str) -> Result<Self, InvalidSource> {
        let text = text.trim();
        let wrong = |reason: &str| InvalidSource {
            // What stands before an @ may be a password.
            address: text.rsplit('@').next().unwrap_or_default().to_owned(),
            reason: reason.to_owned(),
        };
        if text.len() > LONGEST || text.contains(|c: char| c.is_control() || c == ' ') {
            return Err(wrong("it is too long, or has blanks in it"));
        }
        if is_scp(text) {
            return Ok(Self::repository(text));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong("it has no https:// or ssh:// before it"));
        };
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.starts_with('-') || rest.is_empty() {
            return Err(wrong("it names no host"));
        }
        match scheme {
            "ssh" if authority.contains(':') && authority.rsplit('@').next() != Some(authority) => {
                let user = authority.split('@').next().unwrap_or_default();
                if user.contains(':') {
                    return Err(wrong("it has a password in it"));
                }
                Ok(Self::repository(text))
            }
            "ssh" | "git+ssh" | "file" => Ok(Self::repository(text)),
            "https" if authority.contains('@') => {
                Err(wrong("it has a user in it; git has credential helpers for that"))
            }
            "https" => Ok(shown_folder(text, authority).unwrap_or_else(|| {
                let is_archive = ARCHIVES.iter().any(|ending| text.ends_with(ending));
                if is_archive {
                    Self::Archive { url: text.to_owned() }
                } else {
                    Self::repository(text)
                }
            })),
            "http" if ARCHIVES.iter().any(|ending| text.ends_with(ending)) => {
                Ok(Self::Archive { url: text.to_owned() })
            }
            "http" => Err(wrong("anybody on the way could change what comes; use https")),
            _ => Err(wrong("repositories are reached by https and ssh")),
        }
    }

    fn repository(url: &str) -> Self {
        Self::Git { url: url.to_owned(), reference: None, path: None }
    }

    /// Returns it with a reference and a path, where they are given and it is a repository.
    pub fn with(
        self,
        given_reference: Option<&str>,
        given_path: Option<&str>,
    ) -> Result<Self, InvalidSource> {
        let invalid = |address: &str, reason: &str| {
            Err(InvalidSource { address: address.to_owned(), reason: reason.to_owned() })
        };
        match self {
            Self::Archive { url } if given_reference.is_some() || given_path.is_some() => {
                invalid(&url, "an archive has neither a reference nor a path")
            }
            Self::Git { url, reference, path } => {
                if let Some(text) = given_reference.filter(|text| !is_reference(text)) {
                    return invalid(text, "it is not the name of a branch, a tag or a commit");
                }
                if let Some(text) = given_path
                    && crate::path::inner_path(text).is_err()
                {
                    return invalid(text, "it is not a path in a repository");
                }
                let reference = given_reference.map(str::to_owned).or(reference);
                let path = given_path.map(|text| text.trim_matches('/').to_owned()).or(path);
                Ok(Self::Git { url, reference, path })
            }
            archive @ Self::Archive { .. } => Ok(archive),
        }
    }
}

impl fmt::Display for SkillSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git { url, .. } | Self::Archive { url } => f.write_str(url),
        }
    }
}

/// Reports whether a text is `user@host:path`, as ssh has it.
fn is_scp(text: &str) -> bool {
    let Some((before, path)) = text.split_once(':') else { return false };
    let Some((user, host)) = before.split_once('@') else { return false };
    let is_host = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    is_host(user) && is_host(host) && !path.is_empty() && !path.starts_with(['-', '/', '\\'])
}

/// Reports whether a text may name a branch, a tag or a commit.
fn is_reference(text: &str) -> bool {
    let is_part = |part: &str| is_name(&part.replace(['+', '@'], "-")) && !part.starts_with('.');
    text.len() <= 256
        && !text.starts_with('-')
        && !text.contains("..")
        && text.split('/').all(is_part)
}

/// Returns the repository, the reference and the folder that a page of a forge shows.
fn shown_folder(text: &str, host: &str) -> Option<SkillSource> {
    let between = match host {
        "github.com" | "codeberg.org" => "/tree/",
        "gitlab.com" => "/-/tree/",
        _ => return None,
    };
    let text = text.trim_end_matches('/');
    let (url, rest) = text.split_once(between)?;
    let (reference, path) = match rest.split_once('/') {
        Some((reference, path)) => (reference, Some(path)),
        None => (rest, None),
    };
    is_reference(reference).then(|| SkillSource::Git {
        url: url.to_owned(),
        reference: Some(reference.to_owned()),
        path: path.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(url: &str, reference: Option<&str>, path: Option<&str>) -> SkillSource {
        let own = |text: Option<&str>| text.map(str::to_owned);
        SkillSource::Git { url: url.to_owned(), reference: own(reference), path: own(path) }
    }

    #[test]
    fn addresses_of_repositories_folders_and_archives_are_told_apart() {
        for url in [
            "https://example.org/skills.git",
            "https://github.com/owner/repo",
            "ssh://git@example.org:2222/skills",
            "git@github.com:owner/repo.git",
            "file:///srv/skills",
        ] {
            assert!(SkillSource::is_address(url), "{url}");
            assert_eq!(SkillSource::parse(url), Ok(git(url, None, None)), "{url}");
        }
        assert_eq!(
            SkillSource::parse("https://github.com/o/r/tree/main/skills/pdf/"),
            Ok(git("https://github.com/o/r", Some("main"), Some("skills/pdf")))
        );
        let url = "https://example.org/a/pdf.skill".to_owned();
        assert_eq!(SkillSource::parse(&url), Ok(SkillSource::Archive { url }));
        for path in ["./pdf", "/srv/a:b", "pdf.zip", "a@b", "C:\\x"] {
            assert!(!SkillSource::is_address(path), "{path}");
        }
    }

    #[test]
    fn what_git_could_take_for_something_else_is_refused() {
        for wrong in [
            "ext::sh -c id",
            "https://-oProxyCommand=x/y",
            "ssh://-oProxyCommand=id/x",
            "http://example.org/x.git",
            "https://user:hunter2@example.org/x",
            "ssh://user:hunter2@example.org:22/x",
            "ftp://example.org/x",
            "https://",
            "https://example.org/a b",
        ] {
            let error = SkillSource::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for wrong in ["--upload-pack=x", "a..b", "-x", "", "a b", "a//b", ".a"] {
            let source = git("https://example.org/x", None, None);
            assert!(source.with(Some(wrong), None).is_err(), "{wrong}");
        }
        for wrong in ["../x", "/etc", "a/../../b", ".git/hooks"] {
            let source = git("https://example.org/x", None, None);
            assert!(source.with(None, Some(wrong)).is_err(), "{wrong}");
        }
    }
}

#[cfg(test)]
#[path = "remote/remote_tests.rs"]
mod remote_tests;
