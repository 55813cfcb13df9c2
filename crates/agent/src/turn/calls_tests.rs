use super::*;

mod batch {
    use super::*;
    use Footprint::{Exclusive, Reads, Siblings};

    fn writes(path: &str) -> Footprint {
        Footprint::Writes(vec![path.to_owned()])
    }

    #[test]
    fn reads_run_together_and_what_may_change_anything_alone() {
        let groups = groups(&[Reads, Reads, Exclusive, Reads, Siblings, Siblings]);
        assert_eq!(groups, [0..2, 2..3, 3..4, 4..6]);
    }

    #[test]
    fn writes_run_together_only_to_files_that_are_surely_different() {
        assert_eq!(groups(&[writes("/a/x"), writes("/a/y"), Exclusive]), [0..2, 2..3]);
        for (one, other) in [("/a/x", "/a/x"), ("/a/x", "./x"), ("x", "/b/../a/x"), ("/a/x/", "x")]
        {
            assert_eq!(groups(&[writes(one), writes(other)]), [0..1, 1..2], "{one} {other}");
        }
    }

    #[test]
    fn a_group_is_never_wider_than_the_limit() {
        let groups = groups(&vec![Reads; 20]);
        assert_eq!(groups, [0..8, 8..16, 16..20]);
    }
}

mod preview {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exit_code_is_shown_however_much_was_printed() {
        let content = json!({ "output": "é".repeat(5000), "exit_code": 3, "error": null });
        let shown: Value = serde_json::from_str(&preview(&content.to_string())).unwrap();
        let expected = json!({ "output": "é".repeat(200), "exit_code": 3, "error": null });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_preview_is_bounded_whatever_the_result_is() {
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("field {n}"), json!("x"))).collect();
        let nested = json!({ "list": vec!["x"; 1000] });
        for content in [Value::Object(many), nested, json!("y".repeat(5000))] {
            assert!(preview(&content.to_string()).len() <= PREVIEW_OBJECT);
        }
        assert_eq!(preview("no object"), "no object");
        assert_eq!(preview(&"z".repeat(401)), "z".repeat(400));
    }
}

mod summary {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_telling_argument_is_shown_in_one_line() {
        assert_eq!(summary(&json!({"timeout": 3, "command": "make\n  test"})), "make test");
        assert_eq!(summary(&json!({"action": "poll", "session_id": "j"})), "poll");
        assert_eq!(summary(&json!({"odd": "words"})), "words");
        assert_eq!(summary(&json!({"n": 1})), "");
        assert_eq!(summary(&json!([])), "");
        assert_eq!(summary(&json!({"path": "é".repeat(500)})).chars().count(), SUMMARY_CHARS + 1);
    }
}
