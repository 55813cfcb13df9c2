use super::*;

fn git(dir: &Path, arguments: &[&str]) {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-C"])
        .arg(dir)
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().canonicalize().unwrap();
    let (repository, tree) = (dir.join("repository"), dir.join("tree"));
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&repository, &["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "wt"]);
    (root, repository, tree)
}

#[test]
fn a_tree_brings_the_directory_it_shares_with_its_repository() {
    let (_root, repository, tree) = tree();
    assert_eq!(common_git_dir(&tree), Some(repository.join(".git")));
    assert_eq!(common_git_dir(&repository), None);
}

#[test]
fn a_tree_cannot_bring_what_is_not_its_own() {
    let (root, repository, tree) = tree();
    let other = root.path().canonicalize().unwrap().join("other");
    fs::create_dir_all(other.join("worktrees/x")).unwrap();
    // A tree that names another repository, or any directory, is not believed.
    for named in [other.clone(), other.join("worktrees/x"), repository.clone()] {
        fs::write(tree.join(".git"), format!("gitdir: {}\n", named.display())).unwrap();
        assert_eq!(common_git_dir(&tree), None, "{}", named.display());
    }
    // Nor is one that a repository's record points away from by a link.
    let own = repository.join(".git/worktrees/tree");
    fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    fs::write(own.join("commondir"), other.to_str().unwrap()).unwrap();
    assert_eq!(common_git_dir(&tree), Some(repository.join(".git")));
    fs::write(own.join("gitdir"), other.join("worktrees/x").to_str().unwrap()).unwrap();
    assert_eq!(common_git_dir(&tree), None);
}
