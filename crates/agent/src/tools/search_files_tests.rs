use super::*;

mod search_files {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::redact::Redactor;
    use crate::testing::AgentFixture;

    fn stage() -> AgentFixture {
        let stage = AgentFixture::new();
        let root = stage.start_dir();
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        for (name, content) in [
            ("src/a.rs", "fn one() {}\nfn two() {}\n// end\n"),
            ("src/deep/b.rs", "fn three() {}\n"),
            ("notes.txt", "fn is no function here\n"),
            (".hidden", "fn hidden() {}\n"),
        ] {
            std::fs::write(root.join(name), content).unwrap();
        }
        stage
    }

    #[tokio::test]
    async fn lines_are_found_with_their_places() {
        let stage = stage();
        let found =
            stage.call(&SearchFiles, json!({ "pattern": r"^fn \w+\(", "file_glob": "*.rs" })).await;
        assert_eq!(
            found,
            json!({
                "matches": [
                    { "path": "src/a.rs", "line": 1, "content": "fn one() {}" },
                    { "path": "src/a.rs", "line": 2, "content": "fn two() {}" },
                    { "path": "src/deep/b.rs", "line": 1, "content": "fn three() {}" },
                ],
                "total_count": 3, "truncated": false,
            })
        );
    }

    #[tokio::test]
    async fn results_come_in_parts() {
        let stage = stage();
        let first =
            stage.call(&SearchFiles, json!({ "pattern": "fn", "path": "src", "limit": 2 })).await;
        assert_eq!((&first["truncated"], &first["next_offset"]), (&json!(true), &json!(2)));
        let rest = stage
            .call(&SearchFiles, json!({ "pattern": "fn", "path": "src/", "limit": 2, "offset": 2 }))
            .await;
        assert_eq!(rest["matches"][0]["path"], "src/deep/b.rs");
        assert_eq!((&rest["truncated"], &rest["total_count"]), (&json!(false), &json!(3)));
    }

    #[tokio::test]
    async fn lines_around_a_match_are_marked() {
        let stage = stage();
        let found = stage
            .call(&SearchFiles, json!({ "pattern": "two", "path": "src/a.rs", "context": 1 }))
            .await;
        let lines: Vec<(u64, bool)> = found["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| (line["line"].as_u64().unwrap(), line["context"] == json!(true)))
            .collect();
        assert_eq!(lines, [(1, true), (2, false), (3, true)]);
        assert_eq!(found["matches"][0]["path"], "src/a.rs");
        assert_eq!(found["total_count"], 1);
    }

    #[tokio::test]
    async fn files_and_counts_are_what_is_asked_for() {
        let stage = stage();
        let ask = |mode: &str, limit: u32, offset: u32| json!({ "pattern": "fn", "output_mode": mode, "limit": limit, "offset": offset });
        let found = stage.call(&SearchFiles, ask("files_only", 50, 0)).await;
        assert_eq!(found["files"], json!(["notes.txt", "src/a.rs", "src/deep/b.rs"]));
        let found = stage.call(&SearchFiles, ask("files_only", 1, 1)).await;
        assert_eq!((&found["files"], &found["next_offset"]), (&json!(["src/a.rs"]), &json!(2)));
        let found = stage.call(&SearchFiles, ask("count", 50, 0)).await;
        assert_eq!(found["counts"], json!({ "notes.txt": 1, "src/a.rs": 2, "src/deep/b.rs": 1 }));
        assert_eq!((&found["total_count"], &found["total_files"]), (&json!(4), &json!(3)));
    }

    #[tokio::test]
    async fn files_are_found_by_name() {
        let stage = stage();
        let found = stage.call(&SearchFiles, json!({ "pattern": "*.rs", "target": "files" })).await;
        assert_eq!(
            found,
            json!({ "files": ["src/a.rs", "src/deep/b.rs"], "total_count": 2, "truncated": false })
        );
        let root = stage.start_dir().to_str().unwrap().to_owned();
        let found = stage
            .call(&SearchFiles, json!({ "pattern": "notes", "target": "files", "path": root }))
            .await;
        assert_eq!(found["files"], json!([format!("{root}/notes.txt")]));
    }

    #[tokio::test]
    async fn nothing_found_says_what_was_not_searched() {
        let stage = stage();
        let found = stage.call(&SearchFiles, json!({ "pattern": "hidden" })).await;
        assert_eq!((&found["matches"], &found["total_count"]), (&json!([]), &json!(0)));
        assert!(found["hint"].as_str().unwrap().contains("Hidden files"), "{found}");
        let found =
            stage.call(&SearchFiles, json!({ "pattern": "hidden", "file_glob": ".hid*" })).await;
        assert_eq!(found["total_count"], 1);
    }

    #[tokio::test]
    async fn what_git_ignores_is_searched_where_it_is_named() {
        let stage = stage();
        let root = stage.start_dir();
        std::fs::create_dir_all(root.join("out/inner")).unwrap();
        std::fs::write(root.join(".gitignore"), "out/\n").unwrap();
        std::fs::write(root.join("out/inner/made"), "generated words\n").unwrap();
        let found = stage.call(&SearchFiles, json!({ "pattern": "generated" })).await;
        assert_eq!(found["total_count"], 0);
        let found =
            stage.call(&SearchFiles, json!({ "pattern": "generated", "path": "out" })).await;
        assert_eq!(found["matches"][0]["path"], "out/inner/made", "{found}");
    }

    #[tokio::test]
    async fn mistakes_are_explained() {
        let stage = stage();
        let result = stage.call(&SearchFiles, json!({ "pattern": "fn (" })).await;
        let error = result["error"].as_str().unwrap();
        assert!(error.contains("not valid") && error.contains("backslash"), "{error}");
        let result = stage.call(&SearchFiles, json!({ "pattern": "x", "path": "srcs" })).await;
        assert!(result["similar_files"][0].as_str().unwrap().ends_with("/src"), "{result}");
        let result =
            stage.call(&SearchFiles, json!({ "pattern": "x", "path": "/proc/self/environ" })).await;
        assert!(result["error"].as_str().unwrap().contains("is not searched"), "{result}");
    }

    #[tokio::test]
    async fn secrets_in_lines_are_masked() {
        let mut stage = stage();
        let secret = "correct-horse-battery-staple-1234";
        stage.context.redactor = Arc::new(Redactor::new([secret.to_owned()]));
        std::fs::write(stage.start_dir().join("conf"), format!("TOKEN={secret}\n")).unwrap();
        let found = stage.call(&SearchFiles, json!({ "pattern": "TOKEN" })).await;
        assert_eq!(found["total_count"], 1);
        assert!(!found.to_string().contains(secret), "{found}");
    }

    #[tokio::test]
    async fn many_matches_are_counted_over_several_parts() {
        let stage = stage();
        std::fs::write(stage.start_dir().join("many"), "needle\n".repeat(12_345)).unwrap();
        let found =
            stage.call(&SearchFiles, json!({ "pattern": "needle", "output_mode": "count" })).await;
        assert_eq!(
            (&found["counts"]["many"], &found["total_count"]),
            (&json!(12_345), &json!(12_345))
        );
    }
}

mod query {
    use serde_json::json;

    use super::*;

    fn request(arguments: Value) -> FileSearch {
        FileSearch::new(arguments).unwrap()
    }

    #[test]
    fn a_name_without_wildcards_is_found_anywhere_in_names() {
        let glob = |pattern: &str| request(json!({ "pattern": pattern, "target": "files" })).glob();
        assert_eq!(glob("config").as_deref(), Some("*config*"));
        assert_eq!(glob("*.rs").as_deref(), Some("*.rs"));
        assert_eq!(glob("src/main.rs").as_deref(), Some("src/main.rs"));
        assert_eq!(glob(".").as_deref(), Some("*"));
    }

    #[test]
    fn hidden_files_are_searched_where_they_are_named() {
        let hidden =
            |glob: &str| request(json!({ "pattern": "x", "file_glob": glob })).query(0, 1).hidden;
        assert!(hidden(".env*"));
        assert!(hidden(".github/**/*.yml"));
        assert!(hidden("{.a,b}"));
        assert!(!hidden("*.rs"));
        assert!(!hidden("./src/*.rs"));
    }

    #[test]
    fn line_breaks_in_expressions_are_explained() {
        for pattern in ["a\nb", r"a\nb", r"\\\n"] {
            let error = FileSearch::new(json!({ "pattern": pattern })).unwrap_err().to_string();
            assert!(error.contains("line break"), "{error}");
        }
        assert!(FileSearch::new(json!({ "pattern": r"C:\\new" })).is_ok());
    }

    #[test]
    fn arguments_that_a_search_for_names_does_not_use_are_ignored() {
        let arguments = json!({
            "pattern": "*.rs", "target": "files", "output_mode": "xml", "context": -1, "file_glob": {},
        });
        assert_eq!(request(arguments), request(json!({ "pattern": "*.rs", "target": "files" })));
        let context = json!({ "pattern": "x", "output_mode": "count", "context": -1 });
        assert_eq!(request(context), request(json!({ "pattern": "x", "output_mode": "count" })));
        let used = json!({ "pattern": "x", "context": -1 });
        let error = FileSearch::new(used).unwrap_err().to_string();
        assert_eq!(error, "`context` must be at least 0, got -1");
    }

    #[test]
    fn the_schema_names_the_output_modes_and_their_default() {
        let spec = SearchFiles.spec();
        let mode = &spec.parameters["properties"]["output_mode"];
        assert_eq!((&mode["type"], &mode["default"]), (&json!("string"), &json!("content")));
        assert_eq!(mode["enum"], json!(["content", "files_only", "count"]));
        assert_eq!(spec.parameters["required"], json!(["pattern"]));
    }

    #[test]
    fn words_that_are_none_of_the_choices_are_named() {
        for (arguments, word) in [
            (json!({ "pattern": "x", "target": "web" }), "target"),
            (json!({ "pattern": "x", "output_mode": "xml" }), "output_mode"),
            (json!({ "pattern": "" }), "pattern"),
            (json!({}), "pattern"),
        ] {
            let error = FileSearch::new(arguments).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
