//! Names of images.

use std::borrow::Cow;

/// Longest name of an image.
const MAX_NAME: usize = 1024;

/// Registry of names that begin with none.
const HUB: &str = "docker.io";

/// A name of an image, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reference<'a> {
    /// The id of an image: it is there or it is not.
    Id,
    /// A name that a registry may know.
    Named {
        /// The registry's host.
        registry: &'a str,
        /// Whether the name says so itself.
        is_qualified: bool,
        /// The name without tag, with a digest if it has one.
        repository: Cow<'a, str>,
        /// The tag to ask for; none with a digest.
        tag: Option<&'a str>,
    },
}

impl<'a> Reference<'a> {
    /// Takes a name apart. Nothing but a well-formed one may become part of
    /// the path of a request.
    pub(super) fn parse(name: &'a str) -> Result<Self, &'static str> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err("a name has 1 to 1024 characters");
        }
        if is_id(name) {
            return Ok(Self::Id);
        }
        let (tagged, digest) = match name.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (name, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err("what follows @ is no digest such as sha256:0123…");
        }
        // A colon before the last slash is a registry's port.
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let colon = tagged[last..].find(':').map(|colon| last + colon);
        let (path, tag) = match colon {
            Some(colon) => (&tagged[..colon], Some(&tagged[colon + 1..])),
            None => (tagged, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("a tag consists of letters, digits, dots, dashes and underscores");
        }
        let (registry, is_qualified, rest) = match path.split_once('/') {
            Some((host, rest)) if is_registry(host) => (host, true, rest),
            _ => (HUB, false, path),
        };
        if is_qualified && !is_host(registry) {
            return Err("its registry is no host");
        }
        if !rest.split('/').all(is_component) {
            return Err(
                "it consists of lower-case letters and digits, with dots, dashes and underscores \
                 only between them, and slashes between the parts",
            );
        }
        Ok(Self::Named {
            registry,
            is_qualified,
            repository: match digest {
                Some(digest) => Cow::Owned(format!("{path}@{digest}")),
                None => Cow::Borrowed(path),
            },
            // Beside a digest, a tag says nothing.
            tag: if digest.is_some() { None } else { Some(tag.unwrap_or("latest")) },
        })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a name is an image's id, whole or as engines shorten it.
fn is_id(name: &str) -> bool {
    match name.strip_prefix("sha256:") {
        Some(digits) => (1..=64).contains(&digits.len()) && is_hex(digits),
        None => matches!(name.len(), 12 | 64) && is_hex(name),
    }
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else { return false };
    algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
        && algorithm.bytes().all(|b| b.is_ascii_alphanumeric() || b"+._-".contains(&b))
        && digits.len() >= 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_registry(host: &str) -> bool {
    host == "localhost" || host.contains(['.', ':']) || host.contains(char::is_uppercase)
}

fn is_host(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}

fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_word(*byte))
        && bytes.last().is_some_and(|byte| is_word(*byte))
        && bytes.iter().all(|byte| is_word(*byte) || b"._-".contains(byte))
        && !text.contains("..")
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
