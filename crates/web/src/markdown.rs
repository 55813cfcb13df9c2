//! HTML to Markdown, for models to read.
//!
//! One pass over the tokens, with a stack of the elements that matter and a bound on its depth:
//! what is nested a million times costs a million tokens and nothing more.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{HtmlString, StartTag, Token, Tokenizer};
use reqwest::Url;

/// Elements that are open at a time.
const DEEPEST: usize = 256;

/// Characters of the address of a link.
const LONGEST_LINK: usize = 500;

/// Characters of a title.
const LONGEST_TITLE: usize = 300;

/// Bytes that a page's main part has at least to stand for the page.
const LEAST_MAIN: usize = 200;

/// What became of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// Its title.
    pub title: String,
    /// Its text, as Markdown.
    pub text: String,
    /// Whether the text is its main part alone, without menus and the like.
    pub is_main_part: bool,
}

/// Converts a page. Links become whole addresses, based on that of the page. Of a page that says
/// which part is its main one only that is taken, unless `whole` is asked for.
pub fn to_markdown(html: &str, base: &Url, whole: bool) -> Converted {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut page = PageWriter::new(base);
    let tokens: Tokenizer<_, DefaultEmitter> = Tokenizer::new_with_emitter(html, emitter);
    for token in tokens {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => page.open(&tag),
            Token::EndTag(tag) => page.close(&text_of(&tag.name)),
            Token::String(text) => page.text(&text_of(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    page.end(whole)
}

fn text_of(text: &HtmlString) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// What an open element does.
#[derive(Debug)]
enum OpenElement {
    /// Hides what is in it; so many of the same name are open in it.
    Hidden {
        nested: usize,
    },
    Title,
    Heading,
    Preformatted,
    /// Marks before and after, such as `**`.
    Inline(&'static str),
    Link {
        url: String,
        start: usize,
    },
    Quote,
    List {
        next: Option<u64>,
    },
    Item,
    Table {
        rows: usize,
    },
    Row {
        cells: usize,
    },
    Cell,
    Main {
        start: usize,
    },
}

struct PageWriter<'a> {
    base: &'a Url,
    open: Vec<(String, OpenElement)>,
    hidden: bool,
    preformatted: usize,
    cells: usize,
    in_title: bool,
    title: String,
    out: String,
    /// Line breaks that come before the next word.
    breaks: usize,
    /// Whether a blank comes before the next word.
    blank: bool,
    /// What the lines of the open lists and quotes begin with.
    margins: Vec<Margin>,
    /// How many of them the last line had.
    written_margins: usize,
    main: Option<std::ops::Range<usize>>,
}

/// What the lines of a list's item or a quote begin with.
struct Margin {
    /// On its first line, until that is written.
    first: Option<String>,
    rest: String,
}

/// Elements whose text is not shown.
const UNSEEN: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas",
    "audio", "video", "select", "datalist", "dialog",
];

/// Elements that begin a paragraph of their own.
const BLOCKS: &[&str] = &[
    "p",
    "div",
    "section",
    "article",
    "header",
    "footer",
    "nav",
    "aside",
    "figure",
    "figcaption",
    "form",
    "fieldset",
    "address",
    "details",
    "summary",
    "dl",
    "hr",
    "body",
    "center",
    "main",
];

/// Elements that have no end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];

/// Elements that end where the next one begins, so that what hides one hides no more than it.
const UNENDED: &[&str] = &["p", "li", "td", "th", "tr", "dt", "dd", "option", "body", "html"];

impl<'a> PageWriter<'a> {
    fn new(base: &'a Url) -> Self {
        Self {
            base,
            open: Vec::new(),
            hidden: false,
            preformatted: 0,
            cells: 0,
            in_title: false,
            title: String::new(),
            out: String::new(),
            breaks: 0,
            blank: false,
            margins: Vec::new(),
            written_margins: 0,
            main: None,
        }
    }

    fn open(&mut self, tag: &StartTag<()>) {
        let name = text_of(&tag.name);
        if self.hidden {
            if let Some((hiding, OpenElement::Hidden { nested })) = self.open.last_mut()
                && *hiding == name
                && !tag.self_closing
            {
                *nested += 1;
            }
            return;
        }
        let attribute =
            |name: &str| tag.attributes.get(name.as_bytes()).map(|value| text_of(value));
        let is_foreign_void = tag.self_closing && matches!(name.as_str(), "svg" | "math");
        if is_foreign_void {
            return;
        }
        let may_hide = !VOID.contains(&name.as_str()) && !UNENDED.contains(&name.as_str());
        let style = attribute("style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
        let is_hidden = attribute("hidden").is_some()
            || style.contains("display:none")
            || style.contains("visibility:hidden");
        if UNSEEN.contains(&name.as_str()) || may_hide && is_hidden {
            self.hidden = true;
            self.open.push((name, OpenElement::Hidden { nested: 0 }));
            return;
        }
        match name.as_str() {
            "br" => self.line(),
            "hr" => {
                self.block();
                self.word("---");
                self.block();
            }
            "img" => self.picture(attribute("alt"), attribute("src")),
            _ if self.open.len() >= DEEPEST => self.begin_block(&name),
            _ => self.open_container(name, &attribute),
        }
    }

    fn open_container(&mut self, name: String, attribute: &dyn Fn(&str) -> Option<String>) {
        let element = match name.as_str() {
            "title" if self.title.is_empty() => {
                self.in_title = true;
                OpenElement::Title
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.block();
                let level = name.as_bytes().get(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.word(&"#".repeat(level));
                self.blank = true;
                OpenElement::Heading
            }
            "pre" => {
                self.block();
                self.word("```");
                self.breaks = self.breaks.max(1);
                self.preformatted += 1;
                OpenElement::Preformatted
            }
            "code" | "kbd" | "samp" | "tt" if self.preformatted == 0 => self.inline("`"),
            "strong" | "b" => self.inline("**"),
            "em" | "i" => self.inline("*"),
            "a" => match attribute("href").and_then(|href| self.link(&href)) {
                Some(url) => {
                    self.word("[");
                    OpenElement::Link { url, start: self.out.len() }
                }
                None => return,
            },
            "blockquote" => {
                self.block();
                self.margins.push(Margin { first: None, rest: "> ".to_owned() });
                OpenElement::Quote
            }
            "ul" | "menu" | "ol" => {
                let is_nested = self.is_open("li");
                if is_nested {
                    self.line();
                } else {
                    self.block();
                }
                let start = attribute("start").and_then(|start| start.parse().ok()).unwrap_or(1);
                OpenElement::List { next: (name == "ol").then_some(start) }
            }
            "li" => {
                self.close_within("li", &["ul", "ol", "menu"]);
                self.line();
                let list = self.open.iter_mut().rev().find_map(|(_, element)| match element {
                    OpenElement::List { next } => Some(next),
                    _ => None,
                });
                let marker = match list {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    _ => "- ".to_owned(),
                };
                let rest = " ".repeat(marker.len());
                self.margins.push(Margin { first: Some(marker), rest });
                OpenElement::Item
            }
            "dt" | "dd" => {
                self.line();
                return;
            }
            "table" => {
                self.block();
                OpenElement::Table { rows: 0 }
            }
            "tr" => {
                self.close_within("tr", &["table"]);
                self.end_line();
                OpenElement::Row { cells: 0 }
            }
            "td" | "th" if self.is_open("tr") => {
                self.close_within("td", &["tr", "table"]);
                self.close_within("th", &["tr", "table"]);
                self.word("|");
                self.blank = true;
                self.cells += 1;
                let row = self.open.iter_mut().rev().find_map(|(_, element)| match element {
                    OpenElement::Row { cells } => Some(cells),
                    _ => None,
                });
                if let Some(cells) = row {
                    *cells += 1;
                }
                OpenElement::Cell
            }
            "main" if self.main.is_none() && !self.is_open("main") => {
                self.block();
                OpenElement::Main { start: self.out.len() }
            }
            _ => return self.begin_block(&name),
        };
        self.open.push((name, element));
    }

    fn begin_block(&mut self, name: &str) {
        if BLOCKS.contains(&name) {
            self.block();
        }
    }

    fn close(&mut self, name: &str) {
        if self.hidden {
            if let Some((hiding, OpenElement::Hidden { nested })) = self.open.last_mut()
                && hiding == name
            {
                if *nested > 0 {
                    *nested -= 1;
                } else {
                    self.hidden = false;
                    self.open.pop();
                }
            }
            return;
        }
        if name == "p" || BLOCKS.contains(&name) && name != "main" {
            self.block();
            return;
        }
        if let Some(at) = self.open.iter().rposition(|(open, _)| open == name) {
            self.close_down_to(at);
        }
    }

    /// Closes an element if it is open within the nearest of others.
    fn close_within(&mut self, name: &str, bounds: &[&str]) {
        let nearest =
            self.open.iter().rposition(|(open, _)| open == name || bounds.contains(&open.as_str()));
        if let Some(at) = nearest
            && self.open.get(at).is_some_and(|(open, _)| open == name)
        {
            self.close_down_to(at);
        }
    }

    fn close_down_to(&mut self, at: usize) {
        while self.open.len() > at {
            if let Some((_, element)) = self.open.pop() {
                self.end_of(element);
            }
        }
    }

    fn end_of(&mut self, element: OpenElement) {
        match element {
            OpenElement::Hidden { .. } => self.hidden = false,
            OpenElement::Title => self.in_title = false,
            OpenElement::Preformatted => {
                self.preformatted -= 1;
                self.breaks = 1;
                self.word("```");
                self.block();
            }
            OpenElement::Inline(mark) => self.attach(mark),
            OpenElement::Link { url, start } => {
                if self.out.len() <= start {
                    // A link without words is none.
                    self.out.truncate(start.saturating_sub(1));
                } else {
                    self.attach(&format!("]({url})"));
                }
            }
            OpenElement::Quote => {
                self.end_margin();
                self.block();
            }
            OpenElement::List { .. } => {
                if self.is_open("li") {
                    self.line();
                } else {
                    self.block();
                }
            }
            OpenElement::Item => {
                self.end_margin();
                self.line();
            }
            OpenElement::Heading | OpenElement::Table { .. } => self.block(),
            OpenElement::Row { cells } => {
                if cells > 0 {
                    self.blank = true;
                    self.word("|");
                    let table = self.open.iter_mut().rev().find_map(|(_, element)| match element {
                        OpenElement::Table { rows } => Some(rows),
                        _ => None,
                    });
                    let is_first = table.is_some_and(|rows| {
                        *rows += 1;
                        *rows == 1
                    });
                    if is_first {
                        self.end_line();
                        self.word(&format!("|{}", " --- |".repeat(cells)));
                    }
                }
                self.end_line();
            }
            OpenElement::Cell => {
                self.cells -= 1;
                self.blank = true;
            }
            OpenElement::Main { start } => {
                self.main = Some(start..self.out.len());
                self.block();
            }
        }
    }

    fn is_open(&self, name: &str) -> bool {
        self.open.iter().any(|(open, _)| open == name)
    }

    fn inline(&mut self, mark: &'static str) -> OpenElement {
        self.word(mark);
        OpenElement::Inline(mark)
    }

    fn link(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let is_shown = matches!(url.scheme(), "http" | "https" | "mailto");
        (is_shown && url.as_str().len() <= LONGEST_LINK).then(|| url.to_string())
    }

    fn picture(&mut self, alt: Option<String>, src: Option<String>) {
        let alt = alt.unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        if alt.is_empty() {
            return;
        }
        match src.and_then(|src| self.link(&src)) {
            Some(url) => self.word(&format!("![{alt}]({url})")),
            None => self.word(&alt),
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden {
            return;
        }
        if self.in_title {
            if self.title.len() < LONGEST_TITLE {
                self.title.push_str(text);
            }
            return;
        }
        if self.preformatted > 0 {
            for (at, line) in text.split('\n').enumerate() {
                self.breaks += usize::from(at > 0);
                self.word(line.trim_end_matches('\r'));
            }
            return;
        }
        let begins_blank = text.starts_with(char::is_whitespace);
        self.blank |= begins_blank && self.breaks == 0;
        for (at, word) in text.split_whitespace().enumerate() {
            self.blank |= at > 0;
            self.word(word);
        }
        self.blank |= text.ends_with(char::is_whitespace) && self.breaks == 0;
    }

    /// Writes a word, after the breaks or the blank that are due.
    fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        if self.out.is_empty() {
            self.margin();
        } else if self.breaks > 0 {
            for _ in 1..self.breaks {
                self.out.push('\n');
                self.empty_margin();
            }
            self.out.push('\n');
            self.margin();
        } else if self.blank && !self.out.ends_with([' ', '[']) {
            self.out.push(' ');
        }
        self.breaks = 0;
        self.blank = false;
        self.out.push_str(word);
    }

    /// Writes what belongs to the word before it.
    fn attach(&mut self, mark: &str) {
        let (blank, breaks) = (self.blank, self.breaks);
        self.blank = false;
        self.breaks = 0;
        if self.out.ends_with(mark) && !mark.starts_with(']') {
            // Nothing was in between.
            self.out.truncate(self.out.len() - mark.len());
        } else {
            self.word(mark);
        }
        self.blank = blank;
        self.breaks = breaks;
    }

    fn margin(&mut self) {
        for margin in &mut self.margins {
            let text = margin.first.take();
            self.out.push_str(text.as_deref().unwrap_or(&margin.rest));
        }
        self.written_margins = self.margins.len();
    }

    fn end_margin(&mut self) {
        self.margins.pop();
        self.written_margins = self.written_margins.min(self.margins.len());
    }

    fn empty_margin(&mut self) {
        // Of those that begin or end here, a line between has none.
        let both = self.margins.iter().take(self.written_margins);
        let margins: String = both.map(|margin| margin.rest.as_str()).collect();
        self.out.push_str(margins.trim_end());
    }

    /// A new line, unless a cell of a table is open.
    fn line(&mut self) {
        if self.cells > 0 { self.blank = true } else { self.end_line() }
    }

    fn end_line(&mut self) {
        self.breaks = self.breaks.max(1);
        self.blank = false;
    }

    /// A new paragraph, unless a cell of a table is open.
    fn block(&mut self) {
        // An item begins on the line of its mark.
        let is_beginning = self.margins.last().is_some_and(|margin| margin.first.is_some());
        if self.cells > 0 {
            self.blank = true;
        } else {
            let breaks = if is_beginning { 1 } else { 2 };
            self.breaks = self.breaks.max(breaks);
            self.blank = false;
        }
    }

    fn end(mut self, whole: bool) -> Converted {
        self.close_down_to(0);
        let main = self.main.clone().filter(|main| !whole && main.len() >= LEAST_MAIN);
        let text = main.as_ref().and_then(|main| self.out.get(main.clone()));
        let is_main_part = text.is_some();
        let text = text.unwrap_or(&self.out).trim().to_owned();
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = title.chars().take(LONGEST_TITLE).collect();
        Converted { title, text, is_main_part }
    }
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
