//! `config.yaml` as a text that a person edits elsewhere: shown without its secrets, checked before it
//! is written, and written only over what was read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::check::{SettingFinding, Severity};
use crate::error::FileProblem;
use crate::files::{self, ConfigFile};
use crate::hidden::{HiddenText, MarkerError};
use crate::layers::ValueSource;
use crate::set::LockedFile;
use crate::settings::Settings;

/// A profile's `config.yaml` without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigText {
    /// The file.
    pub path: PathBuf,
    /// The text; `<secret 1>` stands in place of a secret.
    pub text: String,
    /// How many secrets are hidden.
    pub hidden: usize,
    /// Which state of the file it is.
    pub revision: String,
}

/// What a text means for the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigTextOutcome {
    /// Whether the file differs from it, or did.
    pub is_changed: bool,
    /// What is wrong with the settings then, or worth knowing.
    pub findings: Vec<SettingFinding>,
}

/// Why a text was not shown or not written. The file is as it was.
#[derive(Debug, Error)]
pub enum ConfigTextError {
    /// The file cannot be read, or not be understood well enough to hide its secrets.
    #[error("{}: {problem}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// Somebody else has changed the file since.
    #[error("{} was changed by another process since it was read; nothing was written", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A marker stands for no secret of the file.
    #[error("<secret {number}> does not stand for a secret of {}; nothing was written", path.display())]
    UnknownMarker {
        /// Its number.
        number: usize,
        /// The file.
        path: PathBuf,
    },
    /// A secret would stand where it can be read.
    #[error(
        "<secret {number}> stands where values are shown; a secret can only be moved to a place that is hidden"
    )]
    Exposed {
        /// Its number.
        number: usize,
    },
    /// The text is not YAML, or holds no sections.
    #[error("the text is {problem}; nothing was written")]
    Text {
        /// What is wrong with it.
        problem: FileProblem,
    },
    /// It is wrong where the file was right.
    #[error("the text has {}; nothing was written", mistakes(findings.len()))]
    Invalid {
        /// What is wrong.
        findings: Vec<SettingFinding>,
    },
    /// The file cannot be written.
    #[error("failed to write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

fn mistakes(count: usize) -> String {
    if count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") }
}

/// Whether a text is written or only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextUse {
    /// Say what would be wrong.
    Check,
    /// Write it.
    Write,
}

/// Returns the profile's `config.yaml` as it may be shown.
pub fn config_text(settings: &Settings) -> Result<ConfigText, ConfigTextError> {
    let path = settings.home().config_file();
    let read = |problem| ConfigTextError::Read { path: path.clone(), problem };
    // Before the text: a change in between makes the revision an old one.
    let revision = revision(&path);
    let text = files::read_text(&path).map_err(read)?.unwrap_or_default();
    let hidden = hidden(settings, &text).map_err(read)?;
    let count = hidden.count();
    Ok(ConfigText { text: hidden.shown, hidden: count, revision, path })
}

/// Replaces the profile's `config.yaml` by an edited text, with the secrets where their markers are. It is
/// refused where the file is not the one that was read, or where a setting would become wrong.
pub fn use_config_text(
    settings: &Settings,
    read_revision: &str,
    edited: &str,
    purpose: TextUse,
) -> Result<ConfigTextOutcome, ConfigTextError> {
    let link = settings.home().config_file();
    let write = |error| ConfigTextError::Write { path: link.clone(), error };
    let target = LockedFile::open(&link).map_err(write)?;
    if revision(&link) != read_revision {
        return Err(ConfigTextError::Changed { path: link });
    }
    let read = |problem| ConfigTextError::Read { path: link.clone(), problem };
    let before = files::read_text(&target.path).map_err(read)?.unwrap_or_default();
    let hidden = hidden(settings, &before).map_err(read)?;
    let text = hidden.restore(edited, settings.schema()).map_err(|error| match error {
        MarkerError::Unknown(number) => {
            ConfigTextError::UnknownMarker { number, path: link.clone() }
        }
        MarkerError::Exposed(number) => ConfigTextError::Exposed { number },
    })?;
    let limit = files::MAX_BYTES;
    if text.len() as u64 > limit {
        return Err(ConfigTextError::Text { problem: FileProblem::TooLarge { limit } });
    }
    let after = parsed(settings, &text)?;
    let findings = after.check();
    let known = parsed(settings, &before).map(|before| before.check()).unwrap_or_default();
    let is_new = |finding: &&SettingFinding| {
        finding.severity == Severity::Error
            && matches!(finding.place, Some(ValueSource::File { .. }))
            && !known.iter().any(|old| old.severity == finding.severity && old.name == finding.name)
    };
    let wrong: Vec<SettingFinding> = findings.iter().filter(is_new).cloned().collect();
    if !wrong.is_empty() {
        return Err(ConfigTextError::Invalid { findings: wrong });
    }
    let is_changed = text != before;
    if is_changed && purpose == TextUse::Write {
        target.replace(&text).map_err(write)?;
    }
    Ok(ConfigTextOutcome { is_changed, findings })
}

fn hidden(settings: &Settings, text: &str) -> Result<HiddenText, FileProblem> {
    Ok(HiddenText::of(text, settings.schema(), &settings.known_secrets())?)
}

/// Returns the settings as they would be with this text as their file.
fn parsed(settings: &Settings, text: &str) -> Result<Settings, ConfigTextError> {
    let root = files::parse_sections(text).map_err(|problem| ConfigTextError::Text { problem })?;
    Ok(Settings {
        schema: settings.schema().clone(),
        home: settings.home().clone(),
        env: settings.environment().clone(),
        overrides: settings.overrides.clone(),
        dotenv: files::load_dotenv(&settings.home().env_file()),
        file: Ok(ConfigFile { path: settings.home().config_file(), root }),
    })
}

/// Returns what distinguishes one state of a file from another, and nothing of what is in it.
fn revision(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(file) => {
            format!("{:x}-{:x}-{:x}-{:x}", file.ino(), file.mtime(), file.mtime_nsec(), file.len())
        }
        Err(_) => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHome;

    const TEXT: &str =
        "# mine\nmodel:\n  api_key: sk-of-the-model # do not share\nterminal:\n  timeout: 5\n";

    #[test]
    fn an_edit_keeps_secrets_and_comments() {
        let home = TestHome::with_config(TEXT);
        let settings = home.settings(&[], &[]);
        let shown = config_text(&settings).expect("shown");
        assert_eq!((shown.hidden, shown.text.contains("sk-of-the-model")), (1, false));
        let edited = shown.text.replace("timeout: 5", "timeout: 2h  # long");
        let checked = use_config_text(&settings, &shown.revision, &edited, TextUse::Check);
        assert!(checked.expect("right").is_changed);
        assert_eq!(home.read_config(), TEXT, "it was only looked at");
        use_config_text(&settings, &shown.revision, &edited, TextUse::Write).expect("written");
        assert_eq!(home.read_config(), TEXT.replace("timeout: 5", "timeout: 2h  # long"));
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_overwritten() {
        let home = TestHome::with_config(TEXT);
        let settings = home.settings(&[], &[]);
        let shown = config_text(&settings).expect("shown");
        crate::set(&settings, "terminal.timeout", "7").expect("set");
        let written = use_config_text(&settings, &shown.revision, &shown.text, TextUse::Write);
        assert!(matches!(written, Err(ConfigTextError::Changed { .. })), "{written:?}");
        assert_eq!(home.read_config(), TEXT.replace("timeout: 5", "timeout: 7"));
    }

    #[test]
    fn a_text_with_a_new_mistake_is_refused_and_an_old_one_may_stay() {
        let home = TestHome::with_config(TEXT);
        let settings = home.settings(&[], &[]);
        let shown = config_text(&settings).expect("shown");
        let write = |text: &str| use_config_text(&settings, &shown.revision, text, TextUse::Write);
        let wrong = write(&shown.text.replace("timeout: 5", "timeout: soon"));
        let Err(ConfigTextError::Invalid { findings }) = wrong else { panic!("{wrong:?}") };
        assert_eq!(findings[0].name.as_deref(), Some("terminal.timeout"));
        assert!(matches!(write("a: [1"), Err(ConfigTextError::Text { .. })));
        assert!(matches!(write("- a list"), Err(ConfigTextError::Text { .. })));
        assert_eq!(home.read_config(), TEXT);
        let home = TestHome::with_config("terminal:\n  timeout: soon\n");
        let settings = home.settings(&[], &[]);
        let shown = config_text(&settings).expect("shown");
        let more = format!("{}  cwd: /x\n", shown.text);
        use_config_text(&settings, &shown.revision, &more, TextUse::Write).expect("no worse");
    }
}
