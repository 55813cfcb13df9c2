//! Scripts of `sed` and `awk`, which can run programs and write files.

use super::super::expand::UNKNOWN;
use super::super::invocation::Invocation;

/// Reports whether a `sed` only reads and changes text.
pub(super) fn sed(it: &Invocation<'_>) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut words = it.texts();
    let mut operand = None;
    while let Some(word) = words.next() {
        match word {
            "-e" | "--expression" => scripts.extend(words.next()),
            "--quiet" | "--silent" | "--regexp-extended" | "--null-data" | "--separate"
            | "--unbuffered" | "--posix" | "--debug" | "--version" | "--help" | "--sandbox" => {}
            _ if word.starts_with("--in-place") => {}
            _ => match (word.strip_prefix("--expression="), word.strip_prefix('-')) {
                (Some(script), _) => scripts.push(script),
                (None, Some(letters)) if !letters.is_empty() => {
                    if let Some(end) =
                        letters.find(['e', 'i']).filter(|at| letters[*at..].starts_with('e'))
                    {
                        let joined = &letters[end + 1..];
                        if joined.is_empty() {
                            scripts.extend(words.next());
                        } else {
                            scripts.push(joined);
                        }
                    } else if !letters
                        .split('i')
                        .next()
                        .unwrap_or_default()
                        .chars()
                        .all(|c| "nErsuz".contains(c))
                    {
                        return false;
                    }
                }
                _ => {
                    operand.get_or_insert(word);
                }
            },
        }
    }
    if scripts.is_empty() {
        scripts.extend(operand);
    }
    // Several are read as lines of one.
    let script = scripts.join("\n");
    !script.contains(UNKNOWN) && Sed { text: script.as_bytes(), at: 0 }.only_edits()
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
                self.until(delimiter)?;
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
                self.until(b'/')?;
                self.skip(b"IM");
                Some(())
            }
            Some(b'\\') => {
                self.at += 1;
                let delimiter = self.next()?;
                self.until(delimiter)?;
                self.skip(b"IM");
                Some(())
            }
            _ => Some(()),
        }
    }

    /// Goes behind the next delimiter that is neither escaped nor in brackets.
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
pub(super) fn awk(it: &Invocation<'_>) -> bool {
    let mut words = it.texts();
    while let Some(word) = words.next() {
        match word {
            "-F" | "-v" => {
                words.next();
            }
            "--version" | "--help" | "--posix" | "--traditional" | "--re-interval" | "-W" => {}
            _ if word.starts_with("-F") || word.starts_with("-v") => {}
            // Programs in files, extensions, and options that name either.
            _ if word.starts_with('-') && word != "--" => return false,
            "--" => {}
            program => return only_prints(program),
        }
    }
    true
}

/// Reports whether a program of awk's starts no other and writes only to files
/// that it names.
fn only_prints(program: &str) -> bool {
    if program.contains(UNKNOWN) {
        return false;
    }
    let (code, ends_well) = without_texts(program);
    // A regular expression may hold a quote; where there may be one, texts are not told apart.
    let code = if code.contains('/') { program.to_owned() } else { code };
    let words = || program.split(|c: char| !c.is_alphanumeric() && c != '_');
    let runs = words().any(|word| matches!(word, "system" | "getline" | "close" | "fflush"));
    let pipes = code.replace("||", "").contains('|');
    // Where `print` writes to, and not what is greater than something else.
    let mut printing = false;
    let mut writes = false;
    for piece in code.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        printing |= matches!(word, "print" | "printf");
        if piece.ends_with(['\n', ';', '}']) {
            printing = false;
        } else if piece.ends_with('>') && printing {
            writes = true;
        }
    }
    ends_well && !runs && !pipes && !writes && !code.contains('@')
}

/// Returns the code without what stands between quotes, and whether all were closed.
fn without_texts(program: &str) -> (String, bool) {
    let mut code = String::new();
    let mut characters = program.chars();
    while let Some(character) = characters.next() {
        if character != '"' {
            code.push(character);
            continue;
        }
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
    (code, true)
}
