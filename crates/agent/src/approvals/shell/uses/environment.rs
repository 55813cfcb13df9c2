//! Variables that decide what programs run, and those that are harmless to hand to one.
//!
//! What a program is handed must be known to be harmless. A variable of the
//! script's own is handed to nobody, unless the session has exported its name
//! before: those that are known to decide what runs are asked about anyway.

use super::WordList;
use crate::approvals::shell::expand::is_open;

/// Names that programs of the tables take code, options or other programs from.
const NAMES: WordList = WordList(
    "BASH_ENV ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 SHELL HOME EDITOR \
     VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE PERL5OPT PERL5LIB PERL5DB RUBYOPT \
     RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS \
     MAVEN_OPTS GRADLE_OPTS CLASSPATH MAKEFLAGS MAKEFILES GNUMAKEFLAGS MAKE CC CXX LD AR AS \
     CPP RUSTC RUSTDOC GOFLAGS GOROOT AWKPATH AWKLIBPATH TAR_OPTIONS RSYNC_RSH GCONV_PATH \
     TERMINFO INPUTRC CDPATH MAILPATH HISTFILE TMPDIR DOCKER_HOST DOCKER_CONFIG KUBECONFIG XDG_CONFIG_HOME ZDOTDIR PYTHONPATH \
     JAVA_HOME PSQLRC WGETRC CURL_HOME GEM_HOME GEM_PATH AWS_CONFIG_FILE",
);

/// Beginnings of such names.
const BEGINNINGS: WordList = WordList(
    "LD_ DYLD_ GIT_ PYTHON BASH_ npm_config_ NPM_CONFIG_ PIP_ VESTAL_ CARGO_ RUSTUP_ BUNDLE_",
);

/// Names that the shell gives a meaning of its own. What they are set to it works out
/// as a sum, commands in subscripts included; a number is harmless.
const WORKED_OUT: WordList = WordList(
    "RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME OPTIND HISTCMD LINENO UID EUID PPID BASHPID \
     GROUPS DIRSTACK FUNCNAME PIPESTATUS COMP_WORDBREAKS",
);

/// Ends of such names.
const ENDS: WordList = WordList(
    "_WRAPPER _RUNNER _LINKER _COMMAND _CMD _EDITOR _PAGER _SHELL _ASKPASS _PRELOAD _SSH FLAGS _CONFIG_PATH _OPTS",
);

/// Names of those whose values are programs.
const NAME_PROGRAMS: WordList = WordList(
    "SHELL EDITOR VISUAL PAGER MANPAGER BROWSER MAKE CC CXX LD AR AS CPP RUSTC RUSTDOC GIT_PAGER \
     GIT_EDITOR GIT_SEQUENCE_EDITOR RUSTC_WRAPPER CMAKE_C_COMPILER_LAUNCHER AWS_PAGER GH_PAGER",
);

/// Names that decide nothing, whatever their values.
const HARMLESS: WordList = WordList(
    "RUST_LOG RUST_BACKTRACE RUST_LIB_BACKTRACE RUST_TEST_THREADS RUST_MIN_STACK RUSTC_BOOTSTRAP \
     CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE CARGO_BUILD_JOBS NODE_ENV CI DEBUG \
     VERBOSE LANG LANGUAGE TZ TERM COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS \
     LINES PORT HOST JOBS GOOS GOARCH CGO_ENABLED GOMAXPROCS APP_ENV RAILS_ENV RACK_ENV MIX_ENV \
     FLASK_ENV SOURCE_DATE_EPOCH PROPTEST_CASES UPDATE_EXPECT DEBIAN_FRONTEND DOCKER_BUILDKIT \
     GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL \
     GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_LFS_SKIP_SMUDGE GIT_TRACE \
     PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING \
     PYTHONUTF8 PIP_NO_CACHE_DIR",
);

/// Values of the others that name nothing but a harmless program.
const PROGRAMS: [&str; 14] = [
    "",
    "cat",
    "true",
    ":",
    "less",
    "gcc",
    "clang",
    "cc",
    "g++",
    "clang++",
    "c++",
    "musl-gcc",
    "/bin/bash",
    "/bin/sh",
];

/// Directories that hold programs on most machines.
const PROGRAM_DIRS: WordList = WordList(
    "/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /usr/local/go/bin \
     /opt/homebrew/bin /snap/bin ~/.cargo/bin ~/.local/bin ~/go/bin ~/.bun/bin ~/.deno/bin \
     ~/bin",
);

/// Reports whether a variable with this value decides what programs run.
pub(in crate::approvals::shell) fn decides_what_runs(name: &str, value: &str) -> bool {
    let named = NAMES.has(name)
        || name == "PATH"
        || WORKED_OUT.has(name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end));
    named && !is_harmless(name, value)
}

/// Reports whether a program may be handed a variable with this value.
pub(in crate::approvals::shell) fn may_be_handed(name: &str, value: &str) -> bool {
    // No program takes anything from a single letter.
    let letter = name.len() == 1;
    letter
        || name.starts_with("LC_")
        || is_harmless(name, value)
        || !decides_what_runs(name, value) && is_plain(name, value)
}

/// Reports whether a value is a word of the project's own: it names no file, no option and
/// nothing that is read further.
fn is_plain(name: &str, value: &str) -> bool {
    let address = ["_URL", "_URI", "_DSN"].iter().any(|end| name.ends_with(end));
    let fits = |c: char| {
        c.is_ascii_alphanumeric()
            || "_.,:+@%".contains(c)
            || c == '-' && !value.starts_with('-')
            || address && "/?&=".contains(c)
    };
    value.chars().all(fits) && !(address && value.starts_with('/'))
}

fn is_harmless(name: &str, value: &str) -> bool {
    const WARNINGS: [&str; 6] = ["ignore", "error", "default", "always", "once", "module"];
    // Code of the project, which tests run anyway.
    let own = |dir: &str| !dir.starts_with(['/', '~']) && !dir.contains("..") && dir.is_ascii();
    match name {
        _ if WORKED_OUT.has(name) => value.chars().all(|c| c.is_ascii_digit()),
        "PATH" => value.split(':').all(is_program_dir),
        "PYTHONPATH" => value.split(':').all(own),
        // Another value names a module, which is loaded.
        "PYTHONWARNINGS" => WARNINGS.contains(&value),
        // Files that are built there are written, and may be lost.
        "CARGO_TARGET_DIR" => {
            own(value) && !is_open(value)
                || value.strip_prefix("/tmp/").is_some_and(|rest| own(rest) && !is_open(rest))
        }
        _ if HARMLESS.has(name) => true,
        _ if NAME_PROGRAMS.has(name) => PROGRAMS.contains(&value),
        _ if name.ends_with("FLAGS") => are_plain_flags(value),
        _ => false,
    }
}

/// Settings of the compiler's that choose no program and no file.
const CODEGEN: WordList = WordList(
    "opt-level target-cpu debuginfo lto codegen-units debug-assertions overflow-checks panic strip \
     incremental instrument-coverage force-frame-pointers relocation-model target-feature",
);

/// Reports whether a setting of `rustc -C` chooses no program and no file.
pub(super) fn is_plain_codegen(setting: &str) -> bool {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    CODEGEN.has(key)
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-,._".contains(&byte))
}

/// Reports whether flags of compilers load and run nothing: levels, warnings and definitions.
pub(super) fn are_plain_flags(flags: &str) -> bool {
    let plain = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let mut words = flags.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let known = match word {
            "-C" => words.next().is_some_and(is_plain_codegen),
            "-D" | "-A" | "-W" | "-F" => words.next().is_some_and(|lint| plain(lint, b"_:-")),
            "-g" | "-pipe" | "-fPIC" | "-pthread" => true,
            _ => {
                word.strip_prefix("-C").is_some_and(is_plain_codegen)
                    || ["-O", "-W", "-D", "-A", "-g"]
                        .iter()
                        .any(|flag| word.strip_prefix(flag).is_some_and(|rest| plain(rest, b"_-=")))
                    || word.strip_prefix("-std=").is_some_and(|rest| plain(rest, b"+"))
                    || word.strip_prefix("-march=").is_some_and(|rest| plain(rest, b"-"))
            }
        };
        if !known {
            return false;
        }
    }
    true
}

/// Reports whether programs may come from a directory: one of the usual, or a
/// package's own below `/opt`.
fn is_program_dir(dir: &str) -> bool {
    let dir = dir.trim_end_matches('/');
    let package = dir.starts_with("/opt/") && dir.ends_with("bin") && !dir.contains("..");
    PROGRAM_DIRS.has(dir) || package
}

/// Reports whether a program's path names what a plain name would.
pub(in crate::approvals::shell) fn is_system_program(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(dir, _)| is_program_dir(dir))
}
