//! Where the Vestal home would be seen in a sandbox.

use std::path::{Path, PathBuf};

/// What has to be done about a directory of ours below one that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    /// Directories between the mounted one and ours, outermost first: where they
    /// are on the host and in the sandbox. Mounted over themselves they cannot be
    /// renamed: whoever could, could put another home in the place of ours.
    pub(crate) fixed: Vec<(PathBuf, PathBuf)>,
    /// Where ours would be seen.
    pub(crate) target: PathBuf,
}

/// Returns what has to be covered when a directory is mounted, by its real name,
/// at a place.
pub(crate) fn covers(hidden: &[PathBuf], source: &Path, target: &Path) -> Vec<Cover> {
    let mut found: Vec<&Path> = hidden
        .iter()
        .filter(|dir| dir.starts_with(source) && *dir != source && dir.is_dir())
        .map(PathBuf::as_path)
        .collect();
    found.sort_unstable();
    // What is below another one is covered with it.
    found.dedup_by(|later, earlier| later.starts_with(*earlier));
    let cover = |dir: &Path| {
        let rest = dir.strip_prefix(source).unwrap_or(dir);
        let mut between: Vec<&Path> =
            rest.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
        between.reverse();
        let fixed =
            between.into_iter().map(|part| (source.join(part), target.join(part))).collect();
        Cover { fixed, target: target.join(rest) }
    };
    found.into_iter().map(cover).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_covered_wherever_it_would_be_seen() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let home = root.join("a/b/vestal");
        std::fs::create_dir_all(home.join("sandboxes")).unwrap();
        let hidden = [home.join("sandboxes"), home.clone(), root.join("missing")];
        let at = |source: &Path| covers(&hidden, source, Path::new("/w"));
        assert_eq!(
            at(root),
            [Cover {
                fixed: vec![(root.join("a"), "/w/a".into()), (root.join("a/b"), "/w/a/b".into()),],
                target: "/w/a/b/vestal".into(),
            }]
        );
        assert_eq!(at(&root.join("a/b")), [Cover { fixed: vec![], target: "/w/vestal".into() }]);
        assert_eq!(at(&root.join("a/other")), []);
    }
}
