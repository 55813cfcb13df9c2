//! Beginning and end of a text of any length.

/// How far from the cut a line may begin for the cut to be moved there.
const LINE_SEARCH: usize = 1024;

/// Keeps the beginning and the end of a text, and counts what lies between.
#[derive(Debug)]
pub(crate) struct HeadTail {
    head: String,
    head_limit: usize,
    tail: Vec<u8>,
    tail_limit: usize,
    total: u64,
}

/// What was kept of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The text; where something is left out, a line says how much.
    pub(crate) text: String,
    /// Bytes there were.
    pub(crate) total: u64,
    /// Bytes left out.
    pub(crate) omitted: u64,
}

impl HeadTail {
    /// Keeps at most this many bytes, two fifths of them from the beginning.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 5 * 2;
        Self {
            head: String::new(),
            head_limit,
            tail: Vec::new(),
            tail_limit: limit - head_limit,
            total: 0,
        }
    }

    /// Takes what comes next.
    pub(crate) fn push(&mut self, text: &str) {
        self.total += text.len() as u64;
        let mut rest = text;
        if self.tail.is_empty() && self.head.len() < self.head_limit {
            let cut = text.floor_char_boundary(self.head_limit - self.head.len());
            self.head.push_str(&text[..cut]);
            rest = &text[cut..];
        }
        // Only the end of a piece can be needed, and the buffer is cut back
        // only when it is twice too long, so each byte is moved about once.
        let needed = rest.len().saturating_sub(self.tail_limit);
        self.tail.extend_from_slice(&rest.as_bytes()[needed..]);
        if self.tail.len() > 2 * self.tail_limit {
            self.tail.drain(..self.tail.len() - self.tail_limit);
        }
    }

    /// Returns what was kept.
    pub(crate) fn finish(self) -> Kept {
        let Self { mut head, tail, tail_limit, total, .. } = self;
        let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
        let mut start = tail.len().saturating_sub(tail_limit);
        start += tail[start..].iter().take_while(|byte| is_continuation(byte)).count();
        let mut tail = String::from_utf8_lossy(&tail[start..]).into_owned();
        let mut omitted = total - (head.len() + tail.len()) as u64;
        if omitted > 0 {
            if let Some(end) = head.rfind('\n').filter(|end| head.len() - end <= LINE_SEARCH) {
                head.truncate(end + 1);
            }
            if let Some(end) = tail.find('\n').filter(|end| *end < LINE_SEARCH.min(tail.len() - 1))
            {
                tail.drain(..=end);
            }
            omitted = total - (head.len() + tail.len()) as u64;
            if !head.is_empty() && !head.ends_with('\n') {
                head.push('\n');
            }
            let marker = format!("[… {omitted} of {total} bytes left out here …]\n");
            head.push_str(&marker);
        }
        head.push_str(&tail);
        Kept { text: head, total, omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: usize, pieces: &[&str]) -> Kept {
        let mut keep = HeadTail::new(limit);
        for piece in pieces {
            keep.push(piece);
        }
        keep.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let text = "one\ntwo\nthree".to_owned();
        assert_eq!(kept(13, &["one\n", "two\nthree"]), Kept { text, total: 13, omitted: 0 });
        assert_eq!(kept(0, &[]).text, "");
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        let lines: Vec<String> = (0..10_000).map(|n| format!("{n}\n")).collect();
        let text = lines.concat();
        let pieces: Vec<&str> = [text.as_str()].to_vec();
        let whole = kept(1000, &pieces);
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(whole, kept(1000, &bytes), "however it came");
        let (head, rest) = whole.text.split_once("[… ").unwrap();
        let (marker, tail) = rest.split_once(" …]\n").unwrap();
        assert!(text.starts_with(head) && head.ends_with('\n'));
        assert!(text.ends_with(tail) && tail.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(whole.omitted, (text.len() - head.len() - tail.len()) as u64);
        assert_eq!(marker, format!("{} of {} bytes left out here", whole.omitted, text.len()));
        assert!(head.len() > 350 && tail.len() > 550 && head.len() + tail.len() <= 1000);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "€".repeat(1000);
        for limit in 0..40 {
            let kept = kept(limit, &[&text]);
            assert!(!kept.text.contains('\u{fffd}'), "{limit}");
            let shown = kept.text.matches('€').count() * 3;
            assert_eq!(kept.omitted, 3000 - shown as u64, "{limit}");
        }
    }
}
