//! Options of the command line: names of descriptors.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown command")]
    UnknownVerb,
    #[error("unknown option {0}")]
    UnknownOption(String),
    #[error("{0} needs a descriptor")]
    NoDescriptor(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("the descriptor {0} is named twice")]
    Twice(RawFd),
    #[error("no program to run")]
    NoProgram,
}

/// Descriptors by the names of their options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    numbers: Vec<(&'static str, RawFd)>,
}

impl Options {
    /// Takes options apart. Each has a descriptor of its own.
    pub(crate) fn parse(
        arguments: impl Iterator<Item = OsString>,
        known: &[&'static str],
    ) -> Result<Self, UsageError> {
        let mut arguments = arguments;
        let mut numbers = Vec::new();
        while let Some(name) = arguments.next() {
            let text = || name.to_string_lossy().into_owned();
            let known = known.iter().find(|known| name == **known);
            let known = known.ok_or_else(|| UsageError::UnknownOption(text()))?;
            let number = arguments.next().as_deref().and_then(number);
            let number = number.ok_or_else(|| UsageError::NoDescriptor(text()))?;
            if numbers.iter().any(|(_, taken)| *taken == number) {
                return Err(UsageError::Twice(number));
            }
            numbers.push((*known, number));
        }
        Ok(Self { numbers })
    }

    /// Returns the descriptor of an option.
    pub(crate) fn number(&self, name: &'static str) -> Result<RawFd, UsageError> {
        let found = self.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| *number).ok_or(UsageError::Missing(name))
    }
}

fn number(text: &OsStr) -> Option<RawFd> {
    text.to_str()?.parse().ok().filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, UsageError> {
        Options::parse(arguments.iter().map(OsString::from), &["--a", "--b"])
    }

    #[test]
    fn options_are_understood() {
        let options = parse(&["--b", "4", "--a", "0"]).unwrap();
        assert_eq!(options.number("--a"), Ok(0));
        assert_eq!(options.number("--b"), Ok(4));
        assert_eq!(options.number("--c"), Err(UsageError::Missing("--c")));
    }

    #[test]
    fn wrong_options_are_said_to_be_wrong() {
        let missing = || UsageError::NoDescriptor("--a".into());
        assert_eq!(parse(&["--c", "1"]), Err(UsageError::UnknownOption("--c".into())));
        for wrong in [&["--a"][..], &["--a", "x"], &["--a", "-1"]] {
            assert_eq!(parse(wrong), Err(missing()), "{wrong:?}");
        }
        assert_eq!(parse(&["--a", "3", "--b", "3"]), Err(UsageError::Twice(3)));
    }
}
