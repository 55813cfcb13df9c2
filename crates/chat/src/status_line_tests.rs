use super::*;

fn status() -> Status {
    Status {
        model: "some/model".to_owned(),
        used: 12_400,
        holds: Some(200_000),
        paid: Some(42_000),
        is_paid_partly: false,
        place: "native/default".to_owned(),
        state: "up",
        jobs: 2,
        is_yolo: false,
        elapsed: Some(Duration::from_secs(12)),
    }
}

#[test]
fn it_says_all_there_is_where_there_is_room() {
    assert_eq!(
        status().line(140).text(),
        "some/model · context 12k/200k (6%) · $0.04 · native/default (up) · 2 jobs · Esc interrupts · 12s"
    );
}

#[test]
fn what_does_not_fit_is_left_out_from_the_right() {
    let status = Status { elapsed: None, ..status() };
    for columns in 0..100 {
        let line = status.line(columns);
        assert!(line.width() <= columns, "{columns}: {}", line.text());
        assert!(status.line(140).text().starts_with(line.text().trim_end_matches('…')));
    }
    assert_eq!(status.line(60).text(), "some/model · context 12k/200k (6%) · $0.04");
}

#[test]
fn how_to_interrupt_is_seen_while_something_runs() {
    for columns in 40..140 {
        let line = status().line(columns).text();
        assert!(line.ends_with("Esc interrupts · 12s"), "{columns}: {line}");
    }
    assert!(!Status { elapsed: None, ..status() }.line(140).text().contains("Esc"));
}

#[test]
fn that_nothing_is_asked_about_is_always_seen() {
    let status = Status { is_yolo: true, ..status() };
    for columns in 4..140 {
        assert!(status.line(columns).text().ends_with("YOLO"), "{columns}");
    }
}

#[test]
fn what_is_not_known_is_not_said() {
    assert_eq!(Status { model: "m".to_owned(), ..Status::default() }.line(80).text(), "m");
    let status = Status { used: 900, paid: Some(1), is_paid_partly: true, ..Status::default() };
    assert_eq!(status.line(80).text(), "context 900 · ≥$0.0000");
}
