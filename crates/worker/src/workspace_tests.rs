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
    assert_eq!(common_git_dir(&tree), Some(repository.join(".git")));
    fs::write(own.join("commondir"), other.to_str().unwrap()).unwrap();
    assert_eq!(common_git_dir(&tree), None);
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(own.join("gitdir"), other.join("worktrees/x").to_str().unwrap()).unwrap();
    assert_eq!(common_git_dir(&tree), None);
}

#[test]
fn a_directory_called_worktrees_opens_nothing_above_it() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().canonicalize().unwrap();
    // A tree that says it is the record of itself, and one whose record another tree holds.
    let (tree, other) = (home.join("worktrees/tree"), home.join("worktrees/other"));
    for (own, record) in [(&tree, &tree), (&tree, &other)] {
        fs::create_dir_all(own).unwrap();
        fs::create_dir_all(record).unwrap();
        fs::write(own.join(".git"), format!("gitdir: {}\n", record.display())).unwrap();
        fs::write(record.join("gitdir"), own.join(".git").to_str().unwrap()).unwrap();
        fs::write(record.join("commondir"), "../..\n").unwrap();
        assert_eq!(common_git_dir(own), None, "{}", record.display());
    }
}

#[test]
fn what_stands_in_for_the_link_of_a_tree_makes_nobody_wait() {
    let (_root, _repository, tree) = tree();
    let link = tree.join(".git");
    fs::remove_file(&link).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &link, kind, mode, 0).unwrap();
    // Opening it to read waits for a writer, unless it is opened without blocking.
    let (reported, waits) = std::sync::mpsc::channel();
    let at = tree.clone();
    std::thread::spawn(move || reported.send(common_git_dir(&at)));
    assert_eq!(waits.recv_timeout(std::time::Duration::from_secs(30)), Ok(None));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    assert_eq!(common_git_dir(&tree), None);
}
