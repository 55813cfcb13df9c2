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
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// Returns the name of a server's tool. The same tools in the same order
    /// get the same names.
    pub(crate) fn give(&mut self, server: &str, tool: &str) -> String {
        let (server_word, tool_word) = (word(server), word(tool));
        let whole = format!("mcp_{server_word}_{tool_word}");
        let name =
            if whole.len() <= LONGEST { whole.clone() } else { marked(&whole, server, tool, 0) };
        if self.0.insert(name.clone()) {
            return name;
        }
        let mut round = 0;
        loop {
            let name = marked(&whole, server, tool, round);
            if self.0.insert(name.clone()) {
                return name;
            }
            round += 1;
        }
    }
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
