//! How much of anything is too much.

/// Bytes of a `SKILL.md`.
pub(crate) const MAX_INSTRUCTIONS: u64 = 256 << 10;

/// Bytes of its front matter.
pub(crate) const MAX_FRONT_MATTER: usize = 32 << 10;

/// Characters of a description.
pub(crate) const MAX_DESCRIPTION: usize = 1024;

/// Characters of other words in the front matter.
pub(crate) const MAX_WORDS: usize = 1024;

/// Tags, and variables that are asked for.
pub(crate) const MAX_LIST: usize = 64;

/// Skills that are looked at.
pub(crate) const MAX_SKILLS: usize = 1000;

/// Files of a skill, as many as a sandbox can be shown.
pub(crate) const MAX_FILES: usize = 2000;

/// Bytes of all files of a skill, as many as a sandbox can be shown.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// Bytes of one file that the agent looks at or writes.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// How deep the files of a skill may be nested.
pub(crate) const MAX_DEPTH: usize = 16;
