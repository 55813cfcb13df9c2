//! Paths of the sandbox as the editor knows them, and the other way round.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

/// Where a sandbox has the directory that is mounted in it.
const WORKSPACE: &str = "/workspace";

/// What of the editor's machine the sandbox of a session sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharedFiles {
    /// This directory, as its workspace.
    Mounted(PathBuf),
    /// A copy of this directory, as its workspace, wherever another machine has that: relative paths
    /// mean the same on both sides.
    Copied(PathBuf),
    /// Everything, at the same paths: commands run on the machine itself, and begin here.
    All(PathBuf),
    /// Nothing.
    None,
}

impl SharedFiles {
    /// Returns the editor's path of a file that the model names; none if the editor has no such file.
    pub(crate) fn in_editor(&self, path: &str) -> Option<PathBuf> {
        let path = Path::new(path);
        // What leads up and what is a shell's word is not resolved here.
        let is_plain = |part: Component<'_>| !matches!(part, Component::ParentDir);
        if path.as_os_str().is_empty() || path.starts_with("~") || !path.components().all(is_plain)
        {
            return None;
        }
        match self {
            Self::All(start) => Some(start.join(path)),
            Self::Mounted(dir) | Self::Copied(dir) if path.is_relative() => Some(dir.join(path)),
            Self::None | Self::Copied(_) => None,
            Self::Mounted(dir) => {
                let inside = path.strip_prefix(WORKSPACE).ok()?;
                // Joining nothing would add a slash.
                Some(if inside.as_os_str().is_empty() { dir.clone() } else { dir.join(inside) })
            }
        }
    }

    /// Returns a path to show for a file that the model names, wherever it is.
    pub(crate) fn shown(&self, path: &str) -> PathBuf {
        let whole = || match self {
            Self::Copied(_) => PathBuf::from(path),
            Self::Mounted(_) | Self::All(_) | Self::None => Path::new(WORKSPACE).join(path),
        };
        self.in_editor(path).unwrap_or_else(whole)
    }

    /// Returns what the model is to call a file or address that the editor names.
    pub(crate) fn in_sandbox(&self, uri: &str) -> String {
        let Some(path) = uri.strip_prefix("file://") else { return uri.to_owned() };
        let (path, _) = path.split_once('#').unwrap_or((path, ""));
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        match self {
            Self::Mounted(dir) => match Path::new(&path).strip_prefix(dir) {
                Ok(inside) => Path::new(WORKSPACE).join(inside).display().to_string(),
                Err(_) => path,
            },
            Self::Copied(dir) => match Path::new(&path).strip_prefix(dir) {
                Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
                Ok(inside) => inside.display().to_string(),
                Err(_) => path,
            },
            Self::All(_) | Self::None => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_mounted_directory_has_a_path_on_either_side() {
        let shared = SharedFiles::Mounted("/home/ada/site".into());
        let editor = |path: &str| shared.in_editor(path).map(|path| path.display().to_string());
        for (path, expected) in [
            ("/workspace/src/a.rs", Some("/home/ada/site/src/a.rs")),
            ("src/a.rs", Some("/home/ada/site/src/a.rs")),
            ("/workspace", Some("/home/ada/site")),
            ("/workspaces/a", None),
            ("/etc/passwd", None),
            ("/workspace/../etc", None),
            ("../x", None),
            ("~/x", None),
            ("", None),
        ] {
            assert_eq!(editor(path).as_deref(), expected, "{path}");
        }
        assert_eq!(shared.shown("/etc/passwd"), Path::new("/etc/passwd"));
        for (uri, expected) in [
            ("file:///home/ada/site/a%20b.rs#L3", "/workspace/a b.rs"),
            ("file:///home/ada/other/x", "/home/ada/other/x"),
            ("https://a.example/#x", "https://a.example/#x"),
        ] {
            assert_eq!(shared.in_sandbox(uri), expected);
        }
    }

    #[test]
    fn a_copy_on_another_machine_is_named_by_relative_paths() {
        let copied = SharedFiles::Copied("/home/ada/site".into());
        assert_eq!(copied.in_editor("src/a.rs").unwrap(), Path::new("/home/ada/site/src/a.rs"));
        assert_eq!(copied.in_editor("/srv/there/a.rs"), None);
        assert_eq!(copied.shown("/srv/there/a.rs"), Path::new("/srv/there/a.rs"));
        assert_eq!(copied.in_sandbox("file:///home/ada/site/src/a.rs"), "src/a.rs");
        assert_eq!(copied.in_sandbox("file:///home/ada/site"), ".");
    }

    #[test]
    fn without_isolation_paths_are_the_same_and_without_files_there_are_none() {
        let all = SharedFiles::All("/home/ada/site".into());
        assert_eq!(all.in_editor("a.rs").unwrap(), Path::new("/home/ada/site/a.rs"));
        assert_eq!(all.in_editor("/etc/hosts").unwrap(), Path::new("/etc/hosts"));
        assert_eq!(SharedFiles::None.in_editor("/workspace/a"), None);
        assert_eq!(SharedFiles::None.shown("a"), Path::new("/workspace/a"));
    }
}
