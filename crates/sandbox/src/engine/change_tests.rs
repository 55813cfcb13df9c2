use super::*;

/// Returns what the trees of a sandbox are, by what is in them.
fn trees(dir: &Path) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = ["workspace", "home"]
        .iter()
        .filter(|name| is_dir(&dir.join(name)))
        .map(|name| {
            let text = fs::read_to_string(dir.join(name).join("file")).unwrap();
            ((*name).to_owned(), text)
        })
        .collect();
    found.sort();
    found
}

fn make(path: &Path, text: &str) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("file"), text).unwrap();
}

/// The renames of a switch, as far as a process that dies gets with them.
fn switch_until(dir: &Path, names: &[&str], steps: usize) {
    let moves = names.iter().flat_map(|name| {
        [(dir.join(name), beside(dir, OLD, name)), (beside(dir, NEW, name), dir.join(name))]
    });
    for (from, to) in moves.take(steps) {
        rename(&from, &to).unwrap();
    }
}

#[test]
fn a_switch_that_was_cut_off_anywhere_is_undone() {
    let names = ["workspace", "home"];
    for steps in 0..=4 {
        // Home is new: there was none before.
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        make(&dir.join("workspace"), "old");
        make(&beside(dir, NEW, "workspace"), "new");
        make(&beside(dir, NEW, "home"), "new");
        switch_until(dir, &names, steps);
        let was_there = [true, false];
        for _again in 0..2 {
            for (name, was_there) in names.iter().zip(was_there) {
                let tree = ReplacedTree { name: (*name).to_owned(), was_there, stays_as: None };
                undo_switch(dir, &tree).unwrap();
            }
            let expected = vec![("workspace".to_owned(), "old".to_owned())];
            assert_eq!(trees(dir), expected, "after {steps} steps");
        }
    }
}

#[test]
fn a_tree_that_is_kept_takes_the_place_of_the_one_kept_before_wherever_that_was_cut_off() {
    for steps in 0..=2 {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        make(&dir.join("home"), "new");
        make(&beside(dir, OLD, "home"), "old");
        make(&dir.join("kept"), "older");
        let moves = [
            (dir.join("kept"), beside(dir, FORMER, "kept")),
            (beside(dir, OLD, "home"), dir.join("kept")),
        ];
        for (from, to) in moves.iter().take(steps) {
            rename(from, to).unwrap();
        }
        let stays_as = Some("kept".to_owned());
        let tree = ReplacedTree { name: "home".to_owned(), was_there: true, stays_as };
        keep_replaced(dir, &tree).unwrap();
        let text = |path: PathBuf| fs::read_to_string(path.join("file")).unwrap();
        assert_eq!((text(dir.join("home")), text(dir.join("kept"))), ("new".into(), "old".into()));
        assert_eq!(all_beside(dir).unwrap(), [beside(dir, FORMER, "kept")], "after {steps} steps");
    }
}
