//! Server-sent events, taken apart byte by byte as they come.

/// The longest line, and the longest event, that is taken.
pub(crate) const MAX_EVENT: usize = 16 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its `event` field; empty when there was none.
    pub(crate) name: String,
    /// Its `data` fields, joined by line feeds.
    pub(crate) data: String,
}

/// An event or a line longer than [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The state between two pieces of a stream.
#[derive(Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    after_carriage_return: bool,
    past_first_line: bool,
}

impl Parser {
    /// Takes the next bytes and hands each event that they complete to `each`,
    /// until that breaks off.
    pub(crate) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_carriage_return) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > MAX_EVENT {
                return Err(TooLong.into());
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_carriage_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line()? {
                each(event)?;
            }
        }
        Ok(())
    }

    /// Returns the event that the end of the stream left without its blank
    /// line, as some servers leave their last.
    pub(crate) fn finish(mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_line().ok()?;
        }
        self.end_event()
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLong> {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.past_first_line, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) if data.len() + value.len() >= MAX_EVENT => return Err(TooLong),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments (an empty field), `id` and `retry` say nothing to us.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| Event { name, data })
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
