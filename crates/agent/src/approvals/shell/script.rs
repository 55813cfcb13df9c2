//! Shell text, taken apart into simple commands.

use super::scan::{self, OpenConstruct};
use super::sums;
use super::word::{self, InnerText, ShellWord, UnfinishedText, WordPart, is_name};

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScriptItem {
    /// A command with its arguments.
    Command(Simple),
    /// `|` or `|&`.
    Pipe,
    /// `&`.
    Background,
    /// `;` or the end of a line.
    End,
    /// `&&`: what follows runs if what came before did well.
    And,
    /// `||`.
    Or,
    /// `(`.
    Subshell,
    /// `)`.
    SubshellEnd,
    /// `{`.
    Group,
    /// `}`.
    GroupEnd,
    /// `done`, `fi` or `esac`.
    CompoundEnd,
    /// A function of this name is defined; what it does follows.
    Function(String),
    /// A variable gets one of these values after the other.
    Loop(String, Vec<ShellWord>),
    /// Words in which only substitutions matter.
    Words(Vec<ShellWord>),
    /// What stands between `[[` and `]]`.
    Test(Vec<ShellWord>),
}

/// A command as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Assignments, the program and its arguments.
    pub(super) words: Vec<ShellWord>,
    /// Where it reads from and writes to.
    pub(super) redirects: Vec<Redirect>,
}

/// Where a command reads from or writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// A file is written.
    Write(ShellWord),
    /// A file is read.
    Read(ShellWord),
    /// It reads a text.
    Text(ShellWord),
    /// It reads a text that follows.
    Heredoc {
        /// Which of [`ShellScript::heredocs`].
        index: usize,
        /// Whether nothing is expanded in it.
        quoted: bool,
    },
}

/// What was made of a script, and whether that is all of it.
#[derive(Debug, Default)]
pub(super) struct ShellScript {
    pub(super) items: Vec<ScriptItem>,
    /// Texts that follow commands, in their order.
    pub(super) heredocs: Vec<String>,
    pub(super) unfinished: bool,
    /// Whether something in it may run more than once, or not at all: loops,
    /// conditions, groups and functions.
    pub(super) compound: bool,
    /// Functions that are defined outside of all those, by where they stand in the items.
    outermost: Vec<usize>,
}

impl ShellScript {
    /// Reports whether it is one pipeline, so that its last command alone prints.
    pub(super) fn is_one_pipeline(&self) -> bool {
        self.items.iter().all(|item| matches!(item, ScriptItem::Command(_) | ScriptItem::Pipe))
    }

    /// Reports whether the function at this place of the items is defined for certain,
    /// and in this very shell.
    pub(super) fn defines_here(&self, at: usize, in_background: &[bool]) -> bool {
        let mut open = 0_usize;
        let end = self.items.iter().enumerate().skip(at + 1).find(|(_, item)| {
            match item {
                ScriptItem::Group | ScriptItem::Subshell => open += 1,
                ScriptItem::GroupEnd | ScriptItem::SubshellEnd => {
                    open = open.saturating_sub(1);
                    return open == 0;
                }
                _ => {}
            }
            false
        });
        self.outermost.contains(&at)
            && end.is_some_and(|(end, _)| {
                self.items.get(end + 1) != Some(&ScriptItem::Pipe) && !in_background[end]
            })
    }

    /// Says of each step whether the list it stands in runs in the background.
    pub(super) fn in_background(&self) -> Vec<bool> {
        let mut state = false;
        let mut all: Vec<bool> = self
            .items
            .iter()
            .rev()
            .map(|item| {
                match item {
                    ScriptItem::Background => state = true,
                    ScriptItem::End => state = false,
                    _ => {}
                }
                state
            })
            .collect();
        all.reverse();
        all
    }
}

/// Words after which another command begins.
const BEFORE_COMMAND: [&str; 9] =
    ["if", "then", "elif", "else", "do", "while", "until", "!", "coproc"];

/// Takes a script apart.
pub(super) fn parse(text: &str) -> ShellScript {
    let mut parser = ScriptParser { text, ..ScriptParser::default() };
    let unfinished = parser.run().is_err();
    parser.end_command();
    let ScriptParser { items, heredocs, compound, outermost, .. } = parser;
    ShellScript { items, heredocs, unfinished, compound, outermost }
}

struct PendingBody {
    delimiter: String,
    strips_tabs: bool,
}

#[derive(Default)]
struct ScriptParser<'a> {
    text: &'a str,
    at: usize,
    items: Vec<ScriptItem>,
    simple: Simple,
    pending: Vec<PendingBody>,
    heredocs: Vec<String>,
    /// `case`s that are open, and whether a pattern comes next.
    cases: Vec<bool>,
    compound: bool,
    /// How many loops, conditions, groups and subshells are open.
    blocks: usize,
    outermost: Vec<usize>,
}

impl ScriptParser<'_> {
    fn run(&mut self) -> Result<(), UnfinishedText> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            let next = self.text.as_bytes().get(self.at + 1).copied();
            if self.cases.last() == Some(&true) && self.pattern()? {
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if next == Some(b'\n') => self.at += 2,
                b'#' if self.starts_word() => {
                    let end = scan::find(self.text.as_bytes(), self.at, b'\n');
                    self.at = end.unwrap_or(self.text.len());
                }
                b'\n' => self.newline(),
                b';' => self.semicolon(),
                b'&' if next == Some(b'>') => self.redirect(self.at + 1)?,
                b'&' if next == Some(b'&') => self.operator(ScriptItem::And, 2),
                b'&' => self.operator(ScriptItem::Background, 1),
                b'|' if next == Some(b'|') => self.operator(ScriptItem::Or, 2),
                b'|' => self.operator(ScriptItem::Pipe, 1 + usize::from(next == Some(b'&'))),
                b'<' | b'>' if next != Some(b'(') => self.redirect(self.at)?,
                b'(' => self.parenthesis()?,
                b')' => {
                    self.close();
                    self.operator(ScriptItem::SubshellEnd, 1);
                }
                _ => self.word()?,
            }
        }
        Ok(())
    }

    fn starts_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        before.is_none_or(|b| matches!(b, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')'))
    }

    fn end_command(&mut self) {
        let simple = std::mem::take(&mut self.simple);
        if simple != Simple::default() {
            self.items.push(ScriptItem::Command(simple));
        }
    }

    fn operator(&mut self, item: ScriptItem, length: usize) {
        self.end_command();
        self.items.push(item);
        self.at += length;
    }

    fn newline(&mut self) {
        // These may be continued on the next line.
        let open =
            matches!(self.items.last(), Some(ScriptItem::Pipe | ScriptItem::And | ScriptItem::Or));
        if self.simple == Simple::default() && open {
            self.at += 1;
        } else {
            self.operator(ScriptItem::End, 1);
        }
        for PendingBody { delimiter, strips_tabs } in std::mem::take(&mut self.pending) {
            let (end, after) = scan::heredoc_end(self.text, self.at, &delimiter, strips_tabs);
            self.heredocs.push(self.text[self.at..end].to_owned());
            self.at = after;
        }
    }

    fn semicolon(&mut self) {
        let rest = &self.text[self.at..];
        let ends_branch = [";;&", ";;", ";&"].iter().find(|operator| rest.starts_with(**operator));
        match ends_branch {
            Some(operator) => {
                self.operator(ScriptItem::End, operator.len());
                if let Some(pattern) = self.cases.last_mut() {
                    *pattern = true;
                }
            }
            None => self.operator(ScriptItem::End, 1),
        }
    }

    /// Skips the pattern of a branch. Returns whether there was one.
    fn pattern(&mut self) -> Result<bool, UnfinishedText> {
        match self.text.as_bytes()[self.at] {
            b' ' | b'\t' | b'\r' | b'\n' | b'|' | b'(' => self.at += 1,
            b')' => {
                self.at += 1;
                if let Some(pattern) = self.cases.last_mut() {
                    *pattern = false;
                }
            }
            b'#' if self.starts_word() => {
                let end = scan::find(self.text.as_bytes(), self.at, b'\n');
                self.at = end.unwrap_or(self.text.len());
            }
            b';' | b'&' | b'<' | b'>' => {
                // No pattern looks like that: what follows is taken for commands.
                self.cases.pop();
                return Ok(false);
            }
            _ => {
                let (word, end) = word::read(self.text, self.at)?;
                self.at = end;
                if word.bare() == Some("esac") {
                    self.cases.pop();
                    self.close();
                    self.items.push(ScriptItem::CompoundEnd);
                } else {
                    self.items.push(ScriptItem::Words(vec![word]));
                }
            }
        }
        Ok(true)
    }

    fn parenthesis(&mut self) -> Result<(), UnfinishedText> {
        let array = self.simple.words.last().is_some_and(ShellWord::ends_as_assignment);
        let adjacent = self.at > 0 && self.text.as_bytes()[self.at - 1] == b'=';
        if array && adjacent {
            let end = scan::close(self.text, self.at + 1, OpenConstruct::Parenthesis)
                .ok_or(UnfinishedText)?;
            let values = &self.text[self.at + 1..end];
            let mut inner = word::inner(values);
            inner.sums.extend(sums::subscripts(values));
            if let Some(word) = self.simple.words.last_mut() {
                word.parts.push(WordPart::Opaque(inner));
            }
            self.at = end + 1;
            return Ok(());
        }
        if self.text.as_bytes().get(self.at + 1) == Some(&b'(')
            && self.simple == Simple::default()
            && let Some(end) = scan::close(self.text, self.at + 2, OpenConstruct::Parenthesis)
            && self.text.as_bytes().get(end + 1) == Some(&b')')
        {
            let sum = WordPart::Opaque(InnerText::sum(&self.text[self.at + 2..end]));
            self.items.push(ScriptItem::Words(vec![ShellWord { parts: vec![sum] }]));
            self.at = end + 2;
            return Ok(());
        }
        if let [name] = &self.simple.words[..]
            && self.simple.redirects.is_empty()
            && let Some(name) = name.bare().map(str::to_owned)
            && self.text[self.at + 1..].trim_start_matches([' ', '\t']).starts_with(')')
        {
            self.simple = Simple::default();
            self.compound = true;
            self.function(name);
            self.at = scan::find(self.text.as_bytes(), self.at, b')').map_or(self.at, |at| at + 1);
            return Ok(());
        }
        self.blocks += 1;
        self.operator(ScriptItem::Subshell, 1);
        Ok(())
    }

    fn word(&mut self) -> Result<(), UnfinishedText> {
        let (word, end) = word::read(self.text, self.at)?;
        if end == self.at {
            // Nothing that could be read is passed over in silence.
            return Err(UnfinishedText);
        }
        self.at = end;
        let first = self.simple.words.is_empty() && self.simple.redirects.is_empty();
        let opens = |text| {
            BEFORE_COMMAND.contains(&text) && text != "!"
                || matches!(text, "{" | "for" | "select" | "case" | "function")
        };
        self.compound |= first && word.bare().is_some_and(opens);
        match word.bare().filter(|_| first) {
            Some("if" | "while" | "until" | "for" | "select" | "case" | "{") => self.blocks += 1,
            Some("fi" | "done" | "esac" | "}") => self.close(),
            _ => {}
        }
        match word.bare() {
            Some(text) if first && BEFORE_COMMAND.contains(&text) => {}
            Some("{") if first => self.items.push(ScriptItem::Group),
            Some("}") if first => self.items.push(ScriptItem::GroupEnd),
            Some("done" | "fi") if first => self.items.push(ScriptItem::CompoundEnd),
            Some("esac") if first => {
                self.cases.pop();
                self.items.push(ScriptItem::CompoundEnd);
            }
            Some("for" | "select") if first => self.for_loop()?,
            Some("case") if first => self.case()?,
            Some("[[") if first => self.test()?,
            Some("function") if first => {
                let (name, end) = word::read(self.text, self.skip_blanks(self.at))?;
                self.at = end;
                let name = name.bare().unwrap_or_default().to_owned();
                self.function(name);
                let rest = self.text[self.at..].trim_start_matches([' ', '\t']);
                if rest.starts_with("()") {
                    self.at = self.text.len() - rest.len() + 2;
                }
            }
            _ => self.simple.words.push(word),
        }
        Ok(())
    }

    fn close(&mut self) {
        self.blocks = self.blocks.saturating_sub(1);
    }

    fn function(&mut self, name: String) {
        if self.blocks == 0 {
            self.outermost.push(self.items.len());
        }
        self.items.push(ScriptItem::Function(name));
    }

    fn skip_blanks(&self, mut at: usize) -> usize {
        while matches!(self.text.as_bytes().get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        at
    }

    /// Reads words up to the end of a line or a `;`.
    fn words(&mut self) -> Result<Vec<ShellWord>, UnfinishedText> {
        let mut words = Vec::new();
        loop {
            self.at = self.skip_blanks(self.at);
            let (word, end) = word::read(self.text, self.at)?;
            if end == self.at {
                return Ok(words);
            }
            self.at = end;
            words.push(word);
        }
    }

    fn for_loop(&mut self) -> Result<(), UnfinishedText> {
        let mut words = self.words()?.into_iter();
        let name = words.next().as_ref().and_then(ShellWord::bare).unwrap_or_default().to_owned();
        let values: Vec<ShellWord> = words.filter(|word| word.bare() != Some("in")).collect();
        self.items.push(ScriptItem::Loop(name, values));
        Ok(())
    }

    fn case(&mut self) -> Result<(), UnfinishedText> {
        let (subject, end) = word::read(self.text, self.skip_blanks(self.at))?;
        let mut at = end;
        while matches!(self.text.as_bytes().get(at), Some(b' ' | b'\t' | b'\n')) {
            at += 1;
        }
        let (keyword, end) = word::read(self.text, at)?;
        self.items.push(ScriptItem::Words(vec![subject]));
        self.at = end;
        if keyword.bare() == Some("in") {
            self.cases.push(true);
        }
        Ok(())
    }

    /// Reads `[[ … ]]`, in which no character separates commands.
    fn test(&mut self) -> Result<(), UnfinishedText> {
        let mut words = Vec::new();
        while self.at < self.text.len() {
            match self.text.as_bytes()[self.at] {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => {
                    self.at += 1;
                }
                _ => {
                    let (word, end) = word::read(self.text, self.at)?;
                    self.at = end.max(self.at + 1);
                    if word.bare() == Some("]]") {
                        self.items.push(ScriptItem::Test(words));
                        return Ok(());
                    }
                    words.push(word);
                }
            }
        }
        self.items.push(ScriptItem::Test(words));
        Err(UnfinishedText)
    }

    fn redirect(&mut self, at: usize) -> Result<(), UnfinishedText> {
        let rest = &self.text[at..];
        let number = |word: &ShellWord| {
            word.bare().is_some_and(|text| {
                text.bytes().all(|b| b.is_ascii_digit())
                    || text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).is_some_and(is_name)
            })
        };
        // A number right before it says which file descriptor is meant.
        let adjacent = self.at > 0 && !self.text.as_bytes()[self.at - 1].is_ascii_whitespace();
        if adjacent && self.simple.words.last().is_some_and(number) {
            self.simple.words.pop();
        }
        if let Some(after) = rest.strip_prefix("<<<") {
            let (word, end) = self.target(self.text.len() - after.len())?;
            self.simple.redirects.push(Redirect::Text(word));
            self.at = end;
            return Ok(());
        }
        if let Some(after) = rest.strip_prefix("<<") {
            let strips_tabs = after.starts_with('-');
            let from = self.text.len() - after.len() + usize::from(strips_tabs);
            let (delimiter, quoted, end) = scan::delimiter(self.text, from);
            let index = self.heredocs.len() + self.pending.len();
            self.pending.push(PendingBody { delimiter, strips_tabs });
            self.simple.redirects.push(Redirect::Heredoc { index, quoted });
            self.at = end;
            return Ok(());
        }
        let operators = [">>", ">|", ">&", "<>", "<&", ">", "<"];
        let operator = operators.iter().find(|operator| rest.starts_with(**operator));
        let operator = operator.copied().unwrap_or_default();
        let (word, end) = self.target(at + operator.len().max(1))?;
        self.at = end;
        let to_descriptor = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        let copies = operator.ends_with('&') && word.bare().is_some_and(to_descriptor);
        if copies {
            return Ok(());
        }
        let redirect = if operator == "<" || operator == "<&" {
            Redirect::Read(word)
        } else {
            Redirect::Write(word)
        };
        self.simple.redirects.push(redirect);
        Ok(())
    }

    fn target(&self, from: usize) -> Result<(ShellWord, usize), UnfinishedText> {
        let (word, end) = word::read(self.text, self.skip_blanks(from))?;
        if word.parts.is_empty() { Err(UnfinishedText) } else { Ok((word, end)) }
    }
}
