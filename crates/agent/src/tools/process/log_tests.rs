use super::*;

fn lines(wanted: LogLines, pieces: &[&str]) -> (Vec<String>, usize, usize) {
    let mut window = LineWindow::new(wanted, 5);
    for piece in pieces {
        window.push(piece);
    }
    window.finish()
}

#[test]
fn lines_are_found_from_either_end() {
    let text = ["a\nb", "b\r\nc\n", "d"];
    let all = || vec!["a".to_owned(), "bb".into(), "c".into(), "d".into()];
    assert_eq!(lines(LogLines::Last(9), &text), (all(), 0, 4));
    assert_eq!(lines(LogLines::Last(2), &text), (all()[2..].to_vec(), 2, 4));
    assert_eq!(lines(LogLines::From(0, 2), &text), (all()[..2].to_vec(), 0, 4));
    assert_eq!(lines(LogLines::From(3, 2), &text), (all()[3..].to_vec(), 3, 4));
    assert_eq!(lines(LogLines::From(9, 2), &text), (vec![], 9, 4));
    assert_eq!(lines(LogLines::Last(2), &[]), (vec![], 0, 0));
}

#[test]
fn long_lines_are_cut_and_say_so() {
    let (lines, ..) = lines(LogLines::Last(1), &["abcd", "efgh\n"]);
    assert_eq!(lines, ["abcde [… 3 more bytes in this line]"]);
}

#[test]
fn the_end_of_a_text_is_counted_in_characters() {
    assert_eq!(last_characters("aä€", 2), "ä€");
    assert_eq!(last_characters("aä€", 9), "aä€");
    assert_eq!(last_characters("aä€", 0), "aä€");
}
