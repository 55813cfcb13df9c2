//! What of a profile may travel: a list of what goes, never of what stays.

/// Files of the top level that travel.
pub(super) const FILES: &[&str] = &[super::description::FILE, "config.yaml", "SOUL.md"];
/// Directories that travel, with the files in them.
pub(super) const TREES: &[&str] = &["skills", "memories"];

/// Files and directories in one archive.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// Bytes of one file.
pub(super) const MAX_FILE: u64 = 32 << 20;
/// Bytes of all files.
pub(super) const MAX_TOTAL: u64 = 128 << 20;

/// Where something in an archive belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A file of the top level.
    File,
    /// A directory that travels, or something in it.
    Tree,
}

/// Returns where a path below the archive's root belongs; none when it does not travel.
pub(super) fn place(path: &[&str]) -> Option<Place> {
    match path {
        [file] if FILES.contains(file) => Some(Place::File),
        [tree, rest @ ..] if TREES.contains(tree) => {
            (!rest.iter().any(|name| holds_secrets(name))).then_some(Place::Tree)
        }
        _ => None,
    }
}

/// Endings of files that hold keys.
const ENDINGS: &[&str] = &[
    ".env",
    ".key",
    ".pem",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".gpg",
    ".asc",
    ".netrc",
];
/// Names, without what follows a dot, of files and directories that hold keys.
const NAMES: &[&str] = &[
    "auth",
    "credential",
    "credentials",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
    "mcp-tokens",
    "oauth",
    "secret",
    "secrets",
    "token",
    "tokens",
];

/// Reports whether something by its name holds keys, or is hidden as what holds them often is.
pub(super) fn holds_secrets(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let stem = lower.split('.').next().unwrap_or_default();
    lower.starts_with('.')
        || ENDINGS
            .iter()
            .any(|ending| lower.ends_with(ending) || lower.contains(&format!("{ending}.")))
        || NAMES.contains(&stem)
}
