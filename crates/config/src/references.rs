//! `${NAME}` in a value: the variable of that name, from the environment, else
//! from `.env`.

use std::sync::Arc;

use thiserror::Error;

use crate::error::FileError;
use crate::kinds::EnvName;
use crate::settings::Settings;

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;

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
