//! What is within a line: emphasis, code, links.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::markdown::blocks::RenderOptions;
use crate::markdown::stream::trimmed;
use crate::style::{self, Colour, Style};
use crate::text::{Line, Span};

/// Longer text is not treated as markup.
const LONGEST: usize = 64 * 1024;

/// Comes before the text, so that the parser sees a paragraph that continues, in which
/// no line is the beginning of another block.
const LEAD: &str = "x";
/// Comes before every line for the same reason; the parser leaves it out.
const INDENT: &str = "\n    ";

/// Text as it is shown.
#[derive(Debug)]
pub(super) struct Inline {
    /// The lines, as long as they are in the source.
    pub(super) lines: Vec<Line>,
    /// Whether a later line of the paragraph may change them.
    pub(super) open: bool,
}

/// Returns lines of a paragraph as they are shown.
pub(super) fn render<T: AsRef<str>>(source: &[T], options: RenderOptions, base: Style) -> Inline {
    let length: usize = source.iter().map(|line| line.as_ref().len()).sum();
    if length == 0 {
        let lines = source.iter().map(|_| Line::empty()).collect();
        return Inline { lines, open: false };
    }
    if length > LONGEST {
        let lines = source.iter().map(|line| Line::styled(line, base)).collect();
        return Inline { lines, open: false };
    }
    let mut text = String::with_capacity(length + LEAD.len() + source.len() * INDENT.len());
    text.push_str(LEAD);
    for line in source {
        text.push_str(INDENT);
        text.push_str(line.as_ref());
    }
    let mut writer = Writer::new(options, base);
    let mut marks = Marks::new(&text);
    for (event, range) in Parser::new_ext(&text, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        if range.start < LEAD.len() {
            // The lead itself, and the paragraph it began.
            continue;
        }
        if let Event::Text(_) = event {
            marks.look_at(range.clone());
        }
        writer.event(event, &text[range]);
    }
    Inline { lines: writer.finish(), open: marks.are_open() }
}

struct Writer {
    options: RenderOptions,
    lines: Vec<Line>,
    current: Line,
    styles: Vec<Style>,
    links: Vec<Link>,
}

/// A link that is being written.
struct Link {
    target: String,
    /// What has been written of it so far.
    shown: String,
}

impl Writer {
    fn new(options: RenderOptions, base: Style) -> Self {
        Self {
            options,
            lines: Vec::new(),
            current: Line::empty(),
            styles: vec![base],
            links: Vec::new(),
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn event(&mut self, event: Event<'_>, source: &str) {
        match event {
            Event::Start(tag) => self.start(tag, source),
            Event::End(tag) => self.end(tag, source),
            Event::Text(text) => self.text(&text),
            Event::InlineHtml(text) | Event::Html(text) => {
                // A tag may go over several lines.
                for (index, line) in text.lines().enumerate() {
                    if index > 0 {
                        self.line_break();
                    }
                    self.text(if index > 0 { line.trim_start() } else { line });
                }
            }
            Event::Code(code) => self.code(&code, source),
            // The end of the lead is the first of them.
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let style = self.style();
        self.write(text, style);
    }

    fn write(&mut self, text: &str, style: Style) {
        for link in &mut self.links {
            link.shown.push_str(text);
        }
        self.current.push(Span::new(text, style));
    }

    /// Writes a mark that is shown only without styles.
    fn mark(&mut self, mark: &str) {
        if self.options.colour == Colour::Off {
            self.current.push(Span::new(mark, self.style()));
        }
    }

    fn code(&mut self, code: &CowStr<'_>, source: &str) {
        // Over the end of a line the parser keeps the indent that it was given.
        let code: Cow<'_, str> = if source.contains('\n') {
            let code = source.trim_matches('`').replace(INDENT, " ");
            let inner = code.strip_prefix(' ').and_then(|code| code.strip_suffix(' '));
            inner.filter(|code| !code.trim().is_empty()).unwrap_or(&code).to_owned().into()
        } else {
            code.as_ref().into()
        };
        let marks = if code.contains('`') { "``" } else { "`" };
        self.mark(marks);
        let style = with(self.style(), style::CYAN);
        self.write(&code, style);
        self.mark(marks);
    }

    fn line_break(&mut self) {
        self.lines.push(trimmed(&std::mem::take(&mut self.current)));
    }

    fn start(&mut self, tag: Tag<'_>, source: &str) {
        match tag {
            Tag::Emphasis => self.push_style(style::ITALIC, "*"),
            Tag::Strong => self.push_style(style::BOLD, "**"),
            Tag::Strikethrough if source.starts_with("~~") => {
                self.push_style(style::STRUCK, "~~");
            }
            // One tilde is a home directory, or "about".
            Tag::Strikethrough => {
                self.text("~");
                self.push_style(style::PLAIN, "");
            }
            Tag::Link { link_type, dest_url, .. } => {
                let target = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}"),
                    _ => dest_url.into_string(),
                };
                self.links.push(Link { target, shown: String::new() });
                self.push_style(style::UNDERLINE, "");
            }
            Tag::Image { dest_url, .. } => {
                self.links.push(Link { target: dest_url.into_string(), shown: String::new() });
                self.push_style(style::UNDERLINE, "");
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, source: &str) {
        match tag {
            TagEnd::Emphasis => self.pop_style("*"),
            TagEnd::Strong => self.pop_style("**"),
            TagEnd::Strikethrough if source.starts_with("~~") => self.pop_style("~~"),
            TagEnd::Strikethrough => {
                self.pop_style("");
                self.text("~");
            }
            TagEnd::Link | TagEnd::Image => {
                self.pop_style("");
                if let Some(link) = self.links.pop() {
                    self.target(&link);
                }
            }
            _ => {}
        }
    }

    /// Writes where a link leads, unless its words say that already.
    fn target(&mut self, link: &Link) {
        let bare = link.target.strip_prefix("mailto:").unwrap_or(&link.target);
        let same = [&link.target, bare].contains(&link.shown.as_str());
        if same || link.target.is_empty() {
            return;
        }
        let style = with(self.style(), style::DIM);
        if link.shown.trim().is_empty() {
            self.current.push(Span::new(&link.target, style));
        } else {
            self.current.push(Span::new(format!(" ({})", link.target), style));
        }
    }

    fn push_style(&mut self, added: Style, mark: &str) {
        self.mark(mark);
        self.styles.push(with(self.style(), added));
    }

    fn pop_style(&mut self, mark: &str) {
        if self.styles.len() > 1 {
            self.styles.pop();
        }
        self.mark(mark);
    }

    fn finish(mut self) -> Vec<Line> {
        self.line_break();
        // The lead's own line.
        self.lines.remove(0);
        self.lines
    }
}

/// Returns a style with another one put over it.
fn with(style: Style, over: Style) -> Style {
    Style::new()
        .fg_color(over.get_fg_color().or(style.get_fg_color()))
        .effects(style.get_effects() | over.get_effects())
}

/// Looks for marks among what the parser took for mere text.
pub(super) struct Marks<'t> {
    source: &'t str,
    /// Up to where the source is a backslash and what it escapes.
    escaped: usize,
    /// How many `[` wait for their `]`.
    brackets: usize,
    open: bool,
}

impl<'t> Marks<'t> {
    pub(super) fn new(source: &'t str) -> Self {
        // At the end of a line that is not the last one, a backslash is left out.
        Self { source, escaped: 0, brackets: 0, open: source.ends_with('\\') }
    }

    pub(super) fn are_open(&self) -> bool {
        self.open || self.brackets > 0
    }

    /// Looks at text that is not part of anything, where it stands in the source.
    ///
    /// To take something for open that is not only delays lines, so this is less
    /// exact than the specification.
    pub(super) fn look_at(&mut self, range: Range<usize>) {
        let source = self.source;
        let mut before = source[..range.start].chars().next_back();
        // The parser begins another text behind the backslash of an escape, which
        // may itself be what another one escapes.
        let mut escape = before == Some('\\') && range.start > self.escaped;
        if range.start == self.escaped {
            before = Some('\\');
        }
        for (at, c) in source[range.clone()].char_indices() {
            let end = range.start + at + c.len_utf8();
            let after = &source[end..];
            if std::mem::take(&mut escape) {
                self.escaped = end;
                // A mark that follows is the first of its row.
                before = Some('\\');
                continue;
            }
            match c {
                '`' => self.open = true,
                // Of several in a row the first decides.
                '*' | '_' | '~' if before != Some(c) => {
                    let next = after.trim_start_matches(c).chars().next();
                    let within = c == '_' && before.is_some_and(char::is_alphanumeric);
                    self.open |= !within && next.is_some_and(|next| !next.is_whitespace());
                }
                '<' => {
                    let tag = |next: char| next.is_ascii_alphabetic() || "/!?".contains(next);
                    self.open |= after.starts_with(tag);
                }
                '[' => self.brackets += 1,
                ']' => {
                    self.brackets = self.brackets.saturating_sub(1);
                    self.open |= after.starts_with('(');
                }
                _ => {}
            }
            before = Some(c);
        }
    }
}
