use super::*;

mod web {
    use super::*;

    #[test]
    fn an_address_is_shown_without_what_may_be_a_key() {
        for (given, shown) in [
            ("https://me:pw@h.example/mcp?key=hunter2#x", "https://h.example/mcp"),
            ("https://h.example/${KEY}/mcp", "https://h.example/${KEY}/mcp"),
            ("${ADDRESS}?key=hunter2", "${ADDRESS}"),
            ("hunter2", "its url"),
        ] {
            assert_eq!(public(given), shown);
        }
    }

    #[test]
    fn a_header_that_the_protocol_sets_is_refused_by_its_name() {
        let headers = [("Mcp-Session-Id".to_owned(), "hunter2".to_owned())];
        let refused = client_of("http://127.0.0.1:9/", &headers, None).map(drop).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("Mcp-Session-Id is one that the protocol itself sets"),
            "{refused}"
        );
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

mod pace {
    use super::*;

    #[test]
    fn a_stream_that_ends_at_once_is_opened_less_and_less_often_and_one_that_lasts_at_once() {
        let pace = Pace::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let when = pace.next(now);
            waits.push((when - now).as_millis());
            now = when;
        }
        let expected = [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000];
        assert_eq!(waits, expected);
        now += LASTED;
        assert_eq!(pace.next(now), now);
    }
}
