//! Scripts of `sed` and `awk`, which can run programs and write files.

use super::super::expand::is_open;
use super::super::invocation::ProgramRun;
use super::grammar::{self, PathTarget};

/// Returns the files that a `sed` changes; nothing if it does more than edit text.
pub(super) fn sed<'a>(it: &ProgramRun<'a>) -> Option<Vec<PathTarget<'a>>> {
    let options = "-nErsuz -e: -i? --expression: --quiet --silent --regexp-extended --null-data \
         --separate --unbuffered --posix --debug --version --help --sandbox --in-place? \
         --line-length:";
    let line = grammar::read(it.arguments, options)?;
    let given: Vec<PathTarget<'a>> = line.values(&["e", "expression"]).collect();
    let mut files = line.operands.iter().copied();
    let script = if given.is_empty() {
        files.next().map(|script| script.text.clone()).unwrap_or_default()
    } else {
        // Several are read as lines of one.
        given.iter().map(|script| script.text).collect::<Vec<_>>().join("\n")
    };
    if is_open(&script) || !(Sed { text: script.as_bytes(), at: 0 }).only_edits() {
        return None;
    }
    // Some take an empty word for the suffix of the backup, and the next for the script.
    if script.is_empty() && line.has(&["i"]) {
        return None;
    }
    // A backup may be kept elsewhere: `-i../*`.
    if line.values(&["i", "in-place"]).any(|suffix| suffix.text.contains(['/', '*'])) {
        return None;
    }
    let in_place = line.has(&["i", "in-place"]);
    let changed = files.filter(|_| in_place);
    Some(changed.map(|file| PathTarget { replaced: true, ..PathTarget::whole(file) }).collect())
}

/// A `sed` script that is being read.
struct Sed<'a> {
    text: &'a [u8],
    at: usize,
}

impl Sed<'_> {
    /// Reads to the end; anything that is not understood is a no.
    fn only_edits(mut self) -> bool {
        loop {
            self.skip(b" \t\n;");
            if self.at >= self.text.len() {
                return true;
            }
            if self.command().is_none() {
                return false;
            }
        }
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.text.get(self.at).is_some_and(|byte| bytes.contains(byte)) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Reads one command with its addresses.
    fn command(&mut self) -> Option<()> {
        self.address()?;
        self.skip(b" \t");
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip(b" \t+~");
            self.address()?;
        }
        self.skip(b" \t!");
        match self.next()? {
            b'{' | b'}' | b'=' | b'd' | b'D' | b'g' | b'G' | b'h' | b'H' | b'n' | b'N' | b'p'
            | b'P' | b'x' | b'z' | b'F' => Some(()),
            b'q' | b'Q' | b'l' => {
                self.skip(b" \t0123456789");
                Some(())
            }
            b'#' | b'a' | b'i' | b'c' => {
                self.rest_of_text();
                Some(())
            }
            b'b' | b't' | b'T' | b':' => {
                while self.peek().is_some_and(|byte| !matches!(byte, b';' | b'\n' | b'}')) {
                    self.at += 1;
                }
                Some(())
            }
            b'y' => {
                let delimiter = self.next()?;
                self.until(delimiter)?;
                self.until(delimiter)
            }
            b's' => {
                let delimiter = self.next()?;
                self.until_regex_ends(delimiter)?;
                self.until(delimiter)?;
                while let Some(flag) = self.peek() {
                    match flag {
                        b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9' => self.at += 1,
                        b' ' | b'\t' | b'\n' | b';' | b'}' | b'#' => break,
                        // `e` runs what comes out, `w` writes it to a file.
                        _ => return None,
                    }
                }
                Some(())
            }
            // `e`, `w`, `W`, `r`, `R`, `v` and what nobody knows.
            _ => None,
        }
    }

    fn address(&mut self) -> Option<()> {
        match self.peek() {
            Some(b'0'..=b'9' | b'$') => {
                self.skip(b"0123456789$~");
                Some(())
            }
            Some(b'/') => {
                self.at += 1;
                self.until_regex_ends(b'/')?;
                self.skip(b"IM");
                Some(())
            }
            Some(b'\\') => {
                self.at += 1;
                let delimiter = self.next()?;
                self.until_regex_ends(delimiter)?;
                self.skip(b"IM");
                Some(())
            }
            _ => Some(()),
        }
    }

    /// Goes behind the delimiter that ends a regular expression. In brackets it
    /// means itself to some and the end to others, so there must be none.
    fn until_regex_ends(&mut self, delimiter: u8) -> Option<()> {
        loop {
            match self.next()? {
                b'\\' => {
                    self.next()?;
                }
                byte if byte == delimiter => return Some(()),
                b'[' => {
                    self.skip(b"^");
                    let mut first = true;
                    loop {
                        match self.next()? {
                            b']' if !first => break,
                            b'[' if matches!(self.peek(), Some(b':' | b'.' | b'=')) => {
                                let kind = self.next()?;
                                self.until(kind)?;
                                (self.next()? == b']').then_some(())?;
                            }
                            b'\n' | b'\\' => return None,
                            byte if byte == delimiter => return None,
                            _ => {}
                        }
                        first = false;
                    }
                }
                _ => {}
            }
        }
    }

    /// Goes behind the next delimiter that is not escaped.
    fn until(&mut self, delimiter: u8) -> Option<()> {
        loop {
            match self.next()? {
                b'\\' => {
                    self.next()?;
                }
                byte if byte == delimiter => return Some(()),
                _ => {}
            }
        }
    }

    /// Goes to the end of a text, which a backslash carries over a line.
    fn rest_of_text(&mut self) {
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return,
                _ => {}
            }
        }
    }
}

/// Reports whether an `awk` only reads and prints.
pub(super) fn awk(it: &ProgramRun<'_>) -> bool {
    let options = "stop -Fv: --version --help --posix --traditional --re-interval --csv";
    let Some(line) = grammar::read(it.arguments, options) else { return false };
    line.operands.first().is_none_or(|program| only_prints(&program.text))
}

/// Reports whether a program of awk's starts no other and writes to no file.
fn only_prints(program: &str) -> bool {
    if is_open(program) {
        return false;
    }
    let (code, ends_well) = without_texts(program);
    // What is left of these may begin a regular expression, which may hold a quote: texts are
    // not distinguished then.
    let unsure = code.contains('/');
    let code = if unsure { program } else { code.as_str() };
    let words = || program.split(|c: char| !c.is_alphanumeric() && c != '_');
    let runs = words().any(|word| matches!(word, "system" | "getline" | "close" | "fflush"));
    let pipes = code.replace("||", "").contains('|');
    ends_well && !runs && !pipes && !writes(code, unsure) && !code.contains('@')
}

/// Reports whether something is written to a file: where `print` writes to, and
/// not what is greater than something else.
fn writes(code: &str, unsure: bool) -> bool {
    let mut printing = false;
    for piece in code.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        printing |= matches!(word, "print" | "printf");
        // In a text, which may be one here, a semicolon ends nothing; nor does a line's end
        // after a comma.
        if piece.ends_with([';', '}']) && !unsure {
            printing = false;
        } else if piece.ends_with('>') && printing {
            return true;
        }
    }
    false
}

/// Returns the code without texts, comments and what is certainly a regular
/// expression, and whether all of them end.
fn without_texts(program: &str) -> (String, bool) {
    let mut code = String::new();
    let mut characters = program.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                code.push_str("\"\"");
                loop {
                    match characters.next() {
                        Some('\\') => {
                            characters.next();
                        }
                        Some('"') => break,
                        Some(_) => {}
                        None => return (code, false),
                    }
                }
            }
            '#' => {
                characters = characters.as_str().trim_start_matches(|c| c != '\n').chars();
            }
            '/' if begins_regex(&code)
                && let Some(rest) = after_regex(characters.as_str()) =>
            {
                code.push_str("\"\"");
                characters = rest.chars();
            }
            other => code.push(other),
        }
    }
    (code, true)
}

/// Reports whether a slash after this code cannot divide: there is nothing to divide.
fn begins_regex(code: &str) -> bool {
    let before = code.trim_end_matches([' ', '\t', '\n']);
    before.is_empty() || before.ends_with(['~', '(', ',', '!', '{', '}', ';', '&', '|'])
}

/// Returns what follows a regular expression. In brackets a slash means itself
/// to some and the end to others, so there must be none.
fn after_regex(text: &str) -> Option<&str> {
    let mut bracket = false;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next()?;
            }
            '\n' => return None,
            '/' => return (!bracket).then(|| &text[at + 1..]),
            '[' => bracket = true,
            ']' => bracket = false,
            _ => {}
        }
    }
    None
}
