use super::*;

mod apply {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::files::{FileText, unified_diff};

    /// Applies the only file of a patch to a text.
    fn patched(text: &str, patch: &str) -> Result<String, String> {
        let files = parse(patch).unwrap();
        let [FilePatch { action: FileAction::Update { hunks, .. }, .. }] = &files[..] else {
            panic!("not one update: {files:?}");
        };
        let changes = apply(text, hunks)?;
        let edited = FileText::new(text.as_bytes().to_vec()).edited(&changes).unwrap();
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
        fn pieces(lines: &[String]) -> Vec<&str> {
            lines.iter().map(String::as_str).collect()
        }
        let mut body = String::from("@@\n");
        for op in vestal_diff::diff(&pieces(old), &pieces(new), None) {
            let (olds, news) = (&old[op.old_range()], &new[op.new_range()]);
            let is_kept = matches!(op, vestal_diff::DiffOp::Equal { .. });
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
}

mod parse {
    use proptest::prelude::*;

    use super::*;

    fn update(path: &str, hunks: Vec<Hunk>) -> FilePatch {
        FilePatch { path: path.to_owned(), action: FileAction::Update { move_to: None, hunks } }
    }

    fn kept(text: &str) -> HunkLine {
        HunkLine::Kept(text.to_owned())
    }

    fn removed(text: &str) -> HunkLine {
        HunkLine::Removed(text.to_owned())
    }

    fn added(text: &str) -> HunkLine {
        HunkLine::Added(text.to_owned())
    }

    #[test]
    fn all_kinds_of_sections_are_read() {
        let patch = "\
*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ class A:
@@   def f(self):
 one
-two
+zwei
*** End of File
*** Add File: new.txt
+first
+
+third
*** Delete File: old.txt
*** End Patch
";
        let hunk = Hunk {
            anchors: vec!["class A:".to_owned(), "  def f(self):".to_owned()],
            lines: vec![kept("one"), removed("two"), added("zwei")],
            at_end: true,
            ..Hunk::default()
        };
        let expected = vec![
            FilePatch {
                path: "src/a.py".to_owned(),
                action: FileAction::Update {
                    move_to: Some("src/b.py".to_owned()),
                    hunks: vec![hunk],
                },
            },
            FilePatch {
                path: "new.txt".to_owned(),
                action: FileAction::Add("first\n\nthird\n".to_owned()),
            },
            FilePatch { path: "old.txt".to_owned(), action: FileAction::Delete },
        ];
        assert_eq!(parse(patch).unwrap(), expected);
    }

    #[test]
    fn slips_of_models_are_forgiven() {
        let hunk = Hunk { lines: vec![removed("a"), kept(""), added("b")], ..Hunk::default() };
        let expected = vec![update("f", vec![hunk])];
        for patch in [
            // No frame, and no blank behind the colon.
            "*** Update File:f\n-a\n\n+b\n",
            // A fence around it, an empty line before the end.
            "```\n*** Begin Patch\n*** Update File: f\n@@\n-a\n\n+b\n\n*** End Patch\n```\n",
            // Lines that end as on Windows.
            "*** Begin Patch\r\n*** Update File: f\r\n@@ @@\r\n-a\r\n\r\n+b\r\n*** End Patch\r\n",
        ] {
            assert_eq!(parse(patch).unwrap(), expected, "{patch:?}");
        }
    }

    #[test]
    fn numbers_of_a_diff_are_taken_for_a_place() {
        let patch = "*** Update File: f\n@@ -3,2 +3,1 @@ fn x()\n-a\n b\n";
        let hunk =
            Hunk { old_start: Some(3), lines: vec![removed("a"), kept("b")], ..Hunk::default() };
        assert_eq!(parse(patch).unwrap(), vec![update("f", vec![hunk])]);
    }

    #[test]
    fn a_unified_diff_is_read_too() {
        let patch = "\
diff --git a/x.txt b/x.txt
index 1..2 100644
--- a/x.txt
+++ b/x.txt
@@ -1,3 +1,3 @@
 one
--- two
+++ zwei
 three
@@ -9 +9,2 @@ somewhere
-nine
\\ No newline at end of file
+neun
+zehn
diff --git a/n b/n
new file mode 100644
--- /dev/null
+++ b/n
@@ -0,0 +1,2 @@
+a
+b
\\ No newline at end of file
diff --git a/d b/d
--- a/d
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/from b/to
similarity index 100%
rename from from
rename to to
";
        let hunks = vec![
            Hunk {
                old_start: Some(1),
                lines: vec![kept("one"), removed("-- two"), added("++ zwei"), kept("three")],
                ..Hunk::default()
            },
            Hunk {
                old_start: Some(9),
                lines: vec![removed("nine"), added("neun"), added("zehn")],
                old_unended: true,
                ..Hunk::default()
            },
        ];
        let expected = vec![
            update("x.txt", hunks),
            FilePatch { path: "n".to_owned(), action: FileAction::Add("a\nb".to_owned()) },
            FilePatch { path: "d".to_owned(), action: FileAction::Delete },
            FilePatch {
                path: "from".to_owned(),
                action: FileAction::Update { move_to: Some("to".to_owned()), hunks: vec![] },
            },
        ];
        assert_eq!(parse(patch).unwrap(), expected);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (patch, line, word) in [
            ("", 1, "no file"),
            ("*** Begin Patch\n*** End Patch\n", 2, "no file"),
            ("*** Begin Patch\n*** Update File: f\n*** End Patch\n", 2, "nothing is changed"),
            ("*** Update File: f\n@@\nplain\n", 3, "starts with a space"),
            ("*** Add File: f\nplain\n", 2, "starts with `+`"),
            ("*** Update File:\n-a\n", 1, "no name"),
            ("*** Begin Patch\n*** Rename File: f\n", 2, "expected"),
            ("--- a\n@@ -1 +1 @@\n-a\n+b\n", 1, "+++ file"),
        ] {
            let error = parse(patch).unwrap_err();
            assert_eq!(error.line, line, "{patch:?}: {error}");
            assert!(error.problem.contains(word), "{patch:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_read_but_never_panics(patch in any::<String>(), text in any::<String>()) {
            if let Ok(files) = parse(&patch) {
                for file in files {
                    if let FileAction::Update { hunks, .. } = file.action {
                        let _outcome = apply(&text, &hunks);
                    }
                }
            }
        }

        #[test]
        fn what_looks_like_a_patch_never_panics(
            lines in prop::collection::vec(prop_oneof![
                Just("*** Begin Patch".to_owned()), Just("*** End Patch".to_owned()), Just("*** Update File: f".to_owned()),
                Just("*** Add File: g".to_owned()), Just("*** Delete File: h".to_owned()), Just("*** Move to: i".to_owned()),
                Just("*** End of File".to_owned()), Just("@@".to_owned()), Just("@@ a".to_owned()), Just("--- a/f".to_owned()),
                Just("+++ b/f".to_owned()), Just("\\ No newline at end of file".to_owned()), Just(String::new()),
                "@@ -[0-9]{1,20},[0-9]{1,3} \\+[0-9],[0-9] @@", "[ +-][ab]{0,2}",
            ], 0..14),
            text in "([ab]{0,2}\n){0,6}[ab]{0,1}",
        ) {
            if let Ok(files) = parse(&lines.join("\n")) {
                for file in files {
                    if let FileAction::Update { hunks, .. } = file.action
                        && let Ok(changes) = apply(&text, &hunks)
                    {
                        let _edited = crate::tools::files::FileText::new(text.clone().into_bytes()).edited(&changes);
                    }
                }
            }
        }
    }
}
