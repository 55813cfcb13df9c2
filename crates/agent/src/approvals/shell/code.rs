//! Code of other languages that a command hands to their interpreters.

use super::Risk;
use super::expand::Argument;
use super::invocation::ProgramRun;
use super::prefix::base_name;
use super::understand::{FOREIGN_CODE, OTHER_USE};
use super::uses::{self, Brought, KnownProgram, PathTarget};
use super::walk::ScriptWalk;

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

impl ScriptWalk<'_> {
    /// Looks at code that an interpreter is handed.
    pub(super) fn code(&mut self, it: &ProgramRun<'_>, depth: usize) {
        let known = INTERPRETERS.iter().find(|(name, _)| {
            let rest = it.program.strip_prefix(name);
            rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        });
        let Some((_, options)) = known else { return };
        if it.program.starts_with("py") {
            self.python(it, depth);
            return;
        }
        let words: Vec<&str> = it.texts().collect();
        let at = words.iter().position(|word| options.contains(word) || is_combined(word, options));
        if let Some(at) = at {
            for code in words[at + 1..].iter().take(1) {
                self.judge_code(code, it, depth);
            }
            return;
        }
        // With more than that some of them go on to run it.
        if matches!(words.as_slice(), ["--version" | "-V" | "--help" | "-h" | "-v"]) {
            return;
        }
        let plain = |word: &&&str| {
            !word.starts_with('-') || word.starts_with("--test-") || **word == "--watch"
        };
        if let ["--test" | "--check", rest @ ..] = words.as_slice()
            && it.program == "node"
            && rest.iter().all(|word| plain(&word))
        {
            return self.tests(it);
        }
        let operand = it.operands().next();
        let deno_verb = it.program == "deno"
            && words.first().is_some_and(|verb| matches!(*verb, "fmt" | "lint" | "check" | "test"));
        if deno_verb {
            return self.tests(it);
        }
        self.script_file(operand, it, depth);
    }

    /// Tests and checks of the project, by the interpreter itself.
    fn tests(&mut self, it: &ProgramRun<'_>) {
        let files: Vec<PathTarget<'_>> = it.operands().map(PathTarget::code).collect();
        if self.brought > Brought::Nothing {
            self.asks(FOREIGN_CODE, it);
        }
        self.writes(&[PathTarget { code: true, ..PathTarget::here() }], it);
        self.writes(&files, it);
    }

    /// A script that is run, or read from the input where none is named.
    fn script_file(&mut self, script: Option<&Argument>, it: &ProgramRun<'_>, depth: usize) {
        match script {
            Some(script) if script.fetched => {
                self.find(super::run::PIPE_TO_SHELL, Risk::Dangerous, it.form(), false);
            }
            Some(script) if script.text != "-" => self.runs_file(script, it),
            _ => self.reads_program(it, depth),
        }
    }

    /// Python reads its own options up to the code, the module or the script;
    /// all that follows is theirs.
    fn python(&mut self, it: &ProgramRun<'_>, depth: usize) {
        const FLAGS: &str = "bBdEIOPqRsSuv";
        const WARNINGS: [&str; 6] = ["ignore", "error", "default", "always", "once", "module"];
        if let [only] = it.arguments
            && matches!(only.text.as_str(), "--version" | "-V" | "-VV" | "--help" | "-h")
        {
            return;
        }
        let mut at = 0;
        while let Some(word) = it.arguments.get(at) {
            at += 1;
            let text = word.text.as_str();
            if text == "-" || !text.starts_with('-') && !word.splits {
                return self.script_file(Some(word), it, depth);
            }
            let found = text.char_indices().skip(1).find(|(_, letter)| !FLAGS.contains(*letter));
            let Some((index, letter)) = found.filter(|_| !word.splits) else {
                if word.splits {
                    return self.asks(super::understand::OTHER_USE, it);
                }
                continue;
            };
            let joined = Some(&text[index + letter.len_utf8()..]).filter(|value| !value.is_empty());
            let value = joined.or_else(|| it.arguments.get(at).map(|next| next.text.as_str()));
            at += usize::from(joined.is_none());
            let value = value.unwrap_or_default();
            let rest = it.arguments.get(at..).unwrap_or_default();
            match letter {
                'c' => return self.judge_code(value, it, depth),
                'm' => return self.module(value, rest, it),
                'W' if WARNINGS.contains(&value) => {}
                'X' if matches!(value, "dev" | "utf8" | "importtime" | "faulthandler") => {}
                _ => return self.asks(super::understand::OTHER_USE, it),
            }
        }
        self.script_file(None, it, depth);
    }

    /// A module that Python runs.
    fn module(&mut self, module: &str, rest: &[Argument], it: &ProgramRun<'_>) {
        let inner = ProgramRun { program: module, arguments: rest, ..*it };
        match uses::look_at_module(&inner) {
            KnownProgram::Harmless(_) if self.shadows_module(it) => self.asks(OTHER_USE, it),
            KnownProgram::Harmless(written) => {
                self.works_on_project(module, it);
                self.writes(&written, it);
            }
            KnownProgram::OtherUse | KnownProgram::Unknown => {
                self.asks(super::understand::OTHER_USE, it);
            }
        }
    }

    /// Reports whether Python may load a file of the directory it runs in for a module of its own.
    fn shadows_module(&self, it: &ProgramRun<'_>) -> bool {
        let named = |path: &String| uses::is_standard(base_name(path));
        self.made.iter().any(named)
            || self.brought > Brought::Nothing
            || it.files_here().iter().any(|(name, is_dir)| {
                let loaded = [".py", ".pyc", ".so"].iter().any(|end| name.ends_with(end));
                let package = *is_dir && it.has_file(&format!("{name}/__init__.py"));
                (loaded || package) && uses::is_standard(name)
            })
    }

    /// Judges code: that it only computes must be seen.
    pub(super) fn judge_code(&mut self, code: &str, it: &ProgramRun<'_>, depth: usize) {
        if !EFFECTFUL.iter().any(|word| code.contains(word)) {
            let python = it.program.starts_with("py");
            let shadowed = || code.contains("import") && self.shadows_module(it);
            if !(python && uses::only_computes(code) && !shadowed()) {
                let form = format!("{} {}", it.program, code);
                let rule = super::understand::INLINE_CODE;
                self.find(rule, Risk::Dangerous, form, it.is_definite());
            }
            return;
        }
        let form = format!("{} {}", it.program, code);
        self.find(EFFECTS, Risk::Dangerous, form, it.is_definite());
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
