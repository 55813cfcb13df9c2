//! What a terminal answers about its clipboard (OSC 5522, as kitty has it).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An answer of the terminal about its clipboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClipboardReply {
    /// Whether it knows how to be asked for the clipboard.
    Support(bool),
    /// It will say what it has.
    Begun,
    /// A piece of what it has.
    Data {
        /// The kind of data.
        mime: String,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// That was all.
    Done,
    /// It does not say, and why, in its own word, such as `EPERM`.
    Refused(String),
}

/// Asks whether the terminal can be asked for its clipboard.
pub(crate) const ASK_SUPPORT: &str = "\x1b[?5522$p";

/// Returns what asks the terminal for these kinds of data.
pub(crate) fn ask_for(kinds: &[&str]) -> String {
    format!("\x1b]5522;type=read;{}\x1b\\", STANDARD.encode(kinds.join(" ")))
}

impl ClipboardReply {
    /// Reads a whole sequence; nothing if it is another one.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        if let Some(mode) = bytes.strip_prefix(b"\x1b[?5522;") {
            // 1 to 3: on, off, always on; 0 and 4: not there.
            return Some(Self::Support(matches!(mode, b"1$y" | b"2$y" | b"3$y")));
        }
        let body = bytes.strip_prefix(b"\x1b]5522;")?;
        let body = body.strip_suffix(b"\x1b\\").or_else(|| body.strip_suffix(b"\x07"))?;
        let body = std::str::from_utf8(body).ok()?;
        let (metadata, payload) = body.split_once(';').unwrap_or((body, ""));
        let value = |name: &str| {
            metadata.split(':').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                (key == name).then_some(value)
            })
        };
        if value("type") != Some("read") {
            return None;
        }
        match value("status")? {
            "OK" => Some(Self::Begun),
            "DONE" => Some(Self::Done),
            "DATA" => {
                let mime = STANDARD.decode(value("mime").unwrap_or_default()).ok()?;
                let mime = String::from_utf8(mime).ok()?;
                let bytes = STANDARD.decode(payload.trim()).ok()?;
                Some(Self::Data { mime, bytes })
            }
            other => Some(Self::Refused(other.chars().take(40).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_read() {
        let read = |text: &str| ClipboardReply::read(text.as_bytes());
        assert_eq!(read("\x1b[?5522;2$y"), Some(ClipboardReply::Support(true)));
        assert_eq!(read("\x1b[?5522;0$y"), Some(ClipboardReply::Support(false)));
        assert_eq!(read("\x1b]5522;type=read:status=OK\x1b\\"), Some(ClipboardReply::Begun));
        // `aW1hZ2UvcG5n` is image/png.
        let data = "\x1b]5522;type=read:status=DATA:mime=aW1hZ2UvcG5n;aGk=\x1b\\";
        let png = ClipboardReply::Data { mime: "image/png".to_owned(), bytes: b"hi".to_vec() };
        assert_eq!(read(data), Some(png));
        assert_eq!(read("\x1b]5522;type=read:status=DONE\x07"), Some(ClipboardReply::Done));
        let refused = ClipboardReply::Refused("EPERM".to_owned());
        assert_eq!(read("\x1b]5522;type=read:status=EPERM\x1b\\"), Some(refused));
    }

    #[test]
    fn what_is_none_or_broken_is_nothing() {
        for text in [
            "\x1b]52;c;aGk=\x07",
            "\x1b]5522;type=write:status=DONE\x07",
            "\x1b]5522;type=read:status=DATA:mime=%%;aGk=\x07",
            "\x1b]5522;type=read:status=DATA:mime=aW1hZ2UvcG5n;%\x07",
            "\x1b]5522;\x07",
            "\x1b]5522;type=read:status=OK",
        ] {
            assert_eq!(ClipboardReply::read(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn what_is_asked_names_the_kinds() {
        assert_eq!(
            ask_for(&["image/png", "text/plain"]),
            "\x1b]5522;type=read;aW1hZ2UvcG5nIHRleHQvcGxhaW4=\x1b\\"
        );
    }
}
