//! What tools are called: `mcp_<server>_<tool>`, in letters that every provider
//! takes.

use std::collections::HashSet;
use std::hash::{Hash as _, Hasher as _};

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;

/// Longest name that every provider takes.
const LONGEST: usize = 64;

/// Characters of what tells two names apart that would be the same.
const MARK: usize = 5;

/// Gives names that are all different.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// All servers of the settings, whether they answer or not.
    servers: Vec<String>,
    given: HashSet<String>,
}

impl Names {
    /// Gives names to tools of these servers.
    pub(crate) fn among<'a>(servers: impl IntoIterator<Item = &'a str>) -> Self {
        let servers = servers.into_iter().map(str::to_owned).collect();
        Self { servers, given: HashSet::new() }
    }

    /// Returns the name of a server's tool. The same tools in the same order
    /// get the same names, and no server gets a name that another's tool may
    /// have: approvals are given to names, and which server answers first, or
    /// what it calls its tools, must not hand them on.
    pub(crate) fn give(&mut self, server: &str, tool: &str) -> String {
        let whole = format!("mcp_{}_{}", word(server), word(tool));
        if whole.len() <= LONGEST
            && !self.is_anothers(server, &whole)
            && self.given.insert(whole.clone())
        {
            return whole;
        }
        let mut round = 0;
        loop {
            let name = marked(&whole, server, tool, round);
            if self.given.insert(name.clone()) {
                return name;
            }
            round += 1;
        }
    }

    /// Reports whether a name is one for another server: the one whose own name
    /// is the longest that it begins with, and of several the first.
    fn is_anothers(&self, server: &str, whole: &str) -> bool {
        let length = word(server).len();
        let before = self.servers.iter().position(|other| other == server);
        self.servers.iter().enumerate().any(|(at, other)| {
            let own = word(other);
            let is_first = before.is_some_and(|before| at < before);
            other != server
                && whole.starts_with(&format!("mcp_{own}_"))
                && (own.len() > length || (own.len() == length && is_first))
        })
    }
}

/// Reports whether a tool's name has to be changed.
pub(crate) fn is_odd(tool: &str) -> bool {
    word(tool) != tool
}

/// Replaces what providers refuse in a name.
fn word(text: &str) -> String {
    let fold = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let word: String = text.chars().map(fold).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

/// Returns a name that ends in something of its own. It is all ASCII by now.
fn marked(whole: &str, server: &str, tool: &str, round: u32) -> String {
    let mut hasher = Fnv::default();
    (server, tool, round).hash(&mut hasher);
    let mark = format!("{:05x}", hasher.finish() & 0xf_ffff);
    let kept: String = whole.chars().take(LONGEST - MARK - 1).collect();
    format!("{kept}_{mark}")
}

/// FNV-1a: the same on every machine and in every version, unlike the standard
/// library's; a name is in stored conversations.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
