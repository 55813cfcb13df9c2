//! `${NAME}` in a value: the variable of that name, from the environment, else
//! from `.env`.

use std::sync::Arc;

use thiserror::Error;

use crate::error::FileError;
use crate::kinds::EnvName;
use crate::settings::Settings;

/// Why a value that refers to variables has no text. It names variables, never
/// what is around them.
#[derive(Debug, Clone, Error)]
pub enum Unresolved {
    /// Nobody has set it.
    #[error(
        "it refers to the variable {name}, which is set neither in the environment nor in {env_file}"
    )]
    Unset {
        /// The variable.
        name: EnvName,
        /// Where it could be set.
        env_file: String,
    },
    /// It is not text.
    #[error("it refers to the variable {name}, which holds bytes that are no text")]
    NoText {
        /// The variable.
        name: EnvName,
    },
    /// What stands between the braces is no name.
    #[error(
        "it has ${{…}} around what is no name of a variable; a dollar sign that means itself is written $$"
    )]
    NoName,
    /// `.env` cannot be read.
    #[error(transparent)]
    File(Arc<FileError>),
}

/// A piece of text that may refer to variables.
enum Piece<'a> {
    Text(&'a str),
    Variable(EnvName),
}

impl Settings {
    /// Returns text with each `${NAME}` in it replaced by the variable's value
    /// and each `$$` by a dollar sign; another dollar sign means itself.
    pub fn resolve(&self, text: &str) -> Result<String, Unresolved> {
        let mut out = String::with_capacity(text.len());
        for piece in pieces(text)? {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable(name) => out.push_str(&self.referred(&name)?),
            }
        }
        Ok(out)
    }

    fn referred(&self, name: &EnvName) -> Result<String, Unresolved> {
        let found = self.variable(name).map_err(Unresolved::File)?;
        let Some(found) = found else {
            let env_file = self.home().env_file().display().to_string();
            return Err(Unresolved::Unset { name: name.clone(), env_file });
        };
        found.value.into_string().map_err(|_| Unresolved::NoText { name: name.clone() })
    }

    /// Returns the values of the variables that text refers to, as far as they
    /// are set.
    pub fn referred_values(&self, text: &str) -> Vec<String> {
        let variables =
            pieces(text).unwrap_or_default().into_iter().filter_map(|piece| match piece {
                Piece::Text(_) => None,
                Piece::Variable(name) => self.referred(&name).ok(),
            });
        variables.collect()
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Unresolved> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        pieces.push(Piece::Text(before));
        if let Some(after) = after.strip_prefix('$') {
            pieces.push(Piece::Text("$"));
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (name, after) = after.split_once('}').ok_or(Unresolved::NoName)?;
            pieces.push(Piece::Variable(EnvName::new(name).ok_or(Unresolved::NoName)?));
            rest = after;
        } else {
            pieces.push(Piece::Text("$"));
            rest = after;
        }
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use crate::{Environment, Home, Settings};

    fn settings(dir: &std::path::Path) -> Settings {
        let env = Environment::from_pairs([("TOKEN", "from-env"), ("EMPTY", "")]);
        Settings::load(&crate::schema(), Home::at(dir), env, Vec::new())
    }

    #[test]
    fn references_are_taken_from_the_environment_then_from_the_env_file() {
        let dir = tempfile::tempdir().expect("made");
        std::fs::write(dir.path().join(".env"), "TOKEN=hidden\nEMPTY=from-file\n")
            .expect("written");
        let settings = settings(dir.path());
        for (text, resolved) in [
            ("Bearer ${TOKEN}", "Bearer from-env"),
            ("${EMPTY}/${TOKEN}", "from-file/from-env"),
            ("plain", "plain"),
            ("", ""),
            ("costs 5$ or $HOME", "costs 5$ or $HOME"),
            ("$${TOKEN} $$", "${TOKEN} $"),
            ("ends with $", "ends with $"),
        ] {
            assert_eq!(settings.resolve(text).expect(text), resolved);
        }
    }

    #[test]
    fn what_cannot_be_resolved_names_the_variable_and_where_to_set_it() {
        let dir = tempfile::tempdir().expect("made");
        let settings = settings(dir.path());
        let error = settings.resolve("secret-prefix ${MISSING}").expect_err("unset").to_string();
        assert!(error.contains("variable MISSING") && error.contains(".env"), "{error}");
        assert!(!error.contains("secret-prefix"), "{error}");
        for text in ["${", "${}", "${a b}", "${TOKEN", "${1}"] {
            let error = settings.resolve(text).expect_err(text).to_string();
            assert!(error.contains("no name of a variable"), "{text}: {error}");
        }
    }
}
