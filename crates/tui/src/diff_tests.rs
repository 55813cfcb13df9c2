use proptest::collection::vec;
use proptest::prelude::*;

use super::{between, render};
use crate::style;
use crate::text::Line;

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

/// Returns the words of a line that are marked as changed.
fn marked(line: &Line) -> Vec<&str> {
    let underlined =
        |style: style::Style| style.get_effects().contains(anstyle::Effects::UNDERLINE);
    line.spans().iter().filter(|span| underlined(span.style())).map(crate::Span::text).collect()
}

const TWO_HUNKS: &str = "\
diff --git a/src/main.rs b/src/main.rs
index 123..456 100644
--- a/src/main.rs
+++ b/src/main.rs
@@ -8,4 +8,5 @@ fn main() {
 fn main() {
-    let count = 1;
+    let count = 2;
+    print(count);
 }

@@ -98,2 +99,2 @@
-    old();
+    new();
 }
";

#[test]
fn a_diff_has_its_path_counts_and_numbers() {
    insta::assert_snapshot!(text(&render(TWO_HUNKS, 40)), @r"
    src/main.rs (+3 -2)
      8   fn main() {
      9 -     let count = 1;
      9 +     let count = 2;
     10 +     print(count);
     11   }
     12   
      ⋮
     98 -     old();
     99 +     new();
    100   }
    ");
}

#[test]
fn lines_that_came_are_green_and_those_that_went_are_red() {
    let lines = render(TWO_HUNKS, 40);
    let styles: Vec<_> = lines[2].spans().iter().map(crate::Span::style).collect();
    assert_eq!(styles, [style::DIM, style::RED]);
    assert_eq!(lines[9].spans()[1].style(), style::GREEN);
}

#[test]
fn the_words_that_differ_are_marked_where_a_line_took_the_place_of_another() {
    let lines = render(&between("f", "let count = 1; // a\n", "let total = 1; // a\n"), 40);
    assert_eq!(marked(&lines[1]), ["count"]);
    assert_eq!(marked(&lines[2]), ["total"]);
    let lines = render(&between("f", "nothing at all\n", "fn main() {}\n"), 40);
    assert_eq!(lines.iter().flat_map(marked).count(), 0, "nothing in common");
}

#[test]
fn what_is_too_long_is_folded() {
    let new = (1..=100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n") + "\n";
    let lines = render(&between("f", "", &new), 3);
    assert_eq!(
        text(&lines),
        "f (+100 -0)\n  1 + line 1\n  2 + line 2\n  3 + line 3\n… 97 more lines\n"
    );
    assert_eq!(render(&between("f", "", "a\nb\n"), 1).last().unwrap().text(), "… 1 more line");
}

#[test]
fn every_file_of_a_diff_has_its_header() {
    let both = between("a.txt", "1\n", "2\n") + &between("b.txt", "", "x\n");
    assert_eq!(text(&render(&both, 40)), "a.txt (+1 -1)\n1 - 1\n1 + 2\nb.txt (+1 -0)\n1 + x\n");
}

#[test]
fn a_file_that_is_made_or_removed_is_named() {
    let made = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(text(&render(made, 9)), "new.txt (+1 -0)\n1 + x\n");
    let gone = "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n";
    assert_eq!(text(&render(gone, 9)), "old.txt (+0 -1)\n1 - x\nNo newline at end of file\n");
}

#[test]
fn a_removed_line_that_looks_like_a_header_is_a_removed_line() {
    let diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n same\n";
    assert_eq!(text(&render(diff, 9)), "f (+1 -1)\n1 - -- a\n1 + ++ b\n2   same\n");
}

#[test]
fn a_text_that_is_no_diff_is_shown_as_it_is_and_commands_nothing() {
    let lines =
        render("binary files differ\n\u{1b}[2J\n@@ -x +y @@\n@@ -1,99999999999999999999 +1 @@", 9);
    assert_eq!(lines[0].text(), "binary files differ");
    assert!(lines.iter().all(|line| !line.text().contains('\u{1b}')));
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_hunk_that_counts_wrong_is_read_to_its_end() {
    let diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n d\n";
    assert_eq!(text(&render(diff, 9)), "f (+2 -1)\n1 - a\n1 + b\n2 + c\n3   d\n");
}

#[test]
fn texts_that_are_the_same_have_no_difference() {
    assert_eq!(between("f", "a\n", "a\n"), "");
    assert_eq!(render("", 9), []);
}

#[test]
fn endless_lines_are_not_compared_word_by_word() {
    let (old, new) = ("a b ".repeat(200) + "x\n", "a b ".repeat(200) + "y\n");
    let lines = render(&between("f", &old, &new), 9);
    assert_eq!(lines.iter().flat_map(marked).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_changed_line_is_shown_once(
        old in vec("[a-c -]{0,6}", 0..12),
        new in vec("[a-c +é]{0,6}", 0..12),
    ) {
        let whole = |lines: &[String]| lines.iter().map(|line| line.clone() + "\n").collect::<String>();
        let unified = between("f", &whole(&old), &whole(&new));
        let shown = text(&render(&unified, usize::MAX));
        // What the diff says is what is shown, but for the numbers.
        let printed = |mark: char| {
            let lines = unified.lines().skip(2).filter(|line| line.starts_with(mark));
            lines.map(|line| line[1..].to_owned()).collect::<Vec<_>>()
        };
        for mark in ['+', '-'] {
            let seen: Vec<_> = shown
                .lines()
                .skip(1)
                .filter_map(|line| line.trim_start().split_once(' '))
                .filter_map(|(_, rest)| rest.strip_prefix(mark)?.strip_prefix(' '))
                .map(str::to_owned)
                .collect();
            prop_assert_eq!(seen, printed(mark));
        }
    }

    #[test]
    fn no_input_makes_it_panic(diff in "([-+ @\\\\0-9,a-z]|--- |\\+\\+\\+ |@@ -1,2 \\+3,4 @@|\n|é){0,80}", most in 0_usize..5) {
        render(&diff, most);
    }
}
