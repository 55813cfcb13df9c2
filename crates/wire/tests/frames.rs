//! Frames: nothing is read, allocated or written beyond the limits.

use std::io::{self, Cursor, Read};

use proptest::prelude::*;
use vestal_wire::limits::{MAX_DATA, MAX_MESSAGE};
use vestal_wire::{FrameError, FrameKind, HEADER_LEN, Header, Stream, read_frame, write_frame};

const KINDS: [FrameKind; 9] = [
    FrameKind::Hello,
    FrameKind::Welcome,
    FrameKind::Open,
    FrameKind::Event,
    FrameKind::Reply,
    FrameKind::Data,
    FrameKind::End,
    FrameKind::Credit,
    FrameKind::Cancel,
];

const STREAMS: [Stream; 5] =
    [Stream::Input, Stream::Stdout, Stream::Stderr, Stream::Text, Stream::Content];

fn header() -> impl Strategy<Value = Header> {
    let kinds = prop::sample::select(&KINDS[..]);
    let streams = prop::sample::select(&STREAMS[..]);
    (kinds, streams, any::<u32>(), any::<prop::sample::Index>()).prop_map(
        |(kind, stream, channel, len)| {
            let len = u32::try_from(len.index(kind.max_len() + 1)).unwrap_or(u32::MAX);
            Header { len, channel, kind, stream }
        },
    )
}

/// Counts what is read.
struct Counted<R>(R, usize);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buf)?;
        self.1 += count;
        Ok(count)
    }
}

/// Returns a header's bytes with any length, also one that is not allowed.
fn raw_header(len: u32, kind: u8, stream: u8) -> [u8; HEADER_LEN] {
    let [a, b, c, d] = len.to_le_bytes();
    [a, b, c, d, 7, 0, 0, 0, kind, stream]
}

proptest! {
    #[test]
    fn a_header_survives_the_wire(header in header()) {
        let decoded = Header::from_bytes(header.to_bytes());
        prop_assert_eq!(decoded.ok(), Some(header));
    }

    #[test]
    fn a_frame_survives_the_wire_and_the_next_one_follows(header in header(), byte in any::<u8>()) {
        let payload = vec![byte; header.len as usize];
        let mut written = Vec::new();
        write_frame(&mut written, header.channel, header.kind, header.stream, &payload).unwrap();
        write_frame(&mut written, 1, FrameKind::End, Stream::Input, &[]).unwrap();
        let mut reader = Cursor::new(written);
        prop_assert_eq!(read_frame(&mut reader).unwrap(), (header, payload));
        prop_assert_eq!(read_frame(&mut reader).unwrap().0.kind, FrameKind::End);
        prop_assert!(matches!(read_frame(&mut reader), Err(FrameError::Io(_))));
    }

    #[test]
    fn a_truncated_frame_is_an_error(header in header(), cut in any::<prop::sample::Index>()) {
        let payload = vec![0; header.len as usize];
        let mut written = Vec::new();
        write_frame(&mut written, header.channel, header.kind, header.stream, &payload).unwrap();
        let part = &written[..cut.index(written.len())];
        match read_frame(&mut Cursor::new(part)) {
            Err(FrameError::Io(error)) => {
                prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn no_bytes_make_reading_a_frame_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let header = bytes.first_chunk().and_then(|bytes| Header::from_bytes(*bytes).ok());
        if let Some(header) = header {
            prop_assert!(header.len as usize <= header.kind.max_len());
            prop_assert_eq!(&header.to_bytes(), &bytes[..HEADER_LEN]);
        }
        if let Ok((header, payload)) = read_frame(&mut Cursor::new(&bytes)) {
            prop_assert_eq!(header.len as usize, payload.len());
        }
    }

    /// The payload is never touched, so nothing can have been set aside for it.
    #[test]
    fn a_length_over_the_limit_is_refused_with_the_header(
        kind in prop::sample::select(&KINDS[..]),
        over in 1_u32..=u32::MAX - (1 << 20),
    ) {
        let len = u32::try_from(kind.max_len()).unwrap() + over;
        let bytes = raw_header(len, kind as u8, 0);
        let endless = bytes.chain(io::repeat(0));
        let mut reader = Counted(endless, 0);
        match read_frame(&mut reader) {
            Err(FrameError::TooLong { len: reported, limit }) => {
                prop_assert_eq!((reported, limit), (len, kind.max_len()));
            }
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert_eq!(reader.1, HEADER_LEN);
    }
}

#[test]
fn the_limits_of_each_kind_are_what_the_protocol_says() {
    let limits = KINDS.map(FrameKind::max_len);
    let message = MAX_MESSAGE;
    assert_eq!(limits, [message, message, message, message, message, MAX_DATA, 0, 4, 0]);
}

#[test]
fn a_payload_over_the_limit_is_not_written_at_all() {
    for kind in KINDS {
        let payload = vec![0; kind.max_len() + 1];
        let mut written = Vec::new();
        let result = write_frame(&mut written, 1, kind, Stream::Input, &payload);
        assert!(matches!(result, Err(FrameError::TooLong { .. })), "{kind:?}");
        assert_eq!(written, [0_u8; 0], "{kind:?}");
    }
}

#[test]
fn unknown_kinds_and_streams_are_refused() {
    for byte in 0..=u8::MAX {
        let known = KINDS.iter().any(|kind| *kind as u8 == byte);
        let result = Header::from_bytes(raw_header(0, byte, 0));
        assert_eq!(matches!(result, Err(FrameError::UnknownKind(b)) if b == byte), !known);
        let known = STREAMS.iter().any(|stream| *stream as u8 == byte);
        let result = Header::from_bytes(raw_header(0, FrameKind::Data as u8, byte));
        assert_eq!(matches!(result, Err(FrameError::UnknownStream(b)) if b == byte), !known);
    }
}
