//! Code of other languages that a command hands to their interpreters.

use super::Severity;
use super::invocation::Invocation;
use super::walk::Walk;

pub(super) const EFFECTS: (&str, &str) =
    ("script-effects", "runs code that removes files or starts programs");

/// Interpreters, and the options after which code stands.
const INTERPRETERS: [(&str, &[&str]); 8] = [
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "--eval", "-p", "--print"]),
    ("deno", &["eval"]),
    ("php", &["-r"]),
    ("lua", &["-e"]),
];

/// What code does that removes files or starts programs, in its own words.
const EFFECTFUL: [&str; 36] = [
    "rmtree",
    "os.remove",
    "os.unlink",
    ".unlink(",
    "os.rmdir",
    "os.removedirs",
    "os.system",
    "os.popen",
    "os.exec",
    "os.spawn",
    "os.kill",
    "subprocess",
    "pty.spawn",
    "child_process",
    "rmSync",
    "unlinkSync",
    "rmdirSync",
    "fs.rm",
    "fs.unlink",
    "execSync",
    "spawnSync",
    "FileUtils.rm",
    "File.delete",
    "Dir.rmdir",
    "shell_exec",
    "passthru(",
    "proc_open",
    "system(",
    "system ",
    "exec(",
    "unlink ",
    "unlink(",
    "rmdir ",
    "Deno.remove",
    "os.execute",
    "__import__",
];

/// What starts programs by shell text.
const SHELL_CALLS: [&str; 9] = [
    "os.system",
    "os.popen",
    "subprocess",
    "child_process",
    "execSync",
    "system",
    "shell_exec",
    "os.execute",
    "exec",
];

impl Walk<'_> {
    /// Looks at code that an interpreter is handed.
    pub(super) fn code(&mut self, it: &Invocation<'_>, depth: usize) {
        let known = INTERPRETERS.iter().find(|(name, _)| {
            let rest = it.program.strip_prefix(name);
            rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        });
        let Some((_, options)) = known else { return };
        let words: Vec<&str> = it.texts().collect();
        let at = words.iter().position(|word| options.contains(word) || is_combined(word, options));
        if let Some(at) = at {
            for code in words[at + 1..].iter().take(1) {
                self.judge_code(code, it, depth);
            }
            return;
        }
        let operand = it.operands().next();
        if operand.is_some_and(|script| script.fetched) {
            let (rule, severity) = (super::run::PIPE_TO_SHELL, Severity::Dangerous);
            self.find(rule, severity, it.form(), false);
        } else if operand.is_none_or(|script| script.text == "-") && !it.has("mVh", "version") {
            self.reads_program(it, depth);
        }
    }

    /// Judges code by what it names: reading and computing is nobody's business.
    pub(super) fn judge_code(&mut self, code: &str, it: &Invocation<'_>, depth: usize) {
        if !EFFECTFUL.iter().any(|word| code.contains(word)) {
            return;
        }
        let form = format!("{} {}", it.program, code);
        self.find(EFFECTS, Severity::Dangerous, form, it.is_definite());
        if SHELL_CALLS.iter().any(|word| code.contains(word)) {
            for text in literals(code) {
                self.script(text, depth + 1);
            }
        }
    }
}

/// Reports whether short options are written as one word whose last is meant.
fn is_combined(word: &str, options: &[&str]) -> bool {
    let Some(letters) = word.strip_prefix('-').filter(|letters| letters.len() > 1) else {
        return false;
    };
    !letters.starts_with('-')
        && letters.bytes().all(|b| b.is_ascii_alphanumeric())
        && options.iter().any(|option| option.len() == 2 && letters.ends_with(&option[1..]))
}

/// Returns the texts between quotes that could be shell text: a few, and none too long.
fn literals(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\''])
        && found.len() < 64
    {
        let quote = rest.as_bytes()[at];
        let inner = &rest[at + 1..];
        let Some(end) = inner.find(char::from(quote)) else { break };
        let text = &inner[..end];
        if text.contains(' ') && text.len() < 4096 {
            found.push(text);
        }
        rest = &inner[end + 1..];
    }
    found
}
