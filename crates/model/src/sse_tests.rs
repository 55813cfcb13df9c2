use proptest::prelude::*;

use super::*;

fn parse(pieces: &[&[u8]]) -> Result<Vec<Event>, TooLong> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, |event| {
            events.push(event);
            Ok::<(), TooLong>(())
        })?;
    }
    events.extend(parser.finish());
    Ok(events)
}

fn event(name: &str, data: &str) -> Event {
    Event { name: name.to_owned(), data: data.to_owned() }
}

#[test]
fn events_are_read_whatever_ends_their_lines() {
    let text = "\u{feff}: hello\nevent: a\ndata: 1\ndata:2\n\ndata: x\nid: 7\n\n\n";
    let wanted = Ok(vec![event("a", "1\n2"), event("", "x")]);
    assert_eq!(parse(&[text.as_bytes()]), wanted);
    assert_eq!(parse(&[text.replace('\n', "\r\n").as_bytes()]), wanted);
    assert_eq!(parse(&[text.replace('\n', "\r").as_bytes()]), wanted);
}

#[test]
fn a_last_event_without_its_blank_line_is_read() {
    assert_eq!(parse(&[b"data: [DONE]"]), Ok(vec![event("", "[DONE]")]));
    assert_eq!(parse(&[b"data: [DONE]\n"]), Ok(vec![event("", "[DONE]")]));
}

#[test]
fn a_line_or_an_event_without_end_is_refused() {
    let piece = vec![b'x'; 1 << 20];
    let mut pieces: Vec<&[u8]> = vec![b"data: "];
    pieces.extend(std::iter::repeat_n(piece.as_slice(), 17));
    assert_eq!(parse(&pieces), Err(TooLong));
    let mut line = b"data: ".to_vec();
    line.extend_from_slice(&piece);
    line.push(b'\n');
    let pieces: Vec<&[u8]> = std::iter::repeat_n(line.as_slice(), 17).collect();
    assert_eq!(parse(&pieces), Err(TooLong));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_the_bytes_gives_the_same_events(
        text in "((data|event|id|: c)?(: ?)?[a-zé€𝄞 :]{0,6}(\n|\r\n|\r)){0,24}[a-z:é]{0,4}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = text.as_bytes();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.push(bytes.len());
        ends.sort_unstable();
        let mut start = 0;
        let pieces: Vec<&[u8]> = ends
            .into_iter()
            .map(|end| {
                let piece = &bytes[start..end];
                start = end;
                piece
            })
            .collect();
        prop_assert_eq!(parse(&pieces), parse(&[bytes]));
    }
}
