use proptest::prelude::*;

use super::*;

fn update(path: &str, hunks: Vec<Hunk>) -> FilePatch {
    FilePatch { path: path.to_owned(), action: Action::Update { move_to: None, hunks } }
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
            action: Action::Update { move_to: Some("src/b.py".to_owned()), hunks: vec![hunk] },
        },
        FilePatch {
            path: "new.txt".to_owned(),
            action: Action::Add("first\n\nthird\n".to_owned()),
        },
        FilePatch { path: "old.txt".to_owned(), action: Action::Delete },
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
    let hunk = Hunk { old_start: Some(3), lines: vec![removed("a"), kept("b")], ..Hunk::default() };
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
        FilePatch { path: "n".to_owned(), action: Action::Add("a\nb".to_owned()) },
        FilePatch { path: "d".to_owned(), action: Action::Delete },
        FilePatch {
            path: "from".to_owned(),
            action: Action::Update { move_to: Some("to".to_owned()), hunks: vec![] },
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
                if let Action::Update { hunks, .. } = file.action {
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
                if let Action::Update { hunks, .. } = file.action
                    && let Ok(changes) = apply(&text, &hunks)
                {
                    let _edited = crate::tools::files::Text::new(text.clone().into_bytes()).edited(&changes);
                }
            }
        }
    }
}
