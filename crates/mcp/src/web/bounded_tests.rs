use super::*;

#[test]
fn what_is_counted_is_one_event_however_lines_end() {
    for end in ["\n", "\r", "\r\n"] {
        let line = format!("data: {}{end}", "x".repeat(1 << 20));
        let mut gauge = Gauge::default();
        for _ in 0..40 {
            assert!(gauge.takes(line.as_bytes()), "{end:?}");
            assert!(gauge.takes(end.as_bytes()), "{end:?}");
        }
        let taken = (0..40).take_while(|_| gauge.takes(line.as_bytes())).count();
        assert_eq!(taken, 15, "{end:?}");
    }
}

#[test]
fn a_line_without_an_end_is_too_large_at_some_time() {
    let mut gauge = Gauge::default();
    let taken = (0..40).take_while(|_| gauge.takes(&vec![b':'; 1 << 20])).count();
    assert_eq!(taken, 16);
}
