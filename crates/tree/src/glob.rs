//! Wildcards: `*`, `?`, `[a-z]`, `**` between slashes, and optionally `{a,b}`.
//!
//! Patterns match bytes; in UTF-8, `?` and classes match whole characters. Matching
//! only backtracks to the last `*` and the last `**`, which is sufficient and keeps
//! hostile patterns from taking exponential time.

/// Maximum length of a glob, and maximum number of patterns its braces may expand
/// to.
const MAX_LENGTH: usize = 4096;

const MAX_ALTERNATIVES: usize = 256;

/// Code of the first byte that is not part of a character.
const NO_CHARACTER: u32 = 0x11_0000;

/// Whether `A` matches `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// It does not.
    Exact,
    /// It does.
    Ignored,
}

impl From<bool> for Case {
    fn from(ignored: bool) -> Self {
        if ignored { Self::Ignored } else { Self::Exact }
    }
}

/// Returns the lower case of a character if it is a single character.
pub fn lower(character: char) -> char {
    only(character.to_lowercase()).unwrap_or(character)
}

/// Returns the upper case of a character if it is a single character.
pub fn upper(character: char) -> char {
    only(character.to_uppercase()).unwrap_or(character)
}

fn only(mut characters: impl Iterator<Item = char>) -> Option<char> {
    let first = characters.next()?;
    characters.next().is_none().then_some(first)
}

/// An invalid pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A class has no end.
    #[error("a class is not closed by ]")]
    OpenClass,
    /// A group has no end.
    #[error("a group is not closed by }}")]
    OpenGroup,
    /// There is nothing to escape.
    #[error("nothing follows the last backslash")]
    TrailingBackslash,
    /// It is too long or stands for too many.
    #[error(
        "it is longer than {MAX_LENGTH} bytes or stands for more than {MAX_ALTERNATIVES} patterns"
    )]
    TooLarge,
}

/// One pattern without groups.
#[derive(Debug)]
pub struct Wildcard {
    tokens: Vec<GlobToken>,
    case: Case,
}

/// A pattern with groups.
#[derive(Debug)]
pub struct Glob {
    alternatives: Vec<Wildcard>,
    /// Whether it matches the path instead of the name.
    on_path: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum GlobToken {
    Char(u32),
    /// Any character but a slash.
    Any,
    Class {
        negated: bool,
        ranges: Vec<(u32, u32)>,
    },
    /// Any number of characters but slashes.
    Star,
    /// Any number of whole directories.
    Tree,
    /// Everything that follows.
    Rest,
}

impl Glob {
    /// Compiles a pattern that matches paths, or names if it has no slash.
    pub fn new(pattern: &str, case: Case) -> Result<Self, GlobError> {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let on_path = pattern.contains('/');
        let mut pattern = pattern.strip_prefix('/').unwrap_or(pattern).to_owned();
        if pattern.ends_with('/') {
            // A directory matches all files in it.
            pattern.push_str("**");
        }
        let alternatives = expand(pattern)?
            .iter()
            .map(|alternative| Wildcard::new(alternative.as_bytes(), case))
            .collect::<Result<_, _>>()?;
        Ok(Self { alternatives, on_path })
    }

    /// Returns whether a file matches, given its path below the root and its
    /// name.
    pub fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        let text = if self.on_path { path } else { name };
        self.alternatives.iter().any(|wildcard| wildcard.matches(text))
    }
}

/// Returns the patterns that a pattern with groups expands to.
fn expand(pattern: String) -> Result<Vec<String>, GlobError> {
    let mut open = vec![pattern];
    let mut done = Vec::new();
    while let Some(pattern) = open.pop() {
        if pattern.len() > MAX_LENGTH || open.len() + done.len() >= MAX_ALTERNATIVES {
            return Err(GlobError::TooLarge);
        }
        let Some(group) = BraceGroup::find(&pattern)? else {
            done.push(pattern);
            continue;
        };
        let (before, after) = (&pattern[..group.start], &pattern[group.end + 1..]);
        for bounds in group.cuts.windows(2).rev() {
            open.push(format!("{before}{}{after}", &pattern[bounds[0] + 1..bounds[1]]));
        }
    }
    Ok(done)
}

/// The first group of a pattern: positions of its braces and commas.
struct BraceGroup {
    start: usize,
    end: usize,
    cuts: Vec<usize>,
}

impl BraceGroup {
    fn find(pattern: &str) -> Result<Option<Self>, GlobError> {
        let bytes = pattern.as_bytes();
        let mut cuts = Vec::new();
        let (mut depth, mut at) = (0_usize, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => at += 1,
                b'[' => at = class_end(bytes, at).unwrap_or(at),
                b'{' => {
                    if depth == 0 {
                        cuts.push(at);
                    }
                    depth += 1;
                }
                b',' if depth == 1 => cuts.push(at),
                b'}' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        let start = cuts[0];
                        cuts.push(at);
                        return Ok(Some(Self { start, end: at, cuts }));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        if depth > 0 { Err(GlobError::OpenGroup) } else { Ok(None) }
    }
}

/// Returns the end of the class that starts at `start`.
fn class_end(pattern: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    if matches!(pattern.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let first = at;
    while let Some(&byte) = pattern.get(at) {
        match byte {
            b']' if at > first => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

impl Wildcard {
    /// Compiles a pattern; braces are ordinary characters.
    pub fn new(pattern: &[u8], case: Case) -> Result<Self, GlobError> {
        if pattern.len() > MAX_LENGTH {
            return Err(GlobError::TooLarge);
        }
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < pattern.len() {
            match pattern[at] {
                b'*' => {
                    let run = pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
                    let at_start = at == 0 || pattern[at - 1] == b'/';
                    at += run;
                    let token = match pattern.get(at) {
                        None if run > 1 && at_start => GlobToken::Rest,
                        Some(b'/') if run > 1 && at_start => {
                            at += 1;
                            GlobToken::Tree
                        }
                        _ => GlobToken::Star,
                    };
                    if tokens.last() != Some(&token) {
                        tokens.push(token);
                    }
                    continue;
                }
                b'?' => tokens.push(GlobToken::Any),
                b'[' => {
                    let end = class_end(pattern, at).ok_or(GlobError::OpenClass)?;
                    tokens.push(parse_class(&pattern[at + 1..end]));
                    at = end;
                }
                b'\\' => {
                    let rest = pattern.get(at + 1..).filter(|rest| !rest.is_empty());
                    let (character, width) = decode(rest.ok_or(GlobError::TrailingBackslash)?);
                    tokens.push(GlobToken::Char(character));
                    at += width;
                }
                _ => {
                    let (character, width) = decode(&pattern[at..]);
                    tokens.push(GlobToken::Char(character));
                    at += width - 1;
                }
            }
            at += 1;
        }
        Ok(Self { tokens, case })
    }

    /// Returns whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        // Where to continue after the last star and the last tree: the next
        // token, and how far they reach so far.
        let (mut star, mut tree) = (None, None);
        let (mut token, mut at) = (0, 0);
        loop {
            match self.tokens.get(token) {
                None if at == text.len() => return true,
                Some(GlobToken::Rest) => return true,
                Some(GlobToken::Tree) => {
                    token += 1;
                    (star, tree) = (None, Some((token, at)));
                    continue;
                }
                Some(GlobToken::Star) => {
                    token += 1;
                    star = Some((token, at));
                    continue;
                }
                Some(single) if at < text.len() => {
                    let (character, width) = decode(&text[at..]);
                    if self.takes(single, character) {
                        token += 1;
                        at += width;
                        continue;
                    }
                }
                _ => {}
            }
            if let Some((after, reach)) =
                star.filter(|&(_, reach)| text.get(reach).is_some_and(|&byte| byte != b'/'))
            {
                let reach = reach + decode(&text[reach..]).1;
                star = Some((after, reach));
                (token, at) = (after, reach);
                continue;
            }
            star = None;
            let slash = |reach: usize| text[reach..].iter().position(|&byte| byte == b'/');
            let Some((after, reach)) =
                tree.and_then(|(after, reach)| Some((after, reach + slash(reach)? + 1)))
            else {
                return false;
            };
            tree = Some((after, reach));
            (token, at) = (after, reach);
        }
    }

    fn takes(&self, token: &GlobToken, character: u32) -> bool {
        let slash = character == u32::from(b'/');
        match token {
            GlobToken::Char(wanted) => {
                character == *wanted
                    || self.case == Case::Ignored
                        && map_case(character, lower) == map_case(*wanted, lower)
            }
            GlobToken::Any => !slash,
            GlobToken::Class { negated, ranges } => {
                let within =
                    |character| ranges.iter().any(|&(low, high)| (low..=high).contains(&character));
                let found = within(character)
                    || self.case == Case::Ignored
                        && [lower, upper].iter().any(|&map| within(map_case(character, map)));
                !slash && found != *negated
            }
            GlobToken::Star | GlobToken::Tree | GlobToken::Rest => false,
        }
    }
}

/// Parses the text between the brackets.
fn parse_class(body: &[u8]) -> GlobToken {
    let negated = matches!(body.first(), Some(b'!' | b'^'));
    let mut rest = if negated { &body[1..] } else { body };
    let mut ranges = Vec::new();
    while !rest.is_empty() {
        let low = take_member(&mut rest);
        let mut high = low;
        if rest.len() > 1 && rest[0] == b'-' {
            rest = &rest[1..];
            high = take_member(&mut rest);
        }
        ranges.push((low, high));
    }
    GlobToken::Class { negated, ranges }
}

fn take_member(rest: &mut &[u8]) -> u32 {
    if rest.len() > 1 && rest[0] == b'\\' {
        *rest = &rest[1..];
    }
    let (character, width) = decode(rest);
    *rest = &rest[width..];
    character
}

/// Returns the first character of a text that is not empty, and its width in
/// bytes.
fn decode(text: &[u8]) -> (u32, usize) {
    let first = text[0];
    let width = match first {
        0..0x80 => return (u32::from(first), 1),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => 0,
    };
    let character = text
        .get(..width)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.chars().next());
    character.map_or((NO_CHARACTER + u32::from(first), 1), |found| (u32::from(found), width))
}

fn map_case(character: u32, map: fn(char) -> char) -> u32 {
    char::from_u32(character).map_or(character, |found| u32::from(map(found)))
}

#[cfg(test)]
#[path = "glob_tests.rs"]
mod tests;
