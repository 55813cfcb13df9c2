use super::*;

fn refusal(errno: Option<i32>, message: &str) -> Refusal {
    Refusal {
        action: "write".to_owned(),
        path: Some("/home/s/to/file".to_owned()),
        errno,
        message: message.to_owned(),
        left: None,
    }
}

fn explained(refusal: Refusal) -> (String, String) {
    let error = refusal.explain("the workspace", Path::new("/home/s/to"));
    (error.to_string(), error.advice().unwrap_or_default().to_owned())
}

#[test]
fn each_line_of_the_program_is_understood() {
    let progress = Said::Progress { files: 3, bytes: 4, total: None };
    assert_eq!(Said::parse(r#"{"files":3,"bytes":4,"total":null}"#), Some(progress));
    let progress = Said::Progress { files: 3, bytes: 4, total: Some(9) };
    assert_eq!(Said::parse(r#"{"files":3,"bytes":4,"total":9}"#), Some(progress));
    let done = Said::Done(CopyTotals { files: 5, bytes: 6 });
    assert_eq!(Said::parse(r#"{"done":true,"files":5,"bytes":6,"skipped":1}"#), Some(done));
    let refused = Said::Refused(refusal(Some(28), "m"));
    let line = r#"{"error":{"action":"write","path":"/home/s/to/file","errno":28,"message":"m","left":null}}"#;
    assert_eq!(Said::parse(line), Some(refused));
    for rubbish in ["", "hello", "[]", "{\"error\":3}", "{\"files\":-1}"] {
        assert_eq!(Said::parse(rubbish), None, "{rubbish}");
    }
}

#[test]
fn a_full_disk_is_explained_with_what_to_do() {
    let (problem, advice) = explained(refusal(Some(28), "no space"));
    assert_eq!(problem, "there is no room for a copy of the workspace in /home/s");
    assert!(advice.contains("df -h /home/s") && advice.contains("vestal snapshots"), "{advice}");
    let (problem, advice) = explained(refusal(Some(122), "quota"));
    assert!(problem.contains("quota") && advice.contains("quota"), "{problem}; {advice}");
}

#[test]
fn what_may_not_be_read_or_given_away_is_named() {
    for errno in [1, 13] {
        let (problem, advice) = explained(refusal(Some(errno), "cannot open /home/s/to/file: no"));
        assert!(problem.contains("/home/s/to/file"), "{problem}");
        assert!(advice.contains("/home/s/to/file"), "{advice}");
    }
}

#[test]
fn what_keeps_changing_is_named() {
    let changing = refusal(None, "/home/s/to/file keeps changing while it is copied");
    let (problem, advice) = explained(changing);
    assert!(problem.contains("/home/s/to/file keeps changing"), "{problem}");
    assert!(advice.contains("/home/s/to/file"), "{advice}");
}

#[test]
fn what_is_left_behind_is_said() {
    for errno in [Some(28), Some(5)] {
        let left = Some("/home/s/to".to_owned());
        let (problem, _) = explained(Refusal { left, ..refusal(errno, "broken") });
        assert!(problem.contains("/home/s/to could not be removed again"), "{problem}");
    }
}

#[test]
fn paths_of_a_container_become_those_of_the_host() {
    let inside = Refusal {
        path: Some("/.vestal/from/a".to_owned()),
        ..refusal(Some(13), "cannot read /.vestal/from/a: no")
    };
    let (problem, advice) = explained(inside.seen_as("/.vestal/from", Path::new("/home/s/work")));
    assert!(problem.contains("/home/s/work/a") && !advice.contains(".vestal/"), "{advice}");
}
