use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use proptest::prelude::*;
use tempfile::TempDir;
use vestal_agent::redact::Redactor;

use super::*;
use crate::entries::Entries;

const KEY: &str = "hunter2-and-a-long-tail-0123456789";

fn place() -> (TempDir, NoteFiles) {
    let dir = tempfile::tempdir().unwrap();
    let limits = NoteLimits { memory: 100, user: 50 };
    let redactor = Arc::new(Redactor::new([KEY.to_owned()]));
    let files = NoteFiles::of_home(&dir.path().join("home"), limits, redactor);
    (dir, files)
}

fn add(files: &NoteFiles, entry: &str) -> Result<Vec<String>, MemoryError> {
    files.change(NotesTarget::Memory, NoteChange::Add { entry }).map(|entries| listed(&entries))
}

fn replace(files: &NoteFiles, old: &str, entry: &str) -> Result<Vec<String>, MemoryError> {
    files
        .change(NotesTarget::Memory, NoteChange::Replace { old, entry })
        .map(|entries| listed(&entries))
}

fn remove(files: &NoteFiles, old: &str) -> Result<Vec<String>, MemoryError> {
    files.change(NotesTarget::Memory, NoteChange::Remove { old }).map(|entries| listed(&entries))
}

fn listed(entries: &Entries) -> Vec<String> {
    entries.iter().map(str::to_owned).collect()
}

fn refusal(result: Result<Vec<String>, MemoryError>) -> MemoryRefusal {
    match result {
        Err(MemoryError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn put(files: &NoteFiles, bytes: &[u8]) {
    fs::create_dir_all(files.dir()).unwrap();
    fs::write(files.path(NotesTarget::Memory), bytes).unwrap();
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn notes_are_added_replaced_and_removed_in_a_file_for_their_owner_alone() {
    let (_dir, files) = place();
    assert_eq!(listed(&files.read(NotesTarget::Memory).unwrap()), [""; 0]);
    assert_eq!(add(&files, "  the build needs make \n").unwrap(), ["the build needs make"]);
    add(&files, "tea is at four\nnot at five").unwrap();
    let file = files.path(NotesTarget::Memory);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "the build needs make\n§\ntea is at four\nnot at five\n");
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(files.dir()), 0o700);
    let names: Vec<_> =
        fs::read_dir(files.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["MEMORY.md"]);
    let left = replace(&files, "build", "the build needs ninja").unwrap();
    assert_eq!(left, ["the build needs ninja", "tea is at four\nnot at five"]);
    assert_eq!(remove(&files, "at four").unwrap(), ["the build needs ninja"]);
    assert_eq!(remove(&files, "ninja").unwrap(), [""; 0]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}

#[test]
fn the_two_files_are_apart() {
    let (_dir, files) = place();
    add(&files, "mine").unwrap();
    let theirs = files.change(NotesTarget::User, NoteChange::Add { entry: "mine" }).unwrap();
    assert_eq!(listed(&theirs), ["mine"]);
    files.change(NotesTarget::User, NoteChange::Clear).unwrap();
    assert_eq!(listed(&files.read(NotesTarget::Memory).unwrap()), ["mine"]);
}

#[test]
fn what_is_not_clear_is_refused_and_changes_nothing() {
    let (_dir, files) = place();
    add(&files, "red apples").unwrap();
    add(&files, "green apples").unwrap();
    add(&files, "apples").unwrap();
    let before = fs::read(files.path(NotesTarget::Memory)).unwrap();
    assert_eq!(refusal(add(&files, " \u{200b}\n")), MemoryRefusal::Empty);
    assert_eq!(refusal(add(&files, "red apples ")), MemoryRefusal::Duplicate);
    assert_eq!(refusal(add(&files, "one\n § \ntwo")), MemoryRefusal::Separator);
    assert_eq!(refusal(add(&files, "one\n§\u{200b}\ntwo")), MemoryRefusal::Separator);
    assert_eq!(refusal(replace(&files, "red", "green apples")), MemoryRefusal::Duplicate);
    assert_eq!(refusal(replace(&files, "red", "")), MemoryRefusal::Empty);
    assert_eq!(refusal(remove(&files, "")), MemoryRefusal::NoneMeant);
    assert!(matches!(refusal(remove(&files, "pears")), MemoryRefusal::NotFound { .. }));
    let MemoryRefusal::Ambiguous { candidates, .. } = refusal(remove(&files, "apple")) else {
        panic!()
    };
    assert_eq!(candidates, ["red apples", "green apples", "apples"]);
    assert_eq!(fs::read(files.path(NotesTarget::Memory)).unwrap(), before);
    // Whole words of a note mean that note.
    assert_eq!(remove(&files, "apples").unwrap(), ["red apples", "green apples"]);
    // The same note may stay when it is replaced by itself.
    replace(&files, "red", "red apples").unwrap();
}

#[test]
fn a_full_file_refuses_with_the_numbers_and_can_be_made_shorter() {
    let (_dir, files) = place();
    add(&files, &"é".repeat(90)).unwrap();
    let full =
        MemoryRefusal::Full { target: NotesTarget::Memory, used: 90, wanted: 101, limit: 100 };
    assert_eq!(refusal(add(&files, "12345678")), full);
    assert_eq!(add(&files, "1234567").unwrap().len(), 2);
    let full =
        MemoryRefusal::Full { target: NotesTarget::Memory, used: 100, wanted: 101, limit: 100 };
    assert_eq!(refusal(replace(&files, "1234567", "12345678")), full);
    // A person may have written more than fits.
    put(&files, format!("{}\n§\nlast", "x".repeat(500)).as_bytes());
    assert!(matches!(refusal(add(&files, "more")), MemoryRefusal::Full { used: 507, .. }));
    assert_eq!(replace(&files, "xxx", &"y".repeat(300)).unwrap()[1], "last");
    assert_eq!(remove(&files, "yyy").unwrap(), ["last"]);
}

#[test]
fn what_a_person_writes_into_the_file_is_what_counts() {
    let (_dir, files) = place();
    add(&files, "old").unwrap();
    put(&files, "\u{feff}by hand\r\n§\r\nand\tmore".as_bytes());
    assert_eq!(add(&files, "new").unwrap(), ["by hand", "and\tmore", "new"]);
    assert_eq!(remove(&files, "and more").unwrap(), ["by hand", "new"]);
    fs::remove_file(files.path(NotesTarget::Memory)).unwrap();
    assert_eq!(add(&files, "again").unwrap(), ["again"]);
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_never_overwritten() {
    fn problem(files: &NoteFiles) -> MemoryFileProblem {
        let ReadError { problem, .. } = files.read(NotesTarget::Memory).unwrap_err();
        for change in [NoteChange::Add { entry: "x" }, NoteChange::Clear] {
            let error = files.change(NotesTarget::Memory, change).unwrap_err();
            assert!(matches!(error, MemoryError::Read(_)), "{error:?}");
        }
        problem
    }
    let (_dir, files) = place();
    put(&files, b"fine\nnot \xff fine");
    assert!(matches!(problem(&files), MemoryFileProblem::NotUtf8 { line: 2 }));
    let path = files.path(NotesTarget::Memory);
    assert_eq!(fs::read(&path).unwrap(), b"fine\nnot \xff fine");

    let large = vec![b'x'; (1 << 20) + 1];
    put(&files, &large);
    assert!(matches!(problem(&files), MemoryFileProblem::TooLarge { .. }));
    assert_eq!(fs::metadata(&path).unwrap().len(), large.len() as u64);

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(problem(&files), MemoryFileProblem::NotAFile));
    assert!(path.is_dir());

    fs::remove_dir(&path).unwrap();
    symlink("nowhere", &path).unwrap();
    assert!(matches!(problem(&files), MemoryFileProblem::Dangling(to) if to.ends_with("nowhere")));
    assert!(path.is_symlink());

    fs::remove_file(&path).unwrap();
    symlink("MEMORY.md", &path).unwrap();
    assert!(matches!(problem(&files), MemoryFileProblem::Io(_)));

    // A pipe without a writer would be waited for for ever.
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(matches!(problem(&files), MemoryFileProblem::NotAFile));

    fs::remove_dir_all(files.dir()).unwrap();
    fs::write(files.dir(), "a file in place of the directory").unwrap();
    assert!(matches!(problem(&files), MemoryFileProblem::Io(_)));
}

#[test]
fn notes_on_a_disk_that_is_missing_are_not_taken_for_none() {
    let (dir, files) = place();
    fs::create_dir_all(dir.path().join("home")).unwrap();
    symlink("disk/notes", files.dir()).unwrap();
    let missing = |result: Result<Entries, ReadError>| matches!(result, Err(ReadError { problem: MemoryFileProblem::Dangling(to), .. }) if to.ends_with("notes"));
    assert!(missing(files.read(NotesTarget::Memory)));
    let refused = add(&files, "x");
    assert!(matches!(refused, Err(MemoryError::Read(_))), "{refused:?}");
    fs::create_dir_all(dir.path().join("home/disk/notes")).unwrap();
    assert_eq!(add(&files, "x").unwrap(), ["x"]);
    assert!(files.dir().is_symlink());
}

#[test]
fn what_an_editor_saves_in_the_middle_of_a_change_stays() {
    let (_dir, files) = place();
    put(&files, b"as it was read");
    put(&files, b"as it was saved");
    let written = files.write(NotesTarget::Memory, "as it was read", "as it was read, and more");
    assert_eq!(written.unwrap(), WriteResult::Overtaken);
    assert_eq!(fs::read(files.path(NotesTarget::Memory)).unwrap(), b"as it was saved");
    assert_eq!(fs::read_dir(files.dir()).unwrap().count(), 1);
}

#[test]
fn a_write_protected_file_is_left_alone() {
    let (_dir, files) = place();
    add(&files, "one").unwrap();
    let path = files.path(NotesTarget::Memory);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    let refused = add(&files, "two").unwrap_err();
    assert!(refused.to_string().contains("write-protected"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    assert_eq!(fs::read_dir(files.dir()).unwrap().count(), 1);
}

#[test]
fn a_link_to_a_file_stays_a_link() {
    let (dir, files) = place();
    fs::create_dir_all(files.dir()).unwrap();
    let kept = dir.path().join("kept.md");
    fs::write(&kept, "one").unwrap();
    symlink(&kept, files.path(NotesTarget::Memory)).unwrap();
    assert_eq!(add(&files, "two").unwrap(), ["one", "two"]);
    assert!(files.path(NotesTarget::Memory).is_symlink());
    assert_eq!(fs::read_to_string(&kept).unwrap(), "one\n§\ntwo\n");
}

#[test]
fn secrets_are_never_written() {
    let (_dir, files) = place();
    let note = format!("the key is {KEY}");
    assert!(files.has_secret(&note) && !files.has_secret("the key is under the mat"));
    add(&files, &note).unwrap();
    let text = fs::read_to_string(files.path(NotesTarget::Memory)).unwrap();
    assert!(!text.contains(KEY) && text.contains("redacted"), "{text}");
    let change = NoteChange::Rewrite { from: &text, text: &note };
    files.change(NotesTarget::Memory, change).unwrap();
    let text = fs::read_to_string(files.path(NotesTarget::Memory)).unwrap();
    assert!(!text.contains(KEY), "{text}");
    // One that a person wrote there is kept from the model.
    put(&files, note.as_bytes());
    let shown = files.shown(&files.read(NotesTarget::Memory).unwrap());
    assert!(!shown[0].contains(KEY), "{shown:?}");
}

#[test]
fn an_edited_text_takes_the_place_of_the_one_it_was_made_from_alone() {
    let (_dir, files) = place();
    add(&files, "one").unwrap();
    let from = files.read_text(NotesTarget::Memory).unwrap();
    add(&files, "two").unwrap();
    let late = files.change(NotesTarget::Memory, NoteChange::Rewrite { from: &from, text: "mine" });
    assert_eq!(
        refusal(late.map(|entries| listed(&entries))),
        MemoryRefusal::Changed { target: NotesTarget::Memory }
    );
    let from = files.read_text(NotesTarget::Memory).unwrap();
    let text = "two\n§\u{200b}\n\u{1b}[31mthree\n§\n\n";
    let edited =
        files.change(NotesTarget::Memory, NoteChange::Rewrite { from: &from, text }).unwrap();
    assert_eq!(listed(&edited), ["two", "[31mthree"]);
}

#[test]
fn a_change_that_was_cut_short_leaves_the_file_whole_and_the_next_one_tidies_up() {
    let (_dir, files) = place();
    add(&files, "one").unwrap();
    fs::write(files.dir().join(".MEMORY.md.new"), "half a no").unwrap();
    assert_eq!(add(&files, "two").unwrap(), ["one", "two"]);
    assert_eq!(fs::read_dir(files.dir()).unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_text_breaks_the_file(texts in proptest::collection::vec("\\PC{0,30}|[§\n\r\t \u{0}\u{1b}\u{200b}a]{0,12}", 1..8)) {
        let (_dir, files) = place();
        let mut kept: Vec<String> = Vec::new();
        for text in &texts {
            match add(&files, text) {
                Ok(entries) => {
                    prop_assert_eq!(&entries[..kept.len()], &kept[..]);
                    prop_assert_eq!(entries.len(), kept.len() + 1);
                    kept = entries;
                }
                Err(MemoryError::Refused(_)) => {}
                Err(other) => panic!("{other}"),
            }
            prop_assert_eq!(listed(&files.read(NotesTarget::Memory).unwrap()), kept.clone());
        }
        for text in &texts {
            match remove(&files, text) {
                Ok(entries) => prop_assert_eq!(entries.len() + 1, kept.len()),
                Err(MemoryError::Refused(_)) => continue,
                Err(other) => panic!("{other}"),
            }
            kept = listed(&files.read(NotesTarget::Memory).unwrap());
        }
    }
}

#[test]
fn a_lock_held_too_long_is_not_waited_for_and_a_death_frees_it() {
    let (_dir, files) = place();
    let held = NotesLock::take(&files.lock, LOCK_TIMEOUT).unwrap();
    let short = std::time::Duration::from_millis(30);
    let refused = NotesLock::take(&files.lock, short);
    assert!(matches!(refused, Err(MemoryError::Busy { waited, .. }) if waited == short));
    drop(held);
    add(&files, "free again").unwrap();
}

#[test]
fn many_who_change_notes_at_once_lose_nothing() {
    const WRITERS: usize = 20;
    const EACH: usize = 10;
    let dir = tempfile::tempdir().unwrap();
    let limits = NoteLimits { memory: 100_000, user: 50 };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let home = dir.path();
            scope.spawn(move || {
                for n in 0..EACH {
                    // Files of its own, as another process has them.
                    let files = NoteFiles::of_home(home, limits, Arc::default());
                    add(&files, &format!("writer {writer} says {n}.")).unwrap();
                    if n % 2 == 1 {
                        remove(&files, &format!("writer {writer} says {}.", n - 1)).unwrap();
                    }
                }
            });
        }
    });
    let files = NoteFiles::of_home(dir.path(), limits, Arc::default());
    let mut left = listed(&files.read(NotesTarget::Memory).unwrap());
    left.sort();
    let odd = |writer| (0..EACH).filter(|n| n % 2 == 1).map(move |n| (writer, n));
    let mut expected: Vec<String> = (0..WRITERS)
        .flat_map(odd)
        .map(|(writer, n)| format!("writer {writer} says {n}."))
        .collect();
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn profiles_that_share_a_file_by_a_link_lose_nothing() {
    const EACH: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared.md");
    fs::write(&shared, "").unwrap();
    let limits = NoteLimits { memory: 100_000, user: 50 };
    std::thread::scope(|scope| {
        for profile in 0..4 {
            let files =
                NoteFiles::of_home(&dir.path().join(profile.to_string()), limits, Arc::default());
            fs::create_dir_all(files.dir()).unwrap();
            symlink(&shared, files.path(NotesTarget::Memory)).unwrap();
            scope.spawn(move || {
                for n in 0..EACH {
                    add(&files, &format!("profile {profile} says {n}.")).unwrap();
                }
            });
        }
    });
    let kept = Entries::parse(&fs::read_to_string(&shared).unwrap());
    assert_eq!(kept.len(), 4 * EACH);
}
