//! Lines out of bytes that come in pieces.

/// The longest line that is kept whole; a longer one becomes several.
pub const MAX_LINE: usize = 64 << 10;

/// Makes lines of the bytes of one stream. Holds at most [`MAX_LINE`] bytes.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Takes bytes and passes on the lines that are complete now, without their newlines.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = MAX_LINE - self.bytes.len();
            let piece = &bytes[..bytes.len().min(room)];
            if let Some(end) = memchr::memchr(b'\n', piece) {
                self.bytes.extend_from_slice(&piece[..end]);
                bytes = &bytes[end + 1..];
                line(&self.bytes);
                self.bytes.clear();
            } else {
                self.bytes.extend_from_slice(piece);
                bytes = &bytes[piece.len()..];
                if self.bytes.len() == MAX_LINE {
                    line(&self.bytes);
                    self.bytes.clear();
                }
            }
        }
    }

    /// Passes on what has no newline when the stream ends.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.bytes.is_empty() {
            line(&self.bytes);
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_becomes_pieces_of_limited_size() {
        let mut buffer = LineBuffer::default();
        let mut seen: Vec<usize> = Vec::new();
        for _ in 0..100 {
            buffer.push(&[b'x'; 10_000], |line| seen.push(line.len()));
            assert!(buffer.bytes.capacity() <= 2 * MAX_LINE);
        }
        buffer.push(b"\n", |line| seen.push(line.len()));
        assert_eq!(seen.iter().sum::<usize>(), 1_000_000);
        assert!(seen[..seen.len() - 1].iter().all(|length| *length == MAX_LINE));
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = b"one\n\ntwo\nthree";
        for size in 1..text.len() {
            let (mut buffer, mut seen) = (LineBuffer::default(), Vec::new());
            let mut note = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
            text.chunks(size).for_each(|chunk| buffer.push(chunk, &mut note));
            buffer.finish(&mut note);
            assert_eq!(seen, ["one", "", "two", "three"]);
        }
    }
}
