use proptest::prelude::*;

use super::*;
use crate::tools::files::{Text, unified_diff};

/// Applies the only file of a patch to a text.
fn patched(text: &str, patch: &str) -> Result<String, String> {
    let files = parse(patch).unwrap();
    let [FilePatch { action: Action::Update { hunks, .. }, .. }] = &files[..] else {
        panic!("not one update: {files:?}");
    };
    let changes = apply(text, hunks)?;
    let edited = Text::new(text.as_bytes().to_vec()).edited(&changes).unwrap();
    Ok(String::from_utf8(edited).unwrap())
}

fn hunks(body: &str) -> String {
    format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n")
}

#[test]
fn lines_are_replaced_where_the_kept_ones_are() {
    let done = patched("a\nb\nc\nd\n", &hunks("@@\n b\n-c\n+C\n+CC\n d\n"));
    assert_eq!(done.unwrap(), "a\nb\nC\nCC\nd\n");
}

#[test]
fn several_hunks_go_together_in_any_order() {
    let body = "@@\n c\n-d\n+D\n@@\n-a\n+A\n b\n";
    assert_eq!(patched("a\nb\nc\nd\n", &hunks(body)).unwrap(), "A\nb\nc\nD\n");
}

#[test]
fn a_line_above_tells_places_apart() {
    let text = "class A:\n    x = 1\nclass B:\n    x = 1\n";
    let error = patched(text, &hunks("@@\n-    x = 1\n+    x = 2\n")).unwrap_err();
    assert!(error.contains("2 places, at lines 2, 4"), "{error}");
    let done = patched(text, &hunks("@@ class B:\n-    x = 1\n+    x = 2\n")).unwrap();
    assert_eq!(done, "class A:\n    x = 1\nclass B:\n    x = 2\n");
    // Of several behind it the first is meant.
    let done = patched(text, &hunks("@@ class A:\n-    x = 1\n+    x = 2\n")).unwrap();
    assert_eq!(done, "class A:\n    x = 2\nclass B:\n    x = 1\n");
}

#[test]
fn the_end_of_the_file_tells_places_apart() {
    let done = patched("x\ny\nx\n", &hunks("@@\n-x\n+z\n*** End of File\n")).unwrap();
    assert_eq!(done, "x\ny\nz\n");
}

#[test]
fn numbers_tell_places_apart_even_when_they_are_a_little_off() {
    let text = "x\na\nb\nc\nx\nd\n";
    let done = patched(text, "--- a/f\n+++ b/f\n@@ -4,1 +4,1 @@\n-x\n+y\n").unwrap();
    assert_eq!(done, "x\na\nb\nc\ny\nd\n");
}

#[test]
fn lines_without_any_around_them_go_behind_the_named_line_or_to_the_end() {
    assert_eq!(patched("a\nb\n", &hunks("@@ a\n+x\n")).unwrap(), "a\nx\nb\n");
    assert_eq!(patched("a\nb\n", &hunks("@@\n+x\n")).unwrap(), "a\nb\nx\n");
    assert_eq!(patched("a\nb", &hunks("@@\n+x\n")).unwrap(), "a\nb\nx");
    assert_eq!(patched("", &hunks("@@\n+x\n")).unwrap(), "x\n");
}

#[test]
fn other_indentation_is_forgiven_and_new_lines_follow_the_file() {
    let done = patched("\tif a:\n\t\tb\n", &hunks("@@\n if a:\n-    b\n+    c\n+    d\n"));
    assert_eq!(done.unwrap(), "\tif a:\n\t\tc\n\t\td\n");
}

#[test]
fn lines_that_are_kept_are_not_touched() {
    let done = patched("a  \nb\nc\t\n", &hunks("@@\n a\n-b\n+B\n c\n"));
    assert_eq!(done.unwrap(), "a  \nB\nc\t\n");
}

#[test]
fn what_does_not_fit_is_named() {
    let error = patched("a\nb\n", &hunks("@@\n a\n-x\n+y\n")).unwrap_err();
    assert!(error.contains("change 1 of 1") && error.contains("\"x\""), "{error}");
    let error = patched("a\nb\nc\n", &hunks("@@\n a\n-c\n+y\n")).unwrap_err();
    assert!(error.contains("one behind the other"), "{error}");
    let error = patched("a\n", &hunks("@@ zzz\n-a\n+b\n")).unwrap_err();
    assert!(error.contains("no line \"zzz\""), "{error}");
    let error = patched("a\nb\nb\n", &hunks("@@\n-a\n+b\n@@\n-a\n+c\n")).unwrap_err();
    assert!(error.contains("another one changes too"), "{error}");
}

#[test]
fn the_end_of_the_last_line_is_as_the_diff_says() {
    let none = "\\ No newline at end of file\n";
    let add = format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n{none}+a\n");
    assert_eq!(patched("a", &add).unwrap(), "a\n");
    let take = format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n{none}");
    assert_eq!(patched("a\n", &take).unwrap(), "a");
}

/// Writes the whole of a change down in one hunk.
fn as_one_hunk(old: &[String], new: &[String]) -> String {
    let mut body = String::from("@@\n");
    for op in similar::capture_diff_slices(similar::Algorithm::Myers, old, new) {
        let (olds, news) = (&old[op.old_range()], &new[op.new_range()]);
        let is_kept = op.tag() == similar::DiffTag::Equal;
        let olds = olds.iter().map(|line| (if is_kept { ' ' } else { '-' }, line));
        let news = news.iter().filter(|_| !is_kept).map(|line| ('+', line));
        for (sign, line) in olds.chain(news) {
            body.push(sign);
            body.push_str(line);
            body.push('\n');
        }
    }
    // The last line may be an empty one, which a section's end would swallow.
    body.push_str("*** End of File\n");
    hunks(&body)
}

proptest! {
    #[test]
    fn the_diff_of_two_texts_makes_the_second_of_the_first(
        old in "([ab +@-]{0,3}\n){0,14}[ab]{0,2}", new in "([ab +@-]{0,3}\n){0,14}[ab]{0,2}",
    ) {
        let diff = unified_diff("a/f", "b/f", &old, &new);
        prop_assume!(!diff.is_empty());
        prop_assert_eq!(patched(&old, &diff).unwrap(), new, "{}", diff);
    }

    #[test]
    fn a_patch_made_of_two_texts_makes_the_second_of_the_first(
        old in prop::collection::vec("[ab+@ -]{0,3}[a-z]", 1..12), new in prop::collection::vec("[ab+@ -]{0,3}[a-z]", 0..12),
    ) {
        prop_assume!(old != new);
        let text = |lines: &[String]| if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
        let patch = as_one_hunk(&old, &new);
        prop_assert_eq!(patched(&text(&old), &patch).unwrap(), text(&new), "{}", patch);
    }
}
