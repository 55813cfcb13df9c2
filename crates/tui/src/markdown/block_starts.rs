//! How blocks start, and the containers (quotes and list items) they are in.

/// Returns how far a text is indented, and the text behind that.
pub(super) fn indented(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches(' ');
    (text.len() - rest.len(), rest)
}

/// Returns the level and the words of a heading such as `## words`.
pub(super) fn heading(text: &str) -> Option<(usize, &str)> {
    let rest = text.trim_start_matches('#');
    let level = text.len() - rest.len();
    if !(1..=6).contains(&level) || !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let words = rest.trim();
    // Marks at the end close the heading if they stand alone.
    let without = words.trim_end_matches('#');
    let closed = without.is_empty() || without.ends_with(' ');
    Some((level, if closed { without.trim_end() } else { words }))
}

/// Returns the level of heading that a line makes of the paragraph above it.
pub(super) fn underline(text: &str) -> Option<usize> {
    let text = text.trim_end();
    let mark = text.chars().next()?;
    let level = match mark {
        '=' => 1,
        '-' => 2,
        _ => return None,
    };
    text.chars().all(|c| c == mark).then_some(level)
}

/// Returns whether a line is a rule.
pub(super) fn is_rule(text: &str) -> bool {
    let mut marks = text.chars().filter(|c| *c != ' ');
    let Some(first @ ('-' | '*' | '_')) = marks.next() else { return false };
    let mut count = 1;
    for mark in marks {
        if mark != first {
            return false;
        }
        count += 1;
    }
    count >= 3
}

/// The line that begins a block of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeFence {
    pub(super) mark: char,
    pub(super) length: usize,
    pub(super) indent: usize,
    pub(super) info: String,
}

impl CodeFence {
    /// Returns the marks, as written.
    pub(super) fn marks(&self) -> String {
        self.mark.to_string().repeat(self.length)
    }

    /// Returns whether a line ends the block.
    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let (indent, text) = indented(line);
        let rest = text.trim_start_matches(self.mark);
        indent <= 3 && text.len() - rest.len() >= self.length && rest.trim().is_empty()
    }
}

/// Returns the fence that a line begins with.
pub(super) fn fence(text: &str, indent: usize) -> Option<CodeFence> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let length = text.len() - rest.len();
    if length < 3 || (mark == '`' && rest.contains('`')) {
        return None;
    }
    Some(CodeFence { mark, length, indent, info: rest.trim().to_owned() })
}

/// What a list is marked with; a change of it begins another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMark {
    Bullet(char),
    Ordered(char),
}

/// The mark of a list's item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker<'t> {
    pub(super) kind: ListMark,
    pub(super) number: u64,
    /// From the mark's first column to the first of what belongs to the item.
    pub(super) offset: usize,
    /// The text after the marker.
    pub(super) rest: &'t str,
}

/// Returns the mark of the item that a line begins.
pub(super) fn item(text: &str) -> Option<Marker<'_>> {
    let first = text.chars().next()?;
    let (kind, number, after) = if matches!(first, '-' | '*' | '+') {
        (ListMark::Bullet(first), 1, &text[1..])
    } else {
        let after = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &text[..text.len() - after.len()];
        if digits.len() > 9 {
            return None;
        }
        let delimiter = after.chars().next().filter(|c| matches!(c, '.' | ')'))?;
        (ListMark::Ordered(delimiter), digits.parse().ok()?, &after[1..])
    };
    let mark = text.len() - after.len();
    let (spaces, words) = indented(after);
    match spaces {
        _ if words.is_empty() => Some(Marker { kind, number, offset: mark + 1, rest: "" }),
        0 => None,
        1..=4 => Some(Marker { kind, number, offset: mark + spaces, rest: words }),
        // So much space begins a block of code within the item.
        _ => Some(Marker { kind, number, offset: mark + 1, rest: &after[1..] }),
    }
}

/// Returns the label of a footnote that a line begins, with its brackets, and the
/// words behind it.
pub(super) fn footnote(text: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 32;
    let end = text.strip_prefix("[^")?.find(']')? + 2;
    let (label, rest) = text.split_at(end + 1);
    let rest = rest.strip_prefix(':')?;
    let plain = (4..=LONGEST).contains(&label.len()) && !label.contains(char::is_whitespace);
    plain.then(|| (label, rest.trim_start()))
}

/// What ends a block of HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Blank,
    Mark(&'static str),
}

impl Until {
    /// Returns whether a line has the mark that ends the block.
    pub(super) fn is_in(self, line: &str) -> bool {
        match self {
            Self::Blank => false,
            Self::Mark(mark) => {
                let bytes = line.as_bytes();
                bytes.windows(mark.len()).any(|part| part.eq_ignore_ascii_case(mark.as_bytes()))
            }
        }
    }
}

/// Returns what ends the block of HTML that a line begins.
pub(super) fn html(text: &str) -> Option<Until> {
    let rest = text.strip_prefix('<')?;
    if rest.starts_with("!--") {
        return Some(Until::Mark("-->"));
    }
    if rest.starts_with('?') {
        return Some(Until::Mark("?>"));
    }
    if rest.starts_with("![CDATA[") {
        return Some(Until::Mark("]]>"));
    }
    if rest
        .strip_prefix('!')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()))
    {
        return Some(Until::Mark(">"));
    }
    let (closing, rest) = match rest.strip_prefix('/') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    let name = rest[..rest.len() - after.len()].to_ascii_lowercase();
    if !(after.is_empty() || after.starts_with([' ', '>']) || after.starts_with("/>")) {
        return None;
    }
    if !closing {
        for (raw, end) in RAW {
            if name == raw {
                return Some(Until::Mark(end));
            }
        }
    }
    BLOCKS.contains(&name.as_str()).then_some(Until::Blank)
}

/// Elements in which nothing but their end means anything.
const RAW: [(&str, &str); 4] = [
    ("pre", "</pre>"),
    ("script", "</script>"),
    ("style", "</style>"),
    ("textarea", "</textarea>"),
];

/// Elements that are blocks, as the specification lists them.
const BLOCKS: [&str; 62] = [
    "address",
    "article",
    "aside",
    "base",
    "basefont",
    "blockquote",
    "body",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "iframe",
    "legend",
    "li",
    "link",
    "main",
    "menu",
    "menuitem",
    "nav",
    "noframes",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "search",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "track",
    "ul",
];

/// How deep blocks may be within each other; what is deeper is text. Nobody writes
/// so deep by intent, and each line costs work for every level.
pub(super) const DEEPEST: usize = 32;

/// A block that holds others and may still continue.
#[derive(Debug, Clone)]
pub(super) enum Container {
    Quote,
    Item(ListItem),
}

/// An item of a list, or a footnote.
#[derive(Debug, Clone)]
pub(super) struct ListItem {
    /// What the list is marked with; none for a footnote.
    pub(super) kind: Option<ListMark>,
    pub(super) number: u64,
    /// The column from which on text belongs to the item.
    offset: usize,
    /// The text before the item's first line.
    pub(super) mark: String,
    /// Whether the mark has been shown.
    pub(super) shown: bool,
    /// Whether nothing is in it so far. Such an item ends with a blank line.
    pub(super) bare: bool,
}

impl ListItem {
    /// Returns the item that a mark begins, as number `number` of its list.
    pub(super) fn of_list(marker: &Marker<'_>, number: u64, indent: usize) -> Self {
        let mark = match marker.kind {
            ListMark::Bullet(_) => "- ".to_owned(),
            ListMark::Ordered(delimiter) => format!("{number}{delimiter} "),
        };
        Self {
            kind: Some(marker.kind),
            number,
            offset: indent + marker.offset,
            // What is meant to be nested but is indented too little for that looks as
            // its author meant it.
            mark: " ".repeat(indent) + &mark,
            shown: false,
            bare: marker.rest.is_empty(),
        }
    }

    pub(super) fn of_footnote(label: &str, rest: &str) -> Self {
        Self {
            kind: None,
            number: 0,
            offset: 4,
            mark: format!("{label}: "),
            shown: false,
            bare: rest.is_empty(),
        }
    }
}

impl Container {
    /// Returns the rest of a line for the inner blocks, if the line continues this
    /// container.
    pub(super) fn continued<'t>(&self, line: &'t str) -> Option<&'t str> {
        let (indent, text) = indented(line);
        match self {
            Self::Quote => {
                let rest = text.strip_prefix('>').filter(|_| indent <= 3)?;
                Some(rest.strip_prefix(' ').unwrap_or(rest))
            }
            Self::Item(item) if text.is_empty() => {
                (!item.bare).then(|| &line[indent.min(item.offset)..])
            }
            Self::Item(item) => (indent >= item.offset).then(|| &line[item.offset..]),
        }
    }

    /// Returns how many columns stand before what is within.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item(item) => crate::text::width(&item.mark),
        }
    }
}
