//! Files of the user's home that commands get where they do not see that home.

use std::path::{Component, Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand, texts};
use vestal_config::{Setting, SettingValue};

/// Most files.
const MOST: usize = 100;

/// Longest path.
const MAX_PATH: usize = 1024;

/// A file below the user's home: an absolute path, or one that begins with `~/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFile(PathBuf);

impl CredentialFile {
    /// Reads a path, or says what is wrong with it, to be read after "which".
    fn parse(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        if text.len() > MAX_PATH || text.chars().any(char::is_control) {
            return Err("is too long or has control characters".to_owned());
        }
        if !path.is_absolute() && !text.starts_with("~/") {
            return Err("is neither absolute nor below ~/".to_owned());
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return Err("goes up with ..".to_owned());
        }
        if text.ends_with('/') {
            return Err("names a directory".to_owned());
        }
        // Without needless slashes and dots.
        Ok(Self(path.components().collect()))
    }

    /// Returns where it is below the user's home, by its name; nothing if it is elsewhere.
    pub fn below(&self, user_home: &Path) -> Option<PathBuf> {
        let path = expand(&self.0, Some(user_home));
        let rest = path.strip_prefix(user_home).ok()?;
        (!rest.as_os_str().is_empty()).then(|| rest.to_owned())
    }
}

impl std::fmt::Display for CredentialFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Files of the user's home, each once, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFiles(Vec<CredentialFile>);

impl CredentialFiles {
    /// No files.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns the files.
    pub fn iter(&self) -> impl Iterator<Item = &CredentialFile> {
        self.0.iter()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Setting for CredentialFiles {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let mut files: Vec<CredentialFile> = Vec::new();
        for text in texts(input, r#"write it as ["~/.aws/credentials"]"#)? {
            let file = CredentialFile::parse(&text)
                .map_err(|reason| ValueRefusal::new(format!("holds {text:?}, which {reason}")))?;
            if !files.contains(&file) {
                files.push(file);
            }
        }
        if files.len() > MOST {
            return Err(ValueRefusal::new(format!("holds more than {MOST} files")));
        }
        Ok(Self(files))
    }

    fn to_value(&self) -> SettingValue {
        let texts = self.0.iter().map(|file| SettingValue::Text(file.to_string()));
        SettingValue::List(texts.collect())
    }

    fn allowed((): &()) -> String {
        "a list of files below your home, absolute or as ~/…".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["~/.aws/credentials"]"#.to_owned(), r#"["~/.netrc", "~/.npmrc"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": "^(/|~/).*[^/]$"}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys;
    use crate::settings::testing::TestHome;

    fn below(text: &str) -> Option<PathBuf> {
        CredentialFile::parse(text).unwrap().below(Path::new("/home/me"))
    }

    #[test]
    fn a_file_is_below_the_home_or_it_is_none() {
        let credentials = Some(PathBuf::from(".aws/credentials"));
        assert_eq!(below("~/.aws/credentials"), credentials);
        assert_eq!(below("/home/me/.aws//./credentials"), credentials);
        assert_eq!(below("/etc/shadow"), None);
        assert_eq!(below("/home/me"), None);
        assert_eq!(below("/home/meow/x"), None);
        for wrong in ["", "x", ".netrc", "~", "~you/x", "~/../x", "/home/me/../x", "~/x/", "~/a\nb"]
        {
            assert!(CredentialFile::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn files_are_listed_each_once() {
        let set = r#"terminal.credential_files=["~/.netrc", "~/./.netrc", "~/.npmrc"]"#;
        let files = TestHome::new().settings(&[], &[set]).get(&keys::CREDENTIAL_FILES).unwrap();
        let shown: Vec<String> = files.value.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["~/.netrc", "~/.npmrc"]);
        let wrong = r#"terminal.credential_files=["secret"]"#;
        let error =
            TestHome::new().settings(&[], &[wrong]).get(&keys::CREDENTIAL_FILES).unwrap_err();
        assert!(error.to_string().contains("neither absolute nor below ~/"), "{error}");
    }
}
