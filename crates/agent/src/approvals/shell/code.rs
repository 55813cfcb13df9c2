//! Code of other languages that a command hands to their interpreters.

use super::Severity;
use super::invocation::Invocation;
use super::uses;
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
        if it.texts().any(|text| matches!(text, "--version" | "-V" | "--help" | "-h" | "-v"))
            && it.operands().next().is_none()
            || it.program == "node" && matches!(words.first(), Some(&("--test" | "--check")))
        {
            return;
        }
        if let ["-m", module, rest @ ..] = words.as_slice() {
            self.module(module, rest, it);
            return;
        }
        let operand = it.operands().next();
        let deno_verb = it.program == "deno"
            && operand.is_some_and(|verb| {
                matches!(verb.text.as_str(), "fmt" | "lint" | "check" | "test")
            });
        if deno_verb {
            return;
        }
        if operand.is_some_and(|script| script.fetched) {
            let (rule, severity) = (super::run::PIPE_TO_SHELL, Severity::Dangerous);
            self.find(rule, severity, it.form(), false);
        } else if operand.is_none_or(|script| script.text == "-") {
            self.reads_program(it, depth);
        } else if let Some(script) = operand {
            self.runs_file(script, it);
        }
    }

    /// A module that Python runs.
    fn module(&mut self, module: &str, rest: &[&str], it: &Invocation<'_>) {
        let known = match module {
            "pip" => {
                matches!(rest.first(), Some(&("install" | "list" | "show" | "freeze" | "check")))
                    && !rest.iter().any(|word| word.contains("://") || word.starts_with("git+"))
            }
            "http.server" => rest.iter().all(|word| word.bytes().all(|b| b.is_ascii_digit())),
            "coverage" => !rest.contains(&"run") || rest.contains(&"pytest"),
            module => uses::is_known_module(module),
        };
        if !known {
            self.asks(super::understand::OTHER_USE, it);
        }
    }

    /// Judges code: that it only computes must be seen.
    pub(super) fn judge_code(&mut self, code: &str, it: &Invocation<'_>, depth: usize) {
        if !EFFECTFUL.iter().any(|word| code.contains(word)) {
            let python = it.program.starts_with("py");
            if !(python && uses::only_computes(code)) {
                let form = format!("{} {}", it.program, code);
                let rule = super::understand::INLINE_CODE;
                self.find(rule, Severity::Dangerous, form, it.is_definite());
            }
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
