use super::*;

mod tool {
    use super::*;

    #[test]
    fn a_tool_that_says_nothing_is_described_by_the_beginning_of_its_name() {
        let name = format!("x\u{202e}{}", "y".repeat(100_000));
        let own = rmcp::model::Tool::new(name, "", serde_json::Map::new());
        let description = Offered::new(&own).description;
        assert!(description.starts_with("The tool xyyy") && description.len() < 200);
    }
}

mod names {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_say_whose_tool_it_is() {
        let mut names = UniqueNames::default();
        assert_eq!(names.give("files", "read_file"), "mcp_files_read_file");
        assert_eq!(names.give("my.server", "look up/über"), "mcp_my_server_look_up__ber");
        assert_eq!(names.give("s", ""), "mcp_s__");
    }

    #[test]
    fn names_that_would_be_the_same_are_distinguished_and_stay_what_they_are() {
        let all = [("a", "b.c"), ("a", "b c"), ("a_b", "c"), ("a", "b_c"), ("a", "b_c")];
        let give = || {
            let mut names = UniqueNames::default();
            all.map(|(server, tool)| names.give(server, tool))
        };
        let names = give();
        assert_eq!(names, give());
        assert_eq!(names[0], "mcp_a_b_c");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), all.len());
        assert!(names.iter().all(|name| name.starts_with("mcp_a_b_c")), "{names:?}");
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_gets_an_end_of_its_own() {
        let mut names = UniqueNames::default();
        let long = "x".repeat(100);
        let (one, two) =
            (names.give("s", &format!("{long}1")), names.give("s", &format!("{long}2")));
        assert_eq!((one.len(), two.len()), (64, 64));
        assert_ne!(one, two);
        assert!(one.starts_with("mcp_s_xxx"), "{one}");
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_providers_take(all in proptest::collection::vec((".{0,50}", ".{0,120}"), 0..20)) {
            let mut names = UniqueNames::default();
            let mut given = HashSet::new();
            for (server, tool) in &all {
                let name = names.give(server, tool);
                prop_assert!((1..=LONGEST).contains(&name.len()));
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)), "{name}");
                prop_assert!(given.insert(name));
            }
        }
    }

    #[test]
    fn a_name_does_not_depend_on_which_server_answers_or_what_the_others_offer() {
        let servers = ["a", "a.b", "a_b", "b"];
        let tools = [("a", "b_c"), ("a.b", "c"), ("a_b", "c"), ("a", "c"), ("b", "c")];
        let alone = tools.map(|(server, tool)| UniqueNames::among(servers).give(server, tool));
        let mut names = UniqueNames::among(servers);
        let together = tools.map(|(server, tool)| names.give(server, tool));
        assert_eq!(alone, together);
        // Whose name it is by its longest beginning, and of two the first, has it as it is.
        assert_eq!((&*alone[1], &*alone[3], &*alone[4]), ("mcp_a_b_c", "mcp_a_c", "mcp_b_c"));
        let mut backwards = UniqueNames::among(servers);
        for ((server, tool), name) in tools.iter().zip(&alone).rev() {
            assert_eq!(backwards.give(server, tool), *name);
        }
    }
}

mod printable {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d\u{e0041}e\u{200b}f\u{7f}"), "a[2Jb\ncdef");
        for hidden in ['\u{ad}', '\u{61c}', '\u{2028}', '\u{206a}', '\u{fe0f}', '\u{e0152}'] {
            assert_eq!(printable(&format!("a{hidden}b")), "ab", "{hidden:?}");
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(one_line("  a\n\n b\tc ", 3), "a b…");
    }
}
