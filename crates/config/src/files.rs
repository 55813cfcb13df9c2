//! Reading the files of a profile, and the format of a `.env`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{FileProblem, SettingsFileError};
use crate::kinds::EnvName;
use crate::yaml::{self, NodeKind, YamlNode};

/// More than any settings file needs.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// A profile's `config.yaml`.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// The map of sections; none when the file is absent or empty.
    pub(crate) root: Option<YamlNode>,
}

/// A profile's `.env`.
#[derive(Debug, Clone)]
pub(crate) struct EnvFile {
    pub(crate) path: PathBuf,
    pub(crate) content: DotEnv,
}

pub(crate) fn load_config(path: &Path) -> Result<ConfigFile, Arc<SettingsFileError>> {
    let failed = |problem| Arc::new(SettingsFileError { path: path.to_owned(), problem });
    let text = read_text(path).map_err(failed)?.unwrap_or_default();
    let root = parse_sections(&text).map_err(failed)?;
    Ok(ConfigFile { path: path.to_owned(), root })
}

/// Parses a whole `config.yaml`, which must be a map or empty.
pub(crate) fn parse_sections(text: &str) -> Result<Option<YamlNode>, FileProblem> {
    match yaml::parse(text)?.root {
        Some(root) if root.is_null() => Ok(None),
        Some(root) if !matches!(root.kind, NodeKind::Map { .. }) => {
            Err(FileProblem::NotAMap { line: root.line, found: root.noun().to_owned() })
        }
        root => Ok(root),
    }
}

pub(crate) fn load_dotenv(path: &Path) -> Result<EnvFile, Arc<SettingsFileError>> {
    let bytes = read(path)
        .map_err(|problem| Arc::new(SettingsFileError { path: path.to_owned(), problem }))?
        .unwrap_or_default();
    Ok(EnvFile { path: path.to_owned(), content: DotEnv::parse(&bytes) })
}

/// Reads a text file of a profile, of 1 MiB at most; none when there is none.
pub fn read_text(path: &Path) -> Result<Option<String>, FileProblem> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        FileProblem::NotUtf8 { line: valid.split(|byte| *byte == b'\n').count() }
    })
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, FileProblem> {
    // Looked at before it is opened, because opening a pipe waits for a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(metadata) if !metadata.is_file() => return Err(FileProblem::NotAFile),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileProblem::TooLarge { limit: MAX_BYTES });
    }
    Ok(Some(bytes))
}

fn io(error: std::io::Error) -> FileProblem {
    FileProblem::Io(Arc::new(error))
}

/// The content of a `.env`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DotEnv {
    pub(crate) entries: Vec<DotenvEntry>,
    pub(crate) malformed: Vec<MalformedLine>,
}

/// One variable.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DotenvEntry {
    pub(crate) name: EnvName,
    pub(crate) value: OsString,
    pub(crate) line: usize,
    /// The line after it: a quoted value may span several.
    pub(crate) next_line: usize,
}

/// Leaves the value out: it is likely a secret.
impl std::fmt::Debug for DotenvEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DotenvEntry")
            .field("name", &self.name)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// A line that is not `NAME=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedLine {
    pub(crate) line: usize,
    pub(crate) reason: &'static str,
}

impl DotEnv {
    /// Reads a file's content, whatever it is.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = DotenvReader { bytes, at: 0, line: 1 };
        let mut parsed = Self::default();
        while reader.at < bytes.len() {
            let line = reader.line;
            match reader.entry() {
                Ok(Some(entry)) => parsed.entries.push(entry),
                Ok(None) => {}
                Err(reason) => parsed.malformed.push(MalformedLine { line, reason }),
            }
        }
        parsed
    }

    /// Returns the line that decides a name.
    pub(crate) fn get(&self, name: &str) -> Option<&DotenvEntry> {
        self.entries.iter().rfind(|entry| entry.name.as_str() == name)
    }
}

impl DotenvEntry {
    pub(crate) fn value(&self) -> &OsStr {
        &self.value
    }
}

struct DotenvReader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> DotenvReader<'a> {
    /// Reads one line, or as many as a quoted value takes, and goes past it.
    fn entry(&mut self) -> Result<Option<DotenvEntry>, &'static str> {
        let number = self.line;
        let start = self.at;
        let line = self.take_line();
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            return Ok(None);
        }
        let equals = line.iter().position(|byte| *byte == b'=').ok_or("is not NAME=value")?;
        let (before, after) = line.split_at(equals);
        let name = variable_name(before).ok_or("does not begin with the name of a variable")?;
        let after = after.get(1..).unwrap_or_default();
        let value = after.trim_ascii_start();
        let value_at = start + equals + 1 + (after.len() - value.len());
        let value = match value.first() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(value_at + 1, *quote, number)?,
            _ => unquoted(value).to_vec(),
        };
        if value.contains(&0) {
            return Err("holds a NUL character");
        }
        let value = OsString::from_vec(value);
        Ok(Some(DotenvEntry { name, value, line: number, next_line: self.line }))
    }

    /// Returns the rest of the line and goes past its end.
    fn take_line(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at += length + 1;
        self.line += 1;
        let line = rest.get(..length).unwrap_or_default();
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Reads from after an opening quote to the end of the line its partner is
    /// on. When there is no partner, only the first line is lost.
    fn quoted(&mut self, from: usize, quote: u8, line: usize) -> Result<Vec<u8>, &'static str> {
        let mut value = Vec::new();
        let mut at = from;
        loop {
            let byte = *self.bytes.get(at).ok_or("has a quote that is not closed")?;
            at += 1;
            match byte {
                b'\\' if quote == b'"' => {
                    let next = *self.bytes.get(at).ok_or("has a quote that is not closed")?;
                    at += 1;
                    unescape(next, &mut value);
                }
                byte if byte == quote => break,
                byte => value.push(byte),
            }
        }
        let inside = self.bytes.get(from..at).unwrap_or_default();
        self.line = line + inside.split(|byte| *byte == b'\n').count() - 1;
        self.at = at;
        let rest = self.take_line().trim_ascii();
        if rest.is_empty() || rest.starts_with(b"#") {
            Ok(value)
        } else {
            Err("has text after the closing quote")
        }
    }
}

fn variable_name(before: &[u8]) -> Option<EnvName> {
    let text = std::str::from_utf8(before).ok()?.trim();
    let name = text.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t']));
    EnvName::new(name.unwrap_or(text).trim())
}

fn unquoted(value: &[u8]) -> &[u8] {
    if value.starts_with(b"#") {
        return b"";
    }
    let comment =
        value.windows(2).position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#');
    value.get(..comment.unwrap_or(value.len())).unwrap_or_default().trim_ascii_end()
}

fn unescape(escaped: u8, value: &mut Vec<u8>) {
    match escaped {
        b'n' => value.push(b'\n'),
        b'r' => value.push(b'\r'),
        b't' => value.push(b'\t'),
        b'"' | b'\\' | b'$' => value.push(escaped),
        other => value.extend([b'\\', other]),
    }
}

#[cfg(test)]
#[path = "dotenv_tests.rs"]
mod tests;
