//! What a script's job sends, taken apart. It comes from inside the sandbox,
//! so nothing of it is trusted.

use std::fmt;

/// Longest piece; the shim sends no longer ones.
const LONGEST_PIECE: usize = 64 << 10;

/// Longest tool call.
pub(super) const LONGEST_CALL: usize = 8 << 20;

/// Bytes before a piece: its kind and its length.
const HEADER: usize = 5;

/// Something a script's job has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShimFrame {
    /// The script printed this.
    Out(Vec<u8>),
    /// It printed this to standard error.
    Err(Vec<u8>),
    /// It calls a tool, in JSON.
    Call(Vec<u8>),
    /// It has ended with this code.
    End(u32),
}

/// Bytes that no shim of ours sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ShimViolation {
    /// A piece of no kind there is.
    Kind(u8),
    /// A piece, or a call, that is too long.
    Length(usize),
    /// An end that is none.
    End,
}

impl fmt::Display for ShimViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "a piece of kind {kind:#04x}"),
            Self::Length(length) => write!(f, "a piece of {length} bytes"),
            Self::End => f.write_str("an end without a code"),
        }
    }
}

/// Puts frames together from bytes that come in any pieces.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    calls: Vec<u8>,
}

impl Frames {
    /// Takes what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next frame, if all of it has come.
    pub(super) fn next(&mut self) -> Result<Option<ShimFrame>, ShimViolation> {
        loop {
            if let Some(call) = take_call(&mut self.calls)? {
                return Ok(Some(ShimFrame::Call(call)));
            }
            let Some((kind, piece)) = self.take_piece()? else { return Ok(None) };
            match kind {
                b'o' => return Ok(Some(ShimFrame::Out(piece))),
                b'e' => return Ok(Some(ShimFrame::Err(piece))),
                b'c' => self.calls.extend_from_slice(&piece),
                _ => {
                    let code = piece.try_into().map_err(|_| ShimViolation::End)?;
                    return Ok(Some(ShimFrame::End(u32::from_be_bytes(code))));
                }
            }
        }
    }

    fn take_piece(&mut self) -> Result<Option<(u8, Vec<u8>)>, ShimViolation> {
        let Some((&[kind, a, b, c, d], rest)) = self.bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        if !matches!(kind, b'o' | b'e' | b'c' | b'x') {
            return Err(ShimViolation::Kind(kind));
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > LONGEST_PIECE {
            return Err(ShimViolation::Length(length));
        }
        let Some(piece) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
        self.bytes.drain(..HEADER + length);
        Ok(Some((kind, piece)))
    }
}

fn take_call(calls: &mut Vec<u8>) -> Result<Option<Vec<u8>>, ShimViolation> {
    let Some((length, rest)) = calls.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LONGEST_CALL {
        return Err(ShimViolation::Length(length));
    }
    let Some(call) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
    calls.drain(..4 + length);
    Ok(Some(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&[kind], length.as_slice(), bytes].concat()
    }

    fn all(frames: &mut Frames) -> Result<Vec<ShimFrame>, ShimViolation> {
        let mut found = Vec::new();
        while let Some(frame) = frames.next()? {
            found.push(frame);
        }
        Ok(found)
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let call = [3_u32.to_be_bytes().as_slice(), b"{1}"].concat();
        let bytes = [
            piece(b'o', b"out"),
            piece(b'c', &call[..2]),
            piece(b'e', b""),
            piece(b'c', &[&call[2..], &call].concat()),
            piece(b'x', &[0, 0, 0, 3]),
        ]
        .concat();
        let expected = vec![
            ShimFrame::Out(b"out".to_vec()),
            ShimFrame::Err(vec![]),
            ShimFrame::Call(b"{1}".to_vec()),
            ShimFrame::Call(b"{1}".to_vec()),
            ShimFrame::End(3),
        ];
        for size in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for chunk in bytes.chunks(size) {
                frames.push(chunk);
                found.extend(all(&mut frames).unwrap());
            }
            assert_eq!(found, expected, "{size}");
        }
    }

    #[test]
    fn what_no_shim_sends_is_refused_before_it_is_kept() {
        let refused = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            all(&mut frames).unwrap_err()
        };
        assert_eq!(refused(b"garbage"), ShimViolation::Kind(b'g'));
        assert_eq!(refused(b"o\xff\xff\xff\xff"), ShimViolation::Length(u32::MAX as usize));
        assert_eq!(refused(b"o\0\x01\0\x01"), ShimViolation::Length((64 << 10) + 1));
        assert_eq!(refused(&piece(b'c', &[0xff; 4])), ShimViolation::Length(u32::MAX as usize));
        assert_eq!(refused(&piece(b'x', b"abc")), ShimViolation::End);
    }
}
